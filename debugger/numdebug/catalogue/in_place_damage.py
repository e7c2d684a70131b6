"""a value that something still needs is overwritten

What happens
    Autograd keeps the tensors that a derivative needs by reference. A write through .data, or through a view that autograd does not count,
    changes them between forward and backward, and no version counter notices. Likewise a list of results that are all the same array,
    overwritten for each of them: every entry shows the last one.
Why it matters
    The loss is right, its gradient is that of other numbers, and there is no error message.
How we know
    An operation of the backward pass read memory that was written after its forward operation had used it. With the value from before
    the write it gives another gradient. Or a stack was given one memory several times, written anew in between.
Not this
    In-place operations that autograd knows of (relu_, a masked_fill_ before the use); an optimizer's update after the backward pass;
    running statistics; writes that do not change what the derivative needs.
Fix
    Write to a copy (clone), or out of place (where, masked_fill); never to .data of what takes part in the forward pass.
Read on
    PyTorch documentation: Autograd mechanics, In-place operations with autograd.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.rules import Above, Found, seen

# The same line that a hand-written gradient must not cross: a relative error above it is suspicious.
SUSPICIOUS = 1e-3


def _because(hit: Found) -> str:
    e = hit[0]
    if e.kind == "same-memory":
        return f"{e['times']} of the {e['of']} arrays put together later are one memory, which this line overwrote {e['writes']} times"
    where = f" (line {e['read_line']})" if e["read_line"] is not None else ""
    return (
        f"this write changes {e['changed']} of {e['size']} elements that the derivative of {e['read']}{where} needs, before the backward"
        f" pass reads them: its gradient is off by {e['effect']:.1%}"
    )


BROKEN = """\
import torch

torch.manual_seed(0)
x = torch.randn(64, 6)
y = torch.sin(x[:, :1])
hidden, last = torch.nn.Linear(6, 16), torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD([*hidden.parameters(), *last.parameters()], lr=0.1)
for step in range(20):
    h = torch.sigmoid(hidden(x))
    loss = (last(h) - y).square().mean()
    h.data[h < 0.5] = 0.0  # here
    active = (h > 0).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = BROKEN.replace("    h.data[h < 0.5] = 0.0  # here\n    active = (h > 0).sum()", "    active = (h >= 0.5).sum()")


bug = Bug(
    id="in-place-damage",
    title="a value that is still needed is overwritten",
    family="gradient",
    when=seen("overwritten", effect=Above(SUSPICIOUS)) | seen("same-memory"),
    because=_because,
    fix="write to a copy, or out of place; the backward pass still needs the old values",
    symptoms=("loss is stuck", "accuracy below the published one", "trains slower than it should"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="वह मान जिसकी अभी ज़रूरत है, ऊपर से लिख दिया जाता है",
        symptoms=(
            "loss अटका रहता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "ट्रेनिंग जितनी होनी चाहिए उससे धीमी चलती है",
        ),
        fix="copy में लिखें, या out of place लिखें; backward pass को पुराने मान चाहिए",
        what=(
            "derivative के लिए ज़रूरी tensors को autograd सिर्फ़ reference से रखता है। .data से, या ऐसे view से जिसे "
            "autograd गिनता नहीं, लिखने पर वे forward और backward के बीच बदल जाते हैं: loss सही है, उसका ग्रेडिएंट "
            "किन्हीं और संख्याओं का है, और कोई error नहीं आता।"
        ),
        measured=("backward pass के पढ़ने से पहले {changed} elements बदल दिए गए; ग्रेडिएंट में अंतर उसके norm का {effect} गुना है",),
    ),
)
