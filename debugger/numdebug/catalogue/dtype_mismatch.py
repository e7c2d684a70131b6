"""the two sides compute in different number formats

What happens
    One side works in float32 and the other in float64 (NumPy's default), or a cast to bfloat16 or float16 in the middle throws digits away.
Why it matters
    The sides agree to the digits of the coarser format only, and a tolerance made for the finer one fails. A cast in the middle of a
    float32 computation costs accuracy that nobody asked to give up.
How we know
    The recorded operations of the two sides have different formats. Where the difference is what the coarser format rounds away, it is
    explained; where one side goes through a narrower format that the other never sees, that cast is the place at which they part.
Not this
    Products alone in a narrower format (`reduced-precision-matmul`).
Fix
    Convert both sides to one format before comparing, and take the tolerance of the coarser one; remove the cast that is not meant.
Read on
    numpy.result_type and type promotion; torch.autocast.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._difference import because, difference

BROKEN = """\
import torch

torch.manual_seed(0)
layer = torch.nn.Linear(256, 32)
x = torch.randn(16, 256)


def reference(x):
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return x.numpy().astype("float64") @ weight.T.astype("float64") + bias  # here
"""

FIXED = BROKEN.replace('x.numpy().astype("float64") @ weight.T.astype("float64") + bias  # here', "x.numpy() @ weight.T + bias")


bug = Bug(
    id="dtype-mismatch",
    title="the two sides compute in different number formats",
    family="difference",
    when=difference("dtype-mismatch"),
    because=because,
    fix="bring both sides to one format, or compare with the tolerance of the coarser one",
    severity="warning",
    symptoms=("results differ slightly", "numpy and framework differ"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    compared=("layer", "reference"),
    hindi=Words(
        title="दोनों पक्ष अलग-अलग number format में गणना करते हैं",
        symptoms=("परिणामों में थोड़ा-सा अंतर है", "numpy और framework के परिणाम अलग हैं"),
        fix="दोनों पक्षों को एक फ़ॉर्मैट में लाएँ, या मोटे (coarser) फ़ॉर्मैट की tolerance से तुलना करें",
        what=(
            "एक पक्ष float32 में और दूसरा float64 (NumPy का default) में चलता है, या बीच का कोई cast अंक गिरा देता है। "
            "दोनों पक्ष सिर्फ़ मोटे फ़ॉर्मैट के अंकों तक मिलते हैं, और महीन फ़ॉर्मैट के लिए बनी tolerance फ़ेल होती है।"
        ),
    ),
)
