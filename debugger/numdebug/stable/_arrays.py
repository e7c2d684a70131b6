"""NumPy arrays and PyTorch tensors under one set of names. PyTorch is never imported here: a tensor brings it along."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

Array = Any  # a NumPy array, a number or list that becomes one, or a PyTorch tensor
F = TypeVar("F", bound=Callable[..., Any])


def library(x: Array) -> Any:
    """The module that computes with `x`: torch for a tensor, else numpy."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else np


def floating(x: Array) -> Array:
    """`x` if it is floating point; whole numbers and truth values in the library's default format; numbers and lists as NumPy arrays."""
    xp = library(x)
    if xp is not np:
        if x.is_complex():
            raise ValueError(f"expected real numbers, not {x.dtype}")
        return x if x.is_floating_point() else x.to(xp.get_default_dtype())
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"expected real numbers, not {array.dtype}")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def beside(x: Array, y: Array) -> Array:
    """`y` as an array of the library that computes with `x`, in its own format."""
    return np.asarray(y) if library(x) is np else library(x).as_tensor(y, device=x.device)


def cast_to(x: Array, kind: Any) -> Array:
    """`x` in another format, given as the library's own dtype."""
    return x.to(kind) if hasattr(x, "to") else np.asarray(x).astype(kind)[()]


def widened(x: Array) -> Array:
    """`x` in at least float32: 16-bit formats have too few digits to compute in."""
    return x if library(x).finfo(x.dtype).bits >= 32 else cast_to(x, library(x).float32)


def in_own_format(function: F) -> F:
    """Computes at least in float32 and gives the result in the format of the first argument, without NumPy's warnings."""

    @functools.wraps(function)
    def wrapped(x: Array, *others: Any, **named: Any) -> Array:
        x = floating(x)
        with np.errstate(all="ignore"):
            return cast_to(function(widened(x), *others, **named), x.dtype)

    return cast(F, wrapped)


def check_axis(x: Array, axis: int, what: str, may_be_empty: bool = False) -> None:
    """Raises ValueError where there is no such axis, or nothing along it."""
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{what}: an array of shape {tuple(x.shape)} has no axis {axis}")
    if x.shape[axis] == 0 and not may_be_empty:
        raise ValueError(f"{what} of nothing: axis {axis} of an array of shape {tuple(x.shape)} is empty")


def constant(x: Array) -> Array:
    """`x`, with no gradient flowing through it."""
    return x.detach() if hasattr(x, "detach") else x
