"""Recordings and evidence written by hand, for tests of what reads them."""

from __future__ import annotations

from typing import Any

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.recording import Op, Recording, Sink, Site, Stats, Value

COMPUTE = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "neg": np.negative, "square": np.square, "abs": np.abs,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sum": np.sum, "prod": np.prod,
    "view": np.ravel, "relu": lambda x: np.maximum(x, 0), "where": np.where,
}  # fmt: skip


def site(line: int, function: str = "loss") -> Site:
    return Site("model.py", line, 1, line, 9, function)


class Graph:
    """A recording that grows by one operation a call; it is its own Run as far as numbers go."""

    def __init__(self) -> None:
        self.recording = Recording(framework="torch")
        self.arrays: dict[int, np.ndarray] = {}

    def input(self, numbers: Any, dtype: str = "float32", **known: Any) -> Value:
        """A value from outside the window."""
        return self._value(np.asarray(numbers, dtype), None, role="input", **known)

    def op(
        self,
        name: str,
        *operands: Value,
        result: Any = None,
        line: int = 1,
        phase: Any = "forward",
        forward: Op | None = None,
        **scalars: Any,
    ) -> Value:
        """The result of an operation, computed with NumPy where it is not given."""
        index = len(self.recording.ops)
        if result is None:
            with np.errstate(all="ignore"):
                result = COMPUTE[name](*(self.arrays[v.id] for v in operands), *scalars.values())
        value = self._value(np.asarray(result, self.arrays[operands[0].id].dtype if operands else "float32"), index)
        behind = None if forward is None else forward.index
        self.recording.ops.append(Op(index, name, f"aten.{name}", phase, 0, operands, (value,), scalars, site(line), forward=behind))
        return value

    def maker(self, value: Value) -> Op:
        """The operation that made a value."""
        return self.recording.ops[value.producer]

    def stats(self, value: Value) -> Stats:
        a = self.arrays[value.id]
        return Stats(a.size, int(np.isnan(a).sum()), int(np.isposinf(a).sum()), int(np.isneginf(a).sum()), int((a == 0).sum()))

    def array(self, value: Value) -> np.ndarray:
        return self.arrays[value.id]

    def sink(self, value: Value, what: Any = "loss") -> Sink:
        self.recording.sinks.append(Sink(what, value))
        return self.recording.sinks[-1]

    def _value(self, array: np.ndarray, producer: int | None, **known: Any) -> Value:
        value = Value(len(self.arrays), str(array.dtype), array.shape, producer, **known)
        self.arrays[value.id] = array
        return value


def fact(
    kind: str,
    op: int | None = None,
    line: int | None = None,
    members: set[int] | None = None,
    numbers: dict[str, Any] | None = None,
    **facts: Any,
) -> Evidence:
    """Evidence with an id of its own."""
    fact.count = getattr(fact, "count", 0) + 1
    if members is not None:
        facts["members"] = sorted(members)
    counted = {name: Number(value) for name, value in (numbers or {}).items()}
    return Evidence(kind, "test", f"E{fact.count}", None if line is None else site(line), op, counted, facts)
