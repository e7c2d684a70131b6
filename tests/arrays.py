"""A small graph of operations that NumPy can compute again, made by hand, for tests of ArrayRun."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numdebug.observe.arrays.arrayrun import ArrayRun
from numdebug.observe.arrays.graph import Graph, Node, Weight
from numdebug.recording import Op, Recording, Sink, Site, Value


class Written:
    """A program written one operation at a time: each is computed at once, and recorded as an observer would."""

    def __init__(self) -> None:
        self.graph = Graph(Recording(framework="jax"), [], {})
        self.line = 0

    def data(self, numbers: Any, dtype: str = "float32", role: Any = "input", name: str | None = None) -> Value:
        return self._value(np.asarray(numbers).astype(dtype), None, role=role, name=name)

    def op(
        self, name: str, how: Callable[..., Any], *operands: Value, dtype: str | None = None, phase: Any = "forward", step: int = 0,
        given: bool = False, forward: int | None = None, **scalars: Any,
    ) -> Value:  # fmt: skip
        """One result of one operation. `how` gets the operands' arrays; `dtype` is the format that the result is rounded to."""
        self.line += 1
        index = len(self.graph.nodes)

        def compute(arrays: Any, wide: bool) -> Any:
            result = np.asarray(how(*arrays))
            return [result if wide or dtype is None else result.astype(dtype)]

        with np.errstate(all="ignore"):
            (result,) = compute([self.graph.arrays[v.id] for v in operands], False)
        value = self._value(result, index)
        site = Site("model.py", self.line, 1, self.line, 9)
        op = Op(index, name, f"lax.{name}", phase, step, operands, (value,), scalars, site, forward=forward)
        self.graph.recording.ops.append(op)
        self.graph.nodes.append(Node(op, compute, given))
        return value

    def shows(self, value: Value, name: str = "printed") -> Value:
        self.graph.consumed.append(Sink("output", value, name))
        return value

    def trains(self, name: str, before: Value, gradient: Value | None, after: Value | None, step: int = 0) -> None:
        self.graph.weights.append(Weight(step, name, before, after, gradient))

    def run(self, **options: Any) -> ArrayRun:
        return ArrayRun(self.graph, options)

    def _value(self, array: np.ndarray, producer: int | None, **known: Any) -> Value:
        value = Value(len(self.graph.arrays), array.dtype.name, array.shape, producer, **known)
        self.graph.arrays[value.id] = array
        return value
