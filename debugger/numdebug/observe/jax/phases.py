"""Which part of a step each evaluated equation belongs to, and which operation a derivative belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from numdebug.observe.jax.groups import Group
from numdebug.observe.jax.interpret import Item, Slot


def phases(items: list[Item], held: set[int]) -> list[Item]:
    """Derivative rules evaluated on the way forward belong to the backward pass; what follows a gradient is the optimizer's.

    `held`: ids of the Slots that the program itself can see.
    """
    users: dict[int, list[Item]] = {}
    for item in items:
        for slot in item.operands:
            users.setdefault(id(slot), []).append(item)
    behind = {id(item) for item in items if item.phase == "backward"}
    for item in reversed(items):  # used by the backward pass alone
        if id(item) not in behind and (item.jitted or item.key) and not any(id(s) in held for s in item.results):
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


def alive(items: list[Item], wanted: Iterable[Slot]) -> list[Item]:
    """Without what the compiler drops: results inside a jitted call that nothing uses."""
    needed = {id(s) for s in wanted}
    kept: list[Item] = []
    for item in reversed(items):
        if not item.jitted or any(id(s) in needed for s in item.results):
            kept.append(item)
            needed.update(id(s) for s in item.operands)
            if item.forward is not None and item.phase == "backward":  # of a gradient alone, the loss itself is not needed; its lines are
                needed.update(id(s) for s in item.forward.results)
    kept.reverse()
    for item in kept:
        if isinstance(item, Group):  # outputs that somebody outside of the group reads, the last one first
            used = [s for s in item.results if id(s) in needed]
            arrays = [s for s in used if isinstance(s.array, np.ndarray)] if item.given else []  # not the random keys on the way
            item.results = arrays or used or item.results[:1]
    return kept


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
