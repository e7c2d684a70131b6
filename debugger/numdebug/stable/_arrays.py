"""NumPy arrays and PyTorch tensors under one set of names. PyTorch is never imported here: a tensor brings it along."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = Any  # a NumPy array or a PyTorch tensor


def library(x: Array) -> Any:
    """The module that computes with `x`: torch for a tensor, else numpy."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else np


def floating(x: Array) -> Array:
    """`x` itself if it is floating point, whole numbers as the library's default format; lists become NumPy arrays."""
    xp = library(x)
    if xp is np:
        array = np.asarray(x)
        return array if array.dtype.kind == "f" else array.astype(np.float64)
    return x if x.is_floating_point() else x.to(xp.get_default_dtype())


def eps(x: Array) -> float:
    """The gap above 1 in the format of `x`."""
    return float(library(x).finfo(x.dtype).eps)


def tiny(x: Array) -> float:
    """The smallest normal number in the format of `x`."""
    return float(library(x).finfo(x.dtype).tiny)


def largest(x: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """The maximum along an axis, or of everything."""
    if library(x) is np:
        return np.max(x, axis=axis, keepdims=keepdims)
    if axis is None:
        return x.amax()
    return x.amax(dim=axis, keepdim=keepdims)


def total(x: Array, axis: int | None = None, keepdims: bool = False) -> Array:
    """The sum along an axis, or of everything."""
    if library(x) is np:
        return np.sum(x, axis=axis, keepdims=keepdims)
    if axis is None:
        return x.sum()
    return x.sum(dim=axis, keepdim=keepdims)


def where(condition: Array, x: Array, y: Any) -> Array:
    """Elements of `x` where the condition holds, else `y` (a number or an array)."""
    xp = library(x)
    if xp is np:
        return np.where(condition, x, np.asarray(y, dtype=x.dtype))
    return xp.where(condition, x, xp.as_tensor(y, dtype=x.dtype, device=x.device))


def take(x: Array, index: Array, axis: int) -> Array:
    """One element of `x` for each index along `axis`; that axis goes."""
    if library(x) is np:
        return np.take_along_axis(x, np.expand_dims(np.asarray(index), axis), axis=axis).squeeze(axis)
    return x.gather(axis, index.unsqueeze(axis)).squeeze(axis)


def squeeze(x: Array, axis: int) -> Array:
    """Without an axis of length 1."""
    return np.squeeze(x, axis=axis) if library(x) is np else x.squeeze(axis)


def logaddexp(x: Array, y: Array) -> Array:
    """log(exp x + exp y), exact in the extremes: inf with inf is inf, -inf with -inf is -inf."""
    return library(x).logaddexp(x, y)
