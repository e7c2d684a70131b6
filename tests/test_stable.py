"""numdebug.stable against mpmath, over the whole range of each format."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import LIBRARIES, array, numbers

from numdebug import stable
from numdebug.formats import FORMATS

torch = pytest.importorskip("torch")
mp = pytest.importorskip("mpmath").MPContext()
mp.prec = 200

INF = math.inf
NAMES = ("float64", "float32", "float16", "bfloat16")
formats = pytest.mark.parametrize("name", NAMES)
few = settings(max_examples=40, deadline=None, derandomize=True)


def arrays(x, name: str):
    """The numbers in each library that has the format."""
    return [array(library, x, name) for library in LIBRARIES if (library, name) != ("numpy", "bfloat16")]


@st.composite
def number(draw, name: str, largest: float = INF, below: float = INF):
    """Any number of a format, near or far."""
    form = FORMATS[name]
    top = min(largest, form.max)
    near = st.floats(-min(2 * form.exp_limit, top), min(2 * form.exp_limit, top, below))
    small = st.floats(-1, min(1, below)).map(lambda v: v * 10.0 ** -draw(st.integers(0, 40)))
    x = draw(st.one_of(near, st.floats(-top, min(top, below)), small))
    found = float(stable.round_to(x, name))
    return found if abs(found) <= top else 0.0


def row(name: str, largest: float = INF):
    return st.lists(number(name, largest), min_size=1, max_size=8)


def working(name: str) -> float:
    """eps of the format that the library computes in."""
    return FORMATS[name if name == "float64" else "float32"].eps


def close(found, exact, name: str, absolute=0, relative=0) -> None:
    """Within the bound of the computation, plus half a unit for the final rounding and the smallest number for underflow."""
    form = FORMATS[name]
    for f, e in zip(numbers(found).reshape(-1), exact, strict=True):
        bound = absolute + (relative + form.eps) * abs(e) + 2 * form.subnormal
        if abs(e) + bound > form.max:
            assert f == math.copysign(INF, e) or abs(mp.mpf(f) - e) <= bound, (f, e)
        else:
            assert math.isfinite(f) and abs(mp.mpf(float(f)) - e) <= bound, (f, mp.nstr(e, 20), mp.nstr(bound, 5))


def exp(x):
    return mp.exp(x) if x > -1e6 else mp.mpf(0)


def sums_of(x) -> tuple:
    top = max(x)
    return mp.mpf(top), sum(exp(mp.mpf(v) - top) for v in x)


# The bounds of Blanchard, Higham and Higham (2021), with the constants rounded up.


@formats
@given(data=st.data())
@few
def test_softmax(name, data):
    x = data.draw(row(name))
    top, total = sums_of(x)
    for given_row in arrays(x, name):
        found = numbers(stable.softmax(given_row))
        for f, v in zip(found, x, strict=True):
            gap = min(top - v, 800)
            close([f], [exp(mp.mpf(v) - top) / total], name, relative=(gap + len(x) + 4) * working(name))


@formats
@given(data=st.data())
@few
def test_logsumexp(name, data):
    x = data.draw(row(name))
    top, total = sums_of(x)
    exact = top + mp.log(total)
    for given_row in arrays(x, name):
        close(stable.logsumexp(given_row), [exact], name, absolute=(abs(top) + abs(exact) + len(x) + 4) * working(name))


@formats
@given(data=st.data())
@few
def test_log_softmax_and_cross_entropy(name, data):
    x = data.draw(row(name))
    top, total = sums_of(x)
    target = data.draw(st.integers(0, len(x) - 1))
    for given_row in arrays(x, name):
        found = numbers(stable.log_softmax(given_row))
        for f, v in zip(found, x, strict=True):
            exact = mp.mpf(v) - top - mp.log(total)
            close([f], [exact], name, absolute=(2 * abs(exact) + len(x) + 4) * working(name))
        index = torch.tensor([target]) if hasattr(given_row, "detach") else [target]
        np.testing.assert_array_equal(numbers(stable.cross_entropy(given_row[None], index)), -found[[target]])


# Relative error of at most 8 eps: three operations, each of which the libraries compute to about one unit in the last place.
ONE = {
    "softplus": lambda x: mp.log1p(exp(x)) if x < 1e4 else x,
    "sigmoid": lambda x: 1 / (1 + exp(-x)) if x > 0 else exp(x) / (1 + exp(x)),
    "log_sigmoid": lambda x: -mp.log1p(exp(-x)) if x > -1e4 else x,
    "expm1": lambda x: mp.expm1(x) if x < 1e4 else mp.mpf(10) ** 1000,
    "one_minus_cos": lambda x: 2 * mp.sin(x / 2) ** 2,
    "log1p": lambda x: mp.log1p(x),
    "log1mexp": lambda x: mp.log(-mp.expm1(x)) if x > -1 else mp.log1p(-exp(x)),
}
BELOW = {"log1mexp": -1e-45}
ABOVE = {"log1p": -1}


@pytest.mark.parametrize("function", ONE)
@formats
@given(data=st.data())
@few
def test_element_by_element(function, name, data):
    x = data.draw(st.lists(number(name, below=BELOW.get(function, INF)), min_size=1, max_size=20))
    x = [v for v in x if v > ABOVE.get(function, -INF) and (function not in BELOW or v < 0)]
    for given_row in arrays(x, name):
        close(getattr(stable, function)(given_row), [ONE[function](mp.mpf(v)) for v in x], name, relative=8 * working(name))


@formats
@given(data=st.data())
@few
def test_two_arguments(name, data):
    x, y = data.draw(number(name)), data.draw(number(name))
    top, total = sums_of([x, y])
    exact = top + mp.log(total)
    t = data.draw(st.sampled_from([0.0, 0.25, 1.0]))
    z = mp.mpf(x)
    loss = max(z, 0) - z * t + mp.log1p(exp(-abs(z)))
    for a, b, target in zip(arrays([x], name), arrays([y], name), arrays([t], name), strict=True):
        close(stable.logaddexp(a, b), [exact], name, absolute=(abs(top) + abs(exact) + 4) * working(name))
        cancels = 2 * abs(z) * working(name) * (t == 0.25)
        close(stable.bce_with_logits(a, target), [loss], name, absolute=cancels, relative=8 * working(name))


@formats
@given(data=st.data())
@few
def test_sums(name, data):
    form = FORMATS[name]
    x = data.draw(st.lists(number(name, largest=form.max / 256), max_size=10))
    x += data.draw(st.permutations([-v for v in x] + data.draw(st.lists(number(name, largest=1), max_size=10))))  # much of it cancels
    exact, size, eps = sum(map(Fraction, x)), sum(abs(Fraction(v)) for v in x), Fraction(form.eps)
    for given_row in arrays(x, name):
        kahan, pairs = (Fraction(float(f(given_row))) for f in (stable.kahan_sum, stable.pairwise_sum))
        assert abs(kahan - exact) <= eps * abs(exact) + 2 * len(x) * eps**2 * size
        assert abs(pairs - exact) <= max(len(x) - 1, 0).bit_length() * eps * size


@formats
@given(data=st.data())
@settings(max_examples=10, deadline=None, derandomize=True)
def test_long_sums(name, data):
    x = data.draw(st.lists(st.floats(0.5, 1).map(lambda v: float(stable.round_to(v, name))), min_size=1, max_size=3)) * 200
    exact, eps = sum(map(Fraction, x)), Fraction(FORMATS[name].eps)
    for given_row in arrays(x, name):
        assert abs(Fraction(float(stable.kahan_sum(given_row))) - exact) <= (eps + 2 * len(x) * eps**2) * exact
        assert abs(Fraction(float(stable.pairwise_sum(given_row))) - exact) <= len(x).bit_length() * eps * exact


def moments(x) -> tuple:
    mean = sum(map(mp.mpf, x)) / len(x)
    return mean, sum((v - mean) ** 2 for v in x) / len(x)


@formats
@given(data=st.data())
@few
def test_variance(name, data):
    form, eps = FORMATS[name], working(name)
    center = data.draw(number(name, largest=math.sqrt(form.max) / 64))
    offsets = st.integers(-8, 8).map(lambda k: float(stable.round_to(center * (1 + k * form.eps), name)))
    x = data.draw(st.one_of(row(name, largest=math.sqrt(form.max) / 8), st.lists(offsets, min_size=1, max_size=8)))
    _, exact = moments(x)
    off = (len(x) * eps * max(map(abs, x))) ** 2  # what the corrected second pass leaves of the rounding of the mean
    for given_row in arrays(x, name):
        close(stable.variance(given_row), [exact], name, absolute=off, relative=(len(x) + 4) * eps)


@given(x=row("float64", 1e100), cut=st.integers(0, 8))
@few
def test_welford_in_one_piece_and_in_two(x, cut):
    mean, exact = moments(x)
    parts = stable.Welford(), stable.Welford(), stable.Welford()
    for place, v in enumerate(x):
        parts[0].update(v)
        parts[1 if place < cut else 2].update(v)
    parts[1].merge(parts[2])
    eps, size = FORMATS["float64"].eps, max(map(abs, x))
    for w in parts[:2]:
        assert w.count == len(x)
        close([w.mean], [mean], "float64", absolute=2 * len(x) * eps * size)
        close([w.variance()], [exact], "float64", absolute=4 * len(x) * eps * mp.sqrt(exact) * size + (4 * len(x) * eps * size) ** 2)


@formats
@given(data=st.data())
@few
def test_norm(name, data):
    x = data.draw(row(name))
    for given_row in arrays(x, name):
        close(stable.safe_norm(given_row), [mp.sqrt(sum(mp.mpf(v) ** 2 for v in x))], name, relative=(len(x) + 4) * working(name))


@formats
@given(data=st.data())
@few
def test_clipping_keeps_the_direction_and_bounds_the_norm(name, data):
    x = data.draw(row(name))
    bound = data.draw(st.sampled_from([0.5, 1.0, 5.0]))
    norm = mp.sqrt(sum(mp.mpf(v) ** 2 for v in x))
    factor = min(mp.mpf(1), bound / norm) if norm else mp.mpf(1)
    for given_row in arrays(x, name):
        clipped = stable.clip_by_norm(given_row, bound)
        close(clipped, [v * factor for v in x], name, relative=(len(x) + 6) * working(name))
        assert clipped is given_row or norm >= bound * (1 - 10 * working(name))
