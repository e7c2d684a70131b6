"""A region of the recorded step computed in float64, the rest in the program's own formats."""

from __future__ import annotations

from typing import Any

import torch

from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import CannotReplay, Replay, Rewrite, float64_by_default
from numdebug.observe.torch.shadow import MADE, exactly_made


def in_float64(places: frozenset[int]) -> dict[int, Rewrite]:
    """For Replay.run: operations at `places` work on float64 operands, hand float64 to each other, and round what leaves them."""
    region = _Region()
    return dict.fromkeys(places, region.rewrite)


class _Region:
    def __init__(self) -> None:
        self.wide: dict[int, torch.Tensor] = {}  # results inside the region, by id of their Cell

    def rewrite(self, replay: Replay, raw: Raw) -> Any:
        """The operation in float64; what the rest of the step sees of it is rounded to its own format."""
        swap = {id(cell): self._operand(replay, cell) for cell in raw.cells()}
        if raw.written:
            return self._in_place(replay, raw, swap)
        args, kwargs = replay.thaw(raw.args, swap), replay.thaw(raw.kwargs, swap)
        if isinstance(kwargs.get("dtype"), torch.dtype) and kwargs["dtype"].is_floating_point:
            kwargs = {**kwargs, "dtype": torch.float64}
        if raw.rng is not None or not hasattr(raw.func, "_schema"):
            return replay.call(raw)
        made = canonical(raw.func) in MADE and not swap
        with float64_by_default():
            several = exactly_made(raw) if made else raw.func(*args, **kwargs)
        listed = list(several) if isinstance(several, (tuple, list)) else [several]
        rounded = [self._keep(cell, tensor) for cell, tensor in zip(raw.outs, listed, strict=False)]
        return rounded if isinstance(several, (tuple, list)) else rounded[0]

    def _operand(self, replay: Replay, cell: Cell) -> torch.Tensor:
        if id(cell) in self.wide:
            return self.wide[id(cell)]
        tensor = replay.get(cell)
        return tensor.to(torch.float64) if tensor.is_floating_point() else tensor

    def _keep(self, cell: Cell | None, tensor: Any) -> Any:
        if cell is None or not isinstance(tensor, torch.Tensor) or cell.tensor is None or not tensor.is_floating_point():
            return tensor
        self.wide[id(cell)] = tensor.to(torch.float64)
        return tensor.to(cell.tensor.dtype)

    def _in_place(self, replay: Replay, raw: Raw, swap: dict[int, torch.Tensor]) -> Any:
        """The same operation out of place, and its rounded result written where the program writes it."""
        name = raw.func._schema.name.rpartition("::")[2]
        plain = getattr(torch.ops.aten, name.removesuffix("_"), None)
        overload = raw.func._schema.overload_name or "default"
        if len(raw.written) != 1 or plain is None or overload not in plain.overloads():
            raise CannotReplay(f"{name} has no form that leaves its operand alone")
        first = next(raw.cells())
        if swap[id(first)].numel() != replay.get(first).numel():
            raise CannotReplay(f"{name} writes into an overlapping view")
        with float64_by_default():
            wide = getattr(plain, overload)(*replay.thaw(raw.args, swap), **replay.thaw(raw.kwargs, swap))
        target = replay.get(first)
        with torch.no_grad():
            target.copy_(wide)
        for cell in raw.results():
            self.wide[id(cell)] = wide
        return target
