"""From the tracer's raw records to the framework-neutral Recording."""

from __future__ import annotations

import sys
from typing import Any

import torch

from numdebug.observe.torch.names import canonical, native, scalars_of
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.records import Cell, Raw
from numdebug.recording import Op, Recording, Sink, Site, Value


class Converter:
    """Keeps the way back: `cells` by Value id, `raws` by Op index."""

    def __init__(self, observer: TorchObserver) -> None:
        self.observer = observer
        self.frames = observer.frames
        self.raws: list[Raw] = observer.tracer.records()
        self.cells: dict[int, Cell] = {}
        self._values: dict[int, Value] = {}
        self._index = {raw.index: position for position, raw in enumerate(self.raws)}
        self._sites: dict[Any, Site | None] = {}
        self._modules = _module_names(self.raws, observer)
        self.names = {**_parameter_names(self.raws, observer), **observer.names}
        if observer.keras_steps is not None:
            self.names.update(observer.keras_steps.names())

    def convert(self) -> Recording:
        """The window as a Recording."""
        forward = {raw.seq: position for position, raw in enumerate(self.raws) if raw.seq is not None and raw.phase != "backward"}
        ops = [self._op(position, raw, forward) for position, raw in enumerate(self.raws)]
        for value in list(self._values.values()):  # a write through a view changes what its base holds
            if value.producer is not None and value not in ops[value.producer].outputs:
                ops[value.producer].outputs = (*ops[value.producer].outputs, value)
        steps = self.observer.steps
        recording = Recording(
            ops=ops,
            sinks=[],
            steps=steps,
            framework="torch",
            window=(self.raws[0].step, self.raws[-1].step) if self.raws else (0, 0),
            complete=not self.observer.tracer.dropped,
            why_incomplete="the step's results did not fit into memory" if self.observer.tracer.dropped else None,
        )
        recording.gradients = self.observer.final_gradients
        recording.places.update(self._places())
        for what, cell, name in self.observer.sinks:
            value = self.value(cell)
            producer = recording.producer(value)
            label = None if what == "loss" else self.names.get(int(name[1:]), None) if name and name.startswith("@") else name
            label = label or (value.name if what != "loss" else None)
            recording.sinks.append(Sink(what, value, label, producer.site if producer else None, self.observer.current.index))
        return recording

    def _places(self) -> dict[str, Site]:
        """Where the optimizer was made, and where parameters are updated."""
        found = {"optimizer": self.site(self.observer.made_at[-1])} if self.observer.made_at else {}
        if self.observer.keras_steps is not None:
            found.setdefault("optimizer", self.site(self.observer.keras_steps.layers.optimizer()))
        for raw in self.raws:
            if raw.written and any(c.is_leaf and c.requires_grad for c in raw.written) and raw.phase != "backward":
                found["update"] = self.site(raw.places)
        if "update" not in found:
            gradients = {key for step in self.observer.gradients for key in step}
            for raw in self.raws:
                arithmetic = raw.phase == "forward" and canonical(raw.func) in ("mul", "add", "sub", "div")
                if arithmetic and any(id(c) in gradients for c in raw.cells()):
                    found["update"] = self.site(raw.places)
                    break
        return {role: site for role, site in found.items() if site is not None}

    def value(self, cell: Cell) -> Value:
        """The neutral stand-in for a Cell."""
        known = self._values.get(id(cell))
        if known is not None:
            return known
        number = len(self.cells)
        self.cells[number] = cell
        held = cell.tensor
        tensor = held if held is not None else cell.alive
        producer = self._index.get(cell.producer) if cell.producer is not None else None
        role = "result"
        made_at, made_by = cell.made_at, cell.made_by
        if producer is None:
            origin = self.observer.tracer.origin(cell.storage, cell.address)
            if origin is not None:
                made_at, made_by = origin
            role = "parameter" if cell.requires_grad and cell.is_leaf else "input"
        known = Value(
            number,
            str(tensor.dtype).removeprefix("torch.") if tensor is not None else "unknown",
            tuple(tensor.shape) if tensor is not None else (),
            producer,
            self.names.get(cell.key),
            role,  # type: ignore[arg-type]
            self.site(made_at) if made_at else None,
            made_by.rpartition("::")[2] if made_by else None,
        )
        self._values[id(cell)] = known
        return known

    def name_of(self, key: int) -> str:
        """The name of a parameter by its identity."""
        return self.names.get(key, "a parameter")

    def site(self, places: Any, module: Any = None, step: int | None = None) -> Site | None:
        """Cached: many operations share a line."""
        if not places:
            return None
        name = self._modules.get(id(module)) if module is not None else None
        key = (places[0], name, step)
        if key not in self._sites:
            self._sites[key] = self.frames.site(places, name, step)
        return self._sites[key]

    def _op(self, position: int, raw: Raw, forward: dict[int, int]) -> Op:
        name = canonical(raw.func)
        source = forward.get(raw.node[1]) if raw.node is not None else None
        return Op(
            index=position,
            name=name,
            native=native(raw.func),
            phase=raw.phase,  # type: ignore[arg-type]
            step=raw.step,
            operands=tuple(self.value(cell) for cell in raw.cells()),
            outputs=tuple(self.value(cell) for cell in raw.results()),
            scalars=scalars_of(raw.func, raw.args, raw.kwargs),
            site=self.site(raw.places, raw.module, raw.step),
            frames=(),
            forward=source,
            node=raw.node[0] if raw.node else None,
            in_place=bool(raw.written),
            grad=raw.grad,
        )

    def frames_of(self, op: Op) -> tuple[Any, ...]:
        """Outer to inner."""
        return tuple(self.frames.frame(place) for place in reversed(self.raws[op.index].places))


