"""clipping each element where the norm was meant

What happens
    With a small limit, clipping by value cuts nearly every element to the limit: what is left are signs. Large and small components get
    the same step.
Why it matters
    The direction of descent is lost. Plain gradient descent then crawls, or zigzags at the limit.
How we know
    At the end of the run most elements are still cut, the gradient's direction is another one, and the loss has not come down.
Not this
    A generous limit that cuts outliers; optimizers that divide each element by its own size anyway (Adam).
Fix
    clip_grad_norm_, which keeps the direction.
Read on
    Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks, ICML 2013.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.report.model import Repair
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    return (
        f"{e['changed']} of {e['elements']} gradient elements are cut to {number(e['limit'])} in every recorded step: the direction that is"
        f" left has a cosine of {number(e['cosine'])} with the gradient, and {number(e['factor'])} of its length"
    )


def _repair(hits: Sequence[Found]) -> Repair:
    return Repair("clip_by_norm", "setting", "clip the norm, which keeps the direction", dict(hits[0][0].sites), numbers={"limit": 1.0})


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 6) * torch.tensor([3.0, 2.0, 1.0, 0.5, 0.3, 0.1])
y = x @ torch.randn(6, 1)
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(60):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 1e-3)  # here
    optimizer.step()
"""

FIXED = BROKEN.replace("clip_grad_value_(model.parameters(), 1e-3)  # here", "clip_grad_norm_(model.parameters(), 1.0)")


bug = Bug(
    id="clip-by-value",
    title="clipping that turns gradients into signs",
    family="training",
    when=seen("clipped-gradients", how="value", scaled=False),
    because=_because,
    fix="clip the norm (clip_grad_norm_), which keeps the direction",
    repair=_repair,
    symptoms=("loss is stuck", "trains slower than it should"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="clipping, जो ग्रेडिएंट को सिर्फ़ चिह्न (sign) बना देती है",
        symptoms=("loss अटका रहता है", "ट्रेनिंग जितनी होनी चाहिए उससे धीमी चलती है"),
        fix="norm को clip करें (clip_grad_norm_), जिससे दिशा बनी रहती है",
        what=(
            "सीमा छोटी हो तो clip by value लगभग हर element को उसी सीमा पर काट देता है, और सिर्फ़ चिह्न बचते हैं: बड़े और "
            "छोटे component को एक-सा स्टेप मिलता है। उतरने की दिशा खो जाती है, और gradient descent रेंगता है या सीमा पर "
            "झूलता रहता है।"
        ),
        fixes={
            "clip the norm, which keeps the direction": "norm को clip करें, जिससे दिशा बनी रहती है",
        },
        measured=(
            "{elements} में से {changed} ग्रेडिएंट elements सीमा {limit} पर काटे जाते हैं; बची दिशा का ग्रेडिएंट "
            "के साथ cosine {cosine} है",
        ),
    ),
)
