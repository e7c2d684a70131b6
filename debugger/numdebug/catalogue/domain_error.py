"""an argument outside the domain of its function

What happens
    sqrt and log of a negative number, acos of 1.0000001, a negative base under a fractional power: NaN. atanh(1) and similar: inf.
Why it matters
    Rounding is enough: a variance that is -1e-9 instead of 0, a cosine of two equal vectors that comes out above 1.
How we know
    The function was given finite numbers outside (or on the open edge of) its domain, and what it made reaches what is consumed.
Not this
    An argument inside the domain whose derivative is infinite (`singular-gradient`); log of an exact 0 (`log-of-zero`).
Fix
    Clamp the argument to the domain, a few ulp inside where the derivative matters.
Read on
    Kahan: Branch cuts for complex elementary functions, in The State of the Art in Numerical Analysis (1987).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._limits import edge_margin, under_root
from numdebug.catalogue._words import number, reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form, seen

_BOTH_SIDES = ("acos", "asin", "atanh", "erfinv")


def _because(hit: Found) -> str:
    b = hit[0]
    at = b["largest_input"] if b["op"] in _BOTH_SIDES else b["smallest_input"]
    return f"{b['op']} was given {number(at, 9)}, outside its domain, {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair:
    head = hits[0][0]
    if head["op"] in _BOTH_SIDES:
        margin = edge_margin(head["dtype"])
        return repair_ops("clamp_argument", f"clamp the argument of {head['op']} to its domain", hits, lo=-1.0 + margin, hi=1.0 - margin)
    if head["op"] == "logit":
        margin = edge_margin(head["dtype"])
        return repair_ops("clamp_argument", "clamp the argument of logit inside (0, 1)", hits, lo=margin, hi=1.0 - margin)
    return repair_ops("clamp_argument", f"keep the argument of {head['op']} from going negative", hits, lo=under_root(head["dtype"]))


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
place = torch.randn(40, 3)
visited = place[torch.arange(40).repeat_interleave(2)]
scale = nn.Parameter(torch.tensor(1.0))
optimizer = torch.optim.SGD([scale], lr=0.05)


def arc(a, b):
    cosine = (a * b).sum(dim=-1) / (a.norm(dim=-1) * b.norm(dim=-1))
    return torch.acos(cosine)  # here


for step in range(3):
    walked = arc(visited[1:], visited[:-1])
    loss = (scale * walked - 2.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
place = torch.randn(40, 3)
visited = place[torch.arange(40).repeat_interleave(2)]
scale = nn.Parameter(torch.tensor(1.0))
optimizer = torch.optim.SGD([scale], lr=0.05)


def arc(a, b):
    cosine = (a * b).sum(dim=-1) / (a.norm(dim=-1) * b.norm(dim=-1))
    return torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))


for step in range(3):
    walked = arc(visited[1:], visited[:-1])
    loss = (scale * walked - 2.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


bug = Bug(
    id="domain-error",
    title="an argument outside its function's domain",
    family="range",
    when=birth(born=("domain", "log of a negative"), forward_finite=False)
    & ~birth(op=("matmul", "conv", "add", "mul", "sum", "function"))
    & ~form("log-of-sigmoid", "log-of-softmax")
    & ~seen("singular-derivative", dropped=True)
    & ~seen("integer-wrap"),
    because=_because,
    fix="clamp the argument to the domain",
    repair=_repair,
    symptoms=("loss becomes NaN",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="argument फ़ंक्शन के domain से बाहर है",
        symptoms=("loss NaN हो जाता है",),
        fix="argument को domain के भीतर clamp करें",
        what=(
            "ऋणात्मक संख्या का sqrt या log, acos(1.0000001) या ऋणात्मक आधार पर भिन्नात्मक घात का परिणाम NaN होता है। इतना "
            "भर होने के लिए rounding काफ़ी है: variance 0 की जगह -1e-9 आ जाए, या दो समान वेक्टरों का cosine 1 से ज़रा "
            "ऊपर।"
        ),
        fixes={
            "clamp the argument of {} to its domain": "{} के argument को उसके domain के भीतर clamp करें",
            "clamp the argument of logit inside (0, 1)": "logit के argument को (0, 1) के भीतर clamp करें",
            "keep the argument of {} from going negative": "{} के argument को ऋणात्मक न होने दें",
        },
        measured=("{op} को {smallest_input} से {largest_input} तक के मान मिले",),
    ),
)
