"""Double where, masks, and softmax rows that are masked as a whole."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_fixes_support import Case, run

HEAD = """\
import torch
from torch import nn
x = torch.tensor([-1.0, 0.0, 4.0], requires_grad=True)
y = torch.tensor([1.0, 2.0, 3.0])
"""

WHERE: list[tuple[str, str, dict[str, Any], str]] = [
    ("out = torch.where(x > 0, torch.sqrt(x), 0.0)\n", "sqrt", {"branch": "a"},
     "out = torch.where(x > 0, torch.sqrt(torch.where(x > 0, x, 1.0)), 0.0)\n"),
    ("out = torch.where(x <= 0, 0.0, x.sqrt())\n", "sqrt", {"branch": "b"},
     "out = torch.where(x <= 0, 0.0, torch.where(x <= 0, 1.0, x).sqrt())\n"),
    ("out = torch.where(x > 0, x, torch.exp(x * 2) - 1)\n", "exp", {"branch": "b", "safe": 0.0},
     "out = torch.where(x > 0, x, torch.exp(torch.where(x > 0, 0.0, x * 2)) - 1)\n"),
    ("out = torch.where(x > 0, y / x, 0.0)\n", "div", {"branch": "a"},
     "out = torch.where(x > 0, y / torch.where(x > 0, x, 1.0), 0.0)\n"),
    ("out = torch.where(x > 0, x ** 0.5, 0.0)\n", "pow", {"branch": "a"},
     "out = torch.where(x > 0, torch.where(x > 0, x, 1.0) ** 0.5, 0.0)\n"),
    ("ok = x > 0\nr = torch.log(x)\nout = torch.where(ok, r, 0.0)\n", "log", {"branch": "a"},
     "ok = x > 0\nr = torch.log(torch.where(ok, x, 1.0))\nout = torch.where(ok, r, 0.0)\n"),
    ("r = torch.log(x)\nok = x > 0\nout = torch.where(ok, r, 0.0)\n", "log", {"branch": "a"},
     "r = torch.log(torch.where(x > 0, x, 1.0))\nok = x > 0\nout = torch.where(ok, r, 0.0)\n"),
    ("def f(x):\n    s = x.sqrt()\n    return torch.where(x > 0, s, 0.0)\nout = f(x)\n", "sqrt", {"branch": "a"},
     "def f(x):\n    s = torch.where(x > 0, x, 1.0).sqrt()\n    return torch.where(x > 0, s, 0.0)\nout = f(x)\n"),
    ("out = x.sqrt().masked_fill(x <= 0, 0.0)\n", "sqrt", {},
     "out = torch.where(x <= 0, 1.0, x).sqrt().masked_fill(x <= 0, 0.0)\n"),
]


@pytest.mark.parametrize(("code", "op", "numbers", "want"), WHERE)
def test_safe_where(tmp_path: Path, code: str, op: str, numbers: dict[str, Any], want: str) -> None:
    case = Case(tmp_path, HEAD + code)
    where = "masked_fill" if "masked_fill" in code else "where"
    repair = case.repair("safe_where", {"safe": 1.0, **numbers}, target=op, where=where)
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert before.equal(after)
    space = run(tmp_path / "fixed.py")
    space["out"].sum().backward()
    assert space["x"].grad.isfinite().all()


def test_a_condition_of_another_function_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "def f(x):\n    return x.sqrt()\nout = torch.where(x > 0, f(x), 0.0)\n")
    assert case.refused(case.repair("safe_where", {"branch": "a"}, target="sqrt", where="where"))
    case = Case(tmp_path, HEAD + "def f(x):\n    s = x.sqrt()\n    x = x + 1\n    return torch.where(x > 0, s, 0.0)\nout = f(x)\n")
    assert case.refused(case.repair("safe_where", {"branch": "a"}, target="sqrt", where="where"))


MASK = [
    ("m = (y > 1).float()\nout = x * m\n", "x * m", "right", "m = (y > 1).float()\nout = torch.where(m.bool(), x, 0.0)\n"),
    ("out = (y > 1) * x.log1p()\n", "(y > 1) * x.log1p()", "left", "out = torch.where(y > 1, x.log1p(), 0.0)\n"),
    ("out = x * (y > 1).float() + 1\n", "x * (y > 1).float()", "right", "out = torch.where(y > 1, x, 0.0) + 1\n"),
    ("m = (y > 1).float()\nout = x * (1 - m)\n", "x * (1 - m)", "right", "m = (y > 1).float()\nout = torch.where(m == 0, x, 0.0)\n"),
    ("m = (y > 1).float()\nout = torch.mul(x, m).sum()\n", "torch.mul(x, m)", "right", "m = (y > 1).float()\nout = torch.where(m.bool(), x, 0.0).sum()\n"),
]


@pytest.mark.parametrize(("code", "target", "side", "want"), MASK)
def test_masked_fill(tmp_path: Path, code: str, target: str, side: str, want: str) -> None:
    code, want = "x = x + 2\n" + code, "x = x + 2\n" + want
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("masked_fill", {"mask_side": side}, target=target)
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert before.equal(after)


ROWS = [
    ("out = torch.softmax(s, dim=-1)\n", "out = torch.softmax(s.masked_fill(s.isneginf().all(dim=-1, keepdim=True), 0.0), dim=-1)\n"),
    ("out = s.softmax(1)\n", "out = s.masked_fill(s.isneginf().all(dim=1, keepdim=True), 0.0).softmax(1)\n"),
    ("out = (s * 2).softmax(1)\n", "scores = s * 2\nout = scores.masked_fill(scores.isneginf().all(dim=1, keepdim=True), 0.0).softmax(1)\n"),
    ("soft = nn.Softmax(dim=1)\nout = soft(s)\n", "soft = nn.Softmax(dim=1)\nout = soft(s.masked_fill(s.isneginf().all(dim=1, keepdim=True), 0.0))\n"),
    ("out = nn.functional.log_softmax(s, 1)\n", "out = nn.functional.log_softmax(s.masked_fill(s.isneginf().all(dim=1, keepdim=True), 0.0), 1)\n"),
]


@pytest.mark.parametrize(("code", "want"), ROWS)
def test_masked_rows(tmp_path: Path, code: str, want: str) -> None:
    head = HEAD + "s = torch.randn(2, 3)\ns[1] = -torch.inf\n"
    case = Case(tmp_path, head + code)
    repair = case.repair("guard_masked_rows", target="log_softmax" if "log_softmax" in code else "softmax")
    assert case.fixed(repair) == head + want
    before, after = case.both(repair)
    assert before[0].equal(after[0]) and after.isfinite().all()


def test_library_attention_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "q = torch.randn(1, 2, 3)\nout = nn.functional.scaled_dot_product_attention(q, q, q)\n")
    assert case.refused(case.repair("guard_masked_rows", {"dim": -1}, target="nn.functional.scaled_dot_product_attention(q, q, q)"))
