"""The questions of Run about float64, asked of a graph of arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from numdebug.observe.arrays.errors import lost
from numdebug.observe.arrays.evaluate import Mixed, Wide, below, evaluated, needed
from numdebug.observe.arrays.graph import Graph, Weight
from numdebug.observe.arrays.numbers import widened
from numdebug.recording import Value
from numdebug.run import CannotAsk, Error

MOST = {"exact": 150_000, "trace": 150_000, "region": 80_000}  # operations computed in float64, by question; some 50 to a millisecond
SAMPLES = 3  # random half-ulp moves of all inputs; the largest effect counts


class Precision:
    """Each value against float64, all the way from data and parameters; decisions stay those of the program."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.spent = dict.fromkeys(MOST, 0)

    def exact(self, values: Sequence[Value], question: str = "exact") -> dict[int, np.ndarray]:
        """By id, one pass over what these values depend on."""
        kept = [v for v in values if v.id in self.graph.arrays]
        found = evaluated(Wide(self.graph), kept, spend=lambda count: self._spend(count, question))
        return {v.id: array for v, array in zip(kept, found, strict=True)}

    def errors(self, values: Sequence[Value], harm: float) -> dict[int, Error]:
        """By id, one pass over what these values depend on."""
        return self._errors(values, self.exact(values), [], harm, 0.0)

    def trace(self, value: Value, harm: float, beyond: float) -> dict[int, Error]:
        """The slice above one value, exact and with its inputs moved."""
        places = needed(self.graph, [value])
        values = [v for place in places for v in self.graph.recording.ops[place].outputs]
        passes = []
        for noise in (None, *range(SAMPLES)):
            self._spend(len(places), "trace")
            passes.append(Wide(self.graph, noise).run(places, {v.id for v in values}))
        return self._errors(values, passes[0], passes[1:], harm, beyond)

    def kept_wide(self, region: frozenset[int], value: Value, harm: float) -> Error:
        """The step in its own formats, but for the operations in `region`; what does not depend on them is as recorded."""
        exact = self.exact([value], "region").get(value.id)
        places = needed(self.graph, [value])
        results = [v.id for place in region for v in self.graph.recording.ops[place].outputs]
        follows = below(self.graph, places, results)
        changed = [place for place in places if place in region or place in follows]
        self._spend(len(changed), "region")
        mixed = Mixed(self.graph, region)
        result = mixed.run(changed, {value.id}).get(value.id)
        if exact is None or result is None:
            raise CannotAsk("the value does not depend on these operations")
        found = lost(result, exact, [], harm, 0.0)
        if found is None:
            raise CannotAsk("the value is not a floating-point number")
        return found

    def gradient_error(self) -> tuple[float, float]:
        """(error, size) of the last step's gradients as recorded against those in float64; Euclidean, over all of them."""
        gradients = [w.gradient for w in last_weights(self.graph) if w.gradient is not None and w.gradient.id in self.graph.arrays]
        if not gradients:
            raise CannotAsk("no recorded step has a gradient")
        exact = self.exact(gradients)
        off = scale = 0.0
        for value in gradients:
            low, high = widened(self.graph.arrays[value.id], self.graph.wide), exact[value.id]
            if low.shape == high.shape:
                off += float(np.square(np.abs(low - high)).sum())
                scale += float(np.square(np.abs(high)).sum())
        return math.sqrt(off), math.sqrt(scale)

    def _spend(self, count: int, question: str) -> None:
        self.spent[question] += count
        if self.spent[question] > MOST[question]:
            raise CannotAsk("what was recorded is too long to be computed in float64 again and again")

    def _errors(
        self, values: Sequence[Value], exact: dict[int, np.ndarray], moved: list[dict[int, np.ndarray]], harm: float, beyond: float
    ) -> dict[int, Error]:
        found: dict[int, Error] = {}
        for value in values:
            recorded = self.graph.arrays.get(value.id)
            if value.id in exact and recorded is not None:
                error = lost(recorded, exact[value.id], [m[value.id] for m in moved if value.id in m], harm, beyond)
                if error is not None:
                    found[value.id] = error
        return found


def last_weights(graph: Graph) -> list[Weight]:
    """The weights of the last step that has a gradient."""
    steps = [w.step for w in graph.weights if w.gradient is not None]
    return [w for w in graph.weights if w.step == max(steps)] if steps else []
