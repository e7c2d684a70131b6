"""gradients that shrink layer by layer

What happens
    Each layer or time step multiplies the gradient by a factor below 1: at most 1/4 for a sigmoid, the weights' scale for any layer.
    After a dozen of them the first layers get a millionth of what the last one gets.
Why it matters
    Early layers stay as random as they were initialised. The loss stops at what a constant guess gives.
How we know
    Along a path of at least five layers the derivative falls by a steady factor to less than a ten-thousandth, in the last recorded step
    or from the first on, and the loss does not move.
Not this
    Weights that saturate the activations at the start (saturated-init); dead ReLUs, where the gradient is exactly 0; float16; a loss
    that has arrived.
Fix
    ReLU or GELU with kaiming initialisation, residual connections, normalisation between layers; gates or shorter sequences in a
    recurrence.
Read on
    Bengio, Simard, Frasconi: Learning long-term dependencies with gradient descent is difficult, IEEE Trans. Neural Networks 5 (1994).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    cause = f" through {e['activation']}" if e["activation"] else ""
    span = f"from {number(e['last_gradient'])} at the last layer to {number(e['first_gradient'])} at the first"
    loss = f"; the loss went from {number(e['first_loss'])} to {number(e['late_loss'])}" if e["first_loss"] is not None else ""
    return f"the derivative shrinks {number(e['factor'])}x a layer{cause} over {e['layers']} layers, {span}{loss}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(10))
head = nn.Linear(16, 1)
optimizer = torch.optim.SGD([*layers.parameters(), *head.parameters()], lr=0.02)
x = torch.randn(128, 16)
y = x[:, :1].tanh()

for step in range(60):
    hidden = x
    for layer in layers:
        hidden = torch.sigmoid(layer(hidden))  # here
    loss = (head(hidden) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item(), layers[0].weight.grad.norm().item())
"""

FIXED = BROKEN.replace("torch.sigmoid(layer(hidden))  # here", "hidden + 0.3 * torch.relu(layer(hidden))")


_AT_END = seen("gradient-flow", trend="shrinking", first=False)

bug = Bug(
    id="vanishing-gradient",
    title="gradients that shrink layer by layer",
    family="gradient",
    when=(_AT_END | (seen("gradient-flow", trend="shrinking", first=True) & Anywhere(seen("stalled")) & ~Anywhere(_AT_END)))
    & ~Anywhere(seen("symptom")),
    because=_because,
    fix="use ReLU or GELU with kaiming initialisation, residual connections, or normalisation between layers",
    symptoms=("loss stuck", "loss stuck at log(C)", "early layers do not learn", "gradient is tiny"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="लेयर-दर-लेयर सिकुड़ते ग्रेडिएंट",
        symptoms=(
            "loss अटका रहता है",
            "loss log(C) पर अटका रहता है",
            "शुरुआती लेयर नहीं सीखतीं",
            "ग्रेडिएंट बहुत ही छोटा है",
        ),
        fix=(
            "kaiming initialisation के साथ ReLU या GELU, residual connections, या लेयरों के बीच normalisation इस्तेमाल "
            "करें"
        ),
        what=(
            "हर लेयर या time step ग्रेडिएंट को 1 से छोटे गुणक से गुणा करता है (sigmoid में ज़्यादा से ज़्यादा 1/4), और "
            "दर्जन भर के बाद पहली लेयरों तक उसका दस लाखवाँ हिस्सा पहुँचता है। शुरुआती लेयर वैसी ही random रहती हैं जैसी "
            "initialise हुई थीं, और loss वहीं रुकता है जहाँ एक स्थिर अनुमान पहुँचा देता।"
        ),
        measured=("{layers} लेयरों में derivative {last_gradient} से घटकर {first_gradient} रह गया",),
    ),
)
