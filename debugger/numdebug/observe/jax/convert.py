"""From the calls of the last steps to the framework-neutral Graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from numdebug.observe.arrays.graph import Graph, Node, Weight
from numdebug.observe.frames import Place
from numdebug.observe.jax.capture import Entry
from numdebug.observe.jax.derivatives import functions
from numdebug.observe.jax.evaluate import host
from numdebug.observe.jax.groups import Group, grouped
from numdebug.observe.jax.interpret import Context, Interpreter, Item, Slot
from numdebug.observe.jax.keras import differentiated, made_optimizer
from numdebug.observe.jax.names import described
from numdebug.observe.jax.observer import JaxObserver, _is_float, argument_names, result_names, suffix, tidy
from numdebug.observe.jax.setup import CLIPS, bindings, made_in
from numdebug.observe.jax.structural import floating, widest
from numdebug.observe.jax.triggers import Triggers
from numdebug.recording import Frame, Op, Recording, Sink, Site, Value
from numdebug.run import Danger, Moved

_COPIES = frozenset({"copy", "device_put", "stage", "convert_element_type", "copy_p"})
_PLUMBING = frozenset({
    "op", "meth", "deferring_binary_op", "fn", "wrapper", "bind", "bind_with_trace", "fun", "rewriting_take", "f_jitted",
})  # fmt: skip


ROUNDS = 3  # of a training loop, whose weights are looked at


class Converter:
    """Interprets the window and names what it finds."""

    def __init__(self, observer: JaxObserver) -> None:
        self.observer = observer
        self.interpreter = Interpreter(observer.sites, self._outside)
        self.slots: dict[int, Slot] = {}  # by identity of the program's arrays
        self.entries: list[Entry] = observer.capture.entries()
        self.copies = {key: array for key, (_, array) in observer.capture.donated.items()}
        self.copies |= {key: array for entry in self.entries for key, array in entry.copies.items()}
        self.ins: dict[int, list[Slot]] = {}
        self.outs: dict[int, list[Slot]] = {}
        self.names: dict[int, str] = {}  # by id of a Slot
        self.values: dict[int, Value] = {}
        self.items: list[Item] = []
        self.index: dict[int, int] = {}  # by id of an Item: its operation
        self.arrays: dict[int, np.ndarray] = {}
        self._bindings: dict[str, Site] | None = None
        self.handed: dict[int, tuple[Place, ...]] = {}  # by id of a Slot: who gave data to a model of Keras
        self.origins: dict[str, tuple[Site | None, str | None]] = {}  # of variables of Keras
        self._framed: dict[Place, Frame] = {}
        self._kept: list[Slot] = []  # so that their ids stay theirs

    def convert(self) -> Graph:
        """The window as a Graph."""
        for position, entry in enumerate(self.entries):
            self._interpret(position, entry)
        items = self._phases(self.interpreter.items)
        items = self._alive(grouped(items))
        recording = Recording(framework="jax", steps=self.observer.steps)
        if self.entries:
            recording.window = (self.entries[0].step, self.entries[-1].step)
        if self.interpreter.incomplete:
            recording.complete, recording.why_incomplete = False, self.interpreter.incomplete
        self._name()
        self.items = items
        self.index = {id(part): place for place, item in enumerate(items) for part in (item, *item.parts)}
        nodes = [self._node(place, item) for place, item in enumerate(items)]
        recording.ops = [node.op for node in nodes]
        graph = Graph(recording, nodes, self.arrays, frames=self._frames)
        if self.observer.keras_steps is not None:
            self.observer.keras_steps.into(graph, [item.scope for item in self.items])
        graph.functions = lambda: functions(self.observer.capture.uses, self.observer.frames)
        self.reads = self._differentiated()
        graph.losses = self._losses(recording)
        self.origins = self.observer.keras_steps.origins() if self.observer.keras_steps is not None else {}
        graph.weights = self._weights()
        graph.consumed = self._consumed(recording, graph)
        gradients = {w.gradient.id: w.name for w in graph.weights if w.gradient is not None}
        after = {w.after.id: w.gradient for w in graph.weights if w.after is not None and w.gradient is not None}
        for what, held, name in self.observer.sinks:
            slot = self.slots.get(id(held))
            if slot is not None:
                value = self._value(slot)
                if what == "loss" and self.observer.keras_steps is not None and graph.losses:
                    value = graph.losses[-1]  # Keras hands back means over an epoch
                if what == "parameter" and value.id in after and not np.isfinite(self.arrays[after[value.id].id]).all():
                    what, value = "gradient", after[value.id]  # that is where it came from
                producer = recording.producer(value)
                label = gradients.get(value.id) if what == "gradient" else None
                site = producer.site if producer is not None else None
                named = label or name or self.names.get(id(slot))
                recording.sinks.append(Sink(what, value, named, site, self.observer.current.index))  # type: ignore[arg-type]
        trained = {id(v) for w in graph.weights for v in (w.gradient, w.after) if v is not None}
        inner = [s for s in recording.sinks if s.what in ("gradient", "parameter") and id(s.value) not in trained]
        if len(inner) < len(recording.sinks):  # an optimizer's own state says nothing that the parameters do not say
            recording.sinks = [s for s in recording.sinks if s not in inner]
        self._places(recording, graph)
        graph.search = self._search(graph)
        return graph

    def _search(self, graph: Graph) -> Callable[[Danger], tuple[Graph, list[Moved]] | None]:
        """Set up when it is first asked for."""
        known: list[Triggers] = []

        def search(danger: Danger) -> tuple[Graph, list[Moved]] | None:
            if not known:
                steps = [e.step for e in self.entries]
                start = next((n for n in range(len(self.observer.capture.setup), len(steps)) if steps[n] == steps[-1]), 0)
                slots = {self.values[id(slot)].id: slot for slot in self._kept}
                known.append(Triggers(graph, self.items, slots, start))
            return known[0].find(danger)

        return search

    # -- interpretation --------------------------------------------------------------------------------------------

    def _interpret(self, position: int, entry: Entry) -> None:
        args = [self._outside(a) for a in entry.args]
        context = Context(
            entry.places, entry.library, "backward" if entry.backward else "forward", (), entry.step, position, entry.jaxpr is not None,
            scope=entry.scope, differentiated=entry.forward,
        )  # fmt: skip
        recorded = [self._host(o) for o in entry.outs]
        outs = self.interpreter.call(entry.primitive, entry.params, args, recorded, context, entry.key)
        self.ins[position], self.outs[position] = args, outs
        if entry.trainer is not None:
            self.handed.update((id(slot), entry.places) for slot in args if slot.item is None)
        for held, slot in zip(entry.outs, outs, strict=True):
            if slot.number is not None:  # what the program gets to see is an array
                slot = Slot(self._host(held))
            slot.source = held
            self.slots[id(held)] = slot

    def _host(self, held: Any) -> Any:
        """Its elements, also where the program has given the array away since."""
        copy = self.copies.get(id(held))
        return host(held) if copy is None else copy

    def _outside(self, held: Any) -> Slot:
        if not isinstance(held, jax.Array):
            array = np.asarray(held)
            if array.ndim == 0 and array.dtype.kind in "fiub":
                return Slot(array, number=array.item())
            key = id(held)
        else:
            key = id(held)
            if key in self.slots:
                return self.slots[key]
            array = self._host(held)
        slot = self.slots.get(key) or Slot(array)
        slot.source = held
        self.slots[key] = slot
        return slot

    # -- phases ----------------------------------------------------------------------------------------------------

    def _phases(self, items: list[Item]) -> list[Item]:
        """Derivative rules evaluated on the way forward belong to the backward pass; what follows a gradient is the optimizer's."""
        users: dict[int, list[Item]] = {}
        for item in items:
            for slot in item.operands:
                users.setdefault(id(slot), []).append(item)
        theirs = {id(s) for held in self._program_holds() if (s := self.slots.get(id(held))) is not None}
        behind = {id(item) for item in items if item.phase == "backward"}
        for item in reversed(items):  # used by the backward pass alone
            if id(item) not in behind and (item.jitted or item.key) and not any(id(s) in theirs for s in item.results):
                readers = [u for s in item.results for u in users.get(id(s), [])]
                if readers and all(id(u) in behind for u in readers):
                    behind.add(id(item))
        candidates: dict[Any, list[Item]] = {}
        for item in items:
            if id(item) in behind:
                item.phase = "backward"
                continue
            for link in _links(item):
                candidates.setdefault(link, []).append(item)
        for item in items:
            if item.phase == "backward":
                item.forward = _nearest(item, next((candidates[link] for link in _links(item) if link in candidates), []))
        touched: set[int] = set()
        step = None
        for item in items:  # forward in the program's order, but computed from a gradient of this step
            if item.step != step:
                touched, step = set(), item.step
            if item.phase == "backward":
                touched.update(id(s) for s in item.results)
            elif any(id(s) in touched for s in item.operands) and not item.differentiated:
                item.phase = "optimizer"
                touched.update(id(s) for s in item.results)
        return items

    def _program_holds(self) -> Iterator[Any]:
        """Arrays that the program can see: losses, what it read, what it keeps under a name."""
        yield from (answer for _, answer, _ in self.observer.derivatives)
        yield from self.observer.taken
        yield from (held for _, held in self.observer.named())
        for entry in self.entries:
            if entry.differentiates:
                yield from entry.outs

    def _alive(self, items: list[Item]) -> list[Item]:
        """Without what the compiler drops: results inside a jitted call that nothing uses."""
        needed = {id(s) for outs in self.outs.values() for s in outs} | {id(s) for s in self.interpreter.decisions}
        kept: list[Item] = []
        for item in reversed(items):
            if not item.jitted or any(id(s) in needed for s in item.results):
                kept.append(item)
                needed.update(id(s) for s in item.operands)
        kept.reverse()
        for item in kept:
            if isinstance(item, Group):  # outputs that somebody outside of the group reads, the last one first
                used = [s for s in item.results if id(s) in needed]
                arrays = [s for s in used if isinstance(s.array, np.ndarray)] if item.given else []  # not the random keys on the way
                item.results = arrays or used or item.results[:1]
        return kept

    # -- operations ------------------------------------------------------------------------------------------------

    def _node(self, place: int, item: Item) -> Node:
        if isinstance(item, Group):
            name, operands, scalars = item.name, [s for s in item.operands if s.number is None], dict(item.params)
        else:
            name, operands, scalars = described(item)
        forward = self.index.get(id(item.forward)) if item.forward is not None else None
        op = Op(
            index=place,
            name=name,
            native=_native(item),
            phase=item.phase,  # type: ignore[arg-type]
            step=item.step,
            operands=tuple(self._value(s) for s in operands),
            outputs=tuple(self._value(s) for s in item.results),
            scalars=scalars,
            site=self._site(item),
            forward=forward,
            node=f"{self.items[forward].name}'" if forward is not None else None,
        )
        order = [id(s) for s in operands]
        given = item.given or name in ("random", "empty")

        def compute(arrays: Sequence[np.ndarray], wide: bool) -> Sequence[np.ndarray]:
            known = dict(zip(order, arrays, strict=True))
            full = [known[id(s)] if id(s) in known else _constant(s, wide) for s in item.operands]
            return item.again(full, wide)

        return Node(op, compute, given)

    def _value(self, slot: Slot) -> Value:
        known = self.values.get(id(slot))
        if known is not None:
            return known
        number = len(self.values)
        producer = self.index.get(id(slot.item)) if slot.item is not None else None
        array = slot.array
        is_array = isinstance(array, np.ndarray | np.generic)
        known = Value(
            number,
            array.dtype.name if is_array else "key",
            tuple(array.shape),
            producer,
            self.names.get(id(slot)),
            "result" if producer is not None else "input",
            self._bound(slot) if producer is None else None,
        )
        if producer is None and self.handed.get(id(slot)):
            f = self._frame(self.handed[id(slot)][0])
            known.made_at = Site(f.file, f.line, f.column, f.end_line, f.end_column, f.function)
        if is_array:
            self.arrays[number] = np.asarray(array)
        self.values[id(slot)] = known
        self._kept.append(slot)
        return known

    @cached_property
    def _copies(self) -> dict[int, Slot]:
        return {id(i.operands[0]): i.results[0] for i in self.items if i.name in _COPIES and i.operands}

    def _bound(self, slot: Slot) -> Site | None:
        """The program's line that gave a module-level name its value: that of the array, or of the copy that JAX made of it."""
        name = self.names.get(id(slot))
        if name is None and id(slot) in self._copies:
            name = self.names.get(id(self._copies[id(slot)]))
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        if name is None or not main:
            return None
        if self._bindings is None:
            self._bindings = bindings(Path(main), self.observer.frames.name(main))
        return self._bindings.get(name.split(".")[0])

    def _site(self, item: Item) -> Site | None:
        if not item.places:
            return None
        f = self._frame(item.places[0])
        module = "/".join(item.scope) or None
        return Site(f.file, f.line, f.column, f.end_line, f.end_column, f.function, module, item.step, item.loop)

    def _frames(self, op: Op) -> tuple[Frame, ...]:
        return tuple(self._frame(place) for place in reversed(self.items[op.index].places))

    def _frame(self, place: Place) -> Frame:
        if place not in self._framed:
            self._framed[place] = self.observer.frames.frame(place)
        return self._framed[place]

    # -- names, losses, weights ------------------------------------------------------------------------------------

    def _name(self) -> None:
        for name, held in self.observer.named():
            slot = self.slots.get(id(held))
            if slot is not None:
                self.names.setdefault(id(slot), tidy(name))
        for position, entry in enumerate(self.entries):
            if entry.jaxpr is not None and "site-packages" not in str(getattr(entry.jaxpr.jaxpr.debug_info, "func_filename", "")):
                for name, slot in zip(argument_names(entry), self.ins[position], strict=False):
                    self.names.setdefault(id(slot), tidy(name))

    def _losses(self, recording: Recording) -> list[Value]:
        """Of the last step that differentiated something."""
        if any(entry.trainer is not None and entry.differentiates for entry in self.entries):
            found = differentiated(recording)
            return [found] if found is not None else []
        if self.observer.derivatives:
            last = self.observer.derivatives[-1][0]
            slots = [self.slots.get(id(answer)) for step, answer, _ in self.observer.derivatives if step == last]
            return [self._value(slot) for slot in slots if slot is not None]
        for position in reversed(range(len(self.entries))):
            if self.entries[position].differentiates:
                several = zip(self.entries[position].outs, self.outs[position], strict=True)
                scalars = [slot for held, slot in several if _is_float(held) and held.ndim == 0 and slot.item is not None]
                forward = [slot for slot in scalars if slot.item is not None and slot.item.differentiated and slot.item.phase == "forward"]
                return [self._value(slot) for slot in forward or scalars[:1]]
        return []

    def _weights(self) -> list[Weight]:
        found: list[Weight] = []
        for position, entry in enumerate(self.entries):
            if entry.differentiates:
                found += self._jitted_weights(position, entry)
        for step, carried in self.interpreter.rounds[-ROUNDS:]:
            found += self._carried(step, carried)
        for step, _, gradients in self.observer.derivatives:
            for path, argument, gradient in gradients:
                before, after = self.slots.get(id(argument)), self.slots.get(id(gradient))
                if before is None or after is None or not floating(before.array.dtype):
                    continue
                name = self.names.setdefault(id(before), tidy(suffix(path)) or "the argument")
                self._weight_role(before, name)
                new = self._updated(before, after)
                value = self._value(new) if new is not None else None
                found.append(Weight(step, name, self._value(before), value, self._value(after)))
        return found

    def _weight_role(self, slot: Slot, name: str) -> None:
        value = self._value(slot)
        value.role = "parameter"
        value.name = name
        if name in self.origins:
            value.made_at, value.made_by = self.origins[name]

    def _updated(self, before: Slot, gradient: Slot) -> Slot | None:
        """The array that took the parameter's place: computed from it and from its gradient, of the same shape; the last such."""
        touched = {id(gradient)}
        own = {id(before)}
        last: Slot | None = None
        for item in self.items:
            if item.phase == "backward":
                continue
            same = [s for s in item.operands if isinstance(s.array, np.ndarray) and s.array.shape == before.array.shape]
            from_gradient = any(id(s) in touched for s in same)
            from_own = any(id(s) in own for s in same)
            if from_gradient:
                touched.update(id(s) for s in item.results)
            if from_gradient and from_own:
                own.update(id(s) for s in item.results)
                last = item.results[0]
        return last

    def _carried(self, step: int, carried: list[tuple[Slot, Slot, Slot]]) -> list[Weight]:
        """Of one round of a training loop: what the forward pass reads and the round changes by its gradient."""
        found = []
        for place, (start, before, after) in enumerate(carried):
            if not isinstance(before.array, np.ndarray) or not floating(before.array.dtype) or id(before) not in self.reads:
                continue
            gradient = _gradient_of(after, before)
            if before.array.ndim == 0 or (gradient is None and not np.array_equal(before.array, after.array)):
                continue
            label = self.names.get(id(start)) or f"carry {place}"
            self._weight_role(before, label)
            slope = self._value(gradient) if gradient is not None else None
            found.append(Weight(step, label, self._value(before), self._value(after), slope))
        return found

    def _before(self, after: Slot, arguments: Iterable[tuple[str, Slot]]) -> tuple[str, Slot] | None:
        """The argument that became this result by operations on its own shape, where names do not tell."""
        given = {id(slot): (name, slot) for name, slot in arguments if slot.array.shape == after.array.shape}
        todo, seen, found = [after], set(), []
        while todo:
            slot = todo.pop()
            if id(slot) in seen:
                continue
            seen.add(id(slot))
            if id(slot) in given:
                found.append(given[id(slot)])
            elif slot.item is not None and slot.item.phase != "backward" and (slot is after or slot.item.phase == "optimizer"):
                todo += [s for s in slot.item.operands if isinstance(s.array, np.ndarray) and s.array.shape == after.array.shape]
        read = [one for one in found if id(one[1]) in self.reads]
        return read[0] if len(read) == 1 else None

    def _differentiated(self) -> set[int]:
        """Slots that the forward pass reads: what its backward pass depends on."""
        found: set[int] = set()
        wanted = {id(s) for item in self.items if item.phase == "backward" for s in item.operands}
        for item in reversed(self.items):
            if item.phase == "forward" and any(id(s) in wanted for s in item.results):
                wanted.update(id(s) for s in item.operands)
                found.update(id(s) for s in item.operands)
        return found | {id(s) for item in self.items if item.phase == "backward" for s in item.operands if s.item is None}

    def _jitted_weights(self, position: int, entry: Entry) -> list[Weight]:
        """Of one jitted step: arguments that the forward pass reads and that come back changed, or whose gradient does."""
        arguments = {}
        for name, slot in zip(argument_names(entry), self.ins[position], strict=False):
            if isinstance(slot.array, np.ndarray) and floating(slot.array.dtype) and slot.number is None:
                arguments.setdefault((suffix(name), slot.array.shape), (name, slot))
        found = []
        for name, slot in zip(result_names(entry), self.outs[position], strict=False):
            if not isinstance(slot.array, np.ndarray) or not floating(slot.array.dtype) or slot.item is None:
                continue
            known = arguments.get((suffix(name), slot.array.shape)) or self._before(slot, arguments.values())
            if known is None or id(known[1]) not in self.reads or known[1] is slot:
                continue
            label = entry.labels.get(suffix(known[0])) or tidy(suffix(known[0])) or known[0]
            before = known[1]
            if slot.item.phase == "backward":
                gradient, after = slot, self._updated(before, slot)
            else:
                after = slot
                gradient = _gradient_of(slot, before)
            self.names[id(before)] = label
            self._weight_role(before, label)
            found.append(
                Weight(
                    entry.step, label, self._value(before), self._value(after) if after is not None else None,
                    self._value(gradient) if gradient is not None else None,
                )
            )  # fmt: skip
        return found

    def _consumed(self, recording: Recording, graph: Graph) -> list[Sink]:
        """Read or printed, kept under a name, or a result that nothing else uses."""
        read = {v.id for op in recording.ops for v in op.operands}
        found: dict[int, Sink] = {}

        def add(slot: Slot | None, name: str | None) -> None:
            if slot is None or slot.item is None or not isinstance(slot.array, np.ndarray) or not floating(slot.array.dtype):
                return
            value = self._value(slot)
            op = recording.producer(value)
            if op is not None and op.name != "random":
                found[value.id] = Sink("output", value, name or value.name, op.site, op.step)

        for held in self.observer.taken:
            add(self.slots.get(id(held)), None)
        for name, held in self.observer.named():
            slot = self.slots.get(id(held))
            if slot is not None and slot.item is not None and self._value(slot).id not in read:
                add(slot, tidy(name))
        for outs in self.outs.values():
            for slot in outs:
                if slot.item is not None and id(slot) in self.values and self.values[id(slot)].id not in read:
                    add(slot, None)
        for value in graph.losses:
            if value.producer is not None:
                found.setdefault(value.id, Sink("loss", value, None, recording.ops[value.producer].site))
        return list(found.values())[-400:]

    def _places(self, recording: Recording, graph: Graph) -> None:
        """Where parameters are updated, and where an optimizer of optax was made."""
        for weight in graph.weights:
            if weight.after is not None and weight.after.producer is not None:
                site = recording.ops[weight.after.producer].site
                if site is not None:
                    recording.places.setdefault("update", site)
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        made = made_in(Path(main), self.observer.frames.name(main)) if main else None
        if self.observer.keras_steps is not None:
            made = made_optimizer(self.observer.keras_steps.layers, self.observer) or made
        if made is not None:
            recording.places["optimizer"] = made
        clipping = [place for place, item in enumerate(self.items) if item.phase == "optimizer" and _clips(item)]
        clip = made_in(Path(main), self.observer.frames.name(main), CLIPS) if main and clipping else None
        if clip is not None:
            graph.made.update(dict.fromkeys(clipping, clip))


