"""Arguments kept inside the domain, and away from the edges of a derivative."""

from __future__ import annotations

from typing import Any

import torch

from numdebug.observe.torch.forms.registry import called, form, on_argument, part
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Raw
from numdebug.observe.torch.replay import CannotReplay, Replay, Rewrite
from numdebug.report.model import Repair


@form("clamp_argument")
def _clamp_argument(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    return {part(repair, "target", mark): on_argument(lambda x: torch.clamp(x, *_bounds(repair, x)))}


def _bounds(repair: Repair, x: torch.Tensor) -> tuple[float | None, float | None]:
    lo, hi = repair.numbers.get("lo"), repair.numbers.get("hi")
    return (torch.finfo(x.dtype).tiny if lo == "tiny" else torch.finfo(x.dtype).eps if lo == "eps" else lo), hi


@form("add_epsilon")
def _add_epsilon(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)
    eps = float(repair.numbers.get("eps", 1e-14))
    name = canonical(replay.raws[target].func)
    if name == "norm":

        def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
            x = replay.operand(target, 0)
            dim = raw.args[2] if len(raw.args) > 2 else None
            keep = bool(raw.args[3]) if len(raw.args) > 3 else False
            return (x.square().sum(dim=dim, keepdim=keep) + eps).sqrt()

        return {target: rewrite}
    if name in ("atan2", "hypot", "div", "std"):
        return {target: on_argument(lambda x: torch.where(x == 0, torch.full_like(x, eps**0.5), x), -1 if name != "std" else 0)}
    return {target: on_argument(lambda x: x + eps)}


@form("safe_where")
def _safe_where(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, where = part(repair, "target", mark), part(repair, "where", mark)
    selector = replay.raws[where]
    name = canonical(replay.raws[target].func)
    safe = float(repair.numbers.get("safe", 1.0))
    taken = repair.numbers.get("branch", "a") == "a"
    number = 1 if name == "div" and len(list(replay.raws[target].cells())) > 1 else 0

    def change(x: torch.Tensor) -> torch.Tensor:
        cells = list(selector.cells())
        condition = replay.get(cells[0 if canonical(selector.func) == "where" else 1])
        keep = condition if taken and canonical(selector.func) == "where" else ~condition
        try:
            return torch.where(keep.expand_as(x) if keep.shape != x.shape else keep, x, torch.full_like(x, safe))
        except RuntimeError:
            return torch.where(_regular(name, x), x, torch.full_like(x, safe))

    return {target: on_argument(change, number)}


def _regular(name: str, x: torch.Tensor) -> torch.Tensor:
    """Where the operation and its derivative are finite."""
    if name in ("sqrt", "log", "log2", "log10", "rsqrt", "pow"):
        return x > 0
    if name in ("acos", "asin", "atanh"):
        return x.abs() < 1
    return x.abs() < 44 if name == "exp" else x != 0


@form("guard_divisor")
def _guard_divisor(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)
    name = canonical(replay.raws[target].func)
    eps = float(repair.numbers.get("eps", 1e-12))
    clamp = repair.numbers.get("mode") == "clamp"

    def change(x: torch.Tensor) -> torch.Tensor:
        if clamp:
            return x.clamp(min=eps)
        return torch.where(x == 0, torch.ones_like(x), x)

    if name in ("mean", "var", "std", "batch_norm", "layer_norm", "nll_loss"):
        raise CannotReplay(f"the division inside {name} has no argument to guard")
    if repair.numbers.get("mode") == "both" and name == "div":

        def rewrite(replay: Replay, raw: Raw) -> Any:
            return called(replay, raw, {id(cell): replay.get(cell).clamp(min=eps) for cell in raw.cells()})

        return {target: rewrite}
    return {target: on_argument(change, 0 if name in ("reciprocal", "rsqrt", "pow") else -1)}


@form("masked_fill")
def _masked_fill(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)
    side = 0 if repair.numbers.get("mask_side") == "left" else 1

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        cells = list(raw.cells())
        if len(cells) < 2:  # mask * -inf
            only = replay.get(cells[0])
            return torch.where(only == 0, torch.zeros((), dtype=only.dtype), called(replay, raw, {}))
        mask, x = replay.get(cells[side]), replay.get(cells[1 - side])
        return torch.where(mask == 0, torch.zeros((), dtype=x.dtype), x)

    return {target: rewrite}


@form("guard_masked_rows")
def _guard_masked_rows(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = part(repair, "target", mark)
    given = replay.raws[target].args[1] if len(replay.raws[target].args) > 1 else -1
    dim = given[0] if isinstance(given, list) else given if isinstance(given, int) else -1
    # A softmax over equal scores is uniform whatever they are; a logsumexp must stay near -inf.
    fill = -1e4 if canonical(replay.raws[target].func) == "logsumexp" else 0.0
    return {target: on_argument(lambda x: torch.where(x.isneginf().all(dim=dim, keepdim=True), torch.full((), fill, dtype=x.dtype), x))}
