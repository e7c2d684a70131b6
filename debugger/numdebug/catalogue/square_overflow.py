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

from numdebug.catalogue._bug import Bug
from numdebug.catalogue._words import number, reaches, repair_forms, repair_ops, several
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    largest = max(abs(b["largest_input"] or 0.0), abs(b["smallest_input"] or 0.0))
    return f"the square of {number(largest, 4)} does not fit {b['dtype']} (largest {number(b['format_limit'], 4)}), {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair | None:
    forms = several(hits, "naive-form")
    if forms:
        return repair_forms("scaled_norm", "scale by the largest magnitude before squaring", forms[:1])
    return repair_ops("float32", "compute it in a wider format", hits, back=True)


bug = Bug(
    id="square-overflow",
    title="a square that overflows before its root is taken",
    family="range",
    when=(
        birth(op=("pow", "mul", "square", "norm", "sum", "add", "cdist", "addcmul"), born=("overflow", "x/0", "0/0")) & form("root-of-squares")
        | birth(op=("pow", "mul", "square", "matmul", "addcmul"), born="overflow", returns=True, dtype=("float32", "float64", "bfloat16", "complex64"))
    )
    & ~Anywhere(seen("loss-history", growing_steps=lambda n: n is not None and n > 3, growth=lambda g: g is not None and g > 1e3)),
    because=_because,
    fix="use hypot, or scale before squaring",
    repair=_repair,
    symptoms=("loss is inf", "loss becomes NaN"),
)
