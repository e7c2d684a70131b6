"""What the program takes out of PyTorch: losses, numbers it reads or prints, arrays that its module-level names hold."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from numdebug.observe.torch.finite import tensors_in
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.records import Cell

MOST = 400  # values looked at: of a long list the last ones


def consumed(observer: TorchObserver) -> list[tuple[Cell, str | None]]:
    """Each once, in the order of the run, with the name under which the program holds it; only what a recorded operation computed."""
    found: dict[int, tuple[Cell, str | None]] = {}
    for cell, name in _all(observer):
        if cell.producer is not None and cell.tensor is not None and cell.tensor.is_floating_point():
            known = found.get(id(cell))
            found[id(cell)] = (cell, name or (known[1] if known else None))
    return list(found.values())[-MOST:]


def _all(observer: TorchObserver) -> Iterator[tuple[Cell, str | None]]:
    for cell in (*observer.tracer.read_off(), *observer.read):
        yield cell, None
    for what, cell, name in observer.sinks:
        if what == "output":
            yield cell, name
    read = {id(cell) for record in observer.tracer.records() for cell in record.cells()}
    for name, value in list(vars(sys.modules["__main__"]).items()):
        for path, tensor in tensors_in(name, value):
            if tensor.is_floating_point() and id(cell := observer.tracer.cell(tensor)) not in read:  # a result, not an intermediate
                yield cell, path
