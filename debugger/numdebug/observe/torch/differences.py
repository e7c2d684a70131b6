"""A derivative by differences (numdebug.slopes) against PyTorch's: one random direction for each tensor, whatever its size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from numdebug import slopes
from numdebug.slopes import Compared, Slope

Call = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def slope(along: Callable[[float], list[torch.Tensor]], weights: Sequence[torch.Tensor], whole: bool = False) -> Slope | None:
    """See numdebug.slopes.slope."""
    return slopes.slope(lambda t: [part.detach().numpy() for part in along(t)], [w.numpy() for w in weights], whole)


def direction(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random, of the size of the tensor's own elements (1 where they are all 0)."""
    size = float(like.detach().square().mean().sqrt()) if like.numel() else 1.0
    return torch.randn(like.shape, generator=generator, dtype=torch.float64) * (size if size > 0 and math.isfinite(size) else 1.0)


def differentiate(
    call: Call, inputs: Sequence[torch.Tensor], generator: torch.Generator
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """(random weights of the outputs, gradient of the weighted sum for each input)."""
    leaves = [x.detach().clone().requires_grad_(True) for x in inputs]
    with torch.enable_grad():
        outputs = call(leaves)
        weights = [torch.randn(y.shape, generator=generator, dtype=torch.float64) for y in outputs]
        roots = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
        if not roots:
            return weights, [None] * len(leaves)
        grads = torch.autograd.grad([y for y, _ in roots], leaves, [w for _, w in roots], allow_unused=True)
    return weights, [None if g is None else g.detach() for g in grads]


def compare(call: Call, inputs: Sequence[torch.Tensor], seed: int = 0, together: bool = False, rounds: int = 1) -> Iterator[Compared]:
    """For each input (or for all of them moved at once), along `rounds` random directions. Inputs and outputs are float64."""
    generator = torch.Generator().manual_seed(seed)
    weights, grads = differentiate(call, inputs, generator)
    groups = [list(range(len(inputs)))] if together else [[i] for i in range(len(inputs))]
    for group in groups:
        for _ in range(rounds):
            moves = {i: direction(inputs[i], generator) for i in group}

            def along(t: float, moves: dict[int, torch.Tensor] = moves) -> list[torch.Tensor]:
                with torch.no_grad():
                    return [y.detach() for y in call([x + t * moves[i] if i in moves else x.clone() for i, x in enumerate(inputs)])]

            analytic = sum(float((g * moves[i]).sum()) for i in group if (g := grads[i]) is not None)
            numeric = slope(along, weights)
            if numeric is not None:
                yield Compared(group[0], analytic, numeric)


def moved(inputs: Sequence[torch.Tensor], seed: int, share: float = 0.01) -> list[torch.Tensor]:
    """A point nearby: what sits exactly on a kink (zeros, ties) does so no longer."""
    generator = torch.Generator().manual_seed(seed)
    return [x + share * direction(x, generator) for x in inputs]