def _module_names(raws: list[Raw], observer: TorchObserver) -> dict[int, str]:
    """Dotted path of every module seen, from the largest module that contains it."""
    seen = {id(raw.module): raw.module for raw in raws if raw.module is not None}
    roots = [v for v in list(vars(sys.modules["__main__"]).values()) if isinstance(v, torch.nn.Module)]
    roots += [*observer.constructions.roots(), *(m for m in seen.values() if isinstance(m, torch.nn.Module))]
    names: dict[int, str] = {}
    if observer.keras_steps is not None:
        names = {key: name for key, module in seen.items() if (name := observer.keras_steps.module_name(module))}
        seen = {key: module for key, module in seen.items() if key not in names}
    for root in roots:
        for path, module in root.named_modules():
            if id(module) in seen and len(path) > len(names.get(id(module), "")):
                names[id(module)] = path
    return names


def _parameter_names(raws: list[Raw], observer: TorchObserver) -> dict[int, str]:
    """Names by tensor identity: from modules, then from the program's own variables."""
    names: dict[int, str] = {}
    main = list(vars(sys.modules["__main__"]).items())
    modules = [v for _, v in main if isinstance(v, torch.nn.Module)]
    modules += observer.constructions.roots()
    modules += list({id(raw.module): raw.module for raw in raws if isinstance(raw.module, torch.nn.Module)}.values())
    for module in modules:
        for path, tensor in (*module.named_parameters(), *module.named_buffers()):
            names[id(tensor)] = path if len(path) > len(names.get(id(tensor), "")) else names[id(tensor)]
    for name, value in main:
        if isinstance(value, torch.Tensor):
            names.setdefault(id(value), name)
        elif isinstance(value, torch.nn.Module):  # a layer by itself: `head.weight`, as the program writes it
            names.update({id(t): f"{name}.{path}" for path, t in value.named_parameters() if names.get(id(t)) == path and "." not in path})
    for index, optimizer in enumerate(observer.optimizers):
        for number, parameter in enumerate(p for group in optimizer.param_groups for p in group["params"]):
            names.setdefault(id(parameter), f"parameter {number}" + (f" of optimizer {index}" if index else ""))
    return names
