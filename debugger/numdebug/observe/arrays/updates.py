"""What the recorded steps did to weights: updates that the format swallowed, gradients that were clipped, weights that stay as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from numdebug.graph import STRUCTURAL, carriers, leaf
from numdebug.observe.arrays.evaluate import FAILS
from numdebug.observe.arrays.graph import Graph, Weight
from numdebug.observe.arrays.numbers import identical, is_float, widened
from numdebug.recording import Op, Value
from numdebug.weights import Change, Clipping, Untrained, Update, tallied

_ARITHMETIC = frozenset({"add", "sub", "rsub"})


# -- updates -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    op: Op
    weight: Weight
    old: np.ndarray
    new: np.ndarray
    exact: np.ndarray
    same: bool


def updates(graph: Graph) -> list[Update]:
    """One for each line and step, in order."""
    found: dict[tuple[object, int, str], list[_Part]] = {}
    for weight in graph.weights:
        part = _part(graph, weight)
        if part is not None and not _compensated(graph, weight):
            where = part.op.site.span if part.op.site is not None else None
            found.setdefault((where, weight.step, weight.before.dtype), []).append(part)
    gradients = _gradients(graph)
    return [_one(step, dtype, parts, gradients) for (_, step, dtype), parts in found.items()]


def _part(graph: Graph, weight: Weight) -> _Part | None:
    """The sum that made the new weight out of the old one, again in float64."""
    old = graph.arrays.get(weight.before.id)
    new = graph.arrays.get(weight.after.id) if weight.after is not None else None
    if old is None or new is None or weight.after is None or not is_float(old) or old.dtype != new.dtype or old.shape != new.shape:
        return None
    op = graph.recording.producer(weight.after)
    while op is not None and op.name in STRUCTURAL and op.operands:
        op = graph.recording.producer(carriers(op)[0])
    if op is None or op.name not in _ARITHMETIC or op.outputs[0].dtype != weight.before.dtype or op.outputs[0].shape != weight.before.shape:
        return None
    if not any(v is weight.before or _moved(graph, v, weight.before) for v in op.operands):
        return None
    compute = graph.nodes[op.index].compute
    operands = [graph.arrays.get(v.id) for v in op.operands]
    if any(a is None for a in operands):
        return None
    kept = [a for a in operands if a is not None]
    try:
        with np.errstate(all="ignore"):
            exact = np.asarray(compute([widened(a) for a in kept], True)[0])
            low = np.asarray(compute(kept, False)[0])
    except FAILS:
        return None
    return _Part(op, weight, old, new, exact, identical(low, new)) if exact.shape == old.shape else None


def _moved(graph: Graph, value: Value, before: Value) -> bool:
    op = graph.recording.producer(value)
    return op is not None and op.name in STRUCTURAL and bool(op.operands) and carriers(op)[0] is before and value.dtype == before.dtype


def _compensated(graph: Graph, weight: Weight) -> bool:
    """What was lost is worked out and kept (Kahan's summation): a difference with the new value, in the same step."""
    assert weight.after is not None
    users = graph.recording.consumers(weight.after)
    return any(op.name == "sub" and op.step == weight.step and op.phase != "backward" for op in users)


def _gradients(graph: Graph) -> dict[int, dict[str, np.ndarray]]:
    """By step and name of the weight."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for weight in graph.weights:
        held = graph.arrays.get(weight.gradient.id) if weight.gradient is not None else None
        if held is not None:
            found.setdefault(weight.step, {})[weight.name] = widened(held)
    return found


def _one(step: int, dtype: str, parts: list[_Part], gradients: dict[int, dict[str, np.ndarray]]) -> Update:
    others = sum(1 for other in gradients if other != step)
    repeats = all(part.same for part in parts)
    return tallied(parts[0].op.index, step, dtype, repeats, (_change(part, gradients) for part in parts), others)


def _change(part: _Part, gradients: dict[int, dict[str, np.ndarray]]) -> Change:
    delta = part.exact - widened(part.old)
    known = {step: named[part.weight.name] for step, named in gradients.items() if part.weight.name in named}
    return Change(delta, (delta != 0) & (part.new == part.old), {step: g for step, g in known.items() if g.shape == delta.shape})


# -- clipping ----------------------------------------------------------------------------------------------------


def clippings(graph: Graph) -> list[Clipping]:
    """One for each step whose gradients were clipped before they were used."""
    found = []
    for step in sorted({w.step for w in graph.weights}):
        weights = [w for w in graph.weights if w.step == step and w.gradient is not None]
        norms = _made_of(graph, weights)
        clipped = [(w, c) for w in weights if (c := _clipped(graph, w, norms)) is not None]
        one = _clipping(graph, step, clipped)
        if one is not None:
            found.append(one)
    return found


def _made_of(graph: Graph, weights: list[Weight]) -> set[int]:
    """Ids of the values that are computed from gradients in this step."""
    found = {w.gradient.id for w in weights if w.gradient is not None}
    steps = {w.step for w in weights}
    for op in graph.recording.ops:
        if op.step in steps and any(v.id in found for v in op.operands):
            found.update(v.id for v in op.outputs)
    return found


def _clipped(graph: Graph, weight: Weight, norms: set[int]) -> tuple[Op, str, Value] | None:
    """The first clamp of one gradient, or its product with a number that is itself computed from gradients (a norm)."""
    assert weight.gradient is not None
    current, first, kind = weight.gradient, None, ""
    for _ in range(6):
        after = [op for op in graph.recording.consumers(current) if op.step == weight.step and len(op.outputs) == 1]
        after = [op for op in after if op.outputs[0].shape == weight.gradient.shape]
        step = next(((op, k) for op in after if (k := _kind(op, current, norms)) and kind in ("", k)), None)
        if step is None:
            chosen = next((op for op in after if op.name == "where" and first is not None and op.operands[0].shape == ()), None)
            if chosen is None:
                break
            step = (chosen, kind)
        first, kind = first or step[0], step[1]
        current = step[0].outputs[0]
    return None if first is None else (first, kind, current)


def _kind(op: Op, gradient: Value, norms: set[int]) -> str:
    if op.name == "clamp" or (op.name in ("maximum", "minimum") and (len(op.operands) == 1 or op.operands[1].shape == ())):
        return "value"
    if op.name in ("mul", "div") and len(op.operands) == 2 and gradient in op.operands:
        other = op.operands[1] if op.operands[0] is gradient else op.operands[0]
        if other.shape == () and other.id in norms and gradient.shape != ():
            return "norm"
    return ""


def _clipping(graph: Graph, step: int, clipped: list[tuple[Weight, tuple[Op, str, Value]]]) -> Clipping | None:
    kinds = {kind for _, (_, kind, _) in clipped}
    pairs = [(graph.arrays.get(w.gradient.id), graph.arrays.get(v.id)) for w, (_, _, v) in clipped if w.gradient is not None]
    kept = [(widened(a).ravel(), widened(b).ravel()) for a, b in pairs if a is not None and b is not None and a.shape == b.shape]
    if len(kinds) != 1 or not kept:
        return None
    before, after = np.concatenate([a for a, _ in kept]), np.concatenate([b for _, b in kept])
    if not np.isfinite(before).all() or not np.isfinite(after).all():
        return None
    size, left = float(np.linalg.norm(before)), float(np.linalg.norm(after))
    changed = int((before != after).sum())
    if not changed or not size or not left:
        return None
    (kind,) = kinds
    limit = left if kind == "norm" else float(np.abs(after).max())
    first = min(op.index for _, (op, _, _) in clipped)
    return Clipping(
        op=first, step=step, kind=kind, elements=int((before != 0).sum()), changed=changed,
        cosine=float(before @ after) / (size * left), factor=left / size, limit=limit,
    )  # fmt: skip


# -- weights that nothing moves ----------------------------------------------------------------------------------


def untrained(graph: Graph) -> list[Untrained]:
    """Weights whose every way to the loss passes a stop_gradient, and that no recorded step moves; grouped by where they are cut off."""
    groups: dict[int, list[Weight]] = {}
    for name in dict.fromkeys(w.name for w in graph.weights):
        steps = [w for w in graph.weights if w.name == name]
        if all(_still(graph, w) for w in steps):
            cut = _cut(graph, steps[-1])
            if cut is not None:
                groups.setdefault(cut, []).append(steps[-1])
    return [
        Untrained("cut", tuple(w.name for w in weights), sum(math.prod(w.before.shape) for w in weights), None, op=op, how="detach")
        for op, weights in sorted(groups.items())
    ]


def _still(graph: Graph, weight: Weight) -> bool:
    """Without a gradient, or with one that is exactly 0, and the same afterwards."""
    before = graph.arrays.get(weight.before.id)
    after = graph.arrays.get(weight.after.id) if weight.after is not None else None
    gradient = graph.arrays.get(weight.gradient.id) if weight.gradient is not None else None
    zero = weight.gradient is None or (gradient is not None and not bool(np.any(gradient != 0)))
    return zero and before is not None and after is not None and identical(before, after)


def _cut(graph: Graph, weight: Weight) -> int | None:
    """The first stop_gradient between a weight and the losses; None where one way leads past all of them, or none to the losses.

    One of the weight itself is how people freeze it.
    """
    losses = {loss.id for loss in graph.losses}
    connected, loose, first = {weight.before.id}, set(), None
    for op in graph.recording.ops:
        if op.step != weight.step or op.phase != "forward":
            continue
        touched = any(v.id in connected for v in op.operands)
        if touched and op.name == "detach":
            if leaf(graph.recording, op.operands[0]) is weight.before:
                return None
            first = op.index if first is None else first
            loose.update(v.id for v in op.outputs)
        elif touched:
            connected.update(v.id for v in op.outputs)
        elif any(v.id in loose for v in op.operands):
            loose.update(v.id for v in op.outputs)
    return first if losses & loose and not losses & connected else None