def _clips(item: Item) -> bool:
    """Inside a transformation of optax that clips."""
    files = [file.replace("\\", "/") for _, file in item.library]
    return any("/optax/" in file and "clip" in file.rpartition("/")[2] for file in files)


def _nearest(item: Item, candidates: list[Item]) -> Item | None:
    """Of the operations that stand at one place, the first of those with which the derivative shares a number."""
    mine = {id(s) for s in item.operands}
    shared = [c for c in candidates if any(id(s) in mine for s in (*c.operands, *c.results))]
    return next(iter(shared or candidates[-1:]), None)


def _links(item: Item) -> list[Any]:
    """What a derivative has in common with what it differentiates, best first: the moment of tracing, then the place."""
    part = item.entry if item.jitted else ("eager", item.step)
    moments = [(part, item.key, item.places[:1], item.loop), (item.step, item.key, item.places[:1], item.loop)] if item.key else []
    return [*moments, (part, item.places[:1], item.loop), (part, item.places[:1], ()), (item.step, item.places[:1])]


def _gradient_of(after: Slot, before: Slot) -> Slot | None:
    """From a parameter's new value up through elementwise operations of its shape, to the first result of the backward pass."""
    todo, seen = [after], set()
    while todo:
        slot = todo.pop(0)
        if id(slot) in seen or slot is before:
            continue
        seen.add(id(slot))
        if slot.item is None:
            continue
        if slot.item.phase == "backward":
            return slot
        todo += [s for s in slot.item.operands if isinstance(s.array, np.ndarray) and s.array.shape == after.array.shape]
    return None


def _constant(slot: Slot, wide: bool) -> Any:
    array = slot.array
    return array.astype(widest(array.dtype)) if wide and isinstance(array, np.ndarray) else array


def _native(item: Item) -> str:
    for name, file in item.library:
        path = file.replace("\\", "/")
        if "/jax/_src/nn/" in path:
            return f"jax.nn.{name}"
        if "/jax/_src/numpy/linalg" in path:
            return f"jnp.linalg.{name}"
        if "/jax/_src/" in path and "/interpreters/" not in path and not name.startswith("_") and name not in _PLUMBING:
            return f"jnp.{name}" if "/numpy/" in path else f"jax.{name}"
    return item.name


