"""The gradient of the whole recorded step, parameter by parameter, against differences of its loss in float64."""

from __future__ import annotations

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.differences import direction, slope
from numdebug.observe.torch.records import Cell
from numdebug.observe.torch.replay import Replay, widened
from numdebug.run import CheckedGradient
from numdebug.slopes import Compared

MOST = 64  # parameters checked, the first ones: eight forward passes each


def check(converter: Converter, losses: list[Cell]) -> list[CheckedGradient]:
    """One random direction for each parameter. Raises CannotReplay where the step cannot be computed again."""
    once = Replay(converter, losses, backward=True)
    once.wide = True
    grads = once.run().grads
    generator = torch.Generator().manual_seed(0)
    found: list[CheckedGradient] = []
    for cell, leaf in list(once.leaves.values())[:MOST]:
        if not cell.is_leaf or cell.tensor is None:
            continue
        base = widened(cell.tensor.detach())
        move = direction(base, generator)

        def along(t: float, cell: Cell = cell, base: torch.Tensor = base, move: torch.Tensor = move) -> list[torch.Tensor]:
            replay = Replay(converter, losses, backward=False)
            replay.wide = True
            replay.leaf_values[id(cell)] = base + t * move
            return replay.run().results

        grad = grads.get(cell.key)
        analytic = 0.0 if grad is None else float((grad * move).sum())
        weights = [torch.ones_like(widened(c.tensor)) for c in losses if c.tensor is not None]
        numeric = slope(along, weights)
        if numeric is None:
            continue
        compared = Compared(0, analytic, numeric)
        full = slope(along, weights, whole=True) if compared.disagrees else None
        value = converter.value(cell)
        sweep = full.sweep if full is not None else ()
        name = converter.name_of(cell.key)
        said, error = compared.said, compared.error
        found.append(CheckedGradient(name, leaf.numel(), analytic, numeric.value, numeric.uncertainty, error, said, sweep, value.made_at))
    return found
