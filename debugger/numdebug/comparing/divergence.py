"""The first operation at which two sides part although what went into it agrees; proved by putting the other side's result in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from numdebug.arithmetic import Arithmetic
from numdebug.comparing.align import Alignment
from numdebug.comparing.envelope import Measured
from numdebug.comparing.sides import Side
from numdebug.graph import STRUCTURAL
from numdebug.recording import Op, Value
from numdebug.run import CannotAsk

MOVES = STRUCTURAL - {"cast"}
NEAR = 3
"""Operations behind a missing, extra or replaced one at which both sides may have come together again."""
_LAYOUT = frozenset({"memory_format", "layout", "device", "pin_memory", "non_blocking", "implicit", "size", "shape", "stride", "step"})
"""Arguments that say where numbers lie, not what they are."""


@dataclass(frozen=True)
class Parting:
    """`kind`: data, argument, dtype, missing (an operation of a only), extra (of b only), replaced, or result (the same operation)."""

    kind: str
    a: Op | None
    b: Op | None
    value: str = ""  # the data, by name
    argument: str = ""
    was: Any = None
    now: Any = None
    before: float = 0.0  # the largest ratio among its operands
    after: Measured | None = None  # its result, a against b
    proof: str = ""
    tried: bool = False  # another side's result was put in
    cured: bool = False

    @property
    def op(self) -> Op:
        """The operation that is named."""
        found = self.a if self.kind == "missing" else self.b or self.a
        assert found is not None
        return found


def part(alignment: Alignment, a: Value, b: Value, measured: Any) -> Parting | None:
    """Where the sides part on the way to outputs `a` and `b`, which differ. `measured(value of a, array)` compares."""
    ours, _ = alignment.region(alignment.a, a, alignment.agreed_a)
    theirs, their_data = alignment.region(alignment.b, b, alignment.partner)
    if not ours and not theirs:
        return None
    first_a, first_b = _frontier(alignment.a, ours), _frontier(alignment.b, theirs)
    pairs = [(x, y) for x, y in alignment.ops if x in ours and y in theirs]
    found = _named(alignment, first_a, first_b, ours, theirs, pairs, their_data)
    if found is None:
        return None
    return _proved(alignment, found, pairs, a, b, measured)


def _frontier(side: Side, region: list[Op]) -> list[Op]:
    """Operations of the region none of whose operands is computed inside of it."""
    made = {v.id for op in region for v in op.outputs}
    return [op for op in region if not any(v.id in made and v not in op.outputs for v in op.operands)]


def _named(
    alignment: Alignment, first_a: list[Op], first_b: list[Op], ours: list[Op], theirs: list[Op], pairs: list[tuple[Op, Op]],
    their_data: list[Value],
) -> Parting | None:  # fmt: skip
    twin_of_b = {y.index: x for x, y in pairs}
    twin_of_a = {x.index: y for x, y in pairs}
    stray = {v.id for v in their_data}
    for op in first_b:  # data that differs, where the operation is the same
        one = twin_of_b.get(op.index)
        odd = next((n for n, v in enumerate(op.operands) if v.id in stray), None)
        if one is not None and odd is not None and odd < len(one.operands):
            same = _same(alignment, one, op)  # statistics that a layer in training mode brings up to date differ as well
            return same if same.kind == "argument" else _data(alignment, one, op, odd)
    for op in first_b:
        one = twin_of_b.get(op.index)
        if one is not None and one in first_a:
            return _same(alignment, one, op)
    alone_a = next((_telling(op, ours, twin_of_a) for op in first_a if op.index not in twin_of_a), None)
    alone_b = next((_telling(op, theirs, twin_of_b) for op in first_b if op.index not in twin_of_b), None)
    if alone_a is not None and alone_b is not None:
        return Parting("replaced", alone_a, alone_b)
    if alone_a is not None:
        return Parting("missing", alone_a, first_b[0] if first_b else None)
    if alone_b is not None:
        kind = "dtype" if alone_b.name == "cast" and _narrows(alone_b) else "extra"
        return Parting(kind, first_a[0] if first_a else None, alone_b, was=alone_b.operands[0].dtype, now=alone_b.outputs[0].dtype)
    if first_a and first_b:
        return Parting("replaced", first_a[0], first_b[0])
    return None


def _telling(op: Op, region: list[Op], twins: dict[int, Op]) -> Op:
    """Where numbers are moved before they are computed with on the same line, the operation that computes."""
    current = op
    while current.name in MOVES | {"empty"}:
        made = {v.id for v in current.outputs}
        user = next((o for o in region if o is not current and any(v.id in made for v in o.operands)), None)
        if user is None or user.index in twins or (_place(user) != _place(op) and current.name != "empty"):
            break
        current = user
    return op if current.name in STRUCTURAL | {"empty"} else current


def _narrows(op: Op) -> bool:
    return bool(op.operands and op.outputs) and op.operands[0].dtype != op.outputs[0].dtype


def _data(alignment: Alignment, one: Op, two: Op, number: int) -> Parting:
    a, b = one.operands[number], two.operands[number]
    name = b.name or a.name or ""
    if a.dtype != b.dtype:
        return Parting("dtype", one, two, name, was=a.dtype, now=b.dtype)
    x, y = alignment.a.array(a), alignment.b.array(b)
    off = None
    if x is not None and y is not None and x.shape == y.shape and x.size:
        with np.errstate(all="ignore"):
            off = float(np.max(np.abs(x.astype(np.float64) - y.astype(np.float64))))
    return Parting("data", one, two, name, now=off, was=b.role)


def _shuffled(alignment: Alignment, one: Op, two: Op) -> bool:
    """Each operand agrees with one of the other side's, but not with the one in its place."""
    if len(one.operands) != len(two.operands) or len(one.operands) < 2:
        return False
    theirs = [alignment.partner.get(v.id) for v in two.operands]
    return all(t is not None for t in theirs) and any(not alignment.agree(x, y) for x, y in zip(one.operands, two.operands, strict=True))


