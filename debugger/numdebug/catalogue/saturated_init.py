"""initial weights whose scale saturates the activations

What happens
    Weights that are too large drive tanh or sigmoid to their ends before training has begun. There the derivative is almost 0.
Why it matters
    Layers behind the activation get almost no gradient: only the last ones learn, on features that stay random.
How we know
    In the first step more than half of an activation's results lie, at both ends, where the derivative is below a hundredth of its
    largest value, and the weights before it turn inputs of size 1 into arguments above 3.
Not this
    A gate that is held open or shut by its bias; activations that saturate in the course of training; inputs that were not scaled.
Fix
    Scale the weights by the number of inputs: nn.init.xavier_normal_ for tanh and sigmoid.
Read on
    Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks, AISTATS 2010.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    return (
        f"in the first step {e['share']:.0%} of the {e['op']} results lie where the derivative is below 1 % of its largest value: "
        f"{e['layer']} turns inputs of size 1 into arguments of size {number(e['gain'], 2)}"
    )


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    gains = {name: n.value for name, n in e.numbers.items() if name.startswith("gain")}
    return repair_ops("initial_scale", "scale the initial weights by the number of inputs", hits, "rewrite", **gains)


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=3.0)  # here
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(128, 16)
y = x[:, :1].sin()

for step in range(40):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

FIXED = BROKEN.replace("normal_(layer.weight, std=3.0)  # here", "xavier_normal_(layer.weight)")


bug = Bug(
    id="saturated-init",
    title="initial weights that saturate the activations",
    family="training",
    when=seen("saturated-units") & ~Anywhere(seen("symptom")),
    because=_because,
    fix="scale the initial weights by the number of inputs",
    repair=_repair,
    explains=("vanishing-gradient", "exploding-gradient", "learning-rate-divergence"),
    symptoms=("loss stuck", "loss falls slowly", "early layers do not learn"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="शुरुआती weights, जो activation को saturate कर देते हैं",
        symptoms=("loss अटका रहता है", "loss बहुत धीरे घटता है", "शुरुआती लेयर नहीं सीखतीं"),
        fix="शुरुआती weights को इनपुट की संख्या के हिसाब से scale करें",
        what=(
            "बहुत बड़े weights tanh या sigmoid को ट्रेनिंग से पहले ही उसके सिरे पर पहुँचा देते हैं, जहाँ derivative लगभग "
            "0 है। activation के पीछे की लेयरों तक ग्रेडिएंट लगभग नहीं पहुँचता: सिर्फ़ आख़िरी लेयर सीखती हैं, वह भी "
            "random features पर।"
        ),
        measured=("weights आकार 1 के इनपुट को आकार {gain} के argument में बदल देते हैं",),
    ),
)
