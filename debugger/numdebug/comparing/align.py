"""Which value of one side answers which of the other: by the order of operations where they are the same, else by their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

import numpy as np

from numdebug.comparing.sides import FLOATS, Side, identical
from numdebug.recording import Op, Value

LONGEST = 5000
"""Operations up to which two different sequences are aligned: the effort grows with their product."""

Agree = Callable[[Value, Value], bool]


class Alignment:
    """`partner`: by id of a value of `b`, the value of `a` that agrees with it. `ops`: pairs of operations that answer each other."""

    def __init__(self, a: Side, b: Side, agree: Agree) -> None:
        self.a = a
        self.b = b
        self.agree = agree
        self.ops = same_order(a, b)
        self.partner: dict[int, Value] = {}
        self._by_shape: dict[tuple[int, ...], list[Value]] = {}
        for op in a.ops:
            for value in op.outputs:
                self._by_shape.setdefault(_squeezed(a, value), []).append(value)
        self._leaves()
        self._values()
        self.agreed_a = {v.id for v in self.partner.values()}

    def _leaves(self) -> None:
        """Data and parameters: by name, else by their numbers."""
        ours = {v.id: v for op in self.a.ops for v in op.operands if _outside(self.a, v)}
        named = {v.name: v for v in ours.values() if v.name}
        for value in {v.id: v for op in self.b.ops for v in op.operands if _outside(self.b, v)}.values():
            candidates = [named[value.name]] if value.name in named else []
            candidates += [v for v in ours.values() if v not in candidates]
            found = next((v for v in candidates if self._same_data(v, value)), None)
            if found is not None:
                self.partner[value.id] = found

    def _same_data(self, a: Value, b: Value) -> bool:
        x, y = self.a.array(a), self.b.array(b)
        if x is None or y is None:
            return a.name is not None and a.name == b.name and a.shape == b.shape
        return identical(x, y)

    def _values(self) -> None:
        answer = {two.index: one for one, two in self.ops}
        same = len(self.ops) == len(self.a.ops) == len(self.b.ops)
        for op in self.b.ops:
            for number, value in enumerate(op.outputs):
                twin = answer.get(op.index)
                if twin is not None and number < len(twin.outputs) and self.agree(twin.outputs[number], value):
                    self.partner[value.id] = twin.outputs[number]
                    continue
                if same and twin is not None:
                    continue
                found = next((v for v in self._by_shape.get(_squeezed(self.b, value), ()) if self._near(v, value)), None)
                if found is not None:
                    self.partner[value.id] = found

    def _near(self, a: Value, b: Value) -> bool:
        """A quick look before the exact one."""
        if a.dtype.startswith(FLOATS) != b.dtype.startswith(FLOATS):
            return False
        x, y = self.a.array(a), self.b.array(b)
        if x is None or y is None or x.size != y.size or not x.size:
            return False
        some = slice(None, None, max(1, x.size // 64))
        with np.errstate(all="ignore"):
            p, q = x.ravel()[some].astype(np.float64), y.ravel()[some].astype(np.float64)
            scale = max(float(np.nanmax(np.abs(p), initial=0.0)), float(np.nanmax(np.abs(q), initial=0.0)))
            if scale and not np.allclose(p, q, rtol=0.05, atol=0.01 * scale, equal_nan=True):
                return False
        return self.agree(a, b)

    def region(self, side: Side, value: Value, agreed: Iterable[int]) -> tuple[list[Op], list[Value]]:
        """What lies between the values that agree and `value`: operations in order, and data that does not agree."""
        assert side.run is not None
        known = set(agreed)
        ops: dict[int, Op] = {}
        data: dict[int, Value] = {}
        todo = [value]
        while todo:
            one = todo.pop()
            if one.id in known or one.id in data:
                continue
            op = side.run.recording.producer(one)
            if op is None:
                data[one.id] = one
            elif op.index not in ops:
                ops[op.index] = op
                todo.extend(op.operands)
        return [ops[i] for i in sorted(ops)], list(data.values())


def _outside(side: Side, value: Value) -> bool:
    return side.run is not None and side.run.recording.producer(value) is None


def _squeezed(side: Side, value: Value) -> tuple[int, ...]:
    shape = side.array(value).shape if side.rows is not None and side.array(value) is not None else value.shape  # type: ignore[union-attr]
    return tuple(n for n in shape if n != 1)


def same_order(a_side: Side, b_side: Side) -> list[tuple[Op, Op]]:
    """Operations of both sides that answer each other by name, shape and order."""
    a, b = a_side.ops, b_side.ops
    shapes = b_side.rows is None and a_side.rows is None

    def tokens(ops: list[Op]) -> list[object]:
        return [(op.name, *((tuple(op.outputs[0].shape),) if shapes and op.outputs else (len(op.outputs),))) for op in ops]

    x, y = tokens(a), tokens(b)
    if x == y:
        return list(zip(a, b, strict=True))
    if len(x) > LONGEST or len(y) > LONGEST:
        return []
    blocks = SequenceMatcher(None, x, y, autojunk=False).get_matching_blocks()
    return [(a[m.a + i], b[m.b + i]) for m in blocks for i in range(m.size)]
