"""a divisor that can be 0

What happens
    x / 0 is inf and 0 / 0 is NaN. The divisor is a norm, a count, a range or a standard deviation that is 0 for this input; the
    standard deviation of a single sample is 0 / 0 inside one operation.
Why it matters
    One empty class, one constant feature or one zero vector makes the whole batch NaN.
How we know
    A division was given exact zeros as its divisor, and what it made reaches the loss, a gradient or an output.
Not this
    A softmax by hand whose exponentials all underflowed; a divisor whose epsilon the format cannot hold (`ineffective-epsilon`);
    a quotient that a where() drops while only the gradient is poisoned (`where-gradient-trap`).
Fix
    Add an epsilon that the format holds, clamp the divisor from below, or treat the empty case by itself.
Read on
    PyTorch's documentation of torch.nn.functional.normalize (its eps).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._limits import divisor_floor
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form, seen

_FROM = {
    "norm": "the norm of a zero vector", "std": "the standard deviation of a constant", "var": "the variance of a constant",
    "count": "a count of 0", "sum": "a sum that is 0", "mean": "a mean that is 0", "data": "a 0 in the data",
    "sub": "a difference that is exactly 0", "masked": "a 0 that a mask made",
}  # fmt: skip


def _because(hit: Found) -> str:
    b = hit[0]
    if b["born"] == "one sample":
        return f"the {b['op']} of a single sample is 0 / 0 (n - 1 is 0), {reaches(b)}"
    if b["born"] == "empty":
        return f"the mean of nothing is 0 / 0, {reaches(b)}"
    return f"the divisor is {_FROM.get(b['zero_from'], 'exactly 0')} ({b['born']}), {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair:
    head = hits[0][0]
    if head["born"] == "one sample":
        return repair_ops("correction0", "divide by n, not by n - 1", hits, eps=divisor_floor(head["dtype"]))
    mode = "clamp" if head["zero_from"] in ("norm", "std", "var", "count", "sum", "cut off", "masked") else "where"
    return repair_ops("guard_divisor", "keep the divisor away from 0", hits, mode=mode, eps=divisor_floor(head["dtype"]))


BROKEN = """\
import torch

torch.manual_seed(0)
table = torch.randn(40, 5)
table[:, 3] = 7.0
target = table[:, :2].sum(dim=1, keepdim=True)


def standardise(x):
    return (x - x.mean(dim=0)) / x.std(dim=0)  # here


model = torch.nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    loss = (model(standardise(table)) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch

torch.manual_seed(0)
table = torch.randn(40, 5)
table[:, 3] = 7.0
target = table[:, :2].sum(dim=1, keepdim=True)


def standardise(x):
    return (x - x.mean(dim=0)) / x.std(dim=0).clamp(min=1e-6)


model = torch.nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    loss = (model(standardise(table)) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="division-by-zero",
    title="a divisor that is 0",
    family="range",
    when=birth(born=("x/0", "0/0", "one sample", "empty"), forward_finite=False, optimizer=False, feeds_log=False)
    & ~birth(op=("log", "log2", "log10", "log1p", "xlogy", "exp"))
    & ~form("softmax", "log-of-sigmoid")
    & ~birth(zero_from=("epsilon", "cast underflow", "product underflow"))
    & ~birth(zero_dtype="float16", zero_from=("underflow", "exp", "mul", "div", "square"))
    & ~seen("singular-derivative", dropped=True)
    & ~seen("integer-wrap"),
    because=_because,
    fix="add an epsilon, clamp the divisor, or treat the empty case by itself",
    repair=_repair,
    symptoms=("loss becomes NaN",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="भाजक (divisor) 0 है",
        symptoms=("loss NaN हो जाता है",),
        fix="epsilon जोड़ें, भाजक को clamp करें, या खाली केस को अलग से सँभालें",
        what=(
            "x / 0 का परिणाम inf और 0 / 0 का NaN होता है; यहाँ भाजक (कोई norm, गिनती, range या standard deviation) इस "
            "इनपुट पर 0 हो जाता है। एक खाली class, एक स्थिर feature या एक शून्य वेक्टर पूरे बैच को NaN बना देता है।"
        ),
        fixes={
            "divide by n, not by n - 1": "n - 1 की जगह n से भाग दें",
            "keep the divisor away from 0": "भाजक को 0 होने से बचाएँ",
        },
        measured=("{op} का भाजक ठीक 0 है",),
    ),
)
