"""How far one recorded value is from its exact one, and whether the rounding of its inputs explains that."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from numdebug.observe.arrays.numbers import eps, is_float, tiny
from numdebug.run import Error

# A result that is 0 but for rounding has no relative error: the wide format's own error there is the observed one times the formats' ratio;
# two digits above that, the exact value is known.
_KNOWN = 100.0


def lost(recorded: np.ndarray, exact: np.ndarray, moved: Iterable[np.ndarray], harm: float, beyond: float) -> Error | None:
    """The error of one recorded value against its exact one; None where there is nothing to compare."""
    dtype = recorded.dtype.name
    if not is_float(recorded) or recorded.dtype.kind == "c" or recorded.shape != exact.shape or not recorded.size or not eps(dtype):
        return None
    with np.errstate(all="ignore"):
        ratio = float(np.finfo(exact.dtype).eps) / eps(dtype)
        return _lost(recorded.astype(exact.dtype), exact, list(moved), harm, beyond, ratio, tiny(dtype))


def _lost(
    low: np.ndarray, high: np.ndarray, moved: list[np.ndarray], harm: float, beyond: float, ratio: float, smallest: float
) -> Error:
    fine = np.isfinite(low) & np.isfinite(high)
    error = np.where(fine, np.abs(low - high), 0.0)
    magnitude = np.where(fine, np.abs(high), 0.0)
    noise = _KNOWN * error * ratio
    known = (magnitude >= smallest) & (magnitude > noise)
    bad = known & (error > harm * magnitude)
    wrong = int(bad.sum())
    spread = None
    for other in moved:
        off = np.abs(other - high)
        spread = off if spread is None else np.maximum(spread, off)
    if spread is not None:
        bad &= error > beyond * spread
    relative = np.where(known, error / np.maximum(magnitude, smallest), 0.0)
    worst = int(np.where(bad, relative, -1.0).argmax()) if bool(bad.any()) else int(relative.argmax())
    scale = _norm(magnitude)
    return Error(
        size=int(low.size),
        lost=int(bad.sum()),
        worst=float(relative.flat[worst]),
        recorded=float(low.flat[worst]),
        exact=float(high.flat[worst]),
        norm=_norm(error) / scale if scale else 0.0,
        inherent=None if spread is None else float(spread.flat[worst]),
        wrong=wrong,
        flushed=int((fine & (low == 0) & (high != 0) & (magnitude < smallest)).sum()),
        zeros=int((fine & (low != 0) & ~known & (magnitude <= noise)).sum()),
    )


def _norm(array: np.ndarray) -> float:
    return float(np.sqrt(np.square(array).sum()))
