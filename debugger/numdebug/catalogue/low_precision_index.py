"""positions, ids, counts or times in a format that does not hold them apart

What happens
    float16 has every whole number up to 2048, bfloat16 up to 256, float32 up to 16777216. Beyond, neighbours become the same number:
    position 2049 is 2048, and two events a second apart have one Unix time.
Why it matters
    Tokens share a position, ids point to the wrong row, time differences are 0 or 128 seconds.
How we know
    Whole numbers that were different are the same after this line, and something takes them at face value: an index, a comparison, a
    difference, a sine or cosine.
Not this
    A count that only scales a mean; whole numbers within the format's limit.
Fix
    Keep them in int64 (or subtract the start first), and cast after the arithmetic that needs them apart.
Read on
    Goldberg: What every computer scientist should know about floating-point arithmetic, ACM Computing Surveys 23 (1991).
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    if e["given"]:
        return (
            f"at {e['largest']:.10g} two {e['dtype']} numbers are {e['spacing']:g} apart: {e['merged']} of {e['size']} neighbours "
            f"are the same number, and their differences, {e['gap']:g} in the median, are a few such steps"
        )
    return (
        f"{e['dtype']} holds every whole number only up to {e['limit']:.0f}: {e['one']:.12g} and {e['other']:.12g} "
        f"both become {e['both']:.12g} ({e['merged']} such pairs among {e['size']}), and {e['used_by']} takes them at face value"
    )


BROKEN = """\
import torch

frequency = 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16)


def rotary(length, dtype):
    position = torch.arange(length, dtype=dtype)  # here
    angle = position[:, None] * frequency.to(dtype)
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


table = rotary(4096, torch.bfloat16)
print((table[1:] == table[:-1]).all(dim=-1).sum())
"""

FIXED = """\
import torch

frequency = 1.0 / 10000 ** (torch.arange(0, 16, 2) / 16)


def rotary(length, dtype):
    position = torch.arange(length)
    angle = position[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=-1).to(dtype)


table = rotary(4096, torch.bfloat16)
print((table[1:] == table[:-1]).all(dim=-1).sum())
"""


bug = Bug(
    id="low-precision-index",
    title="whole numbers in a format that does not hold them apart",
    family="precision",
    when=seen("merged-numbers"),
    because=_because,
    fix="keep them in int64 and cast after the arithmetic",
    repair=lambda hits: repair_ops("wider", "keep them in int64 (or subtract the start first) and cast after the arithmetic", hits),
    symptoms=("accuracy below the published one", "wrong row looked up", "differences are 0"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="पूर्णांक ऐसे फ़ॉर्मैट में, जो उन्हें अलग-अलग नहीं रख सकता",
        symptoms=("accuracy प्रकाशित (published) accuracy से कम आती है", "ग़लत row उठती है", "अंतर 0 आते हैं"),
        fix="उन्हें int64 में रखें और गणना के बाद cast करें",
        what=(
            "float16 हर पूर्णांक सिर्फ़ 2048 तक, bfloat16 256 तक और float32 16777216 तक रखता है; उसके आगे पड़ोसी संख्याएँ "
            "एक हो जाती हैं। टोकन एक ही position बाँटते हैं, id ग़लत row पर पहुँचते हैं, और समय के अंतर 0 या 128 सेकंड "
            "आते हैं।"
        ),
        fixes={
            "keep them in int64 (or subtract the start first) and cast after the arithmetic": (
                "उन्हें int64 में रखें (या पहले शुरुआती मान घटाएँ) और गणना के बाद cast करें"
            ),
        },
        measured=("{dtype} में {one} और {other} दोनों {both} बन जाते हैं; {size} में से ऐसे {merged} जोड़े हैं",),
    ),
)
