"""Watching a program run: what it needs is set up when the program imports a framework, and not before."""

from __future__ import annotations

import gc
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any, Protocol

from numdebug.load.script import compiled
from numdebug.observe.frames import Frames
from numdebug.observe.imports import when_imported
from numdebug.report.model import Observed


class Stop(BaseException):
    """Raised inside the user's program once enough was seen. Not an Exception, so that `except Exception` lets it pass."""


class Observer(Protocol):
    """What each framework's observer offers."""

    saw_forward: bool
    saw_backward: bool
    computed: bool
    ops: int

    def finish(self) -> None: ...
    def expire(self) -> None: ...
    def returned(self, name: str, value: Any) -> None: ...
    def loss(self, value: Any) -> None: ...
    def observed(self) -> Observed: ...


class Watcher:
    """All observers of one run."""

    def __init__(self, folder: Path, journal: Any, options: dict[str, Any]) -> None:
        self.folder = folder
        self.journal = journal
        self.options = options
        self.observers: dict[str, Observer] = {}
        self.failed = ""  # the exception that ended the program
        self.early: dict[str, list[Any]] = {}  # evidence of the first step, by framework
        self.given_back = False  # a call that numdebug made returned something that is not PyTorch's, which tells by itself
        when_imported("torch", self._torch)
        when_imported("numpy", self._numpy)
        when_imported("jax", self._jax)
        self.layers: Any = None  # of Keras
        when_imported("keras", self._keras)

    def _torch(self) -> None:
        from numdebug.observe.torch.observer import TorchObserver

        observer = TorchObserver(self.folder, self.journal, self.options)
        self.observers["torch"] = observer
        if not self.options.get("window"):
            observer.after_first_step = lambda: self._first_step("torch")

    def _numpy(self) -> None:
        from numdebug.observe.numpy.observer import NumPyObserver

        def others() -> int:
            return sum(o.ops for name, o in self.observers.items() if name != "numpy")

        self.observers["numpy"] = NumPyObserver(self.folder, self.options, others)

    def _jax(self) -> None:
        try:
            from numdebug.observe.jax.observer import JaxObserver
        except (ImportError, AttributeError) as why:  # its inner parts have moved
            version = getattr(sys.modules.get("jax"), "__version__", "unknown")
            self.journal.add("note", text=f"JAX {version} is not observed: numdebug knows JAX 0.10 ({why})")
            return
        jax: Any = sys.modules["jax"]
        for switch in ("jax_debug_nans", "jax_debug_infs"):  # from the environment: they would end the program before it is looked at
            if getattr(jax.config, switch):
                jax.config.update(switch, False)
                self.journal.add("note", text=f"{switch.upper()} is switched off for this run: it ends a program at the first NaN or inf")
        observer = JaxObserver(self.folder, self.journal, self.options)
        self.observers["jax"] = observer
        observer.after_first_step = lambda: self._first_step("jax")

    def _keras(self) -> None:
        from numdebug.observe.keras import Layers

        if any("keras.src.ops.operation" in sys.modules and hasattr(o, "keras") for o in self.observers.values()):
            self.layers = Layers(Frames(self.folder))
            for observer in self.observers.values():
                if hasattr(observer, "keras"):
                    observer.keras(self.layers)

    def _first_step(self, name: str) -> None:
        """Silent harm triggers nothing: look at set-up and first step while they are at hand."""
        from numdebug.probing import asked, probes

        try:
            run = self.run(name)
        except Exception:  # of ours: the program goes on
            self.journal.add("failure", where="looking at the first step", traceback=traceback.format_exc())
            return
        early = [(question, probe) for question, probe in probes().items() if getattr(probe, "EARLY", False)] if run else []
        facts = [fact for question, probe in early for fact in asked(question, probe, run, self.journal)]
        self.early[name] = [replace(e, id=f"F{n + 1}") for n, e in enumerate(facts)]
        del run, early
        gc.collect()  # what was recorded of that step refers to itself, and is as large as the step

    def run(self, name: str) -> Any:
        """What that framework's observer recorded, as a Run; None where it recorded nothing."""
        observer: Any = self.observers[name]
        if name != "torch":
            return observer.run(self.options)
        from numdebug.observe.torch.torchrun import TorchRun

        return TorchRun(observer, self.options) if observer.tracer.records() else None

    @property
    def saw_forward(self) -> bool:
        """A forward pass ran."""
        return self.given_back or any(o.saw_forward for o in self.observers.values())

    @property
    def saw_backward(self) -> bool:
        """A backward pass ran."""
        return any(o.saw_backward for o in self.observers.values())

    @property
    def computed(self) -> bool:
        """Numbers that floating-point operations computed were read or printed."""
        return any(o.computed for o in self.observers.values())

    @property
    def ops(self) -> int:
        """Operations seen."""
        return sum(o.ops for o in self.observers.values())

    def called(self) -> None:
        """numdebug called the program's `main`, which it had not called itself."""
        if "numpy" in self.observers:
            self.observers["numpy"].called = True  # type: ignore[attr-defined]

    def returned(self, name: str, value: Any) -> None:
        """`value` came back from a call that numdebug made: it counts as consumed."""
        self.given_back = self.given_back or not type(value).__module__.startswith("torch")
        for observer in self.observers.values():
            observer.returned(name, value)

    def loss(self, value: Any) -> None:
        """Differentiate a scalar that came back from a call that numdebug made."""
        for observer in self.observers.values():
            observer.loss(value)

    def expire(self) -> None:
        """The time is up: every further operation raises Stop."""
        for observer in self.observers.values():
            observer.expire()

    def code(self, text: str | bytes, path: str) -> CodeType:
        """One of the program's files, compiled; with its operations recorded where an observer works on its source."""
        numpy: Any = self.observers.get("numpy")
        recorded: CodeType | None = numpy.code(text, path) if numpy is not None else None
        return recorded or compiled(text, path)

    def finish(self) -> None:
        """The program has ended: take the hooks away. NumPy is looked at for its own sake, not for that of a framework above it."""
        if "numpy" in self.observers and not self.observers["numpy"].computed:
            self.observers.pop("numpy").finish()
        for observer in self.observers.values():
            observer.finish()
        if self.layers is not None:
            self.layers.remove()
        used = {name: observer for name, observer in self.observers.items() if observer.ops}
        self.observers = used or self.observers  # Keras imports frameworks that it does not compute with


def watch(folder: Path, journal: Any, options: dict[str, Any]) -> Watcher:
    """Start watching; nothing happens until the program imports a framework."""
    return Watcher(folder, journal, options)
