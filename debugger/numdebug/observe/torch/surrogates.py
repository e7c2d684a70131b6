"""Is a backward meant as something else than the derivative of its forward? Decided from what both compute, never from a name."""

from __future__ import annotations

import torch

from numdebug.observe.torch.called import Called, some_elements
from numdebug.observe.torch.differences import moved


def designed(called: Called, suspects: list[int]) -> str:
    """Why the backward cannot be meant as the derivative of this forward, or ''."""
    outputs = called(called.values)
    for index in suspects:
        x = called.values[index]
        same = [y for y in outputs if y.numel() == x.numel() and torch.equal(y.reshape(-1), x.reshape(-1))]
        if same and _moves_only(called, index, same[0], outputs):
            return "its forward hands the input on unchanged"
        if _constant(called, index):
            return "its forward is constant almost everywhere"
        for y in outputs:
            if y.numel() == x.numel() and _passes(called, index) and _quantised(x, y):
                return "its forward rounds to few values"
    if not _linear(called, suspects):
        return "it is not linear in the gradient it is given"
    return ""


def _moves_only(called: Called, index: int, same: torch.Tensor, outputs: list[torch.Tensor]) -> bool:
    """No other result depends on this argument."""
    there = moved(called.values, 5)
    again = called([there[i] if i == index else x for i, x in enumerate(called.values)])
    others = [(a, b) for y, a, b in zip(outputs, outputs, again, strict=True) if y is not same]
    same_still = any(b.numel() == there[index].numel() and torch.equal(b.reshape(-1), there[index].reshape(-1)) for b in again)
    return same_still and all(torch.equal(a, b) for a, b in others)


def _constant(called: Called, index: int) -> bool:
    """Moving one element a little changes not a bit of the results, for nearly every element."""
    x = called.values[index]
    base = called(called.values)
    chosen = some_elements(x)
    still = 0
    for element in chosen:
        there = x.clone().reshape(-1)
        there[element] += 1e-6 * max(abs(float(there[element])), 1e-3)
        again = called([there.reshape(x.shape) if i == index else other for i, other in enumerate(called.values)])
        still += all(torch.equal(a, b) for a, b in zip(base, again, strict=True))
    return still >= 0.8 * len(chosen)


def _quantised(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Few distinct values come out of many, or inputs outside a window are all moved to its non-zero edge."""
    outside = y.reshape(-1)[y.reshape(-1) != 0]
    if outside.numel() >= 8 and torch.unique(outside).numel() <= outside.numel() / 2 < torch.unique(x).numel():
        return True
    kept = x.reshape(-1) == y.reshape(-1)
    edges = y.reshape(-1)[~kept]
    return bool(kept.any()) and edges.numel() > 0 and torch.unique(edges).numel() <= 2 and bool((edges != 0).any())


def _passes(called: Called, index: int) -> bool:
    """The gradient that comes back is the one that was given, element by element, times one number or 0."""
    leaves = [x.clone().requires_grad_(True) for x in called.values]
    outputs = called(leaves)
    y = next((y for y in outputs if y.numel() == leaves[index].numel() and y.requires_grad), None)
    if y is None:
        return False
    given = torch.rand(y.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    (back,) = torch.autograd.grad([y], [leaves[index]], [given], allow_unused=True)
    if back is None:
        return True
    ratio = (back.reshape(-1) / given.reshape(-1))[back.reshape(-1) != 0]
    return ratio.numel() == 0 or bool((ratio - ratio[0]).abs().max() < 1e-9 * ratio[0].abs())


def _linear(called: Called, suspects: list[int]) -> bool:
    """Whether twice the gradient, and its negative, give twice the result and its negative, as they do for every derivative."""
    leaves = [x.clone().requires_grad_(True) for x in called.values]
    given: list[torch.Tensor] = []
    backs = []
    for factor in (1.0, -2.0):
        outputs = [y for y in called(leaves) if y.requires_grad]
        given = given or [torch.randn(y.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64) for y in outputs]
        backs.append(torch.autograd.grad(outputs, [leaves[i] for i in suspects], [factor * g for g in given], allow_unused=True))
    for one, two in zip(*backs, strict=True):
        if one is not None and two is not None and float((two + 2 * one).norm()) > 1e-6 * float(one.norm()):
            return False
    return True
