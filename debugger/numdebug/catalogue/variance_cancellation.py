"""variance as the mean of squares minus the square of the mean

What happens
    E[x²] and E[x]² agree in their leading digits when the mean is large against the spread. Their difference is what rounding left:
    for 1e6, 1e6+1, 1e6+2 in float32 it is -65536 instead of 0.667.
Why it matters
    Variances come out 0 or negative; whatever is divided by their root is scaled by a wrong factor, or becomes NaN.
How we know
    The step was computed in float64 beside the program's own format, decision by decision. The difference is wrong by more than a
    tenth, half an ulp on every input explains none of it, and with these lines alone in float64 the consumed value is right.
Not this
    Centred data, where the two terms are not close; a spread that the data themselves no longer hold in this format.
Fix
    Subtract the mean first (two passes), x.var(), or Welford's update for a stream.
Read on
    Chan, Golub, LeVeque: Algorithms for computing the sample variance, The American Statistician 37 (1983).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._digits import wrong_by
from numdebug.catalogue._words import repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    return f"E[x²] - E[x]² subtracts two nearly equal numbers (up to {hit[0]['largest_operand']:.3g}): {wrong_by(hit[0])}"


BROKEN = """\
import torch

torch.manual_seed(0)
pressure = 101325 + 5 * torch.randn(512, 3)


def standardise(x):
    mean = x.mean(dim=0)
    variance = (x * x).mean(dim=0) - mean * mean  # here
    return (x - mean) / torch.sqrt(variance.clamp(min=1e-6))


z = standardise(pressure)
print(z.std(dim=0))
"""

FIXED = """\
import torch

torch.manual_seed(0)
pressure = 101325 + 5 * torch.randn(512, 3)


def standardise(x):
    mean = x.mean(dim=0)
    variance = (x - mean).square().mean(dim=0)
    return (x - mean) / torch.sqrt(variance.clamp(min=1e-6))


z = standardise(pressure)
print(z.std(dim=0))
"""


bug = Bug(
    id="variance-cancellation",
    title="variance computed as E[x²] - E[x]²",
    family="precision",
    when=seen("digits-lost", form="variance"),
    because=_because,
    fix="subtract the mean before squaring, or use x.var()",
    repair=lambda hits: repair_ops("two_pass_variance", "subtract the mean before squaring (two passes), or use x.var(correction=0)", hits),
    symptoms=("negative variance", "accuracy below the published one", "different from float64"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="variance, जो E[x²] - E[x]² से निकाला गया",
        symptoms=(
            "variance ऋणात्मक आता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "परिणाम float64 से अलग आता है",
        ),
        fix="वर्ग करने से पहले mean घटाएँ, या x.var() इस्तेमाल करें",
        what=(
            "mean फैलाव से बहुत बड़ा हो तो E[x²] और E[x]² के आगे के अंक एक ही होते हैं, और उनका अंतर बस rounding का "
            "बचा-खुचा है: float32 में 1e6, 1e6+1, 1e6+2 के लिए 0.667 की जगह -65536। variance 0 या ऋणात्मक आता है, और उसके "
            "root से भाग खाने वाली हर चीज़ ग़लत या NaN हो जाती है।"
        ),
        fixes={
            "subtract the mean before squaring (two passes), or use x.var(correction=0)": (
                "वर्ग करने से पहले mean घटाएँ (दो pass में), या x.var(correction=0) इस्तेमाल करें"
            ),
        },
        measured=("परिणाम {recorded} आया, जबकि float64 में {exact} आता है",),
    ),
)
