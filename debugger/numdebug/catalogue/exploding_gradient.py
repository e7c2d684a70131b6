"""gradients or states that grow layer by layer, or step by step

What happens
    Each layer, time step or integration step multiplies by a factor above 1. After enough of them the numbers pass the end of the
    format in an operation that is innocent: a product, a sum, a convolution.
Why it matters
    No single line is written badly, so guarding the one where inf appears only moves the failure to the next.
How we know
    A product or sum overflowed in a format as wide as float32, no naive form contains it, nothing brings the value back into range,
    and the loss had not been growing from step to step. Or values or derivatives grew by a steady factor, a thousandfold over five or
    more layers, in the first step of a run that then failed or stalled, or in the last one of a run whose loss never fell.
Not this
    A loss that grew for steps before it failed (`learning-rate-divergence`); float16 (`float16-overflow`); a square under a root.
Fix
    Normalise between layers, scale the initial weights, clip by norm, or shorten the recurrence.
Read on
    Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, ICML 2013.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Above, Anywhere, Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    if b.kind == "growing-state":
        values = f"from {number(b['first_size'])} to {number(b['last_size'])}"
        return f"each of {b['passes']} passes through this line makes the state {number(b['factor'])} times larger, {values}"
    if b.kind == "gradient-flow":
        values = f"values from {number(b['first_size'])} to {number(b['last_size'])}"
        back = f"derivatives from {number(b['last_gradient'])} at the last to {number(b['first_gradient'])} at the first"
        when = "in the first step" if b["first"] else "in the last recorded step"
        return f"{when} {b['layers']} layers grow {number(b['factor'])}x a layer: {values}, {back}"
    largest = max(abs(b["largest_input"] or 0.0), abs(b["smallest_input"] or 0.0))
    return f"{b['op']} was given values up to {number(largest, 4)} and its result does not fit {b['dtype']}, {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair | None:
    e = hits[0][0]
    if e.kind != "gradient-flow" or e["gain"] is None:
        return None
    return repair_ops("initial_scale", "scale the initial weights by the number of inputs", hits, "rewrite", gain=e["factor"])


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


# What grows past the end of a wide format without a naive form in it.
_OVERFLOW = birth(
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
) & ~form("softmax", "logsumexp", "root-of-squares", "log-of-product")
_GROWING_LOSS = seen("loss-history", failed=True, growing_steps=Above(1), growth=Above(10))
_GROWING_STATE = seen("growing-state") & ~Anywhere(seen("swinging-state"))
_AT_START = seen("gradient-flow", trend="growing", first=True)
_AT_END = seen("gradient-flow", trend="growing", first=False)


bug = Bug(
    id="exploding-gradient",
    title="values or gradients that grow from layer to layer",
    family="gradient",
    when=(_GROWING_STATE & Anywhere(_OVERFLOW))
    | (_OVERFLOW & ~Anywhere(_GROWING_LOSS))
    | (_AT_START & Anywhere(_OVERFLOW)) | (_AT_START & Anywhere(seen("stalled"))) | _AT_END,
    because=_because,
    fix="normalise between layers, scale the initial weights, or clip by norm",
    repair=_repair,
    explains=("learning-rate-divergence", "dead-relu", "vanishing-gradient"),
    symptoms=("loss becomes NaN", "loss is inf", "loss stuck", "gradient norm explodes"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="लेयर-दर-लेयर बढ़ते मान या ग्रेडिएंट",
        symptoms=(
            "loss NaN हो जाता है",
            "loss inf आता है",
            "loss अटका रहता है",
            "ग्रेडिएंट का norm बेकाबू बढ़ता है (explode)",
        ),
        fix="लेयरों के बीच normalise करें, शुरुआती weights को scale करें, या norm से clip करें",
        what=(
            "हर लेयर या हर time step 1 से बड़े गुणक से गुणा करता है, और काफ़ी बार के बाद संख्याएँ फ़ॉर्मैट की सीमा किसी "
            "बेक़सूर ऑपरेशन (गुणा, योग, convolution) में पार करती हैं। कोई एक लाइन ग़लत नहीं लिखी है, इसलिए जहाँ inf दिखा "
            "वहाँ बचाव लगाने से ख़राबी बस अगली लाइन पर खिसक जाती है।"
        ),
        fixes={
            "scale the initial weights by the number of inputs": "शुरुआती weights को इनपुट की संख्या के हिसाब से scale करें",
        },
        measured=("मान का आकार {first_size} से बढ़कर {last_size} हो गया",),
    ),
)
