"""What a Keras program builds: where it constructed each layer, loss and optimizer, and which call of the library's belongs to which.

Nothing here imports Keras or asks for a backend: the program's import is waited for, and the package that it loaded is used.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from numdebug.observe.frames import Frames, Place
from numdebug.recording import Site

Places = tuple[Place, ...]


class Layers:
    """Layers, losses, metrics and optimizers of Keras that the program made. `listeners` are told of optimizer steps and scaled losses."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.listeners: list[Any] = []
        self._made: dict[int, tuple[weakref.ref[Any], Places]] = {}
        self._order: list[weakref.ref[Any]] = []
        self._named: tuple[int, dict[str, Any]] = (0, {})  # how many there were, and the last one of each name
        self._optimizers: list[weakref.ref[Any]] = []
        self._undo: list[Callable[[], None]] = []
        self._applying = 0
        self._trainers: frozenset[CodeType] = frozenset()
        fresh()
        self._attach()

    # -- hooks -------------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        source = _Source()
        self._replace(source.operation, "__new__", self._new)  # not __init__, whose signature Keras reads
        for owner in (source.loss, source.optimizer, source.metric):
            self._replace(owner, "__init__", self._init)
        self._calls = [inspect.unwrap(owner.__call__).__code__ for owner in (source.layer, source.operation, source.loss)]
        self._calls += [source.optimizer.apply.__code__, source.scaling.apply.__code__]
        self._between = [source.layer.__call__.__code__, source.optimizer.apply_gradients.__code__]
        self._between += [source.optimizer.stateless_apply.__code__]
        self._shapes = [function.__code__ for function in (source.compute_output_spec,) if function is not None]
        self._trainers = frozenset(inspect.unwrap(getattr(source.trainer, name)).__code__ for name in _ENTRIES)
        for owner in (source.optimizer, source.scaling):
            self._replace(owner, "apply", self._apply)
        self._replace(source.scaling, "scale_loss", self._scale_loss)
        self.teach(self.frames)

    def teach(self, frames: Frames) -> None:
        """Another observer's frames learn what the library's calls are."""
        for kind, codes in ((4, self._calls), (6, self._between), (5, self._shapes)):
            for code in codes:
                frames.mark(code, kind)
        frames.made = self.places

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = owner.__dict__.get(name)
        if original is None:
            return
        replacement = make(original)
        setattr(owner, name, replacement)
        self._undo.append(lambda: setattr(owner, name, original))

    def remove(self) -> None:
        """Everything as it was."""
        while self._undo:
            self._undo.pop()()

    def _new(self, original: Any) -> Any:
        function = original.__func__

        @functools.wraps(function)
        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            made = function(cls, *args, **kwargs)
            self._note(made, sys._getframe(1))
            return made

        return staticmethod(new)

    def _init(self, original: Any) -> Any:
        @functools.wraps(original)
        def init(self_: Any, *args: Any, **kwargs: Any) -> None:
            self._note(self_, sys._getframe(1))
            original(self_, *args, **kwargs)

        return init

    def _note(self, made: Any, frame: FrameType | None) -> None:
        known = self._made.get(id(made))
        if known is not None and known[0]() is made:
            return
        while frame is not None and frame.f_code.co_name == "__init__" and _first(frame) is made:
            frame = frame.f_back  # of a subclass
        ref = weakref.ref(made)
        self._made[id(made)] = (ref, self._constructed(frame))
        self._order.append(ref)
        if hasattr(made, "stateless_apply") and not hasattr(type(made), "_common_apply"):  # a loss scaler comes around another
            self._optimizers.append(ref)

    def _constructed(self, frame: FrameType | None) -> Places:
        """The user's frames; what a layer or loss of the library makes while it is called belongs to the line that constructed that."""
        found: list[Place] = []
        while frame is not None:
            kind = self.frames.kind(frame.f_code)
            if kind == 1:
                found.append((frame.f_code, frame.f_lasti))
            elif kind == 2:
                break
            elif kind == 4 and not found:
                around = self.places(frame.f_locals.get("self"))
                if around:
                    return around
            frame = frame.f_back
        return tuple(found)

    def _apply(self, original: Any) -> Any:
        @functools.wraps(original)
        def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
            if self._applying:
                for listener in self.listeners:
                    listener.applying(optimizer)
                return original(optimizer, grads, trainable_variables)
            self._applying += 1
            try:
                for listener in self.listeners:
                    listener.before_apply(optimizer, trainable_variables)
                result = original(optimizer, grads, trainable_variables)
            finally:
                self._applying -= 1
            for listener in self.listeners:
                listener.after_apply(optimizer)
            return result

        self._between.append(apply.__code__)
        return apply

    def _scale_loss(self, original: Any) -> Any:
        @functools.wraps(original)
        def scale_loss(optimizer: Any, loss: Any) -> Any:
            result = original(optimizer, loss)
            for listener in self.listeners:
                listener.scaled(loss, result)
            return result

        return scale_loss

    # -- what observers ask --------------------------------------------------------------------------------------------

    def places(self, made: Any) -> Places:
        """Where the program constructed it, inner to outer."""
        known = self._made.get(id(made))
        return known[1] if known is not None and known[0]() is made else ()

    def knows(self, made: Any) -> bool:
        """It is one of Keras' own, or a subclass of the program's."""
        known = self._made.get(id(made))
        return known is not None and known[0]() is made

    def named(self, scope: tuple[str, ...]) -> Any:
        """What the innermost of these name scopes was opened for; the last one made under that name."""
        if self._named[0] != len(self._order):
            living = [held for ref in self._order if (held := ref()) is not None]
            self._named = (len(self._order), {str(getattr(held, "name", "")): weakref.ref(held) for held in living})
        for name in reversed(scope):
            ref = self._named[1].get(name)
            held = ref() if ref is not None else None
            if held is not None:
                return held
        return None

    def optimizer(self) -> Places:
        """Where the last optimizer was constructed."""
        for ref in reversed(self._optimizers):
            held = ref()
            if held is not None:
                return self.places(held)
        return ()

    def trainer(self, frame: FrameType | None) -> Any:
        """The model whose fit, evaluate, predict or train_on_batch is running."""
        while frame is not None:
            if frame.f_code in self._trainers:
                return frame.f_locals.get("self")
            frame = frame.f_back
        return None

    def variables(self) -> Iterator[tuple[Any, Any]]:
        """(layer, variable): what can be trained and exists now, each with the layer that holds it."""
        for ref in list(self._order):
            layer = ref()
            if hasattr(layer, "stateless_apply"):  # an optimizer lists what it was given
                continue
            for variable in getattr(layer, "_trainable_variables", None) or ():
                yield layer, variable

    def origin(self, layer: Any, variable: Any) -> tuple[Site | None, str | None]:
        """Where the start value of a variable is written, and what draws it: `normal`, `zeros`, `constant`."""
        places = self.places(layer)
        if not places:
            return None, None
        keyword = f"{variable.name}_initializer"
        kind = type(getattr(layer, keyword, None)).__name__.lower()
        for before in ("random", "truncated", "glorot", "he", "lecun"):
            kind = kind.removeprefix(before)
        call = self.frames.site(places[:1])
        return argument(call, Path(places[0][0].co_filename), keyword) or call, kind


