"""What rounding may do to one operation's result, drawn at random: see numdebug.arithmetic for the model and its constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from numdebug.arithmetic import CORRECT, EXACT, OF_OPERAND, PRODUCTS, SUMS, ULPS, Products, growth, ulps
from numdebug.formats import FORMATS, TF32
from numdebug.graph import STRUCTURAL
from numdebug.observe.arrays.graph import Piece
from numdebug.observe.arrays.numbers import is_float, part

# Same shape in and out, and yet each element depends on many.
_MIXING = frozenset({
    "solve", "inverse", "cholesky", "cholesky_solve", "triangular_solve", "eigh", "svd", "eig", "qr", "linalg_qr", "linalg_lu_factor_ex",
    "linalg_pinv", "lstsq", "fft", "ifft", "cross", "convolve", "gradient", "logcumsumexp", "custom_linear_solve",
})  # fmt: skip
_SOFT = frozenset({"softmax", "log_softmax", "logsumexp"})
_NARROW = frozenset({"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"})
HELD = 1 << 27  # bytes of Squares
POOL = 1 << 16  # random numbers at least
_UNKNOWN = 4.0  # half ulps of a function that is not in the table


class Squares:
    """Sums of the squares of terms, kept from draw to draw: they tell how large rounding is, and noise hardly changes them."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int], np.ndarray] = {}
        self.bytes = 0

    def of(self, key: tuple[int, int] | None, piece: Piece, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """For a piece that is linear in each of its operands. float32 is enough, once they are scaled to 1."""
        if key is not None and key in self.held:
            return self.held[key]
        tops = [float(np.max(np.abs(a), where=np.isfinite(a), initial=0.0)) or 1.0 for a in arrays]
        small = [_square(a / top).astype(np.float32) for a, top in zip(arrays, tops, strict=True)]
        found = _computed(piece, small)[0] * math.prod(tops) ** 2
        if key is not None and self.bytes + found.nbytes < HELD:
            self.held[key] = found
            self.bytes += found.nbytes
        return found


class Noise:
    """One draw. `xla`: JAX computes. `squares`: those of other draws of the same operations."""

    def __init__(self, seed: int, products: Products | None, xla: bool = False, squares: Squares | None = None) -> None:
        self.xla = xla
        self.generator = np.random.default_rng(seed)
        self.products = products
        self.kept = squares
        self.squares = squares or Squares()
        self.place = (0, 0)  # index of the operation, number of its piece
        self._pool = np.zeros(0, np.float32)

    def at(self, op: int) -> None:
        """The operation whose pieces come now."""
        self.place = (op, 0)

    def step(self, piece: Piece, arrays: Sequence[np.ndarray], tree: bool = True) -> list[np.ndarray]:
        """The piece in float64, its results moved. `tree`: a sum is made by halves, and that of narrow formats in float32."""
        self.place = (self.place[0], self.place[1] + 1)
        name, form = piece.name, next((part(f) for f in piece.formats if part(f) in FORMATS), None)
        if form is None or name in EXACT or (name in STRUCTURAL and not piece.scalars.get("accumulate") and name != "cast"):
            return _computed(piece, arrays)
        if name in PRODUCTS:
            if self.products is not None and form != "float64":
                arrays = [self._narrowed(a) for a in arrays]
            return self._product(piece, arrays, form)
        if name in SUMS and len(arrays) == 1:
            return self._sum(piece, arrays[0], form, tree)
        if name in ("cumsum", "cumprod", "prod", "norm", "var", "std"):
            return self._gathered(piece, arrays[0], form, tree) if len(arrays) == 1 else self._unknown(piece, arrays, form)
        if name in STRUCTURAL and piece.scalars.get("accumulate") and len(arrays) == 3:
            return self._scattered(piece, arrays, form)
        if name in _SOFT:
            return self._soft(piece, arrays, form)
        results = _computed(piece, arrays)
        if name in OF_OPERAND and len(arrays) == len(results) == 1:
            return [results[0] + self._moved(arrays[0], form, ulps(name)) - arrays[0]]
        known = name in ULPS or name in CORRECT
        if not known and (name in _MIXING or not _alike(arrays, results)):
            return self._unknown(piece, arrays, form)
        moved = [self._rounded(name, r, f, known) for r, f in zip(results, piece.formats, strict=True)]
        if name in CORRECT and form == "float64":  # what float64 lost cannot be seen in float64; whole numbers lose nothing
            return [_kept(arrays, r, m) for r, m in zip(results, moved, strict=True)]
        return moved

    # -- kinds of operations -----------------------------------------------------------------------------------

    def _rounded(self, name: str, result: np.ndarray, form: str, known: bool = True) -> np.ndarray:
        """Off by so many half ulps; a sum, product or quotient that the format holds exactly is exact."""
        form = part(form)
        if form not in FORMATS or not is_float(result):
            return result
        moved = self._moved(result, form, ulps(name, form, self.xla) if known else _UNKNOWN)
        if name not in CORRECT or form == "float64" or result.dtype.kind == "c":
            return moved
        return np.where(_holds(form, result), result, moved)

    def _product(self, piece: Piece, arrays: Sequence[np.ndarray], form: str) -> list[np.ndarray]:
        results = _computed(piece, arrays)
        if len(results) != 1 or not all(is_float(a) for a in arrays):
            return [self._rounded("", r, f) for r, f in zip(results, piece.formats, strict=True)]
        if all(_whole(a, FORMATS[form].eps) for a in arrays) and bool((np.abs(results[0]) < 1 / FORMATS[form].eps).all()):
            return results
        squares = self.squares.of(self.place if self.kept is not None else None, piece, arrays)
        count = piece.terms or _contracted(arrays, results[0])
        return [self._summed(results[0], squares, growth(count), form, wide_sum=True)]

    def _sum(self, piece: Piece, array: np.ndarray, form: str, tree: bool) -> list[np.ndarray]:
        results = _computed(piece, [array])
        result = results[0]
        count = piece.terms or max(1, array.size // max(1, result.size))
        averaged = piece.name in ("mean", "nanmean", "average")
        exact = _sums_of_whole(piece, array, FORMATS[form].eps)
        if exact is not None and not averaged and exact.all():
            return results
        squares = self.squares.of(self.place if self.kept is not None else None, piece, [array]) / (count if averaged else 1)
        moved = self._summed(result, squares, growth(count, tree, count), form, wide_sum=tree)
        if exact is None:
            return [moved]
        return [np.where(exact, self._rounded("div", result, form) if averaged else result, moved)]

    def _gathered(self, piece: Piece, array: np.ndarray, form: str, tree: bool) -> list[np.ndarray]:
        (result,) = _computed(piece, [array])
        dim = piece.scalars.get("dim")
        length = array.shape[dim] if isinstance(dim, int) and array.ndim else array.size
        if piece.name == "cumsum":
            if _whole(array, FORMATS[form].eps) and bool((np.abs(result) < 1 / FORMATS[form].eps).all()):
                return [result]
            if tree:
                return [self._summed(result, _computed(piece, [_square(array)])[0], growth(length, True), form, wide_sum=True)]
            partial = _computed(piece, [_square(result)])[0]  # each partial sum is rounded
            return [self._summed(np.sqrt(partial), partial, (1.0, 0.0), form, wide_sum=False, around=result)]
        if piece.name in ("cumprod", "prod"):
            return [self._moved(result, form, math.sqrt(max(1, length)))]
        a, _ = growth(max(1, array.size // max(1, result.size)), tree, array.size)
        moved = self._moved(result, form, math.sqrt(a + 2) / (1 if piece.name == "var" else 2))
        if piece.name == "norm":
            return [moved]
        off: Any = FORMATS[form].eps / 2 * math.sqrt(a) * float(np.abs(array).max(initial=0.0))  # of the mean
        if not result.all():  # that of one whole number all over is exact
            whole, places = array == np.rint(array), np.arange(array.size).reshape(array.shape)
            off = np.where((result == 0) & (_computed(piece, [np.where(whole, 0.0, places)])[0] == 0), 0.0, off)
        return [moved + off**2 if piece.name == "var" else np.hypot(moved, off)]

    def _scattered(self, piece: Piece, arrays: Sequence[np.ndarray], form: str) -> list[np.ndarray]:
        """Terms added in any order, onto what stands there."""
        base, where, added = arrays
        (result,) = _computed(piece, arrays)
        (count,) = _computed(piece, [np.zeros_like(base), where, np.ones_like(added)])
        (squares,) = _computed(piece, [_square(base), where, _square(added)])
        several = count + (base != 0) > 1
        a, b = np.where(several, 1 + count / 3, 0.0), np.where(several, count / 6, 0.0)
        return [result + self._draw(result.shape) * FORMATS[form].eps / 2 * np.sqrt(a * _square(result) + b * squares)]

    def _soft(self, piece: Piece, arrays: Sequence[np.ndarray], form: str) -> list[np.ndarray]:
        """What is rounded is the difference to the maximum."""
        half = FORMATS[form].eps / 2
        dim = piece.scalars.get("dim")
        if len(arrays) > 1:  # logaddexp
            top = np.maximum.reduce(np.broadcast_arrays(*arrays))
        else:
            top = arrays[0].max(axis=dim if isinstance(dim, int) else None, keepdims=True, initial=-np.inf)
        moved = []
        for array in arrays:
            below = np.abs(array - top)
            moved.append(array + self._draw(below.shape) * half * np.where(np.isfinite(below), below + ulps("exp"), 0.0))
        return [self._moved(r, form, 2.0) for r in _computed(piece, moved)]

    def _unknown(self, piece: Piece, arrays: Sequence[np.ndarray], form: str) -> list[np.ndarray]:
        """A backward stable algorithm: its result is right for operands that are off by some ulps."""
        count = max((max(a.shape, default=1) for a in arrays), default=1)
        results = _computed(piece, [self._moved(a, form, math.sqrt(1 + count / 3)) if is_float(a) else a for a in arrays])
        return [self._rounded("", r, f, known=False) for r, f in zip(results, piece.formats, strict=True)]

    # -- numbers -----------------------------------------------------------------------------------------------

    def _summed(
        self, total: np.ndarray, squares: np.ndarray, weights: tuple[float, float], form: str, wide_sum: bool,
        around: np.ndarray | None = None,
    ) -> np.ndarray:  # fmt: skip
        """`wide_sum`: narrow formats are summed up in float32 and rounded once."""
        inner = "float32" if wide_sum and form in _NARROW else form
        a, b = weights
        size = np.sqrt(a * _square(total) + b * np.abs(squares))
        result = total if around is None else around
        moved = result + self._draw(result.shape) * (FORMATS[inner].eps / 2) * size
        return moved if inner == form else self._moved(moved, form, 1.0)

    def _moved(self, array: np.ndarray, form: str, half_ulps: float) -> np.ndarray:
        """Relative to its size; below the smallest normal number the gap is that number's."""
        limits = FORMATS[form]
        half = limits.eps / 2 * half_ulps
        if form == "float32":
            return np.asarray(array * (1 + half * self._draw(array.shape).astype(np.float64)))
        size = np.where(np.isfinite(array), np.abs(array), 0.0)
        if form in _NARROW:
            size = np.where(size > 0, np.maximum(size, limits.tiny), 0.0)
        return np.asarray(array + self._draw(array.shape) * half * size)

    def _draw(self, shape: tuple[int, ...]) -> np.ndarray:
        """Evenly in [-1, 1]; a piece of a pool, because drawing takes as long as computing."""
        size = math.prod(shape)
        if self._pool.size < 2 * size + 1:
            self._pool = 2 * self.generator.random(max(2 * size + 1, POOL), dtype=np.float32) - np.float32(1)
        start = int(self.generator.integers(self._pool.size - size))
        return self._pool[start : start + size].reshape(shape)

    def _narrowed(self, array: np.ndarray) -> np.ndarray:
        """By half an ulp of the format of products; numbers that it holds stay."""
        if array.dtype.kind != "f":
            return array
        truncated = self.products == "tf32-truncated"
        limits = TF32 if self.products in ("tf32", "tf32-truncated") else FORMATS[str(self.products)]
        gap = np.ldexp(limits.eps, np.maximum(np.frexp(array)[1] - 1, math.frexp(limits.tiny)[1] - 1))
        places = array / gap
        draw = -np.sign(array) * self.generator.random(array.shape, dtype=np.float32) if truncated else self._draw(array.shape) / 2
        return np.where((places == np.rint(places)) | ~np.isfinite(array), array, array + draw * gap)


def _computed(piece: Piece, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(r) for r in piece.compute(arrays, True)]


def _alike(arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> bool:
    """Element by element, as far as shapes tell."""
    shapes = [r.shape for r in results]
    return len(set(shapes)) == 1 and all(
        a.ndim <= len(shapes[0]) and all(n in (1, m) for n, m in zip(a.shape[::-1], shapes[0][::-1], strict=False)) for a in arrays
    )


def _kept(arrays: Sequence[np.ndarray], result: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """A whole number made of whole numbers stays."""
    if result.dtype.kind != "f":
        return moved
    whole = (result == np.rint(result)) & (np.abs(result) < 1 / FORMATS["float64"].eps)
    for array in arrays if whole.any() else ():
        whole = whole & (array == np.rint(array)) if is_float(array) else whole
    return np.where(whole, result, moved)


def _square(array: np.ndarray) -> np.ndarray:
    return np.square(np.abs(array))


def _whole(array: np.ndarray, eps: float) -> bool:
    """Whole numbers that add up without rounding, as counts and masks do."""
    if not is_float(array):
        return True
    few = array.reshape(-1)[:64]
    if bool((few != np.rint(few)).any()) if array.dtype.kind != "c" else True:
        return False
    return bool((array == np.rint(array)).all()) and float(np.abs(array).sum()) < 1 / eps


def _sums_of_whole(piece: Piece, array: np.ndarray, eps: float) -> np.ndarray | None:
    """By result: all of its terms are whole numbers, and add up without rounding. None where there are few of these."""
    if array.dtype.kind == "c":
        return None
    some = array.reshape(-1)[:: max(1, array.size // 256)]
    if not bool((some == np.rint(some)).any()):
        return None
    broken, total = (_computed(piece, [a])[0] for a in ((array != np.rint(array)).astype(np.float64), np.abs(array)))
    averaged = array.size / max(1, total.size) if piece.name in ("mean", "nanmean", "average") else 1.0
    return np.asarray((broken == 0) & (total * averaged < 1 / eps))


def _holds(form: str, array: np.ndarray) -> np.ndarray:
    """Which elements are numbers of the format."""
    if form == "float32":
        return np.asarray(array.astype(np.float32) == array)
    limits = FORMATS[form]
    places = array / np.ldexp(limits.eps, np.maximum(np.frexp(array)[1] - 1, math.frexp(limits.tiny)[1] - 1))
    return np.asarray(places == np.rint(places))


def _contracted(arrays: Sequence[np.ndarray], result: np.ndarray) -> int:
    """How many terms an element of a product has, by its shapes: lengths that both operands have and the result lacks."""
    left = [n for a in arrays for n in a.shape]
    for n in result.shape:
        if n in left:
            left.remove(n)
    return math.prod(n ** (left.count(n) // 2) for n in set(left))
