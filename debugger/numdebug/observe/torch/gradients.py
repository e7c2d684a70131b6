"""Hand-written derivatives of the recorded program, called again in float64 and compared with differences.

A call is rebuilt from what was recorded; everything it could change is copied, and the random generators come back as they were, for
every evaluation. What cannot run in float64, or gives something else each time, has no verdict.
"""

from __future__ import annotations

import dis
import inspect
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.differences import Compared, compare, differentiate, direction, moved, slope, verdict
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.tape import Change, Named, Tape
from numdebug.recording import Site
from numdebug.run import CannotAsk, HandWritten

LARGEST = 4_000_000  # elements of one call
PATIENCE = 3.0  # seconds for one function
ROUNDS = 3  # random directions: a coincidence in one is not one in three
PARTIALS = 24  # elements moved one by one, to say what kind of mistake it is
_AGREE = 1e-6  # between what float64 differences leave (1e-9) and what is acceptable (1e-5)


class Called:
    """One recorded call of a hand-written function, on float64 copies."""

    def __init__(self, raw: Raw) -> None:
        self.cls = raw.func
        self.args = raw.args
        self.wanted: list[int] = []  # positions of the arguments that are differentiated
        self.values: list[torch.Tensor] = []
        size = 0
        for position, arg in enumerate(raw.args):
            if isinstance(arg, Cell):
                if arg.tensor is None:
                    raise CannotAsk("an argument was not kept")
                size += arg.tensor.numel()
                if arg.requires_grad and arg.tensor.dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                    self.wanted.append(position)
                    self.values.append(arg.tensor.detach().to(torch.float64))
        if size > LARGEST:
            raise CannotAsk("too large to be called many times")
        self._states = (torch.get_rng_state(), random.getstate(), np.random.get_state())  # noqa: NPY002  # the program's own generator

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The floating-point results for these values of the differentiated arguments."""
        return [y for y in self.outputs(inputs) if isinstance(y, torch.Tensor) and y.dtype == torch.float64]

    def outputs(self, inputs: Sequence[torch.Tensor], call: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Everything that the function returns. Fresh copies each time: it may write into its arguments."""
        given = dict(zip(self.wanted, inputs, strict=True))
        args = [given[p].clone() if p in given else _copied(arg) for p, arg in enumerate(self.args)]
        self._restore()
        try:
            result = (call or self.cls.apply)(*args)
        except Exception as error:
            raise CannotAsk(f"{self.cls.__name__} cannot be called in float64: {_first(error)}") from error
        finally:
            self._restore()
        return result if isinstance(result, tuple) else (result,)

    def _restore(self) -> None:
        torch.set_rng_state(self._states[0])
        random.setstate(self._states[1])
        np.random.set_state(self._states[2])  # noqa: NPY002

    def name(self, index: int) -> str:
        """The parameter of `forward` that the index-th differentiated argument is."""
        parameters = list(inspect.signature(self.cls.forward).parameters.values())
        if self.cls.setup_context is torch.autograd.function._SingleLevelFunction.setup_context:
            parameters = parameters[1:]
        position = self.wanted[index]
        if position < len(parameters) and parameters[position].kind is not inspect.Parameter.VAR_POSITIONAL:
            return parameters[position].name
        return f"argument {position + 1}"


def functions(converter: Converter) -> list[HandWritten]:
    """A verdict for each hand-written function of the user's own in the window, and each of its differentiated arguments."""
    found: list[HandWritten] = []
    calls: dict[Any, dict[Any, tuple[int, Raw]]] = {}
    for position, raw in enumerate(converter.raws):
        if isinstance(raw.func, type) and raw.grad and issubclass(raw.func, torch.autograd.Function) and _own(converter, raw.func):
            shapes = tuple(tuple(a.tensor.shape) if isinstance(a, Cell) and a.tensor is not None else repr(a)[:80] for a in raw.args)
            calls.setdefault(raw.func, {})[shapes] = (position, raw)
    for several in calls.values():
        found.extend(_function(converter, list(several.values())[:2]))
    return found


