"""The primitives inside an operation of the library, one by one, and how many terms a product sums up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numdebug.observe.arrays.graph import Piece, Step
from numdebug.observe.jax.groups import Group
from numdebug.observe.jax.interpret import Item
from numdebug.observe.jax.names import described


def inside(item: Item) -> Callable[[Sequence[np.ndarray], Step], Sequence[np.ndarray]] | None:
    """See Node.inside."""
    if not isinstance(item, Group):
        return None
    order = [id(s) for s in item.operands if s.number is None]

    def through(arrays: Sequence[np.ndarray], step: Step) -> Sequence[np.ndarray]:
        known: dict[int, Any] = dict(zip(order, arrays, strict=True))
        known.update((id(s), s.constant(True)) for s in item.operands if id(s) not in known)
        _run(item, known, step)
        return [known[id(s)] for s in item.results]

    return through


def _run(group: Group, known: dict[int, Any], step: Step) -> None:
    for part in group.parts:
        if isinstance(part, Group) and not part.given:
            _run(part, known, step)
            continue
        given = [known[id(s)] if id(s) in known else s.constant(True) for s in part.operands]
        results = [s.constant(True) for s in part.results] if part.given else step(_piece(part), given)
        known.update((id(s), r) for s, r in zip(part.results, results, strict=True))


def _piece(item: Item) -> Piece:
    name, _, scalars = described(item)
    return Piece(name, item.again, tuple(s.array.dtype.name for s in item.results), scalars, terms(item))


def terms(item: Item) -> int | None:
    """Of a product or a sum over windows: how many numbers each element is the sum of."""
    p = item.params
    if item.name == "dot_general":
        return math.prod(item.operands[0].array.shape[d] for d in p["dimension_numbers"][0][0])
    if item.name == "conv_general_dilated":
        kernel, out = item.operands[1].array, p["dimension_numbers"].rhs_spec[0]
        return int(kernel.size // max(1, kernel.shape[out]))
    if item.name == "reduce_window_sum":
        return math.prod(p["window_dimensions"])
    return None
