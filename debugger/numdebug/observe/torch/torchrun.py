"""The Run of a PyTorch program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from numdebug.answers import Answers, NetworkCall
from numdebug.arithmetic import Arithmetic
from numdebug.emulation import Emulation
from numdebug.observe.torch import asked
from numdebug.observe.torch.clipping import clippings
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.flow import gradients
from numdebug.observe.torch.foretell import Emulator, largest
from numdebug.observe.torch.forms import rewrites_for
from numdebug.observe.torch.gradients import functions
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.overwritten import overwritten
from numdebug.observe.torch.ownership import untrained
from numdebug.observe.torch.precision import Precision
from numdebug.observe.torch.recomputed import deviations, recompute
from numdebug.observe.torch.records import Cell
from numdebug.observe.torch.replay import CannotReplay, Outcome, Replay
from numdebug.observe.torch.stats import array, stats
from numdebug.observe.torch.triggers import Triggers
from numdebug.observe.torch.unwritten import unwritten
from numdebug.observe.torch.updates import updates
from numdebug.observe.torch.whole import check
from numdebug.recording import Frame, Op, Sink, Site, Stats, Value
from numdebug.report.model import Repair
from numdebug.run import CannotAsk, CheckedGradient, Danger, Error, Gradient, GradientCheck, HandWritten, Overwritten, Replayed, Trigger
from numdebug.trials import EXACT
from numdebug.weights import Clipping, Untrained, Unwritten, Update

# Logs of probabilities are compared down to the square root of float64's eps (1.5e-8, whose log is -18): there 1 - sigmoid(z)
# still keeps half of its digits.
LOGS = frozenset({"log_softmax", "log_sigmoid"})
DEPTH = 18.0
# Far above what rounding in float64 leaves (1e-8 at that depth), and far below what a wrong formula is off by.
APART = 1e-4

T = TypeVar("T")


class TorchRun:
    """See numdebug.run.Run."""

    def __init__(self, observer: TorchObserver, options: dict[str, Any]) -> None:
        self.observer = observer
        self.options = options
        self.converter = Converter(observer)
        self.recording = self.converter.convert()
        self.asked = 0  # steps run again
        self._stats: dict[int, Stats] = {}
        self._control: Replayed | None = None
        self._functions: list[HandWritten] | None = None

    def stats(self, value: Value) -> Stats:
        """See Run."""
        if value.id not in self._stats:
            tensor = self._tensor(value)
            self._stats[value.id] = Stats(0) if tensor is None else stats(tensor)
        return self._stats[value.id]

    def array(self, value: Value) -> np.ndarray | None:
        """See Run."""
        tensor = self._tensor(value)
        return None if tensor is None else array(tensor)

    def _tensor(self, value: Value) -> torch.Tensor | None:
        return self.converter.cells[value.id].tensor

    def frames(self, op: Op) -> tuple[Frame, ...]:
        """See Run."""
        return self.converter.frames_of(op)

    def again(self) -> Replayed:
        """See Run."""
        if self._control is None:
            self._control = self._replay([])
        return self._control

    def rewrite(self, repairs: list[Repair]) -> Replayed:
        """See Run."""
        return self._replay(repairs)

    def _roots(self) -> tuple[list[Cell], bool]:
        if self.observer.losses and not any(what == "output" for what, _, _ in self.observer.sinks):
            return self.observer.losses, True
        return [cell for what, cell, _ in self.observer.sinks if what in ("output", "loss")], self.observer.saw_backward

    def _outcome(self, repairs: list[Repair], dtype: torch.dtype | None = None) -> Outcome:
        roots, backward = self._roots()
        if not roots:
            raise CannotAsk("the failing step has no loss or output to compute again")
        self.asked += 1

        def replayed() -> Outcome:
            replay = Replay(self.converter, roots, backward)
            replay.dtype = dtype
            return replay.run(rewrites_for(replay, repairs))

        return self._asked(replayed)

    def _replay(self, repairs: list[Repair]) -> Replayed:
        outcome = self._outcome(repairs)
        agreement, disagreement = self._agreement(repairs) if repairs and outcome.finite else ("", None)
        o = outcome
        return Replayed(o.loss, o.finite, o.outputs_finite, o.gradients, o.bad_gradients, o.same, agreement, disagreement)

    def _agreement(self, repairs: list[Repair]) -> tuple[str, str | None]:
        """The stable form against the naive one, both in float64, where the naive one is finite: do they compute the same?"""
        if any(r.form not in EXACT or any(v for k, v in r.numbers.items() if k.startswith("guards")) for r in repairs):
            return "", None
        roots, _ = self._roots()
        sides: list[dict[int, torch.Tensor]] = []
        try:
            for chosen in ([], repairs):
                replay = Replay(self.converter, roots, backward=False)
                replay.wide = True
                places = rewrites_for(replay, repairs)
                replay.run(rewrites_for(replay, chosen), watch=places)
                sides.append(replay.watched)
                self.asked += 1
        except CannotReplay:
            return "", None
        worst = 0.0
        for place, naive in sides[0].items():
            stable = sides[1].get(place)
            if stable is None or stable.shape != naive.shape:
                continue
            both = torch.isfinite(naive) & torch.isfinite(stable)
            if all(r.form in LOGS for r in repairs):
                both &= naive.abs() <= DEPTH
            if bool(both.any()):
                off = (naive - stable).abs()[both] / naive.abs()[both].clamp(min=1.0)
                worst = max(worst, float(off.max()))
        if worst > APART:
            return "", f"the repair computes something else: in float64 it differs from the line as written by {worst:.1e}"
        return f"in float64 the repair agrees with the line as written to {worst:.1e}", None

    def exact(self, values: Sequence[Value]) -> dict[int, np.ndarray]:
        """See Run."""
        cells = [self.converter.cells[value.id] for value in values]
        kept = self._asked(lambda: self._precision.exact(cells))
        return {value.id: array(kept[id(cell)]) for value, cell in zip(values, cells, strict=True) if id(cell) in kept}

    def recompute(self, values: Sequence[Value], how: Arithmetic, given: Mapping[int, np.ndarray] | None = None) -> dict[int, np.ndarray]:
        """See Run."""
        cells = [self.converter.cells[value.id] for value in values]
        held = {self.converter.cells[key]: torch.as_tensor(numbers) for key, numbers in (given or {}).items()}
        kept = self._asked(lambda: recompute(self.converter, cells, how, held))
        return {value.id: array(kept[id(cell)]) for value, cell in zip(values, cells, strict=True) if id(cell) in kept}

    def deviations(self, values: Sequence[Value], how: Arithmetic) -> dict[int, np.ndarray]:
        """See Run."""
        cells = [self.converter.cells[value.id] for value in values]
        kept = self._asked(lambda: deviations(self.converter, cells, how))
        return {value.id: array(kept[id(cell)]) for value, cell in zip(values, cells, strict=True) if id(cell) in kept}

    def check_gradients(self) -> list[CheckedGradient]:
        """See Run."""
        if not self.observer.losses:
            raise CannotAsk("no recorded step differentiates a loss")
        return self._asked(lambda: check(self.converter, self.observer.losses))

    def functions(self) -> list[HandWritten]:
        """See Run."""
        if self._functions is None:
            self._functions = functions(self.converter)
        return self._functions

    def emulate(self, format: str) -> Emulation:
        """See Run."""
        return self._asked(lambda: Emulator(self.observer, self.converter, self._precision.consumed, format).ask())

    def largest(self) -> dict[int, float]:
        """See Run."""
        return largest(self.converter)

    def consumed(self) -> list[Sink]:
        """See Run."""
        named = {id(cell): name for cell, name in self._precision.named}
        values = [(self.converter.value(cell), named.get(id(cell))) for cell in self._precision.consumed]
        return [Sink("output", value, name or value.name) for value, name in values]

    def losses(self) -> list[Value]:
        """See Run."""
        return [self.converter.value(cell) for cell in self.observer.losses]

    @cached_property
    def _precision(self) -> Precision:
        return Precision(self.observer, self.converter)

    def errors(self, values: Sequence[Value], harm: float) -> dict[int, Error]:
        """See Run."""
        return self._asked(lambda: self._precision.errors([self.converter.cells[v.id] for v in values], harm))

    def gradient_error(self) -> tuple[float, float]:
        """See Run."""
        return self._asked(self._precision.gradient_error)

    def trace_errors(self, value: Value, harm: float, beyond: float) -> dict[int, Error]:
        """See Run."""
        return self._asked(lambda: self._precision.trace(self.converter.cells[value.id], harm, beyond))

    def kept_wide(self, ops: frozenset[int], value: Value, harm: float) -> Error:
        """See Run."""
        return self._asked(lambda: self._precision.kept_wide(ops, self.converter.cells[value.id], harm))

    def _asked(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except CannotReplay as why:
            raise CannotAsk(str(why)) from why

    def checks(self) -> list[GradientCheck]:
        """See Run."""
        named = [(c, str(c.dtype).removeprefix("torch.")) for c in self.observer.hooks.checks]
        return [GradientCheck(self.converter.site(c.places), name, c.eps, c.atol, c.rtol, c.largest) for c, name in named]

    def overwritten(self) -> list[Overwritten]:
        """See Run."""
        return overwritten(self.converter)

    def gradients(self) -> list[Gradient]:
        """See Run."""
        return gradients(self)

    def made(self, op: Op) -> Site | None:
        """See Run."""
        module, keras = self.converter.raws[op.index].module, self.observer.keras_steps
        return self.converter.site(self.observer.constructions.of(module) or (keras.made(module) if keras is not None else None))

    def module(self, op: Op) -> int | None:
        """See Run."""
        held = self.converter.raws[op.index].module
        return id(held) if held is not None else None

    def training_mode(self, op: Op) -> str | None:
        """See Run."""
        return asked.training_mode(op, self.converter.raws[op.index].module)

    def network_call(self, op: Op) -> NetworkCall | None:
        """See Run."""
        return asked.described(self.observer, self.converter.raws[op.index])

    def ask_again(self, op: Op) -> Answers:
        """See Run."""
        return asked.ask_again(self.observer, self.converter.raws[op.index])

    def updates(self) -> list[Update]:
        """See Run."""
        return updates(self.converter, self.observer.training)

    def clippings(self) -> list[Clipping]:
        """See Run."""
        return clippings(self.converter, self.observer.training)

    def untrained(self) -> list[Untrained]:
        """See Run."""
        return untrained(self.converter, self.observer.training)

    def unwritten(self) -> list[Unwritten]:
        """See Run."""
        losses = [(cell, "the loss") for cell in self.observer.losses]
        return unwritten(self.converter, self.observer.training, [*self._precision.named, *losses])

    @cached_property
    def _triggers(self) -> Triggers:
        losses = self.observer.last_losses
        return Triggers(self.observer, self.converter, losses or self._precision.consumed, bool(losses))

    def provoke(self, danger: Danger) -> Trigger | None:
        """See Run."""
        found = self._asked(lambda: self._triggers.find(danger))
        if found is None:
            return None
        values, moved = found
        again: Any = self._asked(lambda: self._triggers.retrace(values))
        return Trigger(TorchRun(again, self.options), tuple(moved))

    def flushed(self) -> dict[str, tuple[int, int, float]]:
        """See Run."""
        low, high = self._outcome([]), self._outcome([], torch.float32)
        found: dict[str, tuple[int, int, float]] = {}
        for key, grad in low.grads.items():
            wide = high.grads.get(key)
            if wide is None or wide.shape != grad.shape:
                continue
            lost = (grad == 0) & (wide != 0)
            name = self.converter.names.get(key, f"parameter {len(found)}")
            found[name] = (grad.numel(), int(lost.sum()), float(wide[lost].abs().max()) if bool(lost.any()) else 0.0)
        return found
