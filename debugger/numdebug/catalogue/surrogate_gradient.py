"""a backward that is not meant as the derivative of its forward

What happens
    The forward hands its input on, or is constant almost everywhere, and the backward returns something of its own: reversed, scaled or
    clipped gradients, straight-through estimates of rounding, surrogate slopes of spikes.
Why it matters
    It is a design, not a mistake; but gradcheck fails, and gradients no longer say how the loss changes.
How we know
    From what it computes: the forward's results equal the input bit for bit, or do not change when single elements move, or take few
    values; or the backward is not linear in the gradient it is given, as every derivative is.
Not this
    A backward that passes the gradient on although the forward is a formula of its input: that is wrong-gradient.
Fix
    None is needed where this is what was meant.
Read on
    Bengio, Léonard, Courville: Estimating or propagating gradients through stochastic neurons (2013).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue.wrong_gradient import SUSPICIOUS
from numdebug.rules import Above, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    return f"{e['function']}.backward does not compute the derivative for {e['argument']}, which looks intended: {e['mistake']}"


BROKEN = """\
import torch

class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -0.5 * grad  # here

torch.manual_seed(0)
x = torch.randn(32, 4)
features, domain = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*features.parameters(), *domain.parameters()], lr=0.05)
for step in range(5):
    loss = (domain(Reversal.apply(features(x))) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = BROKEN.replace("-0.5 * grad  # here", "grad")


bug = Bug(
    id="surrogate-gradient",
    title="a backward that is not meant as the derivative of its forward",
    family="gradient",
    when=seen("surrogate-derivative", error=Above(SUSPICIOUS)),
    because=_because,
    fix="none, where this is what was meant",
    severity="note",
    symptoms=("gradcheck fails",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="backward, जो अपने forward का derivative होने के लिए लिखा ही नहीं गया",
        symptoms=("gradcheck फ़ेल होता है",),
        fix="अगर यही इरादा था तो कुछ नहीं करना है",
        what=(
            "forward इनपुट को जस का तस आगे बढ़ाता है या लगभग हर जगह स्थिर है, और backward अपना कुछ लौटाता है: उलटे, "
            "scaled या clipped ग्रेडिएंट, straight-through या surrogate ढलान। यह ग़लती नहीं, design है; पर gradcheck फ़ेल "
            "होगा और ग्रेडिएंट अब यह नहीं बताते कि loss कैसे बदलेगा।"
        ),
    ),
)