def _function(converter: Converter, calls: list[tuple[int, Raw]]) -> list[HandWritten]:
    """The first call that shows something wrong, else what was seen of the first."""
    verdicts: list[HandWritten] = []
    for position, raw in calls:
        call_site = converter.site(raw.places, raw.module, raw.step)
        try:
            seen = list(_call(converter, Called(raw), position, call_site))
        except CannotAsk as why:
            seen = [HandWritten(raw.func.__name__, "", position, None, call_site, "undecided", str(why))]
        if any(v.verdict == "wrong" for v in seen):
            return seen
        verdicts = verdicts or seen
    return verdicts


def _own(converter: Converter, cls: Any) -> bool:
    """Both directions are Python code of the user's own."""
    codes = [_code(getattr(cls, name, None)) for name in ("forward", "backward")]
    return all(code is not None and converter.frames._classify(code) == 1 for code in codes)


def _code(function: Any) -> CodeType | None:
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def _call(converter: Converter, called: Called, position: int, call_site: Site | None) -> Iterator[HandWritten]:
    if not called.wanted:
        return
    begin = time.monotonic()
    called(called.values)
    if time.monotonic() - begin > PATIENCE / 30:
        raise CannotAsk(f"{called.cls.__name__} takes too long to be called many times")
    once, twice = called(called.values), called(called.values)
    if any(not torch.equal(a, b) for a, b in zip(once, twice, strict=True)):
        raise CannotAsk(f"{called.cls.__name__} gives something else each time it is called")
    if not once or not all(bool(torch.isfinite(y).all()) for y in once):
        raise CannotAsk(f"{called.cls.__name__} gave nothing finite to compare")
    at = _compared(called, called.values)
    wrong = [i for i in range(len(called.wanted)) if _disagrees(at, i)]
    suspects = []
    for index in wrong:
        near = [_compared(called, moved(called.values, seed)) for seed in (1, 2)]
        if all(_disagrees(one, index) or not any(c.index == index for c in one) for one in near):
            suspects.append(index)
    designed = _designed(called, suspects) if suspects else ""
    for index in range(len(called.wanted)):
        mine = max((c for c in at if c.index == index), key=lambda c: c.error, default=None)
        if mine is None:
            continue
        plain: dict[str, Any] = {
            "error": mine.error, "analytic": mine.analytic, "numeric": mine.numeric.value, "uncertainty": mine.numeric.uncertainty,
            "word": verdict(mine.error), "size": called.values[index].numel(),
        }  # fmt: skip
        head = (called.cls.__name__, called.name(index), position)
        if index in suspects and designed:
            yield HandWritten(*head, _return_site(converter, called.cls), call_site, "surrogate", designed, **plain)
        elif index in suspects:
            yield _explained(converter, called, index, head, call_site, plain)
        elif index in wrong:
            yield HandWritten(*head, None, call_site, "undecided", "a kink lies at this point", **plain)
        else:
            yield HandWritten(*head, None, call_site, "right" if mine.error < 1e-5 else "undecided", "", **plain)


def _compared(called: Called, values: list[torch.Tensor]) -> list[Compared]:
    try:
        return list(compare(called, values, seed=20, rounds=ROUNDS))
    except CannotAsk:
        raise
    except Exception as error:
        raise CannotAsk(f"the backward of {called.cls.__name__} cannot be called in float64: {_first(error)}") from error


def _disagrees(seen: list[Compared], index: int) -> bool:
    mine = [c for c in seen if c.index == index]
    return bool(mine) and sum(c.disagrees for c in mine) * 2 > len(mine) and not any(c.numeric.kink for c in mine)


# -- by design? --------------------------------------------------------------------------------------------------


def _designed(called: Called, suspects: list[int]) -> str:
    """Why the backward cannot be meant as the derivative of this forward, or ''."""
    outputs = called(called.values)
    for index in suspects:
        x = called.values[index]
        same = [y for y in outputs if y.numel() == x.numel() and torch.equal(y.reshape(-1), x.reshape(-1))]
        if same and _moves_only(called, index, same[0], outputs):
            return "its forward hands the input on unchanged"
        if _constant(called, index):
            return "its forward is constant almost everywhere"
        for y in outputs:
            if y.numel() == x.numel() and _passes(called, index) and _quantised(x, y):
                return "its forward rounds to few values"
    if not _linear(called, suspects):
        return "it is not linear in the gradient it is given"
    return ""


