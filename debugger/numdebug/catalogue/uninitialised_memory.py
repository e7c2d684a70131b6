"""results of empty() used before they are written

What happens
    empty() hands out whatever the memory held: often zeros, sometimes huge numbers or NaN.
Why it matters
    Results change from run to run in spite of every seed, and the failure disappears when one looks.
How we know
    A non-finite value that reaches what is consumed came straight out of empty(), with no write in between.
Not this
    A buffer that is filled before it is read.
Fix
    zeros(), or an initialiser.
Read on
    PyTorch's documentation of torch.utils.deterministic.fill_uninitialized_memory.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    return f"memory from empty() was never written and holds non-finite numbers, {reaches(hit[0])}"


BROKEN = '''\
import torch
from torch import nn

torch.utils.deterministic.fill_uninitialized_memory = True
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))  # here

    def forward(self, x):
        return x * self.weight


model = nn.Sequential(nn.Linear(4, 8), Scale(8), nn.Linear(8, 1))
loss = model(torch.randn(16, 4)).square().mean()
loss.backward()
print(loss.item())
'''

FIXED = '''\
import torch
from torch import nn

torch.utils.deterministic.fill_uninitialized_memory = True
torch.use_deterministic_algorithms(True)
torch.manual_seed(0)


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight


model = nn.Sequential(nn.Linear(4, 8), Scale(8), nn.Linear(8, 1))
loss = model(torch.randn(16, 4)).square().mean()
loss.backward()
print(loss.item())
'''


bug = Bug(
    id="uninitialised-memory",
    title="memory from empty() used before it is written",
    family="training",
    when=seen("nonfinite-birth", born="uninitialised"),
    because=_because,
    fix="use zeros(), or initialise it",
    repair=lambda hits: repair_ops("none", "initialise it", hits, kind="none"),
    symptoms=("different from run to run", "loss becomes NaN"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
)
