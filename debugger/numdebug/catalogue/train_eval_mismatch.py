"""dropout or batch statistics active while a trained network is evaluated

What happens
    In training mode dropout drops units at random and batch normalisation uses the mean and variance of the rows at hand. Without
    `model.eval()` both go on doing so when the network is evaluated.
Why it matters
    The same input gives another answer each time, or an answer that depends on the other rows of its batch. Measured accuracy is too low.
How we know
    In a pass without gradients a layer that was trained before drops units, or normalises with the batch's statistics although it keeps
    running ones, and the result is compared, counted or printed but never differentiated.
Not this
    Several passes over the same input whose spread is used (Monte-Carlo dropout); teachers and targets of a loss; passes that only bring
    running statistics up to date.
Fix
    model.eval() before evaluation and model.train() after it; pass training=self.training to functional dropout.
Read on
    https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    what = "dropout is active" if e["active"] == "dropout" else "batch normalisation uses the statistics of the rows at hand"
    return f"without gradients, in a layer that was trained before, {what}: the network is still in training mode"


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
    fix="call model.eval() before evaluation and model.train() after it",
    severity="warning",
    symptoms=("accuracy below the published one", "same input gives different output", "evaluation is random"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
)
