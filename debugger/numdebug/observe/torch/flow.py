"""Gradients by parameter, as each backward pass left them, and where modules were constructed."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from numdebug.observe.torch.records import Cell
from numdebug.run import Gradient

KEPT = 2  # steps, as many as the tracer keeps


class GradientLog:
    """By step: each leaf with its Cell and that of its gradient. The last backward pass of a step wins: gradients add up."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[int, tuple[Any, Cell, Cell]]] = {}

    def note(self, step: int, found: Iterable[tuple[torch.Tensor, Cell, Cell]]) -> None:
        """What one backward pass left behind."""
        kept = self._steps.setdefault(step, {})
        kept.update({id(leaf): (weakref.ref(leaf), weight, gradient) for leaf, weight, gradient in found})
        while len(self._steps) > KEPT:
            del self._steps[min(self._steps)]

    def entries(self) -> Iterator[tuple[int, Any, Cell, Cell]]:
        """(step, leaf, weight, gradient) of leaves that still exist."""
        for step, found in self._steps.items():
            for ref, weight, gradient in found.values():
                leaf = ref()
                if leaf is not None:
                    yield step, leaf, weight, gradient


class Constructions:
    """The user's line that constructed each module."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self._places: dict[int, tuple[weakref.ref[torch.nn.Module], Any]] = {}

    def init(self, original: Any) -> Any:
        """A stand-in for `torch.nn.Module.__init__`."""

        @functools.wraps(original)
        def init(module: Any, *args: Any, **kwargs: Any) -> None:
            self._places[id(module)] = (weakref.ref(module), self.tracer.frames.places(sys._getframe(1))[0])
            original(module, *args, **kwargs)

        return init

    def of(self, module: Any) -> Any:
        """The places (inner to outer) at which a module inside a Sequential was constructed: no line of the program calls it by name."""
        if not isinstance(module, torch.nn.Module) or not type(module).__module__.startswith("torch."):
            return None
        known = self._places.get(id(module))
        if known is None or known[0]() is not module:
            return None
        inside = any(child is module for parent in self._living() if isinstance(parent, torch.nn.Sequential) for child in parent.children())
        return known[1] if inside else None

    def _living(self) -> list[torch.nn.Module]:
        return [module for ref, _ in self._places.values() if (module := ref()) is not None]

    def roots(self) -> list[torch.nn.Module]:
        """Modules that no other module holds."""
        living = self._living()
        held = {id(child) for module in living for child in module.children()}
        return [module for module in living if id(module) not in held]


def gradients(run: Any) -> list[Gradient]:
    """See numdebug.run.Run."""
    converter = run.converter
    found: list[Gradient] = []
    uses = _uses(converter.raws)
    for step, leaf, weight, gradient in run.observer.gradient_log.entries():
        if weight.tensor is None or gradient.tensor is None or gradient.tensor.layout is not torch.strided:
            continue
        g = gradient.tensor.detach().to(torch.float64)
        origin = run.observer.tracer.origin(weight.storage, weight.address)
        made = (converter.site(origin[0]), origin[1].rpartition("::")[2]) if origin is not None else (None, None)
        if run.observer.keras_steps is not None:
            made = run.observer.keras_steps.origin(leaf) or made
        found.append(
            Gradient(
                name=converter.name_of(weight.key),
                step=step,
                size=g.numel(),
                dims=g.dim(),
                norm=float(torch.linalg.vector_norm(g)),
                zeros=int((g == 0).sum()),
                weight_norm=float(torch.linalg.vector_norm(weight.tensor.detach().to(torch.float64))),
                used=tuple(uses.get((step, id(leaf)), ())),
                made_at=made[0],
                made_by=made[1],
            )
        )
    return sorted(found, key=lambda g: (g.step, g.used[:1] or (1 << 60,)))


def _uses(raws: Any) -> dict[tuple[int, int], list[int]]:
    """Positions of the forward operations that read each leaf, by step."""
    uses: dict[tuple[int, int], list[int]] = {}
    for position, raw in enumerate(raws):
        if raw.phase == "forward" and raw.grad:
            for cell in raw.cells():
                if cell.is_leaf and cell.requires_grad:
                    uses.setdefault((raw.step, cell.key), []).append(position)
    return uses
