"""Exponentials and logs in the forms that neither overflow nor underflow."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from numdebug.graph import STRUCTURAL
from numdebug.observe.torch.forms.registry import form, part, skippable, through
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Raw
from numdebug.observe.torch.replay import CannotReplay, Replay, Rewrite
from numdebug.report.model import Repair


@form("log_softmax")
def _log_softmax(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, source = part(repair, "target", mark), part(repair, "softmax", mark)
    chain, guards = repair.numbers.get("chain" + mark, []), repair.numbers.get("guards" + mark, [])
    exp = repair.ops.get("exp" + mark)
    dim = repair.numbers.get("dim" + mark, -1)

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        scores = replay.operand(exp if exp is not None else source, 0)
        if canonical(replay.raws[source].func) == "exp":  # exp of a log-softmax
            logs = scores
        else:
            logs = torch.log_softmax(scores, dim=dim if isinstance(dim, int) else -1)
        return through(replay, chain, logs, source, skippable(replay, chain, guards))

    return {target: rewrite}


@form("softmax")
def _softmax(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, exp = part(repair, "target", mark), part(repair, "exp", mark)
    dim = repair.numbers.get("dim" + mark)
    if repair.numbers.get("scattered" + mark):  # a softmax over the edges of a graph: a common shift leaves it as it is
        return {exp: lambda replay, raw: torch.exp(replay.operand(exp, 0) - replay.operand(exp, 0).detach().amax())}

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        scores = replay.operand(exp, 0)
        flat = dim is None or isinstance(dim, list)
        result = torch.softmax(scores.reshape(-1), 0).reshape(scores.shape) if flat else torch.softmax(scores, dim=dim)
        return result if result.shape == raw.outs[0].tensor.shape else result.expand(raw.outs[0].tensor.shape)

    return {target: rewrite}


@form("logsumexp")
def _logsumexp(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, exp, total = part(repair, "target", mark), part(repair, "exp", mark), part(repair, "sum", mark)
    numbers = repair.numbers
    chain, guards = numbers.get("chain" + mark, []), numbers.get("guards" + mark, [])
    inner = numbers.get("inner" + mark, [])
    if numbers.get("reduce" + mark) not in ("sum", "mean"):
        return {total: _shifted_sum(exp, target), target: _add_shift(exp, total)}

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        scores = _in_log_space(replay, inner, replay.operand(exp, 0), exp)
        dim = numbers.get("dim" + mark)
        keep = bool(numbers.get("keepdim" + mark, False))
        axes = list(range(scores.ndim)) if dim in (None, []) else dim
        result = torch.logsumexp(scores, dim=axes, keepdim=keep)
        if numbers.get("reduce" + mark) == "mean":
            result = result - torch.log(torch.tensor(scores.numel() / max(result.numel(), 1), dtype=result.dtype))
        return _in_log_space(replay, chain, result, total, skippable(replay, chain, guards))

    return {target: rewrite}


def _in_log_space(replay: Replay, chain: list[int], logs: torch.Tensor, source: int, skip: set[int] | None = None) -> torch.Tensor:
    """The logs of what `chain` makes of exp(logs): factors become summands, structure stays."""
    current, previous = logs, replay.raws[source]
    for place in chain:
        raw = replay.raws[place]
        made = {id(cell) for cell in previous.results()}
        name = canonical(raw.func)
        previous = raw
        if skip and place in skip:
            continue
        if name in ("mul", "div"):
            others = [replay.get(c) for c in raw.cells() if id(c) not in made]
            plain = next((a for a in raw.args if isinstance(a, (int, float))), None)
            factor = others[0] if others else torch.tensor(float(plain if plain is not None else 1.0), dtype=logs.dtype)
            if name == "div" and others and id(next(iter(raw.cells()))) not in made:
                raise CannotReplay("the exponentials divide something")
            current = current + factor.log() if name == "mul" else current - factor.log()
        elif name == "masked_fill" and not any(id(c) in made for c in list(raw.cells())[1:]):
            current = current.masked_fill(replay.get(list(raw.cells())[1]), float("-inf"))  # a weight of 0
        else:
            current = replay.call(raw, {id(cell): current for cell in raw.cells() if id(cell) in made})
            if isinstance(current, (tuple, list)):
                current = current[0]
    return current


def _shifted_sum(exp: int, target: int) -> Rewrite:
    """Weighted sums and products with a matrix: take a common shift out of the exponentials first."""

    def rewrite(replay: Replay, raw: Raw) -> Any:
        scores = replay.operand(exp, 0)
        shift = scores.detach().amax()
        scaled = torch.exp(scores - shift)
        made = {id(cell) for cell in replay.raws[exp].results()}
        swap = {id(cell): scaled for cell in raw.cells() if id(cell) in made}
        if not swap:
            raise CannotReplay("weights stand between the exponentials and their sum")
        return replay.call(raw, swap)

    return rewrite


def _add_shift(exp: int, total: int) -> Rewrite:
    def rewrite(replay: Replay, raw: Raw) -> Any:
        return replay.call(raw) + replay.operand(exp, 0).detach().amax()

    return rewrite


@form("softplus")
def _softplus(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, exp = part(repair, "target", mark), part(repair, "exp", mark)
    return {target: lambda replay, raw: F.softplus(replay.operand(exp, 0))}


@form("log_sigmoid")
def _log_sigmoid(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, source = part(repair, "target", mark), part(repair, "sigmoid", mark)
    exp = repair.ops.get("exp" + mark)
    sign = -1.0 if repair.numbers.get("sign" + mark) == "-" else 1.0
    sign *= repair.numbers.get("argument_sign" + mark, 1)
    chain = repair.numbers.get("chain" + mark, [])

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        z = replay.operand(exp if exp is not None else source, 0)
        logs = F.logsigmoid(sign * z)
        skip = {p for p in chain if canonical(replay.raws[p].func) not in STRUCTURAL}  # 1 - p, guards, signs: all in the sigmoid's log
        return through(replay, chain, logs, source, skip)

    return {target: rewrite}


@form("log_space_product")
def _log_space_product(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, product = part(repair, "target", mark), part(repair, "product", mark)
    chain, guards = repair.numbers.get("chain" + mark, []), repair.numbers.get("guards" + mark, [])
    dim = repair.numbers.get("dim" + mark)

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        logs = replay.operand(product, 0).log()
        if repair.numbers.get("cumulative" + mark):
            total = logs.cumsum(dim)
        else:
            args = replay.raws[product].args
            total = logs.sum() if dim is None else logs.sum(dim, keepdim=len(args) > 2 and bool(args[2]))
        return through(replay, chain, total, product, skippable(replay, chain, guards))

    return {target: rewrite}
