"""What happened to gradients between the backward pass and the optimizer: clipping, and whether a loss scale was still on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.training import Training
from numdebug.weights import Clipping

_UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"


@dataclass
class _Change:
    position: int
    kind: str
    cells: dict[int, tuple[Cell, Cell]] = field(default_factory=dict)  # by storage: as it was, as it became


def clippings(converter: Converter, training: Training) -> list[Clipping]:
    """One for each recorded backward pass whose gradients were clipped, in order."""
    raws = converter.raws
    ends = [b.after for b in training.backwards]
    found = []
    for number, backward in enumerate(training.backwards):
        grads = {g.storage for _, g in backward.gradients if g.storage}
        handed = {g.storage for given in training.given for _, _, g in given.parameters if g is not None}
        until = ends[number + 1] if number + 1 < len(ends) else math.inf
        span = [(p, r) for p, r in enumerate(raws) if backward.after <= r.index < until and r.phase != "backward"]
        change = unscale = None
        scale_read = measured = False
        for position, raw in span:
            name = _name(raw)
            touched = [(c.previous, c) for c in raw.written if c.storage in grads and c.previous is not None]
            touched = touched or _replaced(raw, grads, handed)
            if name == _UNSCALE and touched:
                unscale = position
                break
            if raw.phase == "optimizer" or (name in ("zero_", "_foreach_zero_") and touched):
                break
            kind = "value" if "clamp" in name else "norm" if canonical(raw.func) in ("mul", "div") else ""
            if kind and touched and (kind == "value" or measured):
                if change is None:
                    change = _Change(position, kind)
                if change.kind == kind:
                    for before, after in touched:
                        first = change.cells.get(before.storage)
                        change.cells[after.storage] = (first[0] if first else before, after)
                        grads.add(after.storage)
            elif any(c.storage in grads for c in raw.cells()):
                measured = True
            elif name == "_local_scalar_dense" and change is None:
                scale_read |= _scalar(raw) in _scales(raws, position)
        if change is not None and not scale_read:
            one = _clipping(raws, change, unscale)
            if one is not None:
                found.append(one)
    return found


def _replaced(raw: Raw, grads: set[int], handed: set[int]) -> list[tuple[Cell, Cell]]:
    """A gradient and what takes its place (`p.grad = p.grad.clamp(...)`)."""
    out = raw.outs[0] if len(raw.outs) == 1 and not raw.written else None
    if out is None or out.storage not in handed or out.storage in grads:
        return []
    return [(c, out) for c in raw.cells() if c.storage in grads][:1]


def _name(raw: Raw) -> str:
    return str(raw.func._schema.name.rpartition("::")[2]) if hasattr(raw.func, "_schema") else ""


def _scalar(raw: Raw) -> float | None:
    cell = next(raw.cells(), None)
    return float(cell.tensor) if cell is not None and cell.tensor is not None and cell.tensor.numel() == 1 else None


def _scales(raws: list[Raw], position: int) -> set[float]:
    """The loss scale of the unscaling that follows."""
    later = next((r for r in raws[position:] if _name(r) == _UNSCALE), None)
    inverse = _inverse(later) if later is not None else None
    return {1.0 / inverse} if inverse else set()


def _inverse(raw: Raw) -> float | None:
    cell = list(raw.cells())[-1]
    return float(cell.tensor) if cell.tensor is not None and cell.tensor.numel() == 1 else None


def _clipping(raws: list[Raw], change: _Change, unscale: int | None) -> Clipping | None:
    pairs = [(a.tensor, b.tensor) for a, b in change.cells.values()]
    kept = [(a.double(), b.double()) for a, b in pairs if a is not None and b is not None and a.shape == b.shape]
    if not kept or not all(bool(torch.isfinite(a).all()) for a, _ in kept):
        return None
    before = torch.cat([a.flatten() for a, _ in kept])
    after = torch.cat([b.flatten() for _, b in kept])
    size, left = float(before.norm()), float(after.norm())
    changed = int((before != after).sum())
    if not changed or not size or not left:
        return None
    cosine = float(before @ after) / (size * left)
    limit = left if change.kind == "norm" else float(after.abs().max())
    inverse = _inverse(raws[unscale]) if unscale is not None else None
    scale = 1.0 / inverse if inverse else None
    meant = 1.0
    if inverse is not None and scale is not None:
        true = before * inverse
        wanted = true * min(1.0, limit / float(true.norm())) if change.kind == "norm" else true.clamp(-limit, limit)
        meant = float(wanted.norm()) / (left * inverse)
    return Clipping(
        op=change.position, step=raws[change.position].step, kind=change.kind, elements=int((before != 0).sum()), changed=changed,
        cosine=cosine, factor=left / size, limit=limit, scale=scale, unscale=unscale, meant=meant,
    )  # fmt: skip
