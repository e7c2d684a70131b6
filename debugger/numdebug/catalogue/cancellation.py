"""a subtraction of nearly equal numbers that leaves only rounding

What happens
    a - b with a ≈ b keeps the digits in which they differ, and those carry the rounding of everything that a and b were made of.
    1 - cos(x), log(1 + x), exp(x) - 1, sqrt(x + 1) - sqrt(x), |a|² + |b|² - 2ab, (f(x + h) - f(x)) / h are the usual shapes.
Why it matters
    Small results are 0, or noise of either sign: rates vanish, distances to oneself are not 0, the wrong neighbour is the nearest.
How we know
    The step was computed in float64 beside the program's own format, decision by decision. The operation turns right operands into
    a result that is wrong by more than a tenth, half an ulp on every input explains less than a hundredth of that, and the error
    reaches a number that the program consumes.
Not this
    A result that is 0 but for rounding in any format; a difference that is lost in the inputs already (no formula brings it back);
    the last step of a loss (1 - cosine) whose gradient is right.
Fix
    Rearrange: log1p, expm1, 2·sin²(x/2), (b² - c) / (b + sqrt(...)), differences before squares; or keep these lines in float64.
Read on
    Higham: Accuracy and Stability of Numerical Algorithms, 2nd edition, sections 1.7 and 1.8.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._digits import wrong_by
from numdebug.catalogue._words import repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Above, Anywhere, Found, seen

_WHAT = {
    "log1p": "1 + x rounds the digits of a small x away before the log", "expm1": "exp(x) is 1 to rounding, and the 1 cancels",
    "one-minus-cos": "cos(x) is 1 to rounding, and it is subtracted from 1",
    "distances": "cdist computes |a|² + |b|² - 2ab, which cancels for points far from the origin",
}  # fmt: skip
_REPAIRS = {
    "log1p": ("log1p", "use log1p(x)"),
    "expm1": ("expm1", "use expm1(x)"),
    "one-minus-cos": ("half_angle", "use 2 * sin(x / 2) ** 2"),
    "distances": ("exact_distances", 'centre the points first, or compute_mode="donot_use_mm_for_euclid_dist"'),
}


def _because(hit: Found) -> str:
    e = hit[0]
    what = _WHAT.get(str(e["form"]), f"{e['op']} of nearly equal numbers (up to {e['largest_operand']:.3g})")
    return f"{what}: {wrong_by(e)}"


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    lines = ", ".join(map(str, e["lines"] or ([e.site.line] if e.site else [])))
    form, summary = _REPAIRS.get(
        str(e["form"]), ("wider", f"rearrange the formula so that nothing cancels, or keep line {lines} in float64")
    )
    return repair_ops(form, summary, hits)


BROKEN = """\
import torch

torch.manual_seed(0)
rates = 10.0 ** -torch.linspace(8, 10, 64)


def continuous(rate):
    return torch.log(1 + rate)  # here


yearly = 365 * continuous(rates)
print(yearly.sum())
"""

FIXED = """\
import torch

torch.manual_seed(0)
rates = 10.0 ** -torch.linspace(8, 10, 64)


def continuous(rate):
    return torch.log1p(rate)


yearly = 365 * continuous(rates)
print(yearly.sum())
"""


bug = Bug(
    id="cancellation",
    title="a subtraction of nearly equal numbers",
    family="precision",
    when=seen(
        "digits-lost",
        form=(
            "difference", "log1p", "expm1", "one-minus-cos", "distances", "sum", "mean", "cumsum", "matmul", "log", "norm", "lerp",
            "addcmul", "pow", "mse_loss", "prod", "cumprod",
        ),
    )
    & ~seen("noisy-quotient", checks=True, error=Above(0.1))  # that is unreliable-gradient-check
    & ~Anywhere(seen("swinging-state")),  # of a simulation that blew up, no digit means anything
    because=_because,
    fix="rearrange the formula, or keep it in float64",
    repair=_repair,
    symptoms=("different from float64", "result is exactly 0", "negative distance", "accuracy below the published one"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="लगभग बराबर संख्याओं को घटाना",
        symptoms=(
            "परिणाम float64 से अलग आता है",
            "परिणाम ठीक 0 आता है",
            "दूरी (distance) ऋणात्मक आती है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
        ),
        fix="सूत्र को दूसरे रूप में लिखें, या उसे float64 में रखें",
        what=(
            "a ≈ b हो तो a - b में सिर्फ़ वे अंक बचते हैं जिनमें दोनों अलग हैं, और उन्हीं अंकों में अब तक की सारी "
            "rounding बैठी है। छोटे परिणाम 0 या दोनों चिह्नों का शोर बन जाते हैं: दर मिट जाती है, ख़ुद से दूरी 0 नहीं "
            "आती, ग़लत पड़ोसी सबसे पास निकलता है।"
        ),
        fixes={
            "use log1p(x)": "log1p(x) इस्तेमाल करें",
            "use expm1(x)": "expm1(x) इस्तेमाल करें",
            "use 2 * sin(x / 2) ** 2": "2 * sin(x / 2) ** 2 इस्तेमाल करें",
            'centre the points first, or compute_mode="donot_use_mm_for_euclid_dist"': (
                'पहले बिंदुओं को केंद्रित (centre) करें, या compute_mode="donot_use_mm_for_euclid_dist" दें'
            ),
            "rearrange the formula so that nothing cancels, or keep line {} in float64": (
                "सूत्र को ऐसे लिखें कि कुछ कटे नहीं, या लाइन {} को float64 में रखें"
            ),
        },
        measured=("परिणाम {recorded} आया, जबकि float64 में {exact} आता है",),
    ),
)  # fmt: skip
