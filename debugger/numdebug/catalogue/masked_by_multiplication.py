"""a mask applied by multiplication after the value was already inf or NaN

What happens
    0 * inf is NaN and inf - inf is NaN: multiplying by a 0/1 mask cannot remove what is not finite.
Why it matters
    Padding, which nobody looks at, decides whether the loss is a number.
How we know
    A product of a mask (only zeros and ones) with an infinity made the NaN that reaches the loss, or a mask times -inf did.
Not this
    A one-hot target times the log of a softmax (`log-of-softmax`): there the log is at fault. p * log(p) (`log-of-zero`).
Fix
    where(mask, x, 0) or masked_fill instead of the product, with an argument that is safe where the mask is 0.
Read on
    The JAX FAQ on gradients that contain NaN where using where.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import reaches, repair_ops
from numdebug.rules import Anywhere, Found, birth, form, seen


def _because(hit: Found) -> str:
    b = hit[0]
    return f"a mask entry of 0 times an infinity is NaN ({b['born']}), {reaches(b)}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
hops = torch.tensor([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 1.0, 9.0], [2.0, 1.0, 0.0, 9.0], [9.0, 9.0, 9.0, 0.0]])
hops = hops.masked_fill(hops == 9, float("inf"))
reachable = torch.isfinite(hops).float()
position = nn.Parameter(torch.randn(4, 2))
optimizer = torch.optim.Adam([position], lr=0.1)

for step in range(3):
    length = (position[:, None] - position[None]).square().sum(dim=-1).add(1e-6).sqrt()
    stress = (length - hops) * reachable  # here
    loss = stress.square().sum() / reachable.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
hops = torch.tensor([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 1.0, 9.0], [2.0, 1.0, 0.0, 9.0], [9.0, 9.0, 9.0, 0.0]])
hops = hops.masked_fill(hops == 9, float("inf"))
reachable = torch.isfinite(hops).float()
position = nn.Parameter(torch.randn(4, 2))
optimizer = torch.optim.Adam([position], lr=0.1)

for step in range(3):
    length = (position[:, None] - position[None]).square().sum(dim=-1).add(1e-6).sqrt()
    stress = torch.where(reachable > 0, length - hops, 0.0)
    loss = stress.square().sum() / reachable.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
"""


bug = Bug(
    id="masked-by-multiplication",
    title="a mask multiplied onto a value that is not finite",
    family="range",
    when=(
        birth(op="mul", born="0*inf", mask=("left", "right"))
        | birth(op="mul", born="0*inf", **{"from": "finite"})
        | birth(op=("sub", "add"), born="inf-inf", written_infinity=True)
    )
    & ~birth(optimizer=True)
    & ~Anywhere(seen("swinging-state"))  # infinities of a simulation that blew up
    & ~form("log-of-softmax", "log-of-sigmoid", "softmax", "logsumexp"),
    because=_because,
    fix="use where or masked_fill instead of the product",
    repair=lambda hits: repair_ops("masked_fill", "use where instead of the product", hits, mask_side=hits[0][0]["mask"] or "left"),
    symptoms=("loss becomes NaN",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="mask का गुणा ऐसे मान पर जो finite नहीं है",
        symptoms=("loss NaN हो जाता है",),
        fix="गुणा की जगह where या masked_fill इस्तेमाल करें",
        what=(
            "0 * inf और inf - inf दोनों NaN हैं: जो मान पहले ही inf या NaN हो चुका, उसे 0/1 mask से गुणा करके हटाया नहीं "
            "जा सकता। जिस padding को कोई देखता नहीं, वही तय करती है कि loss संख्या रहेगा या NaN।"
        ),
        fixes={
            "use where instead of the product": "गुणा की जगह where इस्तेमाल करें",
        },
        measured=("{size} में से {non_finite} elements गुणा के बाद NaN हैं ({born})",),
    ),
)
