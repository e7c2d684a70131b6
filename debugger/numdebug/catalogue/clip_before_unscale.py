"""gradients clipped while a loss scale is on them

What happens
    A GradScaler multiplies gradients by thousands until the optimizer steps. Clipped before that, they are compared with a limit that was
    meant for true gradients, and what is left is divided by the scale afterwards.
Why it matters
    Every step is thousands of times too short, and its length follows the scale; nothing fails.
How we know
    The gradients were clipped after the scaled backward pass and unscaled later. Unscaled first, the same limit leaves another norm.
Not this
    unscale_() before clipping; a limit that is multiplied by the scale; a clip that changed nothing.
Fix
    scaler.unscale_(optimizer) before clipping.
Read on
    PyTorch documentation: Automatic mixed precision examples, Gradient clipping.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.report.model import Repair
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    return (
        f"the gradients still carry the loss scale of {number(e['scale'], 6)} when they are clipped, and it is taken off afterwards: the"
        f" optimizer gets {number(1 / e['meant'])} of the norm that the same limit leaves of unscaled gradients"
    )


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    return Repair("unscale_before_clip", "setting", "call unscale_ before clipping", dict(e.sites))


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(40):
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x)
    loss = (output.float() - y).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # here
    scaler.step(optimizer)
    scaler.update()
"""

_CLIP = "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
FIXED = BROKEN.replace(f"{_CLIP}  # here", f"    scaler.unscale_(optimizer)\n{_CLIP}")


bug = Bug(
    id="clip-before-unscale",
    title="clipping gradients that are still scaled",
    family="training",
    when=seen("clipped-gradients", scaled=True),
    because=_because,
    fix="call scaler.unscale_(optimizer) before clipping",
    repair=_repair,
    symptoms=("loss is stuck", "trains slower than it should", "accuracy below the published one"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="ऐसे ग्रेडिएंट को clip करना जिन पर loss scale अभी लगा है",
        symptoms=(
            "loss अटका रहता है",
            "ट्रेनिंग जितनी होनी चाहिए उससे धीमी चलती है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
        ),
        fix="clip करने से पहले scaler.unscale_(optimizer) चलाएँ",
        what=(
            "GradScaler ग्रेडिएंट को optimizer के स्टेप तक हज़ारों से गुणा करके रखता है। उससे पहले clip करें तो वे असली "
            "ग्रेडिएंट के लिए सोची गई सीमा से तुलते हैं, और जो बचता है वह बाद में scale से भाग खाता है: हर स्टेप हज़ारों "
            "गुना छोटा रहता है, और कुछ भी फ़ेल नहीं होता।"
        ),
        fixes={
            "call unscale_ before clipping": "clip करने से पहले unscale_ चलाएँ",
        },
        measured=("clip करते समय loss scale {scale} लगा हुआ था",),
    ),
)
