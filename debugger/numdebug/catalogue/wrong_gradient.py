"""a hand-written backward that is not the derivative of its forward

What happens
    The backward of an autograd function returns something else than the gradient of what its forward computes: a factor or a term is
    missing, a sign is wrong, a mask is inverted.
Why it matters
    Training goes downhill in a wrong direction. The loss still falls, slower and to a worse value, and nothing is ever NaN.
How we know
    The recorded call was repeated in float64, its arguments moved along random directions, and the change of its results compared with
    what the backward predicts, over a sweep of steps. Where the forward is made of PyTorch operations, PyTorch's own derivative of it is
    a second witness.
Not this
    A surrogate by design: a backward for a forward that hands its input on (gradient reversal, clipping, scaling) or is constant almost
    everywhere (rounding, spikes, straight-through). A point on a kink. A difference that the differences themselves cannot resolve.
Fix
    Differentiate the formula of the forward again, or let autograd do it; torch.autograd.gradcheck in float64 shows when it is right.
Read on
    PyTorch documentation: Extending PyTorch, and Gradcheck mechanics.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.evidence import Evidence
from numdebug.report.model import Repair
from numdebug.rules import Above, Anywhere, Found, seen

# The scale of relative errors of float64 gradients: below 1e-7 right, below 1e-5 acceptable, above 1e-3 suspicious, above 1 wrong.
# What lies between the middle two may be an approximation that was meant.
SUSPICIOUS = 1e-3
WRITABLE = ("sign", "swap", "swapped", "factor", "missing factor")  # changes that can be written as a diff


def _because(hit: Found) -> str:
    e = hit[0]
    if e.kind == "whole-gradient":
        gives = "no gradient" if e["mistake"] == "zero" else f"{number(e['backward'], 6)}"
        cut = "; the way to it is cut, or a hand-written backward returns nothing" if e["mistake"] == "zero" else ""
        return f"{e['parameter']}: backward gives {gives} along a random direction{cut}{_sweep(e)}"
    measured = f"relative error {number(e['error'])} along random directions in float64, which differences resolve to {_resolved(e)}"
    return f"{e['function']}.backward gives for {e['argument']} {_mistake(e)}: {measured}{_sweep(e)}"


def _mistake(e: Evidence) -> str:
    factor = e["factor"]
    change = f" ({e['change']} here)" if e["change"] else ""
    match e["mistake"]:
        case "sign":
            return f"a gradient of the wrong sign{change}"
        case "factor":
            return f"{number(1 / factor)} times the true gradient{change}"
        case "part":
            return f"a gradient that is wrong for {e['wrong_share']:.0%} of the elements{change}"
        case "nothing":
            return "no gradient, though its results depend on it"
        case "zero":
            return "a gradient of 0, though its results depend on it"
    return f"a gradient whose ratio to the true one varies from element to element{change or ', as when a term or factor is missing'}"


def _resolved(e: Evidence) -> str:
    scale = max(abs(e["differences"]), abs(e["backward"]), 1e-8)
    return number(max(e["uncertainty"] / scale, 1e-12), 1)


def _sweep(e: Evidence) -> str:
    shown = [f"{number(n, 5)} at h = {h:.0e}" for h, n in e["sweep"] or []]
    if len({text.partition(" at")[0] for text in shown}) == 1:
        return f"; the differences give {number(e['sweep'][0][1], 5)} for every h from {e['sweep'][0][0]:.0e} to {e['sweep'][-1][0]:.0e}"
    return f"; the differences give {', '.join(shown)}" if shown else ""


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    if e.kind == "whole-gradient":
        return Repair("derivative", "none", f"find what cuts or bends the gradient on its way to {e['parameter']}", dict(e.sites), {}, {})
    words = {
        "sign": "change the sign",
        "factor": f"multiply the gradient by {number(e['factor'])}",
        "part": "correct the formula where the elements are wrong",
        "nothing": f"return the gradient for {e['argument']}",
        "zero": f"return the gradient for {e['argument']}",
    }.get(str(e["mistake"]), "differentiate the forward again: a term or factor is missing")
    if e["change"]:
        words = f"{e['change']} on this line" if not e["change_kind"].startswith("swap") else f"on this line, {e['change']}"
    changes = e["changes"] or {}
    written = bool(e["whole"]) and all(kind in WRITABLE for name, kind in changes.items() if name.startswith("kind"))
    return Repair("derivative", "rewrite" if written and changes else "none", words, dict(e.sites), {}, dict(changes))


BROKEN = """\
import torch

