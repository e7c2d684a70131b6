"""What training does with parameters: who owns them, which gradients reach them, what optimizers were given. Cheap, at every step."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from numdebug.observe.frames import Place
from numdebug.observe.torch.records import Cell, storage_of
from numdebug.observe.torch.trace import Tracer

KEPT = 8  # backward passes and optimizer steps: those of the recorded window
SAMPLE = 32  # elements by which a parameter that was written without PyTorch's counter noticing is told from one that never changed


@dataclass
class Backward:
    """One recorded backward pass: after which operation it ended, what it differentiated, and the gradients by parameter."""

    after: int
    losses: list[Cell]
    gradients: list[tuple[Cell, Cell]]


@dataclass
class Given:
    """What one recorded optimizer step was given: each parameter with its gradient."""

    after: int
    optimizer: int
    parameters: list[tuple[torch.Tensor, Cell, Cell | None]]


@dataclass
class Leaf:
    """A parameter as it was when a backward pass first reached it, or an optimizer first had it."""

    ref: weakref.ref[torch.Tensor]
    version: int
    sample: torch.Tensor
    loaded: bool  # its values were copied into it: pretrained, or shared with another
    late: bool  # made after the last optimizer was
    places: tuple[Place, ...]  # who made it, where that is known

    @property
    def unchanged(self) -> bool:
        """Nothing has written to it since."""
        tensor = self.ref()
        return tensor is not None and tensor._version == self.version and torch.equal(sample(tensor), self.sample)


@dataclass
class Training:
    """Kept up by the hooks."""

    tracer: Tracer
    backwards: deque[Backward] = field(default_factory=lambda: deque(maxlen=KEPT))
    given: deque[Given] = field(default_factory=lambda: deque(maxlen=KEPT))
    leaves: dict[int, Leaf] = field(default_factory=dict)
    owned: dict[int, weakref.ref[torch.Tensor]] = field(default_factory=dict)  # what some optimizer has, or once had
    handed_out: set[int] = field(default_factory=set)  # storages that NumPy may write to without PyTorch noticing
    constructed: int | None = None  # operations recorded when the last optimizer was constructed
    _copied: set[int] = field(default_factory=set)  # storages that a copy filled
    _born: dict[int, tuple[int, tuple[Place, ...]]] = field(default_factory=dict)  # by storage: the operation that made it
    _scanned: int = -1
    _seen: dict[int, int] = field(default_factory=dict)  # parameters by optimizer

    def optimizer_made(self) -> None:
        """An optimizer is constructed."""
        self.constructed = self.tracer.count

    def numpy(self, tensor: torch.Tensor) -> None:
        """A tensor's memory is handed to NumPy."""
        self.handed_out.add(storage_of(tensor)[0])

    def backward(self, outputs: Iterable[Any], gradients: Iterable[tuple[torch.Tensor | None, torch.Tensor]]) -> None:
        """A recorded backward pass is over. Call it while the tracer is quiet."""
        cell = self.tracer.cell
        losses = [cell(t) for t in outputs if isinstance(t, torch.Tensor)]
        pairs = [(leaf, g) for leaf, g in gradients if leaf is not None]
        for leaf, _ in pairs:
            self._know(leaf)
        self.backwards.append(Backward(self.tracer.count, losses, [(cell(leaf), cell(g)) for leaf, g in pairs]))

    def before_step(self, optimizer: Any, tracing: bool) -> None:
        """An optimizer is about to update. Call it while the tracer is quiet."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if not tracing and self._seen.get(id(optimizer)) == len(parameters):
            return
        self._seen[id(optimizer)] = len(parameters)
        for p in parameters:
            known = self.owned.get(id(p))
            if known is None or known() is not p:
                self.owned[id(p)] = weakref.ref(p)
        if tracing:
            for p in parameters:
                self._know(p)
            cell = self.tracer.cell
            held = [(p, cell(p), cell(p.grad) if p.grad is not None else None) for p in parameters]
            self.given.append(Given(self.tracer.count, id(optimizer), held))

    def owns(self, tensor: torch.Tensor) -> bool:
        """Some optimizer has, or once had, this tensor."""
        known = self.owned.get(id(tensor))
        return known is not None and known() is tensor

    def copied(self, tensor: torch.Tensor) -> bool:
        """Its values were copied into it: from a checkpoint, or from another network."""
        self._scan()
        storage, address = storage_of(tensor)
        origin = self.tracer.origin(storage, address)
        return storage in self._copied or (origin is not None and origin[1] == "aten::clone")  # copy.deepcopy clones

    def leaf(self, tensor: torch.Tensor) -> Leaf | None:
        """What is known of a parameter."""
        known = self.leaves.get(id(tensor))
        return known if known is not None and known.ref() is tensor else None

    def _know(self, tensor: torch.Tensor) -> None:
        if self.leaf(tensor) is not None or tensor.layout is not torch.strided:
            return
        self._scan()
        storage = storage_of(tensor)[0]
        made, places = self._born.get(storage, (-1, ()))
        late = self.constructed is not None and made >= self.constructed
        loaded = storage in self._copied
        self.leaves[id(tensor)] = Leaf(weakref.ref(tensor), tensor._version, sample(tensor), loaded, late, places)

    def _scan(self) -> None:
        """Who made which memory, and what was copied into: from the records since the last look."""
        if self._scanned == self.tracer.count:
            return
        for raw in self.tracer.records():
            if raw.index <= self._scanned or raw.phase == "backward":
                continue
            if raw.written and hasattr(raw.func, "_schema") and raw.func._schema.name == "aten::copy_":
                self._copied.update(c.storage for c in raw.written)
            operands = {c.storage for c in raw.cells()}
            for out in raw.outs:
                if out is not None and out.storage and out.storage not in operands:
                    self._born[out.storage] = (raw.index, raw.places)
                    self._copied.discard(out.storage)
        self._scanned = self.tracer.count


def sample(tensor: torch.Tensor) -> torch.Tensor:
    """Some elements, spread evenly."""
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach().flatten()
    return flat[:: max(1, flat.numel() // SAMPLE)].clone()
