"""One side of a comparison: a recorded run (or arrays alone), and what of it is compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from numdebug.recording import Op, Value
from numdebug.run import Run

FLOATS = ("float", "bfloat")


@dataclass(frozen=True)
class Output:
    """One array that a side gives. `value`: where the recording has it."""

    name: str
    array: np.ndarray
    dtype: str
    value: Value | None = None
    named: bool = True  # False: read or printed without one


@dataclass(eq=False)
class Side:
    """`label` in words: "a.py", "1 thread"."""

    label: str
    outputs: list[Output] = field(default_factory=list)
    run: Run | None = None
    rows: Rows | None = None  # how its arrays are brought to the other side's rows

    @cached_property
    def ops(self) -> list[Op]:
        """The operations that the outputs depend on, in order."""
        if self.run is None:
            return []
        recording = self.run.recording
        seen: set[int] = set()
        todo = [o.value for o in self.outputs if o.value is not None]
        while todo:
            place = todo.pop().producer
            if place is not None and place not in seen:
                seen.add(place)
                todo.extend(recording.ops[place].operands)
        return [recording.ops[i] for i in sorted(seen)]

    @cached_property
    def values(self) -> list[Value]:
        """What these operations compute, floating point."""
        return [v for op in self.ops for v in op.outputs if v.dtype.startswith(FLOATS)]

    @cached_property
    def formats(self) -> frozenset[str]:
        """Number formats of results."""
        return frozenset(v.dtype for v in self.values) or frozenset(o.dtype for o in self.outputs)

    def array(self, value: Value) -> np.ndarray | None:
        """The recorded elements, in the rows of the other side."""
        held = self.run.array(value) if self.run is not None else None
        return held if held is None or self.rows is None else self.rows.of(held)


@dataclass(frozen=True)
class Rows:
    """Which rows of the leading axis of length `n` stand for those of the other side, also where it was merged with others."""

    n: int
    index: tuple[int, ...]

    def of(self, array: np.ndarray) -> np.ndarray:
        """The array with those rows; as it is where no axis is a multiple of `n` long."""
        for axis, length in enumerate(array.shape):
            if length and length % self.n == 0:
                split = array.reshape(*array.shape[:axis], self.n, length // self.n, *array.shape[axis + 1 :])
                taken = np.take(split, self.index, axis=axis)
                return taken.reshape(*array.shape[:axis], -1, *array.shape[axis + 1 :])
        return array


def located(run: Run | None, arrays: Iterable[tuple[str, np.ndarray, str]]) -> list[Output]:
    """Each array with the recorded value that holds the same numbers, the latest first."""
    known: dict[tuple[tuple[int, ...], str], list[Value]] = {}
    if run is not None:
        for op in run.recording.ops:
            if op.phase == "forward":
                for value in op.outputs:
                    known.setdefault((tuple(value.shape), value.dtype), []).append(value)
    found = []
    for name, array, dtype in arrays:
        same = (v for v in reversed(known.get((array.shape, dtype), [])) if run is not None and identical(run.array(v), array))
        found.append(Output(name, array, dtype, next(same, None)))
    return found


def identical(x: np.ndarray | None, y: np.ndarray | None) -> bool:
    """The same numbers, a NaN being the same as a NaN: by their bits where these are the same, which is one quick look."""
    if x is None or y is None or x.shape != y.shape:
        return False
    if x.dtype != y.dtype or x.dtype.kind != "f" or not x.ndim:
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == y.dtype.kind == "f"))
    if bool(np.array_equal(_bits(x[:1]), _bits(y[:1]))) and bool(np.array_equal(_bits(x), _bits(y))):
        return True
    few = slice(0, 1)  # most that differ do so at once
    return bool(np.array_equal(x[few], y[few], equal_nan=True)) and bool(np.array_equal(x, y, equal_nan=True))


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}") if array.dtype.itemsize <= 8 else array


def paired(a: Sequence[Output], b: Sequence[Output]) -> list[tuple[Output, Output]]:
    """Outputs that answer each other: by name, else in order."""
    named = {o.name: o for o in b}
    if len(named) == len(b) and any(o.name in named for o in a):
        return [(o, named[o.name]) for o in a if o.name in named]
    return list(zip(a, b, strict=False))
