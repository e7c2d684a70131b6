"""Do the rows of the targets still belong to the rows of the inputs?

Measures  in the first step: for the target of each pointwise loss and for what the network is given, which rows of which table they are,
          through indexing, slicing, sorting, flipping and stacking; and, where examples were stacked, which one each row is.
Costs     a walk up the recorded operations, on row numbers alone.
Misses    orders that were changed outside of the framework; tables that other code joined on purpose in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.recording import Op, Recording, Value
from numdebug.run import Run

QUESTION = "Do the rows of the targets still belong to the rows of the inputs?"
SILENT = True
EARLY = True

ROWS = 8  # fewer rows in another order may be chance
_LOSSES = frozenset({
    "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "sub",
})  # fmt: skip
_SAME_ROWS = frozenset({"copy", "cast", "contiguous", "detach", "alias", "constant", "lift", "view", "_unsafe_view", "reshape", "squeeze",
                        "unsqueeze", "expand", "_reshape_alias"})  # fmt: skip
_REORDERS = frozenset({
    "index", "index_select", "gather", "sort", "topk", "flip", "roll", "index_put", "scatter", "take", "embedding", "matmul", "transpose",
    "permute", "t", "argsort", "unique",
})  # fmt: skip
_JOINS = frozenset({"stack", "cat", "_pad_sequence", "pad_sequence"})


@dataclass(frozen=True)
class _Rows:
    """Which rows of a table a value holds. `by`: the operations that put them into another order."""

    table: Value
    rows: np.ndarray
    by: tuple[Op, ...] = ()


def measure(run: Run) -> Iterator[Evidence]:
    """One fact: of the first loss whose target is in another order than every input."""
    recording = run.recording
    if recording.sinks or len(recording.steps) > 1:
        return
    reads = {index for gradient in run.gradients() for index in gradient.used}
    hot = _with_weights(recording, reads)
    for op in recording.ops:
        if op.name not in _LOSSES or op.phase != "forward" or not op.grad or len(op.operands) < 2:
            continue
        pair = [v.id in hot for v in op.operands[:2]]
        if pair[0] == pair[1] or (op.name == "sub" and not _squared(recording, op)):
            continue
        guess, target = (op.operands[0], op.operands[1]) if pair[0] else (op.operands[1], op.operands[0])
        inputs = [v for v in _inputs(recording, guess, hot) if v.shape and target.shape and v.shape[0] == target.shape[0]]
        found = _out_of_order(run, inputs, target)
        if found is not None and not _blended(recording, found[0], inputs):
            by, moved, size = found
            at = by.site
            numbers = {"moved": Number(moved, "rows"), "rows": Number(size, "rows")}
            facts = {"op": by.name, "native": by.native, "members": [], "loss": op.name}
            sites = {"target": at} if at is not None else {}
            yield Evidence("rows-apart", "row_order", site=at, numbers=numbers, facts=facts, sites=sites)
            return


def _blended(recording: Recording, by: Op, inputs: list[Value]) -> bool:
    """Whether some input was mixed with itself in the very order that the target is in (mixup)."""
    order = {v.id for v in by.operands[1:]}
    above = [op for value in inputs for op in recording.upstream(value)]
    return by not in above and any(op.name in _REORDERS and order & {v.id for v in op.operands[1:]} for op in above)


def _with_weights(recording: Recording, reads: set[int]) -> set[int]:
    hot: set[int] = set()
    for op in recording.ops:
        if op.phase == "forward" and (op.index in reads or any(v.id in hot for v in op.operands)):
            hot.update(v.id for v in op.outputs)
    return hot


def _squared(recording: Recording, op: Op) -> bool:
    users = [u for v in op.outputs for u in recording.consumers(v) if u.phase == "forward"]
    return any(u.name in ("pow", "square", "abs") or (u.name == "mul" and u.operands[0] is u.operands[-1]) for u in users)


def _inputs(recording: Recording, guess: Value, hot: set[int]) -> list[Value]:
    """Values without weights in them that the network works on."""
    found = {
        v.id: v
        for op in recording.upstream(guess)
        if any(o.id in hot for o in op.outputs)
        for v in op.operands
        if v.id not in hot and v.role != "parameter"
    }
    return list(found.values())


def _out_of_order(run: Run, inputs: list[Value], target: Value) -> tuple[Op, int, int] | None:
    """The operation that put one side into another order, and how many rows are apart; None where any input agrees with the target."""
    recording = run.recording
    goal = _rows(run, target)
    examples = _examples(recording, goal.table)
    verdict: tuple[Op, int, int] | None = None
    for value in inputs:
        given = _rows(run, value)
        if given.table is goal.table or len(given.rows) != len(goal.rows) or len(goal.rows) < ROWS:
            continue
        theirs = _examples(recording, given.table)
        if theirs is not None and examples is not None:
            order = _order(recording, theirs, examples)
            if order is None:
                continue
            apart = int((given.rows != order[goal.rows]).sum())
            join = recording.producer(given.table)
            by = (*given.by, *goal.by, *((join,) if join is not None else ()))
        else:
            if given.table.shape[:1] != goal.table.shape[:1] or not (given.by or goal.by):
                continue
            if not _belong(recording, given.table, goal.table):
                continue
            if _made_after(recording, given, goal) or _made_after(recording, goal, given):
                return None
            distance = given.rows - goal.rows
            apart = 0 if (distance == distance[0]).all() else int((distance != 0).sum())
            by = tuple(o for o in (*goal.by, *given.by) if (o in goal.by) != (o in given.by))
        if not apart:
            return None
        if by and verdict is None:
            verdict = (by[0], apart, len(goal.rows))
    return verdict


def _belong(recording: Recording, one: Value, other: Value) -> bool:
    """Whether the rows of two tables are known to belong together: loaded side by side, or computed row by row from the same values."""
    if all((op := recording.producer(v)) is None or op.name == "constant" for v in (one, other)):
        return True
    return bool(_same_order(recording, one) & _same_order(recording, other))


def _same_order(recording: Recording, table: Value) -> set[int]:
    """Values from which a table was computed without touching the order of the rows."""
    found, todo = {table.id}, [table]
    while todo:
        op = recording.producer(todo.pop())
        if op is None or op.in_place or op.name in _REORDERS:
            continue
        for value in op.operands:
            if value.shape[:1] == table.shape[:1] and value.id not in found:
                found.add(value.id)
                todo.append(value)
    return found


def _made_after(recording: Recording, one: _Rows, other: _Rows) -> bool:
    """Whether one table was computed from the other in its new order."""
    moves = {op.index for op in other.by}
    return bool(moves) and any(op.index in moves for op in recording.upstream(one.table))


def _rows(run: Run, value: Value) -> _Rows:
    recording = run.recording
    size = value.shape[0] if value.shape else 1
    op = recording.producer(value)
    whole = _Rows(value, np.arange(size))
    if op is None or not op.operands or not value.shape:
        return whole
    source = op.operands[1] if op.name == "copy" and len(op.operands) == 2 else op.operands[0]
    if op.name in _SAME_ROWS and source.shape[:1] == value.shape[:1]:
        return _rows(run, source)
    picked = _picked(run, op, value, source)
    if picked is None:
        return whole
    before = _rows(run, source)
    if picked.size and int(picked.max()) >= len(before.rows):
        return whole
    moves = (op,) if op.name not in ("slice", "split", "split_with_sizes", "select") else ()
    return _Rows(before.table, before.rows[picked], (*before.by, *moves))


def _picked(run: Run, op: Op, value: Value, source: Value) -> np.ndarray | None:
    """The rows of its operand that an operation hands on, in order; None where it does something else."""
    size = source.shape[0] if source.shape else 0
    dim = op.scalars.get("dim", 0)
    if op.name in ("index", "index_select") and len(op.operands) == 2 and value.shape[1:] == source.shape[1:] and dim == 0:
        chosen = run.array(op.operands[1])
        if chosen is None or chosen.ndim != 1:
            return None
        rows = np.flatnonzero(chosen) if chosen.dtype.kind == "b" else chosen.astype(np.int64) % max(size, 1)
        return rows if len(rows) == value.shape[0] else None
    if op.name == "slice" and dim == 0:
        stop = op.scalars.get("end")
        return np.arange(size)[op.scalars.get("start") or 0 : stop if stop is not None else size : op.scalars.get("step") or 1]
    if op.name in ("split", "split_with_sizes") and dim == 0:
        begin = 0
        for out in op.outputs:
            if out is value:
                return np.arange(begin, begin + value.shape[0])
            begin += out.shape[0]
    if op.name == "flip" and op.scalars.get("dims") == [0]:
        return np.arange(size)[::-1]
    if op.name == "sort" and len(source.shape) == 1 and len(op.outputs) == 2 and value is op.outputs[0]:
        order = run.array(op.outputs[1])
        return None if order is None else order.astype(np.int64)
    return None


def _examples(recording: Recording, table: Value) -> list[Value] | None:
    """The single examples that a table was put together from."""
    op = recording.producer(table)
    if op is None or op.name not in _JOINS or len(op.operands) != (table.shape[0] if table.shape else 0):
        return None
    return list(op.operands)


def _order(recording: Recording, inputs: list[Value], targets: list[Value]) -> np.ndarray | None:
    """For each target, the position of the one input that it was computed from."""
    position = {v.id: n for n, v in enumerate(inputs)}
    order: list[int] = []
    for value in targets:
        seen = {v.id for op in recording.upstream(value) for v in op.operands} | {value.id}
        meets = [position[i] for i in seen if i in position]
        if len(meets) != 1:
            return None
        order.append(meets[0])
    return np.array(order)
