"""Recorded values computed once more in another arithmetic: see numdebug.arithmetic.

Every pass decides for itself: masks, comparisons and indices are those of its own numbers. What cannot be computed is left out, with
everything that depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from numdebug.arithmetic import PRODUCTS, SUMS, Arithmetic, Products
from numdebug.observe.arrays.evaluate import FAILS, Evaluation, needed
from numdebug.observe.arrays.graph import Compute, Graph, Node, Piece
from numdebug.observe.arrays.noise import Noise, Squares
from numdebug.observe.arrays.numbers import is_float, shown, widened
from numdebug.recording import Value
from numdebug.run import CannotAsk

MOST = 400_000  # operations in all passes together: some 20 s
PARTS = (2, 5)  # a sum in another order is made of so many parts


def recompute(
    graph: Graph, values: Sequence[Value], how: Arithmetic, given: Mapping[int, np.ndarray] | None = None
) -> dict[int, np.ndarray]:
    """See Run.recompute."""
    replaced = dict(given or {})
    pass_ = _pass(graph, how, replaced)
    places = needed(graph, values, replaced)
    graph.recomputed += len(places)
    if graph.recomputed > MOST:
        raise CannotAsk("what was recorded is too long to be computed again and again")
    found = pass_.run(places, {v.id for v in values})
    for value in values:
        if value.id in pass_.missing:
            found.pop(value.id, None)
        elif value.id not in found and (value.id in replaced or value.producer is None and value.id in graph.arrays):
            found[value.id] = pass_.get(value)
    if values and not found:
        raise CannotAsk(pass_.why or "none of these values can be computed again")
    return {key: shown(array) for key, array in found.items()}


def _pass(graph: Graph, how: Arithmetic, given: dict[int, np.ndarray]) -> _Again:
    if how.wide:
        return _Exact(graph, given)
    return _Noisy(graph, given, how) if how.noise is not None else _Again(graph, given, how)


class _Again(Evaluation):
    """In the program's own formats, with other operands of products or another order of sums."""

    def __init__(self, graph: Graph, given: dict[int, np.ndarray], how: Arithmetic) -> None:
        super().__init__(graph)
        self.how = how
        self.replaced = frozenset(given)
        self.env = {key: self.fitting(key, np.asarray(array)) for key, array in given.items()}
        self.missing: set[int] = set()
        self.moved = set(given)  # what depends on a replaced value
        self.why: str | None = None
        self.generator = np.random.default_rng(how.order)

    def fitting(self, key: int, array: np.ndarray) -> np.ndarray:
        """A replacement, in the format of this pass."""
        held = self.graph.arrays.get(key)
        return array.astype(held.dtype, copy=False) if held is not None else array

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Data are as recorded."""
        return array

    def results(self, node: Node) -> Sequence[np.ndarray | None]:
        """None for what cannot be computed."""
        op = node.op
        follows = any(v.id in self.moved for v in op.operands)
        if any(v.id in self.missing for v in op.operands):
            return self._left_out(node)
        if node.given:
            return self._as_recorded(node, follows)
        if follows:
            self.moved.update(v.id for v in op.outputs)
        try:
            return [np.asarray(r) for r in self.computed(node, [self.get(v) for v in op.operands])]
        except (*FAILS, CannotAsk) as why:
            self.why = self.why or f"{op.native} cannot be computed again: {why}"
            return self._left_out(node)

    def _as_recorded(self, node: Node, follows: bool) -> Sequence[np.ndarray | None]:
        """Random numbers; and what came from outside, unless it was made from something that is another now."""
        if follows and node.op.name != "random":
            return self._left_out(node)
        kept = [v for v in node.op.outputs if v.id in self.graph.arrays]
        self.missing.update(v.id for v in node.op.outputs if v not in kept and node.op.name != "random")  # keys have no numbers
        return [self.leaf(v, self.recorded(v)) if v in kept else None for v in node.op.outputs]

    def _left_out(self, node: Node) -> Sequence[None]:
        self.missing.update(v.id for v in node.op.outputs if v.id not in self.replaced)
        return [None for _ in node.op.outputs]

    def computed(self, node: Node, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """The operation in this arithmetic."""
        product = node.op.name in PRODUCTS and all(is_float(a) for a in operands)
        if product and self.how.products is not None:
            operands = [narrowed(a, self.how.products) for a in operands]
        linear = product or node.op.name in SUMS and len(operands) == 1 and is_float(operands[0])
        if self.how.order is None or not linear or not all(np.isfinite(a).all() for a in operands):
            return node.compute(operands, False)
        return self._in_parts(node, operands)

    def widely(self, node: Node) -> Compute:
        """In float64, or where that cannot be done (a compiled loop has one format) in the operation's own."""

        def compute(arrays: Sequence[np.ndarray], wide: bool) -> Sequence[np.ndarray]:
            try:
                return node.compute(arrays, wide)
            except FAILS:
                fitted = [a.astype(self.recorded(v).dtype, copy=False) for v, a in zip(node.op.operands, arrays, strict=True)]
                return [widened(np.asarray(r), self.graph.wide) for r in node.compute(fitted, False)]

        return compute

    def _in_parts(self, node: Node, operands: list[np.ndarray]) -> list[np.ndarray]:
        """Which term goes into which part is drawn. Narrow formats are summed up in float32 and rounded once, as they usually are."""
        narrow = any(a.dtype.itemsize < 4 for a in operands)
        first, *others = [a.astype(np.float32) if narrow else a for a in operands]
        parts = int(self.generator.integers(*PARTS))
        labels = self.generator.integers(parts, size=first.shape, dtype=np.int8)
        sums = [np.asarray(node.compute([np.where(labels == k, first, first.dtype.type(0)), *others], narrow)[0]) for k in range(parts)]
        total = sums[0].astype(np.float32) if narrow else sums[0]
        for other in sums[1:]:
            total = total + other.astype(total.dtype)
        held = self.graph.arrays.get(node.op.outputs[0].id)
        return [total.astype(held.dtype) if held is not None else total]


