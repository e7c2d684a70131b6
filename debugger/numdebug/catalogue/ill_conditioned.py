"""a solve, inverse or factorisation that eats the digits

What happens
    Solving loses as many digits as the matrix's condition number has: with 1e7, float32 has none left. Forming XᵀX squares the
    condition number of X before the solve begins.
Why it matters
    Coefficients of the wrong sign and size, without any error or NaN; another machine gives others.
How we know
    The step was computed in float64 beside the program's own format. The solver was given a matrix that is right to rounding and
    returned a result that is wrong by more than a tenth, which reaches a number that the program consumes. The condition number is
    measured in float64.
Not this
    A matrix whose condition number fits the format; a regularised solve.
Fix
    lstsq or QR on X itself instead of the normal equations; scaled columns, a better basis; a ridge term; float64.
Read on
    Golub, Van Loan: Matrix Computations, section 5.3 (the normal equations).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._digits import wrong_by
from numdebug.catalogue._words import repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    condition = f" with condition number {e['condition']:.1e}" if e["condition"] is not None else ""
    digits = f", which leaves {e['digits']:.0f} of {e['dtype']}'s digits" if e["digits"] is not None else ""
    return f"{e['op']} works on a matrix{condition}{digits}: {wrong_by(e)}"


BROKEN = """\
import torch

torch.manual_seed(0)
year = torch.linspace(0, 1, 60)
power = torch.arange(9)
design = year[:, None] ** power
target = torch.sin(6 * year) + 0.1 * year

coefficients = torch.linalg.solve(design.T @ design, design.T @ target)  # here
fitted = design @ coefficients
print(coefficients)
"""

FIXED = """\
import torch

torch.manual_seed(0)
year = torch.linspace(0, 1, 60).double()
power = torch.arange(9)
design = year[:, None] ** power
target = torch.sin(6 * year) + 0.1 * year

coefficients = torch.linalg.lstsq(design, target[:, None]).solution[:, 0]
fitted = design @ coefficients
print(coefficients)
"""


bug = Bug(
    id="ill-conditioned",
    title="a solve that eats the digits",
    family="precision",
    when=seen("digits-lost", form="solve"),
    because=_because,
    fix="use lstsq or QR instead of the normal equations, scale the columns, add a ridge term, or solve in float64",
    repair=lambda hits: repair_ops("wider", "use lstsq or QR on the design matrix, scale its columns, or solve in float64", hits),
    symptoms=("different from float64", "different from run to run", "accuracy below the published one"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="solve, जो अंक खा जाता है",
        symptoms=(
            "परिणाम float64 से अलग आता है",
            "हर रन में परिणाम अलग आता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
        ),
        fix=(
            "normal equations की जगह lstsq या QR इस्तेमाल करें, columns को scale करें, ridge term जोड़ें, या float64 में "
            "solve करें"
        ),
        what=(
            "solve करने में उतने ही अंक जाते हैं जितने matrix के condition number में हैं: 1e7 पर float32 के पास एक भी "
            "नहीं बचता, और XᵀX बनाना condition number को पहले ही वर्ग कर देता है। गुणांकों के चिह्न और आकार ग़लत आते हैं, "
            "बिना किसी error या NaN के; दूसरी मशीन कुछ और देती है।"
        ),
        fixes={
            "use lstsq or QR on the design matrix, scale its columns, or solve in float64": (
                "design matrix पर lstsq या QR इस्तेमाल करें, उसके columns को scale करें, या float64 में solve करें"
            ),
        },
        measured=("matrix का condition number {condition} है; परिणाम {recorded} आया, जबकि float64 में {exact} आता है",),
    ),
)
