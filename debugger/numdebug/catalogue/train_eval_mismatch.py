"""dropout or batch statistics active while a trained network is evaluated

What happens
    In training mode dropout drops units at random and batch normalisation uses the mean and variance of the rows at hand. Without
    `model.eval()` both go on doing so when the network is evaluated.
Why it matters
    The same input gives another answer each time, or an answer that depends on the other rows of its batch. Measured accuracy is too low.
How we know
    In a pass whose result is compared, counted or printed but never differentiated, a layer that was trained before (or loaded) drops
    units, or normalises with the batch's statistics although it keeps running ones. Asked again, with the same rows or with fewer, the
    network gives other answers; in evaluation mode it does not.
Not this
    Several passes over the same input whose spread is used (Monte-Carlo dropout); teachers and targets of a loss; passes that only bring
    running statistics up to date.
Fix
    model.eval() before evaluation and model.train() after it; pass training=self.training to functional dropout.
Read on
    https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, seen

_FIX = "evaluate the network in evaluation mode: model.eval() before it"
_ACTIVE = {"dropout": "dropout is active", "batch statistics": "batch normalisation uses the statistics of the rows at hand"}


def _because(hit: Found) -> str:
    e = hit[0]
    what = " and ".join(_ACTIVE[kind] for kind in e["active"])
    before = "loaded" if e["loaded"] else "trained before"
    state = "it stays so in evaluation mode" if e["functional"] else "the network is still in training mode"
    asked = ""
    if e["repeated"]:
        asked = f"two calls with the same {e['rows']} rows differ by {e['repeated']:.3g}"
    elif e["fewer"]:
        asked = f"{e['part']} of the {e['rows']} rows alone get answers that differ by {e['fewer']:.3g}"
    if asked and not e["functional"]:
        calm = e["repeated_evaluating"] if e["repeated"] else e["fewer_evaluating"]
        asked += f", in evaluation mode by {calm:.1g}; answers go up to {e['size']:.3g}"
    asked = f" ({asked})" if asked else ""
    return f"in a layer that was {before}, while its result is used and not learned from, {what}: {state}{asked}"


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    if e["functional"] and "dropout" in e["active"]:
        return repair_ops("dropout_training", "pass training=self.training to the dropout", hits[:1])
    if e["functional"]:
        return repair_ops("running_statistics", "let the layer keep running statistics", hits[:1])
    return repair_ops("evaluation_mode", _FIX, hits[:1])


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(200, 8)
y = (x[:, 0] > 0).long()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for step in range(30):
    loss = nn.functional.cross_entropy(model(x[:150]), y[:150])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.no_grad():
    guess = model(x[150:]).argmax(1)  # here
print((guess == y[150:]).float().mean().item())
"""

FIXED = BROKEN.replace("with torch.no_grad():", "model.eval()\nwith torch.no_grad():").replace("  # here", "")


bug = Bug(
    id="train-eval-mismatch",
    title="dropout or batch statistics active while a trained network is evaluated",
    family="difference",
    when=seen("train-mode-evaluation") & ~Anywhere(seen("symptom")),
    because=_because,
    fix=_FIX,
    repair=_repair,
    severity="warning",
    symptoms=("accuracy below the published one", "same input gives different output", "evaluation is random"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="ट्रेन हो चुके नेटवर्क के evaluation में dropout या batch statistics चालू हैं",
        symptoms=(
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "एक ही इनपुट पर आउटपुट बदलता रहता है",
            "evaluation के नतीजे हर बार बदलते हैं (random)",
        ),
        fix="नेटवर्क का evaluation, evaluation mode में करें: उससे पहले model.eval()",
        what=(
            "training mode में dropout units को random ढंग से गिराता है और batch normalisation सामने की rows का mean और "
            "variance लेता है; model.eval() के बिना evaluation में भी यही चलता रहता है। एक ही इनपुट पर हर बार दूसरा उत्तर "
            "आता है, या उत्तर बैच की बाक़ी rows पर निर्भर करता है, और नापी गई accuracy असल से कम आती है।"
        ),
        fixes={
            "pass training=self.training to the dropout": "dropout को training=self.training दें",
            "let the layer keep running statistics": "लेयर को running statistics रखने दें",
        },
        measured=("एक ही इनपुट पर दो बार के आउटपुट में {repeated} तक का अंतर आया; evaluation mode में {repeated_evaluating}",),
    ),
)
