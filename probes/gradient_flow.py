"""Do values and gradients shrink or grow from layer to layer, by which factor, and does it harm?

Measures  along the longest path of layers with weights (each time step of a recurrence counts): the root mean square of each layer's result
          and of the derivative by it, in the first step and in the last recorded one; which activation or weights lie between; whether
          the loss moves, and whether the output depends on the input at all.
Costs     one pass over the results of the layers on that path and over their derivatives.
Misses    paths of fewer than five layers; layers inside fused kernels; what happens between the first step and the last two.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Any

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.layers import Layer, chain, steps_of, weights_of
from numdebug.recording import Op, Site
from numdebug.run import Gradient, Run
from numdebug.training import progress

QUESTION = "Do values and gradients shrink or grow from layer to layer?"
SILENT = True
EARLY = True

LAYERS = 5  # fewer are no geometric series
# Over a path of at least five layers, the smallest ratio of first to last derivative in the healthy programs of the corpus is 1.8e-2
# (a GAN), of last to first value 1e-3; the largest of either is 30. A factor 1e4 below or 1e3 above is beyond anything that trains.
SHRINKS, GROWS = 1e-4, 1e3
EACH_SHRINKS, EACH_GROWS = 0.7, 1.3  # and it must be a trend: the median layer contributes
SPREAD = 0.01  # of the output's size: below, the output is the same for every row
_SQUASH = frozenset({"sigmoid", "tanh", "softmax", "hardtanh", "hardsigmoid", "log_sigmoid"})


@dataclass(frozen=True)
class _Flow:
    layers: list[Layer]
    back: float  # first derivative / last derivative
    ahead: float  # last value / first value
    each_back: float
    each_ahead: float


def measure(run: Run) -> Iterator[Evidence]:
    """The trend in the last recorded step, or in the first; and whether training stalled."""
    if run.recording.sinks:
        return
    gradients = run.gradients()
    first = len(run.recording.steps) <= 1
    for step in steps_of(run.recording)[-1:]:
        mine = [g for g in gradients if g.step == step]
        flow = _flow(chain(run, mine, step))
        if flow is None:
            continue
        if flow.back < SHRINKS and flow.each_back < EACH_SHRINKS and (first or _harmed(run, flow)):
            yield _fact(run, flow, mine, "shrinking", first)
        elif max(flow.back, flow.ahead) > GROWS and max(flow.each_back, flow.each_ahead) > EACH_GROWS and (first or _stuck(run)):
            yield _fact(run, flow, mine, "growing", first)
        if not first and _harmed(run, flow):
            yield Evidence("stalled", "gradient_flow", facts={"members": []})


def _flow(layers: list[Layer]) -> _Flow | None:
    back = [layer.gradient for layer in layers]
    given = [g for g in back if g is not None and np.isfinite(g) and g > 0]
    if len(layers) < LAYERS or len(given) < len(layers) or not all(np.isfinite(layer.size) and layer.size > 0 for layer in layers):
        return None
    sizes = [layer.size for layer in layers]
    each_back = median(a / b for a, b in itertools.pairwise(given))
    each_ahead = median(b / a for a, b in itertools.pairwise(sizes))
    return _Flow(layers, given[0] / given[-1], sizes[-1] / sizes[0], each_back, each_ahead)


def _stuck(run: Run) -> bool:
    went = progress(run.recording)
    return went is not None and went.stuck


def _harmed(run: Run, flow: _Flow) -> bool:
    """The loss does not move, and it is not because it has arrived."""
    went = progress(run.recording)
    if went is None:
        return False
    if went.stuck:
        return True
    return went.flat and (went.late > 0.3 * went.first or flow.back < SHRINKS or _same_for_all(run, flow.layers[-1].op))


def _same_for_all(run: Run, op: Op) -> bool:
    numbers = run.array(op.outputs[0])
    if numbers is None or numbers.ndim < 2 or numbers.shape[0] < 2:
        return False
    spread = float(np.sqrt(np.mean(np.var(numbers.astype(np.float64), axis=0))))
    return spread < SPREAD * float(np.sqrt(np.mean(np.square(numbers.astype(np.float64)))))


def _fact(run: Run, flow: _Flow, gradients: list[Gradient], trend: str, first: bool) -> Evidence:
    went = progress(run.recording)
    begin, end = flow.layers[0], flow.layers[-1]
    numbers = {
        "layers": Number(len(flow.layers), "layers"),
        "back": Number(flow.back, "first derivative over last"),
        "ahead": Number(flow.ahead, "last value over first"),
        "factor": Number(flow.each_back if trend == "shrinking" else max(flow.each_back, flow.each_ahead), "a layer"),
        "first_gradient": Number(begin.gradient or 0.0),
        "last_gradient": Number(end.gradient or 0.0),
        "first_size": Number(begin.size),
        "last_size": Number(end.size),
    }
    if went is not None:
        numbers |= {"first_loss": Number(went.first), "late_loss": Number(went.late)}
    squash = _between(run, flow.layers) if trend == "shrinking" else None
    sites, gain = _weights_at(run, flow.layers, gradients, trend)
    if squash is not None:
        at = run.made(squash) or squash.site
        sites = {"target": at} if at is not None else {}
    elif "target" not in sites:
        line = _commonest([layer.op.site for layer in flow.layers])
        sites = {"target": line} if line is not None else {}
    else:
        numbers["gain"] = Number(gain, "times the size of the inputs")
    facts: dict[str, Any] = {"trend": trend, "first": first, "activation": squash.name if squash is not None else "", "members": []}
    if squash is not None:
        facts["op"], facts["native"] = squash.name, squash.native
    op = None if first else (squash or flow.layers[len(flow.layers) // 2].op).index
    return Evidence("gradient-flow", "gradient_flow", site=sites.get("target"), op=op, numbers=numbers, facts=facts, sites=sites)


def _between(run: Run, layers: list[Layer]) -> Op | None:
    """The squashing activation that lies most often between two layers of the path."""
    found: list[Op] = []
    for before, after in itertools.pairwise(layers):
        for value in after.op.operands:
            for op in run.recording.upstream(value):
                if op is before.op:
                    break
                if op.name in _SQUASH and op.step == after.op.step:
                    found.append(op)
                    break
            else:
                continue
            break
    if len(found) < len(layers) // 2:
        return None
    place, _ = Counter(op.site.place for op in found if op.site is not None).most_common(1)[0]
    return next(op for op in found if op.site is not None and op.site.place == place)


def _weights_at(run: Run, layers: list[Layer], gradients: list[Gradient], trend: str) -> tuple[dict[str, Site], float]:
    """Where the weights of most layers were filled, if their scale explains the trend."""
    places: list[Site | None] = []
    gains: list[float] = []
    for layer in layers:
        weights = weights_of(run.recording, gradients, layer.op)
        shape = layer.op.outputs[0].shape
        if not weights or not shape:
            continue
        gain = weights[0].weight_norm / sqrt(max(1, shape[1] if layer.op.name == "conv" else shape[-1]))
        if weights[0].made_at is not None and (gain > 1.0 if trend == "growing" else gain < 0.5):
            places.append(weights[0].made_at)
            gains.append(gain)
    if len(places) < len(layers) // 2:
        return {}, 0.0
    at = _commonest(places)
    return ({"target": at} if at is not None else {}), median(gains)


def _commonest(places: list[Site | None]) -> Site | None:
    known = [p for p in places if p is not None]
    if not known:
        return None
    place, _ = Counter(p.place for p in known).most_common(1)[0]
    return next(p for p in known if p.place == place)
