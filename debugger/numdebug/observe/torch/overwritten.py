"""Values that a backward pass read after something had overwritten them, without autograd noticing (its counter does not see `.data`)."""

from __future__ import annotations

from typing import Any

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.run import Overwritten


def overwritten(converter: Converter) -> list[Overwritten]:
    """One for each write and each operation whose backward read its result, in the order of the backward pass."""
    raws = converter.raws
    forward = {raw.seq: position for position, raw in enumerate(raws) if raw.seq is not None and raw.phase != "backward"}
    index = {raw.index: position for position, raw in enumerate(raws)}
    found: dict[tuple[int, int], Overwritten] = {}
    for position, raw in enumerate(raws):
        source = forward.get(raw.node[1]) if raw.phase == "backward" and raw.node is not None else None
        if source is None:
            continue
        for cell in raw.cells():
            write = index.get(cell.producer) if cell.producer is not None else None
            if write is None or not source < write < position or (write, source) in found:
                continue
            writer = raws[write]
            if not writer.written or writer.phase == "backward" or canonical(writer.func) == "batch_norm":  # its running statistics
                continue
            before = _before(raws[source], cell)
            if before is None or before.tensor is None or cell.tensor is None:
                continue
            differs = ~((before.tensor == cell.tensor) | (before.tensor.isnan() & cell.tensor.isnan()))
            effect = _effect(raw, cell, before)
            if bool(differs.any()) and effect is not None:
                found[write, source] = Overwritten(write, source, position, int(differs.sum()), differs.numel(), *effect)
    return list(found.values())


def _effect(raw: Raw, cell: Cell, before: Cell) -> tuple[float, bool] | None:
    """(how far its result is from what the value before the write gives, whether the operation by itself gives again what was recorded).

    None where it cannot be run by itself.
    """
    if raw.written or raw.rng is not None:
        return None
    try:
        with torch.no_grad():
            as_was = _tensors(raw.func(*_thaw(raw.args, {}), **_thaw(raw.kwargs, {})))
            as_meant = _tensors(raw.func(*_thaw(raw.args, {id(cell): before}), **_thaw(raw.kwargs, {id(cell): before})))
    except (RuntimeError, TypeError, LookupError):
        return None
    recorded = [c.tensor for c in raw.outs if c is not None]
    same = all(r is not None and torch.equal(r, t) for r, t in zip(recorded, as_was, strict=False))
    off = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(as_was, as_meant, strict=True))
    size = sum(float(b.double().square().sum()) for b in as_meant)
    return (off / size) ** 0.5 if size else float(off > 0), same


def _tensors(result: Any) -> list[torch.Tensor]:
    several = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in several if isinstance(t, torch.Tensor) and t.is_floating_point()]


def _thaw(tree: Any, swap: dict[int, Cell]) -> Any:
    if isinstance(tree, Cell):
        held = swap.get(id(tree), tree).tensor
        if held is None:
            raise LookupError("a value was not kept")
        return held
    if type(tree) in (tuple, list):
        return type(tree)(_thaw(item, swap) for item in tree)
    if type(tree) is dict:
        return {key: _thaw(item, swap) for key, item in tree.items()}
    return tree


def _before(source: Raw, cell: Cell) -> Cell | None:
    """The same elements as the forward operation last had them."""
    known = [c for c in (*source.cells(), *source.results()) if c.storage and c.storage == cell.storage and c.writes < cell.writes]
    mine = [c for c in known if c.address == cell.address and _alike(c.tensor, cell.tensor)]
    return max(mine, key=lambda c: c.writes, default=None)


def _alike(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is not None and b is not None and a.shape == b.shape and a.dtype == b.dtype
