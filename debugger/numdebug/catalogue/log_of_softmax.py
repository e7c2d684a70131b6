"""log of a softmax probability that underflowed to 0

What happens
    In float32 a probability is exactly 0 when its logit lies 104 below the largest (88 in JAX on CPU, 18 in float16). log(0) is -inf.
Why it matters
    The loss is inf, or NaN through 0 * -inf, and the gradient is NaN even where the loss is still finite.
How we know
    The log was given a 0 that a softmax made, and what it returned (or its derivative) reaches the loss or a gradient.
Not this
    A probability clamped to a number that the format holds before the log; the log of a sigmoid (`log-of-sigmoid`).
Fix
    log_softmax of the logits, or a loss that takes logits (cross_entropy).
Read on
    PyTorch's documentation of torch.nn.functional.log_softmax; JAX's of jax.nn.log_softmax.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._limits import smallest_normal
from numdebug.catalogue._words import number, reaches, repair_forms, repair_ops, several
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form


def _because(hit: Found) -> str:
    b, f = hit[0], hit[-1]
    gap = ""
    if isinstance(f["largest_argument"], float) and isinstance(f["smallest_argument"], float):
        gap = f" (logits from {number(f['smallest_argument'], 4)} to {number(f['largest_argument'], 4)})"
    what = "log(0) is -inf" if b["phase"] == "forward" else "the derivative of log at 0 is not finite"
    return f"softmax gave exactly 0{gap}, and {what}, {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
words = torch.randn(48, 10) * 300
topic = torch.randint(0, 5, (48,))
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)


def nll(logits, target):
    p = torch.softmax(logits, dim=1)
    return -torch.log(p[torch.arange(len(target)), target]).mean()  # here


for epoch in range(8):
    loss = nll(model(words), topic)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
words = torch.randn(48, 10) * 300
topic = torch.randint(0, 5, (48,))
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)


def nll(logits, target):
    return nn.functional.cross_entropy(logits, target)


for epoch in range(8):
    loss = nll(model(words), topic)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def _repair(hits: Sequence[Found]) -> Repair | None:
    forms = several(hits, "naive-form")
    if forms:
        return repair_forms("log_softmax", "take log_softmax of the logits", forms)
    low = smallest_normal(hits[0][0]["dtype"])  # a mixture of softmaxes: no single log_softmax stands for it
    summary = "take the log in log space (logaddexp of log_softmax), or keep its argument above 0"
    return repair_ops("clamp_argument", summary, hits, lo="tiny", lo_value=low)


bug = Bug(
    id="log-of-softmax",
    title="log of a softmax probability that underflowed to 0",
    family="range",
    when=(birth(op=("log", "log2", "log10", "xlogy")) & form("log-of-softmax"))
    | (birth(op=("log", "log2", "log10"), zero_from="softmax") & ~form("log-of-softmax", "log-of-sigmoid", "logsumexp", "log-of-product")),
    because=_because,
    fix="take log_softmax of the logits",
    repair=_repair,
    symptoms=("loss becomes NaN", "loss is inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="0 हो चुकी (underflow) softmax probability का log",
        symptoms=("loss NaN हो जाता है", "loss inf आता है"),
        fix="logits का log_softmax लें",
        what=(
            "float32 में जिस logit का मान सबसे बड़े logit से 104 नीचे हो, उसकी softmax probability ठीक 0 होती है, और "
            "log(0) -inf। इससे loss inf, या 0 * -inf होकर NaN, हो जाता है; loss अभी finite हो तब भी ग्रेडिएंट NaN आता है।"
        ),
        fixes={
            "take log_softmax of the logits": "logits का log_softmax लें",
            "take the log in log space (logaddexp of log_softmax), or keep its argument above 0": (
                "log को log space में ही लें (log_softmax का logaddexp), या उसके argument को 0 से ऊपर रखें"
            ),
        },
        measured=("logits {smallest_argument} से {largest_argument} तक थे",),
    ),
)
