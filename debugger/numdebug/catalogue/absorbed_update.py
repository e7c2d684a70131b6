"""updates that the weights' format swallows

What happens
    A weight in bfloat16 has 8 significant bits: an update below 1/512 of the weight rounds back to the old weight, at every step again.
Why it matters
    The loss stops falling, or never does, while gradients, rate and code look right; in float32 the same program learns.
How we know
    The recorded updates in float64 move most weights, and the weights are bit for bit what they were; and those updates would have
    lowered the loss by more than a tenth over the steps of the run.
Not this
    A run that has converged, a rate that a schedule took to 0, float32 weights behind a bfloat16 copy, Kahan's summation.
Fix
    Keep the weights in float32 and compute under autocast, or round stochastically.
Read on
    Micikevicius et al.: Mixed precision training, ICLR 2018 (section 3.1, master copy of weights).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number
from numdebug.rules import Above, Found, seen

# Most: more than half of the weights that should have moved.
MOST = 0.5
# A tenth of the largest loss, over the whole run; a converged run is far below it.
HARM = 0.1


def _because(hit: Found) -> str:
    e = hit[0]
    return (
        f"{e['absorbed']} of {e['moving']} weights that this update should change are bit for bit the same after it: the update is below"
        f" half a unit in the last place of {e['dtype']}; over {e['steps']} steps, what is lost would have lowered the loss by about"
        f" {number(e['lost'])}"
    )


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
nn.init.constant_(model.weight, 0.5)
model.to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=5e-4)
for step in range(300):
    loss = (model(x.bfloat16()).float() - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # here
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 8)
y = x @ torch.randn(8, 1)
model = nn.Linear(8, 1)
nn.init.constant_(model.weight, 0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=5e-4)
for step in range(300):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = model(x)
    loss = (output.float() - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


bug = Bug(
    id="absorbed-update",
    title="updates too small for the weights' format",
    family="precision",
    when=seen("absorbed-updates", share=Above(MOST), lost_share=Above(HARM)),
    because=_because,
    fix="keep the weights in float32 and compute under autocast",
    symptoms=("loss is stuck", "accuracy below the published one", "trains slower than it should"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="updates, जो weights के फ़ॉर्मैट के लिए बहुत छोटे हैं",
        symptoms=(
            "loss अटका रहता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "ट्रेनिंग जितनी होनी चाहिए उससे धीमी चलती है",
        ),
        fix="weights float32 में रखें और गणना autocast में करें",
        what=(
            "bfloat16 के weight में 8 सार्थक bits हैं: weight के 1/512 से छोटा update हर बार round होकर पुराना ही weight "
            "लौटाता है। loss घटना बंद कर देता है, जबकि ग्रेडिएंट, learning rate और कोड सब ठीक दिखते हैं; float32 में यही "
            "प्रोग्राम सीखता है।"
        ),
        fixes={
            "keep the weights in float32 and compute under autocast": "weights float32 में रखें और गणना autocast में करें",
        },
        measured=("{moving} में से {absorbed} weights update के बाद भी bit-दर-bit वही रहे",),
    ),
)
