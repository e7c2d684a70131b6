"""floats compared with ==, or with a tolerance below their rounding

What happens
    0.1 * 3 and 0.3 are different floats. Numbers that are equal on paper differ by an ulp or two once they are computed in two ways,
    and == says no. A tolerance of 1e-9 on float32 numbers near 1 is the same question.
Why it matters
    Masks miss points, loops do not stop, tests fail on another machine.
How we know
    The comparison was repeated in float64: what it calls different there agrees to twelve digits, and as computed lies within rounding.
Not this
    Comparing copies of the same number (x == x.max()), integers, or numbers that differ for a reason.
Fix
    torch.isclose with a tolerance of a few ulp of the format, or compare the integers that the floats were made from.
Read on
    PyTorch's documentation of torch.isclose and torch.testing.assert_close (default tolerances by format).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    many = f"{e['missed']} of {e['size']} pairs that are" if e["size"] > 1 else "two numbers that are"
    tolerance = f", more than the tolerance of {e['tolerance']:.2g}" if e["tolerance"] is not None else ""
    ulps = e["apart"] / (e["magnitude"] * e["eps"])
    return f"{many} equal in float64 differ by up to {e['apart']:.2g} here ({ulps:.2g} eps of {e['dtype']}){tolerance}"


BROKEN = """\
import torch

dt = 0.1
time = torch.arange(0, 41) * dt
events = torch.linspace(0, 4, 11)
rate = torch.zeros(41)
for event in events:
    rate = rate + (time == event)  # here
print("events seen:", rate.sum().item(), "of", len(events))
"""

FIXED = """\
import torch

dt = 0.1
time = torch.arange(0, 41) * dt
events = torch.linspace(0, 4, 11)
rate = torch.zeros(41)
for event in events:
    rate = rate + torch.isclose(time, event, atol=1e-6)
print("events seen:", rate.sum().item(), "of", len(events))
"""


bug = Bug(
    id="float-equality",
    title="floats compared exactly",
    family="precision",
    when=seen("missed-equality"),
    because=_because,
    fix="compare with a tolerance that fits the format",
    repair=lambda hits: repair_ops("tolerance", "compare with torch.isclose and a tolerance of a few ulp, or compare integers", hits),
    symptoms=("mask misses points", "loop does not end", "test fails on another machine"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="float संख्याओं की हूबहू तुलना",
        symptoms=("mask से कुछ बिंदु छूट जाते हैं", "loop ख़त्म ही नहीं होता", "दूसरी मशीन पर test फ़ेल होता है"),
        fix="फ़ॉर्मैट के हिसाब की tolerance के साथ तुलना करें",
        what=(
            "0.1 * 3 और 0.3 अलग-अलग float हैं: काग़ज़ पर बराबर संख्याएँ दो तरीक़ों से निकालने पर एक-दो ulp अलग आती हैं, "
            "और == कहता है 'नहीं'। mask से बिंदु छूटते हैं, loop रुकते नहीं, और test दूसरी मशीन पर फ़ेल होते हैं।"
        ),
        fixes={
            "compare with torch.isclose and a tolerance of a few ulp, or compare integers": (
                "torch.isclose और कुछ ulp की tolerance से तुलना करें, या integer की तुलना करें"
            ),
        },
        measured=(
            "{size} में से {missed} तुलनाएँ ऐसी हैं जिनके दोनों पक्ष float64 में बराबर हैं, पर यहाँ {apart} तक "
            "अलग हैं",
        ),
    ),
)
