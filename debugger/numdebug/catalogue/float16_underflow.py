"""values or gradients flushed to zero in float16

What happens
    float16 rounds to 0 below 2.98e-8. Small gradients, variances and probabilities are exactly 0.
Why it matters
    Early layers stop learning without any NaN or warning; a flushed variance divides by zero.
How we know
    The step was run again with the float16 operations in float32: gradient entries that are 0 only because of the format were
    counted. Or a zero that divides, or meets a log, was made by a float16 operation from non-zero numbers.
    With `--as float16`: the same of a step that ran in float32, once every number in it is rounded to float16.
Not this
    Gradients that are 0 in float32 as well (dead units, a frozen layer); a loss that is scaled already.
Fix
    Dynamic loss scaling (GradScaler), or bfloat16; for a single value, compute it in float32.
Read on
    Micikevicius et al.: Mixed precision training, ICLR 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import foretold, keep_in_float32, reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Above, Found, birth, seen

# A tenth of the gradient entries: the design asks a loss scale to keep 99.9 %, and a single layer's dead units in float16 stay below this.
LOST = 0.1


def _because(hit: Found) -> str:
    b = hit[0]
    if b.kind == "values-flushed":
        return f"{b['op']} in float16 gives 0 where float64 gives up to {b['exact']:.2g}, and this makes {b['reaches']} wrong"
    if b.kind == "emulated-overflow":
        return foretold(b)
    if b.kind in ("flushed-gradients", "emulated-underflow"):
        worst = f"{b['worst_share']:.0%} in {b['worst']}"
        return f"{b['share']:.0%} of the gradient entries are 0 only because of float16 ({worst}), which rounds to 0 below 3e-8"
    return f"a float16 operation rounded to exactly 0 what is not 0, {b['born']} follows, {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair:
    if hits[0][0].kind == "emulated-overflow":
        return keep_in_float32(hits)
    if hits[0][0].kind == "emulated-underflow":
        scale = hits[0][0]["loss_scale"]
        how = f"scale the loss by {scale:g} or more (GradScaler)" if scale else "scale the loss (GradScaler)"
        return Repair("loss_scale", "none", f"{how}, or use bfloat16")
    if hits[0][0].kind == "values-flushed":
        return repair_ops("float32", "compute it in float32, or work with logarithms", hits)
    if hits[0][0].kind == "flushed-gradients":
        return repair_ops("bfloat16_autocast", "scale the loss with a GradScaler, or use bfloat16 autocast", hits, kind="setting")
    repair = repair_ops("float32", "compute it in float32", hits)
    zero = {role.replace("zero", "target"): op for role, op in repair.ops.items() if role.startswith("zero")}  # that is where it was lost
    sites = {role.replace("zero", "target"): site for role, site in repair.sites.items() if role.startswith("zero")}
    return replace(repair, ops={**repair.ops, **zero}, sites={**repair.sites, **sites})


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
x = torch.randn(128, 32)
y = x[:, :1] * 1e-3

for step in range(4):
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x)
        loss = 1e-4 * (output - y).square().mean()
    optimizer.zero_grad()
    loss.backward()  # here
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
x = torch.randn(128, 32)
y = x[:, :1] * 1e-3

for step in range(4):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(x)
        loss = 1e-4 * (output - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="float16-underflow",
    title="flushed to zero in float16",
    family="range",
    when=seen("flushed-gradients", share=Above(LOST))
    | seen("emulated-underflow", format="float16", share=Above(LOST))
    | seen("emulated-overflow", format="float16", born="divided")
    | seen("values-flushed", dtype="float16")
    | birth(zero_from="cast underflow")
    | birth(zero_dtype="float16", zero_from=("underflow", "exp", "mul", "div", "square", "product underflow")),
    because=_because,
    fix="scale the loss (GradScaler), use bfloat16, or compute the value in float32",
    repair=_repair,
    symptoms=("loss stuck", "accuracy below the published one", "gradient norm exactly 0", "diverges after switching to float16"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="float16 में 0 हो गए मान",
        symptoms=(
            "loss अटका रहता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "ग्रेडिएंट का norm ठीक 0 है",
            "float16 में बदलते ही ट्रेनिंग diverge करने लगती है",
        ),
        fix="loss को scale करें (GradScaler), bfloat16 इस्तेमाल करें, या यह मान float32 में निकालें",
        what=(
            "float16 में 2.98e-8 से छोटी संख्याएँ round होकर ठीक 0 हो जाती हैं, और छोटे ग्रेडिएंट, variance और "
            "probability मिट जाते हैं। शुरुआती लेयर बिना किसी NaN या चेतावनी के सीखना बंद कर देती हैं, और 0 हुए variance "
            "से भाग देने पर inf आता है।"
        ),
        fixes={
            "scale the loss by {} or more (GradScaler), or use bfloat16": (
                "loss को {} या उससे ज़्यादा से scale करें (GradScaler), या bfloat16 इस्तेमाल करें"
            ),
            "scale the loss (GradScaler), or use bfloat16": "loss को scale करें (GradScaler), या bfloat16 इस्तेमाल करें",
            "compute it in float32, or work with logarithms": "यह गणना float32 में करें, या logarithm में काम करें",
            "scale the loss with a GradScaler, or use bfloat16 autocast": (
                "GradScaler से loss को scale करें, या bfloat16 autocast इस्तेमाल करें"
            ),
            "keep it in float32, scale before the operation, or use bfloat16": (
                "इसे float32 में रखें, ऑपरेशन से पहले scale करें, या bfloat16 इस्तेमाल करें"
            ),
            "keep {} in float32, scale before the operation, or use bfloat16": (
                "{} को float32 में रखें, ऑपरेशन से पहले scale करें, या bfloat16 इस्तेमाल करें"
            ),
            "compute it in float32": "यह गणना float32 में करें",
        },
        measured=("ग्रेडिएंट की {flushed} entries सिर्फ़ float16 की वजह से 0 हैं",),
    ),
)
