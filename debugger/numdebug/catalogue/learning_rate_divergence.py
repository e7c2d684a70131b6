"""updates that overshoot: the loss grows by a factor each step

What happens
    Above 2 / λmax of the Hessian each step lands farther out than it started. The loss grows by a constant factor, passes the end of
    the format and becomes inf, then NaN.
Why it matters
    The line where inf appears is innocent: any format would overflow a few steps later.
How we know
    The loss had been growing for several steps before the failure, no line's repair cures it, and the run again at a lower rate does
    not grow.
Not this
    A single bad batch; a loss that is noisy; a naive formula that fails on logits which training is right to grow.
Fix
    A lower rate, inputs on a common scale, warm-up, or clipping by norm.
Read on
    LeCun, Bottou, Orr, Müller: Efficient BackProp (1998), section 4.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Above, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    rate = f" at learning rate {number(e['learning_rate'])}" if e["learning_rate"] is not None else ""
    if not e["failed"]:
        first, highest, late = (number(e[name]) for name in ("first_loss", "highest_loss", "median_late_loss"))
        return f"the loss rose from {first} to {highest} and ended at {late}, no lower than it began{rate}"
    span = f"from {number(e['lowest_loss'])} to {number(e['highest_loss'])}"
    return f"the loss grew {number(e['factor'])}x a step over the last {e['growing_steps']} steps, {span}{rate}"


def _repair(hits: Sequence[Found]) -> Repair:
    return repair_ops("learning_rate", "lower the learning rate, or put the inputs on a common scale", hits, kind="setting", factor=0.1)


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
area = torch.rand(200, 1) * 100
price = 3 * area + 20 + torch.randn(200, 1)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # here

for epoch in range(60):
    loss = (model(area) - price).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
area = torch.rand(200, 1) * 100
price = 3 * area + 20 + torch.randn(200, 1)
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

for epoch in range(60):
    loss = (model(area) - price).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


bug = Bug(
    id="learning-rate-divergence",
    title="a learning rate that is too high",
    family="training",
    # Two growing steps and a tenfold loss make it a suspect; the run at a lower rate decides.
    when=seen("loss-history", failed=True, growing_steps=Above(1), growth=Above(10))
    | seen("loss-history", failed=False, spiked=True, stuck=True),
    because=_because,
    fix="lower the learning rate",
    repair=_repair,
    explains=("dead-relu", "vanishing-gradient"),
    symptoms=("loss becomes NaN", "loss grows", "loss stuck"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="learning rate बहुत ज़्यादा है",
        symptoms=("loss NaN हो जाता है", "loss बढ़ता जाता है", "loss अटका रहता है"),
        fix="learning rate घटाएँ",
        what=(
            "learning rate Hessian के 2 / λmax से ऊपर हो तो हर स्टेप न्यूनतम से और दूर गिरता है: loss हर बार एक ही गुणक "
            "से बढ़ता है, फ़ॉर्मैट की सीमा पार करके inf और फिर NaN हो जाता है। जिस लाइन पर inf दिखता है वह बेक़सूर है; "
            "कोई भी फ़ॉर्मैट कुछ स्टेप बाद overflow होता।"
        ),
        fixes={
            "lower the learning rate, or put the inputs on a common scale": "learning rate घटाएँ, या इनपुट को एक समान scale पर लाएँ",
        },
        measured=("learning rate {learning_rate} पर loss {lowest_loss} से बढ़कर {highest_loss} तक गया",),
    ),
)
