"""an infinite derivative at a point that is reached

What happens
    sqrt(0), the hand-written norm of a zero vector, x ** 0.5 at 0, acos(1): the value is fine, the derivative is inf, and inf * 0 is NaN.
Why it matters
    It happens on the best predictions: identical points, exact matches, perfect alignment.
How we know
    The forward result is finite, and the gradient was born in this operation's derivative, evaluated exactly at its edge.
Not this
    The same inside a branch that where() drops (`where-gradient-trap`); a forward result that is already non-finite.
Fix
    An epsilon inside the root, a clamp a few ulp inside the edge, or a form that is smooth there (atan2, the library's norm).
Read on
    PyTorch issue 8069 (acos at the edge of its domain).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._limits import edge_margin, under_root
from numdebug.catalogue._words import number, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, form, seen


def _because(hit: Found) -> str:
    e = hit[0]
    at = f" at {number(e['edge'])} ({e['at_edge']} elements)" if e["edge"] is not None else ""
    return f"the derivative of {e['op']}{at} is infinite, so the gradient is not finite although the loss is"


def _repair(hits: Sequence[Found]) -> Repair:
    head = hits[0][0]
    if head["op"] in ("acos", "asin", "atanh", "erfinv"):
        margin = edge_margin("float32")
        return repair_ops(
            "clamp_argument", f"keep the argument of {head['op']} a few ulp inside its domain", hits, lo=-1.0 + margin, hi=1.0 - margin
        )
    return repair_ops("add_epsilon", f"add an epsilon inside {head['op']}", hits, eps=under_root("float32"))


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(6, 3)
anchor = torch.randn(16, 6)
positive = anchor + 0.1 * torch.randn(16, 6)
positive[4] = anchor[4]
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)


def distance(a, b):
    return torch.sqrt(((a - b) ** 2).sum(dim=1))  # here


for step in range(3):
    loss = distance(encoder(anchor), encoder(positive)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(6, 3)
anchor = torch.randn(16, 6)
positive = anchor + 0.1 * torch.randn(16, 6)
positive[4] = anchor[4]
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)


def distance(a, b):
    return torch.sqrt(((a - b) ** 2).sum(dim=1) + 1e-12)


for step in range(3):
    loss = distance(encoder(anchor), encoder(positive)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="singular-gradient",
    title="an infinite derivative at a point that is reached",
    family="gradient",
    when=seen("singular-derivative", dropped=False, forward_finite=True, eigen=False)
    & ~seen("singular-derivative", op=("log", "log2", "log10"))
    & ~form("log-of-softmax", "log-of-sigmoid", "softplus", "softmax", "logsumexp"),
    because=_because,
    fix="an epsilon inside the root, or a clamp inside the edge",
    repair=_repair,
    symptoms=("gradient is NaN, loss is fine",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="ऐसे बिंदु पर पहुँचना जहाँ derivative अनंत है",
        symptoms=("ग्रेडिएंट NaN है, जबकि loss ठीक है",),
        fix="root के भीतर epsilon जोड़ें, या किनारे से ज़रा भीतर clamp करें",
        what=(
            "sqrt(0), शून्य वेक्टर का हाथ से लिखा norm, 0 पर x ** 0.5, acos(1): मान ठीक है, derivative inf है, और inf * 0 "
            "NaN। यह सबसे अच्छी predictions पर ही होता है: एक जैसे बिंदु, सटीक मेल।"
        ),
        fixes={
            "keep the argument of {} a few ulp inside its domain": "{} के argument को domain के किनारे से कुछ ulp भीतर रखें",
            "add an epsilon inside {}": "{} के भीतर epsilon जोड़ें",
        },
        measured=("{op} का derivative {edge} पर अनंत है, और इनपुट वहीं पहुँचता है",),
    ),
)