def _moves_only(called: Called, index: int, same: torch.Tensor, outputs: list[torch.Tensor]) -> bool:
    """No other result depends on this argument."""
    there = moved(called.values, 5)
    again = called([there[i] if i == index else x for i, x in enumerate(called.values)])
    others = [(a, b) for y, a, b in zip(outputs, outputs, again, strict=True) if y is not same]
    same_still = any(b.numel() == there[index].numel() and torch.equal(b.reshape(-1), there[index].reshape(-1)) for b in again)
    return same_still and all(torch.equal(a, b) for a, b in others)


def _elements(x: torch.Tensor) -> list[int]:
    generator = torch.Generator().manual_seed(7)
    return torch.randperm(x.numel(), generator=generator)[:PARTIALS].tolist()


def _constant(called: Called, index: int) -> bool:
    """Moving one element a little changes not a bit of the results, for nearly every element."""
    x = called.values[index]
    base = called(called.values)
    chosen = _elements(x)
    still = 0
    for element in chosen:
        there = x.clone().reshape(-1)
        there[element] += 1e-6 * max(abs(float(there[element])), 1e-3)
        again = called([there.reshape(x.shape) if i == index else other for i, other in enumerate(called.values)])
        still += all(torch.equal(a, b) for a, b in zip(base, again, strict=True))
    return still >= 0.8 * len(chosen)


