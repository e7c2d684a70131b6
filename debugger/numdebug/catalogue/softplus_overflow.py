"""log(1 + exp(x)) by hand

What happens
    exp(x) is inf for x above 88.72 in float32 (11.09 in float16), although the right answer is x itself.
Why it matters
    The value is inf and its gradient NaN (inf / inf), from an input that is not even unusual.
How we know
    The exp inside log(1 + exp(x)) or log1p(exp(x)) overflowed, and the result or its gradient is consumed.
Not this
    log1p(exp(-abs(x))) + max(x, 0), which cannot overflow.
Fix
    softplus(x), logaddexp(x, 0).
Read on
    Maechler: Accurately computing log(1 - exp(-|a|)), vignette of the R package Rmpfr.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import limit_of_exp, number, reaches, repair_forms, several
from numdebug.rules import Found, birth, form


def _because(hit: Found) -> str:
    b, f = hit[0], hit[1]
    return f"exp of values up to {number(f['largest_argument'], 4)} is inf ({limit_of_exp(b['dtype'])}), {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 50).unsqueeze(1)
y = 40 * x.abs() + torch.randn(50, 1)
model = nn.Linear(1, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=2.0)


def positive(x):
    return torch.log(1 + torch.exp(x))  # here


for epoch in range(60):
    left, right = model(x).chunk(2, dim=1)
    loss = (positive(left) + positive(right) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-3, 3, 50).unsqueeze(1)
y = 40 * x.abs() + torch.randn(50, 1)
model = nn.Linear(1, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=2.0)


def positive(x):
    return nn.functional.softplus(x)


for epoch in range(60):
    left, right = model(x).chunk(2, dim=1)
    loss = (positive(left) + positive(right) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


bug = Bug(
    id="softplus-overflow",
    title="log(1 + exp(x)) by hand",
    family="range",
    when=birth(op=("exp", "log", "log1p", "add", "expm1")) & form("softplus"),
    because=_because,
    fix="use the library's softplus",
    repair=lambda hits: repair_forms("softplus", "use the library's softplus", several(hits, "naive-form")),
    symptoms=("loss is inf", "exp gives inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="हाथ से लिखा log(1 + exp(x))",
        symptoms=("loss inf आता है", "exp का परिणाम inf आता है"),
        fix="library का softplus इस्तेमाल करें",
        what=(
            "float32 में x के 88.72 से (float16 में 11.09 से) ऊपर exp(x) inf है, जबकि सही उत्तर बस x है। मान inf और उसका "
            "ग्रेडिएंट NaN (inf / inf) हो जाता है, वह भी ऐसे इनपुट से जो असामान्य तक नहीं।"
        ),
        measured=("exp को मिले मान {smallest_argument} से {largest_argument} तक थे",),
    ),
)
