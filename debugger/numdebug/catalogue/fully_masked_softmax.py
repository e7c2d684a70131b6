"""a softmax over a row that is all -inf

What happens
    The maximum of the row is -inf, -inf - (-inf) is NaN, and the whole row of weights is NaN.
Why it matters
    One empty sequence in a batch makes every weight of the model NaN after one step.
How we know
    A softmax was given a row of nothing but -inf, and the NaN it made reaches the loss, a gradient or an output.
Not this
    -inf in some entries of a row: the softmax turns them into exact zeros. A whole row of finfo.min: it gives uniform weights.
Fix
    Give empty rows one valid entry (fill the row with 0), and drop them from the loss.
Read on
    PyTorch issue 41508 on attention with rows that are masked entirely.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    b = hit[0]
    return f"a row of the scores is all -inf, so its softmax is NaN, {reaches(b)}"


bug = Bug(
    id="fully-masked-softmax",
    title="a softmax row that is all -inf",
    family="range",
    when=seen("nonfinite-birth", born="all masked"),
    because=_because,
    fix="give rows without a valid entry a finite score, and drop them from the loss",
    repair=lambda hits: repair_ops("guard_masked_rows", "give empty rows a finite score", hits),
    symptoms=("loss becomes NaN",),
)
