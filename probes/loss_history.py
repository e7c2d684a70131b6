"""Did the run blow up step by step, and at what rate?

Measures  the loss and gradient norm of every step up to the failure: how long they had been growing, by which factor a step, and
          where the optimizer (or the update written by hand) is.
Costs     nothing: the sentinel keeps both numbers.
Misses    a divergence inside a single step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from numdebug.evidence import Evidence, Number
from numdebug.run import Run

QUESTION = "Did the run blow up step by step, and at what rate?"

# A suspicion only (a run at a lower rate decides): the loss once stood at ten times its first value, ended no lower than it began, and left
# parameters whose whole gradient is exactly 0 (dead units).
SPIKE, STUCK = 10.0, 0.9


def measure(run: Run) -> Iterator[Evidence]:
    """One fact, where at least three steps have a finite loss."""
    steps = run.recording.steps
    series = [s for s in steps if s.loss is not None and math.isfinite(s.loss)]
    if len(series) < 3:
        return
    losses = [abs(s.loss) for s in series if s.loss is not None]
    growing = _growing(losses)
    ratios = [b / a for a, b in zip(losses[-growing - 1 :], losses[-growing:], strict=False) if a > 0] if growing else []
    lowest = min(losses[: max(1, len(losses) - growing)])
    norms = [s.gradient_norm for s in steps if s.gradient_norm is not None and math.isfinite(s.gradient_norm)]
    numbers = {
        "growing_steps": Number(growing, "steps"),
        "factor": Number(median(ratios) if ratios else 1.0, "per step"),
        "first_loss": Number(losses[0]),
        "lowest_loss": Number(lowest),
        "highest_loss": Number(max(losses)),
        "last_loss": Number(losses[-1]),
        "growth": Number(max(losses) / max(lowest, 1e-30), "times the lowest"),
        "median_late_loss": Number(median(losses[-10:])),
    }
    if norms:
        numbers["first_gradient_norm"] = Number(norms[0])
        numbers["last_gradient_norm"] = Number(norms[-1])
        numbers["gradient_growth"] = Number(norms[-1] / max(min(norms), 1e-30), "times the smallest")
    rate = next((s.learning_rate for s in reversed(steps) if s.learning_rate is not None), None)
    if rate is not None:
        numbers["learning_rate"] = Number(rate)
    sites = dict(run.recording.places)
    site = sites.get("optimizer") or sites.get("update")
    if site is not None:
        sites["target"] = site
    facts = {
        "steps": len(series),
        "failed": bool(run.recording.sinks),
        "scaled": any(s.scaled for s in steps),
        "spiked": max(losses) >= SPIKE * losses[0] > 0,
        "stuck": median(losses[-10:]) >= STUCK * losses[0] and run.recording.gradients[1] > 0,
    }
    yield Evidence("loss-history", "loss_history", site=site, numbers=numbers, facts=facts, sites=sites)


def _growing(losses: list[float]) -> int:
    """How many of the last steps each raised the loss; one step back is forgiven in a longer climb."""
    count, slips = 0, 0
    for before, after in zip(reversed(losses[:-1]), reversed(losses[1:]), strict=True):
        if after > before:
            count += 1
        else:
            slips += 1
            if slips > 1 + count // 4:
                break
            count += 1
    return count
