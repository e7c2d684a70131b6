"""log of a sigmoid, or of one minus a sigmoid, that saturated

What happens
    In float32, 1 - sigmoid(z) is exactly 0 from z = 16.7 on, and sigmoid(z) is 0 below -104. The log of either is -inf.
Why it matters
    One confident, wrong prediction makes a binary cross-entropy inf or NaN; the gradient is NaN even in entries that a mask drops.
How we know
    The log was given a 0 that a sigmoid (or one minus it) made, and the result or its derivative reaches the loss or a gradient.
Not this
    A probability that was clamped to [eps, 1 - eps] with an eps that the format holds; binary_cross_entropy, which bounds its logs.
Fix
    logsigmoid(z) for log(sigmoid(z)), logsigmoid(-z) for log(1 - sigmoid(z)), or binary_cross_entropy_with_logits.
Read on
    PyTorch's documentation of torch.nn.functional.binary_cross_entropy_with_logits.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, reaches, repair_forms, several
from numdebug.rules import Found, birth, form


def _because(hit: Found) -> str:
    b, f = hit[0], hit[1]
    inner = "1 - sigmoid" if f["numbers"]["sign"] == "-" else "sigmoid"
    at = (
        f" for a logit of {number(f['largest_argument' if inner != 'sigmoid' else 'smallest_argument'], 4)}"
        if f["largest_argument"] is not None
        else ""
    )
    return f"{inner} is exactly 0{at} in {b['dtype']}, and its log is not finite, {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(100, 6) * 30
y = (x[:, 0] > 0).float()
y[:5] = 1 - y[:5]
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def cross_entropy(logit, y):
    p = torch.sigmoid(logit)
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()  # here


for epoch in range(6):
    loss = cross_entropy(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(100, 6) * 30
y = (x[:, 0] > 0).float()
y[:5] = 1 - y[:5]
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def cross_entropy(logit, y):
    return nn.functional.binary_cross_entropy_with_logits(logit, y)


for epoch in range(6):
    loss = cross_entropy(model(x).squeeze(1), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="log-of-sigmoid",
    title="log of a saturated sigmoid",
    family="range",
    when=birth(op=("log", "log1p", "log2", "log10", "exp", "xlogy", "reciprocal", "div")) & form("log-of-sigmoid"),
    because=_because,
    fix="use logsigmoid, or a loss that takes logits",
    repair=lambda hits: repair_forms("log_sigmoid", "use logsigmoid of the logit", several(hits, "naive-form")),
    symptoms=("loss becomes NaN", "loss is inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="saturate हो चुके sigmoid का log",
        symptoms=("loss NaN हो जाता है", "loss inf आता है"),
        fix="logsigmoid इस्तेमाल करें, या ऐसा loss जो logits लेता हो",
        what=(
            "float32 में z = 16.7 से आगे 1 - sigmoid(z) ठीक 0 होता है, और -104 से नीचे sigmoid(z) भी; दोनों का log -inf "
            "है। पूरे भरोसे से की गई एक ग़लत prediction पूरे binary cross-entropy को inf या NaN कर देती है।"
        ),
        fixes={
            "use logsigmoid of the logit": "logit पर logsigmoid इस्तेमाल करें",
        },
        measured=("logits {smallest_argument} से {largest_argument} तक थे",),
    ),
)
