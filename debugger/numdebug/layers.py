"""The layers of one recorded step: which operations have weights, in which order, and how large values and gradients are between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from numdebug.graph import STRUCTURAL, leaf
from numdebug.recording import Op, Recording, Value
from numdebug.run import Gradient, Run

WEIGHTED = frozenset({"matmul", "conv", "mkldnn_rnn_layer"})


@dataclass(frozen=True)
class Layer:
    """One application of weights. `gradient` is the root mean square of the derivative by its result, None where it was not kept."""

    op: Op
    size: float
    gradient: float | None


def steps_of(recording: Recording) -> list[int]:
    """Steps in the window that have a backward pass."""
    return sorted({op.step for op in recording.ops if op.phase == "backward"})


def weighted(recording: Recording, gradients: list[Gradient], step: int) -> set[int]:
    """Positions of the operations of a step that apply a parameter: products and convolutions."""
    found: set[int] = set()
    for gradient in gradients:
        for use in gradient.used:
            op: Op | None = recording.ops[use]
            while op is not None and op.name in STRUCTURAL:
                users = [u for value in op.outputs for u in recording.consumers(value) if u.phase == "forward" and u.step == step]
                op = users[0] if users else None
            if op is not None and op.step == step and op.name in WEIGHTED:
                found.add(op.index)
    return found


def chain(run: Run, gradients: list[Gradient], step: int) -> list[Layer]:
    """The longest path of layers that one step went through, first to last."""
    recording = run.recording
    layers = weighted(recording, gradients, step)
    depth: dict[int, tuple[int, int | None]] = {}  # by operation: layers up to and with it, the last of them before it
    deepest: int | None = None
    for op in recording.ops:
        if op.phase != "forward" or op.step != step:
            continue
        best: tuple[int, int | None] = (0, None)
        for value in op.operands:
            before = depth.get(value.producer) if value.producer is not None else None
            if before is None or value.producer is None:
                continue
            here = (before[0], value.producer if value.producer in layers else before[1])
            best = max(best, here, key=lambda pair: pair[0])
        depth[op.index] = (best[0] + (op.index in layers), best[1])
        if op.index in layers and (deepest is None or depth[op.index][0] > depth[deepest][0]):
            deepest = op.index
    path: list[int] = []
    while deepest is not None:
        path.append(deepest)
        deepest = depth[deepest][1]
    flows = incoming(recording, set(path))
    return [Layer(recording.ops[i], rms(run, recording.ops[i].outputs[0]) or 0.0, rms(run, flows.get(i))) for i in reversed(path)]


def incoming(recording: Recording, wanted: set[int]) -> dict[int, Value]:
    """The derivative by the result of each forward operation: what its backward operation was given."""
    found: dict[int, Value] = {}
    for op in recording.ops:
        if op.phase != "backward" or op.forward not in wanted or op.forward in found:
            continue
        shape = recording.ops[op.forward].outputs[0].shape
        derived = [v for v in op.operands if _derived(recording, v)]  # the others are what the forward pass saved
        given = next((v for v in derived if v.shape == shape), None) or next((v for v in derived if v.shape == shape[::-1]), None)
        if given is not None:
            found[op.forward] = given
    return found


def _derived(recording: Recording, value: Value) -> bool:
    source = recording.producer(leaf(recording, value))
    return source is not None and source.phase == "backward"


def rms(run: Run, value: Value | None) -> float | None:
    """Root mean square over the elements."""
    numbers = run.array(value) if value is not None else None
    if numbers is None or not numbers.size or numbers.dtype.kind != "f":
        return None
    return float(np.sqrt(np.mean(np.square(numbers.astype(np.float64)))))


def depends(recording: Recording, op: Op, on: set[int]) -> bool:
    """Whether an operation uses a result of one of others, however far back."""
    return any(before.index in on for value in op.operands for before in recording.upstream(value))


def nearest(recording: Recording, value: Value, layers: set[int], limit: int = 40) -> Op | None:
    """The layer whose result reaches a value first, through activations, norms and reshapes."""
    for count, op in enumerate(recording.upstream(value)):
        if op.index in layers:
            return op
        if count > limit:
            break
    return None


def weights_of(recording: Recording, gradients: list[Gradient], layer: Op) -> list[Gradient]:
    """The parameters that a layer applies, matrices first."""
    before = {layer.index, *(v.producer for v in layer.operands if v.producer is not None)}
    return sorted((g for g in gradients if before.intersection(g.used)), key=lambda g: -g.dims)
