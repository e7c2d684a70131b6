"""a softmax over a row that is all -inf

What happens
    The maximum of the row is -inf, -inf - (-inf) is NaN, and the whole row of weights is NaN.
Why it matters
    One empty sequence in a batch makes every weight of the model NaN after one step.
How we know
    A softmax was given a row of nothing but -inf, and the NaN it made reaches the loss, a gradient or an output.
Not this
    -inf in some entries of a row: the softmax turns them into exact zeros. A whole row of finfo.min: it gives uniform weights.
Fix
    Give empty rows one valid entry (fill the row with 0), and drop them from the loss.
Read on
    PyTorch issue 41508 on attention with rows that are masked entirely.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    b = hit[0]
    if b["op"] == "logsumexp":
        return f"logsumexp was given nothing but -inf, and the derivative of that is NaN, {reaches(b)}"
    return f"a row of the scores is all -inf, so its softmax is NaN, {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(20, 16)
score = nn.Linear(16, 1)
tokens = torch.randint(0, 20, (4, 6))
length = torch.tensor([6, 3, 0, 2])
optimizer = torch.optim.Adam([*embed.parameters(), *score.parameters()], lr=1e-2)


def pool(hidden, length):
    empty = torch.arange(hidden.shape[1]) >= length[:, None]
    scores = score(hidden).squeeze(-1).masked_fill(empty, float("-inf"))
    weights = torch.softmax(scores, dim=1)  # here
    return (weights[..., None] * hidden).sum(dim=1)


for epoch in range(2):
    loss = pool(embed(tokens), length).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
embed = nn.Embedding(20, 16)
score = nn.Linear(16, 1)
tokens = torch.randint(0, 20, (4, 6))
length = torch.tensor([6, 3, 1, 2])
optimizer = torch.optim.Adam([*embed.parameters(), *score.parameters()], lr=1e-2)


def pool(hidden, length):
    empty = torch.arange(hidden.shape[1]) >= length[:, None]
    scores = score(hidden).squeeze(-1).masked_fill(empty, float("-inf"))
    weights = torch.softmax(scores, dim=1)
    return (weights[..., None] * hidden).sum(dim=1)


for epoch in range(2):
    loss = pool(embed(tokens), length).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="fully-masked-softmax",
    title="a softmax row that is all -inf",
    family="range",
    when=seen("nonfinite-birth", born="all masked"),
    because=_because,
    fix="give rows without a valid entry a finite score, and drop them from the loss",
    repair=lambda hits: repair_ops("guard_masked_rows", "give empty rows a finite score", hits),
    symptoms=("loss becomes NaN",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="softmax की पूरी row -inf है",
        symptoms=("loss NaN हो जाता है",),
        fix="जिन rows में कोई मान्य entry नहीं, उन्हें finite score दें और loss से हटाएँ",
        what=(
            "row का अधिकतम -inf है, और -inf - (-inf) NaN होता है, इसलिए उस row के सारे weights NaN हो जाते हैं। बैच में "
            "एक भी खाली sequence हो तो एक स्टेप में मॉडल के सारे weights NaN हो जाते हैं।"
        ),
        fixes={
            "give empty rows a finite score": "खाली rows को finite score दें",
        },
        measured=("scores की एक row पूरी की पूरी -inf है",),
    ),
)
