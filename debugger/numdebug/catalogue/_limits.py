"""Constants of the repairs, each derived from the format it is used in."""

from __future__ import annotations

from numdebug.formats import FORMATS, Format


def _format(dtype: str | None) -> Format:
    return FORMATS.get(dtype or "", FORMATS["float32"])


def exp_bound(dtype: str | None) -> float:
    """Half of the largest argument of exp, rounded down: the result's square still fits the format."""
    return float(int(_format(dtype).exp_limit / 2))


def under_root(dtype: str | None) -> float:
    """Added under a square root, it changes the result by at most the format's eps (it is about eps squared)."""
    return {"float64": 1e-30, "float32": 1e-14, "float16": 1e-6, "bfloat16": 1e-4}.get(dtype or "", 1e-14)


def divisor_floor(dtype: str | None) -> float:
    """1e-12, the floor of PyTorch's own normalize, where the format holds it; in float16 its smallest normal, rounded up."""
    return 1e-4 if dtype == "float16" else 1e-12


def edge_margin(dtype: str | None) -> float:
    """A few units in the last place below 1: what a dot product of unit vectors is wrong by, and the format still holds."""
    return {"float64": 1e-14, "float32": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}.get(dtype or "", 1e-6)


def smallest_normal(dtype: str | None) -> float:
    """Below it a format loses digits, and JAX on a CPU loses the number."""
    return _format(dtype).tiny
