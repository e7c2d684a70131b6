"""an explicit time step beyond its stability limit

What happens
    x + h * f(x) multiplies each mode of the state by 1 + h * lambda. Where that is larger than 1 in size although lambda pulls the mode
    back, the state overshoots, swings, and grows by the same factor at every step.
Why it matters
    The result has nothing to do with the equation. It looks like a physical oscillation until it overflows.
How we know
    Over consecutive steps of one line the differences of the state follow a linear law; its factor is above 1 and adds up to a tenfold
    growth, while the rate that the same law gives for the exact solution is not positive.
Not this
    A solution that grows by itself; an optimizer's steps (learning-rate-divergence); a damped oscillation.
Fix
    A smaller step (below 2 / |lambda|), or an implicit or adaptive method.
Read on
    Hairer, Wanner: Solving ordinary differential equations II, section IV.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._words import number, repair_ops
from numdebug.report.model import Repair
from numdebug.rules import Anywhere, Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    exact = "decays" if e["rate"] < -1e-3 else "does not grow"
    return f"over {e['steps']} steps the state changes by {number(e['factor'])}x more at each step, while the exact solution {exact}"


def _repair(hits: Sequence[Found]) -> Repair:
    return repair_ops("time_step", "take a smaller step, or use an implicit or adaptive method", hits, "setting", factor=0.2)


BROKEN = """\
import torch

dt = 0.05
rates = torch.tensor([1.0, 5.0, 60.0])
state = torch.ones(3)
for step in range(40):
    state = state + dt * (-rates * state)  # here
print(state)
"""

FIXED = BROKEN.replace("dt = 0.05", "dt = 0.01").replace("  # here", "")

_SWINGS = seen("swinging-state")

bug = Bug(
    id="unstable-integration",
    title="an explicit time step beyond its stability limit",
    family="training",
    when=(_SWINGS & Anywhere(seen("symptom"))) | (_SWINGS & ~Anywhere(seen("symptom"))),
    because=_because,
    fix="take a smaller step, or use an implicit or adaptive method",
    repair=_repair,
    explains=("exploding-gradient", "learning-rate-divergence"),
    symptoms=("simulation explodes", "state oscillates and grows", "loss grows"),
    broken={"torch": BROKEN},
    fixed={"torch": FIXED},
    hindi=Words(
        title="explicit time step, जो stability की सीमा से बाहर है",
        symptoms=(
            "simulation के मान बेकाबू बढ़ते हैं (explode)",
            "state झूलता (oscillate) है और बढ़ता जाता है",
            "loss बढ़ता जाता है",
        ),
        fix="छोटा time step लें, या implicit या adaptive method इस्तेमाल करें",
        what=(
            "x + h * f(x) state के हर mode को 1 + h * lambda से गुणा करता है; जहाँ यह आकार में 1 से बड़ा है, वहाँ state "
            "लक्ष्य से आगे निकलता है, झूलता है और हर स्टेप उसी गुणक से बढ़ता है। परिणाम का समीकरण से कोई संबंध नहीं रहता, "
            "और overflow होने तक वह भौतिक दोलन जैसा दिखता है।"
        ),
        fixes={
            "take a smaller step, or use an implicit or adaptive method": (
                "छोटा time step लें, या implicit या adaptive method इस्तेमाल करें"
            ),
        },
        measured=("{steps} स्टेप तक state हर स्टेप में {factor} गुना ज़्यादा बदलता है, जबकि सही हल घटता है",),
    ),
)
