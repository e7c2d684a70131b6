"""a value above 65504 in float16

What happens
    float16 ends at 65504. Scores before scaling, sums over many elements and squares of numbers above 256 are inf.
Why it matters
    The same program is fine in float32 and bfloat16, which hides the bug until it runs in half precision.
How we know
    An operation in float16 turned finite operands into inf, the true result lies above 65504, and the inf reaches what is consumed.
    With `--as float16`: the recorded step fails once every number in it is rounded to float16, and this is where it first does.
Not this
    A float16 exp inside a softmax written by hand; a GradScaler's first, skipped steps.
Fix
    Scale before the product instead of after it, compute the region in float32, or use bfloat16.
Read on
    Micikevicius et al.: Mixed precision training, ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import foretold, keep_in_float32, number, reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    if b.kind == "emulated-overflow":
        return foretold(b)
    if b.kind == "swallowed-overflow":
        return (
            f"the result of {b['op']} on values up to {number(b['largest_input'], 4)} does not fit float16 "
            f"(largest 65504); {b['shrinks']} then gives "
            f"exactly 0 in {b['lost']} of {b['size']} elements, where float64 gives up to {number(b['largest_exact'], 4)}"
        )
    return f"the result of {b['op']} does not fit float16 (largest 65504; operands up to {number(b['largest_input'], 4)}), {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair:
    if hits[0][0]["predicted"]:
        return keep_in_float32(hits)
    return repair_ops("float32", "compute it in float32", hits, back=True)


BROKEN = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(-2, -1)  # here
        return torch.softmax(scores / x.shape[-1] ** 0.5, dim=-1) @ v


torch.manual_seed(0)
model = Attention(256).half()
x = torch.randn(2, 10, 256) * 200
with torch.no_grad():
    y = model(x.half())
print(y.float().std())
"""

FIXED = """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = (q / 64) @ (k / 64).transpose(-2, -1)
        return torch.softmax(scores.float() * 256, dim=-1).half() @ v


torch.manual_seed(0)
model = Attention(256).half()
x = torch.randn(2, 10, 256) * 200
with torch.no_grad():
    y = model(x.half())
print(y.float().std())
"""


bug = Bug(
    id="float16-overflow",
    title="a value above 65504 in float16",
    family="range",
    when=seen("swallowed-overflow", dtype="float16")
    | seen("emulated-overflow", format="float16", born="overflow")
    | birth(dtype="float16", born="overflow", optimizer=False)
    & ~birth(op=("exp", "exp2", "log", "expm1"))
    & ~form("softmax", "logsumexp", "softplus", "log-of-softmax", "log-of-sigmoid", "root-of-squares")
    & ~seen("singular-derivative", dropped=True),
    because=_because,
    fix="scale before the operation, or compute it in float32",
    repair=_repair,
    symptoms=("diverges after switching to float16", "loss becomes NaN"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="float16 में 65504 से बड़ा मान",
        symptoms=("float16 में बदलते ही ट्रेनिंग diverge करने लगती है", "loss NaN हो जाता है"),
        fix="ऑपरेशन से पहले scale करें, या यह गणना float32 में करें",
        what=(
            "float16 की सबसे बड़ी संख्या 65504 है: scale होने से पहले के scores, बहुत-से elements के योग और 256 से बड़ी "
            "संख्याओं के वर्ग inf हो जाते हैं। float32 और bfloat16 में यही प्रोग्राम ठीक चलता है, इसलिए गड़बड़ी half "
            "precision में ही दिखती है।"
        ),
        fixes={
            "keep it in float32, scale before the operation, or use bfloat16": (
                "इसे float32 में रखें, ऑपरेशन से पहले scale करें, या bfloat16 इस्तेमाल करें"
            ),
            "keep {} in float32, scale before the operation, or use bfloat16": (
                "{} को float32 में रखें, ऑपरेशन से पहले scale करें, या bfloat16 इस्तेमाल करें"
            ),
            "compute it in float32": "यह गणना float32 में करें",
        },
        measured=("operand {largest_input} तक के थे; float16 की सबसे बड़ी संख्या {format_limit} है",),
    ),
)
