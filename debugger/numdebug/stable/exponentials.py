"""Softmax and its relatives, for every input that the format can hold."""

from __future__ import annotations

import math

import numpy as np

from numdebug.stable._arrays import Array, beside, cast_to, check_axis, constant, floating, in_own_format, library


@in_own_format
def softmax(x: Array, /, axis: int = -1) -> Array:
    """exp(x) / Σ exp(x) along `axis`, computed as exp(x - max x): same shape and format as `x`.

    The relative error of an entry is about (gap to the maximum + length) · eps. A row that is all -inf, or that holds +inf, has no softmax:
    it is nan, as in PyTorch. Source: Blanchard, Higham and Higham (2021), "Accurately computing the log-sum-exp and softmax functions".
    """
    check_axis(x, axis, "softmax")
    xp = library(x)
    e = xp.exp(x - constant(xp.amax(x, axis=axis, keepdims=True)))
    return e / e.sum(axis=axis, keepdims=True)


@in_own_format
def logsumexp(x: Array, /, axis: int = -1) -> Array:
    """log Σ exp(x) along `axis`, which goes, computed as m + log Σ exp(x - m) with m = max x.

    The absolute error is about (|m| + |result| + length) · eps. All -inf stays -inf, and its gradient is 0; +inf gives +inf (gradient nan).
    Source: as for `softmax`.
    """
    check_axis(x, axis, "logsumexp")
    xp = library(x)
    top = constant(xp.amax(x, axis=axis, keepdims=True))
    shift = xp.where(xp.isinf(top), 0.0, top)  # inf - inf would be nan
    sums = xp.exp(x - shift).sum(axis=axis, keepdims=True)
    empty = sums == 0  # after the shift one term is 1, but where every x is -inf
    found = xp.where(empty, -math.inf, shift + xp.log(xp.where(empty, 1.0, sums)))
    return found.squeeze(axis)


@in_own_format
def log_softmax(x: Array, /, axis: int = -1) -> Array:
    """x - logsumexp(x) along `axis`, computed as (x - m) - log Σ exp(x - m) with m = max x: same shape and format as `x`.

    A gap of 120 gives -120, where log(softmax(x)) is -inf in float32. Rows that are all -inf, or hold +inf, are nan.
    """
    check_axis(x, axis, "log_softmax")
    xp = library(x)
    moved = x - constant(xp.amax(x, axis=axis, keepdims=True))
    return moved - xp.log(xp.exp(moved).sum(axis=axis, keepdims=True))


def cross_entropy(logits: Array, target: Array, axis: int = -1) -> Array:
    """-log softmax(logits)[target], one for each row: `target` holds class numbers, in the shape of `logits` without `axis`.

    ValueError where the shapes do not fit or a class number is none of 0 ... classes - 1. Average the result as you like.
    """
    logs = log_softmax(logits, axis)
    xp = library(logs)
    target = beside(logs, target)
    rest = [size for place, size in enumerate(logs.shape) if place != axis % logs.ndim]
    if list(target.shape) != rest:
        raise ValueError(f"cross_entropy: the target's shape is {tuple(target.shape)}, logits without axis {axis} have {tuple(rest)}")
    if 0 in target.shape:
        return logs.sum(axis=axis)  # no rows
    if (target != (target := cast_to(target, xp.int64))).any():
        raise ValueError("cross_entropy: class numbers are whole numbers")
    if target.min() < 0 or target.max() >= logs.shape[axis]:
        raise ValueError(f"cross_entropy: class numbers go from 0 to {logs.shape[axis] - 1}, these from {target.min()} to {target.max()}")
    if xp is np:
        return -np.take_along_axis(logs, np.expand_dims(target, axis), axis).squeeze(axis)
    return -logs.gather(axis, target.unsqueeze(axis)).squeeze(axis)


def _halves(x: Array) -> tuple[Array, Array]:
    """max(x, 0) and -|x|, whose derivatives at 0 are those that a sum of both needs (0 and 1)."""
    xp = library(x)
    return xp.where(x > 0, x, 0.0), xp.where(x > 0, -x, x)


@in_own_format
def softplus(x: Array, /) -> Array:
    """log(1 + exp x), element by element, computed as max(x, 0) + log1p(exp(-|x|))."""
    xp = library(x)
    above, below = _halves(x)
    return above + xp.log1p(xp.exp(below))


@in_own_format
def sigmoid(x: Array, /) -> Array:
    """1 / (1 + exp(-x)), element by element, from exp(-|x|), which cannot overflow."""
    xp = library(x)
    e = xp.exp(_halves(x)[1])
    return xp.where(x > 0, 1 / (1 + e), e / (1 + e))


def log_sigmoid(x: Array, /) -> Array:
    """log of the sigmoid, element by element, computed as -softplus(-x): -200 stays -200."""
    return -softplus(-floating(x))


@in_own_format
def bce_with_logits(logits: Array, target: Array, /) -> Array:
    """-(t log σ(z) + (1 - t) log(1 - σ(z))), element by element, computed as max(z, 0) - z t + log1p(exp(-|z|)).

    `target` has probabilities (0 and 1 for labels), in a shape that goes with that of the logits. Logits are finite.
    """
    xp = library(logits)
    above, below = _halves(logits)
    return above - logits * beside(logits, target) + xp.log1p(xp.exp(below))


@in_own_format
def logaddexp(x: Array, y: Array, /) -> Array:
    """log(exp x + exp y), element by element: -inf with -inf is -inf, inf with inf is inf (both gradients nan)."""
    xp = library(x)
    return xp.logaddexp(x, beside(x, y))


@in_own_format
def log1mexp(x: Array, /) -> Array:
    """log(1 - exp x) for x <= 0, element by element: -inf at 0, nan above.

    By expm1 near 0, by log1p below -log 2. Source: Mächler (2012), "Accurately computing log(1 - exp(-|a|))".
    """
    xp = library(x)
    near = x > -math.log(2)
    by_expm1 = xp.log(-xp.expm1(xp.where(near, x, -1.0)))
    by_log1p = xp.log1p(-xp.exp(xp.where(near, -1.0, x)))
    return xp.where(near, by_expm1, by_log1p)


@in_own_format
def log1p(x: Array, /) -> Array:
    """log(1 + x), element by element: x itself for tiny x, where log(1 + x) is 0."""
    return library(x).log1p(x)


@in_own_format
def expm1(x: Array, /) -> Array:
    """exp(x) - 1, element by element: x itself for tiny x, where exp(x) - 1 is 0."""
    return library(x).expm1(x)


@in_own_format
def one_minus_cos(x: Array, /) -> Array:
    """1 - cos x, element by element, computed as 2 sin²(x/2)."""
    return 2 * library(x).sin(x / 2) ** 2
