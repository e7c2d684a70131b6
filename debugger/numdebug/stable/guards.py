"""Functions with an edge, with their argument made safe first, so that value and gradient are finite there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numdebug.stable._arrays import Array, beside, cast_to, check_axis, constant, floating, in_own_format, library, widened


def guarded(function: Callable[[Array], Array], x: Array, condition: Array, safe: float = 1.0, otherwise: float = 0.0) -> Array:
    """function(x) where the condition holds, else `otherwise`; the function never sees the other elements, but `safe` in their place.

    The two wheres keep the gradient finite: a single one behind the function multiplies an infinite derivative by 0, which is nan.
    """
    x = floating(x)
    xp = library(x)
    return cast_to(xp.where(condition, function(xp.where(condition, x, safe)), otherwise), x.dtype)


def safe_sqrt(x: Array, /) -> Array:
    """The square root, element by element; at 0 its gradient is 0, not inf. Negative numbers are nan as ever."""
    x = floating(x)
    with np.errstate(invalid="ignore"):
        return guarded(library(x).sqrt, x, x != 0)


@in_own_format
def safe_norm(x: Array, /, axis: int = -1) -> Array:
    """The Euclidean norm along `axis`, which goes, of x divided by its largest element, so that no square leaves the range.

    At 0 its gradient is 0, not nan. It is inf only where an element is, or where the norm itself is too large for the format.
    """
    check_axis(x, axis, "safe_norm")
    xp = library(x)
    top = constant(xp.amax(abs(x), axis=axis, keepdims=True))
    scale = xp.where(xp.isinf(top), 1.0, xp.where(top > xp.finfo(x.dtype).tiny, top, xp.finfo(x.dtype).tiny))
    part = x / scale
    return safe_sqrt((part * part).sum(axis=axis)) * scale.squeeze(axis)


def safe_divide(x: Array, y: Array, /, otherwise: float = 0.0) -> Array:
    """x / y, element by element, and `otherwise` where y is 0; both gradients are 0 there."""
    y = floating(y if library(x) is np else beside(x, y))
    xp = library(y)
    divisor = xp.where(y == 0, 1.0, y)
    return cast_to(xp.where(y == 0, otherwise, beside(y, x) / divisor), y.dtype)


def clip_by_norm(gradients: Any, max_norm: float) -> Any:
    """Gradients with their common norm at most `max_norm`: an array, or a list of arrays that are taken together.

    Each is multiplied by the same number, so that the direction stays; within the bound they come back as they are. ValueError where a
    gradient is not finite (unscale and skip such a step first), or the bound is not positive. None, the gradient of a parameter without
    a part in the loss, stays None.
    """
    if not max_norm > 0:
        raise ValueError(f"clip_by_norm: the largest norm has to be positive, not {max_norm}")
    alone = not isinstance(gradients, Sequence) or (len(gradients) > 0 and isinstance(gradients[0], (int, float)))
    if not alone and any(g is None for g in gradients):
        rest = iter(clip_by_norm([g for g in gradients if g is not None], max_norm))
        return [None if g is None else next(rest) for g in gradients]
    arrays = [floating(g) for g in ([gradients] if alone else gradients)]
    wide = [constant(widened(g)) for g in arrays]
    top = max((float(abs(g).max()) for g in wide if 0 not in g.shape), default=0.0)
    if not all(bool(library(g).isfinite(g).all()) for g in wide):
        raise ValueError("clip_by_norm: a gradient is inf or nan, which has no direction")
    if top == 0:
        return gradients
    norm = math.sqrt(sum(float(((g / top) ** 2).sum()) for g in wide))  # of the gradients divided by their largest element
    if norm <= max_norm / top:
        return gradients
    clipped = [cast_to(g / top * (max_norm / norm), own.dtype) for g, own in zip(wide, arrays, strict=True)]
    return clipped[0] if alone else clipped
