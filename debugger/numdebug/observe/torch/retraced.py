"""The recorded step with other data and weights, recorded anew: a run that can be asked like the one that happened."""

from __future__ import annotations

from typing import Any

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.finite import all_finite
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import CannotReplay, Outcome, Replay
from numdebug.observe.torch.trace import Tracer
from numdebug.recording import Step


class Retraced(Replay):
    """A replay under a tracer of its own. Lines and modules are those of the operations that it repeats."""

    def __init__(self, converter: Converter, roots: list[Cell], backward: bool, values: dict[int, torch.Tensor]) -> None:
        super().__init__(converter, roots, backward)
        self.leaf_values = values
        self.tracer = Tracer(converter.frames)
        self.tracer.off = True
        self.losses: list[Cell] = []
        self.sinks: list[tuple[str, Cell, str | None]] = []
        self.names: dict[int, str] = {}
        self._behind = next((raw.places for raw in self.raws if raw.phase == "backward"), ())

    def record(self) -> Outcome:
        """Run, and write everything down."""
        self.tracer.attach(True)
        try:
            return self.run()
        finally:
            self.tracer.off = True
            self.tracer.attach(False)

    def call(self, raw: Raw, swap: dict[int, torch.Tensor] | None = None) -> Any:
        """See Replay."""
        if not hasattr(raw.func, "_schema"):
            raise CannotReplay("the step calls a hand-written autograd function")
        segment = self.tracer.segments[-1]
        start = len(segment)
        self.tracer.off = False
        try:
            result = super().call(raw, swap)
        finally:
            self.tracer.off = True
        for record in segment[start:]:
            record.places, record.module, record.phase, record.step = raw.places, raw.module, raw.phase, raw.step
        return result

    def _leaf(self, cell: Cell) -> torch.Tensor:
        off, self.tracer.off = self.tracer.off, True
        held = super()._leaf(cell)
        known = self.converter.names.get(cell.key)
        if known is not None:
            self.names[id(held)] = known
        self.tracer.off = off
        return held

    def _outcome(self) -> Outcome:
        roots = [self.get(cell) for cell in self.roots]
        outcome = Outcome(None, all(all_finite(t) for t in roots), results=roots)
        what = "loss" if self.backward else "output"
        self.losses = [self.tracer.cell(t) for t in roots]
        self.sinks = [(what, cell, None) for t, cell in zip(roots, self.losses, strict=True) if not all_finite(t)]
        segment = self.tracer.segments[-1]
        start = len(segment)
        if self.backward:
            self._differentiate(roots, outcome)
        for record in segment[start:]:
            record.places, record.module = self._behind, None
        return outcome

    def _differentiate(self, roots: list[torch.Tensor], outcome: Outcome) -> None:
        targets = [leaf for _, leaf in self.leaves.values() if leaf.requires_grad and leaf.is_leaf]
        outputs = [t for t in roots if t.requires_grad]
        if not outputs or not targets:
            return
        seeds = [torch.ones_like(t) for t in outputs]
        self.tracer.off = False
        try:
            grads = torch.autograd.grad(outputs, targets, seeds, allow_unused=True)
        except RuntimeError as error:
            raise CannotReplay(f"the gradients cannot be computed again: {str(error).splitlines()[0]}") from error
        finally:
            self.tracer.off = True
        self._keep.extend(grads)
        for leaf, grad in zip(targets, grads, strict=True):
            if grad is not None:
                outcome.gradients += 1
                if not all_finite(grad):
                    outcome.bad_gradients += 1
                    self.sinks.append(("gradient", self.tracer.cell(grad), f"@{id(leaf)}"))


class Again:
    """What a Converter and a TorchRun read of an observer."""

    def __init__(self, observer: TorchObserver, retraced: Retraced) -> None:
        self.retraced = retraced  # keeps alive what is known by identity
        self.tracer = retraced.tracer
        self.frames = observer.frames
        self.hooks = observer.hooks
        self.constructions = observer.constructions
        self.keras_steps = observer.keras_steps
        self.training = observer.training
        self.steps: list[Step] = []
        self.current = Step(observer.current.index)
        self.sinks = retraced.sinks
        self.losses = retraced.losses if retraced.backward else []
        self.saw_backward = retraced.backward
        self.gradients: list[set[int]] = []
        self.final_gradients = (0, 0)
        self.made_at: list[Any] = []
        self.optimizers: list[Any] = []
        self.read: list[Cell] = []
        self.names = retraced.names
