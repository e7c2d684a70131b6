"""Training steps of Keras on JAX: one jitted call each, whose state is lists of arrays without names, and whose loss is no result."""

from __future__ import annotations

import re
from types import FrameType
from typing import Any

import numpy as np

from numdebug.observe.arrays.graph import Graph
from numdebug.observe.jax.capture import Entry
from numdebug.observe.keras import Layers
from numdebug.recording import Op, Recording, Site, Value

METRICS = 3  # the part of a training step's state that holds them


class KerasSteps:
    """Told of every jitted call that differentiates."""

    def __init__(self, observer: Any, layers: Layers) -> None:
        self.observer = observer
        self.layers = layers
        self._labels: dict[int, tuple[Any, dict[str, str]]] = {}
        layers.teach(observer.frames)
        observer.sites.layers = layers

    def note(self, entry: Entry, frame: FrameType | None) -> None:
        """Which model's step it is, and what its variables are called."""
        model = self.layers.trainer(frame)
        if model is None:
            return
        entry.trainer = model
        known = self._labels.get(id(entry.jaxpr))
        if known is None:
            known = self._labels[id(entry.jaxpr)] = (entry.jaxpr, self._names(model, entry.differentiates))
        entry.labels = known[1]

    def _names(self, model: Any, trains: bool) -> dict[str, str]:
        """By path inside the state: dense/kernel."""
        found = {}
        parts = [model.trainable_variables, model.non_trainable_variables]
        if trains:
            parts.append(getattr(model.optimizer, "variables", ()))
        for part, variables in enumerate(parts):
            found.update({f"[{part}][{number}]": str(variable.path) for number, variable in enumerate(variables)})
        return found

    def into(self, graph: Graph, scopes: list[tuple[str, ...]]) -> None:
        """Layers in which operations ran; of Keras' own ones, the lines that constructed them."""
        for index, scope in enumerate(scopes):
            layer = self.layers.named(scope)
            if layer is None:
                continue
            graph.modules[index] = id(layer)
            site = self.layers.frames.site(self.layers.places(layer)) if type(layer).__module__.startswith("keras.") else None
            if site is not None:
                graph.made[index] = site

    def origins(self) -> dict[str, tuple[Site | None, str | None]]:
        """By name: where the start value of a variable is written, and what draws it."""
        return {str(variable.path): self.layers.origin(layer, variable) for layer, variable in self.layers.variables()}

    def loss(self, entry: Entry) -> tuple[float | None, Any]:
        """The loss of this step, from what the step adds to its running mean; and the array that holds that sum."""
        tracker = getattr(entry.trainer, "_loss_tracker", None)
        variables = list(entry.trainer.metrics_variables)
        places = [next((n for n, v in enumerate(variables) if v is getattr(tracker, name, None)), None) for name in ("total", "count")]
        if None in places:
            return None, None
        names = [f"[{METRICS}][{place}]" for place in places]
        before = {_tail(n): a for n, a in zip(_arguments(entry), entry.args, strict=False)}
        after = {_tail(n): a for n, a in zip(_results(entry), entry.outs, strict=False)}
        if not all(name in before and name in after for name in names):
            return None, None
        held = [entry.copies.get(id(before[name]), before[name]) for name in names]
        (total, count), (new_total, new_count) = (map(_number, held), (_number(after[name]) for name in names))
        with np.errstate(all="ignore"):
            return (new_total - total) / (new_count - count) if new_count != count else None, after[names[0]]


def differentiated(recording: Recording) -> Value | None:
    """The scalar that the last step differentiates: the first one that everything with a derivative in the step leads to."""
    step = max((op.step for op in recording.ops if op.phase == "backward"), default=-1)
    behind = sorted({op.forward for op in recording.ops if op.step == step and op.phase == "backward" and op.forward is not None})
    bits = {index: 1 << n for n, index in enumerate(behind)}
    reach: list[int] = []
    best, most = None, 0
    for op in recording.ops:
        mask = bits.get(op.index, 0)
        for operand in op.operands:
            if operand.producer is not None and operand.producer < op.index:
                mask |= reach[operand.producer]
        reach.append(mask)
        if op.phase == "forward" and op.step == step and _is_scalar(op) and mask.bit_count() > most:
            best, most = op.outputs[0], mask.bit_count()
    return best


def _is_scalar(op: Op) -> bool:
    return bool(op.outputs) and op.outputs[0].shape == () and op.outputs[0].dtype.startswith(("float", "bfloat"))


def _tail(name: str) -> str:
    """The last two indices: the part of the state, and the number of the variable in it."""
    found = re.search(r"\[\d+\]\[\d+\]$", name)
    return found.group() if found else name


def _arguments(entry: Entry) -> list[str]:
    return [str(n) for n in entry.jaxpr.jaxpr.debug_info.arg_names]


def _results(entry: Entry) -> list[str]:
    paths = entry.jaxpr.jaxpr.debug_info.result_paths
    return [str(p) for p in paths] if isinstance(paths, tuple | list) else []


def _number(held: Any) -> float:
    return float(np.asarray(held))


def made_optimizer(layers: Layers, observer: Any) -> Site | None:
    """Where the program constructed its optimizer."""
    places = layers.optimizer()
    return observer.frames.site(places) if places else None


