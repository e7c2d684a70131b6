"""What a lossy operation computes: which of the known formulas it ends, and which operations belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from numdebug.graph import STRUCTURAL, first, same_source
from numdebug.recording import Op, Recording, Value

SOLVERS = frozenset({
    "solve", "inverse", "cholesky", "linalg_lu_factor_ex", "linalg_lu_solve", "linalg_lu", "linalg_lstsq", "lstsq", "triangular_solve",
    "linalg_solve_triangular", "cholesky_solve", "cholesky_inverse", "det", "slogdet", "linalg_ldl_solve", "linalg_pinv", "linalg_qr",
    "svd", "eigh",
})  # fmt: skip
_LOGS = frozenset({"log", "log2", "log10"})
REGIONS = 6  # regions tried around one lossy line: the formula it ends, and what leads to that
_AVERAGES = frozenset({"mean", "sum", "div", "mul", "cumsum", "add", "matmul", "sub", "lerp"})


@dataclass(frozen=True)
class Formula:
    """`name` is the word that rules test; `roles` the operations that a repair has to find, `ops` all of them."""

    name: str
    ops: tuple[Op, ...] = ()
    roles: dict[str, Op] = field(default_factory=dict)


def formula(recording: Recording, op: Op) -> Formula:
    """The formula that ends in `op`: variance, log1p, expm1, one-minus-cos, distances, solve, running-sum, or difference."""
    if op.name in SOLVERS:
        return Formula("solve", (op,))
    if op.name == "cdist":
        return Formula("distances", (op,))
    if op.name in _LOGS:
        inner = first(recording, op.operands[0])
        if inner is not None and inner.name in ("add", "sub", "rsub") and _is_one(inner):
            return Formula("log1p", (op, inner), {"inner": inner})
        return Formula("log", (op,))
    if op.name in ("sub", "rsub", "add"):
        return _difference(recording, op)
    return Formula(op.name, (op,))


def _difference(recording: Recording, op: Op) -> Formula:
    parts = [first(recording, v) for v in op.operands]
    if len(op.operands) == 1 and op.scalars.get("other") in (1, 1.0, -1, -1.0) or _is_one(op):
        inner = next((p for p in parts if p is not None), None)
        if inner is not None and inner.name == "exp":
            return Formula("expm1", (op, inner), {"inner": inner})
        if inner is not None and inner.name == "cos":
            return Formula("one-minus-cos", (op, inner), {"inner": inner})
    if op.name == "sub" and len(op.operands) == 2:
        square = parts[1]
        while square is not None and square.name in ("mul", "div") and squared(recording, square) is None:  # (sum x)² / n
            square = first(recording, square.operands[0])
        if square is not None and (root := squared(recording, square)) is not None and _averages_a_square(recording, op.operands[0], root):
            return Formula("variance", (op, square))
    if _running(recording, op):
        return Formula("running-sum", (op,))
    return Formula("difference", (op, *(p for p in parts if p is not None)))


def squared(recording: Recording, op: Op) -> Value | None:
    """What an operation squares: m * m, m ** 2, square(m)."""
    if op.name == "square" or (op.name == "pow" and op.scalars.get("exponent") in (2, 2.0)):
        return op.operands[0]
    if op.name == "mul" and len(op.operands) == 2 and same_source(recording, op.operands[0], op.operands[1]):
        return op.operands[0]
    return None


def _averages_a_square(recording: Recording, value: Value, mean: Value) -> bool:
    """Whether `value` averages squares of something of which `mean` is an average."""
    sources = {v.id for root in _squares(recording, value) for v in _behind(recording, root)}
    return any(v.id in sources for v in _behind(recording, mean))


def _squares(recording: Recording, value: Value) -> Iterator[Value]:
    """What is squared above `value`, past averages (at least one: a² - b² is no variance) and reshapes."""
    todo, seen = [(value, False)], {value.id}
    while todo:
        current, averaged = todo.pop()
        op = recording.producer(current)
        if op is None:
            continue
        root = squared(recording, op)
        if root is not None and averaged:
            yield root
        elif root is None and (op.name in _AVERAGES or op.name in STRUCTURAL):
            todo.extend((v, averaged or op.name in _AVERAGES) for v in op.operands if v.id not in seen)
            seen.update(v.id for v in op.operands)


def _behind(recording: Recording, value: Value) -> Iterator[Value]:
    """The values that an average is taken of, and those above them."""
    yield value
    for op in recording.upstream(value):
        yield from op.operands


def _is_one(op: Op) -> bool:
    """One operand is the number 1."""
    return op.scalars.get("other") in (1, 1.0) or op.scalars.get("self") in (1, 1.0)


def _running(recording: Recording, op: Op) -> bool:
    """The same line added to the same sum before."""
    above = first(recording, op.operands[0]) if op.operands else None
    return (
        above is not None and op.site is not None and above.site is not None and above.name == op.name and above.site.span == op.site.span
    )


def region(recording: Recording, value: Value, ops: list[Op]) -> Iterator[list[Op]]:
    """Candidates for a wider format: the lines of these operations, and line by line those that their operands come from.

    Where that is not enough, also what leads from them to `value`: a solution whose digits cancel again must not be rounded between.
    Only what `value` is computed from counts, and a line counts with all that it computes there.
    """
    above = list(recording.upstream(value))
    for path in ([], _between(above, ops)):
        lines = {op.site.place for op in (*ops, *path) if op.site is not None}
        for _ in range(REGIONS):
            inside = [op for op in above if op.site is not None and op.site.place in lines]
            yield inside
            wider = {o.site.place for op in inside for v in op.operands if (o := recording.producer(v)) is not None and o.site is not None}
            if wider <= lines:
                break
            lines |= wider


def _between(above: list[Op], ops: list[Op]) -> list[Op]:
    """Those of `above` that use a result of `ops`, directly or through others."""
    reached = {op.index for op in ops}
    found: list[Op] = []
    for op in sorted(above, key=lambda o: o.index):
        if op.index not in reached and any(v.producer in reached for v in op.operands):
            reached.add(op.index)
            found.append(op)
    return found
