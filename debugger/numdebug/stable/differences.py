"""Gradients by differences in float64, to check others against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from numdebug.stable._arrays import Array, library

# Weights of f at x + k h, by order: what is left of the Taylor series is of order h, h² or h⁴.
STENCILS = {1: {1: 1.0, 0: -1.0}, 2: {1: 1 / 2, -1: -1 / 2}, 4: {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}}
STEPS = tuple(10.0**-digits for digits in range(1, 13))
# Truncation h^order against rounding eps / h: both are equal at h = eps^(1 / (order + 1)).
EPS = float(np.finfo(np.float64).eps)


def numerical_gradient(f: Callable[[Array], Array], x: Array, h: float | None = None, order: int = 4) -> Array:
    """The gradient of f at x in float64, element by element, by centred differences of order 4 (or 2; 1 is one-sided).

    `f` takes an array (tensor) like `x`, in float64, and returns one number. `h` is relative to max(1, |x|) and left out the one where
    truncation and rounding balance, eps^(1 / (order + 1)). ValueError for another order, or where f returns more than one number.
    """
    if order not in STENCILS:
        raise ValueError(f"numerical_gradient: there are differences of order 1, 2 and 4, not {order}")
    xp = library(x)
    start = _float64(x)
    h = EPS ** (1 / (order + 1)) if h is None else h

    def value(at: np.ndarray) -> float:
        found = f(at if xp is np else xp.as_tensor(at, device=x.device))
        if getattr(found, "shape", ()) not in ((), (1,)):
            raise ValueError(f"numerical_gradient: the function has to return one number, not an array of shape {tuple(found.shape)}")
        return float(found)

    gradient = np.zeros_like(start)
    for place in np.ndindex(start.shape):
        step = h * max(1.0, abs(float(start[place])))
        for k, weight in STENCILS[order].items():
            moved = start.copy()
            moved[place] += k * step
            gradient[place] += weight * value(moved)
        gradient[place] /= step
    return gradient if xp is np else xp.as_tensor(gradient, device=x.device)


def relative_error(a: Array, n: Array) -> Array:
    """|a - n| / max(|a|, |n|, 1e-8), element by element: a gradient against the one by differences."""
    a, n = _float64(a), _float64(n)
    if a.shape != n.shape:
        raise ValueError(f"relative_error: the gradients' shapes are {a.shape} and {n.shape}")
    return np.abs(a - n) / np.maximum(np.maximum(np.abs(a), np.abs(n)), 1e-8)


def verdict(error: float) -> str:
    """What a relative error says of a gradient that was checked in float64: right, acceptable, unclear, suspicious or wrong."""
    if error < 1e-7:
        return "right"
    if error < 1e-5:
        return "acceptable"
    if error <= 1e-3:
        return "unclear"
    return "suspicious" if error <= 1 else "wrong"  # nan is wrong


def sweep(
    f: Callable[[Array], Array], x: Array, gradient: Array, steps: Iterable[float] = STEPS, order: int = 2
) -> Iterator[tuple[float, float]]:
    """The largest relative error of a gradient for each step: with large steps truncation shows, with small ones cancellation.

    A right gradient has a valley between the two; a wrong one is equally wrong for every step.
    """
    for h in steps:
        yield h, float(np.max(relative_error(gradient, numerical_gradient(f, x, h, order))))


def _float64(x: Array) -> np.ndarray:
    return np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x, dtype=np.float64)
