"""a difference quotient that is mostly rounding noise

What happens
    (f(x + h) - f(x - h)) / 2h subtracts two nearly equal numbers: rounding leaves an error of eps |f| / h in the quotient. In float32 a
    step of 1e-6 makes that 0.1 |f|, larger than most derivatives.
Why it matters
    A gradient check then blames a right gradient, or, with a tolerance wide enough to pass, lets a wrong one through.
How we know
    The same operations in float64, at the same points, give another quotient. Of torch.autograd.gradcheck: the noise of its format is
    more than ten times what its tolerances allow.
Not this
    A step that suits the format (in float32 about 5e-3 for central differences); spatial differences on a grid; a check in float64.
Fix
    Compute in float64, or choose h near the cube root of eps times the size of x.
Read on
    PyTorch documentation: Gradcheck mechanics. Press et al.: Numerical Recipes, section 5.7.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.rules import Above, Found, seen

# A tenth: no tolerance for comparing gradients is wider, and a quotient with a suitable step in float32 is a hundred times better.
NOISE = 0.1
# gradcheck compares element by element: beyond ten times its tolerance, noise alone decides.
BEYOND = 10.0


def _because(hit: Found) -> str:
    e = hit[0]
    bound = f"rounding in {e['dtype']} can put {number(e['bound'])} into the quotient"
    if e["by"] == "gradcheck":
        return f"{bound} for a step of {number(e['step'])}, {number(e['error'])} times what the tolerances allow ({number(e['allowed'])})"
    return (
        f"{bound} over a distance of {number(e['step'])}, and it is off by {e['error']:.0%} (largest derivative {number(e['derivative'])})"
    )


BROKEN = """\
import torch

torch.manual_seed(0)
w = torch.randn(8, requires_grad=True)
x = torch.randn(64, 8)

def loss(w):
    return torch.nn.functional.softplus(x @ w).sum()

h = 1e-6
value = loss(w)
value.backward()
slope = (loss(w.detach() + h) - loss(w.detach() - h)) / (2 * h)  # here
print(slope.item(), w.grad.sum().item())
"""

FIXED = BROKEN.replace("torch.randn(8, r", "torch.randn(8, dtype=torch.float64, r").replace("(64, 8)", "(64, 8, dtype=torch.float64)")
FIXED = FIXED.replace("  # here", "")


bug = Bug(
    id="unreliable-gradient-check",
    title="a difference quotient that is mostly rounding noise",
    family="gradient",
    when=seen("noisy-quotient", by="hand", checks=True, error=Above(NOISE)) | seen("noisy-quotient", by="gradcheck", error=Above(BEYOND)),
    because=_because,
    fix="compute both values in float64, or take a larger step (the cube root of eps times the size of x)",
    severity="warning",
    symptoms=("gradcheck fails",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="difference quotient, जिसमें ज़्यादातर rounding का शोर है",
        symptoms=("gradcheck फ़ेल होता है",),
        fix="दोनों मान float64 में निकालें, या बड़ा step लें (eps का घनमूल (cube root) गुणा x का आकार)",
        what=(
            "(f(x + h) - f(x - h)) / 2h लगभग बराबर संख्याओं को घटाता है, और rounding से eps |f| / h जितनी ग़लती रह जाती "
            "है: float32 में 1e-6 के step पर 0.1 |f|। ऐसी जाँच या तो सही ग्रेडिएंट को ग़लत ठहराती है, या ढीली tolerance "
            "के साथ ग़लत को पास कर देती है।"
        ),
        measured=(
            "step {step} पर {dtype} की rounding difference quotient में {bound} तक की ग़लती डाल सकती है, जबकि "
            "derivative {derivative} है",
        ),
    ),
)
