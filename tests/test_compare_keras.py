"""A report from users: a Keras Dense layer and numpy.matmul give different numbers. Rounding, TF32, another format, or a bug?"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
layer = keras.layers.Dense({units}, bias_initializer="normal")
x = np.random.default_rng(0).normal(size=({rows}, {inputs})).astype("float32")
layer(x)
kernel, bias = layer.get_weights()


def dense(x):
    return layer(x)


def reference(x):
    return np.matmul(x, kernel) + bias


def wide(x):
    return np.matmul(x, kernel.astype("float64")) + bias


def tf32(a):
    bits = np.ascontiguousarray(a).view(np.uint32) + np.uint32(0x1000)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def gpu(x):
    return np.matmul(tf32(x), tf32(kernel)) + bias


def other(x):
    return np.matmul(x, kernel * np.float32(1.01)) + bias
"""


@pytest.fixture
def compared(numdebug: Callable[..., Any], tmp_path: Path, backend: str) -> Callable[..., Any]:
    """The layer against one of the functions beside it."""
    missing = [name for name in ("keras", backend) if find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")

    def compare(what: str, rows: int, inputs: int, units: int) -> Any:
        (tmp_path / "model.py").write_text(PROGRAM.format(rows=rows, inputs=inputs, units=units))
        return numdebug("compare", "model.py:dense", f"model.py:{what}", "--format", "json", KERAS_BACKEND=backend)

    return compare


pytestmark = pytest.mark.parametrize("backend", ["jax", "torch"])
SIZES = [(5, 2, 5), (64, 784, 128), (16, 4096, 1024)]


@pytest.mark.parametrize("size", SIZES)
def test_rounding_is_benign(compared: Callable[..., Any], size: tuple[int, int, int]) -> None:
    said = compared("reference", *size)
    assert said.code == 0, said.err
    (found,) = said.report["comparisons"]
    assert found["explanation"] in ("identical", "rounding-difference")
    assert found["ratio"] < 2


@pytest.mark.parametrize("size", SIZES)
def test_emulated_tf32_is_reduced_precision(compared: Callable[..., Any], size: tuple[int, int, int]) -> None:
    said = compared("gpu", *size)
    assert said.code == 0, said.err
    (found,) = said.report["comparisons"]
    assert (found["explanation"], found["explained"]) == ("reduced-precision-matmul", True)
    assert found["ratio"] > 50


def test_a_float64_weight_is_another_format(compared: Callable[..., Any]) -> None:
    said = compared("wide", *SIZES[1])
    assert said.code == 0, said.err
    (found,) = said.report["comparisons"]
    assert (found["explanation"], found["explained"]) == ("dtype-mismatch", True)


def test_a_weight_that_is_off_by_a_percent_is_a_difference(compared: Callable[..., Any]) -> None:
    said = compared("other", *SIZES[1])
    assert said.code == 1, said.out
    (found,) = said.report["comparisons"]
    assert (found["explanation"], found["explained"]) == ("real-difference", False)
