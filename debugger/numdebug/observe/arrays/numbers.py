"""One array by itself: its format, its counts, its float64 counterpart. bfloat16 and 8-bit floats come as ml_dtypes arrays."""

from __future__ import annotations

from functools import cache

import numpy as np

from numdebug.formats import FORMATS
from numdebug.recording import Stats

FLOATS = ("float", "bfloat", "complex")
_PARTS = {"complex64": "float32", "complex128": "float64"}


def is_float(array: np.ndarray) -> bool:
    """Real or complex."""
    return _is_float(array.dtype)


@cache
def _is_float(dtype: np.dtype) -> bool:
    return dtype.name.startswith(FLOATS)


def part(dtype: str) -> str:
    """The format of a complex number's parts; any other format is itself."""
    return _PARTS.get(dtype, dtype)


def eps(dtype: str) -> float:
    """The gap above 1; 0 where the format is not known."""
    known = FORMATS.get(part(dtype))
    return known.eps if known is not None else 0.0


def tiny(dtype: str) -> float:
    """The smallest normal number."""
    known = FORMATS.get(part(dtype))
    return known.tiny if known is not None else 0.0


def widened(array: np.ndarray, wide: np.dtype | type = np.float64) -> np.ndarray:
    """In float64 (complex128), or wider; whole numbers and booleans as they are."""
    if array.dtype.kind == "c":
        return array.astype(np.result_type(wide, np.complex64), copy=False)
    return array.astype(wide, copy=False) if is_float(array) else array


def shown(array: np.ndarray) -> np.ndarray:
    """As NumPy itself knows it: what it lacks comes as float32 (exact)."""
    return array.astype(np.float32) if is_float(array) and array.dtype.name.startswith(("bfloat", "float8")) else array


def top(array: np.ndarray) -> float:
    """The largest finite magnitude; 0 where there is none."""
    magnitude = np.abs(widened(array))
    return float(np.max(magnitude, where=np.isfinite(magnitude), initial=0.0))


def stats(array: np.ndarray) -> Stats:
    """See Stats. Complex arrays count by component: a number is finite when both parts are."""
    size = int(array.size)
    if array.dtype == np.bool_ or not size:
        return Stats(size, zero=int((~array).sum()) if size else 0)
    if not is_float(array):
        wide = array.astype(np.float64)
        low, high = float(wide.min()), float(wide.max())
        return Stats(size, zero=int((array == 0).sum()), max_abs=max(abs(low), abs(high)), lowest=low, highest=high)
    smallest = tiny(array.dtype.name)
    wide = widened(array)
    if wide.dtype.kind == "c":
        wide = wide.view(np.float64)
        size = wide.size
    finite = wide[np.isfinite(wide)]
    counted = {"nan": np.isnan(wide), "posinf": np.isposinf(wide), "neginf": np.isneginf(wide), "zero": wide == 0}
    counts = {name: int(mask.sum()) for name, mask in counted.items()}
    if not finite.size:
        return Stats(size, **counts)
    magnitude = np.abs(finite)
    nonzero = magnitude[magnitude > 0]
    return Stats(
        size,
        **counts,
        subnormal=int((nonzero < smallest).sum()),
        max_abs=float(magnitude.max()),
        min_abs=float(nonzero.min()) if nonzero.size else None,
        lowest=float(finite.min()),
        highest=float(finite.max()),
    )


def identical(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit for bit, a NaN being equal to a NaN and a zero to a zero of the other sign."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())
