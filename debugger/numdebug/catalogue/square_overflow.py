"""a square or product that leaves the range before a root or quotient brings it back

What happens
    x * x is inf from 1.8e19 in float32 (256 in float16), and 0 below 1e-23 (2e-4), although sqrt(x * x) is a perfectly good number.
Why it matters
    Norms, distances, complex magnitudes and rational functions fail for inputs that the format holds with ease.
How we know
    A square or product overflowed and a root, quotient or log of it would have been in range; the result is consumed.
Not this
    Values that grow step by step (`learning-rate-divergence`); a float16 value that stays too large (`float16-overflow`).
Fix
    hypot, or divide by the largest magnitude before squaring and multiply by it afterwards.
Read on
    Blue: A portable Fortran program to find the Euclidean norm of a vector, ACM TOMS 4 (1978).
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, reaches, repair_forms, repair_ops, several
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, birth, form, seen

_SQUARES = ("pow", "mul", "square", "norm", "sum", "add", "cdist", "addcmul")


def _because(hit: Found) -> str:
    b = hit[0]
    if b.kind == "swallowed-overflow":
        return (
            f"the result of {b['op']} on values up to {number(b['largest_input'], 4)} does not fit {b['dtype']}; "
            f"{b['shrinks']} then gives "
            f"exactly 0 in {b['lost']} of {b['size']} elements, where float64 gives up to {number(b['largest_exact'], 4)}"
        )
    largest = max(abs(b["largest_input"] or 0.0), abs(b["smallest_input"] or 0.0))
    return f"the square of {number(largest, 4)} does not fit {b['dtype']} (largest {number(b['format_limit'], 4)}), {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair | None:
    forms = several(hits, "naive-form")
    if forms and "square" in forms[0].ops:
        return repair_forms("scaled_norm", "scale by the largest magnitude before squaring", forms[:1])
    wider = "float32" if hits[0][0]["dtype"] in ("float16", "bfloat16") else "float64"
    return repair_ops(wider, "scale before squaring, or compute it in a wider format", hits, back=True)


BROKEN = """\
import torch

mass = torch.nn.Parameter(torch.tensor([2.0, 1.0, 3.0]))
place = torch.tensor([[1.5e20, 0.0], [-2.0e20, 4.0e19], [3.0e19, -1.0e20]])


def separation(points):
    gap = points[:, None] - points[None, :]
    squared = (gap**2).sum(dim=-1)  # here
    return torch.sqrt(squared + 1.0)


i, j = torch.triu_indices(3, 3, offset=1)
energy = -(mass[i] * mass[j] / separation(place)[i, j] * 1e20).sum()
reach = separation(place).max() * mass.mean()
reach.backward()
print(energy.item(), reach.item())
"""

FIXED = """\
import torch

mass = torch.nn.Parameter(torch.tensor([2.0, 1.0, 3.0]))
place = torch.tensor([[1.5e20, 0.0], [-2.0e20, 4.0e19], [3.0e19, -1.0e20]])


def separation(points):
    gap = points[:, None] - points[None, :]
    return torch.hypot(gap[..., 0], gap[..., 1])


i, j = torch.triu_indices(3, 3, offset=1)
energy = -(mass[i] * mass[j] / separation(place)[i, j] * 1e20).sum()
reach = separation(place).max() * mass.mean()
reach.backward()
print(energy.item(), reach.item())
"""


bug = Bug(
    id="square-overflow",
    title="a square that overflows before its root is taken",
    family="range",
    when=seen("swallowed-overflow", dtype=("float32", "float64", "bfloat16"))
    | (
        (birth(op=_SQUARES, born="overflow") | birth(op=_SQUARES, born=("x/0", "0/0"), forward_finite=False))
        & form("root-of-squares")
        | birth(
            op=("pow", "mul", "square", "matmul", "addcmul"),
            born="overflow",
            returns=True,
            dtype=("float32", "float64", "bfloat16", "complex64"),
        )
    )
    & ~Anywhere(seen("loss-history", growing_steps=lambda n: n is not None and n > 3, growth=lambda g: g is not None and g > 1e3)),
    because=_because,
    fix="use hypot, or scale before squaring",
    repair=_repair,
    symptoms=("loss is inf", "loss becomes NaN"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="वर्ग, जो root लेने से पहले ही overflow हो जाता है",
        symptoms=("loss inf आता है", "loss NaN हो जाता है"),
        fix="hypot इस्तेमाल करें, या वर्ग करने से पहले scale करें",
        what=(
            "float32 में 1.8e19 से (float16 में 256 से) ऊपर x * x inf है, और बहुत छोटे x पर 0, जबकि sqrt(x * x) एकदम "
            "सामान्य संख्या है। norm, दूरी और complex magnitude ऐसे इनपुट पर फ़ेल होते हैं जिन्हें फ़ॉर्मैट आराम से रख "
            "सकता है।"
        ),
        fixes={
            "scale by the largest magnitude before squaring": "वर्ग करने से पहले सबसे बड़े magnitude से भाग देकर scale करें",
            "scale before squaring, or compute it in a wider format": (
                "वर्ग करने से पहले scale करें, या यह गणना चौड़े (wider) फ़ॉर्मैट में करें"
            ),
        },
        measured=("जिन संख्याओं का वर्ग हुआ वे {largest_input} तक थीं; फ़ॉर्मैट की सबसे बड़ी संख्या {format_limit} है",),
    ),
)
