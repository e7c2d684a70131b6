"""the branch that where() drops poisons the gradient

What happens
    where(x > 0, sqrt(x), 0) is right in the forward pass. In the backward pass the dropped branch gets a gradient of 0, and
    0 times its infinite derivative is NaN.
Why it matters
    The loss looks healthy while every weight below it turns NaN at the next step.
How we know
    The loss is finite, a gradient is not, and it was born in the derivative of an operation whose bad elements a where() drops.
Not this
    An infinite derivative at a point that is really used (`singular-gradient`); a log of a sigmoid or softmax inside the branch.
Fix
    Make the argument safe first: where(ok, sqrt(where(ok, x, 1)), 0).
Read on
    The JAX FAQ on gradients that contain NaN where using where.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, form, seen


def _because(hit: Found) -> str:
    e = hit[0]
    state = "its derivative" if e["forward_finite"] else f"{e['op']} (and its derivative)"
    return f"where() drops the elements for which {state} is not finite, but 0 times that derivative is NaN in the backward pass"


def _repair(hits: Sequence[Found]) -> Repair:
    head = hits[0][0]
    safe = 0.0 if head["op"] in ("exp", "exp2", "expm1", "sinh", "cosh", "acos", "asin", "atanh") else 1.0
    return repair_ops("safe_where", "make the argument safe where the branch is dropped", hits, branch=head["branch"] or "a", safe=safe)


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
x = torch.randn(40, 3)
depth = x[:, :1].relu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def compress(flow):
    return torch.where(flow > 0, torch.sqrt(flow), torch.zeros_like(flow))  # here


for epoch in range(3):
    loss = (compress(model(x)) - depth).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
x = torch.randn(40, 3)
depth = x[:, :1].relu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def compress(flow):
    return torch.where(flow > 0, torch.sqrt(torch.where(flow > 0, flow, 1.0)), torch.zeros_like(flow))


for epoch in range(3):
    loss = (compress(model(x)) - depth).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
"""


bug = Bug(
    id="where-gradient-trap",
    title="the branch that where drops poisons the gradient",
    family="gradient",
    when=seen("singular-derivative", dropped=True, eigen=False) & ~form("log-of-softmax", "log-of-sigmoid", "softplus"),
    because=_because,
    fix="make the argument safe before the operation, with a second where",
    repair=_repair,
    symptoms=("gradient is NaN, loss is fine",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="where जिस branch को छोड़ता है, वही ग्रेडिएंट बिगाड़ती है",
        symptoms=("ग्रेडिएंट NaN है, जबकि loss ठीक है",),
        fix="एक और where लगाकर argument को ऑपरेशन से पहले ही सुरक्षित बनाएँ",
        what=(
            "where(x > 0, sqrt(x), 0) forward pass में सही है। backward pass में छोड़ी गई branch को 0 ग्रेडिएंट मिलता है, "
            "और 0 गुणा उसका अनंत derivative NaN है: loss स्वस्थ दिखता है, और अगले स्टेप में उसके नीचे का हर weight NaN हो "
            "जाता है।"
        ),
        fixes={
            "make the argument safe where the branch is dropped": "जहाँ branch छोड़ी जाती है, वहाँ argument को सुरक्षित मान दें",
        },
        measured=("where जिन elements को छोड़ता है, उन पर {op} का derivative finite नहीं है",),
    ),
)
