"""one side flushes subnormal numbers to zero

What happens
    Numbers below the smallest normal one (1.2e-38 in float32) are subnormal. XLA on a CPU, GPUs in some modes and
    torch.set_flush_denormal(True) replace them by 0; other code computes with them.
Why it matters
    A logarithm or a quotient of such a number is finite on one side and infinite or NaN on the other.
How we know
    Every element that differs is subnormal on one side and 0 on the other.
Not this
    Values that underflow on both sides (`float16-underflow`, `product-underflow`).
Fix
    Keep values in the normal range (work with logarithms, rescale), or switch flushing on or off on both sides.
Read on
    IEEE 754, subnormal numbers; torch.set_flush_denormal.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._difference import because, difference

BROKEN = """\
import torch

x = torch.linspace(1e-3, 1e-1, 50)


def usual(x):
    return x * 1e-37


def flushed(x):
    torch.set_flush_denormal(True)
    y = x * 1e-37  # here
    torch.set_flush_denormal(False)
    return y
"""

FIXED = BROKEN.replace("x * 1e-37", "x * 1e-30").replace("  # here", "")


bug = Bug(
    id="flush-to-zero",
    title="one side flushes subnormal numbers to zero",
    family="difference",
    when=difference("flush-to-zero"),
    because=because,
    fix="keep the values in the normal range, or flush on both sides",
    severity="warning",
    symptoms=("tiny values are zero on one device",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    compared=("usual", "flushed"),
    hindi=Words(
        title="एक पक्ष subnormal संख्याओं को 0 कर देता है",
        symptoms=("एक device पर बहुत छोटे मान 0 हो जाते हैं",),
        fix="मानों को सामान्य (normal) range में रखें, या दोनों पक्षों में flush करें",
        what=(
            "सबसे छोटी normal संख्या (float32 में 1.2e-38) से छोटी संख्याएँ subnormal हैं; CPU पर XLA और कुछ GPU उन्हें 0 "
            "मान लेते हैं, बाक़ी कोड उनसे गणना करता है। ऐसी संख्या का log या भागफल एक पक्ष में finite और दूसरे में inf या "
            "NaN आता है।"
        ),
    ),
)
