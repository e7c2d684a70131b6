"""The limits of number formats, against NumPy, PyTorch and what the machine does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from numdebug.formats import FORMATS, NARROW, rounded

# name: max, smallest normal, smallest subnormal, eps, exp overflows above; as published in IEEE 754 and OCP's 8-bit specification.
PUBLISHED = {
    "float64": (1.797693e308, 2.225074e-308, 4.94e-324, 2.22e-16, 709.7827),
    "float32": (3.4028235e38, 1.1754944e-38, 1.401e-45, 1.192e-7, 88.7228),
    "float16": (65504, 6.1035e-5, 5.96e-8, 9.77e-4, 11.0899),
    "bfloat16": (3.3895e38, 1.1755e-38, 9.18e-41, 7.81e-3, 88.72),
    "float8_e4m3fn": (448, 0.015625, 0.001953, 0.125, 6.10),
    "float8_e5m2": (57344, 6.1035e-5, 1.526e-5, 0.25, 10.96),
}


@pytest.mark.parametrize("name", FORMATS)
def test_published_limits(name):
    f = FORMATS[name]
    assert (f.max, f.tiny, f.subnormal, f.eps, f.exp_limit) == pytest.approx(PUBLISHED[name], rel=1e-3)


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_numpy_agrees(name):
    f, info = FORMATS[name], np.finfo(name)
    assert (f.bits, f.max, f.tiny, f.subnormal, f.eps) == (info.bits, info.max, info.tiny, info.smallest_subnormal, info.eps)


@pytest.mark.parametrize("name", FORMATS)
def test_torch_agrees(name):
    torch = pytest.importorskip("torch")
    f, info = FORMATS[name], torch.finfo(getattr(torch, name))
    assert (f.bits, f.max, f.tiny, f.eps) == (info.bits, info.max, info.smallest_normal, info.eps)


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_exp_overflows_just_above_its_limit(name):
    limit = np.dtype(name).type(FORMATS[name].exp_limit)
    with np.errstate(over="ignore"):
        assert np.isfinite(np.exp(limit * np.dtype(name).type(1 - 1e-3)))
        assert np.isinf(np.exp(limit * np.dtype(name).type(1 + 1e-3)))


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_half_the_smallest_subnormal_rounds_to_zero(name):
    kind, flush = np.dtype(name).type, FORMATS[name].flush
    assert kind(flush) == 0
    assert kind(math.nextafter(flush, 1)) == FORMATS[name].subnormal


@pytest.mark.parametrize("name", NARROW)
def test_rounding_is_the_machines_own(name):
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32).view(np.float32)
    f = FORMATS[name]
    edges = [0.0, f.max, f.tiny, f.subnormal, f.flush, f.flush * 1.001, 1.5 * f.subnormal, 1 + f.eps / 2, 1 + 1.5 * f.eps, np.inf, np.nan]
    spread = np.exp(np.random.default_rng(1).uniform(np.log(f.flush / 4), np.log(min(f.max, 1e30) * 4), 20_000))
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.concatenate([bits, edges, -np.array(edges), spread, -spread]).astype(np.float32)
    if name == "float8_e4m3fn":  # PyTorch's cast stays at the largest number, the specification gives NaN
        x = x[np.abs(x) <= 464]
        assert np.isnan(rounded(np.array([464.1, np.inf, -1e9]), name)).all()
    theirs = torch.from_numpy(x).to(getattr(torch, name)).to(torch.float64).numpy()
    np.testing.assert_array_equal(rounded(x, name), theirs)
    assert (np.signbit(rounded(x, name)) == np.signbit(theirs))[~np.isnan(theirs)].all()
