"""probabilities fed to a loss that expects logits, or the reverse

What happens
    cross_entropy and BCE-with-logits apply softmax or sigmoid themselves. Given probabilities they apply it twice: the second softmax
    of numbers in [0, 1] is nearly uniform. nll_loss and kl_div expect log-probabilities: of probabilities or raw scores they make a
    number that is no likelihood at all.
Why it matters
    The loss starts near log(C) and cannot come near 0; gradients shrink by both derivatives. Nothing fails, training is just bad.
How we know
    In the recorded step the loss's input was made by a softmax or sigmoid and holds probabilities along the class axis; or nll_loss was
    given scores that no log_softmax made.
Not this
    A softmax inside the model that layers follow (attention, gates); soft targets; log_softmax applied twice, which changes nothing.
Fix
    Return the logits and take the softmax only where probabilities are shown; log_softmax before nll_loss and kl_div.
Read on
    https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    line = f" on line {e['loss_line']}" if e["loss_line"] is not None else ""
    span = f"between {number(e['lowest'])} and {number(e['highest'])}"
    return f"{e['given']} from {e['op']}, {span}, go into {e['loss']}{line}, which expects {e['wanted']}"


def _repair(hits: Sequence[Found]) -> Repair:
    e = hits[0][0]
    if e["wanted"] == "logits":
        return repair_ops("no_activation", "give the loss the logits", hits)
    if e["given"] == "probabilities" and e["op"] == "softmax":
        return repair_ops("log_of_it", "use log_softmax before this loss", hits)
    return repair_ops("none", "use log_softmax before this loss, or cross_entropy", hits, kind="none")


BROKEN = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(200, 6)
y = x[:, :4].argmax(1)
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

for step in range(60):
    probabilities = F.softmax(model(x), dim=1)  # here
    loss = F.cross_entropy(probabilities, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

FIXED = BROKEN.replace("probabilities = F.softmax(model(x), dim=1)  # here", "logits = model(x)").replace(
    "(probabilities, y)", "(logits, y)"
)


bug = Bug(
    id="double-softmax",
    title="probabilities fed to a loss that expects logits, or the reverse",
    family="training",
    when=seen("loss-input") & ~Anywhere(seen("symptom")),
    because=_because,
    fix="give the loss what it expects: logits to cross_entropy, log-probabilities to nll_loss",
    repair=_repair,
    explains=("vanishing-gradient",),
    symptoms=("loss stuck", "loss stuck at log(C)", "loss falls slowly", "negative loss"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="logits चाहने वाले loss को probability दी गई, या इसका उलटा",
        symptoms=(
            "loss अटका रहता है",
            "loss log(C) पर अटका रहता है",
            "loss बहुत धीरे घटता है",
            "loss ऋणात्मक (negative) आता है",
        ),
        fix="loss को वही दें जो वह चाहता है: cross_entropy को logits, nll_loss को log-probability",
        what=(
            "cross_entropy और BCE-with-logits softmax या sigmoid ख़ुद लगाते हैं; probability देने पर वह दो बार लगता है और "
            "दूसरा softmax लगभग uniform होता है। nll_loss और kl_div log-probability चाहते हैं। loss log(C) के पास शुरू "
            "होता है और 0 के पास जा नहीं सकता; फ़ेल कुछ नहीं होता, ट्रेनिंग बस ख़राब रहती है।"
        ),
        fixes={
            "give the loss the logits": "loss को logits दें",
            "use log_softmax before this loss": "इस loss से पहले log_softmax लगाएँ",
            "use log_softmax before this loss, or cross_entropy": "इस loss से पहले log_softmax लगाएँ, या cross_entropy इस्तेमाल करें",
        },
        measured=("loss को मिली संख्याएँ {lowest} से {highest} तक थीं",),
    ),
)
