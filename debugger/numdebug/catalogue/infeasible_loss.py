"""a loss that is inf by definition for this target

What happens
    A CTC target that does not fit into its input has probability 0; a target class that was masked with -inf has log-probability -inf.
Why it matters
    The arithmetic is right and the loss is inf all the same: the data and the mask contradict each other.
How we know
    The loss function returned inf for finite inputs that allow no path, or picked an entry that was masked on purpose.
Not this
    A log-probability that is -inf because a softmax underflowed.
Fix
    Drop such targets, or let the loss ignore them (zero_infinity=True, ignore_index).
Read on
    Graves et al.: Connectionist temporal classification, ICML 2006.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, birth, seen


def _because(hit: Found) -> str:
    b = hit[0]
    if b["op"] == "ctc_loss":
        return f"a target does not fit into its input (with a blank between repeats), so its probability is 0, {reaches(b)}"
    return f"a target was masked with -inf on purpose, so its log-probability is -inf, {reaches(b)}"


def _repair(hits: Sequence[Found]) -> Repair:
    if hits[0][0]["op"] == "ctc_loss":
        return repair_ops("zero_infinity", "let the loss ignore targets that do not fit", hits, kind="rewrite")
    return repair_ops("none", "drop targets that the mask forbids", hits, kind="none")


BROKEN = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.GRU(8, 12, batch_first=True)
frames = torch.randn(3, 10, 8)
labels = torch.tensor([[1, 2, 3, 0, 0, 0], [4, 4, 4, 4, 4, 4], [5, 6, 0, 0, 0, 0]])
sizes = torch.tensor([3, 6, 2])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(2):
    hidden, _ = model(frames)
    logp = hidden.log_softmax(dim=-1).transpose(0, 1)
    loss = F.ctc_loss(logp, labels, torch.full((3,), 10), sizes)  # here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.GRU(8, 12, batch_first=True)
frames = torch.randn(3, 10, 8)
labels = torch.tensor([[1, 2, 3, 0, 0, 0], [4, 7, 4, 7, 4, 7], [5, 6, 0, 0, 0, 0]])
sizes = torch.tensor([3, 6, 2])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(2):
    hidden, _ = model(frames)
    logp = hidden.log_softmax(dim=-1).transpose(0, 1)
    loss = F.ctc_loss(logp, labels, torch.full((3,), 10), sizes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="infeasible-loss",
    title="a loss that is inf by definition",
    family="range",
    when=birth(op="ctc_loss")
    | seen("nonfinite-birth", deliberate=True, sink="loss", picked=True)
    | seen("non-finite-input", meant=True, sink="loss", picked=True),
    because=_because,
    fix="drop the target, or let the loss ignore it",
    repair=_repair,
    symptoms=("loss is inf",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="loss, जो परिभाषा से ही inf है",
        symptoms=("loss inf आता है",),
        fix="यह target हटाएँ, या loss से कहें कि उसे अनदेखा करे",
        what=(
            "जो CTC target अपने इनपुट में समा ही नहीं सकता उसकी probability 0 है, और -inf से mask की गई class की "
            "log-probability -inf। गणना सही है, फिर भी loss inf है: डेटा और mask एक-दूसरे के उलट हैं।"
        ),
        fixes={
            "let the loss ignore targets that do not fit": "loss से कहें कि न समाने वाले targets को अनदेखा करे",
            "drop targets that the mask forbids": "वे targets हटाएँ जिन्हें mask रोकता है",
        },
        measured=("{size} में से {non_finite} मान finite नहीं हैं, हालाँकि सारे इनपुट finite थे",),
    ),
)
