"""From the calls of the last steps to the framework-neutral Graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from numdebug.observe.arrays.graph import Graph, Node
from numdebug.observe.frames import Place
from numdebug.observe.jax import pieces
from numdebug.observe.jax.capture import Entry
from numdebug.observe.jax.derivatives import functions
from numdebug.observe.jax.evaluate import host
from numdebug.observe.jax.groups import Group, grouped
from numdebug.observe.jax.interpret import Context, Interpreter, Item, Slot
from numdebug.observe.jax.keras import made_optimizer
from numdebug.observe.jax.modes import training_mode
from numdebug.observe.jax.names import described
from numdebug.observe.jax.observer import JaxObserver, argument_names, tidy
from numdebug.observe.jax.phases import alive, phases
from numdebug.observe.jax.setup import CLIPS, bindings, made_in
from numdebug.observe.jax.structural import floating
from numdebug.observe.jax.trained import Trained
from numdebug.observe.jax.triggers import Triggers
from numdebug.recording import Frame, Op, Recording, Sink, Site, Value
from numdebug.run import Danger, Moved

_COPIES = frozenset({"copy", "device_put", "stage", "convert_element_type", "copy_p"})
_PLUMBING = frozenset({
    "op", "meth", "deferring_binary_op", "fn", "wrapper", "bind", "bind_with_trace", "fun", "rewriting_take", "f_jitted",
})  # fmt: skip


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
        self._framed: dict[Place, Frame] = {}
        self._kept: list[Slot] = []  # so that their ids stay theirs

    def convert(self) -> Graph:
        """The window as a Graph."""
        for position, entry in enumerate(self.entries):
            self._interpret(position, entry)
        results = [slot for outs in self.outs.values() for slot in outs]
        held = {id(s) for array in self._program_holds() if (s := self.slots.get(id(array))) is not None}
        phased = grouped(phases(self.interpreter.items, held))
        items = alive(phased, [*results, *self.interpreter.decisions])
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
        modes = {place: training_mode(nodes[place].op.name, item.library) for place, item in enumerate(items)}
        graph.modes = {place: mode for place, mode in modes.items() if mode is not None}
        graph.functions = lambda: functions(self.observer.capture.uses, self.observer.frames)
        trained = Trained(self)
        graph.losses = trained.losses(recording)
        graph.weights = trained.weights()
        graph.consumed = self._consumed(recording, graph)
        gradients = {w.gradient.id: w.name for w in graph.weights if w.gradient is not None}
        after = {w.after.id: w.gradient for w in graph.weights if w.after is not None and w.gradient is not None}
        for what, held, name in self.observer.sinks:
            slot = self.slots.get(id(held))
            if slot is not None:
                value = self.value(slot)
                if what == "loss" and self.observer.keras_steps is not None and graph.losses:
                    value = graph.losses[-1]  # Keras hands back means over an epoch
                if what == "parameter" and value.id in after and not np.isfinite(self.arrays[after[value.id].id]).all():
                    what, value = "gradient", after[value.id]  # that is where it came from
                producer = recording.producer(value)
                label = gradients.get(value.id) if what == "gradient" else None
                site = producer.site if producer is not None else None
                named = label or name or self.names.get(id(slot))
                recording.sinks.append(Sink(what, value, named, site, self.observer.current.index))  # type: ignore[arg-type]
        own = {id(v) for w in graph.weights for v in (w.gradient, w.after) if v is not None}
        inner = [s for s in recording.sinks if s.what in ("gradient", "parameter") and id(s.value) not in own]
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
        if args and all(a.number is not None for a in args):  # a formula of plain numbers, but the program's own
            args = [Slot(a.array) for a in args]
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
        if id(held) not in self.slots:
            self.slots[id(held)] = Slot(self._host(held))
        return self.slots[id(held)]

    def _program_holds(self) -> Iterator[Any]:
        """Arrays that the program can see: losses, what it read, what it keeps under a name."""
        yield from (answer for _, answer, _ in self.observer.derivatives)
        yield from self.observer.taken
        yield from (held for _, held in self.observer.named())
        for entry in self.entries:
            if entry.differentiates:
                yield from entry.outs

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
            operands=tuple(self.value(s) for s in operands),
            outputs=tuple(self.value(s) for s in item.results),
            scalars=scalars,
            site=self._site(item),
            forward=forward,
            node=f"{self.items[forward].name}'" if forward is not None else None,
        )
        order = [id(s) for s in operands]
        given = item.given or name in ("random", "empty")

        def compute(arrays: Sequence[np.ndarray], wide: bool) -> Sequence[np.ndarray]:
            known = dict(zip(order, arrays, strict=True))
            full = [known[id(s)] if id(s) in known else s.constant(wide) for s in item.operands]
            return item.again(full, wide)

        return Node(op, compute, given, inside=None if given else pieces.inside(item), terms=pieces.terms(item))

    def value(self, slot: Slot) -> Value:
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

    def _consumed(self, recording: Recording, graph: Graph) -> list[Sink]:
        """Read or printed, kept under a name, or a result that nothing else uses."""
        read = {v.id for op in recording.ops for v in op.operands}
        found: dict[int, Sink] = {}

        def add(slot: Slot | None, name: str | None) -> None:
            if slot is None or slot.item is None or not isinstance(slot.array, np.ndarray) or not floating(slot.array.dtype):
                return
            value = self.value(slot)
            op = recording.producer(value)
            if op is not None and op.name != "random":
                found[value.id] = Sink("output", value, name or value.name, op.site, op.step)

        for held in self.observer.taken:
            add(self.slots.get(id(held)), None)
        for name, held in self.observer.named():
            slot = self.slots.get(id(held))
            if slot is not None and slot.item is not None and self.value(slot).id not in read:
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


