"""Watches a PyTorch program: a cheap sentinel at every step, and the tracer for the steps that matter."""

from __future__ import annotations

import math
import os
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from numdebug.observe import Stop
from numdebug.observe.frames import Frames
from numdebug.observe.imports import when_imported
from numdebug.observe.torch.finite import all_finite, quick_norm, tensors_in, total_norm
from numdebug.observe.torch.flow import Constructions, GradientLog
from numdebug.observe.torch.hooks import Hooks
from numdebug.observe.torch.records import Cell
from numdebug.observe.torch.trace import Tracer
from numdebug.observe.torch.training import Training
from numdebug.recording import Step
from numdebug.report.model import Observed

TRACED = 50_000  # operations traced from the start, about 3 s of overhead; from there on the sentinel watches alone
_FRESH = torch.default_generator.get_state()  # every run of the program in this process starts from the same random state
HISTORY = 20_000  # steps whose loss and gradient norm are kept
PAUSE = 0.25  # seconds between two steps in the journal while the sentinel watches alone


_WATCHING: weakref.WeakSet[TorchObserver] = weakref.WeakSet()


def _in_worker() -> None:
    for observer in _WATCHING:
        observer.tracer.off = True


os.register_at_fork(after_in_child=_in_worker)  # once: what is registered there stays, and must not keep a run's records alive


