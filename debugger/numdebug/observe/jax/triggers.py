"""Search near a healthy step for data and weights, inside a plausible range, that make it fail at one operation.

The same search as for PyTorch (observe/torch/triggers.py says what may move and how far); JAX gives the slopes, NumPy the trials.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numdebug.observe.arrays.graph import Graph
from numdebug.observe.jax.interpret import Item, Slot
from numdebug.observe.jax.replay import Replay, movable
from numdebug.observe.jax.stable import swaps
from numdebug.recording import Recording, Sink, Value
from numdebug.report.model import Repair
from numdebug.run import CannotAsk, Danger, Moved, Replayed

STEPS = 6  # gradient steps for one operation
HALVINGS = 6  # of the line from the recorded values to the failing ones
SECONDS = 8.0  # of searching in one program

Values = dict[int, np.ndarray]


@dataclass
class Leaf:
    """An array that the search may move."""

    slot: Slot
    value: Value
    weight: bool

    def __post_init__(self) -> None:
        wide = self.slot.array.astype(np.float64)
        self.low, self.high, self.mean, self.sigma = float(wide.min()), float(wide.max()), float(wide.mean()), float(wide.std())

    def box(self, sigmas: float) -> tuple[float, float]:
        """Where its elements may go."""
        if not self.weight:
            return self.low, self.high
        return min(self.low, self.mean - sigmas * self.sigma), max(self.high, self.mean + sigmas * self.sigma)


class Triggers:
    """The search over the last step of one graph. Raises CannotAsk where that cannot be computed again."""

    def __init__(self, graph: Graph, items: Sequence[Item], slots: dict[int, Slot], start: int) -> None:
        self.graph = graph
        self.items = items
        self.slots = slots  # by id of their Value
        last = graph.weights[-1].step if graph.weights else 0
        self.weights = [w for w in graph.weights if w.step == last]
        roots = graph.losses or [s.value for s in graph.consumed]
        self.roots = [slots[v.id] for v in roots]
        if not self.roots:
            raise CannotAsk("the program computes nothing that is consumed")
        self.cut = {id(slots[w.before.id]) for w in self.weights}
        self.start = start
        self.replay = Replay(items, self.roots, self.cut, start)
        values = {id(slot): value for value, slot in ((v, slots[v.id]) for v in _values(graph.recording))}
        self.leaves = [
            Leaf(slot, values[key], key in self.cut) for key, slot in self.replay.leaves.items() if key in values and movable(slot)
        ]
        self.begin = time.monotonic()

    def find(self, danger: Danger) -> tuple[Graph, list[Moved]] | None:
        """The step with values that make it fail, recorded, and what was moved; None where none were found."""
        if self.items[danger.op] not in self.replay.items or not self.leaves or time.monotonic() - self.begin > SECONDS:
            return None
        far = self._climb(danger)
        if far is None:
            return None
        near = self._nearest(far)
        return self._recorded(near), self._moved(near)

    # -- searching ---------------------------------------------------------------------------------------------------

    def _climb(self, danger: Danger) -> Values | None:
        slopes = self._slopes(danger)
        values: Values = {}
        best: tuple[float, Values, Values] | None = None
        share = 1.0
        ahead = values
        for _ in range(STEPS):
            height, rising = slopes(ahead)
            if height is None or not rising:
                return None
            if best is not None and height <= best[0]:
                share /= 2
                height, rising, values = best
            else:
                values = ahead
            best = (height, rising, values)
            ahead = {**values, **{key: self._step(key, values, slope, share, danger.sigmas) for key, slope in rising.items()}}
            if self._fails(ahead):
                return ahead
        return None

    def _slopes(self, danger: Danger) -> Any:
        """A compiled function: how near to the edge the operand is, and which way leads nearer."""
        item = self.items[danger.op]
        operand = self.slots[self.graph.recording.ops[danger.op].operands[danger.operand].id]
        upto = Replay(self.items[: list(self.items).index(item)], [operand], self.cut, self.start)
        keys = [id(leaf.slot) for leaf in self.leaves if id(leaf.slot) in upto.leaves and (not leaf.weight or danger.sigmas > 0)]

        def height(moved: dict[int, Any]) -> Any:
            env = upto.env(moved, {})
            flat = env[id(operand)].reshape(-1).astype(jnp.float32)
            if danger.goal == "high":
                return jnp.max(flat)
            if danger.goal == "low":
                return -jnp.min(flat)
            away = jnp.where(flat == 0, jnp.inf, jnp.abs(flat))
            return -jnp.log(jnp.min(away))

        if not keys or id(operand) in upto.leaves:
            return lambda values: (None, {})
        compiled = jax.jit(jax.value_and_grad(height))

        def at(values: Values) -> tuple[float | None, Values]:
            given = {key: jnp.asarray(values.get(key, upto.leaves[key].array)) for key in keys}
            found, grads = compiled(given)
            kept = {key: np.asarray(g) for key, g in grads.items()}
            rising = {key: g for key, g in kept.items() if np.isfinite(g).all() and g.any()}
            return (float(found), rising) if np.isfinite(found) else (None, {})

        return at

    def _step(self, key: int, values: Values, slope: np.ndarray, share: float, sigmas: float) -> np.ndarray:
        leaf = next(leaf for leaf in self.leaves if id(leaf.slot) == key)
        low, high = leaf.box(sigmas)
        here = values.get(key, leaf.slot.array)
        return np.clip(here + share * (high - low) * np.sign(slope), low, high).astype(leaf.slot.array.dtype)

    def _nearest(self, far: Values) -> Values:
        start = {id(leaf.slot): leaf.slot.array for leaf in self.leaves}
        low, high, near = 0.0, 1.0, far
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            there = {key: (start[key] + middle * (value - start[key])).astype(value.dtype) for key, value in far.items()}
            if self._fails(there):
                high, near = middle, there
            else:
                low = middle
        return near

    def _fails(self, values: Values) -> bool:
        arrays = self._arrays(values)
        return not all(np.isfinite(arrays[v.id]).all() for v in self._judged())

    def _judged(self) -> list[Value]:
        losses = self.graph.losses or [s.value for s in self.graph.consumed]
        return [*losses, *(w.gradient for w in self.weights if w.gradient is not None)]

    # -- the step with other values ----------------------------------------------------------------------------------

    def _arrays(self, values: Values) -> dict[int, np.ndarray]:
        """Every array of the graph, where what it depends on has moved."""
        arrays = dict(self.graph.arrays)
        changed = set()
        for leaf in self.leaves:
            if id(leaf.slot) in values:
                arrays[leaf.value.id] = values[id(leaf.slot)]
                changed.add(leaf.value.id)
        kept = set(changed)
        with np.errstate(all="ignore"):
            for item, node in zip(self.items, self.graph.nodes, strict=True):
                if item.entry < self.start or node.given or not any(v.id in changed for v in node.op.operands):
                    continue
                for value, array in zip(node.op.outputs, node.compute([arrays[v.id] for v in node.op.operands], False), strict=True):
                    if value.id not in kept:
                        arrays[value.id] = array
                        changed.add(value.id)
        return arrays

    def _recorded(self, values: Values) -> Graph:
        arrays = self._arrays(values)
        recording = replace(self.graph.recording, sinks=[])
        for value in self._judged():
            if not np.isfinite(arrays[value.id]).all():
                name = next((w.name for w in self.weights if w.gradient is value), None)
                producer = recording.producer(value)
                what = "gradient" if name is not None else "loss" if self.graph.losses else "output"
                site = producer.site if producer is not None else None
                recording.sinks.append(Sink(what, value, name, site, self.weights[-1].step if self.weights else 0))  # type: ignore[arg-type]
        return replace(self.graph, recording=recording, arrays=arrays, retry=lambda repairs: self._retried(values, repairs))

    def _retried(self, values: Values, repairs: Sequence[Repair]) -> Replayed:
        """Compiled anew by JAX with the repairs in it, gradients derived again."""
        keys = [id(self.slots[w.before.id]) for w in self.weights] if self.graph.losses else []
        roots, grads = self.replay.outcome(dict(values), swaps(self.items, repairs), keys)
        finite = all(np.isfinite(r).all() for r in roots)
        bad = sum(not np.isfinite(g).all() for g in grads)
        loss = float(roots[0]) if roots and roots[0].size == 1 else None
        return Replayed(loss, finite and not bad, finite, len(grads), bad, same=not repairs)

    def _moved(self, values: Values) -> list[Moved]:
        found = []
        for leaf in self.leaves:
            now = values.get(id(leaf.slot))
            if now is None or np.array_equal(now, leaf.slot.array):
                continue
            distance = float(np.abs(now[now != leaf.slot.array] - leaf.mean).max()) / leaf.sigma if leaf.weight else None
            found.append(Moved("weight" if leaf.weight else "input", leaf.value.name, float(now.min()), float(now.max()), distance))
        return found


def _values(recording: Recording) -> list[Value]:
    return list({v.id: v for op in recording.ops for v in (*op.operands, *op.outputs)}.values())
