"""Rounding to narrower formats, against PyTorch, NumPy and bit tricks."""

from __future__ import annotations

import numpy as np
import pytest

from numdebug import stable
from numdebug.formats import FORMATS

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def patterns() -> dict[str, np.ndarray]:
    """Every float16, and float32 numbers of every exponent."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    singles = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    ties = (np.arange(2**16, dtype=np.uint32) << 16 | np.uint32(0x8000)).view(np.float32)  # between two bfloat16 numbers
    codes = torch.arange(256, dtype=torch.uint8)
    eights = [codes.view(getattr(torch, name)).float().numpy() for name in FORMATS if name.startswith("float8")]
    middles = [(a[:-1] + a[1:]) / 2 for a in map(np.sort, eights)]
    return {"float16": halves, "float32": np.concatenate([singles, ties, *eights, *middles])}


def bits(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), np.float32(np.nan), x).astype(np.float32).view(np.uint32)


@pytest.mark.parametrize("source", ["float16", "float32"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_is_what_pytorch_casts_to(patterns, source, name):
    x = patterns[source]
    cast = torch.from_numpy(x).float().to(getattr(torch, name)).float().numpy()
    if name == "float8_e4m3fn":  # PyTorch's cast stays at 448, or says nan, by version; a number above is beyond the format
        with np.errstate(invalid="ignore"):
            cast = np.where(abs(x) > 464, np.float32(np.nan), cast)
    for found in (stable.round_to(x, name), stable.round_to(torch.from_numpy(x), name).numpy()):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(bits(found), bits(cast))


def test_rounding_from_float64_rounds_once():
    x = np.random.default_rng(1).standard_normal(50_000) * 10.0 ** np.random.default_rng(2).integers(-9, 6, 50_000)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(stable.round_to(x, "float16"), x.astype(np.float16).astype(np.float64))
        np.testing.assert_array_equal(stable.round_to(x, "float32"), x.astype(np.float32).astype(np.float64))
    just_above_a_tie = 1 + 2.0**-11 + 2.0**-40
    assert stable.round_to(just_above_a_tie, "float16") == 1 + 2.0**-10  # by way of float32 it would be 1


def test_tf32_keeps_ten_bits_of_the_fraction(patterns):
    x = patterns["float32"]
    x = x[np.isfinite(x)]
    raw = x.view(np.uint32).astype(np.uint64)
    kept = ((raw + 0xFFF + (raw >> 13 & 1)) & ~np.uint64(0x1FFF)).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(bits(stable.round_to(x, "tf32")), bits(kept))
