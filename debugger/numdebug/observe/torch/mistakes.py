"""What is wrong with a backward that disagrees with differences: the kind of mistake, the line, the change that cures it, and the proof."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from numdebug.observe.torch.called import Called, code_of, some_elements
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.differences import differentiate, direction, moved, slope
from numdebug.observe.torch.tape import Change, Named, Tape
from numdebug.recording import Site
from numdebug.run import CannotAsk, HandWritten
from numdebug.slopes import Slope

_AGREE = 1e-6  # between what float64 differences leave (1e-9) and what is acceptable (1e-5)


@dataclass
class _Traced:
    """One backward pass, looked at from inside."""

    tape: Tape
    result: torch.Tensor | None
    line: int | None = None  # of the return that was taken
    names: Named = field(default_factory=dict)


def explained(
    converter: Converter, called: Called, index: int, head: tuple[str, str, int], call_site: Site | None, plain: dict[str, Any]
) -> HandWritten:
    """What kind of mistake, on which line, and what proves it."""
    telling = _telling(called, index)
    weights, x = telling.weights, telling.values[index]

    def right(gradient: torch.Tensor) -> bool:
        near = (abs(float((gradient * m).sum()) - n.value) <= max(_AGREE * abs(n.value), 10 * n.uncertainty) for m, n in telling.measured)
        return telling.clear and all(near)

    sweep = slope(telling.along(telling.measured[0][0]), weights, whole=True) if telling.measured else None
    kind, factor, share = _kind(telling.along, weights, x, telling.gradient)
    traced = _trace(converter, called, index, telling)
    changes = list(traced.tape.changes(traced.result, right, traced.names)) if traced.result is not None else []
    change = _chosen(changes)
    site, expression = _site(converter, called, traced, change)
    proof = _control(called, index, telling, right)
    if change is not None:
        cured = f"with that one change ({change.words}) every one of {len(telling.measured)} random projections agrees"
        proof = f"{proof}; {cured}" if proof else cured
    words = (change.words, change.kind, change.factor or "") if change is not None else ("", "", "")
    shown = sweep.sweep if sweep is not None else ()
    return HandWritten(*head, site, call_site, "wrong", kind, *plain.values(), factor, share, shown, proof, *words, expression)


@dataclass
class _Telling:
    """A point at which the derivative is well above what differences can resolve, so that agreement there means something."""

    values: list[torch.Tensor]
    weights: list[torch.Tensor]
    gradient: torch.Tensor | None
    measured: list[tuple[torch.Tensor, Slope]]
    along: Callable[[torch.Tensor], Callable[[float], list[torch.Tensor]]]

    @property
    def clear(self) -> bool:
        return bool(self.measured) and all(abs(n.value) > 1e4 * n.uncertainty for _, n in self.measured)


def _telling(called: Called, index: int) -> _Telling:
    """The recorded point, or where the function is saturated there, one that is not."""
    generator = torch.Generator().manual_seed(31)
    normal = [torch.randn(x.shape, generator=generator, dtype=torch.float64) for x in called.values]
    candidates = [called.values, moved(called.values, 3), moved(called.values, 4, 1.0), normal]
    seen: list[_Telling] = []
    for values in candidates:
        try:
            weights, grads = differentiate(called, values, generator)
        except (CannotAsk, RuntimeError):  # outside of the domain
            continue

        def along(move: torch.Tensor, values: list[torch.Tensor] = values) -> Callable[[float], list[torch.Tensor]]:
            def at(t: float) -> list[torch.Tensor]:
                with torch.no_grad():
                    return called([v + t * move if i == index else v.clone() for i, v in enumerate(values)])

            return at

        moves = [direction(values[index], generator) for _ in range(4)]
        measured = [(m, n) for m in moves if (n := slope(along(m), weights)) is not None and not n.kink]
        seen.append(_Telling(values, weights, grads[index], measured, along))
        if seen[-1].clear:
            return seen[-1]
    return seen[0]


def _kind(
    along: Callable[[torch.Tensor], Callable[[float], list[torch.Tensor]]],
    weights: list[torch.Tensor],
    x: torch.Tensor,
    gradient: torch.Tensor | None,
) -> tuple[str, float | None, float]:
    """(kind of mistake, what the gradient has to be multiplied by, share of the elements that are wrong)."""
    pairs = []
    for element in some_elements(x):
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


def _trace(converter: Converter, called: Called, index: int, telling: _Telling) -> _Traced:
    """Run the backward once, recording its operations, and its names when it returns."""
    code = code_of(called.cls.backward)
    traced = _Traced(Tape(converter.frames), None)
    leaves = [x.detach().clone().requires_grad_(True) for x in telling.values]
    outputs = called(leaves)
    roots = [(y, w) for y, w in zip(outputs, telling.weights, strict=True) if y.requires_grad]
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
    return return_site(converter, called.cls, traced.line), None


def return_site(converter: Converter, cls: Any, line: int | None = None) -> Site | None:
    """The (last) return of the backward."""
    code = code_of(cls.backward)
    if code is None:
        return None
    returns = [i for i in dis.get_instructions(code) if i.opname.startswith("RETURN") and i.positions is not None]
    at = [i for i in returns if line is None or i.positions.lineno == line]  # type: ignore[union-attr]
    return converter.frames.site(((code, at[-1].offset),)) if at else None


def _control(called: Called, index: int, telling: _Telling, right: Callable[[torch.Tensor], bool]) -> str:
    """PyTorch's own derivative of the function's forward, where that is made of PyTorch operations: independent of the differences."""
    leaves = [x.detach().clone().requires_grad_(True) for x in telling.values]
    try:
        with torch.enable_grad():
            outputs = called.outputs(leaves, lambda *args: _forward(called.cls, args))
            kept = [y for y in outputs if isinstance(y, torch.Tensor) and y.dtype == torch.float64]
            roots = [(y, w) for y, w in zip(kept, telling.weights, strict=True) if y.requires_grad]
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
