"""Training steps of Keras on PyTorch: its optimizers are not torch.optim's."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from numdebug.observe.keras import Layers, path
from numdebug.recording import Site


class Applied:
    """An optimizer of Keras as the observer knows optimizers: groups of parameters with a rate."""

    def __init__(self, optimizer: Any, variables: Any) -> None:
        self.optimizer = optimizer
        rate = optimizer.learning_rate
        self.param_groups = [{"params": [v.value for v in variables], "lr": float(getattr(rate, "value", rate))}]


class KerasSteps:
    """Told by Layers; tells the observer."""

    def __init__(self, observer: Any, layers: Layers) -> None:
        self.observer = observer
        self.layers = layers
        self.optimizers: dict[int, Applied] = {}
        self.inner = False  # the optimizer inside a loss scaler was reached
        self._held: dict[int, tuple[Any, Any]] | None = None
        layers.teach(observer.frames)
        layers.listeners.append(self)

    def before_apply(self, optimizer: Any, variables: Any) -> None:
        """An optimizer is about to update."""
        if self.observer.hooks.elsewhere or self.observer.ended:
            return
        variables = list(variables if variables is not None else optimizer._trainable_variables)
        with self.observer.quietly():
            applied = Applied(optimizer, variables)
            known = self.optimizers.setdefault(id(optimizer), applied)
            known.param_groups = applied.param_groups
        self.inner = False
        self.observer.before_step(known)
        self.observer.tracer.phase = "optimizer"

    def applying(self, optimizer: Any) -> None:
        """The gradients were finite: a loss scaler lets its optimizer work."""
        self.inner = True

    def after_apply(self, optimizer: Any) -> None:
        """It has updated."""
        if self.observer.hooks.elsewhere or self.observer.ended:
            return
        self.observer.tracer.phase = None
        if hasattr(optimizer, "inner_optimizer") and not self.inner:
            self.observer.current.skipped = True
        self.observer.after_step(self.optimizers[id(optimizer)])

    def scaled(self, loss: Any, result: Any) -> None:
        """A loss scaler has multiplied the loss."""
        if isinstance(result, torch.Tensor) and not self.observer.hooks.elsewhere and not self.observer.ended:
            self.observer.scaling(loss)
            self.observer.hooks.scaled = [weakref.ref(result)]

    def names(self) -> dict[int, str]:
        """Of parameters, by identity: dense/kernel."""
        return {id(variable.value): str(variable.path) for _, variable in self.layers.variables()}

    def origin(self, parameter: torch.Tensor) -> tuple[Site | None, str | None] | None:
        """Where its start value is written, and what draws it."""
        if self._held is None:
            self._held = {id(variable.value): (layer, variable) for layer, variable in self.layers.variables()}
        known = self._held.get(id(parameter))
        return self.layers.origin(*known) if known is not None else None

    def module_name(self, module: Any) -> str | None:
        """The path of a layer of Keras."""
        return path(module) if self.layers.knows(module) else None

    def made(self, module: Any) -> Any:
        """Where a layer of the library's was constructed."""
        own = type(module).__module__.startswith("keras.")
        return self.layers.places(module) or None if own else None
