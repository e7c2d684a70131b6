"""The tracer: every operation that PyTorch dispatches, with its line, its operands and its results, as it happens.

The hot path only keeps references; names, numbers and sites are worked out later, and only for the steps that matter.
Results are shared with the program and not copied: a storage is copied once, just before the program overwrites it.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from numdebug.observe.frames import SHAPES, Frames, Place
from numdebug.observe.torch.asked import MODES, Calls
from numdebug.observe.torch.records import PLAIN, Cell, Raw, storage_of

_node = torch._C._current_autograd_node
_sequence = torch._C._autograd._get_sequence_nr
_grad_enabled = torch.is_grad_enabled
_Tensor = torch.Tensor

MEMORY = 2 << 30  # bytes of results held for the window; beyond it, lines are still known, numbers are not
SEGMENT = 40_000  # operations without a step boundary before the window slides (about 40 MB of records)


class _Kind:
    """What the schema of an operator says, looked up once."""

    __slots__ = ("modes", "mutates", "random", "skip", "views")

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.skip = func.namespace in ("profiler", "prim", "prims", "rngprims")
        self.mutates = [
            (i, a.name, a.kwarg_only) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write
        ]
        self.views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.modes = schema.name in MODES


class Tracer(TorchDispatchMode):
    """Records operations into segments (steps); keeps the last `keep` finished segments and the current one."""

    def __init__(self, frames: Frames, keep: int = 2) -> None:
        super().__init__()
        self.frames = frames
        self.calls = Calls(frames)
        self.count = 0
        self.step = 0
        self.phase: str | None = None  # set by hooks while an optimizer works
        self.attached = False
        self.off = False  # let operations pass without a record
        self.quiet = False  # off for a moment, while numdebug itself computes
        self.ending: Callable[[], BaseException] | None = None  # set to stop the program at its next operation
        self.region: Raw | None = None
        self.segments: deque[list[Raw]] = deque([[]])
        self._made: deque[list[Cell]] = deque([[]])  # Cells by the segment in which they were made, or last found in use
        self.keep = keep
        self.bytes = 0
        self.dropped = False
        self.epoch = 0
        self.saw_forward = False
        self.leaves: dict[int, weakref.ref[torch.Tensor]] = {}  # leaves that require grad, by id
        self.before_forward: Callable[[], None] | None = None
        self._cells: dict[int, Cell] = {}
        self._by_storage: dict[int, list[Cell]] = {}
        self._writes: dict[int, tuple[int, int]] = {}  # storage -> (count, index of last writer)
        self._origin: dict[int, tuple[int, tuple[Place, ...], str]] = {}  # storage -> (address, places, operation)
        self._kinds: dict[Any, _Kind] = {}
        self._purge_at = 20_000
        self._last_sequence = _sequence()
        self._backward = False

    def attach(self, on: bool) -> None:
        """Stand at the bottom of PyTorch's stack of modes, or leave it: even a mode that does nothing triples the time of a tiny model.

        Modes of the program's own stay where they are. While the tracer itself handles an operation it can do neither.
        """
        if on is self.attached:
            return
        above: list[Any] = []
        stack = _get_current_dispatch_mode_stack()
        if not on and self not in stack:
            return
        for _ in stack if on else range(len(stack) - 1 - stack.index(self)):
            above.append(_pop_mode())
        if on:
            self.__enter__()
        else:
            self.__exit__(None, None, None)
        for mode in reversed(above):
            _push_mode(mode)
        self.attached = on

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would wrap the method below and import the whole compiler for it (1.7 s); a program that compiles runs eagerly anyway."""
        return False

    # -- the hot path ------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.off:
            return func(*args, **kwargs)
        if self.ending is not None:
            raise self.ending()
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _Kind(func)
        if kind.skip:
            return func(*args, **kwargs)
        node = _node()
        self._backward = node is not None
        grad = _grad_enabled()
        if self.before_forward is not None and node is None and grad and self.phase is None:
            self._maybe_boundary(args)
        places, module = self.frames.places(sys._getframe(1))
        if module is SHAPES:
            return func(*args, **kwargs)
        phase = "backward" if node is not None else (self.phase if self.phase and not grad else "forward")
        record = Raw(self.count, func, self._freeze(args), self._freeze(kwargs) if kwargs else {}, [], places, phase, self.step)
        record.grad = grad
        record.module = module
        record.region = self.region
        if node is not None:
            record.node = (node.name(), node._sequence_nr())
        if kind.modes and node is None:
            self.calls.note(record)
        if kind.random:
            record.rng = _rng_state(kwargs)
        if kind.mutates:
            self._before_write(kind, record)
        out = func(*args, **kwargs)
        self.count += 1
        sequence = _sequence()
        if sequence != self._last_sequence:
            self._last_sequence = sequence
            if node is None:
                record.seq = sequence - 1
                self.saw_forward = True
        if module is not None:
            self.saw_forward = True
        if kind.mutates:
            self._after_write(kind, record, args, kwargs)
        self._register(record, out)
        segment = self.segments[-1]
        segment.append(record)
        if len(segment) > SEGMENT:
            self.boundary()
        return out

    def enter_region(self, function: Any, args: Any, kwargs: Any) -> Raw:
        """A hand-written autograd function is called; what it dispatches belongs to it."""
        places, module = self.frames.places(sys._getframe(1))
        record = Raw(self.count, function, self._freeze(args), self._freeze(kwargs), [], places, "forward", self.step)
        record.grad = _grad_enabled()
        record.module = module
        self.count += 1
        self.segments[-1].append(record)
        self.region = record
        return record

    def leave_region(self, record: Raw, result: Any) -> None:
        """The function has returned: its results are what later operations read."""
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            record.outs.append(self._new(tensor, record.index, *storage_of(tensor), 0) if isinstance(tensor, _Tensor) else None)
        for cell in record.outs:
            if cell is not None:
                cell.writes = self._writes.get(cell.storage, (0,))[0]

    def _maybe_boundary(self, args: Any) -> None:
        for arg in args:
            if type(arg) in PLAIN and arg.requires_grad:
                callback, self.before_forward = self.before_forward, None
                if callback is not None:
                    callback()
                return

    def _freeze(self, tree: Any) -> Any:
        """The same structure with tensors replaced by Cells."""
        if isinstance(tree, _Tensor):
            return self.cell(tree)
        if type(tree) is tuple:
            return tuple([item if type(item) in _SCALARS else self._freeze(item) for item in tree])
        if type(tree) is list:
            return [item if type(item) in _SCALARS else self._freeze(item) for item in tree]
        if type(tree) is dict:
            return {key: self._freeze(item) for key, item in tree.items()}
        return tree

    def cell(self, tensor: torch.Tensor) -> Cell:
        """The Cell that stands for `tensor` as it is now."""
        known = self._cells.get(id(tensor))
        if known is not None and known.ref() is tensor:
            current = self._writes.get(known.storage)
            if (current is None or current[0] == known.writes) and (known.storage == 0 or tensor.data_ptr() == known.address):
                known.epoch = self.epoch
                if not known.requires_grad and tensor.requires_grad:
                    self._requires_grad(known, tensor)
                return known
            fresh = self._leaf(tensor)
            if fresh.storage == known.storage and fresh.ref() is tensor:  # and not a twin, which has a past of its own
                fresh.previous = known
            return fresh
        return self._leaf(tensor)

    def _leaf(self, tensor: torch.Tensor) -> Cell:
        """A tensor that no recorded operation returned under this identity: data, a parameter, a saved tensor."""
        storage, address = storage_of(tensor)
        if storage and self._backward:
            twin = self._twin(tensor, storage)
            if twin is not None:
                twin.epoch = self.epoch
                return twin
        writer = self._writes.get(storage, (0, None)) if storage else (0, None)
        made = self._new(tensor, writer[1], storage, address, writer[0])
        if tensor.requires_grad:
            self._requires_grad(made, tensor)
        return made

    def origin(self, storage: int, address: int) -> tuple[tuple[Place, ...], str] | None:
        """Where the memory at `address` was made or last written, and by which operation."""
        known = self._origin.get(storage)
        return known[1:] if known is not None and known[0] == address else None

    def _requires_grad(self, cell: Cell, tensor: torch.Tensor) -> None:
        cell.requires_grad = True
        cell.is_leaf = tensor.is_leaf
        if cell.is_leaf:
            known = self.leaves.get(id(tensor))
            if known is None or known() is not tensor:  # an earlier tensor may have had this identity
                self.leaves[id(tensor)] = weakref.ref(tensor)

    def _twin(self, tensor: torch.Tensor, storage: int) -> Cell | None:
        """An earlier Cell over the same elements (autograd hands back saved tensors as new objects)."""
        found = None
        for cell in self._by_storage.get(storage, ()):
            held = cell.tensor
            if (
                held is not None
                and held.dtype == tensor.dtype
                and held.storage_offset() == tensor.storage_offset()
                and held.shape == tensor.shape
                and held.stride() == tensor.stride()
                and cell.writes == self._writes.get(storage, (0,))[0]
                and (found is None or found.made_by == "detach")
            ):
                found = cell
        return found

    def _new(self, tensor: torch.Tensor, producer: int | None, storage: int, address: int, writes: int) -> Cell:
        cell = Cell(tensor, producer, storage, address, writes, self.epoch)
        if storage and not self.dropped:
            cell.tensor = tensor.detach()
            group = self._by_storage.get(storage)
            if group is None:
                self._by_storage[storage] = group = []
                cell.charge = tensor.numel() * tensor.element_size()
                self.bytes += cell.charge
            group.append(cell)
            if self.bytes > MEMORY:
                self._drop_values()
        self._cells[id(tensor)] = cell
        self._made[-1].append(cell)
        return cell

    def _register(self, record: Raw, out: Any) -> None:
        if isinstance(out, _Tensor):
            self._output(record, out)
        elif isinstance(out, (tuple, list)):
            for item in out:
                if isinstance(item, _Tensor):
                    self._output(record, item)
                else:
                    record.outs.append(None)

    def _output(self, record: Raw, tensor: torch.Tensor) -> None:
        known = self._cells.get(id(tensor))
        if known is not None and known.producer == record.index and known.ref() is tensor:
            record.outs.append(known)  # written in place and returned
            return
        storage, address = storage_of(tensor)
        cell = self._new(tensor, record.index, storage, address, self._writes.get(storage, (0,))[0])
        name = record.func._schema.name
        if name == "aten::detach":
            cell.made_by = "detach"
        record.outs.append(cell)
        if storage and not (self._kinds[record.func].views and storage in self._origin):  # another view of numbers that are there
            self._origin[storage] = (address, record.places, name)

    # -- writes ------------------------------------------------------------------------------------------------

    def _written(self, kind: _Kind, args: Any, kwargs: Any) -> Iterator[Any]:
        for position, name, keyword in kind.mutates:
            value = kwargs.get(name) if keyword or position >= len(args) else args[position]
            yield from value if isinstance(value, (list, tuple)) else (value,)

    def _before_write(self, kind: _Kind, record: Raw) -> None:
        """Copy what the coming write would destroy, once for each storage."""
        for cell in self._written(kind, record.args, record.kwargs):
            if isinstance(cell, Cell) and cell.storage:
                self.preserve(cell.storage)

    def preserve(self, storage: int) -> None:
        """Give the Cells over `storage` memory of their own."""
        group = [c for c in self._by_storage.pop(storage, ()) if c.tensor is not None]
        if not group:
            return
        size = sum(c.tensor.numel() * c.tensor.element_size() for c in group)
        whole = group[0].tensor.untyped_storage()
        group[0].charge += min(size, whole.nbytes())
        self.bytes += min(size, whole.nbytes())
        if self.bytes > MEMORY:
            self._by_storage[storage] = group
            self._drop_values()
            return
        if size <= whole.nbytes() or len(group) == 1:
            for cell in group:
                cell.tensor = cell.tensor.clone()
        else:
            copy = whole.clone()
            for cell in group:
                old = cell.tensor
                cell.tensor = torch.empty(0, dtype=old.dtype, device=old.device).set_(copy, old.storage_offset(), old.shape, old.stride())

    def _after_write(self, kind: _Kind, record: Raw, args: Any, kwargs: Any) -> None:
        for tensor, cell in zip(self._written(kind, args, kwargs), self._written(kind, record.args, record.kwargs), strict=True):
            if not isinstance(tensor, _Tensor):
                continue
            storage, address = storage_of(tensor)
            count = self._writes.get(storage, (0, 0))[0] + 1
            self._writes[storage] = (count, record.index)
            written = self._new(tensor, record.index, storage, address, count)
            written.requires_grad = cell.requires_grad
            written.is_leaf = cell.is_leaf
            written.previous = cell
            record.written.append(written)
            if storage and record.phase != "optimizer":  # an update does not make a parameter
                self._origin[storage] = (address, record.places, record.func._schema.name)

    # -- the window --------------------------------------------------------------------------------------------

    def boundary(self) -> None:
        """A step has ended: start a new segment, let the oldest go."""
        self.segments.append([])
        self._made.append([])
        self.epoch += 1
        while len(self.segments) > self.keep + 1:
            self.segments.popleft()
            self._forget(self._made.popleft(), self.epoch - self.keep)
        if len(self._origin) > self._purge_at:  # addresses of long dead tensors
            living = {c.storage for c in self._cells.values() if c.ref() is not None}
            self._origin = {key: value for key, value in self._origin.items() if key in living}
            self._writes = {key: value for key, value in self._writes.items() if key in living or key in self._by_storage}
            self.leaves = {key: ref for key, ref in self.leaves.items() if ref() is not None}

    def _forget(self, old: list[Cell], oldest: int) -> None:
        """Let go of those of `old` that nothing in the window has used."""
        still = self._made[0]
        for cell in old:
            if cell.epoch >= oldest:
                still.append(cell)
                continue
            group = self._by_storage.get(cell.storage)
            if group is not None and cell in group:
                group.remove(cell)
                if not group:
                    del self._by_storage[cell.storage]
            self.bytes -= cell.charge
            cell.charge = 0
            cell.tensor = None
            cell.previous = None
            if self._cells.get(cell.key) is cell:
                del self._cells[cell.key]

    def _drop_values(self) -> None:
        """The memory bound is reached: keep lines and structure, let the numbers go."""
        self.dropped = True
        for segment in self.segments:
            for record in segment:
                for cell in (*record.cells(), *record.results()):
                    cell.tensor = None
                    cell.charge = 0
        self._by_storage.clear()
        self.bytes = 0

    def read_off(self) -> list[Cell]:
        """Scalars that the program took out of PyTorch as Python numbers, in order."""
        scalars = (r for r in self.records() if hasattr(r.func, "_schema") and r.func._schema.name == "aten::_local_scalar_dense")
        return [cell for record in scalars for cell in record.cells()]

    def records(self) -> list[Raw]:
        """The window, in execution order."""
        return [record for segment in self.segments for record in segment]


_SCALARS = {int, float, bool, type(None)}


def _rng_state(kwargs: Any) -> tuple[Any, torch.Tensor]:
    generator = kwargs.get("generator") or torch.default_generator
    return generator, generator.get_state()