class _Noisy(_Again):
    """In float64, every result moved at random by what its own rounding may amount to."""

    def __init__(self, graph: Graph, given: dict[int, np.ndarray], how: Arithmetic) -> None:
        super().__init__(graph, given, how)
        assert how.noise is not None
        self.noise = Noise(how.noise, how.products, graph.recording.framework == "jax", None if given else _squares(graph))

    def fitting(self, key: int, array: np.ndarray) -> np.ndarray:
        """In float64."""
        return _double(array)

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Data are exact."""
        return _double(array)

    def computed(self, node: Node, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """Piece by piece where it is a composite."""
        self.noise.at(node.op.index)
        if node.inside is not None:
            return node.inside(operands, self.noise.step)
        piece = Piece(node.op.name, self.widely(node), tuple(v.dtype for v in node.op.outputs), node.op.scalars, node.terms)
        if self.graph.wide != np.float64:  # float64 itself moves its numbers by as much as the noise does; wider formats are slow
            piece = Piece(piece.name, _in_float64(piece), piece.formats, piece.scalars, piece.terms)
        return self.noise.step(piece, operands, self._by_halves(node))

    def _by_halves(self, node: Node) -> bool:
        """NumPy sums up whole arrays and rows by halves, columns one row after another, running sums one number after another."""
        if self.graph.recording.framework != "numpy" or not node.op.operands:
            return True
        held = self.graph.arrays.get(node.op.operands[0].id)
        if held is None or node.op.name.startswith("cum") or not held.flags.c_contiguous:
            return False
        dim = node.op.scalars.get("dim")
        return dim in (-1, held.ndim - 1) or all(v.shape in ((), (1,)) for v in node.op.outputs)


def _squares(graph: Graph) -> Squares:
    if graph.squares is None:
        graph.squares = Squares()
    return graph.squares


class _Exact(_Again):
    """In float64 or wider, decisions included."""

    def __init__(self, graph: Graph, given: dict[int, np.ndarray]) -> None:
        super().__init__(graph, given, Arithmetic(wide=True))
        self.env = {key: widened(array, graph.wide) for key, array in given.items()}

    def leaf(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Data are exact."""
        return widened(array, self.graph.wide)

    def computed(self, node: Node, operands: list[np.ndarray]) -> Sequence[np.ndarray]:
        """As it is."""
        return [widened(np.asarray(r), self.graph.wide) for r in self.widely(node)(operands, True)]


def _double(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False) if is_float(array) else array


def _in_float64(piece: Piece) -> Compute:
    """The operation of a program whose exact values are wider than float64, in float64."""
    own = all(np.dtype(f).itemsize >= 8 for f in piece.formats if f.startswith(("float", "complex")))

    def compute(arrays: Sequence[np.ndarray], wide: bool) -> Sequence[np.ndarray]:
        return [_double(np.asarray(r)) for r in piece.compute(arrays, wide and not own)]

    return compute


def narrowed(array: np.ndarray, products: Products) -> np.ndarray:
    """What a product's unit reads of float32 numbers; other formats are left alone."""
    if array.dtype == np.complex64:
        return (narrowed(array.real, products) + 1j * narrowed(array.imag, products)).astype(np.complex64)
    if array.dtype != np.float32:
        return array
    if products == "float16":
        return array.astype(np.float16).astype(np.float32)
    dropped = 16 if products == "bfloat16" else 13
    bits = np.ascontiguousarray(array).view(np.uint32)
    if products != "tf32-truncated":  # to nearest, ties to even
        bits = bits + np.uint32((1 << dropped - 1) - 1) + ((bits >> np.uint32(dropped)) & np.uint32(1))
    kept = (bits & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)).view(np.float32).reshape(array.shape)
    return np.where(np.isfinite(array), kept, array)
