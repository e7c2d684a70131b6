"""Number formats: their limits, as IEEE 754 and the OCP 8-bit specification give them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Format:
    """`eps` is the gap above 1; `tiny` the smallest normal and `subnormal` the smallest positive number."""

    name: str
    bits: int
    max: float
    tiny: float
    subnormal: float
    eps: float

    @property
    def exp_limit(self) -> float:
        """exp(x) is larger than `max` above this x."""
        return math.log(self.max)

    @property
    def flush(self) -> float:
        """Magnitudes at or below this round to zero: half the smallest subnormal."""
        return self.subnormal / 2


def _ieee(name: str, bits: int, exponent: int, mantissa: int) -> Format:
    bias = 2 ** (exponent - 1) - 1
    tiny = 2.0 ** (1 - bias)
    return Format(name, bits, (2 - 2.0**-mantissa) * 2.0**bias, tiny, tiny * 2.0**-mantissa, 2.0**-mantissa)


FORMATS: dict[str, Format] = {
    "float64": _ieee("float64", 64, 11, 52),
    "float32": _ieee("float32", 32, 8, 23),
    "float16": _ieee("float16", 16, 5, 10),
    "bfloat16": _ieee("bfloat16", 16, 8, 7),
    "float8_e5m2": _ieee("float8_e5m2", 8, 5, 2),
    "float8_e4m3fn": Format("float8_e4m3fn", 8, 448.0, 2.0**-6, 2.0**-9, 0.125),  # no infinity: the top code is a NaN
}

# 32 bits of storage, of which products on NVIDIA's tensor cores read 19.
TF32 = _ieee("tf32", 19, 8, 10)
NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")


def coarser(names: Iterable[str]) -> str:
    """Of these dtypes the format with the largest gap, a complex number's parts being of its own; float64 where none is floating point."""
    parts = [{"complex64": "float32", "complex128": "float64"}.get(name, name) for name in names]
    return max((p for p in parts if p in FORMATS), key=lambda p: FORMATS[p].eps, default="float64")


def rounded(array: np.ndarray, name: str) -> Any:
    """In float64, what the format makes of these numbers: to nearest, ties to even, with subnormals.

    Beyond the largest number comes inf, in float8_e4m3fn NaN, as the 8-bit specification says (PyTorch's own cast stays at 448 there).
    """
    import numpy as np

    form = TF32 if name == TF32.name else FORMATS[name]
    exact = np.asarray(array, dtype=np.float64)
    if name == "float64":
        return exact
    _, exponent = np.frexp(exact)
    gap = np.ldexp(form.eps, np.maximum(exponent - 1, math.frexp(form.tiny)[1] - 1))
    finite = np.isfinite(exact)
    near = np.where(finite, np.rint(np.where(finite, exact, 0.0) / gap) * gap, exact)
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(near) > form.max, np.nan if name == "float8_e4m3fn" else np.copysign(np.inf, exact), near)
