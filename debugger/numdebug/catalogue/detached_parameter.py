"""a parameter that training leaves alone

What happens
    The forward pass uses a parameter, and nothing ever changes it: no optimizer has it (a layer in a plain list, a head made after the
    optimizer, an optimizer of the head alone), or no gradient reaches it (detach, .data, item, no_grad in the middle).
Why it matters
    That part of the model stays as it was initialised. The rest learns around it, and the result is worse than it should be.
How we know
    The parameter is bit for bit what it was at the first step, and was not loaded. It has a gradient and is in no optimizer; or an
    optimizer has it, the recorded loss is computed from it, and no gradient reached it.
Not this
    Parameters with requires_grad=False, loaded weights, target networks and averages, heads that the loss does not use, parameters that
    get their gradient another way, inputs that an attack optimises.
Fix
    Register it (ModuleList, Parameter), make the optimizer after the last change of the model, or take the cut out.
Read on
    PyTorch documentation: Autograd mechanics, Locally disabling gradient computation.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.rules import Found, seen

_CUTS = {
    "detach": "a detach here takes them out of the graph",
    "data": "what is read here (.data, or a tensor made of the old one's memory) is outside of the graph",
    "item": "a number is taken out of PyTorch here and put back as a constant",
    "no_grad": "they are used here with gradients switched off",
}


def _because(hit: Found) -> str:
    e = hit[0]
    names = e["names"]
    who = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    still = f"after {e['steps']} steps {who} ({e['elements']} elements) are what they were"
    if e["why"] == "unowned":
        when = "they are made here, after the optimizer, which does not have them" if e["late"] else "nothing updates them"
        return f"{still}: they get a gradient (norm {number(e['gradient'])}), and {when}"
    return f"{still}: an optimizer has them and the loss is computed from them, but {_CUTS[e['how']]}"


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 8)
y = (x[:, :4] * x[:, 4:]).sum(1, keepdim=True)
encoder, head = nn.Linear(8, 32), nn.Linear(32, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
for step in range(60):
    features = torch.tanh(encoder(x)).detach()  # here
    loss = (head(features) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

FIXED = BROKEN.replace(".detach()  # here", "")


bug = Bug(
    id="detached-parameter",
    title="parameters that training never changes",
    family="gradient",
    when=seen("untrained-parameters"),
    because=_because,
    fix="give the parameter to the optimizer, or let the gradient through",
    symptoms=("loss is stuck", "gradient norm exactly 0", "accuracy below the published one"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="पैरामीटर, जिन्हें ट्रेनिंग कभी बदलती नहीं",
        symptoms=("loss अटका रहता है", "ग्रेडिएंट का norm ठीक 0 है", "accuracy प्रकाशित (published) accuracy से कम आती है"),
        fix="पैरामीटर optimizer को दें, या ग्रेडिएंट को उस तक पहुँचने दें",
        what=(
            "forward pass इस पैरामीटर को इस्तेमाल करता है, पर कोई उसे बदलता नहीं: या तो वह किसी optimizer में नहीं है, या "
            "बीच के detach, .data, item या no_grad से ग्रेडिएंट उस तक पहुँचता नहीं। मॉडल का वह हिस्सा वैसा ही रहता है "
            "जैसा initialise हुआ था, और परिणाम जितना हो सकता था उससे ख़राब आता है।"
        ),
        measured=("{steps} स्टेप के बाद भी इसके {elements} elements वैसे ही हैं जैसे शुरू में थे",),
    ),
)
