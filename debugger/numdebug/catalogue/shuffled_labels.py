"""targets whose rows no longer belong to the rows of the inputs

What happens
    Inputs and targets are permuted by two different permutations, or only one of them is sorted, shuffled or flipped. Each example gets
    the target of another one.
Why it matters
    There is nothing to learn: the loss stays at log(C) or at the variance of the target, or training memorises noise.
How we know
    Followed back through every index, slice, sort and stack, the rows of the target in the first step are other rows than those of
    every input, of tables of the same length; and neither was computed from the other after it was put into its order.
Not this
    Labels that are noisy as loaded; sequences that are shifted against each other by a constant; one permutation used for both.
Fix
    One permutation for both: order = torch.randperm(n); x, y = x[order], y[order].
Read on
    Northcutt, Athalye, Mueller: Pervasive label errors in test sets destabilize machine learning benchmarks, NeurIPS 2021.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    return (
        f"{e['moved']} of {e['rows']} rows of the target belong to other rows of the input: {e['op']} put only one of them into this order"
    )


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(200, 6)
y = x[:, :3].argmax(1)
x = x[torch.randperm(200)]
y = y[torch.randperm(200)]  # here
model = nn.Linear(6, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

for step in range(40):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

FIXED = BROKEN.replace("x = x[torch.randperm(200)]", "order = torch.randperm(200)\nx = x[order]").replace(
    "y = y[torch.randperm(200)]  # here", "y = y[order]"
)


bug = Bug(
    id="shuffled-labels",
    title="targets whose rows no longer belong to the rows of the inputs",
    family="training",
    when=seen("rows-apart") & ~Anywhere(seen("symptom")),
    because=_because,
    fix="put inputs and targets into the same order: one permutation for both",
    symptoms=("loss stuck", "loss stuck at log(C)", "test accuracy at chance"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="targets की rows अब inputs की rows से मेल नहीं खातीं",
        symptoms=("loss अटका रहता है", "loss log(C) पर अटका रहता है", "test accuracy तुक्के (chance) के बराबर है"),
        fix="inputs और targets को एक ही क्रम में रखें: दोनों के लिए एक ही permutation",
        what=(
            "inputs और targets दो अलग permutation से फेंटे गए, या उनमें से सिर्फ़ एक को sort, shuffle या flip किया गया: "
            "हर उदाहरण को किसी और का target मिला। सीखने को कुछ है ही नहीं: loss log(C) या target के variance पर टिका रहता "
            "है, या ट्रेनिंग शोर रट लेती है।"
        ),
        measured=("target की {rows} में से {moved} rows अपनी जगह से हट चुकी हैं",),
    ),
)
