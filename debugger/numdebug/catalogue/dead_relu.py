"""a layer of ReLUs that no input activates

What happens
    A ReLU whose argument is negative returns 0 and passes no gradient back. Where that holds for a whole layer and every row, the
    gradient of all weights behind it is exactly 0 and the layer never comes back.
Why it matters
    The network predicts the same for every input. The loss stays where the last biases bring it: log(C) for C classes, the variance of
    the target in a regression.
How we know
    All units of a layer (or nine in ten, with a loss that does not move) returned exactly 0 for every row of the recorded steps, and the
    gradient of the layer's weights is exactly 0. Dead in the first step: the initial values did it. Alive then and dead at the end: an
    update did.
Not this
    Sparse activations and a few dead units; gradients flushed to 0 in float16; a margin loss that is satisfied; parameters that are frozen.
Fix
    Biases that start at 0, a lower learning rate or warm-up; or an activation with a slope on both sides (LeakyReLU, GELU).
Read on
    Lu, Shin, Su, Karniadakis: Dying ReLU and initialization: theory and numerical examples, Commun. Comput. Phys. 28 (2020).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    layer = f" behind {e['layer']}" if e["layer"] else ""
    what = f"{e['dead']} of {e['units']} ReLUs{layer} return 0 for all {e['rows']} rows, so no gradient passes"
    if not e["first"]:
        return f"{what}; they were alive in the first step; the loss went from {number(e['first_loss'])} to {number(e['late_loss'])}"
    bias = e["largest_bias"]
    return f"{what}, from the first step on" + (
        f"; the largest bias of the layer is {number(bias)}" if bias is not None and bias < 0 else ""
    )


def _repair(hits: Sequence[Found]) -> Repair:
    if hits[0][0]["first"]:
        return repair_ops("initial_bias", "start the biases at 0, or use an activation with a slope on both sides", hits)
    rate = hits[0][0].sites.get("optimizer")
    if rate is not None:
        summary = "lower the learning rate, scale the inputs, or use an activation with a slope on both sides"
        return Repair("learning_rate", "setting", summary, {"target": rate}, {}, {"factor": 0.1, "look": True})
    return repair_ops("leaky_relu", "use an activation with a slope on both sides", hits)


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.rand(128, 8)
y = torch.sin(3 * x[:, :1])
first, second = nn.Linear(8, 32), nn.Linear(32, 1)
nn.init.constant_(first.bias, -5.0)  # here
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-2)

for step in range(60):
    loss = (second(torch.relu(first(x))) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item(), first.weight.grad.norm().item())
"""

FIXED = BROKEN.replace("-5.0)  # here", "0.0)")


_DEAD_THEN = seen("dead-units", first=True)
_DEAD_NOW = seen("dead-units", first=False)

bug = Bug(
    id="dead-relu",
    title="a layer of ReLUs that no input activates",
    family="gradient",
    when=((_DEAD_THEN & Anywhere(_DEAD_NOW)) | (_DEAD_NOW & ~Anywhere(_DEAD_THEN)) | (_DEAD_THEN & ~Anywhere(seen("loss-history"))))
    & ~Anywhere(seen("symptom")),
    because=_because,
    fix="start the biases at 0, lower the learning rate, or use an activation with a slope on both sides",
    repair=_repair,
    explains=("vanishing-gradient",),
    symptoms=("loss stuck", "loss stuck at log(C)", "gradient norm exactly 0", "same output for every input"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="ReLU की लेयर, जिसे कोई इनपुट सक्रिय नहीं करता",
        symptoms=(
            "loss अटका रहता है",
            "loss log(C) पर अटका रहता है",
            "ग्रेडिएंट का norm ठीक 0 है",
            "हर इनपुट पर एक ही आउटपुट आता है",
        ),
        fix="bias 0 से शुरू करें, learning rate घटाएँ, या ऐसा activation लें जिसका ढलान (slope) दोनों ओर हो",
        what=(
            "जिस ReLU का argument ऋणात्मक है वह 0 देता है और कोई ग्रेडिएंट पीछे नहीं भेजता। जब पूरी लेयर में, हर row के "
            "लिए, यही हो तो उसके पीछे के सारे weights का ग्रेडिएंट ठीक 0 है: लेयर कभी लौटती नहीं, और नेटवर्क हर इनपुट पर "
            "एक ही उत्तर देता है।"
        ),
        fixes={
            "start the biases at 0, or use an activation with a slope on both sides": (
                "bias 0 से शुरू करें, या ऐसा activation लें जिसका ढलान (slope) दोनों ओर हो"
            ),
            "lower the learning rate, scale the inputs, or use an activation with a slope on both sides": (
                "learning rate घटाएँ, इनपुट को scale करें, या ऐसा activation लें जिसका ढलान (slope) दोनों ओर हो"
            ),
            "use an activation with a slope on both sides": "ऐसा activation लें जिसका ढलान (slope) दोनों ओर हो",
        },
        measured=("{units} में से {dead} ReLU सभी {rows} rows पर 0 देते हैं",),
    ),
)
