"""The last recorded step as it would be in a narrower format: every number rounded to it, each operation computed in float64 inside.

The derivative is part of the recorded graph, so that its numbers are rounded too. What it would take to cure an overflow is searched for
by lines: those that overflow, one after another, stay in the format that they have.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from numdebug.emulation import Emulation, Overflow
from numdebug.formats import FORMATS, NARROW, rounded
from numdebug.observe.arrays.evaluate import FAILS, Evaluation, needed
from numdebug.observe.arrays.graph import Graph, Node, Weight
from numdebug.observe.arrays.numbers import is_float, top, widened
from numdebug.observe.arrays.precision import last_weights
from numdebug.recording import Op, Value
from numdebug.run import CannotAsk

PATIENCE = 8.0  # seconds for the search; the whole analysis has 15 beyond the program's own time limit
LINES = 8  # kept as they are at most, before the search is given up
_MOVES = frozenset({
    "relu", "neg", "abs", "maximum", "minimum", "sign", "where", "masked_fill", "zeros", "ones", "full", "broadcast", "expand", "view",
})  # fmt: skip


def largest(graph: Graph) -> dict[int, float]:
    """By operation of the last recorded step: the largest finite magnitude among its results."""
    ops = graph.recording.ops
    backward = [op.step for op in ops if op.phase == "backward"]
    last = max(backward) if backward else ops[-1].step if ops else 0
    found: dict[int, float] = {}
    for op in ops:
        if op.step != last or op.phase == "optimizer" or op.name in _MOVES:
            continue
        for value in op.outputs:
            held = graph.arrays.get(value.id)
            if held is not None and is_float(held) and held.size and held.dtype.itemsize > 1:
                found[op.index] = max(found.get(op.index, 0.0), top(held))
    return found


def emulate(graph: Graph, roots: Sequence[Value], form: str) -> Emulation:
    """Loss (or outputs) and gradients in the format, where they fail, and which lines have to be left out."""
    weights = [w for w in last_weights(graph) if w.gradient is not None and w.gradient.id in graph.arrays]
    step = max((graph.recording.ops[v.producer].step for v in roots if v.producer is not None), default=None)
    chosen = [v for v in roots if v.producer is not None and graph.recording.ops[v.producer].step == step and v.id in graph.arrays]
    if not chosen:
        raise CannotAsk("the program computes neither a loss nor an output that could be computed again")
    recorded = [graph.arrays[v.id] for v in (*chosen, *(w.gradient for w in weights if w.gradient is not None))]
    if not all(np.isfinite(widened(a)).all() for a in recorded):
        raise CannotAsk("the recorded step is not finite as it ran")
    return _Emulator(graph, chosen, weights, form).ask()


@dataclass
class _Step:
    loss: float | None
    outputs_finite: bool
    gradients: dict[str, np.ndarray]
    births: list[Overflow]

    @property
    def bad(self) -> int:
        return sum(not np.isfinite(g).all() for g in self.gradients.values())

    @property
    def finite(self) -> bool:
        return self.outputs_finite and not self.bad


class _Emulator:
    def __init__(self, graph: Graph, roots: list[Value], weights: list[Weight], form: str) -> None:
        self.graph = graph
        self.roots = roots
        self.weights = weights
        self.form = form
        self.cut = {w.before.id: w.before for w in weights}
        self.values = [*roots, *(w.gradient for w in weights if w.gradient is not None)]
        self.places = needed(graph, self.values, self.cut)
        operands = (v for place in self.places for v in (*graph.recording.ops[place].operands, *graph.recording.ops[place].outputs))
        self.mixed = any(v.dtype in NARROW for v in operands)

    def ask(self) -> Emulation:
        until = time.monotonic() + PATIENCE
        low = self.run(frozenset())
        entries = zeros = flushed = 0
        worst: tuple[str, float] | None = None
        for weight in self.weights:
            assert weight.gradient is not None
            exact, grad = self.graph.arrays[weight.gradient.id], low.gradients[weight.name]
            lost = int(((grad == 0) & (exact != 0)).sum())
            entries += int(grad.size)
            zeros += int((grad == 0).sum())
            flushed += lost
            if lost and (worst is None or lost / grad.size > worst[1]):
                worst = (weight.name, lost / grad.size)
        first, keep = (None, None) if low.finite else self._lines(until)
        root = self.graph.arrays[self.roots[0].id]
        recorded = float(widened(root).reshape(())) if root.size == 1 and root.dtype.kind != "c" else None
        return Emulation(
            self.form, low.loss, recorded, low.outputs_finite, len(low.gradients), low.bad, first, keep, entries, zeros, flushed, worst,
            None, None, (), self.mixed,
        )  # fmt: skip

    def run(self, kept: frozenset[str]) -> _Step:
        pass_ = _Rounded(self.graph, self.form, kept, self.mixed, self.cut)
        found = pass_.run(self.places, {v.id for v in self.values})
        arrays = [found[v.id] if v.id in found else pass_.get(v) for v in self.values]
        outputs, gradients = arrays[: len(self.roots)], arrays[len(self.roots) :]
        loss = float(outputs[0].reshape(())) if outputs[0].size == 1 and outputs[0].dtype.kind != "c" else None
        named = {w.name: g for w, g in zip(self.weights, gradients, strict=True)}
        return _Step(loss, all(bool(np.isfinite(a).all()) for a in outputs), named, pass_.births)

    def _lines(self, until: float) -> tuple[Overflow | None, tuple[str, ...] | None]:
        """Where it fails first, and the lines that cure it, less what turns out not to be needed."""
        first: Overflow | None = None
        kept: list[str] = []
        while True:
            step = self.run(frozenset(kept))
            if step.finite:
                break
            born = next(iter(step.births), None)
            first = first or born
            name = group(self.graph.recording.ops[born.op]) if born is not None and born.op is not None else None
            if name is None or name in kept or len(kept) == LINES or time.monotonic() > until:
                return first, None
            kept.append(name)
        for name in list(kept[:-1]):  # the last one was needed
            fewer = [k for k in kept if k != name]
            if time.monotonic() < until and self.run(frozenset(fewer)).finite:
                kept = fewer
        return first, tuple(kept)


class _Rounded(Evaluation):
    """One pass in the format; `births`: where numbers that were finite as recorded first are not, in order."""

    def __init__(self, graph: Graph, form: str, kept: frozenset[str], mixed: bool, cut: dict[int, Value]) -> None:
        super().__init__(graph)
        self.form = form
        self.kept = kept
        self.mixed = mixed
        self.births: list[Overflow] = []
        self.bad: set[int] = set()
        for value in cut.values():
            self.get(value)

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Data and weights are in the format too; a mask filled with the lowest number of its format holds the lowest of this one."""
        wide = widened(array)
        if not is_float(array) or array.dtype.kind == "c":
            return wide
        limit = FORMATS.get(value.dtype)
        if limit is not None and self.form in FORMATS:
            wide = np.where(np.abs(wide) == limit.max, np.sign(wide) * FORMATS[self.form].max, wide)
        near = self._round(value, wide, keep=False)
        if self._worse(near, array):
            self.bad.add(value.id)
            name = value.name or ("a parameter" if value.role == "parameter" else "the data")
            user = next((op for op in self.graph.recording.consumers(value)), None)
            self.births.append(Overflow(user.index if user is not None else None, False, top(wide), name))
        return near

    def results(self, node: Node) -> Sequence[np.ndarray]:
        """Computed in float64, then rounded."""
        op = node.op
        keep = group(op) in self.kept
        operands = [] if node.given else [self.get(v) for v in op.operands]  # of a random draw, a key
        recorded = [self.recorded(v) for v in op.outputs]
        try:
            raw = [widened(r) for r in recorded] if node.given else [np.asarray(r) for r in node.compute(operands, True)]
        except FAILS as why:
            raise CannotAsk(f"{op.native} cannot be computed again: {why}") from why
        results = [self._round(v, r, keep) for v, r in zip(op.outputs, raw, strict=True)]
        worse = [self._worse(r, held) for r, held in zip(results, recorded, strict=True)]
        if any(worse):
            self.bad.update(v.id for v in op.outputs)
            if not any(v.id in self.bad for v in op.operands):
                most = max((top(r) for r in raw if is_float(r)), default=math.inf)
                fits = most <= FORMATS[self.form].max
                place = op.forward if op.phase == "backward" and op.forward is not None else op.index
                self.births.append(Overflow(place, op.phase == "backward", math.inf if fits else most))
        return results

    def _round(self, value: Value, wide: np.ndarray, keep: bool) -> np.ndarray:
        if not is_float(wide) or wide.dtype.kind == "c":
            return wide
        if keep or (self.mixed and value.dtype not in NARROW):
            own = value.dtype if value.dtype in FORMATS and value.dtype not in NARROW else "float32"
            return np.asarray(rounded(wide, own))
        return np.asarray(rounded(wide, self.form))

    @staticmethod
    def _worse(now: np.ndarray, recorded: np.ndarray) -> bool:
        """More that is not finite than in the step as it ran."""
        if not is_float(now) or np.isfinite(now).all():
            return False
        before = int((~np.isfinite(widened(recorded))).sum()) if recorded.shape == now.shape else 0
        return int((~np.isfinite(now)).sum()) > before


def group(op: Op) -> str:
    """The layer in which an operation ran, or its line where there is none with a name."""
    if op.site is None:
        return "outside of the program"
    return op.site.module or f"{op.site.file}:{op.site.line}"
