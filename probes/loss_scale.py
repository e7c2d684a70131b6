"""What did the loss scaler do: find its scale and settle, or drop steps to the end?

Measures  of the steps whose loss was scaled: how many the scaler dropped, and how many of those in the second half of the run.
Costs     nothing: the sentinel keeps both.
Misses    scaling by hand, and a scaler that is never updated.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.run import Run

QUESTION = "What did the loss scaler do: find its scale and settle, or drop steps to the end?"

# From 65536 a scaler that halves reaches 1 after 16 drops; a run that drops one step in four in its second half has not settled:
# the default schedule raises the scale once in 2000 steps, which costs one drop each.
SETTLED = 0.25


def measure(run: Run) -> Iterator[Evidence]:
    """One fact, where a loss was scaled. It is no finding by itself: what overflows has its own."""
    scaled = [s for s in run.recording.steps if s.scaled or s.skipped]
    if not scaled:
        return
    late = scaled[len(scaled) // 2 :]
    dropped = sum(s.skipped for s in late)
    verdict = "drops steps to the end" if dropped >= SETTLED * len(late) and len(scaled) > 32 else "settled" if not dropped else "searching"
    numbers = {
        "dropped": Number(sum(s.skipped for s in scaled), f"of {len(scaled)} steps"),
        "dropped_late": Number(dropped, f"of the last {len(late)} steps"),
    }
    yield Evidence("loss-scale", "loss_scale", numbers=numbers, facts={"verdict": verdict})
