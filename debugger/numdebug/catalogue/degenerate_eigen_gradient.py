"""eigenvectors differentiated at repeated eigenvalues

What happens
    The derivative of an eigenvector holds 1 / (λi - λj). Equal eigenvalues (an identity matrix, a symmetric start) make it inf or NaN.
Why it matters
    The forward pass is right, the first gradient is NaN, and the next step dies inside the decomposition with a misleading error.
How we know
    The gradient was born in the derivative of eigh or svd, and the smallest gap between its eigenvalues is (nearly) 0.
Not this
    Eigenvalues alone: their derivative is finite.
Fix
    Break the ties with a small, distinct diagonal, or use a form that needs no eigenvectors.
Read on
    PyTorch's documentation of torch.linalg.eigh (warning on the gradient).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    gap = f" (smallest gap {number(e['smallest_gap'])})" if e["smallest_gap"] is not None else ""
    return f"{e['op']} has repeated values{gap}, and the derivative of its vectors divides by their difference"


BROKEN = """\
import torch

torch.manual_seed(0)
points = torch.randn(64, 3)
metric = torch.nn.Parameter(torch.eye(3))
optimizer = torch.optim.SGD([metric], lr=0.01)

for step in range(3):
    symmetric = (metric + metric.T) / 2
    values, axes = torch.linalg.eigh(symmetric)  # here
    projected = points @ axes[:, -1]
    loss = -projected.square().mean() / values[-1]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""

FIXED = """\
import torch

torch.manual_seed(0)
points = torch.randn(64, 3)
metric = torch.nn.Parameter(torch.diag(torch.tensor([1.0, 1.5, 2.0])))
optimizer = torch.optim.SGD([metric], lr=0.01)

for step in range(3):
    symmetric = (metric + metric.T) / 2
    values, axes = torch.linalg.eigh(symmetric)
    projected = points @ axes[:, -1]
    loss = -projected.square().mean() / values[-1]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


bug = Bug(
    id="degenerate-eigen-gradient",
    title="eigenvectors differentiated at repeated eigenvalues",
    family="gradient",
    when=seen("singular-derivative", eigen=True),
    because=_because,
    fix="break the ties, or use a form that needs no eigenvectors",
    repair=lambda hits: repair_ops(
        "break_ties", "break the ties with a small, distinct diagonal", hits, eps=1e-2, square=hits[0][0]["square"]
    ),
    symptoms=("gradient is NaN, loss is fine",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="बराबर eigenvalues पर eigenvectors का derivative",
        symptoms=("ग्रेडिएंट NaN है, जबकि loss ठीक है",),
        fix="बराबरी तोड़ें, या ऐसा रूप लें जिसमें eigenvectors की ज़रूरत न हो",
        what=(
            "eigenvector के derivative में 1 / (λi - λj) आता है; eigenvalues बराबर हों (identity matrix, symmetric "
            "शुरुआत) तो वह inf या NaN है। forward pass सही रहता है, पहला ही ग्रेडिएंट NaN आता है, और अगला स्टेप "
            "decomposition के भीतर भ्रामक error देकर टूटता है।"
        ),
        fixes={
            "break the ties with a small, distinct diagonal": "diagonal पर छोटी-छोटी, अलग-अलग संख्याएँ जोड़कर बराबरी तोड़ें",
        },
        measured=("eigenvalues के बीच सबसे छोटा अंतर {smallest_gap} है",),
    ),
)
