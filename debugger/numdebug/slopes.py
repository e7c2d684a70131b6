"""A derivative by differences, against the one that a backward pass gives. No framework in here.

Fourth order, in float64, over a sweep of steps h: truncation falls with h^4 and rounding grows with 1/h, so the step at which two
neighbours agree best is taken, and what they disagree by is the uncertainty. Slopes to the left and to the right that differ are a
kink, which proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# Relative to the size of the elements moved. In float64 the optimum of a fourth-order difference is eps^(1/5), about 1e-3; what is less
# smooth than a polynomial wants smaller steps, what computes in float32 inside wants larger ones.
STEPS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-2, 1e-7)
ENOUGH = 1e-8  # relative uncertainty: ten times finer than the finest line of the verdict scale
SHOWN = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
FLOOR = 1e-8  # below this a derivative counts as 0 in the relative error
RIGHT, ACCEPTABLE, SUSPICIOUS, WRONG = 1e-7, 1e-5, 1e-3, 1.0
_EPS = 2.0**-52


def verdict(error: float) -> str:
    """The scale on which relative errors of float64 gradients are judged."""
    if error < RIGHT:
        return "right"
    if error < ACCEPTABLE:
        return "acceptable"
    if error <= SUSPICIOUS:
        return "inexact"
    return "suspicious" if error <= WRONG else "wrong"


@dataclass(frozen=True)
class Slope:
    """A directional derivative by differences. `flat`: not a single bit of the outputs changed within the smallest step."""

    value: float
    uncertainty: float
    step: float
    kink: bool = False
    flat: bool = False
    sweep: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Compared:
    """One array's derivative along one random direction, both ways."""

    index: int
    analytic: float
    numeric: Slope

    @property
    def error(self) -> float:
        """|a - n| / max(|a|, |n|, 1e-8)."""
        return abs(self.analytic - self.numeric.value) / max(abs(self.analytic), abs(self.numeric.value), FLOOR)

    @property
    def decided(self) -> bool:
        """The difference is beyond what the differences themselves can be off by, and no kink is in the way."""
        return not self.numeric.kink and abs(self.analytic - self.numeric.value) > 10 * self.numeric.uncertainty

    @property
    def disagrees(self) -> bool:
        """More than acceptable, and certainly so. A gradient that is not finite is a finding of another kind."""
        return self.decided and math.isfinite(self.analytic) and self.error > ACCEPTABLE

    @property
    def said(self) -> str:
        """kink, undecided, or the word on the verdict scale; within what differences resolve, it agrees."""
        if self.numeric.kink:
            return "kink"
        if not self.decided:
            return "right" if self.error < SUSPICIOUS else "undecided"
        return verdict(self.error)


def slope(along: Callable[[float], list[np.ndarray]], weights: Sequence[np.ndarray], whole: bool = False) -> Slope | None:
    """The derivative at 0 of <weights, along(t)>; None where no step gives finite numbers. `whole`: all of the sweep, for a report."""
    base = along(0.0)
    size = math.sqrt(sum(float(np.square(w * b).sum()) for w, b in zip(weights, base, strict=True)))
    best: Slope | None = None
    sweep: list[tuple[float, float]] = []
    for h in SHOWN if whole else STEPS:
        seen: dict[int, list[np.ndarray]] = {0: base}

        def project(*terms: tuple[float, int], seen: dict[int, list[np.ndarray]] = seen, h: float = h) -> float:
            for _, k in terms:
                if k not in seen:
                    seen[k] = along(k * h)
            parts = (w * sum(c * (seen[k][i] - base[i]) for c, k in terms) for i, w in enumerate(weights))
            return float(sum(part.sum() for part in parts)) / h  # the large common part is gone before anything is added up

        near = project((8 / 12, 1), (-8 / 12, -1), (-1 / 12, 2), (1 / 12, -2))
        far = project((4 / 12, 2), (-4 / 12, -2), (-1 / 24, 4), (1 / 24, -4))
        if not (math.isfinite(near) and math.isfinite(far)):
            continue
        sweep.append((h, near))
        uncertainty = abs(near - far) + 4 * _EPS * size / h
        right, left = project((2.0, 1), (-0.5, 2)), project((-2.0, -1), (0.5, -2))
        kink = abs(right - left) > max(SUSPICIOUS * max(abs(right), abs(left)), 30 * uncertainty)
        flat = all(np.array_equal(part, b) for k in (1, -1) for part, b in zip(seen[k], base, strict=True))
        if best is None or (flat, not kink, -uncertainty) > (best.flat, not best.kink, -best.uncertainty):
            best = Slope(near, uncertainty, h, kink, flat)
        if not whole and uncertainty <= ENOUGH * abs(near) and not kink:
            break
    return None if best is None else Slope(best.value, best.uncertainty, best.step, best.kink, best.flat, tuple(sweep))
