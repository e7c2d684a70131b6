"""matrix products whose operands are rounded to TF32, bfloat16 or float16

What happens
    Tensor cores multiply operands of 10 (TF32), 7 (bfloat16) or 10 (float16) bits of fraction and add up in float32. Frameworks use them
    for float32 arrays by default on some devices, or because a setting allows it.
Why it matters
    Results are right to three digits instead of seven. Training usually bears it; comparisons with a CPU or with NumPy, solvers and small
    differences of large numbers do not. The wide envelope also hides small bugs.
How we know
    The measured difference is above what rounding in float32 explains, and inside the envelope of the same computation with operands of
    products moved by half an ulp of the narrower format.
Not this
    A part of the model that is cast to a narrower format altogether (`dtype-mismatch`).
Fix
    torch.set_float32_matmul_precision("highest") or jax.default_matmul_precision("highest"); compare once more that way, because what the
    narrower products allow for is wide enough to hide a small bug.
Read on
    torch.set_float32_matmul_precision; jax.default_matmul_precision; NVIDIA's notes on TF32.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._difference import because, difference
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    if e.kind == "difference":
        return because(hit)
    return (
        f"with products in TF32, as GPUs may compute them, this result would move by {e['tf32']:.2g} of its size; "
        f"summed up in another order in float32, by {e['order']:.1g}"
    )


BROKEN = """\
import torch
from numdebug.stable import round_to

torch.manual_seed(0)
layer = torch.nn.Linear(256, 32)
x = torch.randn(16, 256)


def reference(x):
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return (round_to(x.numpy(), "tf32") @ round_to(weight.T, "tf32") + bias).astype("float32")  # here
"""

FIXED = BROKEN.replace('round_to(x.numpy(), "tf32") @ round_to(weight.T, "tf32")', "x.numpy() @ weight.T").replace("  # here", "")


bug = Bug(
    id="reduced-precision-matmul",
    title="matrix products whose operands are rounded to TF32, bfloat16 or float16",
    family="difference",
    when=difference("reduced-precision-matmul") | seen("device-spread", lost=True),
    because=_because,
    fix="ask for full precision (set_float32_matmul_precision or default_matmul_precision 'highest') and compare again",
    severity="warning",
    symptoms=("gpu and cpu differ", "results differ slightly"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    compared=("layer", "reference"),
    hindi=Words(
        title="matrix product, जिनके operand TF32, bfloat16 या float16 में round होते हैं",
        symptoms=("gpu और cpu के परिणाम अलग हैं", "परिणामों में थोड़ा-सा अंतर है"),
        fix=(
            "पूरी precision माँगें (set_float32_matmul_precision या default_matmul_precision 'highest') और फिर से तुलना "
            "करें"
        ),
        what=(
            "tensor core operands को 10 (TF32, float16) या 7 (bfloat16) bits के fraction तक round करके गुणा करते हैं और "
            "float32 में जोड़ते हैं; कुछ devices पर यह float32 arrays के लिए भी default है। परिणाम सात की जगह तीन अंकों "
            "तक सही रहते हैं: ट्रेनिंग प्रायः सह लेती है, तुलना और छोटे अंतर नहीं।"
        ),
    ),
)
