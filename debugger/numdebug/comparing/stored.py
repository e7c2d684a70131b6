"""Two sets of saved arrays: which differ, by how much, and the smallest thing that explains it.

Saved arrays carry no computation from which an envelope could be derived. So an explanation is either exact (one side is the other
rounded to a format, or with its subnormal numbers flushed to 0), or a tolerance that the caller gives: ulps of the coarser format, or
rtol and atol as numpy.allclose has them. What remains is a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from numdebug.comparing.saved import Stored
from numdebug.formats import FORMATS, TF32, coarser, rounded

# From what says least to what says most.
Explanation = Literal[
    "identical", "same-values", "flush-to-zero", "rounding-difference", "reduced-precision", "dtype-mismatch", "real-difference", "shape",
]  # fmt: skip
EXPLAINED = frozenset({"identical", "same-values", "dtype-mismatch", "reduced-precision", "flush-to-zero", "rounding-difference"})
_ROUNDED = ("float32", "float16", "tf32", "bfloat16", "float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True)
class Pair:
    """One array on both sides. Of numbers: `a` and `b` are those at the largest difference, `at` its place.

    `ulps`: the largest difference of a single element, in gaps between numbers of the coarser format at that element; `scaled`: the
    largest difference in gaps at the largest element. `format`: what one side was rounded to. `rounded`: which of the two was. `hint`:
    what the difference looks like.
    """

    name: str
    explanation: Explanation
    dtypes: tuple[str, str]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    size: int = 0
    differing: int = 0
    largest: float = 0.0
    at: tuple[int, ...] = ()
    a: float = 0.0
    b: float = 0.0
    ulps: float = 0.0
    scaled: float = 0.0
    non_finite: int = 0  # elements that are finite on one side only, or NaN or inf in different ways
    flushed: int = 0  # differing elements that are 0 on one side and subnormal on the other
    format: str = ""
    rounded: Literal["", "first", "second"] = ""
    hint: str = ""

    @property
    def explained(self) -> bool:
        """By the formats in which the arrays are stored, or within the tolerance."""
        return self.explanation in EXPLAINED

    @property
    def share(self) -> float:
        """Of elements that differ."""
        return self.differing / self.size if self.size else 0.0


@dataclass(frozen=True)
class Tables:
    """Two files. Names that one side has alone are in `first` and `second`; `stripped`: prefixes that were taken off to match names."""

    pairs: tuple[Pair, ...]
    first: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    stripped: tuple[str, str] = ("", "")

    @property
    def explained(self) -> bool:
        """Every name is on both sides, and every difference is explained."""
        return bool(self.pairs) and not self.first and not self.second and all(p.explained for p in self.pairs)

    @property
    def worst(self) -> Pair | None:
        """The pair that says most: unexplained before explained, large before small."""
        order = get_args(Explanation)
        return max(self.pairs, key=lambda p: (order.index(p.explanation), p.non_finite, p.scaled), default=None)


def compare(
    first: Mapping[str, Stored], second: Mapping[str, Stored], ulps: float = 1.0, rtol: float = 0.0, atol: float = 0.0
) -> Tables:
    """`second` against `first`. `ulps` gaps of the coarser format at the largest element, or atol + rtol * |first|, count as rounding."""
    ours, theirs = _prefix(first, second), _prefix(second, first)
    if ours and theirs:  # one of them is enough
        ours, theirs = (ours, "") if _shared(first, second, ours, "") >= _shared(first, second, "", theirs) else ("", theirs)
    a = {name.removeprefix(ours): one for name, one in first.items()}
    b = {name.removeprefix(theirs): one for name, one in second.items()}
    pairs = tuple(one(name, a[name], b[name], ulps, rtol, atol) for name in a if name in b)
    return Tables(pairs, tuple(n for n in a if n not in b), tuple(n for n in b if n not in a), (ours, theirs))


def _shared(first: Iterable[str], second: Iterable[str], ours: str, theirs: str) -> int:
    return len({n.removeprefix(ours) for n in first} & {n.removeprefix(theirs) for n in second})


def _prefix(names: Iterable[str], others: Iterable[str]) -> str:
    """`module.` or `model.` before every name, where more names are on both sides without it."""
    names, others = list(names), set(others)
    best, most = "", len(others.intersection(names))
    parts = names[0].split(".")[:-1] if names else []
    for depth in range(1, len(parts) + 1):
        prefix = ".".join(parts[:depth]) + "."
        if not all(name.startswith(prefix) for name in names):
            break
        found = len(others.intersection(name.removeprefix(prefix) for name in names))
        if found > most:
            best, most = prefix, found
    return best


def one(name: str, first: Stored, second: Stored, ulps: float = 1.0, rtol: float = 0.0, atol: float = 0.0) -> Pair:
    """One array on both sides."""
    a, b = first.array, second.array
    dtypes, shapes = (first.dtype, second.dtype), (a.shape, b.shape)
    if a.shape != b.shape:
        turned = a.ndim == b.ndim == 2 and np.array_equal(a, b.T, equal_nan=a.dtype.kind == b.dtype.kind == "f")
        return Pair(name, "shape", dtypes, shapes, hint="the second is the first, transposed" if turned else "")
    size = int(a.size)
    if first.dtype == second.dtype and a.tobytes() == b.tobytes():
        return Pair(name, "identical", dtypes, shapes, size)
    if a.dtype.kind in "US" or b.dtype.kind in "US":
        count = int((a.astype(str) != b.astype(str)).sum())
        return Pair(name, "real-difference" if count else "same-values", dtypes, shapes, size, count)
    with np.errstate(all="ignore"):
        return _numbers(name, first, second, ulps, rtol, atol)


def _numbers(name: str, first: Stored, second: Stored, ulps: float, rtol: float, atol: float) -> Pair:
    a, b = first.array, second.array
    dtypes, shapes, size = (first.dtype, second.dtype), (a.shape, b.shape), int(a.size)
    differs = ~((a == b) | ((a != a) & (b != b)))
    if not differs.any():
        return Pair(name, "same-values", dtypes, shapes, size)
    x, y = _wide(a), _wide(b)
    fine = np.isfinite(x) & np.isfinite(y)
    off = np.where(fine, np.abs(np.where(fine, x, 0) - np.where(fine, y, 0)), 0.0)
    form = coarser(dtypes)
    gap = _gap(np.maximum(np.abs(x), np.abs(y)), form)
    top = float(np.where(fine, np.maximum(np.abs(x), np.abs(y)), 0.0).max())
    place = int(off.argmax()) if off.any() else int(differs.argmax())
    flushed = differs & ((y == 0) & (np.abs(x) < _tiny(dtypes[0])) | (x == 0) & (np.abs(y) < _tiny(dtypes[1])))
    far = float(np.where(fine, off / gap, 0.0).max())
    scaled = float(off.max() / _gap(np.asarray(top), form))
    non_finite = int((differs & ~fine).sum())
    rounded_to, which = _rounding(x, y, dtypes)
    explanation: Explanation = "real-difference"
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        rounded_to, which = "", ""
    elif bool((flushed == differs).all()):
        explanation, rounded_to, which = "flush-to-zero", "", ""
    elif rounded_to:
        narrower = dtypes[0] != dtypes[1] and rounded_to == (dtypes[0] if which == "first" else dtypes[1])
        explanation = "dtype-mismatch" if narrower else "reduced-precision"
    elif not non_finite and (form in FORMATS and scaled <= ulps or bool((off <= atol + rtol * np.abs(x)).all())):
        explanation = "rounding-difference"
    return Pair(
        name, explanation, dtypes, shapes, size, int(differs.sum()), float(off.max()),
        at=tuple(int(i) for i in np.unravel_index(place, a.shape)), a=float(np.real(x.flat[place])), b=float(np.real(y.flat[place])),
        ulps=far, scaled=scaled, non_finite=non_finite, flushed=int(flushed.sum()),
        format=rounded_to, rounded=which, hint=_hint(x, y, form) if explanation == "real-difference" and not non_finite else "",
    )  # fmt: skip


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _tiny(dtype: str) -> float:
    """The smallest normal number; 0 for whole numbers."""
    return FORMATS[dtype].tiny if dtype in FORMATS else 0.0


def _gap(size: np.ndarray, form: str) -> np.ndarray:
    """Between neighbouring numbers of the format."""
    limits = FORMATS[form]
    lowest = math.frexp(limits.tiny)[1]
    return np.asarray(np.ldexp(limits.eps, np.maximum(np.frexp(np.where(np.isfinite(size), size, 0.0))[1], lowest) - 1))


def _rounding(x: np.ndarray, y: np.ndarray, dtypes: tuple[str, str]) -> tuple[str, Literal["", "first", "second"]]:
    """(format, side) where one side is the other rounded to a format: that of the other, else the finest; 8 bits if stored so."""
    if not all(d in FORMATS for d in dtypes):
        return "", ""
    finest = min(FORMATS[d].eps for d in dtypes)
    for form in (*sorted(dtypes, key=lambda d: FORMATS[d].eps), *_ROUNDED):
        eps = TF32.eps if form == TF32.name else FORMATS[form].eps
        if eps < finest or form.startswith("float8") and form not in dtypes:
            continue
        if _same(rounded(x, form), y) and (form == dtypes[1] or _fills(y, eps)):
            return form, "second"
        if _same(rounded(y, form), x) and (form == dtypes[0] or _fills(x, eps)):
            return form, "first"
    return "", ""


def _fills(values: np.ndarray, eps: float) -> bool:
    """Whether numbers use the last bit of a format, as about every second one that was rounded to it does; ones and zeros do not."""
    fraction, _ = np.frexp(values[np.isfinite(values) & (values != 0)])
    last = np.rint(np.abs(fraction) * 2 / eps) % 2
    return bool(last.size) and float(last.mean()) >= 0.25


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(((x == y) | (np.isnan(x) & np.isnan(y))).all())


def _hint(x: np.ndarray, y: np.ndarray, form: str) -> str:
    """A factor, an offset or a transposition that makes the sides agree within four ulps of the largest element."""
    limit = 4 * float(_gap(np.asarray(np.abs(x).max()), form))
    if x.size < 4:
        return ""
    if x.ndim == 2 and x.shape[0] == x.shape[1] and bool((np.abs(x.T - y) <= limit).all()):
        return "the second is the first, transposed"
    norm = float(np.real(np.vdot(x, x)))
    factor = float(np.real(np.vdot(x, y))) / norm if norm else 0.0
    if factor and bool((np.abs(factor * x - y) <= limit * max(1.0, abs(factor))).all()):
        return f"the second is {factor:.6g} times the first"
    offset = np.median(np.real(y - x))
    if bool((np.abs(x + offset - y) <= limit).all()):
        return f"the second is the first plus {offset:.6g}"
    return ""
