"""Compute a recorded graph again: in float64, in its own formats with a region in float64, or rounded to a narrower format.

Only what the values asked for depend on is computed. What an operation decided stays decided where that is asked for: results that are
not floating point, the result of a rounding, a ReLU's mask and random numbers are as recorded, or one flipped branch would look like an
error of 100 %.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from numdebug.graph import STRUCTURAL
from numdebug.observe.arrays.graph import Graph, Node
from numdebug.observe.arrays.numbers import FLOATS, eps, is_float, widened
from numdebug.recording import Value
from numdebug.run import CannotAsk

DECIDED = frozenset({"round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "empty", "bernoulli"})
UP_TO_A_SIGN = frozenset({"eigh", "svd", "eig", "qr"})
# What computing an operation again on other formats or numbers may raise.
FAILS = (TypeError, ValueError, ArithmeticError, LookupError, RuntimeError, NotImplementedError, AttributeError)


def needed(graph: Graph, values: Iterable[Value], cut: Iterable[int] = ()) -> list[int]:
    """Operations that the values depend on, in order; not beyond the values whose ids are in `cut`."""
    seen: set[int] = set()
    ends = set(cut)
    todo = [v for v in values if v.id not in ends]
    while todo:
        place = todo.pop().producer
        if place is not None and place not in seen:
            seen.add(place)
            if graph.nodes[place].given:  # data, whatever it was made from
                continue
            todo.extend(v for v in graph.recording.ops[place].operands if v.id not in ends)
    return sorted(seen)


def below(graph: Graph, places: Iterable[int], values: Iterable[int] = ()) -> set[int]:
    """Of these operations, those that read one of `values` (ids), directly or through others of them."""
    moved = set(values)
    found = set()
    for place in sorted(places):
        op = graph.recording.ops[place]
        if any(v.id in moved for v in op.operands):
            found.add(place)
            moved.update(v.id for v in op.outputs)
    return found


class Evaluation:
    """One pass. `given`: arrays to use, by id of their Value, instead of what was recorded or would be computed."""

    def __init__(self, graph: Graph, given: dict[int, np.ndarray] | None = None) -> None:
        self.graph = graph
        self.env: dict[int, np.ndarray] = dict(given or {})

    def get(self, value: Value) -> np.ndarray:
        """The array that stands for `value` in this pass; data come through `leaf`."""
        if value.id not in self.env:
            self.env[value.id] = self.leaf(value, self.recorded(value))
        return self.env[value.id]

    def recorded(self, value: Value) -> np.ndarray:
        """As the program computed it."""
        held = self.graph.arrays.get(value.id)
        if held is None:
            raise CannotAsk("a value that the step needs was not kept")
        return held

    def run(self, places: Sequence[int], keep: Iterable[int]) -> dict[int, np.ndarray]:
        """The operations at `places`, in order; by id, the values asked for. Other results are dropped once nothing needs them."""
        ops = self.graph.recording.ops
        kept = set(keep)
        last = {v.id: place for place in places for v in ops[place].operands}
        with np.errstate(all="ignore"):
            for place in places:
                node = self.graph.nodes[place]
                results = self.results(node)
                for value, array in zip(node.op.outputs, results, strict=False):
                    if array is not None:
                        self.env.setdefault(value.id, array)
                for value in (*node.op.operands, *node.op.outputs):
                    if last.get(value.id, -1) <= place and value.id not in kept:
                        self.env.pop(value.id, None)
        return {key: self.env[key] for key in kept if key in self.env}

    # -- what the kinds of pass do differently -----------------------------------------------------------------

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Data, as this pass sees them."""
        raise NotImplementedError

    def results(self, node: Node) -> Sequence[np.ndarray | None]:
        """What the operation gives in this pass."""
        raise NotImplementedError


