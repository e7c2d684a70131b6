"""two results that differ by rounding alone

What happens
    Floating-point sums depend on the order of their terms. Another batch size, thread count, kernel, compiler or device adds the same
    numbers up in another order, and the last digits come out differently.
Why it matters
    It does not: both results are as near to the exact one. A test that asks for more fails for no reason; nobody promises results bit for
    bit across batch sizes, libraries or devices.
How we know
    The recorded computation is made again eight times with every operation's result moved at random by what its own rounding may amount to.
    The spread of the results, element by element, is the envelope; the measured difference lies inside of it.
Not this
    A difference above the envelope (`real-difference`); one that only narrower products explain (`reduced-precision-matmul`).
Fix
    Compare with a tolerance that the computation warrants (the report suggests one), or compute in float64, in one thread, or both sides
    through the same compiled function.
Read on
    Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4; PyTorch notes on numerical accuracy.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._difference import because, difference

BROKEN = """\
import torch

torch.manual_seed(0)
w = torch.randn(512, 64)
x = torch.randn(8, 512)


def whole(x):
    return x @ w


def other(x):
    return x[:, 1::2] @ w[1::2] + x[:, ::2] @ w[::2]  # here
"""

FIXED = BROKEN.replace("x[:, 1::2] @ w[1::2] + x[:, ::2] @ w[::2]  # here", "torch.matmul(x, w)")


bug = Bug(
    id="rounding-difference",
    title="two results that differ by rounding alone",
    family="difference",
    when=difference("rounding-difference"),
    because=because,
    fix="nothing to mend: compare with the suggested tolerance, or compute both sides in float64",
    severity="note",
    symptoms=("results differ slightly", "batched and single results differ", "gpu and cpu differ"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    compared=("whole", "other"),
    hindi=Words(
        title="दो परिणाम, जिनमें सिर्फ़ rounding का अंतर है",
        symptoms=(
            "परिणामों में थोड़ा-सा अंतर है",
            "बैच में और अकेले चलाने पर परिणाम अलग आते हैं",
            "gpu और cpu के परिणाम अलग हैं",
        ),
        fix="कुछ ठीक नहीं करना है: सुझाई गई tolerance से तुलना करें, या दोनों पक्ष float64 में निकालें",
        what=(
            "floating-point योग उसके पदों के क्रम पर निर्भर है; दूसरा batch size, thread count, kernel या device उन्हीं "
            "संख्याओं को दूसरे क्रम में जोड़ता है और आख़िरी अंक बदल जाते हैं। इससे नुक़सान नहीं होता: दोनों परिणाम सही "
            "मान के बराबर पास हैं।"
        ),
    ),
)
