"""Which units are dead or saturated, for every row that the recorded steps saw?

Measures  for every ReLU behind a layer with weights: the units that are 0 for all rows, where that leaves the layer's weights a gradient
          of exactly 0, or a loss that does not move; for every tanh and sigmoid of the first step: the share of results where
          the derivative is below a hundredth of its largest value, and how much the weights before it amplify.
Costs     one pass over the results of activations.
Misses    units that die for part of the data; activations inside fused kernels (LSTM).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.graph import STRUCTURAL, downstream
from numdebug.layers import nearest, steps_of, weighted, weights_of
from numdebug.recording import Op, Recording, Site
from numdebug.run import Gradient, Run
from numdebug.training import Progress, progress

QUESTION = "Which units are dead or saturated, for every row?"
SILENT = True
EARLY = True

# A layer of which fewer than one unit in ten lives cannot carry what a wider network learned; the widest dead share in healthy programs
# (the controls and repaired programs of the test corpus) is below it, or beside a loss that falls.
DEAD = 0.9
ROWS = 8  # fewer rows than this say little about a unit
# The derivative of tanh is below 1 % of its largest value beyond |x| = 3, that of a sigmoid beyond 6.
FLAT = 0.01
MOST = 0.5
# Weights that turn inputs of size 1 into arguments of this size push a tanh beyond |x| = 3 for a third of a normal distribution.
GAIN = 3.0


@dataclass
class _Units:
    """One layer's activation over all its calls."""

    op: Op
    layer: Op
    step: int
    alive: np.ndarray | None = None
    rows: int = 0
    low: int = 0
    high: int = 0
    flat: int = 0
    size: int = 0
    calls: list[int] = field(default_factory=list)


def measure(run: Run) -> Iterator[Evidence]:
    """Dead layers, then saturated ones; of each kind the first that the forward pass meets."""
    if run.recording.sinks:
        return
    gradients = run.gradients()
    dead: dict[object, _Units] = {}
    saturated: dict[object, _Units] = {}
    for step in steps_of(run.recording):
        layers = weighted(run.recording, gradients, step)
        for op in run.recording.ops:
            if op.step != step or op.phase != "forward" or not op.grad or not op.operands:
                continue
            kept = dead if _is_relu(op) else saturated if op.name in ("tanh", "sigmoid") else None
            if kept is None:
                continue
            layer = nearest(run.recording, op.operands[0], layers)
            if layer is None:
                continue
            weights = weights_of(run.recording, gradients, layer)
            key = (op.site.place if op.site else None, weights[0].name if weights else None)
            units = kept.setdefault(key, _Units(op, layer, step))
            _count(run, units, op) if kept is dead else _flat(run, units, op)
    first = len(run.recording.steps) <= 1
    yield from _dead(run, list(dead.values()), gradients, first)
    if first:
        yield from _saturated(run, list(saturated.values()), gradients)


def _is_relu(op: Op) -> bool:
    scalars = op.scalars
    if op.name == "clamp":
        return scalars.get("min") == 0 and len(op.operands) == 1
    return (
        op.name == "relu"
        or (op.name == "hardtanh" and scalars.get("min_val") == 0)
        or (op.name == "threshold" and scalars.get("value") == 0)
    )


def _by_unit(op: Op, layer: Op, numbers: np.ndarray) -> np.ndarray:
    """Rows by units: channels of images and signals, features of everything else."""
    axis = 1 if numbers.ndim > 3 or (numbers.ndim == 3 and layer.name == "conv") else -1
    return np.moveaxis(numbers, axis, -1).reshape(-1, numbers.shape[axis])


def _count(run: Run, units: _Units, op: Op) -> None:
    numbers = run.array(op.outputs[0])
    if numbers is None or numbers.ndim < 2 or not numbers.size:
        return
    rows = _by_unit(op, units.layer, numbers)
    alive = (rows != 0).any(axis=0)
    units.alive = alive if units.alive is None or units.alive.shape != alive.shape else units.alive | alive
    units.rows += rows.shape[0]
    units.calls.append(op.index)


def _dead(run: Run, found: list[_Units], gradients: list[Gradient], first: bool) -> Iterator[Evidence]:
    went = progress(run.recording)
    for units in found:
        if units.alive is None or units.rows < ROWS or units.alive.size < 2:
            continue
        share = 1 - float(units.alive.mean())
        if share < DEAD:
            continue
        weights = weights_of(run.recording, gradients, units.layer)
        adding = {op.index for op in _adding(run.recording, units.layer)}
        weights += [g for g in gradients if g.step == units.step and g.dims == 1 and adding & set(g.used) and g not in weights]
        silent = [g for g in weights if g.step == units.step and g.norm == 0]
        if not _harms(run.recording, units, share, bool(silent), went, first):
            continue
        yield _dead_fact(run, units, weights, share, went, first)
        return


def _harms(recording: Recording, units: _Units, share: float, no_gradient: bool, went: Progress | None, first: bool) -> bool:
    stuck = went is not None and went.stuck
    hidden = _feeds_layers(recording, units.op)
    if share == 1 and no_gradient:
        return hidden or first or stuck  # without a layer behind it, a satisfied margin loss is 0 as well
    return hidden and (first or stuck)


