"""What a training step differentiates and changes: losses, weights, and the gradients that reach them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from numdebug.observe.arrays.graph import Weight
from numdebug.observe.jax.capture import Entry
from numdebug.observe.jax.interpret import Slot
from numdebug.observe.jax.keras import differentiated
from numdebug.observe.jax.observer import argument_names, is_float, result_names, suffix, tidy
from numdebug.observe.jax.structural import floating
from numdebug.recording import Recording, Value

if TYPE_CHECKING:
    from numdebug.observe.jax.convert import Converter

ROUNDS = 3  # of a training loop, whose weights are looked at


class Trained:
    """Asked once the operations are known."""

    def __init__(self, converter: Converter) -> None:
        self.c = converter
        self.reads = self._differentiated()
        keras = converter.observer.keras_steps
        self.origins = keras.origins() if keras is not None else {}  # of variables of Keras

    def losses(self, recording: Recording) -> list[Value]:
        """Of the last step that differentiated something."""
        if any(entry.trainer is not None and entry.differentiates for entry in self.c.entries):
            found = differentiated(recording)
            return [found] if found is not None else []
        if self.c.observer.derivatives:
            last = self.c.observer.derivatives[-1][0]
            slots = [self.c.slots.get(id(answer)) for step, answer, _ in self.c.observer.derivatives if step == last]
            return [self.c.value(slot) for slot in slots if slot is not None]
        for position in reversed(range(len(self.c.entries))):
            if self.c.entries[position].differentiates:
                several = zip(self.c.entries[position].outs, self.c.outs[position], strict=True)
                scalars = [slot for held, slot in several if is_float(held) and held.ndim == 0 and slot.item is not None]
                if not scalars:  # a whole training run in one call: of its last round
                    handed = (s for s in self.c.interpreter.handed if s.item is not None and s.item.entry == position)
                    scalars = [s for s in handed if is_float(s.array) and s.array.ndim == 0]
                forward = [slot for slot in scalars if slot.item is not None and slot.item.differentiated and slot.item.phase == "forward"]
                return [self.c.value(slot) for slot in forward or scalars[:1] if slot.item is not None]
        return []

    def weights(self) -> list[Weight]:
        """Of every step in the window."""
        found: list[Weight] = []
        for position, entry in enumerate(self.c.entries):
            if entry.differentiates:
                found += self._jitted_weights(position, entry)
        for step, carried in self.c.interpreter.rounds[-ROUNDS:]:
            found += self._carried(step, carried)
        for step, _, gradients in self.c.observer.derivatives:
            for path, argument, gradient in gradients:
                before, after = self.c.slots.get(id(argument)), self.c.slots.get(id(gradient))
                if before is None or after is None or not floating(before.array.dtype):
                    continue
                name = self.c.names.setdefault(id(before), tidy(suffix(path)) or "the argument")
                self._weight_role(before, name)
                new = self._updated(before, after, step)
                value = self.c.value(new) if new is not None else None
                found.append(Weight(step, name, self.c.value(before), value, self.c.value(after)))
        return found

    def _weight_role(self, slot: Slot, name: str) -> None:
        value = self.c.value(slot)
        value.role = "parameter"
        value.name = name
        if name in self.origins:
            value.made_at, value.made_by = self.origins[name]

    def _updated(self, before: Slot, gradient: Slot, step: int) -> Slot | None:
        """The array that took the parameter's place: computed from it and from its gradient, of the same shape; the last such."""
        touched = {id(gradient)}
        own = {id(before)}
        last: Slot | None = None
        for item in self.c.items:
            if item.phase != "optimizer" or item.step != step:
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
            if gradient is None and (before.array.ndim == 0 or not np.array_equal(before.array, after.array)):
                continue
            label = self.c.names.get(id(start)) or f"carry {place}"
            self._weight_role(before, label)
            slope = self.c.value(gradient) if gradient is not None else None
            found.append(Weight(step, label, self.c.value(before), self.c.value(after), slope))
        return found

    def _before(self, after: Slot, arguments: Iterable[tuple[str, Slot]]) -> tuple[str, Slot] | None:
        """The argument that became this result by operations on its own shape, where names do not tell."""
        given = {id(slot): (name, slot) for name, slot in arguments if slot.array.shape == after.array.shape}
        if after.item is not None and after.item.phase == "backward":  # a gradient that is handed back: of the only one of its shape
            alike = [one for one in given.values() if id(one[1]) in self.reads and one[1].array.dtype == after.array.dtype]
            return alike[0] if len(alike) == 1 else None
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
        wanted = {id(s) for item in self.c.items if item.phase == "backward" for s in item.operands}
        for item in reversed(self.c.items):
            if item.phase == "forward" and any(id(s) in wanted for s in item.results):
                wanted.update(id(s) for s in item.operands)
                found.update(id(s) for s in item.operands)
        return found | {id(s) for item in self.c.items if item.phase == "backward" for s in item.operands if s.item is None}

    def _jitted_weights(self, position: int, entry: Entry) -> list[Weight]:
        """Of one jitted step: arguments that the forward pass reads and that come back changed, or whose gradient does."""
        arguments = {}
        for name, slot in zip(argument_names(entry), self.c.ins[position], strict=False):
            if isinstance(slot.array, np.ndarray) and floating(slot.array.dtype) and slot.number is None:
                arguments.setdefault((suffix(name), slot.array.shape), (name, slot))
        found = []
        for name, slot in zip(result_names(entry), self.c.outs[position], strict=False):
            if not isinstance(slot.array, np.ndarray) or not floating(slot.array.dtype) or slot.item is None:
                continue
            known = arguments.get((suffix(name), slot.array.shape)) or self._before(slot, arguments.values())
            if known is None or id(known[1]) not in self.reads or known[1] is slot:
                continue
            label = entry.labels.get(suffix(known[0])) or tidy(suffix(known[0])) or known[0]
            before = known[1]
            if slot.item.phase == "backward":
                gradient, after = slot, self._updated(before, slot, entry.step)
            else:
                after = slot
                gradient = _gradient_of(slot, before)
            self.c.names[id(before)] = label
            self._weight_role(before, label)
            found.append(
                Weight(
                    entry.step, label, self.c.value(before), self.c.value(after) if after is not None else None,
                    self.c.value(gradient) if gradient is not None else None,
                )
            )  # fmt: skip
        return found


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
