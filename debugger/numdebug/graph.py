"""Reading a recorded graph the way a numerical analyst reads a formula: past the reshapes, to what computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from numdebug.recording import Op, Recording, Value

# Operations that move or select elements and leave their values alone.
STRUCTURAL = frozenset({
    "view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "expand", "permute", "transpose", "t", "slice",
    "select", "alias", "detach", "unbind", "split", "split_with_sizes", "chunk", "narrow", "as_strided", "diagonal", "unfold",
    "gather", "index", "index_select", "masked_select", "take", "embedding", "copy", "cast", "contiguous", "flip", "roll", "repeat",
    "view_as_real", "view_as_complex", "constant", "cat", "stack", "index_put", "scatter", "select_scatter", "slice_scatter",
    "constant_pad_nd", "sort", "topk", "diag_embed", "tril", "triu", "max", "min", "amax", "amin", "squeeze_copy", "unsafe_split",
    "lift", "triu_indices", "resize", "view_copy", "median", "kthvalue",
})  # fmt: skip
# Operations by which people guard an argument; they do not change what the formula means.
GUARDS = frozenset({"clamp", "relu", "maximum", "minimum", "add", "sub", "where", "masked_fill", "hardtanh", "nan_to_num", "dropout"})
_FIRST = frozenset({
    "gather", "index", "index_select", "masked_select", "take", "embedding", "select", "slice", "expand", "view", "as_strided",
})  # fmt: skip


def carriers(op: Op) -> list[Value]:
    """The operands whose elements an operation hands on; the others are indices, masks and conditions."""
    floats = [v for v in op.operands if v.dtype.startswith(("float", "bfloat", "complex"))]
    if op.name in _FIRST:
        return list(op.operands[:1])
    if op.name == "where":
        return list(op.operands[1:])
    if op.name == "copy" and len(op.operands) == 2:  # a write of the second into the first
        return [op.operands[1]]
    return floats or list(op.operands[:1])


def is_guard(op: Op) -> bool:
    """A clamp, a ReLU, or the addition of a constant no larger than 0.1: small against a probability's range [0, 1]."""
    if op.name in ("add", "sub"):
        other = op.scalars.get("other")
        return len(op.operands) == 1 and isinstance(other, (int, float)) and abs(other) <= 0.1
    return op.name in GUARDS


@dataclass(frozen=True)
class Path:
    """From a value up to the operation that computed it, past `chain` (nearest the value first)."""

    op: Op
    chain: tuple[Op, ...] = ()


def climb(recording: Recording, value: Value, extra: frozenset[str] = frozenset(), guards: bool = False, limit: int = 40) -> Iterator[Path]:
    """Operations that computed `value`, past structural ones, past those named in `extra`, and past guards if asked."""
    todo: list[tuple[Value, tuple[Op, ...]]] = [(value, ())]
    seen: set[int] = set()
    while todo:
        current, chain = todo.pop(0)
        op = recording.producer(current)
        if op is None or op.index in seen or len(chain) > limit:
            continue
        seen.add(op.index)
        if op.name in STRUCTURAL or op.name in extra or (guards and is_guard(op)) or is_identity(op):
            todo.extend((v, (*chain, op)) for v in carriers(op))
        else:
            yield Path(op, chain)


def first(recording: Recording, value: Value, extra: frozenset[str] = frozenset(), guards: bool = False) -> Op | None:
    """The nearest operation that computed `value`, or None."""
    return next((p.op for p in climb(recording, value, extra, guards)), None)


def is_identity(op: Op) -> bool:
    """x*1, x/1, x+0, x-0 with a plain number: what 1 / x leaves behind."""
    other = op.scalars.get("other")
    return len(op.operands) == 1 and ((op.name in ("mul", "div") and other == 1) or (op.name in ("add", "sub") and other == 0))


def leaf(recording: Recording, value: Value) -> Value:
    """The value behind structural operations that no recorded operation computed, or the computed one itself."""
    while True:
        op = recording.producer(value)
        if op is None or op.name not in STRUCTURAL or not op.operands:
            return value
        value = carriers(op)[0]


def same_source(recording: Recording, a: Value, b: Value) -> bool:
    """Whether two values are the same numbers, past reshapes and copies."""
    x, y = leaf(recording, a), leaf(recording, b)
    return x is y or x.id == y.id


def downstream(recording: Recording, op: Op, phase: str = "forward") -> Iterator[Op]:
    """Operations that use the results of `op`, nearest first."""
    todo = [op]
    seen = {op.index}
    while todo:
        current = todo.pop(0)
        for value in current.outputs:
            for user in recording.consumers(value):
                if user.index not in seen and user.phase == phase:
                    seen.add(user.index)
                    todo.append(user)
                    yield user