class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return grad * s * (1 + x * (1 - s)), None  # here

torch.manual_seed(0)
x = torch.linspace(-2, 2, 64)[:, None]
model = torch.nn.Linear(1, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(10):
    loss = (Swish.apply(model(x), 4.0).sum(1, keepdim=True) - torch.sin(x)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = BROKEN.replace("(1 + x * (1 - s)), None  # here", "(1 + ctx.beta * x * (1 - s)), None")


bug = Bug(
    id="wrong-gradient",
    title="a backward that is not the derivative of its forward",
    family="gradient",
    when=seen("wrong-derivative", error=Above(SUSPICIOUS))
    | seen("whole-gradient", error=Above(SUSPICIOUS), surrogates=False)
    & ~Anywhere(seen("wrong-derivative") | seen("untrained-parameters")),
    because=_because,
    fix="differentiate the formula of the forward again, and check it with gradcheck in float64",
    repair=_repair,
    symptoms=("loss is stuck", "accuracy below the published one", "trains slower than it should", "gradcheck fails"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="backward, जो अपने forward का derivative नहीं है",
        symptoms=(
            "loss अटका रहता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "ट्रेनिंग जितनी होनी चाहिए उससे धीमी चलती है",
            "gradcheck फ़ेल होता है",
        ),
        fix="forward के सूत्र का derivative फिर से निकालें, और float64 में gradcheck से जाँचें",
        what=(
            "autograd फ़ंक्शन का backward वह ग्रेडिएंट नहीं लौटाता जो उसके forward का है: कोई गुणक या पद छूट गया, चिह्न "
            "ग़लत है, या mask उलटा है। ट्रेनिंग ग़लत दिशा में उतरती है: loss घटता तो है, पर धीमे और ज़्यादा ऊँचे मान तक, "
            "और NaN कभी नहीं आता।"
        ),
        fixes={
            "find what cuts or bends the gradient on its way to {}": (
                "पता करें कि {} तक जाते हुए ग्रेडिएंट को क्या काटता या मोड़ता है"
            ),
            "change the sign": "चिह्न (sign) बदलें",
            "multiply the gradient by {}": "ग्रेडिएंट को {} से गुणा करें",
            "correct the formula where the elements are wrong": "जहाँ elements ग़लत हैं, वहाँ सूत्र ठीक करें",
            "return the gradient for {}": "{} का ग्रेडिएंट लौटाएँ",
            "differentiate the forward again: a term or factor is missing": (
                "forward का derivative फिर से निकालें: कोई पद या गुणक छूट गया है"
            ),
            "multiply by {} on this line": "इस लाइन पर {} से गुणा करें",
            "divide by {} on this line": "इस लाइन पर {} से भाग दें",
            "invert the condition on this line": "इस लाइन की शर्त उलट दें",
            "the power {} on this line": "इस लाइन पर घात (power) {} रखें",
            "the other sign on this line": "इस लाइन पर चिह्न (sign) बदलें",
            "on this line, the other sign between the two terms": "इस लाइन पर दोनों पदों के बीच का चिह्न (sign) बदलें",
            "on this line, {} in place of {}": "इस लाइन पर {1} की जगह {0} इस्तेमाल करें",
        },
        measured=("एक ही दिशा में backward {backward} देता है और numerical differences {differences}",),
    ),
)