def argument(call: Site | None, file: Path, keyword: str) -> Site | None:
    """The value that a call in a file gives to a keyword."""
    if call is None or call.column is None or not file.is_file():
        return None
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Call) and (node.lineno, node.col_offset + 1, node.end_lineno) == (call.line, call.column, call.end_line):
            for given in node.keywords:
                if given.arg == keyword:
                    v = given.value
                    end = None if v.end_col_offset is None else v.end_col_offset + 1
                    return Site(call.file, v.lineno, v.col_offset + 1, v.end_lineno, end, call.function)
    return None


_ENTRIES = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")


class _Source:
    """The classes of the package that the program imported."""

    def __init__(self) -> None:
        modules = sys.modules
        self.operation = modules["keras.src.ops.operation"].Operation
        self.layer = modules["keras.src.layers.layer"].Layer
        self.loss = modules["keras.src.losses.loss"].Loss
        self.metric = modules["keras.src.metrics.metric"].Metric
        self.optimizer = modules["keras.src.optimizers.base_optimizer"].BaseOptimizer
        self.scaling = modules["keras.src.optimizers.loss_scale_optimizer"].LossScaleOptimizer
        self.trainer = modules["keras.src.models.model"].Model
        self.compute_output_spec = getattr(modules.get("keras.src.backend.torch.core"), "compute_output_spec", None)


def fresh() -> None:
    """A second run of the program in this process gets the layer names and number formats of a first one."""
    state = sys.modules["keras.src.backend.common.global_state"]
    sys.modules["keras.src.utils.naming"].reset_uids()
    state.set_global_attribute("dtype_policy", None)


def _first(frame: FrameType) -> Any:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None


def path(made: Any) -> str | None:
    """A layer's name as Keras shows it, with the layers around it: block/attention."""
    found = getattr(made, "path", None) or getattr(made, "name", None)
    return str(found) if found else None
