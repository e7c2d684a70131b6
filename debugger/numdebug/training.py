"""How a training run went, from the loss of every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from numdebug.recording import Recording

# A loss that ends at nine tenths of where it began or more has not learned: a constant guess of the labels' mean does as well.
STUCK = 0.9
# Between the second quarter of the run and the last one, a loss on its way down falls by more than this share.
FLAT = 0.02


@dataclass(frozen=True)
class Progress:
    """Medians of the loss over the first steps, the second quarter and the last quarter."""

    steps: int
    first: float
    middle: float
    late: float

    @property
    def stuck(self) -> bool:
        """No better than at the start, or flat since the first quarter and far from zero."""
        return self.steps > 3 and self.late >= STUCK * self.first > 0

    @property
    def flat(self) -> bool:
        """No better in the last quarter than in the second."""
        return self.steps > 3 and self.late >= (1 - FLAT) * self.middle > 0


def progress(recording: Recording) -> Progress | None:
    """None where no loss was seen."""
    losses = [s.loss for s in recording.steps if s.loss is not None and math.isfinite(s.loss)]
    if not losses:
        return None
    n = len(losses)
    few = max(1, min(10, n // 20))
    return Progress(n, median(losses[:few]), median(losses[n // 4 : max(n // 2, n // 4 + 1)]), median(losses[-max(1, n // 4) :]))