class TorchObserver:
    """One run of the program. `first_bad` is the step at which something non-finite was first consumed."""

    def __init__(self, folder: Path, journal: Any, options: dict[str, Any]) -> None:
        self.journal = journal
        self.frames = Frames(folder, torch.nn.Module._call_impl.__code__)
        self.tracer = Tracer(self.frames)
        self.training = Training(self.tracer)
        self.max_steps: int | None = options.get("max_steps")
        self.window: tuple[int, int] | None = options.get("window") and tuple(options["window"])
        self.traced = int(options.get("traced", TRACED))
        self.steps: list[Step] = []
        self.current = Step(0)
        self.saw_backward = False
        self.saw_optimizer = False
        self.first_bad: int | None = None
        self.rerun: int | None = None  # the step that a second run has to trace
        self.stopped_because = "the program ended"
        self.losses: list[Cell] = []
        self.last_losses: list[Cell] = []  # of the last traced step, however long the run goes on
        self.names: dict[int, str] = {}  # of tensors, by identity, where the program cannot tell them
        self.sinks: list[tuple[str, Cell, str | None]] = []
        self.optimizers: list[Any] = []
        self.made_at: list[Any] = []  # where optimizers were constructed
        self.after_first_step: Callable[[], None] | None = None
        self.read: deque[Cell] = deque(maxlen=200)  # tensors that were printed, listed or handed to NumPy
        self.shown: list[Cell] = []  # those that were not finite
        self.gradients: list[set[int]] = []  # cells of the gradients, last steps
        self.final_gradients = (0, 0)
        self.threads = False  # other threads use the framework: they are not observed
        self.unfinished = False
        self.ended = False
        torch.default_generator.set_state(_FRESH)
        self._said = -1  # last step in the journal
        self._journalled = 0.0
        self._others: tuple[Any, list[Any]] = ((), [])  # leaves that no optimizer has, and for which optimizers that was found out
        self._counted = 0
        self._begin = time.monotonic()
        self.gradient_log = GradientLog()
        self.constructions = Constructions(self.tracer)
        self.hooks = Hooks(self, self.tracer)
        self.keras_steps: Any = None
        when_imported("torch._dynamo.trace_rules", _leave_to_python)
        self.process = os.getpid()
        _WATCHING.add(self)
        self.tracer.attach(True)

    # -- what others ask ---------------------------------------------------------------------------------------

    @property
    def saw_forward(self) -> bool:
        """A tensor that requires grad, or a module, was computed with."""
        return self.tracer.saw_forward

    @property
    def computed(self) -> bool:
        """A number that a floating-point operation computed was read or printed."""
        read = (*self.read, *self.tracer.read_off())
        return any(c.producer is not None and c.tensor is not None and c.tensor.is_floating_point() for c in read)

    @property
    def ops(self) -> int:
        """Operations traced."""
        return self.tracer.count

    def observed(self) -> Observed:
        """For the report."""
        return Observed(
            ops=self.tracer.count,
            steps=max(1, len(self.steps)),
            backward=self.saw_backward,
            first_bad_step=self.first_bad if self.rerun is not None or any(what != "output" for what, _, _ in self.sinks) else None,
            stopped_because=self.stopped_because,
        )

    def run(self, options: dict[str, Any]) -> Any:
        """What was recorded, as a Run; None where nothing was."""
        from numdebug.observe.torch.torchrun import TorchRun

        return TorchRun(self, options) if self.tracer.records() else None

    def expire(self) -> None:
        """The time is up."""
        self.stopped_because = "the time limit was reached"
        self.tracer.ending = Stop

    def finish(self) -> None:
        """The program is over: look at what a program without a backward pass leaves behind, then take the hooks away."""
        if self.ended:
            return
        self.ended = True
        self.tracer.ending = None
        self.tracer.off = True
        if self.first_bad is None:
            self._left_behind()
            grads = [leaf.grad for leaf in self._leaves() if leaf.grad is not None and leaf.grad.layout is torch.strided]
            self.final_gradients = (len(grads), sum(1 for g in grads if not bool(g.any())))
        self.tracer.attach(False)
        self._journal_step()
        self.hooks.remove()
        self.tracer.before_forward = None

    def returned(self, name: str, value: Any) -> None:
        """An output of a call that numdebug made."""
        for path, tensor in tensors_in(name, value):
            if tensor.is_floating_point() or tensor.is_complex():
                self._sink("output", tensor, path)

    def loss(self, value: torch.Tensor) -> None:
        """Differentiate a scalar of a call that numdebug made."""
        value.backward()

    def keras(self, layers: Any) -> None:
        """The program has imported Keras."""
        from numdebug.observe.torch.keras import KerasSteps

        self.keras_steps = KerasSteps(self, layers)

    def quietly(self) -> _Quiet:
        """For a moment, what runs is not the program's."""
        return _Quiet(self.tracer)

    # -- the sentinel ------------------------------------------------------------------------------------------

    def before_backward(self, outputs: Any, scaled: bool) -> None:
        """The loss, just before it is differentiated."""
        if self.unfinished:  # untraced, and without an optimizer: a step ends where the next backward pass begins
            self.unfinished = False
            self._next_step()
        self.saw_backward = True
        if not self.tracing and len(outputs) == 1 and isinstance(outputs[0], torch.Tensor) and outputs[0].is_floating_point():
            self.losses = []
            self.current.scaled |= scaled
            if outputs[0].numel() == 1 and not scaled:
                self.current.loss = outputs[0].item()
            return
        with _Quiet(self.tracer):
            self.current.scaled |= scaled
            self.losses = [self.tracer.cell(t) for t in outputs if isinstance(t, torch.Tensor)] if self.tracing else []
            self.last_losses = self.losses or self.last_losses
            numbers = [t.detach() for t in outputs if isinstance(t, torch.Tensor) and t.numel() == 1 and t.is_floating_point()]
            if numbers and not scaled:
                self.current.loss = float(numbers[0])

    def after_backward(self, outputs: Any, result: Any, scaled: bool, create_graph: bool) -> None:
        """The gradients, just after they were computed."""
        if self.tracing or result is not None or create_graph or not self._fine(scaled):
            self._look(outputs, result, scaled, create_graph)
        if not self.saw_optimizer:
            if self.tracing:
                self.tracer.before_forward = self._next_step
            else:
                self.unfinished = True

    def _fine(self, scaled: bool) -> bool:
        """The cheap look, while nothing is recorded: a scalar loss and gradients that are certainly finite. False: look closely."""
        if not scaled and (self.current.loss is None or not math.isfinite(self.current.loss)):
            return False
        groups = [group["params"] for optimizer in self.optimizers for group in optimizer.param_groups]
        known = (len(self.tracer.leaves), [len(group) for group in groups])
        if self._others[0] != known:
            theirs = {id(p) for group in groups for p in group}
            self._others = (known, [ref for key, ref in self.tracer.leaves.items() if key not in theirs])
        grads = [g for group in groups for p in group if (g := p.grad) is not None]
        grads += [leaf.grad for ref in self._others[1] if (leaf := ref()) is not None and leaf.grad is not None]
        norm = quick_norm(grads)
        if norm is None:
            return False
        self.current.gradient_norm = norm
        return scaled or math.isfinite(norm)

    def _look(self, outputs: Any, result: Any, scaled: bool, create_graph: bool) -> None:
        if create_graph and result is not None:
            return  # an inner derivative: what matters of it reaches the loss
        with _Quiet(self.tracer):
            if result is not None:
                grads = [(None, g) for g in result if isinstance(g, torch.Tensor)]
            else:
                grads = [(leaf, leaf.grad) for leaf in self._leaves() if leaf.grad is not None]
            if self.tracing:
                self.gradients = [*self.gradients[-3:], {id(self.tracer.cell(g)) for _, g in grads}]
                self.gradient_log.note(
                    self.current.index, ((leaf, self.tracer.cell(leaf), self.tracer.cell(g)) for leaf, g in grads if leaf is not None)
                )
                self.training.backward(outputs, grads)
            norm = None if create_graph else quick_norm([g for _, g in grads])
            if norm is None:
                norm = total_norm([g for _, g in grads])
            self.current.gradient_norm = norm
            if scaled:
                return
            loss = self.current.loss
            bad_loss = loss is not None and not math.isfinite(loss)
            healthy = norm is not None and math.isfinite(norm) and not bad_loss
            if healthy and all(all_finite(t) for t in outputs if isinstance(t, torch.Tensor)):
                return
            wrong = [(leaf, g) for leaf, g in grads if not all_finite(g)]
            for t in outputs:
                if not all_finite(t):
                    self._sink("loss", t, None)
            for leaf, g in wrong:
                self._sink("gradient", g, None, leaf)
            if self.sinks:
                self._bad()

    def scaling(self, outputs: Any) -> None:
        """The loss before a loss scaler multiplies it: this one has no excuse for being non-finite."""
        several = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        with _Quiet(self.tracer):
            for t in several:
                if isinstance(t, torch.Tensor) and t.numel() == 1:
                    self.current.loss = float(t.detach())
                if isinstance(t, torch.Tensor) and not all_finite(t):
                    self._sink("loss", t, None)
            if self.sinks:
                self._bad()

    def scaler_updated(self) -> None:
        """A loss scaler has finished a step, which it may have dropped without any optimizer hook."""
        if self.current.loss is not None:
            self.current.skipped = True
            self._next_step()

    def optimizer_made(self, places: Any) -> None:
        """The line that constructs an optimizer, where its rate and epsilon are written."""
        self.made_at.append(places)
        self.training.optimizer_made()

    def before_step(self, optimizer: Any) -> None:
        """An optimizer is about to update."""
        if not any(o is optimizer for o in self.optimizers):
            self.optimizers.append(optimizer)
        self.saw_optimizer = True
        with _Quiet(self.tracer):
            self.training.before_step(optimizer, self.tracing)
        self.tracer.before_forward = None
        rates = [group["lr"] for group in optimizer.param_groups if isinstance(group.get("lr"), (int, float, torch.Tensor))]
        self.current.learning_rate = float(rates[0]) if rates else None

    def after_step(self, optimizer: Any) -> None:
        """An optimizer has updated: the parameters are consumed by whatever comes next."""
        if self.tracing:
            with _Quiet(self.tracer):
                parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
                with torch.no_grad():
                    norm = quick_norm(parameters)
                if norm is None or not math.isfinite(norm):
                    for parameter in parameters:
                        if not all_finite(parameter):
                            self._sink("parameter", parameter, None)
                if self.sinks:
                    self._bad()
        self._next_step()

    def _next_step(self) -> None:
        self.steps.append(self.current)
        if len(self.steps) > HISTORY:
            del self.steps[: HISTORY // 2]
        number = self.current.index + 1
        if number == 1 and self.after_first_step is not None and self.tracing:
            with _Quiet(self.tracer):
                self.after_first_step()
        self.current = Step(number)
        self.tracer.before_forward = None
        if self.tracing:  # when tracing ends, the last traced steps stay: they are the middle of a long run
            self.tracer.boundary()
        self.tracer.step = number
        if self.tracing or time.monotonic() - self._journalled >= PAUSE:
            self._journal_step()
        if self.tracer.ending is not None and not self.tracing:
            raise self.tracer.ending()
        if self.max_steps is not None and number >= self.max_steps:
            self.stopped_because = f"--max-steps {self.max_steps}"
            raise Stop
        if self.window is not None:
            self._trace(number < 1 or number >= self.window[0])
        elif self.tracer.count > self.traced:
            self._trace(False)

    def _journal_step(self) -> None:
        """The last step, once."""
        if self.steps and self.steps[-1].index > self._said:
            last = self.steps[-1]
            self._said = last.index
            self._journalled = time.monotonic()
            self.journal.add("step", index=last.index, loss=last.loss, gradient_norm=last.gradient_norm)

    def _trace(self, on: bool) -> None:
        """Switch the tracer; inside a moment of quiet the switch takes effect when that is over."""
        self.tracer.off = not on
        self.tracer.attach(on)

    @property
    def tracing(self) -> bool:
        """Whether operations are being recorded now."""
        return not self.tracer.off or self.tracer.quiet

    def _bad(self) -> None:
        self.first_bad = self.current.index
        self.stopped_because = "first bad step"
        if not self.tracing:
            self.rerun = self.current.index
        self.steps.append(self.current)
        raise Stop

    def _leaves(self) -> Iterator[torch.Tensor]:
        living = {id(leaf) for ref in self.tracer.leaves.values() if (leaf := ref()) is not None}
        for ref in list(self.tracer.leaves.values()):
            leaf = ref()
            if leaf is not None:
                yield leaf
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                yield from (p for p in group["params"] if id(p) not in living)

    def _sink(self, what: str, tensor: torch.Tensor, name: str | None, leaf: torch.Tensor | None = None) -> None:
        with _Quiet(self.tracer):
            cell = self.tracer.cell(tensor)
            self.sinks.append((what, cell, name if leaf is None else f"@{id(leaf)}"))

    def consumed(self, tensor: torch.Tensor) -> None:
        """A tensor's numbers leave PyTorch."""
        if self.tracing and not self.tracer.quiet and self.tracer.region is None and tensor.layout is torch.strided:
            with _Quiet(self.tracer):
                self.read.append(self.tracer.cell(tensor))
                if len(self.shown) < 100 and tensor.device.type == "cpu" and not all_finite(tensor):
                    self.shown.append(self.read[-1])

    def _left_behind(self) -> None:
        """Numbers that the program read off or printed, and in a program without a loss the arrays that it keeps."""
        for cell in self.tracer.read_off():
            if cell.tensor is not None and not all_finite(cell.tensor):
                self.sinks.append(("output", cell, None))
        self.sinks.extend(("output", cell, None) for cell in self.shown if cell.tensor is not None)
        if not self.sinks:
            for name, value in list(getattr(sys.modules.get("__main__"), "__dict__", {}).items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point() and not all_finite(value):
                    self.sinks.append(("output", self.tracer.cell(value), name))
        if self.sinks:
            self.first_bad = self.current.index


def _leave_to_python() -> None:
    """A program that compiles: the compiler must not trace what numdebug itself does."""
    rules = sys.modules["torch._dynamo.trace_rules"]
    add = getattr(rules, "add", None)
    if add is not None:
        add("numdebug")


class _Quiet:
    """Our own operations leave no record."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __enter__(self) -> None:
        self.before = (self.tracer.off, self.tracer.quiet)
        self.tracer.quiet = self.tracer.quiet or not self.tracer.off
        self.tracer.off = True

    def __exit__(self, *_: object) -> None:
        self.tracer.off, self.tracer.quiet = self.before
