"""The naive form of each function of `numdebug.stable`, under the same name and with the same arguments: what one writes first.

They fail on purpose: what goes wrong, and from which numbers on, is in each one's docstring. Nothing here is widened or guarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numdebug.stable._arrays import Array, beside, floating, library


def softmax(x: Array, /, axis: int = -1) -> Array:
    """nan where an exp overflows (88.72 in float32), and where all of them underflow."""
    e = library(x).exp(floating(x))
    return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x: Array, /, axis: int = -1) -> Array:
    """inf where an exp overflows, -inf where all of them underflow."""
    x = floating(x)
    return library(x).log(library(x).exp(x).sum(axis=axis))


def log_softmax(x: Array, /, axis: int = -1) -> Array:
    """-inf where the softmax underflowed to 0 (gap 104 in float32)."""
    return library(x).log(softmax(x, axis))


def cross_entropy(logits: Array, target: Array, axis: int = -1) -> Array:
    """inf where the target's probability underflowed to 0."""
    logs = log_softmax(logits, axis)
    target = beside(logs, target)
    if library(logs) is np:
        return -np.take_along_axis(logs, np.expand_dims(target, axis), axis).squeeze(axis)
    return -logs.gather(axis, target.unsqueeze(axis)).squeeze(axis)


def softplus(x: Array, /) -> Array:
    """inf where exp overflows, 0 where exp(x) vanishes beside 1."""
    x = floating(x)
    return library(x).log(1 + library(x).exp(x))


def sigmoid(x: Array, /) -> Array:
    """nan where exp overflows: inf / inf."""
    e = library(x).exp(floating(x))
    return e / (1 + e)


def log_sigmoid(x: Array, /) -> Array:
    """-inf where the sigmoid underflowed to 0, nan where its exp overflowed."""
    return library(x).log(sigmoid(x))


def bce_with_logits(logits: Array, target: Array, /) -> Array:
    """inf or nan where the sigmoid is 1 to working precision (16.7 in float32), or 0."""
    xp, p = library(logits), sigmoid(logits)
    target = beside(p, target)
    return -(target * xp.log(p) + (1 - target) * xp.log(1 - p))


def logaddexp(x: Array, y: Array, /) -> Array:
    """inf where an exp overflows, -inf where both underflow."""
    x = floating(x)
    xp = library(x)
    return xp.log(xp.exp(x) + xp.exp(beside(x, y)))


def log1mexp(x: Array, /) -> Array:
    """-inf where exp(x) rounds to 1."""
    x = floating(x)
    return library(x).log(1 - library(x).exp(x))


def log1p(x: Array, /) -> Array:
    """0 where x vanishes beside 1."""
    return library(x).log(1 + floating(x))


def expm1(x: Array, /) -> Array:
    """0 where exp(x) rounds to 1."""
    return library(x).exp(floating(x)) - 1


def one_minus_cos(x: Array, /) -> Array:
    """0 where cos(x) rounds to 1: below sqrt(eps)."""
    return 1 - library(x).cos(floating(x))


def kahan_sum(x: Array, /, axis: int = -1) -> Array:
    """A running sum in the format of x: a counter in float32 stops at 2²⁴, in bfloat16 at 256."""
    x = floating(x)
    total = 0 * x.sum(axis=axis)
    for term in library(x).moveaxis(x, axis, 0):
        total = total + term
    return total


pairwise_sum = kahan_sum


def variance(x: Array, /, axis: int = -1, correction: int = 0) -> Array:
    """E[x²] - E[x]²: cancels where the mean is large beside the spread, and may be negative."""
    x = floating(x)
    n = x.shape[axis]
    return ((x * x).mean(axis=axis) - x.mean(axis=axis) ** 2) * (n / (n - correction))


def guarded(function: Callable[[Array], Array], x: Array, condition: Array, safe: float = 1.0, otherwise: float = 0.0) -> Array:
    """One where, behind the function: the value is right, the gradient of what it drops is nan where the function's is not finite."""
    x = floating(x)
    return library(x).where(condition, function(x), otherwise)


def safe_sqrt(x: Array, /) -> Array:
    """The gradient at 0 is inf."""
    return library(x).sqrt(floating(x))


def safe_norm(x: Array, /, axis: int = -1) -> Array:
    """Squares overflow (1.8e19 in float32) or underflow, and the gradient at 0 is nan."""
    x = floating(x)
    return library(x).sqrt((x * x).sum(axis=axis))


def safe_divide(x: Array, y: Array, /, otherwise: float = 0.0) -> Array:
    """inf or nan where y is 0."""
    return x / floating(y)


def clip_by_norm(gradients: Any, max_norm: float) -> Any:
    """Clips each element by value, which turns the gradient."""
    if isinstance(gradients, (list, tuple)) and not isinstance(gradients[0], (int, float)):
        return [clip_by_norm(g, max_norm) for g in gradients]
    return library(gradients).clip(floating(gradients), -max_norm, max_norm)


def numerical_gradient(f: Callable[[Array], Array], x: Array, h: float = 1e-8, order: int = 1) -> Array:
    """One-sided differences with one fixed step, in the format of x: in float32 a step of 1e-8 changes nothing."""
    x = floating(x)
    flat = x.reshape(-1)
    gradient = library(x).zeros_like(flat)
    for place in range(len(flat)):
        moved = flat * 1
        moved[place] += h
        gradient[place] = (f(moved.reshape(x.shape)) - f(x)) / h
    return gradient.reshape(x.shape)
