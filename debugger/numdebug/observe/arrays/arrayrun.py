"""The Run of a program whose recorded operations NumPy can compute again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from numdebug.answers import Answers, NetworkCall
from numdebug.arithmetic import Arithmetic
from numdebug.emulation import Emulation
from numdebug.observe.arrays import emulated, numbers, recomputed, updates, whole
from numdebug.observe.arrays.graph import Graph
from numdebug.observe.arrays.numbers import FLOATS, widened
from numdebug.observe.arrays.precision import Precision
from numdebug.recording import Frame, Op, Sink, Site, Stats, Value
from numdebug.report.model import Repair
from numdebug.run import CannotAsk, CheckedGradient, Danger, Error, Gradient, GradientCheck, HandWritten, Overwritten, Replayed, Trigger
from numdebug.weights import Clipping, Untrained, Unwritten, Update

_IN_PROGRAM = "the program itself is run again with the repair"


class ArrayRun:
    """See numdebug.run.Run."""

    def __init__(self, graph: Graph, options: dict[str, Any]) -> None:
        self.graph = graph
        self.options = options
        self.recording = graph.recording
        self._stats: dict[int, Stats] = {}
        self._still: tuple[frozenset[int], dict[int, np.ndarray]] | None = None  # values without noise, in float64

    # -- what was recorded ---------------------------------------------------------------------------------------

    def stats(self, value: Value) -> Stats:
        """See Run."""
        if value.id not in self._stats:
            held = self.graph.arrays.get(value.id)
            self._stats[value.id] = Stats(0) if held is None else numbers.stats(held)
        return self._stats[value.id]

    def array(self, value: Value) -> np.ndarray | None:
        """See Run."""
        held = self.graph.arrays.get(value.id)
        return None if held is None else numbers.shown(held)

    def frames(self, op: Op) -> tuple[Frame, ...]:
        """See Run."""
        return self.graph.frames(op)

    def losses(self) -> list[Value]:
        """See Run."""
        return list(self.graph.losses)

    def consumed(self) -> list[Sink]:
        """See Run."""
        found: dict[int, Sink] = {}
        for sink in (*self.graph.consumed, *(Sink("output", v, v.name) for v in self.graph.losses)):
            known = found.get(sink.value.id)
            if sink.value.producer is not None and sink.value.dtype.startswith(FLOATS) and (known is None or known.name is None):
                found[sink.value.id] = sink
        return list(found.values())

    def made(self, op: Op) -> Site | None:
        """See Run."""
        return self.graph.made.get(op.index)

    def module(self, op: Op) -> int | None:
        """See Run."""
        return self.graph.modules.get(op.index)

    def gradients(self) -> list[Gradient]:
        """See Run."""
        found = []
        for weight in self.graph.weights:
            held = self.graph.arrays.get(weight.gradient.id) if weight.gradient is not None else None
            before = self.graph.arrays.get(weight.before.id)
            if held is None or before is None:
                continue
            users = self.recording.consumers(weight.before)
            found.append(
                Gradient(
                    name=weight.name,
                    step=weight.step,
                    size=int(held.size),
                    dims=held.ndim,
                    norm=float(np.linalg.norm(widened(held))),
                    zeros=int((held == 0).sum()),
                    weight_norm=float(np.linalg.norm(widened(before))),
                    used=tuple(op.index for op in users if op.phase == "forward" and op.step == weight.step),
                    made_at=weight.before.made_at,
                    made_by=weight.before.made_by,
                )
            )
        return sorted(found, key=lambda g: (g.step, g.used[:1] or (1 << 60,)))

    # -- asked again in float64 ----------------------------------------------------------------------------------

    @cached_property
    def _precision(self) -> Precision:
        return Precision(self.graph)

    def exact(self, values: Sequence[Value]) -> dict[int, np.ndarray]:
        """See Run."""
        return self._precision.exact(values)

    def errors(self, values: Sequence[Value], harm: float) -> dict[int, Error]:
        """See Run."""
        return self._precision.errors(values, harm)

    def trace_errors(self, value: Value, harm: float, beyond: float) -> dict[int, Error]:
        """See Run."""
        return self._precision.trace(value, harm, beyond)

    def kept_wide(self, ops: frozenset[int], value: Value, harm: float) -> Error:
        """See Run."""
        return self._precision.kept_wide(ops, value, harm)

    def gradient_error(self) -> tuple[float, float]:
        """See Run."""
        return self._precision.gradient_error()

    def recompute(self, values: Sequence[Value], how: Arithmetic, given: Mapping[int, np.ndarray] | None = None) -> dict[int, np.ndarray]:
        """See Run."""
        return recomputed.recompute(self.graph, values, how, given)

    def deviations(self, values: Sequence[Value], how: Arithmetic) -> dict[int, np.ndarray]:
        """See Run."""
        asked = frozenset(v.id for v in values)
        if self._still is None or self._still[0] != asked:
            self._still = (asked, recomputed.recompute(self.graph, values, Arithmetic(wide=True)))
        still = self._still[1]
        moved = recomputed.recompute(self.graph, values, how)
        with np.errstate(all="ignore"):
            return {key: array - still[key] for key, array in moved.items() if key in still and array.dtype.kind == "f"}

    def check_gradients(self) -> list[CheckedGradient]:
        """See Run."""
        return whole.check(self.graph)

    # -- training ------------------------------------------------------------------------------------------------

    def updates(self) -> list[Update]:
        """See Run."""
        return updates.updates(self.graph)

    def clippings(self) -> list[Clipping]:
        """See Run."""
        return updates.clippings(self.graph)

    def untrained(self) -> list[Untrained]:
        """See Run."""
        return updates.untrained(self.graph)

    # -- in another format ---------------------------------------------------------------------------------------

    def emulate(self, format: str) -> Emulation:
        """See Run."""
        return emulated.emulate(self.graph, self.losses() or [sink.value for sink in self.consumed()], format)

    def largest(self) -> dict[int, float]:
        """See Run."""
        return emulated.largest(self.graph)

    # -- what a graph of arrays does not have --------------------------------------------------------------------

    def again(self) -> Replayed:
        """See Run."""
        return self.rewrite([])

    def rewrite(self, repairs: list[Repair]) -> Replayed:
        """See Run."""
        if self.graph.retry is None:
            raise CannotAsk(_IN_PROGRAM)
        return self.graph.retry(repairs)

    def provoke(self, danger: Danger) -> Trigger | None:
        """See Run."""
        found = self.graph.search(danger)
        return None if found is None else Trigger(ArrayRun(found[0], self.options), tuple(found[1]))

    def flushed(self) -> dict[str, tuple[int, int, float]]:
        """See Run. What is not 0 in float64 was flushed."""
        found: dict[str, tuple[int, int, float]] = {}
        last = [w for w in self.graph.weights if w.gradient is not None and w.step == self.graph.weights[-1].step]
        narrow = any(v.dtype in ("float16", "bfloat16") for op in self.recording.ops for v in op.outputs)
        exact = self.exact([w.gradient for w in last if w.gradient is not None]) if narrow else {}
        for weight in last:
            assert weight.gradient is not None
            wide, kept = exact.get(weight.gradient.id), self.array(weight.gradient)
            if wide is not None and kept is not None and wide.shape == kept.shape:
                lost = (kept == 0) & (wide != 0)
                found[weight.name] = (kept.size, int(lost.sum()), float(np.abs(wide[lost]).max()) if lost.any() else 0.0)
        return found

    def functions(self) -> list[HandWritten]:
        """See Run."""
        return self._functions

    @cached_property
    def _functions(self) -> list[HandWritten]:
        return self.graph.functions()

    def checks(self) -> list[GradientCheck]:
        """None are recorded."""
        return []

    def training_mode(self, op: Op) -> str | None:
        """See Run."""
        return self.graph.modes.get(op.index)

    def network_call(self, op: Op) -> NetworkCall | None:
        """Calls of networks are not kept."""
        return None

    def ask_again(self, op: Op) -> Answers:
        """See Run."""
        raise CannotAsk("calls of networks are not kept")

    def overwritten(self) -> list[Overwritten]:
        """No recorded value is overwritten: a write makes a new one."""
        return []

    def unwritten(self) -> list[Unwritten]:
        """Memory that nobody wrote is data."""
        return []
