"""Clamps, eps and guarded divisors."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_fixes_support import Case

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
x = torch.rand(4, 5) + 0.1
y = torch.rand(4, 5) + 0.1
"""

CLAMP: list[tuple[str, str, dict[str, Any], str]] = [
    ("torch.exp(x)", "exp", {"hi": 80.0}, "torch.exp(x.clamp(max=80.0))"),
    ("torch.exp(-0.5 * x)", "exp", {"hi": 80.0}, "torch.exp((-0.5 * x).clamp(max=80.0))"),
    ("(x - y).exp()", "exp", {"hi": 20}, "(x - y).clamp(max=20).exp()"),
    ("torch.log(x)", "log", {"lo": "tiny"}, "torch.log(x.clamp(min=torch.finfo(x.dtype).tiny))"),
    ("torch.log(x * y)", "log", {"lo": "tiny", "lo_value": 1.1754943508222875e-38}, "torch.log((x * y).clamp(min=1.1754943508222875e-38))"),
    ("x.log()", "log", {"lo": 1e-12}, "x.clamp(min=1e-12).log()"),
    ("x ** 0.5", "pow", {"lo": 1e-12}, "x.clamp(min=1e-12) ** 0.5"),
    ("-x ** 0.5", "pow", {"lo": 1e-12}, "-x.clamp(min=1e-12) ** 0.5"),
    ("(x * y) ** 0.5", "pow", {"lo": 1e-12}, "(x * y).clamp(min=1e-12) ** 0.5"),
    ("2.0 ** x", "pow", {"hi": 100.0}, "2.0 ** x.clamp(max=100.0)"),
    ("torch.pow(x, 0.3)", "pow", {"lo": 1e-6}, "torch.pow(x.clamp(min=1e-6), 0.3)"),
    ("torch.acos((x / 2).clamp(-1.0, 1.0))", "acos", {"lo": -0.999999, "hi": 0.999999}, "torch.acos((x / 2).clamp(min=-0.999999, max=0.999999))"),
    ("torch.acos(x.clamp(max=1.0))", "acos", {"hi": 0.999}, "torch.acos(x.clamp(max=0.999))"),
    ("torch.asin(x if True else y)", "asin", {"lo": -1.0, "hi": 1.0}, "torch.asin((x if True else y).clamp(min=-1.0, max=1.0))"),
    ("torch.sqrt(x[:, 0])", "sqrt", {"lo": 0.0}, "torch.sqrt(x[:, 0].clamp(min=0.0))"),
]


@pytest.mark.parametrize(("expression", "op", "numbers", "want"), CLAMP)
def test_clamp(tmp_path: Path, expression: str, op: str, numbers: dict[str, Any], want: str) -> None:
    case = Case(tmp_path, HEAD + f"x = x.clamp(max=0.9)\nout = {expression}\n")
    repair = case.repair("clamp_argument", numbers, target=op)
    assert case.fixed(repair) == HEAD + f"x = x.clamp(max=0.9)\nout = {want}\n"
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-4


EPS = [
    ("torch.sqrt(x)", "sqrt", "torch.sqrt(x + 1e-12)"),
    ("(x * y).sqrt()", "sqrt", "(x * y + 1e-12).sqrt()"),
    ("x.sum(1).sqrt()", "sqrt", "(x.sum(1) + 1e-12).sqrt()"),
    ("torch.sqrt(x) + 1e-8", "sqrt", "torch.sqrt(x + 1e-12) + 1e-8"),
    ("torch.sqrt(x + 1e-30)", "sqrt", "torch.sqrt(x + 1e-12)"),
    ("x ** 0.5", "pow", "(x + 1e-12) ** 0.5"),
    ("torch.pow(x, 0.5)", "pow", "torch.pow(x + 1e-12, 0.5)"),
    ("x.norm(dim=1)", "linalg_vector_norm", "(x.square().sum(dim=1) + 1e-12).sqrt()"),
    ("torch.norm(x - y, dim=-1, keepdim=True)", "linalg_vector_norm", "((x - y).square().sum(dim=-1, keepdim=True) + 1e-12).sqrt()"),
    ("torch.linalg.vector_norm(x, dim=1)", "linalg_vector_norm", "(x.square().sum(dim=1) + 1e-12).sqrt()"),
    ("torch.linalg.norm(x, dim=1)", "linalg_vector_norm", "(x.square().sum(dim=1) + 1e-12).sqrt()"),
    ("x.norm(2, 1)", "linalg_vector_norm", "(x.square().sum(dim=1) + 1e-12).sqrt()"),
    ("x.norm()", "linalg_vector_norm", "(x.square().sum() + 1e-12).sqrt()"),
    ("x.std(dim=0)", "std", "(x.var(dim=0) + 1e-12).sqrt()"),
    ("torch.std(x, 0, unbiased=False)", "std", "(torch.var(x, 0, unbiased=False) + 1e-12).sqrt()"),
    ("1 / x.std(0)", "std", "1 / (x.var(0) + 1e-12).sqrt()"),
]


