"""the two sides compute different things

What happens
    An epsilon, a scale, a mask, a weight, the approximation of a function or the order of axes is not the same on both sides. The results
    are close enough to be taken for rounding, or to be waved through by a generous tolerance.
Why it matters
    It is a bug in one of the two: a port that is not one, a checkpoint that is not the model's, an attention that sees the future.
How we know
    The difference is above what rounding of this very computation can do. Operations are aligned, by order and by their numbers; the
    sides part at the first operation whose operands agree and whose result does not. Where the rest can be computed again, one side is
    given the other's result at that place, and the outputs agree.
Not this
    Rounding (`rounding-difference`), narrower products, other formats, dropout on one side: each has its own evidence.
Fix
    Bring that operation, argument or weight to what it is on the other side.
Read on
    docs/comparing.md
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._difference import because, difference

BROKEN = """\
import torch
from torch.nn.functional import gelu, layer_norm

torch.manual_seed(0)
w, v = torch.randn(64, 128) / 8, torch.randn(128, 16) / 11
x = torch.randn(32, 64)


def original(x):
    return layer_norm(gelu(x @ w), (128,)) @ v


def port(x):
    hidden = gelu(x @ w)
    return layer_norm(hidden, (128,), eps=1e-3) @ v  # here
"""

FIXED = BROKEN.replace(", eps=1e-3) @ v  # here", ") @ v")


bug = Bug(
    id="real-difference",
    title="the two sides compute different things",
    family="difference",
    when=difference("real-difference"),
    because=because,
    fix="bring the operation named to what it is on the other side",
    severity="error",
    symptoms=("results differ", "port gives other results", "checkpoint gives other results"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    compared=("original", "port"),
    hindi=Words(
        title="दोनों पक्ष अलग-अलग चीज़ की गणना करते हैं",
        symptoms=("परिणाम अलग हैं", "port किया हुआ कोड अलग परिणाम देता है", "checkpoint से परिणाम अलग आते हैं"),
        fix="बताए गए ऑपरेशन को वैसा करें जैसा वह दूसरे पक्ष में है",
        what=(
            "कोई epsilon, scale, mask, weight, फ़ंक्शन का approximation या axes का क्रम दोनों पक्षों में एक-सा नहीं है। "
            "परिणाम इतने पास हैं कि rounding समझे जा सकते हैं, पर यह दोनों में से एक में bug है: port जो port नहीं है, "
            "checkpoint जो इस मॉडल का नहीं है।"
        ),
    ),
)