def _dead_fact(run: Run, units: _Units, weights: list[Gradient], share: float, went: Progress | None, first: bool) -> Evidence:
    op = units.op
    at = run.made(op) or op.site
    bias = next((g for g in weights if g.dims == 1), None)
    offset = _offset(run, units.layer)
    sites: dict[str, Site] = {}
    if at is not None:
        sites["relu"] = at
    if first and bias is not None and bias.made_at is not None and offset is not None and offset < 0 and _filled(bias):
        at = bias.made_at  # every unit starts below zero by the same written number
    if at is not None:
        sites["target"] = at
    rate = run.recording.places.get("optimizer") or run.recording.places.get("update")
    if rate is not None:
        sites["optimizer"] = rate
    assert units.alive is not None
    numbers = {
        "dead": Number(int((~units.alive).sum()), "units"),
        "units": Number(int(units.alive.size), "units"),
        "share": Number(share, "of the layer"),
        "rows": Number(units.rows, "rows"),
    }
    if went is not None:
        numbers |= {"first_loss": Number(went.first), "late_loss": Number(went.late)}
    if offset is not None:
        numbers["largest_bias"] = Number(offset)
    facts = {"op": op.name, "native": op.native, "first": first, "layer": weights[0].name if weights else "", "members": units.calls}
    return Evidence("dead-units", "activations", site=at, op=op.index, numbers=numbers, facts=facts, sites=sites, ops={"target": op.index})


def _filled(bias: Gradient) -> bool:
    return bias.made_by is not None and not bias.made_by.startswith(("uniform", "normal", "zero"))


def _adding(recording: Recording, layer: Op) -> list[Op]:
    """What adds a bias to the products of a layer: additions, and the operations that bring the bias into shape."""
    added = [op for out in layer.outputs for op in recording.consumers(out) if op.name == "add"]
    shaped = [p for op in added for v in op.operands if (p := recording.producer(v)) is not None and p.name in STRUCTURAL]
    return [*added, *shaped]


def _offset(run: Run, layer: Op) -> float | None:
    """The largest bias of a layer."""
    read = (*layer.operands, *(v for op in _adding(run.recording, layer) for v in op.operands))
    bias = next((v for v in read if len(v.shape) == 1 and (v.role == "parameter" or v in layer.operands)), None)
    numbers = run.array(bias) if bias is not None else None
    return float(numbers.max()) if numbers is not None and numbers.size else None


def _flat(run: Run, units: _Units, op: Op) -> None:
    numbers = run.array(op.outputs[0])
    if numbers is None or not numbers.size or numbers.dtype.kind != "f":
        return
    y = numbers.astype(np.float64)
    slope = 1 - y * y if op.name == "tanh" else 4 * y * (1 - y)
    middle = 0.0 if op.name == "tanh" else 0.5
    units.flat += int((slope < FLAT).sum())
    units.low += int(((slope < FLAT) & (y < middle)).sum())
    units.high += int(((slope < FLAT) & (y > middle)).sum())
    units.size += int(y.size)


def _saturated(run: Run, found: list[_Units], gradients: list[Gradient]) -> Iterator[Evidence]:
    """One fact about all saturated layers: the first is what it is about, the others are repaired with it."""
    layers = [(units, *_gain(run, units, gradients)) for units in found if _at_both_ends(units)]
    layers = [(units, weights, gain) for units, weights, gain in layers if gain >= GAIN and _feeds_layers(run.recording, units.op)]
    if not layers:
        return
    units, weights, gain = layers[0]
    numbers = {"share": Number(units.flat / units.size, "of the results"), "gain": Number(gain, "times the size of the inputs")}
    sites: dict[str, Site] = {}
    for count, (other, theirs, gain) in enumerate(layers, 1):
        mark = "" if count == 1 else str(count)
        at = theirs[0].made_at or other.op.site
        if at is not None:
            sites[f"target{mark}"] = at
            numbers[f"gain{mark}"] = Number(gain, "times the size of the inputs")
    facts = {"op": units.op.name, "native": units.op.native, "layer": weights[0].name, "members": [units.op.index]}
    yield Evidence("saturated-units", "activations", site=sites.get("target"), op=units.op.index, numbers=numbers, facts=facts, sites=sites)


def _at_both_ends(units: _Units) -> bool:
    return units.size > 0 and units.flat >= MOST * units.size and min(units.low, units.high) >= 0.1 * units.flat


def _feeds_layers(recording: Recording, op: Op) -> bool:
    return any(user.name in ("matmul", "conv") for user in downstream(recording, op))


def _gain(run: Run, units: _Units, gradients: list[Gradient]) -> tuple[list[Gradient], float]:
    """The size of a layer's results for independent inputs of size 1: |W| over the root of the number of outputs."""
    weights = weights_of(run.recording, gradients, units.layer)
    shape = units.layer.outputs[0].shape
    if not weights or not shape:
        return weights, 0.0
    outputs = shape[1] if units.layer.name == "conv" else shape[-1]
    return weights, weights[0].weight_norm / max(outputs, 1) ** 0.5