@pytest.mark.parametrize(("expression", "op", "want"), EPS)
def test_eps(tmp_path: Path, expression: str, op: str, want: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    repair = case.repair("add_epsilon", {"eps": 1e-12}, target=op)
    assert case.fixed(repair) == HEAD + f"out = {want}\n"
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-4


@pytest.mark.parametrize("expression", ["x.norm(p=1)", "torch.linalg.norm(x, 2)"])
def test_other_norms_are_refused(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    assert case.refused(case.repair("add_epsilon", {"eps": 1e-12}, target=expression))


DIVISOR: list[tuple[str, dict[str, Any], str]] = [
    ("out = x / y\n", {"eps": 1e-8}, "out = x / y.clamp(min=1e-8)\n"),
    ("out = x / x.sum(1, keepdim=True)\n", {"eps": 1e-8}, "out = x / x.sum(1, keepdim=True).clamp(min=1e-8)\n"),
    ("out = x / (x + y)\n", {"eps": 1e-8}, "out = x / (x + y).clamp(min=1e-8)\n"),
    ("out = x / (x + y)\n", {"eps": 1e-8, "mode": "add"}, "out = x / (x + y + 1e-8)\n"),
    ("out = x / y\n", {"mode": "where"}, "out = x / torch.where(y == 0, torch.ones_like(y), y)\n"),
    ("out = x / (x - y)\n", {"mode": "where"}, "divisor = x - y\nout = x / torch.where(divisor == 0, torch.ones_like(divisor), divisor)\n"),
    ("out = torch.div(x, y)\n", {"eps": 1e-8}, "out = torch.div(x, y.clamp(min=1e-8))\n"),
    ("out = x.div(y * y)\n", {"eps": 1e-8}, "out = x.div((y * y).clamp(min=1e-8))\n"),
    ("x /= y\nout = x\n", {"eps": 1e-8}, "x /= y.clamp(min=1e-8)\nout = x\n"),
    ("x /= y + 1\nout = x\n", {"eps": 1e-8}, "x /= (y + 1).clamp(min=1e-8)\nout = x\n"),
    ("n = len(x)\nout = x / n\n", {"eps": 1e-8}, "n = len(x)\nout = x / max(n, 1)\n"),
    ("out = x.sum() / x[x > 0.5].numel()\n", {"eps": 1e-8}, "out = x.sum() / max(x[x > 0.5].numel(), 1)\n"),
]


@pytest.mark.parametrize(("code", "numbers", "want"), DIVISOR)
def test_divisor(tmp_path: Path, code: str, numbers: dict[str, Any], want: str) -> None:
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("guard_divisor", numbers, target="div")
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


def test_reciprocal(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "out = 1 / x + x.reciprocal()\n")
    repair = case.repair("guard_divisor", {"eps": 1e-6}, target="1 / x", target2="x.reciprocal()")
    assert case.fixed(repair) == HEAD + "out = 1 / x.clamp(min=1e-6) + x.clamp(min=1e-6).reciprocal()\n"


@pytest.mark.parametrize("expression", ["x * y", "torch.add(x, y)", "x.foo(y)"])
def test_refused(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    for form in ("guard_divisor", "clamp_argument", "add_epsilon"):
        assert case.refused(case.repair(form, {"eps": 1e-6, "lo": 0.0}, target=expression))
