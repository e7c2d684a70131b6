"""a counter or running sum that its format can no longer move

What happens
    Adding less than half an ulp gives the same number back: a float32 counter stops at 16777216, a bfloat16 one at 256, and a bfloat16
    average with decay 0.999 never leaves where it started.
Why it matters
    Counts, means and averaged weights freeze while the program goes on as if they moved.
How we know
    The updates recorded last left the sum bit for bit as it was; the same updates in float64 move it by more than an ulp.
Not this
    A series whose terms have become negligible; an average that has arrived; compensated (Kahan) summation.
Fix
    Count in int64; sum in float32 or float64 whatever the terms are in; keep averaged weights in float32.
Read on
    Higham: Accuracy and Stability of Numerical Algorithms, 2nd edition, chapter 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._digits import wrong_by
from numdebug.catalogue._words import repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    if e["stands_still"]:
        return f"adding to this {e['dtype']} number leaves it as it was: a difference taken of it later {wrong_by(e).removeprefix('it ')}"
    if e.kind == "digits-lost":
        return f"a running sum in {e['dtype']} has lost what was added to it: {wrong_by(e)}"
    half = f"half an ulp of {e['sum']:.9g} in {e['dtype']} is {e['sum'] * e['eps'] / 2:.2g}"
    what = "the sum" if e["size"] == 1 else f"{e['stuck']} of {e['size']} elements of the sum"
    return f"{e['updates']} of the last {e['of']} updates left {what} as it was: {half}, and {e['added']:.2g} was to be added"


def _repair(hits: Sequence[Found]) -> Repair:
    added = hits[0][0]["added"]
    counts = isinstance(added, float) and added >= 1 and added.is_integer()
    what = "keep the count in int64" if counts else "keep the sum or average in a wider format (float32, float64)"
    return repair_ops("wider", what, hits)


BROKEN = """\
import torch

torch.manual_seed(0)
labels = torch.randint(0, 4, (200, 50))
seen = torch.zeros((), dtype=torch.bfloat16)
correct = torch.zeros((), dtype=torch.bfloat16)

for batch in labels:
    for label in batch[:8]:
        seen += 1  # here
    correct = correct + (batch == 1).any()
print("share of batches:", (correct / seen).item())
"""

FIXED = """\
import torch

torch.manual_seed(0)
labels = torch.randint(0, 4, (200, 50))
seen = torch.zeros((), dtype=torch.int64)
correct = torch.zeros((), dtype=torch.int64)

for batch in labels:
    for label in batch[:8]:
        seen += 1
    correct = correct + (batch == 1).any()
print("share of batches:", (correct / seen).item())
"""


bug = Bug(
    id="absorbed-addition",
    title="a running sum that its format can no longer move",
    family="precision",
    when=seen("stuck-sum") | seen("digits-lost", form="running-sum"),
    because=_because,
    fix="count in int64; sum in a wider format",
    repair=_repair,
    symptoms=("counter stops", "accuracy below the published one", "average never moves"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="चलता हुआ योग, जिसे उसका फ़ॉर्मैट अब हिला नहीं सकता",
        symptoms=(
            "counter रुक जाता है",
            "accuracy प्रकाशित (published) accuracy से कम आती है",
            "औसत (average) हिलता ही नहीं",
        ),
        fix="गिनती int64 में करें; योग चौड़े (wider) फ़ॉर्मैट में रखें",
        what=(
            "आधे ulp से कम जोड़ने पर वही संख्या लौट आती है: float32 का counter 16777216 पर, bfloat16 का 256 पर रुक जाता "
            "है। गिनती, औसत और averaged weights जम जाते हैं, जबकि प्रोग्राम ऐसे चलता रहता है मानो वे बदल रहे हों।"
        ),
        fixes={
            "keep the count in int64": "गिनती int64 में रखें",
            "keep the sum or average in a wider format (float32, float64)": (
                "योग या औसत को चौड़े (wider) फ़ॉर्मैट में रखें (float32, float64)"
            ),
        },
        measured=("योग {sum} पर रुका है, जबकि उसमें {added} जुड़ना था",),
    ),
)
