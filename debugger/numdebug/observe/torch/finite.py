"""Is all of it finite, and how large is it? The two looks that the sentinel takes at every step."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from typing import Any

import torch

FEW = 16  # tensors whose norms are added up one by one; beyond, stacking them is faster


def tensors_in(name: str, value: Any, depth: int = 4) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of nested containers with the path that leads to it."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from tensors_in(f"{name}[{key!r}]", item, depth - 1)
    elif depth and isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from tensors_in(f"{name}[{index}]", item, depth - 1)


def all_finite(tensor: torch.Tensor) -> bool:
    """Exact. A finite sum proves it cheaply; a sum that overflowed needs the second look."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    held = tensor.detach()
    if held.layout is not torch.strided:
        held = held.coalesce().values() if held.layout is torch.sparse_coo else held.values()
    if held.dtype.itemsize < 2:  # 8-bit formats have no sum
        held = held.float()
    return cmath.isfinite(held.sum().item()) or bool(torch.isfinite(held).all())


def total_norm(tensors: list[torch.Tensor]) -> float | None:
    """Euclidean norm over all elements of all tensors; None for an empty list."""
    plain = [t.detach() for t in tensors if t.layout is torch.strided and t.is_floating_point()]
    if not plain:
        return None
    norms = torch._foreach_norm(plain)
    return float(torch.linalg.vector_norm(torch.stack([n.to(torch.float64) for n in norms])))


def quick_norm(tensors: list[torch.Tensor]) -> float | None:
    """total_norm for the common case, in one pass; None where that cannot be said (no tensors, sparse ones, several devices)."""
    if not tensors:
        return None
    low = tensors[0].dtype in (torch.float16, torch.bfloat16)
    try:
        norms = torch._foreach_norm(tensors, 2, torch.float32) if low else torch._foreach_norm(tensors)
        if len(norms) <= FEW:
            return math.sqrt(sum([n * n for n in [norm.item() for norm in norms]]))
        return float(torch.linalg.vector_norm(torch.stack(norms), dtype=torch.float64))
    except (RuntimeError, NotImplementedError):
        return None
