"""Wider formats, scaled squares, surviving epsilons, cleaned data, and the remaining forms."""

from __future__ import annotations

from typing import Any

import torch

from numdebug.observe.torch.forms.registry import called, form, on_argument, part
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import CannotReplay, Replay, Rewrite
from numdebug.report.model import Repair


@form("correction0")
def _correction0(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)
    eps = float(repair.numbers.get("eps", 0.0))

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        x = replay.operand(target, 0)
        dim = raw.args[1] if len(raw.args) > 1 else None
        keep = bool(raw.kwargs.get("keepdim", False))
        variance = torch.var(x, dim=dim, correction=0, keepdim=keep)
        return (variance + eps).sqrt() if canonical(raw.func) == "std" else variance + eps

    return {target: rewrite}


@form("float64")
@form("float32")
def _float32(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    """The operation and what follows it, until the numbers fit again, in float32."""
    target = part(repair, "target", mark)
    outs = replay.raws[target].outs
    low = outs[0].tensor.dtype if outs and outs[0] is not None else torch.float16
    wide = torch.float32 if low in (torch.float16, torch.bfloat16) else torch.float64
    region = {target}
    results = {id(c) for c in replay.raws[target].results()}
    for place in replay.needed:
        raw = replay.raws[place]
        if place > target and any(id(c) in results for c in raw.cells()) and len(region) < 64:
            region.add(place)
            results.update(id(c) for c in raw.results())

    def rewrite(replay: Replay, raw: Raw) -> Any:
        swap = {}
        for cell in raw.cells():
            value = replay.get(cell)
            if value.dtype == low:
                swap[id(cell)] = value.to(wide)
        before, replay.dtype = replay.dtype, wide
        try:
            return called(replay, raw, swap)
        finally:
            replay.dtype = before

    return dict.fromkeys(region, rewrite)


@form("scaled_norm")
def _scaled_norm(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)
    square = repair.ops.get("square" + mark)
    chain = repair.numbers.get("chain" + mark, [])
    if square is None:
        return _float32(replay, repair, mark)

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        inner = [replay.operand(square, 0)]
        scale = inner[0].detach().abs().amax().clamp(min=torch.finfo(inner[0].dtype).tiny)
        for place in chain:
            others = list(replay.raws[place].cells())
            for cell in others:
                maker = next((r for r in replay.raws if any(c is cell for c in r.results())), None)
                if maker is not None and canonical(maker.func) in ("square", "pow", "mul") and maker is not replay.raws[square]:
                    scale = torch.maximum(scale, replay.get(next(iter(maker.cells()))).detach().abs().amax())
        squared = {id(c): (inner[0] / scale).square() for c in replay.raws[square].results()}
        current = None
        for place in chain:
            follower = replay.raws[place]
            swap = {}
            for cell in follower.cells():
                if id(cell) in squared:
                    swap[id(cell)] = squared[id(cell)]
                else:
                    maker = next((r for r in replay.raws if any(c is cell for c in r.results())), None)
                    if maker is not None and canonical(maker.func) in ("square", "pow", "mul"):
                        swap[id(cell)] = (replay.get(next(iter(maker.cells()))) / scale).square()
            current = replay.call(follower, swap)
            squared.update({id(c): current for c in follower.results()})
        last = current if current is not None else next(iter(squared.values()))
        first = next(iter(raw.cells()))
        result = replay.call(raw, {id(first): last})
        return result * scale if canonical(raw.func) != "rsqrt" else result / scale

    return {target: rewrite}


@form("break_ties")
def _break_ties(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    eps = float(repair.numbers.get("eps", 1e-2))

    def change(x: torch.Tensor) -> torch.Tensor:
        n = min(x.shape[-2:])
        ridge = torch.zeros(x.shape[-2:], dtype=x.dtype)
        ridge.diagonal()[:] = torch.linspace(0.0, eps, n, dtype=x.dtype)
        return x + ridge

    return {part(repair, "target", mark): on_argument(change)}


@form("epsilon")
def _epsilon(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    zero = part(repair, "zero", mark)
    eps = float(repair.numbers.get("eps", 1e-6))
    name = canonical(replay.raws[zero].func)
    if name in ("clamp", "maximum"):
        return {zero: on_argument(lambda x: x.clamp(min=eps))}
    return {zero: lambda replay, raw: replay.operand(zero, 0) + eps}


@form("zero_infinity")
def _zero_infinity(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)

    def rewrite(replay: Replay, raw: Raw) -> Any:
        args = list(replay.thaw(raw.args, {}))
        names = [a.name for a in raw.func._schema.arguments]
        kwargs = {**dict(zip(names, args, strict=False)), **replay.thaw(raw.kwargs, {}), "zero_infinity": True}
        losses, alpha = raw.func(**kwargs)
        return torch.where(torch.isinf(losses), torch.zeros_like(losses), losses), alpha

    return {target: rewrite}


@form("drop_rows")
def _drop_rows(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    """What a cleaned array gives: the bad entries take the mean of the finite ones in their column."""
    for number in repair.numbers["values"]:
        cell: Cell = replay.converter.cells[number]
        if cell.tensor is None:
            raise CannotReplay("the data was not kept")
        x = cell.tensor
        good = torch.isfinite(x)
        mean = torch.where(good, x, torch.zeros_like(x)).sum(0) / good.sum(0).clamp(min=1)
        replay.leaf_values[id(cell)] = torch.where(good, x, mean.to(x.dtype).expand_as(x))
    return {}