class Wide(Evaluation):
    """In float64. `noise`: the seed by which inputs are moved at random, by up to half an ulp. `free`: decide again as well."""

    def __init__(self, graph: Graph, noise: int | None = None, given: dict[int, np.ndarray] | None = None, free: bool = False) -> None:
        super().__init__(graph, given)
        self.generator = None if noise is None else np.random.default_rng(noise)
        self.free = free
        self.failed: set[int] = set()  # operations that could not be computed

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Moved, where that is asked for; 1.0 and 2.0 are numbers of the formula."""
        wide = widened(array, self.graph.wide)
        if self.generator is None or not is_float(array) or wide.dtype == array.dtype:
            return wide
        if array.size == 1 and wide.dtype.kind == "f" and float(wide.reshape(())).is_integer():
            return wide
        return self.moved(wide, value.dtype)

    def results(self, node: Node) -> Sequence[np.ndarray | None]:
        """The operation in float64; what it decided stays decided."""
        op = node.op
        if node.given or op.name in UP_TO_A_SIGN:
            return self._taken(node, move=True)
        if op.name in DECIDED and not self.free:
            return self._taken(node, move=False)
        try:
            results = [np.asarray(r) for r in self._computed(node, [self.get(v) for v in op.operands])]
        except FAILS:
            self.failed.add(op.index)
            return self._taken(node, move=True)
        if self.free:
            return results
        results = [widened(r, self.graph.wide) if v.dtype.startswith(FLOATS) else self.recorded(v) for v, r in _pairs(op.outputs, results)]
        if op.name == "relu" and op.phase != "backward":
            results = [np.where(self.recorded(op.outputs[0]) != 0, self.get(op.operands[0]), 0.0)]
        if self.generator is None:
            return results
        if op.name == "cast" or not op.operands:
            return [self._made(node, v, r) for v, r in zip(op.outputs, results, strict=True)]
        return results if op.name in STRUCTURAL else [self._jostled(r) if is_float(r) else r for r in results]

    def _jostled(self, array: np.ndarray) -> np.ndarray:
        """By an ulp of the wide format at most: where that matters, the exact value is not known so exactly."""
        assert self.generator is not None
        ulps = np.rint(3 * self.generator.random(array.shape) - 1.5)
        return np.asarray(array * (1 + ulps * np.finfo(array.dtype).eps))

    def _computed(self, node: Node, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        if self.generator is not None and node.moved is not None:
            return node.moved(operands, self.generator)
        return node.compute(operands, True)

    def _made(self, node: Node, value: Value, result: np.ndarray) -> np.ndarray:
        """A range or constant is as exact as the format that holds it, and so is what a cast makes narrower."""
        if not is_float(result):
            return result
        if node.op.operands:
            narrower = self.recorded(value).dtype.itemsize < self.recorded(node.op.operands[0]).dtype.itemsize
        else:
            narrower = not bool((result == np.rint(result)).all())
        return self.moved(result, value.dtype) if narrower else result

    def _taken(self, node: Node, move: bool) -> Sequence[np.ndarray | None]:
        """The recorded result, as if it were data: another one would be as right, or float64 cannot run the operation."""
        unkept = {v.id for v in node.op.outputs if node.op.name == "random" and v.id not in self.graph.arrays}  # keys have no numbers
        taken = [None if v.id in unkept else widened(self.recorded(v), self.graph.wide) for v in node.op.outputs]
        if self.generator is None or not move:
            return taken
        return [self.moved(t, v.dtype) if t is not None and is_float(t) else t for v, t in zip(node.op.outputs, taken, strict=True)]

    def moved(self, array: np.ndarray, dtype: str) -> np.ndarray:
        """By up to half an ulp of the program's format, each element by itself."""
        assert self.generator is not None
        moved: np.ndarray = np.asarray(array * (1 + (self.generator.random(array.shape) - 0.5) * eps(dtype)))
        return moved


class Mixed(Evaluation):
    """In the program's own formats, but for a region that hands float64 on inside and rounds what leaves it."""

    def __init__(self, graph: Graph, region: frozenset[int]) -> None:
        super().__init__(graph)
        self.region = region
        self.wide: dict[int, np.ndarray] = {}  # results inside the region

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """As recorded."""
        return array

    def results(self, node: Node) -> Sequence[np.ndarray | None]:
        """In float64 inside of the region."""
        op = node.op
        if node.given:
            return [self.recorded(v) for v in op.outputs]
        inside = op.index in self.region
        operands = [self.wide.get(v.id, widened(self.get(v), self.graph.wide)) if inside else self.get(v) for v in op.operands]
        try:
            results = [np.asarray(r) for r in node.compute(operands, inside)]
        except FAILS as why:
            raise CannotAsk(f"{op.native} cannot be computed again: {why}") from why
        if not inside:
            return results
        self.wide.update((v.id, r) for v, r in _pairs(op.outputs, results) if is_float(r))
        return [r.astype(self.recorded(v).dtype) for v, r in _pairs(op.outputs, results)]


def _pairs(values: Sequence[Value], results: Sequence[np.ndarray]) -> Iterable[tuple[Value, np.ndarray]]:
    return zip(values, results, strict=True)


def evaluated(pass_: Evaluation, values: Sequence[Value], spend: Callable[[int], None] | None = None) -> list[np.ndarray]:
    """These values in one pass."""
    places = needed(pass_.graph, values)
    if spend is not None:
        spend(len(places))
    found = pass_.run(places, {v.id for v in values})
    return [found[v.id] if v.id in found else pass_.get(v) for v in values]
