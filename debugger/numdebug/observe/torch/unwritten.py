"""Memory from empty() that was never written: the recorded operations again, with two different fillings of it."""

from __future__ import annotations

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.finite import all_finite
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import CannotReplay, Replay
from numdebug.observe.torch.training import Training
from numdebug.weights import Unwritten

_FILLINGS = (0.75, -1.5)  # exact in every format, of a usual size, and neither is 0, which memory often holds by luck
MOST = 8  # candidates tried one by one


def unwritten(converter: Converter, training: Training, consumed: list[tuple[Cell, str | None]]) -> list[Unwritten]:
    """One for each empty() whose content reaches what is consumed."""
    if not consumed:
        return []
    roots = [cell for cell, _ in consumed]
    names = [name for _, name in consumed]
    parameters = _parameters(converter)
    buffers = {p for p, raw in enumerate(converter.raws) if _candidate(raw, training)}
    if not buffers and not parameters:
        return []
    try:
        needed = set(Replay(converter, roots, backward=False).needed)
        buffers &= needed
        read = {id(c): (c, p) for c, p in parameters if any(c in list(converter.raws[n].cells()) for n in needed)}
        if not buffers and not read:
            return []
        everything, _ = _differs(converter, roots, buffers, [c for c, _ in read.values()])
        if not everything:
            return []
        found = []
        for place in sorted(buffers)[:MOST]:
            different, finite = _differs(converter, roots, {place}, [])
            if different:
                found.append(_one(converter, place, None, names, different, finite))
        for place in sorted({p for _, p in read.values()})[:MOST]:
            cells = [c for c, p in read.values() if p == place]
            different, finite = _differs(converter, roots, set(), cells)
            if different:
                found.append(_one(converter, place, cells[0], names, different, finite))
        return found
    except CannotReplay:
        return []


def _candidate(raw: Raw, training: Training) -> bool:
    if canonical(raw.func) != "empty" or raw.phase != "forward" or not raw.places or not raw.outs or raw.outs[0] is None:
        return False
    cell = raw.outs[0]
    return cell.tensor is not None and cell.tensor.numel() > 0 and cell.storage not in training.handed_out


def _parameters(converter: Converter) -> list[tuple[Cell, int]]:
    """Parameters over memory from empty() that nothing has written to by the time they are read."""
    born: dict[int, int] = {}
    found: dict[int, tuple[Cell, int]] = {}
    for position, raw in enumerate(converter.raws):
        if raw.written:
            for cell in raw.written:
                born.pop(cell.storage, None)
        for cell in raw.cells():
            if cell.is_leaf and cell.requires_grad and cell.storage in born and cell.tensor is not None and not raw.written:
                found[id(cell)] = (cell, born[cell.storage])
        for out in raw.outs:
            if out is not None and out.storage and canonical(raw.func) == "empty" and raw.places:
                born[out.storage] = position
            elif out is not None and out.storage in born and not any(c.storage == out.storage for c in raw.cells()):
                del born[out.storage]  # the memory was freed, and is another tensor's now
    return list(found.values())


def _differs(converter: Converter, roots: list[Cell], buffers: set[int], parameters: list[Cell]) -> tuple[list[int], bool]:
    """Numbers of the consumed values that differ between two fillings, where the same filling twice gives the same; all finite?"""
    first, second, again = (_run(converter, roots, buffers, parameters, filling) for filling in (*_FILLINGS, _FILLINGS[0]))
    different = [n for n, (a, b, c) in enumerate(zip(first, second, again, strict=True)) if not _same(a, b) and _same(a, c)]
    return different, all(all_finite(t) for t in (*first, *second))


def _run(converter: Converter, roots: list[Cell], buffers: set[int], parameters: list[Cell], filling: float) -> list[torch.Tensor]:
    def fill(replay: Replay, raw: Raw) -> torch.Tensor:
        cell = raw.outs[0]
        assert cell is not None and cell.tensor is not None
        return filled(cell.tensor, filling)

    replay = Replay(converter, roots, backward=False)
    replay.leaf_values.update({id(c): filled(c.tensor, filling) for c in parameters if c.tensor is not None})
    return replay.run(dict.fromkeys(buffers, fill)).results


def filled(like: torch.Tensor, value: float) -> torch.Tensor:
    """Of the same shape and layout."""
    return torch.full_like(like, value if like.is_floating_point() else value > 0)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def _one(converter: Converter, place: int, parameter: Cell | None, names: list[str | None], different: list[int], cures: bool) -> Unwritten:
    cell = converter.raws[place].outs[0]
    assert cell is not None and cell.tensor is not None
    name = converter.names.get((parameter or cell).key)
    reaches = next((names[n] for n in reversed(different) if names[n]), None) or "a number that the program reads"
    return Unwritten(place, name, cell.tensor.numel(), reaches, len(different), parameter is not None, cures)
