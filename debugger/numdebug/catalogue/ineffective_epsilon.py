"""an epsilon that is 0 in the format, or absorbed by what it is added to

What happens
    1e-8 is 0 in float16, and 1 + 1e-10 is 1 in float32: the guard is in the source and not in the arithmetic.
Why it matters
    Everyone who reads the line believes it safe. An optimizer's eps of 1e-8 on float16 weights makes them NaN in one step.
How we know
    The zero that divides, or meets a log, comes from an addition of (or a clamp to) a small constant that left it 0. Or divisors so small
    that the epsilon would matter were wrong by more than a tenth against float64.
    With `--as FORMAT`, as a note: the constant, or the optimizer's eps, rounds to 0 in that format.
Not this
    An epsilon that the format holds, with a zero from elsewhere.
Fix
    An epsilon that survives: 1e-4 in float16 (its smallest normal is 6.1e-5), or float32 for the guarded expression.
Read on
    google-deepmind/optax issue 1754 (Adam's eps in float16).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, reaches, repair_ops
from numdebug.formats import FORMATS
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    if b.kind == "emulated-epsilon":
        where = f"the eps {b['epsilon']:g} of {b['optimizer']}" if b["optimizer"] else f"{b['epsilon']:g}, which guards {b['guards']},"
        return f"{where} is 0 in {b['format']}: half its smallest number is {FORMATS[b['format']].flush:.2g}"
    if b.kind == "vanished-epsilon":
        return (
            f"an epsilon of {number(b['epsilon'])} is 0 in {b['dtype']}: {b['weak']} of {b['size']} divisors are too small for that, such"
            f" as {number(b['recorded'])} where float64 gives {number(b['exact'])}"
        )
    if b["optimizer"]:
        return f"the optimizer's eps is 0 in {b['dtype']} (numbers below 3e-8 round to 0), so its update divides by 0, {reaches(b)}"
    return f"an epsilon of {number(b['epsilon'])} leaves the argument at exactly 0 in {b['zero_dtype']}, {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair | None:
    if hits[0][0]["predicted"]:
        return None
    if hits[0][0].kind == "vanished-epsilon":
        return repair_ops("float32", "compute it in float32", hits)
    if hits[0][0]["optimizer"]:
        made = next((e.sites["optimizer"] for hit in hits for e in hit if "optimizer" in e.sites), None)
        repair = repair_ops(
            "optimizer_eps", "give the optimizer an eps that float16 holds, or keep float32 weights", hits, kind="setting", eps=1e-4
        )
        return Repair(
            repair.form, repair.kind, repair.summary, {**repair.sites, **({"target": made} if made else {})}, repair.ops, repair.numbers
        )
    return repair_ops("epsilon", "use an epsilon that the format holds", hits, eps=1e-4 if hits[0][0]["zero_dtype"] == "float16" else 1e-6)


BROKEN = """\
import torch

torch.manual_seed(0)
hidden = torch.randn(6, 32).half()
hidden[2] = 0


def unit(x, eps=1e-8):
    return x / (x.norm(dim=-1, keepdim=True) + eps)  # here


query = torch.nn.Parameter(torch.randn(32).half())
similarity = unit(hidden) @ unit(query)
loss = similarity.float().square().sum()
loss.backward()
print(loss.item(), query.grad.abs().max().item())
"""

FIXED = """\
import torch

torch.manual_seed(0)
hidden = torch.randn(6, 32).half()
hidden[2] = 0


def unit(x, eps=1e-4):
    return x / (x.norm(dim=-1, keepdim=True) + eps)


query = torch.nn.Parameter(torch.randn(32).half())
similarity = unit(hidden) @ unit(query)
loss = similarity.float().square().sum()
loss.backward()
print(loss.item(), query.grad.abs().max().item())
"""


bug = Bug(
    id="ineffective-epsilon",
    title="an epsilon that the format cannot hold",
    family="range",
    when=(birth(zero_from="epsilon") & ~form("log-of-sigmoid", "log-of-softmax", "softmax"))
    | seen("emulated-epsilon")
    | seen("vanished-epsilon")
    | (birth(optimizer=True, dtype="float16", born=("x/0", "0/0", "inf/inf", "overflow")) & seen("optimizer")),
    because=_because,
    fix="use an epsilon that the format holds",
    repair=_repair,
    symptoms=("loss becomes NaN", "diverges after switching to float16", "accuracy below the published one"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="epsilon, जिसे यह फ़ॉर्मैट रख नहीं सकता",
        symptoms=(
            "loss NaN हो जाता है",
            "float16 में बदलते ही ट्रेनिंग diverge करने लगती है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
        ),
        fix="ऐसा epsilon लें जिसे यह फ़ॉर्मैट रख सके",
        what=(
            "float16 में 1e-8 सीधे 0 है, और float32 में 1 + 1e-10 का परिणाम 1 ही रहता है: बचाव कोड में लिखा है, पर गणना "
            "में है ही नहीं। float16 weights पर optimizer का eps 1e-8 हो तो एक ही स्टेप में weights NaN हो जाते हैं।"
        ),
        fixes={
            "compute it in float32": "यह गणना float32 में करें",
            "give the optimizer an eps that float16 holds, or keep float32 weights": (
                "optimizer को ऐसा eps दें जिसे float16 रख सके, या weights float32 में रखें"
            ),
            "use an epsilon that the format holds": "ऐसा epsilon लें जिसे यह फ़ॉर्मैट रख सके",
        },
        measured=("epsilon {epsilon} का इस फ़ॉर्मैट में कोई असर नहीं",),
    ),
)
