"""A recorded NumPy call, made again: on other numbers, and in a wider format than the program's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from numdebug.observe.numpy import solvers

_RANGES = frozenset({"arange", "linspace", "logspace", "geomspace", "full"})
_FROM_WHOLE = frozenset({"truediv", "mul", "add", "sub", "pow", "mean", "std", "var", "average"})
Noise = np.random.Generator | None


@dataclass(frozen=True)
class Slot:
    """The place of an operand among the arguments."""

    number: int


@dataclass(eq=False)
class Again:
    """`function(*args, **kwargs)` with operands in their slots. Without slots the operands come first, one after another."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, arrays: Sequence[np.ndarray], wide: np.dtype | None, noise: Noise = None) -> list[np.ndarray]:
        """The results; with `wide`, formats that the call asks for are this one. `noise` moves constants by half an ulp of their format."""
        slots = any(isinstance(a, Slot) for a in _leaves((self.args, self.kwargs)))
        args = self.args if slots else (*(Slot(n) for n in range(len(arrays))), *self.args)
        filled = tuple(_filled(a, arrays, wide, noise) for a in args)
        named = {key: _filled(a, arrays, wide, noise) for key, a in self.kwargs.items()}
        function = _wide_type(self.function, wide) if isinstance(self.function, type) else self.function
        try:
            found = results(function(*filled, **named))
        except TypeError:
            if wide is None or wide == np.float64:
                raise
            return self._in_float64(function, filled, named, wide)
        if wide is not None and any(r.dtype.kind == "f" and r.dtype != wide for r in found):
            return self._of_whole_numbers(arrays, wide, noise) or found
        return found

    def _of_whole_numbers(self, arrays: Sequence[np.ndarray], wide: np.dtype, noise: Noise) -> list[np.ndarray] | None:
        """Quotients, averages and ranges of whole numbers are float64 unless the wider format is asked for."""
        name = getattr(self.function, "__name__", "")
        if name in _RANGES and not arrays:
            return results(self.function(*self.args, **{**self.kwargs, "dtype": wide}))
        if (name in _FROM_WHOLE or isinstance(self.function, np.ufunc)) and not any(a.dtype.kind in "fc" for a in arrays):
            return self([a.astype(wide) for a in arrays], wide, noise)
        return None

    def _in_float64(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], wide: np.dtype) -> list[np.ndarray]:
        """LAPACK and the like know float64 at most; the solvers that matter are here in any format."""
        own = solvers.OWN.get(getattr(function, "__name__", ""))
        if own is not None and not kwargs:
            return results(own(*args))
        low = results(function(*_narrowed(args), **_narrowed(kwargs)))
        return [r.astype(wide) if r.dtype == np.float64 else r for r in low]


@dataclass(eq=False)
class Written:
    """Writes into (a copy of) an array, in order: (to the owner itself?, places in it, key, number of the operand, or plain value)."""

    onto: bool  # the first operand is the array before
    shape: tuple[int, ...]
    dtype: np.dtype
    writes: list[tuple[bool, np.ndarray | None, Any, int | None, Any]]

    def __call__(self, arrays: Sequence[np.ndarray], wide: np.dtype | None, noise: Noise = None) -> list[np.ndarray]:
        """The array afterwards."""
        target = widest(self.dtype, wide)
        held = np.array(arrays[0], dtype=target) if self.onto else np.zeros(self.shape, target)
        flat = held.reshape(-1)
        for itself, index, key, slot, plain in self.writes:
            value = plain if slot is None else arrays[slot]
            if itself:
                held[key] = value
            elif index is not None:
                flat[index[key]] = value
            else:
                raise TypeError("written through a view of another format")
        return [held]


def results(result: Any) -> list[np.ndarray]:
    """What a call returned, as arrays."""
    return [np.asarray(r) for r in result] if isinstance(result, (tuple, list)) else [np.asarray(result)]


def widest(dtype: np.dtype, wide: np.dtype | None) -> np.dtype:
    """`wide` in place of a floating-point format, its complex counterpart in place of a complex one."""
    if wide is None or dtype.kind not in "fc":
        return dtype
    return wide if dtype.kind == "f" else np.result_type(wide, np.complex64)


def _wide_type(kind: Any, wide: np.dtype | None) -> Any:
    if wide is None or kind is float or kind is complex:
        return kind if wide is None else widest(np.dtype(kind), wide).type
    return widest(np.dtype(kind), wide).type if isinstance(kind, type) and issubclass(kind, np.inexact) else kind


def _filled(tree: Any, arrays: Sequence[np.ndarray], wide: np.dtype | None, noise: Noise) -> Any:
    if isinstance(tree, Slot):
        return arrays[tree.number]
    if type(tree) in (tuple, list):
        return type(tree)(_filled(item, arrays, wide, noise) for item in tree)
    if wide is None:
        return tree
    if noise is not None and (type(tree) is float or isinstance(tree, np.floating)) and math.isfinite(tree) and tree != round(tree):
        own = np.finfo(np.asarray(tree).dtype).eps
        return tree if own <= np.finfo(wide).eps else wide.type(tree) * (1 + wide.type(own) * (noise.random() - 0.5))
    if isinstance(tree, np.dtype):
        return widest(tree, wide)
    if isinstance(tree, type):
        return _wide_type(tree, wide) if tree in (float, complex) or issubclass(tree, np.inexact) else tree
    if isinstance(tree, np.inexact):
        return widest(tree.dtype, wide).type(tree)
    if isinstance(tree, str) and tree in ("float16", "float32", "float64", "f2", "f4", "f8", "d", "f", "single", "double"):
        return wide
    return tree


def _narrowed(tree: Any) -> Any:
    if type(tree) in (tuple, list):
        return type(tree)(_narrowed(item) for item in tree)
    if type(tree) is dict:
        return {key: _narrowed(item) for key, item in tree.items()}
    if isinstance(tree, (np.ndarray, np.generic)) and tree.dtype.kind in "fc":
        return tree.astype(np.float64 if tree.dtype.kind == "f" else np.complex128)
    if isinstance(tree, np.dtype) and tree == np.longdouble:
        return np.dtype(np.float64)
    return np.float64 if tree is np.longdouble else tree


def _leaves(tree: Any) -> Any:
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _leaves(item)
    else:
        yield tree


def view_index(view: np.ndarray, owner: np.ndarray) -> np.ndarray | None:
    """For each element of a view, its place in the owner's elements (counted row by row); None where it reads them in another format."""
    if view.dtype != owner.dtype or not owner.size or not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        return None
    memory = np.arange(owner.size)
    if not owner.flags.c_contiguous:
        memory = memory.reshape(owner.shape).ravel(order="F")
    offset = (view.__array_interface__["data"][0] - owner.__array_interface__["data"][0]) // owner.itemsize
    strides = tuple(s // owner.itemsize * memory.itemsize for s in view.strides)
    return np.lib.stride_tricks.as_strided(memory[offset:], view.shape, strides).copy() if view.size else np.zeros(view.shape, int)
