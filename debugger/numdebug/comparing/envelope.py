"""How far rounding may move each element of each value, and how a difference between two runs compares with that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from numdebug.arithmetic import SAMPLES, Arithmetic, Products
from numdebug.formats import FORMATS
from numdebug.recording import Value
from numdebug.run import Run

LIMIT = 3.0
"""A difference above so many envelopes is not rounding. Measured (docs/comparing.md): of 443 benign pairs the largest stood at 2.7."""
ULPS = 16.0
"""Where there is no computation to judge by: gaps of the format at the largest element. Of 118 benign pairs that differ
(benchmarks/differences.py) the largest stood at 12."""
FEW = 3
"""Samples that settle what is far from the limit, on either side."""
_SQUARES = 1e-15, 1e15
"""Magnitudes whose squares float32 holds with room to spare."""
_PRIOR = 4.0
"""A spread known from 8 samples is off by a quarter; it is drawn towards that of its neighbours as if these were so many samples more."""


@dataclass(frozen=True)
class Measured:
    """One value of two sides. `ratio`: in envelopes; `ulps`: of the coarser format, at the largest magnitude of the value."""

    size: int
    differing: int = 0
    largest: float = 0.0
    at: tuple[int, ...] = ()
    a: float = 0.0
    b: float = 0.0
    ulps: float = 0.0
    envelope: float = 0.0  # at the element that stands out most
    ratio: float = 0.0
    non_finite: int = 0  # elements finite on one side only
    flushed: int = 0  # of the differing ones: subnormal on one side, 0 on the other
    scale: float = 0.0  # largest finite magnitude

    @property
    def identical(self) -> bool:
        """Bit for bit, but for the sign of 0."""
        return self.differing == 0 and self.non_finite == 0

    @property
    def clear(self) -> bool:
        """So far from the limit that a spread known to 40 % settles it."""
        return self.non_finite > 0 or not LIMIT / 2 < self.ratio < 2 * LIMIT

    @property
    def within(self) -> bool:
        """Rounding explains it."""
        return self.non_finite == 0 and self.ratio <= LIMIT


class Envelope:
    """The spread of values under rounding noise: root mean square over the passes made so far, by id of Value."""

    def __init__(self, run: Run, values: Sequence[Value], products: Products | None = None, samples: int = SAMPLES) -> None:
        self.run = run
        self.values = values
        self.products = products
        self.samples = 0
        self._squares: dict[int, np.ndarray] = {}
        self.more(samples)

    def more(self, samples: int) -> None:
        """Further passes."""
        for seed in range(self.samples, self.samples + samples):
            for key, moved in self.run.deviations(self.values, Arithmetic(noise=seed, products=self.products)).items():
                square = moved
                with np.errstate(all="ignore"):
                    top = float(np.max(np.abs(moved), initial=0.0))
                    if not math.isfinite(top):
                        square = np.nan_to_num(moved, nan=0.0, posinf=0.0, neginf=0.0)
                        top = float(np.max(np.abs(square), initial=0.0))
                    small = top == 0.0 or _SQUARES[0] < top < _SQUARES[1]
                    square = np.square(square.astype(np.float32 if small else np.float64, copy=False))
                if key in self._squares:
                    self._squares[key] = self._squares[key] + square
                else:
                    self._squares[key] = square
        self.samples += samples

    def of(self, value: Value) -> np.ndarray | None:
        """One standard deviation, element by element; None where the value could not be computed again."""
        total = self._squares.get(value.id)
        return None if total is None else np.sqrt(total / self.samples)


def usual(spread: np.ndarray, samples: int) -> np.ndarray:
    """The spread of single elements, drawn towards the value's own typical one."""
    typical = float(np.median(spread)) if spread.size else 0.0
    drawn: np.ndarray = np.sqrt((samples * np.square(spread) + _PRIOR * typical**2) / (samples + _PRIOR))
    return drawn


def expected(size: int) -> float:
    """The largest of so many standard normal numbers, about."""
    return max(1.0, math.sqrt(2.0 * math.log(max(size, 2))))


def beyond(a: np.ndarray, b: np.ndarray, spread: np.ndarray) -> bool:
    """Whether the Euclidean norm alone shows that the two differ by more than rounding: a quick look before `measure`."""
    with np.errstate(all="ignore"):
        off = float(np.linalg.norm((a - b).ravel()))
        spread = spread.astype(np.float64, copy=False) if spread.size and float(np.max(spread)) > _SQUARES[1] else spread
    return math.isfinite(off) and off > LIMIT * max(float(np.linalg.norm(spread.ravel())), FORMATS["float32"].tiny)


def measure(a: np.ndarray, b: np.ndarray, spread: np.ndarray | None, samples: int, form: str) -> Measured:
    """`b` against `a`, element by element; `form`: the coarser of their formats.

    The ratio is the larger of two: of the Euclidean norms of difference and spread, and of the element that stands out most, in
    standard deviations, over what the largest of so many elements would be.
    """
    size = int(a.size)
    if not size:
        return Measured(0)
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    fine = np.isfinite(x) & np.isfinite(y)
    odd = int((~same & ~fine).sum())
    off = np.abs(np.where(fine, x, 0.0) - np.where(fine, y, 0.0))
    scale = float(np.max(np.where(fine, np.maximum(np.abs(x), np.abs(y)), 0.0)))
    differing = int((off > 0).sum())
    if not differing:
        return Measured(size, non_finite=odd, scale=scale)
    limits = FORMATS.get(form, FORMATS["float64"])
    floor = limits.subnormal  # no format says anything smaller
    tiny = (np.maximum(np.abs(x), np.abs(y)) < limits.tiny) & ((x == 0) | (y == 0)) & (off > 0)
    if spread is None:
        at = int(off.argmax())
        ratio, envelope = math.inf, 0.0
    else:
        sigma = np.broadcast_to(spread, a.shape).astype(np.float64).ravel()
        sigma = np.maximum(usual(sigma, samples), floor)
        standing = off / sigma
        at = int(standing.argmax())
        whole = float(np.linalg.norm(off) / np.linalg.norm(sigma))
        ratio, envelope = max(whole, float(standing[at]) / expected(size)), float(sigma[at] * expected(size))
    largest = int(off.argmax())
    where = largest if spread is None else at
    place = tuple(int(i) for i in np.unravel_index(where, a.shape)) if a.ndim else ()
    return Measured(
        size=size, differing=differing, largest=float(off[largest]), at=place, a=float(x[where]), b=float(y[where]),
        ulps=float(off[largest]) / max(limits.eps * 2.0 ** (math.frexp(scale)[1] - 1), limits.subnormal), envelope=envelope, ratio=ratio,
        non_finite=odd, flushed=int(tiny.sum()), scale=scale,
    )  # fmt: skip
