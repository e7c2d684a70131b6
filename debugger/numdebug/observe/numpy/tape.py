"""What an instrumented run leaves behind: operations, and by identity the arrays and numbers that went in and came out.

An array's elements are held by reference until the program writes into its memory: then they are copied first. Writes that nobody has
looked at are gathered, and become one operation when somebody reads the array; a single element that was written is read as what was
written there. The window is bounded: of a long run the last operations are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from numdebug.observe.frames import Frames, Place
from numdebug.observe.numpy.again import Again, Written, view_index
from numdebug.recording import Value

MOST = 20_000  # operations kept, of a longer run the last half of them at least: computing them again takes some seconds
BYTES = 1 << 30  # held beside the program's own memory
KINDS = "biufc"  # arrays of numbers; others are not looked at

Places = tuple[Place, ...]


@dataclass(eq=False)
class Cell:
    """One array or number at one moment. `held`: the object, or a copy of it made before the program wrote into it."""

    value: Value
    held: Any
    version: int = 0
    made: Places = ()  # of data: where it came from
    read: bool = False

    def array(self) -> np.ndarray:
        """The elements."""
        return np.asarray(self.held)


@dataclass(eq=False)
class Record:
    """One operation. `ignored`: kinds of floating-point trouble that the program asked not to hear of there."""

    index: int
    name: str
    native: str
    operands: list[Cell]
    outputs: list[Cell]
    again: Again | Written | None
    scalars: dict[str, Any]
    places: Places
    given: bool = False
    in_place: bool = False
    ignored: frozenset[str] = frozenset()


@dataclass(eq=False)
class Memory:
    """The owner of some elements, and everything that is held by reference to them."""

    owner: np.ndarray
    version: int = 0
    whole: Cell | None = None
    shared: list[Cell] = field(default_factory=list)
    pending: list[tuple[np.ndarray, Any, Any]] = field(default_factory=list)  # (array written through, key, Cell or plain value)
    elements: dict[Any, Any] = field(default_factory=dict)  # what was written to single elements of the owner since it was last read
    scattered: bool = False  # only single elements are pending
    places: Places = ()


class Tape:
    """Records. Nothing in here runs the program's operations."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.records: list[Record] = []
        self.count = 0
        self.bytes = 0
        self.known: dict[int, tuple[Any, Cell]] = {}
        self.memories: dict[int, Memory] = {}
        self._ids = 0

    # -- reading -----------------------------------------------------------------------------------------------

    def tracked(self, thing: Any) -> bool:
        """A number that some operation computed, or an array of numbers."""
        kind = type(thing)
        if kind is float or kind is complex:
            known = self.known.get(id(thing))
            return known is not None and known[1].value.producer is not None
        return is_array(thing) or (isinstance(thing, np.generic) and thing.dtype.kind in KINDS)

    def cell(self, thing: Any, made: Places = ()) -> Cell:
        """What stands for an array or number now."""
        if not isinstance(thing, np.ndarray):
            entry = self.known.get(id(thing))
            return entry[1] if entry is not None else self._new(thing, None, made)
        memory = self._memory(thing)
        if memory.pending:
            self._flush(memory)
        entry = self.known.get(id(thing))
        if entry is not None and entry[1].version == memory.version and entry[1].value.shape == thing.shape:
            return entry[1]
        if thing is memory.owner and entry is None and memory.whole is None:
            return self._new(thing, None, made)
        if memory.whole is None and entry is None:
            return self._new(thing, None, made)  # a view of something that nobody has looked at
        if memory.whole is None:
            self._new(memory.owner, None, made)
        assert memory.whole is not None
        if thing is memory.owner and thing.shape == memory.whole.value.shape:
            self.known[id(thing)] = (thing, memory.whole)
            return memory.whole
        index = view_index(thing, memory.owner)
        again = None if index is None else Again(_taken, (index,), {})
        return self.record("view", "numpy.ndarray.view", [memory.whole], [thing], again, {}, made or memory.places, given=again is None)[0]

    def _memory(self, array: np.ndarray) -> Memory:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        found = self.memories.get(id(owner))
        if found is None or found.owner is not owner:
            found = self.memories[id(owner)] = Memory(owner)
        return found

    def _new(self, thing: Any, producer: int | None, made: Places = ()) -> Cell:
        array = thing if isinstance(thing, np.ndarray) else np.asarray(thing)
        self._ids += 1
        role: Any = "input" if producer is None else "result"
        cell = Cell(Value(self._ids, _name(array.dtype), array.shape, producer, role=role), thing, made=made)
        if isinstance(thing, np.ndarray):
            memory = self._memory(thing)
            cell.version = memory.version
            memory.shared.append(cell)
            if thing is memory.owner:
                memory.whole = cell
                self.bytes += thing.nbytes
        if not isinstance(thing, (bool, int, np.bool_)):  # those are shared between all that are equal
            self.known[id(thing)] = (thing, cell)
        return cell

    def element(self, array: np.ndarray, key: Any) -> Any:
        """What was just written to this single element, where nothing else has happened to the array since; else None."""
        memory = self._memory(array)
        return memory.elements.get(key) if memory.scattered and array is memory.owner and memory.pending else None

    # -- recording ---------------------------------------------------------------------------------------------

    def record(
        self, name: str, native: str, operands: list[Cell], results: Sequence[Any], again: Again | Written | None, scalars: dict[str, Any],
        places: Places, given: bool = False, in_place: bool = False,
    ) -> list[Cell]:  # fmt: skip
        """One operation that has just run."""
        index = self.count
        self.count += 1
        for cell in operands:
            cell.read = True
        outputs = [self._new(result, index) for result in results]
        ignored = frozenset(kind for kind, way in np.geterr().items() if way == "ignore")
        self.records.append(Record(index, name, native, operands, outputs, again, scalars, places, given, in_place, ignored))
        if len(self.records) > MOST or self.bytes > BYTES:
            self._forget()
        return outputs

    def _forget(self) -> None:
        """The older half; what it computed and is still in use becomes data."""
        del self.records[: len(self.records) // 2]
        first = self.records[0].index if self.records else self.count
        held = {id(cell) for record in self.records for cell in (*record.operands, *record.outputs)}
        for key, (thing, cell) in list(self.known.items()):
            if id(cell) not in held and sys.getrefcount(thing) <= 5:  # ours alone: the table, the cell, the loop and the call
                del self.known[key]
            elif cell.value.producer is not None and cell.value.producer < first:
                cell.value.role = "input"
        living = {id(self._memory(thing).owner) for thing, _ in self.known.values() if isinstance(thing, np.ndarray)}
        for key in [key for key in self.memories if key not in living]:
            del self.memories[key]
        self.bytes = sum(m.owner.nbytes for m in self.memories.values())
        self.bytes += sum(c.held.nbytes for r in self.records for c in r.outputs if isinstance(c.held, np.ndarray) and c.held.base is None)
        if self.bytes > BYTES and len(self.records) > 1:
            self._forget()

    # -- writing -----------------------------------------------------------------------------------------------

    def before_write(self, array: np.ndarray) -> Cell:
        """The elements as they are, held by themselves from now on; the owner's state before the write."""
        memory = self._memory(array)
        if memory.pending:
            self._flush(memory)
        whole = memory.whole
        if whole is None:
            whole = self._new(memory.owner, None)
        self._part(memory)
        return whole

    def _part(self, memory: Memory) -> None:
        """Copy what is held by reference."""
        copies: dict[int, np.ndarray] = {}
        for cell in memory.shared:
            if id(cell.held) not in copies:
                copies[id(cell.held)] = np.array(cell.held, copy=True)
                self.bytes += copies[id(cell.held)].nbytes
            cell.held = copies[id(cell.held)]
        memory.shared.clear()
        memory.version += 1

    def about_to_set(self, array: np.ndarray) -> None:
        """An item of the array will be written: what is held by reference is copied, once for all writes that follow each other."""
        memory = self._memory(array)
        if not memory.pending:
            if memory.whole is None:
                self._new(memory.owner, None)
            self._part(memory)

    def was_set(self, array: np.ndarray, key: Any, value: Any, places: Places) -> None:
        """An item was written; it becomes an operation when somebody looks."""
        memory = self._memory(array)
        single = array is memory.owner and _single(key, array.ndim)
        if not memory.pending:
            memory.scattered, memory.elements = True, {}
        if array is memory.owner and _everything(key):
            memory.pending.clear()
        memory.pending.append((array, key, value))
        memory.scattered &= single
        if memory.scattered:
            memory.elements[key] = value
        memory.places = places

    def _flush(self, memory: Memory) -> None:
        """The pending writes as one operation."""
        pending, memory.pending, memory.elements = memory.pending, [], {}
        fresh = pending[0][0] is memory.owner and _everything(pending[0][1])
        operands = [] if fresh or memory.whole is None else [memory.whole]
        base = len(operands)
        writes = []
        for array, key, value in pending:
            slot = None
            if isinstance(value, Cell):
                slot = len(operands)
                operands.append(value)
            index = None if array is memory.owner else view_index(array, memory.owner)
            writes.append((array is memory.owner, index, key, slot, None if slot is not None else value))
        again = Written(bool(base), memory.owner.shape, memory.owner.dtype, writes)
        name = "copy" if fresh and len(pending) == 1 else "index_put"
        self.record(name, "numpy.ndarray.__setitem__", operands, [memory.owner], again, {}, memory.places, in_place=True)

    def written(
        self, name: str, native: str, before: Cell, target: np.ndarray, operands: list[Cell], again: Again | None, scalars: dict[str, Any],
        places: Places,
    ) -> None:  # fmt: skip
        """The array was written by an operation other than `[...] =`; `again` gives its new elements from those before and the operands."""
        memory = self._memory(target)
        memory.places = places
        if target is memory.owner:
            self.record(name, native, [before, *operands], [target], again, scalars, places, given=again is None, in_place=True)
        else:  # through a view: the result is scattered into the owner
            (part,) = self.record(name, native, [before, *operands], [target.copy()], None, scalars, places, given=True)
            index = view_index(target, memory.owner)
            merged = Written(True, memory.owner.shape, memory.owner.dtype, [(False, index, Ellipsis, 1, None)])
            self.record("index_put", native, [before, part], [memory.owner], merged, {}, places, given=index is None, in_place=True)


@cache
def _name(dtype: np.dtype) -> str:
    return dtype.name


def is_array(thing: Any) -> bool:
    """Of numbers, all of which count: what a mask hides may be anything."""
    return isinstance(thing, np.ndarray) and thing.dtype.kind in KINDS and not isinstance(thing, np.ma.MaskedArray)


def _single(key: Any, dims: int) -> bool:
    """One element: as many whole numbers as the array has dimensions."""
    parts = key if type(key) is tuple else (key,)
    return len(parts) == dims and all(isinstance(p, (int, np.integer)) and not isinstance(p, bool) for p in parts)


def _everything(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, slice) and key == slice(None))


def _taken(whole: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.asarray(whole).reshape(-1)[index]
