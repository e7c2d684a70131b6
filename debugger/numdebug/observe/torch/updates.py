"""Updates of weights: what the exact one would have been, and how much of it the weights' format swallowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.training import Training
from numdebug.weights import Change, Update, tallied

_ARITHMETIC = frozenset({"add", "sub", "addcdiv", "addcmul", "lerp"})
_FUSED = ("_fused_sgd_", "_fused_adam_", "_fused_adamw_", "_fused_adagrad_")


def updates(converter: Converter, training: Training) -> list[Update]:
    """One for each line and step, in order."""
    gradients = _by_step(converter, training)
    owners = {storage for grads in gradients.values() for storage in grads}
    if not owners:
        return []
    found: dict[tuple[Any, int, str], list[_Part]] = {}
    for position, raw in enumerate(converter.raws):
        targets = _targets(raw, owners)
        if raw.phase == "backward" or not targets or not (source := _computed(converter, raw)):
            continue
        exact, same = _again(source, raw, [new for _, new in targets])
        for old, new in targets:
            if id(new) in exact and not _compensated(converter, position, new):
                assert new.tensor is not None
                key = (raw.places[:1], raw.step, str(new.tensor.dtype))
                found.setdefault(key, []).append(_Part(position, old, new, exact[id(new)], same))
    return [_one(step, dtype, parts, gradients) for (_, step, dtype), parts in found.items()]


@dataclass(frozen=True)
class _Part:
    position: int
    old: Cell
    new: Cell
    exact: torch.Tensor
    same: bool


def _targets(raw: Raw, owners: set[int]) -> list[tuple[Cell, Cell]]:
    """Weights before and after: written in place, or a sum that takes their place (`w = (w - lr * g).detach()`)."""
    if raw.written:
        return [(c.previous, c) for c in raw.written if c.storage in owners and c.previous is not None and c.tensor is not None]
    out = raw.outs[0] if len(raw.outs) == 1 else None
    if out is None or out.tensor is None or out.storage not in owners or canonical(raw.func) not in _ARITHMETIC:
        return []
    old = [c for c in raw.cells() if c.storage in owners and c.storage != out.storage and _alike(c.tensor, out.tensor)]
    return [(old[0], out)] if old else []


def _alike(a: torch.Tensor | None, b: torch.Tensor) -> bool:
    return a is not None and a.shape == b.shape and a.dtype == b.dtype


def _by_step(converter: Converter, training: Training) -> dict[int, dict[int, torch.Tensor]]:
    """Gradients by step and by the parameter's storage: what the optimizer was given, else what the backward pass left."""
    step_of = [(raw.index, raw.step) for raw in converter.raws]
    found: dict[int, dict[int, torch.Tensor]] = {}
    pairs = [(b.after, p, g) for b in training.backwards for p, g in b.gradients]
    pairs += [(s.after, p, g) for s in training.given for _, p, g in s.parameters if g is not None]
    for after, parameter, gradient in pairs:
        step = next((s for index, s in reversed(step_of) if index < after), None)
        if step is not None and parameter.storage and gradient.tensor is not None and gradient.tensor.layout is torch.strided:
            found.setdefault(step, {})[parameter.storage] = gradient.tensor
    return found


def _computed(converter: Converter, raw: Raw) -> Raw | None:
    """The arithmetic behind a write to weights: the operation itself, or the one whose result is copied into them."""
    name = canonical(raw.func)
    if name in _ARITHMETIC or (hasattr(raw.func, "_schema") and raw.func._schema.name.rpartition("::")[2] in _FUSED):
        return raw
    if name != "copy" or len(cells := list(raw.cells())) != 2:
        return None
    source = next((r for r in converter.raws if r.index == cells[1].producer), None)
    if source is None or canonical(source.func) not in _ARITHMETIC or source.written or not source.outs or cells[1].tensor is None:
        return None
    target = cells[0].tensor
    mine = any(c.storage == cells[0].storage for c in source.cells())
    return source if mine and target is not None and target.dtype == cells[1].tensor.dtype else None


def _again(source: Raw, raw: Raw, targets: list[Cell]) -> tuple[dict[int, torch.Tensor], bool]:
    """The new values in float64, by id of the written Cell, and whether the same in the program's format gives what was recorded."""
    wide, low = _run(source, raw, targets, torch.Tensor.double), _run(source, raw, targets, lambda t: t)
    same = bool(low) and all(torch.equal(low[id(c)], c.tensor) for c in targets if id(c) in low and c.tensor is not None)
    return wide, same


def _run(source: Raw, raw: Raw, targets: list[Cell], to: Callable[[torch.Tensor], torch.Tensor]) -> dict[int, torch.Tensor]:
    made: dict[int, torch.Tensor] = {}

    def thaw(tree: Any) -> Any:
        if isinstance(tree, Cell):
            if id(tree) not in made:
                if tree.tensor is None:
                    raise LookupError
                held = tree.tensor.detach().clone()
                made[id(tree)] = to(held) if held.is_floating_point() and held.dim() + held.numel() > 0 else held
            return made[id(tree)]
        if type(tree) in (tuple, list):
            return type(tree)(thaw(item) for item in tree)
        if type(tree) is dict:
            return {key: thaw(item) for key, item in tree.items()}
        return tree

    try:
        with torch.no_grad():
            result = source.func(*thaw(source.args), **thaw(source.kwargs))
    except (LookupError, RuntimeError, TypeError, NotImplementedError):  # not kept, or not for float64
        return {}
    if source is not raw or not raw.written:
        return {id(c): result for c in targets}
    return {id(c): made[id(c.previous)] for c in targets if id(c.previous) in made}


def _compensated(converter: Converter, position: int, cell: Cell) -> bool:
    """What was lost is worked out and kept (Kahan's summation): a difference with the new value, in the same step."""
    for raw in converter.raws[position + 1 : position + 40]:
        if raw.step != converter.raws[position].step or raw.phase == "backward":
            return False
        if canonical(raw.func) == "sub" and any(c.storage == cell.storage for c in raw.cells()) and not raw.grad:
            return not any(w.storage == cell.storage for w in raw.written)
    return False


def _one(step: int, dtype: str, parts: list[_Part], gradients: dict[int, dict[int, torch.Tensor]]) -> Update:
    others = sum(1 for other in gradients if other != step)
    repeats = all(part.same for part in parts)
    changes = [c for part in parts if (c := _change(part, gradients)) is not None]
    return tallied(parts[0].position, step, dtype.removeprefix("torch."), repeats, changes, others)


def _change(part: _Part, gradients: dict[int, dict[int, torch.Tensor]]) -> Change | None:
    old, new = part.old.tensor, part.new.tensor
    if old is None or new is None or old.shape != part.exact.shape:
        return None
    delta = part.exact.double() - old.double()
    known: dict[int, torch.Tensor] = {}
    for step, grads in gradients.items():
        g = grads.get(part.old.storage)
        g = grads.get(part.new.storage) if g is None else g
        if g is not None and g.shape == delta.shape:
            known[step] = g.double()
    return Change(delta, (delta != 0) & (new == old), known)