def _quantised(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Few distinct values come out of many, or inputs outside a window are all moved to its non-zero edge."""
    outside = y.reshape(-1)[y.reshape(-1) != 0]
    if outside.numel() >= 8 and torch.unique(outside).numel() <= outside.numel() / 2 < torch.unique(x).numel():
        return True
    kept = x.reshape(-1) == y.reshape(-1)
    edges = y.reshape(-1)[~kept]
    return bool(kept.any()) and edges.numel() > 0 and torch.unique(edges).numel() <= 2 and bool((edges != 0).any())


def _passes(called: Called, index: int) -> bool:
    """The gradient that comes back is the one that was given, element by element, times one number or 0."""
    leaves = [x.clone().requires_grad_(True) for x in called.values]
    outputs = called(leaves)
    y = next((y for y in outputs if y.numel() == leaves[index].numel() and y.requires_grad), None)
    if y is None:
        return False
    given = torch.rand(y.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    (back,) = torch.autograd.grad([y], [leaves[index]], [given], allow_unused=True)
    if back is None:
        return True
    ratio = (back.reshape(-1) / given.reshape(-1))[back.reshape(-1) != 0]
    return ratio.numel() == 0 or bool((ratio - ratio[0]).abs().max() < 1e-9 * ratio[0].abs())


def _linear(called: Called, suspects: list[int]) -> bool:
    """Whether twice the gradient, and its negative, give twice the result and its negative, as they do for every derivative."""
    leaves = [x.clone().requires_grad_(True) for x in called.values]
    given: list[torch.Tensor] = []
    backs = []
    for factor in (1.0, -2.0):
        outputs = [y for y in called(leaves) if y.requires_grad]
        given = given or [torch.randn(y.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64) for y in outputs]
        backs.append(torch.autograd.grad(outputs, [leaves[i] for i in suspects], [factor * g for g in given], allow_unused=True))
    for one, two in zip(*backs, strict=True):
        if one is not None and two is not None and float((two + 2 * one).norm()) > 1e-6 * float(one.norm()):
            return False
    return True


# -- why ---------------------------------------------------------------------------------------------------------


@dataclass
class _Traced:
    """One backward pass, looked at from inside."""

    tape: Tape
    result: torch.Tensor | None
    line: int | None = None  # of the return that was taken
    names: Named = field(default_factory=dict)


def _explained(
    converter: Converter, called: Called, index: int, head: tuple[str, str, int], call_site: Site | None, plain: dict[str, Any]
) -> HandWritten:
    """What kind of mistake, on which line, and what proves it."""
    generator = torch.Generator().manual_seed(31)
    weights, grads = differentiate(called, called.values, generator)
    x = called.values[index]
    moves = [direction(x, generator) for _ in range(4)]

    def along(move: torch.Tensor) -> Callable[[float], list[torch.Tensor]]:
        def at(t: float) -> list[torch.Tensor]:
            with torch.no_grad():
                return called([v + t * move if i == index else v.clone() for i, v in enumerate(called.values)])

        return at

    measured = [(m, s) for m in moves if (s := slope(along(m), weights)) is not None]
    sweep = slope(along(moves[0]), weights, whole=True)

    def right(gradient: torch.Tensor) -> bool:
        return all(abs(float((gradient * m).sum()) - s.value) <= max(_AGREE * abs(s.value), 10 * s.uncertainty) for m, s in measured)

    kind, factor, share = _kind(along, weights, x, grads[index])
    traced = _trace(converter, called, index, weights)
    changes = list(traced.tape.changes(traced.result, right, traced.names)) if traced.result is not None else []
    change = _chosen(changes)
    site, expression = _site(converter, called, traced, change)
    proof = _control(called, index, weights, right, plain["word"])
    if change is not None:
        cured = f"with that one change ({change.words}) every one of {len(measured)} random projections agrees"
        proof = f"{proof}; {cured}" if proof else cured
    words = (change.words, change.kind, change.factor or "") if change is not None else ("", "", "")
    shown = sweep.sweep if sweep is not None else ()
    return HandWritten(*head, site, call_site, "wrong", kind, *plain.values(), factor, share, shown, proof, *words, expression)


def _kind(
    along: Callable[[torch.Tensor], Callable[[float], list[torch.Tensor]]],
    weights: list[torch.Tensor],
    x: torch.Tensor,
    gradient: torch.Tensor | None,
) -> tuple[str, float | None, float]:
    """(kind of mistake, what the gradient has to be multiplied by, share of the elements that are wrong)."""
    pairs = []
    for element in _elements(x):
        move = torch.zeros(x.numel(), dtype=torch.float64)
        move[element] = max(abs(float(x.reshape(-1)[element])), 1e-2)
        s = slope(along(move.reshape(x.shape)), weights)
        if s is not None and not s.kink:
            pairs.append((0.0 if gradient is None else float(gradient.reshape(-1)[element] * move[element]), s.value, s.uncertainty))
    clear = [(a, n) for a, n, u in pairs if abs(n) > 100 * u and abs(n) > 1e-12]
    off = [(a, n) for a, n in clear if abs(a - n) > 1e-5 * max(abs(a), abs(n))]
    share = len(off) / len(clear) if clear else 1.0
    if gradient is None or not bool(gradient.any()):
        return ("nothing" if gradient is None else "zero"), None, share
    ratios = [n / a for a, n in clear if a != 0]
    if len(clear) >= 2 and len(ratios) == len(clear) and max(ratios) - min(ratios) <= 1e-5 * max(abs(r) for r in ratios):
        return ("sign" if abs(ratios[0] + 1) < 1e-5 else "factor"), sum(ratios) / len(ratios), share
    if 0 < len(off) < len(clear):
        return "part", None, share
    return "term", None, share


def _trace(converter: Converter, called: Called, index: int, weights: list[torch.Tensor]) -> _Traced:
    """Run the backward once, recording its operations, and its names when it returns."""
    code = _code(called.cls.backward)
    traced = _Traced(Tape(converter.frames), None)
    leaves = [x.detach().clone().requires_grad_(True) for x in called.values]
    outputs = called(leaves)
    roots = [(y, w) for y, w in zip(outputs, weights, strict=True) if y.requires_grad]
    returned: list[Any] = []
    local: dict[str, Any] = {}

    def follow(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code is not code:
            return None
        if event == "return":
            traced.line = frame.f_lineno
            local.update(frame.f_locals)
            returned.append(arg)
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        with traced.tape:
            torch.autograd.grad([y for y, _ in roots], leaves, [w for _, w in roots], allow_unused=True)
    finally:
        sys.settrace(before)
    traced.names = _reachable(local, traced.tape)
    result = returned[-1] if returned else None
    several = result if isinstance(result, tuple) else (result,)
    place = called.wanted[index]
    mine = several[place] if place < len(several) else None
    traced.result = mine if isinstance(mine, torch.Tensor) else None
    return traced


def _reachable(names: dict[str, Any], tape: Tape) -> Named:
    """Numbers and tensors that the backward has at hand, by source text."""
    found: Named = {"2": (2.0, -1), "3": (3.0, -1)}
    context = next((k for k, v in names.items() if isinstance(v, torch.autograd.function.BackwardCFunction)), None)
    numbers = {f"{context}.{k}": v for k, v in vars(names[context]).items()} if context is not None else {}
    for text, value in (numbers | names).items():
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value not in (0, 1, -1):
            found[text] = (float(value), -1)
    for text, value in names.items():
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64:
            continue
        made = tape.made(value)
        found[text] = (value, made)
        found[f"(1 - {text})"] = (1 - value, made)
        if value.ndim:
            extents = {f"{text}.numel()": value.numel(), f"{text}.shape[0]": value.shape[0], f"{text}.shape[-1]": value.shape[-1]}
            found.update({extent: (float(size), made) for extent, size in extents.items() if size > 3})
    return found


_ORDER = ("swap", "swapped", "mask", "power", "transpose", "sign", "factor", "missing factor")


def _chosen(changes: list[Change]) -> Change | None:
    """The simplest; among equals the last operation, which is the first in the list."""
    lines = {c.entry.places[0] for c in changes}
    return min(changes, key=lambda c: _ORDER.index(c.kind)) if lines else None


def _site(converter: Converter, called: Called, traced: _Traced, change: Change | None) -> tuple[Site | None, Site | None]:
    """(the line that is wrong, the span of the expression to change)."""
    if change is not None:
        site = converter.frames.site(change.entry.places)
        return site, site
    entry = traced.tape.culprit(traced.result) if traced.result is not None else None
    if entry is not None and entry.places:
        return converter.frames.site(entry.places), None
    return _return_site(converter, called.cls, traced.line), None


def _return_site(converter: Converter, cls: Any, line: int | None = None) -> Site | None:
    """The (last) return of the backward."""
    code = _code(cls.backward)
    if code is None:
        return None
    returns = [i for i in dis.get_instructions(code) if i.opname.startswith("RETURN") and i.positions is not None]
    at = [i for i in returns if line is None or i.positions.lineno == line]  # type: ignore[union-attr]
    return converter.frames.site(((code, at[-1].offset),)) if at else None


def _control(called: Called, index: int, weights: list[torch.Tensor], right: Callable[[torch.Tensor], bool], word: str) -> str:
    """PyTorch's own derivative of the function's forward, where that is made of PyTorch operations: independent of the differences."""
    leaves = [x.detach().clone().requires_grad_(True) for x in called.values]
    try:
        with torch.enable_grad():
            outputs = called.outputs(leaves, lambda *args: _forward(called.cls, args))
            kept = [y for y in outputs if isinstance(y, torch.Tensor) and y.dtype == torch.float64]
            roots = [(y, w) for y, w in zip(kept, weights, strict=True) if y.requires_grad]
            (grad,) = torch.autograd.grad([y for y, _ in roots], [leaves[index]], [w for _, w in roots], allow_unused=True)
    except Exception:  # not differentiable by itself: no control of this kind
        return ""
    if grad is None or not right(grad):
        return ""
    return "PyTorch's own derivative of the same forward agrees with the differences, and not with this backward"


def _forward(cls: Any, args: tuple[Any, ...]) -> Any:
    if cls.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context:
        return cls.forward(*args)
    return cls.forward(_Context(), *args)


class _Context:
    """Takes whatever a forward wants to keep."""

    needs_input_grad = (True,) * 100

    def save_for_backward(self, *_: Any) -> None: ...

    def save_for_forward(self, *_: Any) -> None: ...

    def mark_dirty(self, *_: Any) -> None: ...

    def mark_non_differentiable(self, *_: Any) -> None: ...

    def set_materialize_grads(self, _: bool) -> None: ...


def _copied(tree: Any) -> Any:
    """A fresh float64 copy of a recorded argument."""
    if isinstance(tree, Cell):
        if tree.tensor is None:
            raise CannotAsk("an argument was not kept")
        held = tree.tensor.detach().clone()
        return held.to(torch.float64) if held.is_floating_point() else held
    if type(tree) in (tuple, list):
        return type(tree)(_copied(item) for item in tree)
    if type(tree) is dict:
        return {key: _copied(item) for key, item in tree.items()}
    return tree


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
