"""`numdebug compare` of programs of JAX and NumPy: what names them and what they read may differ, what they compute may not."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")

ROWS = """
import jax
import jax.numpy as jnp

first, second = jax.random.split(jax.random.key(0))
w = jax.random.normal(first, (300, 20)) / 17
x = jax.random.normal(second, (8, 300))


def model(row):
    return jnp.tanh(row @ w)


out = {how}
print(out[0], out.mean())
"""


@needs_jax
def test_rows_under_vmap_and_one_by_one(numdebug: Callable[..., Any], tmp_path: Path) -> None:
    """Random keys are held under names, and the loop reads other values than vmap."""
    (tmp_path / "a.py").write_text(ROWS.format(how="jax.vmap(model)(x)"))
    (tmp_path / "b.py").write_text(ROWS.format(how="jnp.stack([model(row) for row in x])"))
    said = numdebug("compare", "a.py", "b.py", "--format", "json")
    assert said.code == 0, said.out + said.err
    (found,) = said.report["comparisons"]
    assert found["explanation"] in ("identical", "rounding-difference")


NUMPY = """
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(5, 2, size=(400, 12)).astype(np.float32)
scaled = (x - x.mean(axis=0)) / ({std})
out = scaled.T @ scaled / len(x)
print(out.trace())
"""


@pytest.mark.parametrize(
    ("std", "explanation"),
    [
        ("np.linalg.norm(x - x.mean(axis=0), axis=0) / np.float32(len(x) ** 0.5)", "rounding-difference"),
        ("x.std(axis=0, ddof=1)", "real-difference"),
    ],
)
def test_a_formula_of_numpy_written_another_way(numdebug: Callable[..., Any], tmp_path: Path, std: str, explanation: str) -> None:
    (tmp_path / "a.py").write_text(NUMPY.format(std="x.std(axis=0)"))
    (tmp_path / "b.py").write_text(NUMPY.format(std=std))
    said = numdebug("compare", "a.py", "b.py", "--format", "json")
    assert said.code == (1 if explanation == "real-difference" else 0), said.out + said.err
    (found,) = said.report["comparisons"]
    assert found["explanation"] == explanation
    if explanation == "real-difference":
        site = found["apart"]["site_b"]
        assert (site["file"], site["line"]) == ("b.py", 6)
