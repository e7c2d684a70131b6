"""The gradient of the whole recorded step, weight by weight, against differences of its loss in float64."""

from __future__ import annotations

import math

import numpy as np

from numdebug.observe.arrays.evaluate import Wide, below, needed
from numdebug.observe.arrays.graph import Graph, Weight
from numdebug.observe.arrays.numbers import widened
from numdebug.observe.arrays.precision import last_weights
from numdebug.recording import Value
from numdebug.run import CannotAsk, CheckedGradient
from numdebug.slopes import Compared, slope

SCALINGS = 3  # factors in a row on a loss
MOST = 64  # weights checked, the first ones: eight forward passes each


def check(graph: Graph) -> list[CheckedGradient]:
    """One random direction for each weight."""
    weights = [w for w in last_weights(graph) if w.gradient is not None and w.before.id in graph.arrays][:MOST]
    losses = _losses(graph, weights)
    if not losses or not weights:
        raise CannotAsk("no recorded step differentiates a loss")
    gradients = [w.gradient for w in weights if w.gradient is not None]
    cut = {w.before.id for w in weights}
    places = needed(graph, losses, cut)
    leaves = {w.before.id: widened(graph.arrays[w.before.id]) for w in weights}  # both sides at the weights as they were
    exact = Wide(graph, given=dict(leaves)).run(needed(graph, gradients, cut), {v.id for v in gradients})
    ids = {v.id for place in places for v in (*graph.recording.ops[place].operands, *graph.recording.ops[place].outputs)}
    base = Wide(graph, given=dict(leaves), free=True)
    whole = base.run(places, ids)
    if base.failed:
        raise CannotAsk("some operation of the step cannot be computed in float64")
    generator = np.random.default_rng(0)
    scales = _scales(graph, losses)
    return [one for w in weights if (one := _one(graph, w, losses, places, {**whole, **leaves}, exact, generator, scales)) is not None]


def _scales(graph: Graph, losses: list[Value]) -> list[float]:
    """1, and by what the loss was multiplied or divided before or after: what was differentiated may have been the scaled one."""
    found = [1.0]
    todo = [(losses[0], 0)] if len(losses) == 1 else []
    seen = {v.id for v in losses}
    while todo:
        value, depth = todo.pop(0)
        above = graph.recording.producer(value)
        near = [*([above] if above is not None else []), *graph.recording.consumers(value)]
        scaled = [op for op in near if op.name in ("mul", "div") and len(op.operands) == 1 and op.phase != "backward"]
        for other in (v for op in scaled for v in (*op.operands, *op.outputs) if v.id not in seen):
            seen.add(other.id)
            one, own = graph.arrays.get(other.id), graph.arrays.get(losses[0].id)
            if one is not None and own is not None and one.size == own.size == 1 and float(own.reshape(())) != 0 and depth < SCALINGS:
                found.append(float(one.reshape(())) / float(own.reshape(())))
                todo.append((other, depth + 1))
    return [scale for scale in found if math.isfinite(scale) and scale != 0]


def _losses(graph: Graph, weights: list[Weight]) -> list[Value]:
    """Those of the last step."""
    steps = {w.step for w in weights}
    made = [(loss, graph.recording.producer(loss)) for loss in graph.losses]
    return [loss for loss, op in made if op is not None and op.step in steps]


def _one(
    graph: Graph,
    weight: Weight,
    losses: list[Value],
    places: list[int],
    whole: dict[int, np.ndarray],
    exact: dict[int, np.ndarray],
    generator: np.random.Generator,
    scales: list[float],
) -> CheckedGradient | None:
    start = whole[weight.before.id]
    if weight.gradient is None or weight.gradient.id not in exact or start.dtype.kind != "f":
        return None
    move = _direction(start, generator)
    moving = sorted(below(graph, places, [weight.before.id]))
    computed = {v.id for place in moving for v in graph.recording.ops[place].outputs}
    fixed = {key: array for key, array in whole.items() if key not in computed}

    def along(t: float) -> list[np.ndarray]:
        again = Wide(graph, given={**fixed, weight.before.id: start + t * move}, free=True)
        found = again.run(moving, {v.id for v in losses})
        return [found.get(v.id, whole[v.id]) for v in losses]

    gradient = exact[weight.gradient.id]
    if gradient.shape != move.shape:
        return None
    analytic = float((gradient * move).sum())
    ones = [np.ones_like(whole[v.id]) for v in losses]
    numeric = slope(along, ones)
    if numeric is None:
        return None
    tried = (Compared(0, analytic / scale, numeric) for scale in scales)
    compared = next((c for c in tried if not c.disagrees), Compared(0, analytic, numeric))
    analytic = compared.analytic
    full = slope(along, ones, whole=True) if compared.disagrees else None
    sweep = full.sweep if full is not None else ()
    said, error, made = compared.said, compared.error, weight.before.made_at
    return CheckedGradient(weight.name, int(move.size), analytic, numeric.value, numeric.uncertainty, error, said, sweep, made)


def _direction(like: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Random, of the size of the array's own elements (1 where they are all 0)."""
    size = float(np.sqrt(np.mean(np.square(like)))) if like.size else 1.0
    return np.asarray(generator.standard_normal(like.shape) * (size if size > 0 and math.isfinite(size) else 1.0))


