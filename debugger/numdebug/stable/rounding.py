"""Rounding to a narrower format, by NumPy alone."""

from __future__ import annotations

import numpy as np

from numdebug.formats import FORMATS, TF32, rounded
from numdebug.stable._arrays import Array, floating, library

NAMES = (*FORMATS, TF32.name)


def round_to(x: Array, name: str) -> Array:
    """What a format makes of the numbers of x, to nearest with ties to even, subnormals included: same shape, in float32 (float64 stays).

    `name` is "float16", "bfloat16", "tf32", "float8_e4m3fn", "float8_e5m2", "float32" or "float64". Beyond the largest number comes inf; in
    float8_e4m3fn, which has none, nan, as the OCP 8-bit specification's non-saturating mode says (PyTorch's own cast stays at 448 there).
    No gradient flows through it. Source: IEEE 754-2019, 4.3.1; NVIDIA for tf32 (8 bits of exponent, 10 of fraction).
    """
    if name not in NAMES:
        raise ValueError(f"round_to: the formats are {', '.join(NAMES)}, not {name!r}")
    x = floating(x)
    xp = library(x)
    wide = xp.float64 if x.dtype == xp.float64 else xp.float32
    with np.errstate(invalid="ignore"):  # NumPy warns of signalling nan
        if xp is np:
            return rounded(x, name).astype(wide)
        return xp.as_tensor(rounded(x.detach().double().cpu().numpy(), name), dtype=wide, device=x.device)
