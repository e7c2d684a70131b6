"""integer arithmetic that wraps around

What happens
    3 - 5 is 254 in uint8; 70000 * 70000 wraps in int32; a float above 255 cast to uint8 keeps its low byte.
Why it matters
    Nothing is NaN: image differences, counts and products are simply wrong, and so is everything computed from them.
How we know
    The operation was computed again in arithmetic wide enough; elements differ, and they go on into floating point.
Not this
    Hashing and random number generation, where a wrapped value goes on into a remainder or a bit operation.
Fix
    Convert to int64 or a float type before the arithmetic; clamp before a narrowing cast.
Read on
    NumPy's user guide on overflow of fixed-size integers.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    return (
        f"{e['wrapped']} of {e['size']} results do not fit {e['dtype']} (exact values from {number(e['lowest_exact'], 6)} "
        f"to {number(e['highest_exact'], 6)}) and wrapped around before they became floats"
    )


BROKEN = """\
import torch
from torch import nn

torch.manual_seed(0)
before = torch.randint(0, 256, (8, 1, 16, 16), dtype=torch.uint8)
after = torch.randint(0, 256, (8, 1, 16, 16), dtype=torch.uint8)


def motion(a, b):
    change = b - a  # here
    return change.float() / 255


net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 1))
with torch.no_grad():
    alarm = net(motion(before, after))
print(alarm.flatten())
"""

FIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
before = torch.randint(0, 256, (8, 1, 16, 16), dtype=torch.uint8)
after = torch.randint(0, 256, (8, 1, 16, 16), dtype=torch.uint8)


def motion(a, b):
    change = b.int() - a.int()
    return change.float() / 255


net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 1))
with torch.no_grad():
    alarm = net(motion(before, after))
print(alarm.flatten())
"""


bug = Bug(
    id="integer-overflow",
    title="integer arithmetic wrapped around",
    family="range",
    when=seen("integer-wrap"),
    because=_because,
    fix="convert to int64 or a float type before the arithmetic",
    repair=lambda hits: repair_ops(
        "widen_integer", "widen before the arithmetic", hits, narrow=hits[0][0]["dtype"], op=hits[0][0]["op"]
    ),
    symptoms=("wrong numbers without NaN",),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="integer की गणना सीमा से बाहर जाकर घूम गई (wrap around)",
        symptoms=("NaN कहीं नहीं, पर संख्याएँ ग़लत हैं",),
        fix="गणना से पहले int64 या float type में बदलें",
        what=(
            "uint8 में 3 - 5 का परिणाम 254 है, int32 में 70000 * 70000 घूम जाता है, और 255 से बड़े float को uint8 में "
            "बदलने पर सिर्फ़ निचली byte बचती है। NaN कहीं नहीं दिखता: अंतर, गिनतियाँ और गुणनफल, और उनसे निकली हर चीज़, बस "
            "ग़लत होती है।"
        ),
        fixes={
            "widen before the arithmetic": "गणना से पहले चौड़े (wider) type में बदलें",
        },
        measured=("{wrapped} elements घूम गए: सही मान {lowest_exact} से {highest_exact} तक थे",),
    ),
)
