"""log of a sum of exponentials without subtracting the maximum

What happens
    exp(x) is inf for x above 88.72 in float32 (11.09 in float16), so the result is inf; when all x are very negative the sum is 0
    and its log is -inf.
Why it matters
    Likelihoods, partition functions and contrastive losses are built on it; the gradient is NaN in both cases.
How we know
    The exp or the log of log(sum(exp(x))) made a non-finite number from finite x, and it reaches the loss or a gradient.
Not this
    A sum that subtracts the maximum first, and adds it again. A row of -inf only: its right answer is -inf.
Fix
    torch.logsumexp(x, dim), jax.nn.logsumexp(x, axis); with weights w, logsumexp(x + log w).
Read on
    Blanchard, Higham, Higham: Accurately computing the log-sum-exp and softmax functions, IMA J. Numer. Anal. 41 (2021).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import limit_of_exp, number, reaches, repair_forms, several
from numdebug.rules import Found, birth, form


def _because(hit: Found) -> str:
    b, f = hit[0], hit[1]
    if b["op"] in ("exp", "sum", "mul", "matmul"):
        return f"exp of values up to {number(f['largest_argument'], 4)} is inf ({limit_of_exp(b['dtype'])}), {reaches(b)}"
    return (
        f"every exponential underflowed (arguments from {number(f['smallest_argument'], 4)}), the sum is 0 and its log -inf, {reaches(b)}"
    )


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
data = torch.randn(64, 2)
noise = torch.rand(64, 2) * 8 - 4
temperature = 2e-3


def free_energy(x):
    return torch.log(torch.exp(-energy(x).squeeze(1) / temperature).sum())  # here


for step in range(3):
    loss = energy(data).mean() / temperature + free_energy(noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
data = torch.randn(64, 2)
noise = torch.rand(64, 2) * 8 - 4
temperature = 2e-3


def free_energy(x):
    return torch.logsumexp(-energy(x).squeeze(1) / temperature, dim=0)


for step in range(3):
    loss = energy(data).mean() / temperature + free_energy(noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="logsumexp-overflow",
    title="log of a sum of exponentials, without subtracting the maximum",
    family="range",
    when=birth(op=("exp", "log", "log2", "log10", "sum", "mul", "matmul", "div")) & form("logsumexp"),
    because=_because,
    fix="use the library's logsumexp",
    repair=lambda hits: repair_forms("logsumexp", "use the library's logsumexp", several(hits, "naive-form")),
    symptoms=("loss becomes NaN", "exp gives inf"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="exp के योग का log, अधिकतम घटाए बिना",
        symptoms=("loss NaN हो जाता है", "exp का परिणाम inf आता है"),
        fix="library का logsumexp इस्तेमाल करें",
        what=(
            "float32 में x के 88.72 से (float16 में 11.09 से) ऊपर exp(x) inf है, इसलिए परिणाम भी inf; और सारे x बहुत "
            "ऋणात्मक हों तो योग 0 और उसका log -inf। likelihood और contrastive loss इसी पर टिके हैं, और दोनों हालत में "
            "ग्रेडिएंट NaN है।"
        ),
        fixes={
            "use the library's logsumexp": "library का logsumexp इस्तेमाल करें",
        },
        measured=("exp को मिले मान {smallest_argument} से {largest_argument} तक थे",),
    ),
)
