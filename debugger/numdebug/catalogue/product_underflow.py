"""a product of many probabilities that underflows

What happens
    The product of 100 probabilities of 0.3 is 5e-53, which is 0 in float32. Its log is -inf, and dividing by it gives NaN.
Why it matters
    Sequence likelihoods, forward algorithms and transmittances fail as soon as the sequence is long enough.
How we know
    A product of non-zero factors is exactly 0, and a log or a division of it reaches what is consumed.
Not this
    A product with a factor that is 0 already (`log-of-zero`).
Fix
    Add logs instead of multiplying: sum(log p), cumsum(log p), or rescale at every step.
Read on
    Rabiner: A tutorial on hidden Markov models, Proc. IEEE 77 (1989), section V.A (scaling).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import reaches, repair_forms, repair_ops, several
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    if b.kind == "values-flushed":
        return f"a product of non-zero factors is 0 in {b['dtype']} where float64 gives up to {b['exact']:.2g}: {b['reaches']} is wrong"
    what = "log(0) is -inf" if b["op"] in ("log", "log2", "log10") else "it divides"
    return f"a product of non-zero factors underflowed to exactly 0 in {b['dtype']}, and {what}, {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair | None:
    forms = several(hits, "naive-form")
    if forms:
        return repair_forms("log_space_product", "add the logs instead of multiplying", forms)
    return repair_ops("none", "stay in log space", hits, kind="none")


BROKEN = """\
import torch

torch.manual_seed(0)
logits = torch.nn.Parameter(torch.zeros(27))
text = torch.randint(0, 27, (60,))
optimizer = torch.optim.Adam([logits], lr=0.1)


def likelihood(letters):
    p = torch.softmax(logits, dim=0)
    return torch.prod(p[letters])


for step in range(3):
    loss = -torch.log(likelihood(text)) / len(text)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""

FIXED = """\
import torch

torch.manual_seed(0)
logits = torch.nn.Parameter(torch.zeros(27))
text = torch.randint(0, 27, (60,))
optimizer = torch.optim.Adam([logits], lr=0.1)


def log_likelihood(letters):
    logp = torch.log_softmax(logits, dim=0)
    return torch.sum(logp[letters])


for step in range(3):
    loss = -log_likelihood(text) / len(text)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


bug = Bug(
    id="product-underflow",
    title="a running product underflowed to 0",
    family="range",
    when=(birth(op=("log", "log2", "log10")) & form("log-of-product"))
    | seen("values-flushed", op=("prod", "cumprod"), dtype=("float32", "bfloat16"))
    | (birth(zero_from="product underflow") & ~birth(zero_dtype="float16") & ~form("log-of-product", "log-of-sigmoid", "log-of-softmax")),
    because=_because,
    fix="add logs instead of multiplying probabilities",
    repair=_repair,
    symptoms=("loss is inf", "loss becomes NaN"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="चलता हुआ गुणनफल underflow होकर 0 हो गया",
        symptoms=("loss inf आता है", "loss NaN हो जाता है"),
        fix="probability का गुणा करने की जगह उनके log जोड़ें",
        what=(
            "0.3 जैसी 100 probability का गुणनफल 5e-53 है, जो float32 में 0 है; उसका log -inf है और उससे भाग देने पर NaN। "
            "sequence ज़रा लंबी हुई कि sequence likelihood, forward algorithm और transmittance फ़ेल हो जाते हैं।"
        ),
        fixes={
            "add the logs instead of multiplying": "गुणा करने की जगह log जोड़ें",
            "stay in log space": "log space में ही रहें",
        },
        measured=("{op} को मिला गुणनफल ठीक 0 हो चुका है",),
    ),
)
