"""The stable forms, applied to a recorded step: for each repair, the operations to replace and what replaces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from numdebug.graph import STRUCTURAL
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.replay import CannotReplay, Replay, Rewrite
from numdebug.observe.torch.trace import Cell, Raw
from numdebug.report.model import Repair

Form = Callable[[Replay, Repair, str], dict[int, Rewrite]]
_FORMS: dict[str, Form] = {}


def form(name: str) -> Callable[[Form], Form]:
    """Register a stable form under the name that repairs use."""

    def register(function: Form) -> Form:
        _FORMS[name] = function
        return function

    return register


def rewrites_for(replay: Replay, repairs: list[Repair]) -> dict[int, Rewrite]:
    """Every replacement that the repairs ask for. Raises CannotReplay where a form has no replacement."""
    found: dict[int, Rewrite] = {}
    for repair in repairs:
        apply = _FORMS.get(repair.form)
        if apply is None:
            raise CannotReplay(f"{repair.form} cannot be tried on the recorded step")
        for mark in marks(repair):
            found.update(apply(replay, repair, mark))
    return found


def marks(repair: Repair) -> list[str]:
    """"", "2", "3", ...: one for each target."""
    found = [""]
    while f"target{len(found) + 1}" in repair.ops:
        found.append(str(len(found) + 1))
    return found


def _op(repair: Repair, role: str, mark: str) -> int:
    place = repair.ops.get(role + mark)
    if place is None:
        raise CannotReplay(f"the recording does not know the {role} of this form")
    return place


def _through(replay: Replay, chain: list[int], start: torch.Tensor, source: int, skip: set[int]) -> torch.Tensor:
    """`start` in place of what `source` returned, through the operations of `chain` but for those in `skip`."""
    current = start
    previous = replay.raws[source]
    for place in chain:
        raw = replay.raws[place]
        inner = {id(cell) for cell in previous.results()}
        if place not in skip:
            swap = {id(cell): current for cell in raw.cells() if id(cell) in inner}
            if not swap:
                raise CannotReplay("the form's operations do not follow one another")
            current = replay.call(raw, swap)
            if isinstance(current, (tuple, list)):
                current = current[0]
        previous = raw
    return current


def _skippable(replay: Replay, chain: list[int], guards: list[int]) -> set[int]:
    return {p for p in chain if p in guards and canonical(replay.raws[p].func) not in STRUCTURAL}


@form("log_softmax")
def _log_softmax(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, source = _op(repair, "target", mark), _op(repair, "softmax", mark)
    chain, guards = repair.numbers.get("chain" + mark, []), repair.numbers.get("guards" + mark, [])
    exp = repair.ops.get("exp" + mark)
    dim = repair.numbers.get("dim" + mark, -1)

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        scores = replay.operand(exp if exp is not None else source, 0)
        if canonical(replay.raws[source].func) == "exp":  # exp of a log-softmax
            logs = scores
        else:
            logs = torch.log_softmax(scores, dim=dim if isinstance(dim, int) else -1)
        return _through(replay, chain, logs, source, _skippable(replay, chain, guards))

    return {target: rewrite}


@form("softmax")
def _softmax(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, exp = _op(repair, "target", mark), _op(repair, "exp", mark)
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
    target, exp, total = _op(repair, "target", mark), _op(repair, "exp", mark), _op(repair, "sum", mark)
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
        return _in_log_space(replay, chain, result, total, _skippable(replay, chain, guards))

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
    target, exp = _op(repair, "target", mark), _op(repair, "exp", mark)
    return {target: lambda replay, raw: F.softplus(replay.operand(exp, 0))}


@form("log_sigmoid")
def _log_sigmoid(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, source = _op(repair, "target", mark), _op(repair, "sigmoid", mark)
    exp = repair.ops.get("exp" + mark)
    sign = -1.0 if repair.numbers.get("sign" + mark) == "-" else 1.0
    sign *= repair.numbers.get("argument_sign" + mark, 1)
    chain, guards = repair.numbers.get("chain" + mark, []), repair.numbers.get("guards" + mark, [])

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        z = replay.operand(exp if exp is not None else source, 0)
        logs = F.logsigmoid(sign * z)
        skip = {p for p in chain if canonical(replay.raws[p].func) not in STRUCTURAL} | _skippable(replay, chain, guards)
        return _through(replay, chain, logs, source, skip)

    return {target: rewrite}


@form("clamp_argument")
def _clamp_argument(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    return {_op(repair, "target", mark): _on_argument(lambda x: torch.clamp(x, *_bounds(repair, x)))}


def _bounds(repair: Repair, x: torch.Tensor) -> tuple[float | None, float | None]:
    lo, hi = repair.numbers.get("lo"), repair.numbers.get("hi")
    return (torch.finfo(x.dtype).tiny if lo == "tiny" else torch.finfo(x.dtype).eps if lo == "eps" else lo), hi


def _on_argument(change: Callable[[torch.Tensor], torch.Tensor], number: int = 0) -> Rewrite:
    """The recorded operation with its `number`-th operand changed first."""

    def rewrite(replay: Replay, raw: Raw) -> Any:
        cell = list(raw.cells())[number]
        return _called(replay, raw, {id(cell): change(replay.get(cell))})

    return rewrite


def _called(replay: Replay, raw: Raw, swap: dict[int, torch.Tensor]) -> Any:
    """An operation that wrote in place must not write into a value that autograd needs: give it a copy to write to."""
    if raw.written:
        for cell in raw.cells():
            if any(w.previous is cell for w in raw.written):
                swap[id(cell)] = swap.get(id(cell), replay.get(cell)).clone()
    return replay.call(raw, swap)


@form("add_epsilon")
def _add_epsilon(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)
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
        return {target: _on_argument(lambda x: torch.where(x == 0, torch.full_like(x, eps**0.5), x), -1 if name != "std" else 0)}
    return {target: _on_argument(lambda x: x + eps)}


@form("safe_where")
def _safe_where(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, where = _op(repair, "target", mark), _op(repair, "where", mark)
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

    return {target: _on_argument(change, number)}


def _regular(name: str, x: torch.Tensor) -> torch.Tensor:
    """Where the operation and its derivative are finite."""
    if name in ("sqrt", "log", "log2", "log10", "rsqrt", "pow"):
        return x > 0
    if name in ("acos", "asin", "atanh"):
        return x.abs() < 1
    return x.abs() < 44 if name == "exp" else x != 0


@form("guard_divisor")
def _guard_divisor(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)
    name = canonical(replay.raws[target].func)
    eps = float(repair.numbers.get("eps", 1e-12))
    clamp = repair.numbers.get("mode") == "clamp"

    def change(x: torch.Tensor) -> torch.Tensor:
        if clamp:
            return x.clamp(min=eps)
        return torch.where(x == 0, torch.ones_like(x), x)

    if name in ("mean", "var", "std", "batch_norm", "layer_norm", "nll_loss"):
        raise CannotReplay(f"the division inside {name} has no argument to guard")
    return {target: _on_argument(change, 0 if name in ("reciprocal", "rsqrt", "pow") else -1)}


@form("correction0")
def _correction0(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)
    eps = float(repair.numbers.get("eps", 0.0))

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        x = replay.operand(target, 0)
        dim = raw.args[1] if len(raw.args) > 1 else None
        keep = bool(raw.kwargs.get("keepdim", False))
        variance = torch.var(x, dim=dim, correction=0, keepdim=keep)
        return (variance + eps).sqrt() if canonical(raw.func) == "std" else variance + eps

    return {target: rewrite}


@form("masked_fill")
def _masked_fill(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)
    side = 0 if repair.numbers.get("mask_side") == "left" else 1

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        cells = list(raw.cells())
        if len(cells) < 2:  # mask * -inf
            only = replay.get(cells[0])
            return torch.where(only == 0, torch.zeros((), dtype=only.dtype), _called(replay, raw, {}))
        mask, x = replay.get(cells[side]), replay.get(cells[1 - side])
        return torch.where(mask == 0, torch.zeros((), dtype=x.dtype), x)

    return {target: rewrite}


@form("guard_masked_rows")
def _guard_masked_rows(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)
    given = replay.raws[target].args[1] if len(replay.raws[target].args) > 1 else -1
    dim = given[0] if isinstance(given, list) else given if isinstance(given, int) else -1
    # A softmax over equal scores is uniform whatever they are; a logsumexp must stay near -inf.
    fill = -1e4 if canonical(replay.raws[target].func) == "logsumexp" else 0.0
    return {target: _on_argument(lambda x: torch.where(x.isneginf().all(dim=dim, keepdim=True), torch.full((), fill, dtype=x.dtype), x))}


@form("float32")
def _float32(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    """The operation and what follows it, until the numbers fit again, in float32."""
    target = _op(repair, "target", mark)
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
            return _called(replay, raw, swap)
        finally:
            replay.dtype = before

    return dict.fromkeys(region, rewrite)


@form("scaled_norm")
def _scaled_norm(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)
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


@form("log_space_product")
def _log_space_product(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target, product = _op(repair, "target", mark), _op(repair, "product", mark)
    chain, guards = repair.numbers.get("chain" + mark, []), repair.numbers.get("guards" + mark, [])
    dim = repair.numbers.get("dim" + mark)

    def rewrite(replay: Replay, raw: Raw) -> torch.Tensor:
        logs = replay.operand(product, 0).log()
        if repair.numbers.get("cumulative" + mark):
            total = logs.cumsum(dim)
        else:
            args = replay.raws[product].args
            total = logs.sum() if dim is None else logs.sum(dim, keepdim=len(args) > 2 and bool(args[2]))
        return _through(replay, chain, total, product, _skippable(replay, chain, guards))

    return {target: rewrite}


@form("break_ties")
def _break_ties(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    eps = float(repair.numbers.get("eps", 1e-2))

    def change(x: torch.Tensor) -> torch.Tensor:
        n = min(x.shape[-2:])
        ridge = torch.zeros(x.shape[-2:], dtype=x.dtype)
        ridge.diagonal()[:] = torch.linspace(0.0, eps, n, dtype=x.dtype)
        return x + ridge

    return {_op(repair, "target", mark): _on_argument(change)}


@form("epsilon")
def _epsilon(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    zero = _op(repair, "zero", mark)
    eps = float(repair.numbers.get("eps", 1e-6))
    name = canonical(replay.raws[zero].func)
    if name in ("clamp", "maximum"):
        return {zero: _on_argument(lambda x: x.clamp(min=eps))}
    return {zero: lambda replay, raw: replay.operand(zero, 0) + eps}


@form("zero_infinity")
def _zero_infinity(replay: Replay, repair: Repair, mark: str) -> dict[int, Rewrite]:
    target = _op(repair, "target", mark)

    def rewrite(replay: Replay, raw: Raw) -> Any:
        args = list(replay._thaw(raw.args, {}))
        names = [a.name for a in raw.func._schema.arguments]
        kwargs = {**dict(zip(names, args, strict=False)), **replay._thaw(raw.kwargs, {}), "zero_infinity": True}
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
