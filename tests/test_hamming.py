"""Unstable formulas are named at the line that loses the digits; their stable forms are silent; arbitrary precision says which is which."""

from __future__ import annotations

from pathlib import Path

import mpmath as mp
import pytest
from forked import loud, silent
from hamming import EXPRESSIONS, Expression

CASES = [pytest.param(e, id=e.name) for e in EXPRESSIONS]


def worst(expression: Expression, form: str) -> float:
    """The largest relative error of a form in float32."""
    import torch

    scope: dict = {}
    exec(compile(expression.program(form).replace("print(y)\n", ""), expression.name, "exec"), scope)
    result = scope["y"].double().tolist()
    with mp.workdps(60):
        rows = zip(*[[mp.mpf(v) for v in torch.tensor(values).double().tolist()] for values in expression.inputs.values()], strict=True)
        truth = [expression.truth(*row) for row in rows]
        return max(float(abs((mp.mpf(r) - t) / t)) for r, t in zip(result, truth, strict=True))


def test_there_are_28():
    assert len({e.name for e in EXPRESSIONS}) == 28


@pytest.mark.parametrize("expression", CASES)
def test_the_naive_form_is_wrong_and_the_stable_one_right(expression: Expression):
    assert worst(expression, "naive") > 0.1
    assert worst(expression, "stable") < 1e-5


@pytest.mark.parametrize("expression", CASES)
def test_the_lossy_line_comes_first(expression: Expression, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    text = expression.program("naive")
    file.write_text(text)
    line = next(n for n, t in enumerate(text.splitlines(), 1) if t.endswith("# here"))
    assert loud(diagnose(file))[:1] == [("cancellation", line)]


@pytest.mark.parametrize("expression", CASES)
def test_the_stable_form_is_silent(expression: Expression, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(expression.program("stable"))
    assert silent(diagnose(file))
