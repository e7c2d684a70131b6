"""Where a healthy step is near an edge: operations that fail for some values of their operand, and which way those lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from numdebug.formats import FORMATS
from numdebug.forms import find
from numdebug.intervals import ANY, Interval, Intervals
from numdebug.recording import Op, Recording, Value
from numdebug.run import Run

Goal = Literal["high", "low", "small"]
EXPONENTIALS = frozenset({"exp", "exp2", "expm1", "sinh", "cosh"})
# What each naive form fails by: the part, its operand, and where the danger lies.
FORMS: dict[str, tuple[tuple[str, int, Goal], ...]] = {
    "log-of-softmax": (("target", 0, "small"),),
    "log-of-sigmoid": (("target", 0, "small"),),
    "log-of-product": (("target", 0, "small"),),
    "softplus": (("exp", 0, "high"),),
    "logsumexp": (("exp", 0, "high"), ("target", 0, "small")),
    "softmax": (("exp", 0, "high"), ("target", 1, "small")),
}


@dataclass(frozen=True)
class Edge:
    """One operand of one operation, and where it would make the operation fail. `form`: the naive form that it is part of."""

    op: Op
    operand: int
    goal: Goal
    limit: float
    nearest: float  # the operand's element that is nearest to the limit
    form: str | None
    members: frozenset[int]


def edges(run: Run) -> Iterator[Edge]:
    """In what the loss depends on: the naive forms, then each exp by itself, but for those that algebra makes safe."""
    recording = run.recording
    intervals = Intervals(recording, lambda value: _observed(run, value))
    losses = run.losses()
    wanted = _upstream(recording, losses) if losses else {op.index for op in recording.ops}
    known: set[int] = set()
    for form in find(recording, lambda value: _one_hot(run, value)):
        known.update(form.members)
        for role, operand, goal in FORMS.get(form.name, ()):
            op = form.target if role == "target" else form.parts.get(role)
            if op is None or op.index not in wanted or len(op.operands) <= operand or form.numbers.get("library"):
                continue
            if goal == "high" and intervals.of(op.operands[operand])[1] <= _limit(op):
                continue
            yield _edge(run, op, operand, "low" if op.name == "log1p" and goal == "small" else goal, form.name, frozenset(form.members))
    for op in recording.ops:
        alone = op.name in EXPONENTIALS and op.phase == "forward" and op.index in wanted and op.index not in known
        if alone and op.outputs[0].dtype in FORMATS and intervals.of(op.operands[0])[1] > _limit(op):
            yield _edge(run, op, 0, "high", None, frozenset({op.index}))


def _edge(run: Run, op: Op, operand: int, goal: Goal, form: str | None, members: frozenset[int]) -> Edge:
    stats = run.stats(op.operands[operand])
    nearest = {"high": stats.highest, "low": stats.lowest, "small": stats.min_abs}[goal]
    return Edge(op, operand, goal, _limit(op), nearest if nearest is not None else 0.0, form, members)


def _limit(op: Op) -> float:
    if op.name in EXPONENTIALS:
        return FORMATS.get(op.outputs[0].dtype, FORMATS["float32"]).exp_limit
    return -1.0 if op.name == "log1p" else 0.0


def _observed(run: Run, value: Value) -> Interval:
    """Data stay where they were seen; nothing is known of weights."""
    stats = run.stats(value)
    if value.role == "parameter" or stats.lowest is None or stats.highest is None or stats.non_finite:
        return ANY
    return stats.lowest, stats.highest


def _one_hot(run: Run, value: Value) -> bool:
    array = run.array(value)
    return array is not None and bool((array == 1).any()) and bool(((array == 0) | (array == 1)).all())


def _upstream(recording: Recording, values: list[Value]) -> set[int]:
    return {op.index for value in values for op in recording.upstream(value)}
