"""Softmax and its relatives, for every input that the format can hold."""

from __future__ import annotations

import math

from numdebug.stable._arrays import Array, floating, largest, library, squeeze, take, total, where


def _shift(x: Array, axis: int) -> Array:
    """The maximum along an axis; 0 where it is infinite, so that inf - inf does not arise. No gradient flows through it."""
    top = largest(x, axis, keepdims=True)
    top = top.detach() if hasattr(top, "detach") else top
    return where(library(top).isfinite(top), top, 0.0)


def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x) / Σ exp(x) along `axis`, computed as exp(x - max x): same shape and format as `x`.

    A row that is all -inf has no softmax: it is nan, as in PyTorch. +inf likewise.
    """
    x = floating(x)
    e = library(x).exp(x - _shift(x, axis))
    return e / total(e, axis, keepdims=True)


def logsumexp(x: Array, axis: int = -1) -> Array:
    """log Σ exp(x) along `axis`, which goes, computed as m + log Σ exp(x - m).

    All -inf stays -inf (its gradient is 0, not nan); +inf gives +inf.
    """
    x = floating(x)
    xp = library(x)
    top = largest(x, axis, keepdims=True)
    shift = _shift(x, axis)
    empty = xp.isinf(top) & (top < 0)
    sums = total(xp.exp(where(empty, xp.zeros_like(x), 0.0) + where(~empty & xp.ones_like(x, dtype=bool), x - shift, 0.0)), axis, keepdims=True)
    found = where(empty, top, shift + xp.log(sums)) if xp.any(empty) else shift + xp.log(sums)
    return squeeze(found, axis)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """x - logsumexp(x) along `axis`, computed as (x - m) - log Σ exp(x - m): -103 stays -103 where log(softmax(x)) is -inf."""
    x = floating(x)
    xp = library(x)
    moved = x - _shift(x, axis)
    return moved - xp.log(total(xp.exp(moved), axis, keepdims=True))


def cross_entropy(logits: Array, target: Array, axis: int = -1) -> Array:
    """-log softmax(logits)[target], one for each row: `target` holds class numbers and has the shape of `logits` without `axis`."""
    return -take(log_softmax(logits, axis), target, axis)


def softplus(x: Array) -> Array:
    """log(1 + exp x) = max(x, 0) + log1p(exp(-|x|))."""
    x = floating(x)
    xp = library(x)
    return where(x > 0, x, 0.0) + xp.log1p(xp.exp(-abs(x)))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), from exp(-|x|), which cannot overflow."""
    x = floating(x)
    e = library(x).exp(-abs(x))
    return where(x >= 0, 1 / (1 + e), e / (1 + e))


def log_sigmoid(x: Array) -> Array:
    """log of the sigmoid, -softplus(-x): -200 stays -200."""
    return -softplus(-floating(x))


def bce_with_logits(logits: Array, target: Array) -> Array:
    """-(t log σ(z) + (1 - t) log(1 - σ(z))), element by element, as max(z, 0) - z t + log1p(exp(-|z|))."""
    z = floating(logits)
    xp = library(z)
    return where(z > 0, z, 0.0) - z * target + xp.log1p(xp.exp(-abs(z)))


def log1mexp(x: Array) -> Array:
    """log(1 - exp x) for x < 0: by expm1 near 0, by log1p below -log 2 (Mächler 2012)."""
    x = floating(x)
    xp = library(x)
    near = x > -math.log(2)
    return where(near, xp.log(-xp.expm1(where(near, x, -1.0))), xp.log1p(-xp.exp(where(near, xp.full_like(x, -1.0), 0.0) + where(near, xp.zeros_like(x), x))))
