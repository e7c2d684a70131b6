"""What the tracer writes down: one record for each dispatched operation, one Cell for each tensor at each moment."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from numdebug.observe.frames import Place

PLAIN = {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}


class Cell:
    """One tensor at one moment. `tensor` shares memory with the program's until the program overwrites it."""

    __slots__ = (
        "address", "charge", "epoch", "is_leaf", "key", "made_at", "made_by", "previous", "producer", "ref", "requires_grad", "storage",
        "tensor", "writes",
    )  # fmt: skip

    def __init__(self, tensor: torch.Tensor, producer: int | None, storage: int, address: int, writes: int, epoch: int) -> None:
        self.tensor: torch.Tensor | None = None
        self.ref = weakref.ref(tensor)
        self.key = id(tensor)
        self.epoch = epoch  # the last segment that used it
        self.charge = 0  # bytes it keeps alive, as far as we count
        self.producer = producer
        self.storage = storage
        self.address = address
        self.writes = writes
        self.requires_grad = False
        self.is_leaf = False
        self.previous: Cell | None = None
        self.made_by: str | None = None
        self.made_at: tuple[Place, ...] = ()

    @property
    def alive(self) -> torch.Tensor | None:
        """The program's own tensor object, while it exists."""
        return self.ref()


class Raw:
    """One dispatched operation; tensors in `args`, `kwargs` and `outs` are Cells."""

    __slots__ = (
        "args", "func", "grad", "index", "kwargs", "module", "node", "outs", "phase", "places", "region", "rng", "seq", "step", "written",
    )  # fmt: skip

    def __init__(
        self, index: int, func: Any, args: Any, kwargs: Any, outs: list[Any], places: tuple[Place, ...], phase: str, step: int
    ) -> None:
        self.index = index
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.outs = outs
        self.places = places
        self.phase = phase
        self.step = step
        self.grad = True
        self.seq: int | None = None
        self.node: tuple[str, int] | None = None
        self.module: Any = None
        self.region: Raw | None = None
        self.rng: tuple[Any, torch.Tensor] | None = None
        self.written: list[Cell] = []  # what in-place writes left behind

    def cells(self) -> Iterator[Cell]:
        """Operands, in order."""
        yield from cells_in(self.args)
        yield from cells_in(self.kwargs)

    def results(self) -> list[Cell]:
        """What the operation returned or wrote, each once."""
        return list({id(c): c for c in (*self.outs, *self.written) if c is not None}.values())


def cells_in(tree: Any) -> Iterator[Cell]:
    """Every Cell of nested tuples, lists and dicts, in order."""
    if isinstance(tree, Cell):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from cells_in(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from cells_in(item)


def storage_of(tensor: torch.Tensor) -> tuple[int, int]:
    """(identity of the storage, address of the first element); (0, 0) for what has no plain memory (sparse, fake, wrapped)."""
    if tensor.layout is not torch.strided or tensor.is_quantized or (type(tensor) not in PLAIN and not _is_plain_subclass(tensor)):
        return 0, 0
    try:
        return tensor.untyped_storage()._cdata, tensor.data_ptr()
    except (RuntimeError, NotImplementedError):  # no storage behind this tensor
        return 0, 0


def _is_plain_subclass(tensor: torch.Tensor) -> bool:
    return type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
