"""log of a quantity that can be 0

What happens
    log(0) is -inf, its derivative is inf, and 0 * log(0), as in an entropy or a KL divergence, is NaN.
Why it matters
    One empty bin, one pruned probability or one dead unit is enough to lose the loss.
How we know
    The log was given exact zeros that no softmax, sigmoid, product or vanished epsilon explains, and it reaches what is consumed.
Not this
    log of a softmax or sigmoid, of a running product, or of x + eps with an eps that the format cannot hold: they have their own entries.
    A -inf that was written on purpose and that a softmax turns into 0.
Fix
    xlogy(p, p) for p * log p; clamp the argument to the smallest normal number of its format; or compute the log directly.
Read on
    PyTorch's documentation of torch.xlogy and torch.special.entr.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._limits import smallest_normal
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form, seen

_FROM = {
    "data": "zeros in the data", "cut off": "zeros that a ReLU or clamp made", "masked": "zeros that a mask made",
    "exp": "an exponential that underflowed",
    "sum": "a sum that is 0", "count": "a count of 0", "sub": "an exact cancellation", "rsub": "an exact cancellation",
}  # fmt: skip


def _because(hit: Found) -> str:
    b = hit[0]
    if b["op"] == "div":
        return f"the log is taken of a quotient whose divisor is {_FROM.get(b['zero_from'], 'exactly 0')}, {reaches(b)}"
    return f"{b['op']} was given {_FROM.get(b['zero_from'], 'exact zeros')}, log(0) is -inf, {reaches(b)}"


BROKEN = """\
import torch

torch.manual_seed(0)
counts = torch.tensor([[12.0, 0.0, 3.0, 5.0], [4.0, 9.0, 0.0, 7.0]])
reference = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.Adam([reference], lr=0.1)


def divergence(p, log_q):
    return (p * (torch.log(p) - log_q)).sum(dim=-1).mean()  # here


for step in range(3):
    p = counts / counts.sum(dim=-1, keepdim=True)
    loss = divergence(p, reference.log_softmax(dim=-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""

FIXED = """\
import torch

torch.manual_seed(0)
counts = torch.tensor([[12.0, 0.0, 3.0, 5.0], [4.0, 9.0, 0.0, 7.0]])
reference = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.Adam([reference], lr=0.1)


def divergence(p, log_q):
    return (torch.xlogy(p, p) - p * log_q).sum(dim=-1).mean()


for step in range(3):
    p = counts / counts.sum(dim=-1, keepdim=True)
    loss = divergence(p, reference.log_softmax(dim=-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


def _repair(hits: Sequence[Found]) -> Repair:
    low = smallest_normal(hits[0][0]["dtype"])
    if hits[0][0]["op"] == "div":
        return repair_ops("guard_divisor", "keep both sides of the quotient above 0", hits, mode="both", eps=low)
    return repair_ops("clamp_argument", "keep the argument above 0", hits, lo="tiny", lo_value=low)


bug = Bug(
    id="log-of-zero",
    title="log of a quantity that can be 0",
    family="range",
    when=birth(op="div", born=("x/0", "0/0"), feeds_log=True)
    | birth(op=("log", "log2", "log10", "log1p", "xlogy"), born=("log of zero", "0/0", "x/0", "0*inf", "overflow"))
    & ~form("log-of-softmax", "log-of-sigmoid", "logsumexp", "log-of-product")
    & ~birth(zero_from=("epsilon", "cast underflow", "product underflow", "softmax"))
    & ~birth(zero_dtype="float16", zero_from=("underflow", "exp", "mul", "div"))
    & ~seen("singular-derivative", dropped=True)
    & ~seen("integer-wrap"),
    because=_because,
    fix="keep the argument above 0, or use xlogy for p * log p",
    repair=_repair,
    symptoms=("loss becomes NaN", "loss is inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="ऐसी राशि का log जो 0 हो सकती है",
        symptoms=("loss NaN हो जाता है", "loss inf आता है"),
        fix="argument को 0 से ऊपर रखें, या p * log p के लिए xlogy इस्तेमाल करें",
        what=(
            "log(0) का मान -inf है, उसका derivative inf, और 0 * log(0), जैसा entropy या KL divergence में आता है, NaN। एक "
            "खाली bin, एक मिटी हुई probability या एक dead unit पूरे loss को बिगाड़ने के लिए काफ़ी है।"
        ),
        fixes={
            "keep the argument above 0": "argument को 0 से ऊपर रखें",
            "keep both sides of the quotient above 0": "भागफल के दोनों हिस्सों को 0 से ऊपर रखें",
        },
        measured=("log को मिली सबसे छोटी संख्या {smallest_input} थी",),
    ),
)
