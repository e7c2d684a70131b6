"""numdebug.stable at its edges and beside the naive forms."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys

import numpy as np
import pytest
from libraries import array, both, numbers

from numdebug import stable

torch = pytest.importorskip("torch")
INF, NAN = math.inf, math.nan


@both
@pytest.mark.parametrize("name", ["float64", "float32"])
@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([3.0, 3.0, 3.0, 3.0], 3 + math.log(4)),
        ([1000.0, 0.0, -5.0], 1000.0),
        ([-1000.0, -1000.0], -1000 + math.log(2)),
        ([-INF, -INF], -INF),
        ([-INF, 2.0], 2.0),
        ([INF, 0.0], INF),
        ([INF, -INF], INF),
        ([NAN, 0.0], NAN),
        ([1000.0, 1001.0], 1001.3133),
    ],
)
def test_edges_of_logsumexp(library, name, x, expected):
    found = stable.logsumexp(array(library, [x, x], name))
    np.testing.assert_allclose(numbers(found), [expected] * 2, rtol=1e-6)


def test_gradients_of_logsumexp_are_the_softmax_and_0_where_all_is_minus_inf():
    x = torch.tensor([[-INF, -INF], [-INF, 1.0], [-1000.0, -1000.0], [2000.0, 0.0]], requires_grad=True)
    stable.logsumexp(x).sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 1], [0.5, 0.5], [1, 0]]


@both
def test_softmax_of_a_row_without_one_is_nan_and_the_other_rows_stay(library):
    found = numbers(stable.softmax(array(library, [[-INF, -INF], [-INF, 0.0], [INF, 0.0]])))
    np.testing.assert_array_equal(found, [[NAN, NAN], [0, 1], [NAN, NAN]])


def test_gradients_at_the_edges_are_right():
    x = torch.tensor([-200.0, 0.0, 200.0], dtype=torch.float64, requires_grad=True)
    for function, expected in [
        (stable.softplus, [1.3838965267367376e-87, 0.5, 1]),
        (stable.log_sigmoid, [1, 0.5, 1.3838965267367376e-87]),
        (stable.sigmoid, [1.3838965267367376e-87, 0.25, 1.3838965267367376e-87]),
        (lambda z: stable.bce_with_logits(z, [1.0, 1.0, 0.0]), [-1, -0.5, 1]),
    ]:
        (found,) = torch.autograd.grad(function(x).sum(), x)
        assert found.tolist() == pytest.approx(expected, rel=1e-14)
    zeros = torch.zeros(3, requires_grad=True)
    for function in (stable.safe_sqrt, stable.safe_norm, lambda z: stable.safe_divide(1.0 + z, z)):
        (found,) = torch.autograd.grad(function(zeros).sum(), zeros)
        assert found.tolist() == [0, 0, 0]
    (found,) = torch.autograd.grad(stable.guarded(torch.sqrt, x, x > 0).sum(), x)
    assert found.tolist() == [0, 0, pytest.approx(0.5 / math.sqrt(200))]
    (bad,) = torch.autograd.grad(stable.naive.guarded(torch.sqrt, x, x > 0).sum(), x)
    assert math.isnan(bad[0]) and math.isnan(bad[1])


SMOOTH = "softmax log_softmax logsumexp softplus sigmoid log_sigmoid variance kahan_sum pairwise_sum safe_norm one_minus_cos expm1".split()


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_agree_with_differences(name):
    function = getattr(stable, name)
    x = torch.tensor([[0.3, -1.2, 2.5], [4.0, 0.1, -3.0]], dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[1.0, -0.5, 0.3], [0.2, 0.7, 1.1]], dtype=torch.float64)

    def loss(z):
        y = function(z)
        return (y * weights[tuple(slice(n) for n in y.shape)] if y.ndim == 2 else y * weights[:, 0]).sum()

    (found,) = torch.autograd.grad(loss(x), x)
    assert stable.verdict(stable.relative_error(found, stable.numerical_gradient(loss, x)).max()) == "right"


@both
def test_axes(library):
    x = array(library, [[1.0, 2.0], [3.0, 5.0]])
    assert numbers(stable.softmax(x, 0)).sum(axis=0) == pytest.approx([1, 1])
    assert numbers(stable.logsumexp(x, 0)) == pytest.approx(np.log(np.exp(numbers(x)).sum(axis=0)))
    target = torch.tensor([1, 0]) if library == "torch" else [1, 0]
    assert numbers(stable.cross_entropy(x, target, axis=0)) == pytest.approx([math.log(1 + math.exp(-2)), 3 + math.log(1 + math.exp(-3))])
    assert numbers(stable.variance(x, 0, correction=1)) == pytest.approx([2, 4.5])
    assert numbers(stable.kahan_sum(x, 0)).tolist() == numbers(stable.pairwise_sum(x, 0)).tolist() == [4, 7]
    assert numbers(stable.safe_norm(x, 0)) == pytest.approx([math.sqrt(10), math.sqrt(29)])


@both
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: stable.softmax(a([])), "softmax of nothing"),
        (lambda a: stable.logsumexp(a([[], []])), "axis -1 of an array of shape (2, 0) is empty"),
        (lambda a: stable.log_softmax(a(1.0)), "has no axis -1"),
        (lambda a: stable.softmax(a([1.0]), 3), "has no axis 3"),
        (lambda a: stable.kahan_sum(a(1.0)), "shape () has no axis"),
        (lambda a: stable.kahan_sum(a([1.0]), 2), "has no axis 2"),
        (lambda a: stable.variance(a([1.0]), correction=1), "nothing to divide by"),
        (lambda a: stable.cross_entropy(a([[1.0, 2.0]]), [2]), "from 0 to 1"),
        (lambda a: stable.cross_entropy(a([[1.0, 2.0]]), [-1]), "from 0 to 1"),
        (lambda a: stable.cross_entropy(a([[1.0, 2.0]]), [0, 1]), "shape is (2,)"),
        (lambda a: stable.cross_entropy(a([[1.0, 2.0]]), [0.5]), "whole numbers"),
        (lambda a: stable.clip_by_norm(a([1.0, NAN]), 1.0), "no direction"),
        (lambda a: stable.clip_by_norm(a([1.0]), 0.0), "has to be positive"),
        (lambda a: stable.round_to(a([1.0]), "float12"), "formats are float64"),
        (lambda a: stable.numerical_gradient(lambda x: x, a([1.0, 2.0])), "one number"),
        (lambda a: stable.numerical_gradient(lambda x: x.sum(), a([1.0]), order=3), "order 1, 2 and 4"),
        (lambda a: stable.relative_error(a([1.0]), a([1.0, 2.0])), "(1,) and (2,)"),
    ],
)
def test_errors_are_one_clear_sentence(library, call, words):
    with pytest.raises(ValueError) as raised:
        call(lambda x: array(library, x))
    assert words in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int32, torch.int64, torch.float32])
def test_class_numbers_of_any_type(kind):
    assert stable.cross_entropy(torch.tensor([[0.0, 120.0]]), torch.tensor([0], dtype=kind)).tolist() == [120]


def test_only_real_numbers():
    for x in (np.array([1j]), torch.tensor([1j]), ["a"]):
        with pytest.raises(ValueError, match="real numbers"):
            stable.softmax(x)


# Beside the naive forms


def test_every_function_has_its_naive_form():
    without = {"naive", "Welford", "round_to", "relative_error", "verdict", "sweep"}
    assert {n for n in stable.__all__ if n not in without} == {n for n in vars(stable.naive) if n in stable.__all__ and n not in without}


@both
@pytest.mark.parametrize(
    ("call", "name", "naive", "right"),
    [
        (lambda s, a: s.softmax(a([1000.0, 999.0]))[0], "float64", NAN, 0.731059),
        (lambda s, a: s.logsumexp(a([1000.0, 1001.0])), "float64", INF, 1001.3133),
        (lambda s, a: s.cross_entropy(a([[0.0, 120.0]]), torch.tensor([0])), "float32", INF, 120),
        (lambda s, a: s.variance(a([1e6, 1e6 + 1, 1e6 + 2])), "float32", -65536, 0.66666667),
        (lambda s, a: s.variance(a([1e6, 1e6 + 1, 1e6 + 2])), "float64", 0.66662598, 0.66666667),
        (lambda s, a: s.softmax(a([100.0, 101.0, 102.0]))[0], "float64", 0.0900306, 0.0900306),  # right as it is in float64
        (lambda s, a: s.softmax(a([100.0, 101.0, 102.0]))[0], "float32", NAN, 0.0900306),
        (lambda s, a: s.logsumexp(a([500.0, 501.0, 502.0])), "float64", 502.4076, 502.4076),
        (lambda s, a: s.logsumexp(a([500.0, 501.0, 502.0])), "float32", INF, 502.4076),
        (lambda s, a: s.log_softmax(a([0.0, 110.0]))[0], "float32", -INF, -110),
        (lambda s, a: s.softplus(a([100.0])), "float32", INF, 100),
        (lambda s, a: s.log_sigmoid(a([-110.0])), "float32", -INF, -110),
        (lambda s, a: s.bce_with_logits(a([17.5]), a([0.0])), "float32", INF, 17.5),
        (lambda s, a: s.log1p(a([1e-8])), "float32", 0, 1e-8),
        (lambda s, a: s.expm1(a([1e-8])), "float32", 0, 1e-8),
        (lambda s, a: s.one_minus_cos(a([1e-4])), "float32", 0, 5e-9),
        (lambda s, a: s.kahan_sum(a([2.0**24, 1, 1, 1, 1])), "float32", 2**24, 2**24 + 4),
        (lambda s, a: s.pairwise_sum(a([1.0] * 5000)), "float16", 2048, 5000),
        (lambda s, a: s.safe_norm(a([1e20, 1e20])), "float32", INF, 1.4142136e20),
        (lambda s, a: s.safe_norm(a([1e-30, 1e-30])), "float32", 0, 1.4142136e-30),
        (lambda s, a: s.safe_divide(a([1.0]), a([0.0])), "float32", INF, 0),
        (lambda s, a: s.clip_by_norm(a([3.0, 4.0]), 1.0)[0], "float64", 1, 0.6),
        (lambda s, a: s.numerical_gradient(lambda w: (w * w).sum(), a([3.0])), "float32", 0, 6),
    ],
)
def test_naive_fails_where_stable_holds(library, call, name, naive, right):
    def make(x):
        return array(library, x, name)

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(numbers(call(stable.naive, make)).item(), naive, rtol=1e-6)
    np.testing.assert_allclose(numbers(call(stable, make)).item(), right, rtol=1e-6)


@both
def test_sums_of_infinite_numbers_and_of_nothing(library):
    for function in (stable.kahan_sum, stable.pairwise_sum):
        found = [float(function(array(library, x))) for x in ([1.0, INF, 2.0], [INF, -INF], [NAN, 1.0], [1e308, 1e308], [])]
        np.testing.assert_array_equal(found, [INF, NAN, NAN, INF, 0])
    assert float(stable.kahan_sum(array(library, [1.0, 1e100, 1.0, -1e100]))) == 2


@both
def test_a_compensated_sum_in_float16_never_stops(library):
    assert float(stable.kahan_sum(array(library, [1.0] * 20_000, "float16"))) == 20_000


def test_a_counter_in_bfloat16_stops_at_256():
    ones = torch.ones(300, dtype=torch.bfloat16)
    assert (stable.naive.kahan_sum(ones), stable.kahan_sum(ones), stable.pairwise_sum(ones)) == (256, 300, 300)


# Differences


def test_a_sweep_tells_truncation_from_cancellation_and_a_wrong_gradient_from_both():
    x = np.array([0.7, -1.3])

    def f(z):
        return np.sin(z).sum() * np.exp(z[0])

    right = np.array([(math.cos(0.7) + math.sin(0.7) + math.sin(-1.3)) * math.exp(0.7), math.cos(-1.3) * math.exp(0.7)])
    errors = [error for _, error in stable.sweep(f, x, right)]
    best = errors.index(min(errors))
    assert 0 < best < len(errors) - 1 and errors[0] > 100 * errors[best] and errors[-1] > 100 * errors[best]
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.05)  # second order
    assert stable.verdict(errors[best]) == "right"
    assert min(error for _, error in stable.sweep(f, x, 1.1 * right)) == pytest.approx(0.1 / 1.1, rel=1e-3)


@pytest.mark.parametrize(
    ("error", "words"),
    [(0, "right"), (9e-8, "right"), (1e-6, "acceptable"), (1e-4, "unclear"), (0.1, "suspicious"), (1.5, "wrong"), (NAN, "wrong")],
)
def test_the_scale_of_verdicts(error, words):
    assert stable.verdict(error) == words


def test_importing_it_imports_no_framework_and_using_numpy_neither():
    code = "import sys; from numdebug import stable; stable.softmax([1.0, 2.0]); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_example_of_its_docstring():
    with np.errstate(all="ignore"):
        assert doctest.testmod(stable).failed == 0


def test_clipping_leaves_out_what_has_no_gradient():
    clipped = stable.clip_by_norm([torch.tensor([3.0]), None, torch.tensor([4.0])], 1.0)
    assert clipped[1] is None
    assert [g.item() for g in (clipped[0], clipped[2])] == pytest.approx([0.6, 0.8])
