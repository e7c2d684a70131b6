"""numdebug.testing.assert_explained: passes for other orders of the same sums, fails beyond, and says what would explain the rest."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from numdebug.formats import rounded
from numdebug.testing import assert_explained


def dense(n: int, rows: int = 20, columns: int = 30, positive: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    g = np.random.default_rng(n)
    x, w, b = g.normal(size=(rows, n)), g.normal(size=(n, columns)) / np.sqrt(n), g.normal(size=columns)
    if positive:
        x, w = np.abs(x), np.abs(w)
    return x.astype(np.float32), w.astype(np.float32), b.astype(np.float32)


def shuffled(x: np.ndarray, w: np.ndarray, parts: int = 3) -> np.ndarray:
    """The same product, its terms in another order and in parts."""
    order = np.random.default_rng(0).permutation(w.shape[0])
    return sum(x[:, p] @ w[p] for p in np.array_split(order, parts))


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("n", [1, 2, 8, 100, 784, 4096, 16384])
def test_another_order_of_the_same_sums_passes(n: int, positive: bool) -> None:
    x, w, b = dense(n, positive=positive)
    wide = x.astype(np.float64) @ w.astype(np.float64) + b
    for actual, expected in ((x @ w + b, shuffled(x, w) + b), (x @ w + b, wide), (np.einsum("ij,jk", x, w) + b, x @ w + b)):
        assert_explained(actual, expected, terms=(x, w, b))
    assert_explained((x @ w + b)[:1], x[:1] @ w + b, terms=(x[:1], w, b))


@pytest.mark.parametrize("n", [8, 100, 784, 4096])
@pytest.mark.parametrize("form", ["tf32", "bfloat16"])
def test_narrower_products_fail_are_named_and_pass_when_they_are_meant(form: str, n: int) -> None:
    x, w, b = dense(n)
    low = (rounded(x, form).astype(np.float32) @ rounded(w, form).astype(np.float32)) + b
    with pytest.raises(AssertionError, match=f"what would explain it:.* pass products='{form}'"):
        assert_explained(low, x @ w + b, terms=(x, w, b))
    assert_explained(low, x @ w + b, terms=(x, w, b), products=form)
    if form == "bfloat16":
        with pytest.raises(AssertionError, match="compute different things"):
            assert_explained(low, x @ w + b, terms=(x, w, b), products="tf32")


def test_real_differences_fail_and_the_message_has_the_figures() -> None:
    x, w, b = dense(784)
    right = x @ w + b
    with pytest.raises(AssertionError) as caught:
        assert_explained(right, x @ w, terms=(x, w, b), message="the bias is missing")
    text = str(caught.value)
    assert text.startswith("the bias is missing\nthe results differ by more than rounding explains")
    assert "600 of 600 elements differ" in text
    assert "sums of 785 terms" in text
    assert "no rounding explains it" in text
    with pytest.raises(AssertionError, match=r"a real difference: expected is 1.01 times actual"):
        assert_explained(right, right * np.float32(1.01), terms=(x, w, b))
    one = right.copy()
    one[3, 4] *= np.float32(1.001)
    with pytest.raises(AssertionError, match=r"at \(3, 4\)"):
        assert_explained(one, right, terms=(x, w, b))


def test_the_coarser_format_sets_the_measure() -> None:
    x, w, b = dense(256)
    right = x @ w + b
    half = right.astype(np.float16)
    with pytest.raises(AssertionError, match="expected is the other side rounded to float16"):
        assert_explained(right, half.astype(np.float32), terms=(x, w, b))
    wide = x.astype(np.float64) @ w.astype(np.float64) + b
    with pytest.raises(AssertionError, match="rounded to float32"):
        assert_explained(wide.astype(np.float32).astype(np.float64), wide, terms=(x, w, b))
    assert_explained(wide.astype(np.float32).astype(np.float64), wide, terms=(x, w, b), format="float32")
    low = (x.astype(np.float16) @ w.astype(np.float16)).astype(np.float16)
    assert_explained(low, x @ w, terms=(x, w))


def test_sums_of_so_many_terms() -> None:
    g = np.random.default_rng(0)
    x, kernel = g.normal(size=(8, 500)).astype(np.float32), g.normal(size=9).astype(np.float32)

    def conv(a: np.ndarray, k: np.ndarray) -> np.ndarray:
        return np.stack([np.convolve(row, k, "valid") for row in a])

    by_hand = sum(x[:, i : i + 492] * kernel[8 - i] for i in range(9))
    size = conv(x**2, kernel**2) ** 0.5
    assert_explained(by_hand, conv(x, kernel), length=9, magnitude=size)
    with pytest.raises(AssertionError):
        assert_explained(by_hand * np.float32(1 + 1e-5), conv(x, kernel), length=9, magnitude=size)
    assert_explained(x.sum(0), x.astype(np.float64).sum(0), length=8, magnitude=np.sqrt((x**2).sum(0)))


def test_roundings_one_after_another() -> None:
    x = np.linspace(0.1, 5, 1000).astype(np.float32)
    fast, slow = x / (1 + x), 1 - 1 / (1 + x)
    assert_explained(fast, slow, operations=3, magnitude=1.0)
    assert_explained(x * x * x, x**3, operations=4)
    with pytest.raises(AssertionError, match="3 roundings"):
        assert_explained(fast, slow + np.float32(1e-5), operations=3)


def test_numbers_that_are_not_finite_shapes_and_flushed_zeros() -> None:
    ones = np.ones((2, 3), np.float32)
    with pytest.raises(AssertionError, match="shapes differ"):
        assert_explained(ones, ones.T, operations=1)
    holes = ones.copy()
    holes[0, 0] = np.nan
    assert_explained(holes, holes, operations=1)
    with pytest.raises(AssertionError, match="1 of 6 elements are finite on one side only"):
        assert_explained(holes, ones, operations=1)
    small = np.full(3, 1e-40, np.float32)
    with pytest.raises(AssertionError, match="flushes to 0"):
        assert_explained(small, np.zeros(3, np.float32), operations=1)


def test_what_is_missing_or_cannot_be_is_said() -> None:
    x, w, _ = dense(8)
    for wrong in ({}, {"terms": (x, w), "operations": 1}):
        with pytest.raises(TypeError, match="say what was computed"):
            assert_explained(x, x, **wrong)
    with pytest.raises(ValueError, match="terms are"):
        assert_explained(x, x, terms=(x,))
    with pytest.raises(ValueError, match="terms give the shape"):
        assert_explained(x, x, terms=(x, w))
    with pytest.raises(ValueError, match="products is one of"):
        assert_explained(x, x, operations=1, products="fp8")
    with pytest.raises(ValueError, match="magnitude has the shape"):
        assert_explained(x, x, operations=1, magnitude=np.ones(3))
    with pytest.raises(TypeError, match="actual is dict"):
        assert_explained({}, x, operations=1)
    with pytest.raises(ValueError, match="not complex64"):
        assert_explained(x.astype(np.complex64), x, operations=1)


def test_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, w, b = dense(784)
    layer = torch.nn.Linear(784, 30)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w.T))
        layer.bias.copy_(torch.from_numpy(b))
    out = layer(torch.from_numpy(x))
    assert_explained(out, x @ w + b, terms=(x, w, b))
    assert_explained(layer.to(torch.bfloat16)(torch.from_numpy(x).bfloat16()), out, terms=(x, w, b))
    with pytest.raises(AssertionError):
        assert_explained(out * 1.001, x @ w + b, terms=(x, w, b))


def test_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    x, w, b = dense(784)
    out = jax.jit(lambda a: a @ w + b)(x)
    assert_explained(out, x @ w + b, terms=(x, w, b))
    low = jax.numpy.asarray(x, "bfloat16") @ jax.numpy.asarray(w, "bfloat16")
    assert low.dtype == "bfloat16"
    assert_explained(low, x @ w, terms=(x, w))


def test_no_framework_is_imported_for_it() -> None:
    code = "import sys, numdebug.testing as t; t.assert_explained([1.0, 2.0], [1.0, 2], operations=1); print(sorted(sys.modules))"
    modules: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"torch", "jax", "keras"} & set(eval(modules))
