"""Where PyTorch lets us look on: backward passes, optimizer steps, loss scaling and hand-written autograd functions.

Every replacement calls the original with the same arguments and hands back its result; `remove` puts the originals back.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from numdebug.observe.torch.checks import Check, watched
from numdebug.observe.torch.trace import Tracer


class Hooks:
    """Installs the hooks for `observer` and takes them away again."""

    def __init__(self, observer: Any, tracer: Tracer) -> None:
        self.observer = observer
        self.tracer = tracer
        self.process = os.getpid()
        self.thread = threading.get_ident()
        self.scaled: list[weakref.ref[torch.Tensor]] = []
        self.checks: list[Check] = []  # gradient checks that the program makes
        self._undo: list[Any] = []
        self._replace(torch.autograd, "_engine_run_backward", self._backward)
        self._replace(torch.amp.GradScaler, "scale", self._scale)
        self._replace(torch.amp.GradScaler, "update", self._update)
        self._replace(torch.optim.Optimizer, "__init__", self._made)
        self._replace(torch.autograd, "gradcheck", lambda original: watched(original, tracer, self.checks))
        self._replace(torch.nn.Module, "__init__", observer.constructions.init)
        self._replace_apply()
        for name in ("tolist", "numpy", "__repr__", "__format__", "__array__"):
            self._consumed(name)
        handles = (register_optimizer_step_pre_hook(self._before_step), register_optimizer_step_post_hook(self._after_step))
        self._undo.extend(handle.remove for handle in handles)

    def remove(self) -> None:
        """Everything as it was."""
        while self._undo:
            self._undo.pop()()

    @property
    def elsewhere(self) -> bool:
        """In a worker process that was forked from the program, or in another thread: the tracer sees neither."""
        if not self._away:
            return False
        self.observer.threads = self.observer.threads or os.getpid() == self.process
        return True

    @property
    def _away(self) -> bool:
        return os.getpid() != self.process or threading.get_ident() != self.thread

    def _replace(self, owner: Any, name: str, make: Any) -> None:
        original = getattr(owner, name)
        setattr(owner, name, make(original))
        self._undo.append(lambda: setattr(owner, name, original))

    def _backward(self, original: Any) -> Any:
        @functools.wraps(original)
        def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            if self.elsewhere or _transforming() or torch._C._current_autograd_node() is not None:  # the latter: a checkpoint's own
                return original(outputs, *args, **kwargs)
            scaled = any(ref() is out for ref in self.scaled for out in outputs)
            self.observer.before_backward(outputs, scaled)
            result = original(outputs, *args, **kwargs)
            # positional: grad_tensors, keep_graph, create_graph, inputs
            create_graph = bool(args[2]) if len(args) > 2 else False
            self.observer.after_backward(outputs, result if isinstance(result, (tuple, list)) else None, scaled, create_graph)
            return result

        return run_backward

    def _scale(self, original: Any) -> Any:
        @functools.wraps(original)
        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            if not self.elsewhere and scaler.is_enabled():
                self.observer.scaling(outputs)
                several = result if isinstance(result, (tuple, list)) else (result,)
                self.scaled = [weakref.ref(t) for t in several if isinstance(t, torch.Tensor)]
            return result

        return scale

    def _update(self, original: Any) -> Any:
        @functools.wraps(original)
        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(scaler, *args, **kwargs)
            if not self.elsewhere and scaler.is_enabled():
                self.observer.scaler_updated()
            return result

        return update

    def _consumed(self, name: str) -> None:
        """Numbers that leave PyTorch for print, lists or NumPy: without a loss, these are what the program is for."""
        original = getattr(torch.Tensor, name)
        own = name in torch.Tensor.__dict__

        @functools.wraps(original)
        def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._away:  # a thread that only reads (Keras' callbacks do) hides no computation
                self.observer.consumed(tensor)
                if name in ("numpy", "__array__"):
                    self.observer.training.numpy(tensor)
            return original(tensor, *args, **kwargs)

        setattr(torch.Tensor, name, method)
        self._undo.append(lambda: setattr(torch.Tensor, name, original) if own else delattr(torch.Tensor, name))

    def _made(self, original: Any) -> Any:
        @functools.wraps(original)
        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if not self.elsewhere:
                self.observer.optimizer_made(self.tracer.frames.places(sys._getframe(1))[0])
            original(optimizer, *args, **kwargs)

        return init

    def _replace_apply(self) -> None:
        """Mark what runs inside a hand-written autograd function, so that a replay can call the function itself."""
        original = torch.autograd.Function.__dict__["apply"]
        call = original.__func__
        tracer = self.tracer

        @functools.wraps(call)
        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if tracer.off or tracer.region is not None or self.elsewhere or _transforming():
                return call(cls, *args, **kwargs)
            region = tracer.enter_region(cls, args, kwargs)
            try:
                result = call(cls, *args, **kwargs)
            finally:
                tracer.region = None
            tracer.leave_region(region, result)
            return result

        torch.autograd.Function.apply = classmethod(apply)  # type: ignore[assignment,method-assign]
        self._undo.append(lambda: setattr(torch.autograd.Function, "apply", original))

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.elsewhere:
            self.observer.before_step(optimizer)
            self.tracer.phase = "optimizer"

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.elsewhere:
            self.tracer.phase = None
            self.observer.after_step(optimizer)


def _transforming() -> bool:
    """Inside torch.func.grad, vmap and the like, where tensors are wrapped and cannot be read; what matters comes out of it."""
    return torch._C._functorch.peek_interpreter_stack() is not None