def _same(alignment: Alignment, one: Op, two: Op) -> Parting:
    """The same operation on operands that agree."""
    for name in sorted(({*one.scalars} & {*two.scalars}) - _LAYOUT):
        was, now = one.scalars.get(name), two.scalars.get(name)
        if was != now and isinstance(was, (bool, int, float, str, list, type(None))):
            return Parting("argument", one, two, argument=name, was=was, now=now)
    if _shuffled(alignment, one, two):
        return Parting("argument", one, two, argument="the order of operands", was="as written", now="another one")
    if one.outputs and two.outputs and one.outputs[0].dtype != two.outputs[0].dtype:
        return Parting("dtype", one, two, was=one.outputs[0].dtype, now=two.outputs[0].dtype)
    return Parting("result", one, two)


def _proved(alignment: Alignment, found: Parting, pairs: list[tuple[Op, Op]], a: Value, b: Value, measured: Any) -> Parting:
    """b once more, with the results that a has right after the place where they part: at that line, wherever it ran."""
    if alignment.b.rows is not None or alignment.a.rows is not None or alignment.b.run is None:
        return found
    start = found.b.index if found.b is not None else 0
    ours = found.a.index if found.a is not None else 0
    after = [(x, y) for x, y in pairs if y.index >= start and x.index >= ours and _alike(x, y)]
    direct = bool(after) and found.b is after[0][1]
    for at in after[: 1 if direct else NEAR]:
        if at[1].outputs[0].id == b.id:
            return found  # the last operation: nothing is left to compute
        patches = {}
        for one, two in pairs:
            if two.name == at[1].name and _place(two) == _place(at[1]) and _alike(one, two):
                held = alignment.a.array(one.outputs[0])
                if held is not None:
                    patches[two.outputs[0].id] = held
        try:
            again = alignment.b.run.recompute([b], Arithmetic(), patches)
        except CannotAsk:
            return found
        if b.id not in again or b.id in patches:
            return found
        now = measured(a, again[b.id])
        times = f" ({len(patches)} times)" if len(patches) > 1 else ""
        how = f"with the result of {at[1].name}{times} taken from the other side"
        if now.within:
            much = f"to {now.ratio:.2g} of what rounding explains" if now.differing else "bit for bit"
            return replace(found, tried=True, cured=True, proof=f"{how}, the outputs agree {much}")
        if direct:
            proof = f"{how}, the outputs still differ ({now.ratio:.3g} times what rounding explains): another place differs too"
            return replace(found, tried=True, proof=proof)
    return found


def _alike(one: Op, two: Op) -> bool:
    if not one.outputs or not two.outputs:
        return False
    return one.outputs[0].shape == two.outputs[0].shape and one.outputs[0].dtype == two.outputs[0].dtype


def _place(op: Op) -> object:
    return op.site.place if op.site is not None else op.index
