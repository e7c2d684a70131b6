"""The forward pass of the last step computed by JAX once more: for other values, with formulas replaced, differentiated again.

Branches and loop counts stay as the program took them; random numbers stay as drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numdebug.observe.jax.groups import Group
from numdebug.observe.jax.interpret import Item, Own, Slot
from numdebug.observe.jax.structural import floating
from numdebug.run import CannotAsk

LARGEST = 4_000  # operations: each is traced again for every question
Env = dict[int, Any]
Swap = Callable[[Env], Any]  # the results so far, by id of their Slot -> what stands in place of an operation's result


class Replay:
    """What leads to `roots`. `cut`: Slots that are taken as they were (parameters, and what earlier steps computed)."""

    def __init__(self, items: Sequence[Item], roots: Sequence[Slot], cut: set[int], start: int) -> None:
        self.roots = list(roots)
        needed: list[Item] = []
        wanted = {id(s) for s in roots}
        self.leaves: dict[int, Slot] = {}
        for item in reversed(items):
            mine = [s for s in item.results if id(s) in wanted and id(s) not in cut]
            if not mine or item.phase != "forward" or item.given or item.entry < start:
                continue
            needed.append(item)
            wanted.update(id(s) for s in item.operands)
        self.items = needed[::-1]
        if len(self.items) > LARGEST:
            raise CannotAsk("the step is too long to be tried with other values")
        made = {id(s) for item in self.items for s in item.results} - cut
        for item in self.items:
            for slot in item.operands:
                if id(slot) not in made and slot.number is None:
                    self.leaves[id(slot)] = slot

    def env(self, values: Env, swaps: dict[int, Swap]) -> Env:
        """Every result, for these values of the leaves; `swaps` by id of the Item that they replace."""
        env: Env = {key: values.get(key, slot.array) for key, slot in self.leaves.items()}
        for item in self.items:
            results = [swaps[id(item)](env)] if id(item) in swaps else traced(item, env)
            for slot, result in zip(item.results, results, strict=False):
                env.setdefault(id(slot), result)
        return env

    def total(self, env: Env) -> Any:
        """The sum of the roots: what is differentiated."""
        return sum(jnp.sum(env[id(root)].astype(jnp.float32)) for root in self.roots if id(root) in env)

    def outcome(self, values: Env, swaps: dict[int, Swap], weights: Sequence[int]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """(roots, gradients of their sum for these leaves), compiled."""

        def run(moved: Env) -> tuple[Any, Any]:
            env = self.env({**values, **moved}, swaps)
            return self.total(env), [env[id(root)] for root in self.roots if id(root) in env]

        given = {key: jnp.asarray(values.get(key, self.leaves[key].array)) for key in weights if key in self.leaves}
        if not given:
            _, roots = jax.jit(run)({})
            return [np.asarray(r) for r in roots], []
        (_, roots), grads = jax.jit(jax.value_and_grad(run, has_aux=True))(given)
        return [np.asarray(r) for r in roots], [np.asarray(g) for g in grads.values()]


def traced(item: Item, env: Env) -> list[Any]:
    """One item on arrays that may be tracers."""
    if isinstance(item, Group):
        inner: Env = dict(env)
        for part in item.parts:
            results = [s.array for s in part.results] if part.given else traced(part, inner)
            inner.update((id(s), r) for s, r in zip(part.results, results, strict=True))
        return [inner[id(s)] for s in item.results]
    given = [env.get(id(s), s.array) for s in item.operands]
    if isinstance(item, Own):
        return list(item.function(given, False, jnp))
    out = item.primitive.bind(*map(jnp.asarray, given), **item.params)
    return list(out) if item.primitive.multiple_results else [out]


def movable(slot: Slot) -> bool:
    """Numbers with a spread; not masks, one-hot rows or single values."""
    array = slot.array
    if not isinstance(array, np.ndarray) or not floating(array.dtype) or array.size < 2 or not np.isfinite(array).all():
        return False
    wide = array.astype(np.float64)
    return bool(wide.min() != wide.max()) and not bool(((wide == 0) | (wide == 1)).all())
