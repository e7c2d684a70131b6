"""Sums and variances that keep the digits which their format has. Sums are computed in the format of what is summed."""

from __future__ import annotations

import numpy as np

from numdebug.stable._arrays import Array, check_axis, floating, in_own_format, library


def kahan_sum(x: Array, /, axis: int = -1) -> Array:
    """The sum along `axis`, which goes, with a second number that carries what the additions round away.

    The error is about eps · |result| + length · eps² · Σ|x|. Source: Kahan (1965), "Further remarks on reducing truncation errors"; what is
    lost is found exactly, the larger number first, so that a term may exceed the sum so far, and goes back into the sum at each step.
    """
    x = floating(x)
    check_axis(x, axis, "kahan_sum", may_be_empty=True)
    terms = library(x).moveaxis(x, axis, 0)
    with np.errstate(all="ignore"):
        total = carry = library(x).zeros_like(x.sum(axis=axis))
        for term in terms:
            total, lost = _two_sum(total, term)
            total, carry = _two_sum(total, carry + lost)
    return total


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as it is rounded, and what the rounding lost, exactly."""
    xp = library(a)
    total = a + b
    lost = xp.where(abs(a) >= abs(b), (a - total) + b, (b - total) + a)
    return total, xp.where(xp.isfinite(total), lost, 0.0)


def pairwise_sum(x: Array, /, axis: int = -1) -> Array:
    """The sum along `axis`, which goes, as a tree of pairs: the error is about log2(length) · eps · Σ|x|.

    Source: Higham (1993), "The accuracy of floating point summation".
    """
    x = floating(x)
    check_axis(x, axis, "pairwise_sum", may_be_empty=True)
    xp = library(x)
    terms = xp.moveaxis(x, axis, 0)
    if len(terms) == 0:
        return terms.sum(axis=0)
    with np.errstate(all="ignore"):
        while len(terms) > 1:
            half = len(terms) // 2
            terms = xp.concatenate([terms[:half] + terms[half : 2 * half], terms[2 * half :]])
    return terms[0]


@in_own_format
def variance(x: Array, /, axis: int = -1, correction: int = 0) -> Array:
    """Σ(x - mean)² / (length - correction) along `axis`, which goes: two passes, the second corrected by what the mean was off.

    ValueError where length - correction is not positive. The sum of x has to fit the format (16-bit formats are computed in float32).
    Source: Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance".
    """
    check_axis(x, axis, "variance")
    n = x.shape[axis]
    if n <= correction:
        raise ValueError(f"variance: {n} numbers with correction {correction} leave nothing to divide by")
    off = x - x.mean(axis=axis, keepdims=True)
    return ((off * off).sum(axis=axis) - off.sum(axis=axis) ** 2 / n) / (n - correction)


class Welford:
    """Mean and variance of numbers (or of arrays, element by element) that arrive one after the other, in one pass.

    Source: Welford (1962); `merge`: Chan, Golub and LeVeque (1983).
    """

    def __init__(self) -> None:
        self.count = 0
        self._shape: tuple[int, ...] = ()
        self.mean: Array = 0.0
        self._squares: Array = 0.0

    def update(self, value: Array) -> None:
        """Take one more number, or one more array of the same shape, into account."""
        value = floating(value)
        if self.count and tuple(value.shape) != self._shape:
            raise ValueError(f"Welford: this value's shape is {tuple(value.shape)}, that of the ones before {self._shape}")
        self._shape = tuple(value.shape)
        self.count += 1
        before = value - self.mean
        self.mean = self.mean + before / self.count
        self._squares = self._squares + before * (value - self.mean)

    def merge(self, other: Welford) -> None:
        """Take into account what another one has seen."""
        if not other.count:
            return
        if self.count and other._shape != self._shape:
            raise ValueError(f"Welford: the other's values have shape {other._shape}, these {self._shape}")
        self._shape = other._shape
        both = self.count + other.count
        apart = other.mean - self.mean
        self._squares = self._squares + other._squares + apart * apart * (self.count * other.count / both)
        self.mean = self.mean + apart * (other.count / both)
        self.count = both

    def variance(self, correction: int = 0) -> Array:
        """Of what was seen so far. ValueError where count - correction is not positive."""
        if self.count <= correction:
            raise ValueError(f"Welford: {self.count} values with correction {correction} leave nothing to divide by")
        return self._squares / (self.count - correction)
