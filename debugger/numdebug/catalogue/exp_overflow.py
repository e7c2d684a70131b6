"""exp of an unbounded argument overflows

What happens
    In float32, exp(x) is inf for every x above 88.72; in float16, above 11.09.
Why it matters
    The loss is inf or NaN from this step on, and one optimizer step spreads it to every parameter.
How we know
    exp was given finite numbers above the limit of its format, and its inf (or its derivative) reaches the loss or a gradient.
Not this
    An exp inside a softmax, log-sum-exp, softplus or log of a sigmoid written by hand: those have their own entries and repairs.
    An exp that was given inf: something upstream is at fault. An inf that a mask drops together with its gradient.
Fix
    Bound the argument where it is made (clamp a log-variance, or predict it through a softplus), or stay in log space.
Read on
    Goldberg: What every computer scientist should know about floating-point arithmetic, ACM Computing Surveys 23 (1991).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._limits import exp_bound
from numdebug.catalogue._words import limit_of_exp, number, reaches, repair_ops
from numdebug.rules import Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    return f"exp was given values up to {number(b['largest_input'], 4)} and {limit_of_exp(b['dtype'])}, {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4) * 40
counts = torch.poisson(torch.full((64, 1), 3.0))
rate = nn.Linear(4, 1)
optimizer = torch.optim.Adam(rate.parameters(), lr=0.01)

for epoch in range(5):
    score = 2 * rate(x)
    expected = torch.exp(score)  # here
    loss = (expected - counts * score).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4) * 40
counts = torch.poisson(torch.full((64, 1), 3.0))
rate = nn.Linear(4, 1)
optimizer = torch.optim.Adam(rate.parameters(), lr=0.01)

for epoch in range(5):
    score = 2 * rate(x / 40)
    expected = torch.exp(score)
    loss = (expected - counts * score).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="exp-overflow",
    title="exp of an unbounded argument",
    family="range",
    when=birth(op=("exp", "exp2", "expm1", "sinh", "cosh"), born="overflow", forward_finite=False)
    & ~form("softmax", "logsumexp", "softplus", "log-of-sigmoid", "log-of-softmax")
    & ~seen("singular-derivative", dropped=True),
    because=_because,
    fix="bound the argument of exp, or stay in log space",
    repair=lambda hits: repair_ops("clamp_argument", "bound the argument of exp", hits, hi=exp_bound(hits[0][0]["dtype"])),
    symptoms=("exp gives inf", "loss is inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="exp का argument, जिस पर कोई सीमा नहीं",
        symptoms=("exp का परिणाम inf आता है", "loss inf आता है"),
        fix="exp के argument पर सीमा लगाएँ, या log space में ही रहें",
        what=(
            "float32 में x के 88.72 से (float16 में 11.09 से) ऊपर जाते ही exp(x) inf हो जाता है। उसी स्टेप से loss inf या "
            "NaN हो जाता है, और optimizer का एक ही स्टेप उसे सारे पैरामीटरों में फैला देता है।"
        ),
        fixes={
            "bound the argument of exp": "exp के argument पर ऊपरी सीमा लगाएँ",
        },
        measured=("exp का argument {largest_input} तक गया",),
    ),
)
