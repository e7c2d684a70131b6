"""gradients or states that grow layer by layer, or step by step, until they leave the format

What happens
    Each layer, time step or integration step multiplies by a factor above 1. After enough of them the numbers pass the end of the
    format in an operation that is innocent: a product, a sum, a convolution.
Why it matters
    No single line is written badly, so guarding the one where inf appears only moves the failure to the next.
How we know
    A product or sum overflowed in a format as wide as float32, no naive form contains it, nothing brings the value back into range,
    and the loss had not been growing from step to step.
Not this
    A loss that grew for steps before it failed (`learning-rate-divergence`); float16 (`float16-overflow`); a square under a root.
Fix
    Normalise between layers, scale the initial weights, clip by norm, or shorten the recurrence.
Read on
    Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, ICML 2013.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug
from numdebug.catalogue._words import number, reaches
from numdebug.rules import Above, Anywhere, Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    largest = max(abs(b["largest_input"] or 0.0), abs(b["smallest_input"] or 0.0))
    return f"{b['op']} was given values up to {number(largest, 4)} and its result does not fit {b['dtype']}, {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(60))
for layer in layers:
    nn.init.normal_(layer.weight, std=1.0)
x = torch.randn(8, 64)

hidden = x
for layer in layers:
    hidden = torch.relu(layer(hidden))  # here
loss = hidden.mean()
loss.backward()
print(loss.item(), layers[0].weight.grad.norm().item())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(60))
for layer in layers:
    nn.init.kaiming_normal_(layer.weight)
x = torch.randn(8, 64)

hidden = x
for layer in layers:
    hidden = torch.relu(layer(hidden))
loss = hidden.mean()
loss.backward()
print(loss.item(), layers[0].weight.grad.norm().item())
"""


bug = Bug(
    id="exploding-gradient",
    title="values that grow from layer to layer until they overflow",
    family="gradient",
    when=birth(
        op=(
            "matmul",
            "conv",
            "add",
            "sub",
            "mul",
            "sum",
            "mean",
            "cumsum",
            "cumprod",
            "prod",
            "mse_loss",
            "baddbmm",
            "pow",
            "square",
            "addcmul",
            "div",
        ),
        born="overflow",
        dtype=("float32", "float64", "bfloat16"),
        returns=False,
        optimizer=False,
    )
    & ~form("softmax", "logsumexp", "root-of-squares", "log-of-product")
    & ~Anywhere(seen("loss-history", failed=True, growing_steps=Above(1), growth=Above(10))),
    because=_because,
    fix="normalise between layers, scale the initial weights, or clip by norm",
    symptoms=("loss becomes NaN", "loss is inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
)
