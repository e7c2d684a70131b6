"""Watches a JAX program: what each step gives, whether it is finite, and the calls of the last steps."""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from numdebug.observe import Stop
from numdebug.observe.frames import Frames
from numdebug.observe.jax.capture import Capture, Entry
from numdebug.observe.jax.loops import has_transpose, training_loop
from numdebug.observe.jax.sites import Sites
from numdebug.observe.jax.structural import floating
from numdebug.recording import Step
from numdebug.report.model import Observed

HISTORY = 20_000  # steps whose loss is kept
PAUSE = 0.25  # seconds between two steps in the journal


class JaxObserver:
    """One run of the program. A step begins with a call that differentiates: jitted or eager."""

    def __init__(self, folder: Path, journal: Any, options: dict[str, Any]) -> None:
        self.journal = journal
        self.frames = Frames(folder)
        self.sites = Sites(self.frames)
        self.capture = Capture(self.sites, self)
        self.max_steps: int | None = options.get("max_steps")
        self.steps: list[Step] = []
        self.current = Step(0)
        self.started = False  # the current step has differentiated something
        self.saw_backward = False
        self.saw_forward = False
        self.first_bad: int | None = None
        self.rerun: int | None = None
        self.threads = False
        self.stopped_because = "the program ended"
        self.sinks: list[tuple[str, Any, str | None]] = []  # kind, the program's array, name
        self.taken: deque[Any] = deque(maxlen=400)  # arrays whose numbers the program read
        self.derivatives: deque[tuple[int, Any, list[tuple[str, Any, Any]]]] = deque(maxlen=4)  # step, loss, (name, argument, gradient)
        self.after_first_step: Callable[[], None] | None = None
        self.ended = False
        self.keras_steps: Any = None
        self._transposed: dict[int, tuple[Any, bool]] = {}
        self._said = -1
        self._journalled = 0.0
        self.capture.attach()

    # -- what others ask -------------------------------------------------------------------------------------------

    @property
    def computed(self) -> bool:
        """A number that the program computed was read or printed."""
        made = {id(out) for entry in self.capture.entries() for out in entry.outs}
        return any(id(a) in made and is_float(a) for a in self.taken)

    @property
    def ops(self) -> int:
        """Calls seen, and what jitted ones consist of."""
        return self.capture.count

    def observed(self) -> Observed:
        """For the report."""
        return Observed(
            ops=self.capture.count,
            steps=max(1, len(self.steps)),
            backward=self.saw_backward,
            first_bad_step=self.first_bad if any(what != "output" for what, _, _ in self.sinks) else None,
            stopped_because=self.stopped_because,
        )

    def run(self, options: dict[str, Any]) -> Any:
        """What was recorded, as a Run; None where nothing was."""
        from numdebug.observe.arrays.arrayrun import ArrayRun
        from numdebug.observe.jax.convert import Converter

        if not self.capture.entries():
            return None
        self.capture.quiet += 1
        try:
            return ArrayRun(Converter(self).convert(), options)
        finally:
            self.capture.quiet -= 1

    def expire(self) -> None:
        """The time is up."""
        self.stopped_because = "the time limit was reached"
        self.capture.ending = Stop

    def finish(self) -> None:
        """The program is over."""
        if self.ended:
            return
        self.ended = True
        self.capture.ending = None
        self.capture.detach()
        if self.started and self.first_bad is None:
            self.steps.append(self.current)
        if self.first_bad is None:
            self._left_behind()
        self._journal_step()

    def returned(self, name: str, value: Any) -> None:
        """An output of a call that numdebug made."""
        for path, leaf in jax.tree_util.tree_flatten_with_path(value)[0]:
            if isinstance(leaf, jax.Array) and is_float(leaf):
                self.taken.append(leaf)
                if not finite(leaf):
                    self.sinks.append(("output", leaf, name + jax.tree_util.keystr(path)))

    def loss(self, value: Any) -> None:
        """A value of JAX cannot be differentiated after the fact."""

    def keras(self, layers: Any) -> None:
        """The program has imported Keras."""
        from numdebug.observe.jax.keras import KerasSteps

        self.keras_steps = KerasSteps(self, layers)

    # -- the capture's news ----------------------------------------------------------------------------------------

    def read(self, array: Any) -> None:
        """Numbers leave JAX."""
        self.taken.append(array)

    def before(self, entry: Entry) -> None:
        """A jitted call is about to run."""
        entry.differentiates = self._differentiates(entry.jaxpr)
        if entry.differentiates:
            self._boundary()
        if self.keras_steps is not None:
            self.keras_steps.note(entry, sys._getframe(2))

    def after(self, entry: Entry) -> None:
        """A jitted call has run."""
        if self._users(entry):
            self.saw_forward = True
        if not entry.differentiates:
            return
        self.saw_backward = True
        if entry.trainer is not None:
            self.current.loss, total = self.keras_steps.loss(entry)
            self.current.scaled = hasattr(entry.trainer.optimizer, "inner_optimizer")
            if total is not None:
                self._judge(entry, None if self.current.loss is None or math.isfinite(self.current.loss) else total)
                return
        scalars = [o for o in entry.outs if is_float(o) and o.ndim == 0]
        length = training_loop(entry.jaxpr.jaxpr)
        losses = next((o for o in entry.outs if is_float(o) and o.shape == (length,)), None)
        if losses is not None:  # a whole training run in one call
            self._history(losses)
        elif scalars and self.current.loss is None:
            self.current.loss = float(np.asarray(scalars[0]))
        self._judge(entry, losses if losses is not None else scalars[0] if scalars else None)

    def differentiating(self, arguments: list[tuple[str, Any]]) -> None:
        """Eager: a derivative is about to be taken."""
        self._boundary()

    def differentiated(self, answer: Any, gradients: list[tuple[str, Any, Any]]) -> None:
        """Eager: the derivative of `answer` has been taken."""
        self.saw_backward = self.saw_forward = True
        self.current.loss = float(np.asarray(answer))
        self.derivatives.append((self.current.index, answer, gradients))
        floats = [g for _, _, g in gradients if is_float(g)]
        self.current.gradient_norm = norm(floats)
        if not math.isfinite(self.current.loss):
            self.sinks.append(("loss", answer, None))
        self.sinks += [("gradient", g, tidy(name)) for name, _, g in gradients if is_float(g) and not finite(g)]
        if self.sinks:
            self._bad()

    # -- steps -----------------------------------------------------------------------------------------------------

    def _boundary(self) -> None:
        if not self.started:
            self.started = True
            self.capture.first_step()
            return
        self.steps.append(self.current)
        if len(self.steps) > HISTORY:
            del self.steps[: HISTORY // 2]
        number = self.current.index + 1
        if number == 1 and self.after_first_step is not None:
            self.capture.quiet += 1
            try:
                self.after_first_step()
            finally:
                self.capture.quiet -= 1
        self.current = Step(number)
        if time.monotonic() - self._journalled >= PAUSE:
            self._journal_step()
        if self.max_steps is not None and number >= self.max_steps:
            self.stopped_because = f"--max-steps {self.max_steps}"
            self.started = False
            raise Stop
        self.capture.boundary(number)

    def _history(self, losses: Any) -> None:
        values = [float(v) for v in np.asarray(losses)]
        bad = next((n for n, v in enumerate(values) if not math.isfinite(v)), len(values) - 1)
        first = self.current.index
        self.steps += [Step(first + n, v) for n, v in enumerate(values[:bad])]
        self.current = Step(first + bad, values[bad])

    def _judge(self, entry: Entry, loss: Any) -> None:
        """Loss, gradients and parameters that a jitted step hands back."""
        if loss is not None and not finite(loss):
            self.sinks.append(("loss", loss, None))
        before = {id(a) for a in entry.args}
        names = result_names(entry)
        arguments = {suffix(n): a for n, a in zip(argument_names(entry), entry.args, strict=False)}
        for name, out in zip(names, entry.outs, strict=False):
            if out is loss or not is_float(out) or out.ndim == 0 or id(out) in before or finite(out):
                continue
            source = arguments.get(suffix(name))
            was = source is not None and getattr(source, "shape", None) == out.shape
            self.sinks.append(("parameter" if was else "gradient", out, entry.labels.get(suffix(name)) or tidy(suffix(name))))
        if self.sinks:
            self._bad()

    def _bad(self) -> None:
        self.first_bad = self.current.index
        self.stopped_because = "first bad step"
        self.steps.append(self.current)
        raise Stop

    def _left_behind(self) -> None:
        """Numbers that the program read or printed, and arrays that it keeps under a name."""
        made = {id(out) for entry in self.capture.entries() for out in entry.outs}
        seen: set[int] = set()
        for held in self.taken:
            if id(held) in made and id(held) not in seen and is_float(held) and not finite(held):
                seen.add(id(held))
                self.sinks.append(("output", held, None))
        if not self.sinks:
            for name, held in self.named():
                if id(held) in made and is_float(held) and not finite(held):
                    self.sinks.append(("output", held, name))
        if self.sinks:
            self.first_bad = self.current.index

    def named(self) -> Iterator[tuple[str, Any]]:
        """Arrays under the program's module-level names, also inside containers and modules."""
        for name, value in list(getattr(sys.modules.get("__main__"), "__dict__", {}).items()):
            if name.startswith("__") or isinstance(value, type(sys) | type):
                continue
            try:
                leaves = jax.tree_util.tree_flatten_with_path(value)[0]
            except (TypeError, ValueError):
                continue
            for path, leaf in leaves[:2000]:
                if isinstance(leaf, jax.Array) and not leaf.is_deleted():
                    yield name + jax.tree_util.keystr(path), leaf

    def _journal_step(self) -> None:
        if self.steps and self.steps[-1].index > self._said:
            last = self.steps[-1]
            self._said = last.index
            self._journalled = time.monotonic()
            self.journal.add("step", index=last.index, loss=last.loss, gradient_norm=last.gradient_norm)

    # -- what a call is --------------------------------------------------------------------------------------------

    def _differentiates(self, closed: Any) -> bool:
        known = self._transposed.get(id(closed))
        if known is None:
            known = self._transposed[id(closed)] = (closed, has_transpose(closed.jaxpr))
        return known[1]

    def _users(self, entry: Entry) -> bool:
        """A function of the program's own was jitted, and gives floating-point numbers."""
        file = str(getattr(entry.jaxpr.jaxpr.debug_info, "func_filename", "") or "")
        return file != "" and "site-packages" not in file and any(is_float(o) for o in entry.outs)


def argument_names(entry: Entry) -> list[str]:
    """Of a jitted call: params['w'], x, ..."""
    names = entry.jaxpr.jaxpr.debug_info.arg_names  # None of what a derivative was made of
    return [str(n) for n in names] if names is not None else [f"argument {i}" for i in range(len(entry.args))]


def result_names(entry: Entry) -> list[str]:
    """Of a jitted call: result[0]['w'], ..."""
    info = entry.jaxpr.jaxpr.debug_info
    paths = info.result_paths
    return [str(p) for p in paths] if isinstance(paths, tuple | list) else [f"result[{i}]" for i in range(len(entry.outs))]


def suffix(name: str) -> str:
    """The path inside its container, which a parameter and its new value share: params['w'] and result[0]['w'] give ['w']."""
    first = name.find("[", 1) if not name.startswith("result") else name.find("[", name.find("]") + 1)
    dot = name.find(".", 1)
    places = [p for p in (first, dot) if p > 0]
    return name[min(places) :] if places else name


def tidy(path: str) -> str:
    """['layers'][0]['w'] as layers.0.w"""
    return path.replace("']['", ".").replace("['", ".").replace("']", "").replace("[", ".").replace("]", "").strip(".")


def is_float(held: Any) -> bool:
    dtype = getattr(held, "dtype", None)
    return isinstance(held, jax.Array | np.ndarray) and not jax.dtypes.issubdtype(dtype, jax.dtypes.extended) and floating(dtype)


def finite(held: Any) -> bool:
    """No NaN and no infinity in it."""
    if isinstance(held, jax.Array) and held.is_deleted():
        return True
    array = np.asarray(held)
    with np.errstate(all="ignore"):
        total = array.sum(dtype=np.float64) if array.dtype.kind == "f" else array.astype(np.float32).sum(dtype=np.float64)
    return bool(np.isfinite(total)) or bool(np.isfinite(array.astype(np.float64)).all())


def norm(arrays: list[Any]) -> float | None:
    """Euclidean, over all of them."""
    if not arrays:
        return None
    with np.errstate(all="ignore"):
        return math.sqrt(sum(float(np.square(np.asarray(a).astype(np.float64)).sum()) for a in arrays))
