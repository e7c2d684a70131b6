"""softmax written as exp(x) / sum(exp(x)) without subtracting the maximum

What happens
    exp(x) is inf for x above 88.72 in float32 (11.09 in float16), and inf / inf is NaN. When every x lies below -104 (-18), all
    exponentials are 0 and the row is 0 / 0.
Why it matters
    One NaN row makes the loss NaN, and one optimizer step spreads it to every parameter.
How we know
    The exp (or the division) of a hand-written softmax made inf or NaN from finite scores, and it reaches the loss or a gradient.
Not this
    A softmax that subtracts the maximum first; one whose row is all -inf (`fully-masked-softmax`); scores that were inf already.
Fix
    torch.softmax(x, dim), jax.nn.softmax(x, axis): they subtract the maximum, which changes nothing else.
Read on
    Blanchard, Higham, Higham: Accurately computing the log-sum-exp and softmax functions, IMA J. Numer. Anal. 41 (2021).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import limit_of_exp, number, reaches, repair_forms, several
from numdebug.rules import Found, birth, form


def _because(hit: Found) -> str:
    b, f = hit[0], hit[1]
    if b["op"] == "exp":
        return f"exp of scores up to {number(f['largest_argument'], 4)} is inf ({limit_of_exp(b['dtype'])}), inf / inf is NaN, {reaches(b)}"
    scores = f"scores from {number(f['smallest_argument'], 4)} to {number(f['largest_argument'], 4)}"
    return f"no maximum is subtracted: {scores} give {b['born']} in {b['dtype']}, {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
keys = nn.Parameter(torch.randn(10, 32))
values = torch.randn(10, 4)
queries = torch.randn(5, 32) * 20
optimizer = torch.optim.SGD([keys], lr=0.01)


def attend(q):
    weight = torch.exp(q @ keys.T)  # here
    return weight / weight.sum(dim=1, keepdim=True) @ values


for step in range(3):
    loss = attend(queries).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
keys = nn.Parameter(torch.randn(10, 32))
values = torch.randn(10, 4)
queries = torch.randn(5, 32) * 20
optimizer = torch.optim.SGD([keys], lr=0.01)


def attend(q):
    weight = torch.softmax(q @ keys.T, dim=1)
    return weight @ values


for step in range(3):
    loss = attend(queries).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="softmax-overflow",
    title="softmax by hand, without subtracting the maximum",
    family="range",
    when=birth(op=("exp", "div", "sum", "mul")) & form("softmax"),
    because=_because,
    fix="use the library's softmax of the scores",
    repair=lambda hits: repair_forms("softmax", "use the library's softmax of the scores", several(hits, "naive-form")),
    symptoms=("loss becomes NaN", "exp gives inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="हाथ से लिखा softmax, अधिकतम घटाए बिना",
        symptoms=("loss NaN हो जाता है", "exp का परिणाम inf आता है"),
        fix="scores पर library का softmax इस्तेमाल करें",
        what=(
            "float32 में x के 88.72 से (float16 में 11.09 से) ऊपर exp(x) inf है, और inf / inf NaN; सारे x बहुत ऋणात्मक "
            "हों तो row 0 / 0 बन जाती है। एक NaN row पूरे loss को NaN कर देती है, और optimizer का एक स्टेप उसे सारे "
            "पैरामीटरों में फैला देता है।"
        ),
        measured=("scores {smallest_argument} से {largest_argument} तक थे",),
    ),
)
