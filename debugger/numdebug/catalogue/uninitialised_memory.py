"""results of empty() used before they are written

What happens
    empty() hands out whatever the memory held: often zeros, sometimes huge numbers or NaN.
Why it matters
    Results change from run to run in spite of every seed, and the failure disappears when one looks.
How we know
    A non-finite value that reaches what is consumed came straight out of empty(), with no write in between. Or the recorded operations,
    run again with two other fillings of that memory, give two other results.
Not this
    A buffer that is filled before it is read, or whose unwritten part is masked out.
Fix
    zeros(), or an initialiser.
Read on
    PyTorch's documentation of torch.utils.deterministic.fill_uninitialized_memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    if e["parameter"] is not None:
        what = f"{e['name'] or 'this memory'} ({e['size']} elements) comes from empty() and is read before all of it is written"
        return f"{what}: with other left-overs in it, {e['reaches']} is another"
    return f"memory from empty() was never written and holds non-finite numbers, {reaches(e)}"


def _repair(hits: Sequence[Found]) -> Repair:
    memory = next((e for hit in hits for e in hit if e["parameter"] is not None), None)
    if memory is None or memory["parameter"]:
        return repair_ops("none", "initialise it", hits, kind="none")
    return Repair("zeros", "setting", "start from zeros", dict(memory.sites))


BROKEN = """\
import torch
from torch import nn

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
cell = nn.GRUCell(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(16, 10, 4)


def states(x):
    out = torch.empty(x.shape[1], len(x), 8)  # here
    hidden = torch.zeros(len(x), 8)
    for t in range(1, x.shape[1]):
        hidden = cell(x[:, t], hidden)
        out[t] = hidden
    return out


loss = head(states(x)).square().mean()
loss.backward()
print(loss.item())
"""

FIXED = """\
import torch
from torch import nn

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
cell = nn.GRUCell(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(16, 10, 4)


def states(x):
    out = torch.zeros(x.shape[1], len(x), 8)
    hidden = torch.zeros(len(x), 8)
    for t in range(1, x.shape[1]):
        hidden = cell(x[:, t], hidden)
        out[t] = hidden
    return out


loss = head(states(x)).square().mean()
loss.backward()
print(loss.item())
"""


bug = Bug(
    id="uninitialised-memory",
    title="memory from empty() used before it is written",
    family="training",
    when=seen("nonfinite-birth", born="uninitialised") | seen("unwritten-memory"),
    because=_because,
    fix="use zeros(), or initialise it",
    repair=_repair,
    symptoms=("different from run to run", "loss becomes NaN"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="empty() की memory, लिखे जाने से पहले इस्तेमाल हुई",
        symptoms=("हर रन में परिणाम अलग आता है", "loss NaN हो जाता है"),
        fix="zeros() इस्तेमाल करें, या उसे initialise करें",
        what=(
            "empty() वही देता है जो memory में पड़ा था: अक्सर 0, कभी बहुत बड़ी संख्याएँ या NaN। सारे seed लगाने पर भी "
            "परिणाम हर रन में बदलते हैं, और देखने जाओ तो गड़बड़ी ग़ायब हो जाती है।"
        ),
        fixes={
            "initialise it": "इसे initialise करें",
            "start from zeros": "शून्य (zeros) से शुरू करें",
        },
        measured=("इस memory में {size} elements हैं, और वे empty() से आए हैं",),
    ),
)
