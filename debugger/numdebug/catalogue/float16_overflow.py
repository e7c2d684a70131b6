"""a value above 65504 in float16

What happens
    float16 ends at 65504. Scores before scaling, sums over many elements and squares of numbers above 256 are inf.
Why it matters
    The same program is fine in float32 and bfloat16, which hides the bug until it runs in half precision.
How we know
    An operation in float16 turned finite operands into inf, the true result lies above 65504, and the inf reaches what is consumed.
Not this
    A float16 exp inside a softmax written by hand; a GradScaler's first, skipped steps.
Fix
    Scale before the product instead of after it, compute the region in float32, or use bfloat16.
Read on
    Micikevicius et al.: Mixed precision training, ICLR 2018.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug
from numdebug.catalogue._words import number, reaches, repair_ops
from numdebug.rules import Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    return f"the result of {b['op']} does not fit float16 (largest 65504; operands up to {number(b['largest_input'], 4)}), {reaches(b)}"


bug = Bug(
    id="float16-overflow",
    title="a value above 65504 in float16",
    family="range",
    when=birth(dtype="float16", born="overflow", optimizer=False)
    & ~birth(op=("exp", "exp2", "log", "expm1"))
    & ~form("softmax", "logsumexp", "softplus", "log-of-softmax", "log-of-sigmoid", "root-of-squares")
    & ~seen("singular-derivative", dropped=True),
    because=_because,
    fix="scale before the operation, or compute it in float32",
    repair=lambda hits: repair_ops("float32", "compute it in float32", hits),
    symptoms=("diverges after switching to float16", "loss becomes NaN"),
)
