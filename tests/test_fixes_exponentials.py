"""softmax, logsumexp and softplus written by hand."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_fixes_support import Case

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
z = torch.randn(4, 5)
mask = (torch.rand(4, 5) < 0.7).float()
mask[:, 0] = 1.0
"""

SOFTMAX = {
    "function": (
        "def f(d):\n    w = torch.exp(-d)\n    return w / w.sum(dim=-1, keepdim=True)\nout = f(z)\n",
        "def f(d):\n    return torch.softmax(-d, dim=-1)\nout = f(z)\n",
    ),
    "eps": (
        "e = torch.exp(z)\nout = e / (e.sum(dim=1, keepdim=True) + 1e-12)\n",
        "out = torch.softmax(z, dim=1)\n",
    ),
    "inline": (
        "out = z.exp() / torch.sum(z.exp(), 1)[:, None]\n",
        "out = torch.softmax(z, dim=1)\n",
    ),
    "div and a named sum": (
        "e = z.exp()\ns = e.sum(-1, keepdim=True)\nprint(s.shape)\nout = torch.div(e, s)\n",
        "e = z.exp()\ns = e.sum(-1, keepdim=True)\nprint(s.shape)\nout = torch.softmax(z, dim=-1)\n",
    ),
    "augmented": (
        "e = torch.exp(z * 2)\ne /= e.sum(1, keepdim=True)\nout = e\n",
        "e = torch.softmax(z * 2, dim=1)\nout = e\n",
    ),
    "the same name": (
        "def f(x):\n    x = torch.exp(x)\n    return x / x.sum(dim=1, keepdim=True)\nout = f(z)\n",
        "def f(x):\n    x = torch.softmax(x, dim=1)\n    return x\nout = f(z)\n",
    ),
    "masked: the maximum goes inside": (
        "w = torch.exp(z) * mask\nout = w / w.sum(1, keepdim=True)\n",
        "w = torch.exp(z - z.amax(dim=1, keepdim=True)) * mask\nout = w / w.sum(1, keepdim=True)\n",
    ),
    "masked, longer argument": (
        "w = torch.exp(z @ z.T @ z) * mask\nout = w / w.sum(1, keepdim=True)\n",
        "logits = z @ z.T @ z\nw = torch.exp(logits - logits.amax(dim=1, keepdim=True)) * mask\nout = w / w.sum(1, keepdim=True)\n",
    ),
    "everything": (
        "e = torch.exp(z)\nout = e / e.sum()\n",
        "out = torch.softmax(z.flatten(), dim=0).view_as(z)\n",
    ),
    "dim 0": (
        "e = torch.exp(z)\nout = e / e.sum(0)\n",
        "out = torch.softmax(z, dim=0)\n",
    ),
}


@pytest.mark.parametrize("name", SOFTMAX)
def test_softmax(tmp_path: Path, name: str) -> None:
    code, want = SOFTMAX[name]
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("softmax", target="div", exp="exp")
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


LOGSUMEXP = {
    "torch.log(torch.exp(z).sum(dim=1))": "torch.logsumexp(z, dim=1)",
    "z.exp().sum(-1, keepdim=True).log()": "torch.logsumexp(z, dim=-1, keepdim=True)",
    "torch.log(torch.sum(torch.exp(z - 1), 1) + 1e-9)": "torch.logsumexp(z - 1, dim=1)",
    "torch.log(torch.exp(z).sum())": "torch.logsumexp(z.flatten(), dim=0)",
    "torch.log(torch.exp(z * 2).sum())": "torch.logsumexp((z * 2).flatten(), dim=0)",
    "torch.log(torch.exp(z).mean(dim=1))": "torch.logsumexp(z, dim=1) - math.log(z.shape[1])",
    "2 * torch.log(torch.exp(z).mean(1))": "2 * (torch.logsumexp(z, dim=1) - math.log(z.shape[1]))",
    "torch.log(torch.exp(z).mean())": "torch.logsumexp(z.flatten(), dim=0) - math.log(z.numel())",
    "torch.log(torch.exp(z) + torch.exp(2 * z))": "torch.logaddexp(z, 2 * z)",
    "z - torch.log((torch.exp(z) * mask).sum(1, keepdim=True))": "z - torch.logsumexp(z + torch.log(mask), dim=1, keepdim=True)",
    "torch.log(1 + torch.exp(z))": "F.softplus(z)",
    "torch.log(sum(torch.exp(z)))": "torch.logsumexp(z, dim=0)",
}


@pytest.mark.parametrize("expression", LOGSUMEXP)
def test_logsumexp(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    target = ("log", 1) if "log(mask" in expression else "log"
    repair = case.repair("logsumexp", target=target)
    new = case.fixed(repair)
    want = HEAD + f"out = {LOGSUMEXP[expression]}\n"
    if "math" in want:
        want = want.replace("from torch import nn\n", "from torch import nn\nimport math\n")
    assert new == want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


def test_logsumexp_through_variables(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "def f(x):\n    e = torch.exp(x)\n    s = e.sum(1)\n    return torch.log(s)\nout = f(z)\n")
    assert case.fixed(case.repair("logsumexp", target="log")) == HEAD + "def f(x):\n    return torch.logsumexp(x, dim=1)\nout = f(z)\n"


SOFTPLUS = {
    "torch.log(1 + torch.exp(z))": "F.softplus(z)",
    "torch.log1p(torch.exp(-z))": "F.softplus(-z)",
    "(z.exp() + 1.0).log()": "F.softplus(z)",
    "-torch.log(1 + torch.exp(z * 2)) / 2": "-F.softplus(z * 2) / 2",
}


@pytest.mark.parametrize("expression", SOFTPLUS)
def test_softplus(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    repair = case.repair("softplus", target="log1p" if "log1p" in expression else "log")
    assert case.fixed(repair) == HEAD + f"out = {SOFTPLUS[expression]}\n"
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


def test_softplus_through_a_variable(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "def f(x):\n    e = torch.exp(x)\n    return torch.log(1 + e)\nout = f(z)\n")
    assert "def f(x):\n    return F.softplus(x)\n" in case.fixed(case.repair("softplus", target="log"))


@pytest.mark.parametrize("expression", ["torch.log(torch.exp(z).prod(1))", "torch.log((torch.exp(z) * z.abs()).sum(1))", "torch.log(z.abs().sum(1))", "torch.log1p(z.abs())"])
def test_refused(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    assert case.refused(case.repair("logsumexp", target="log1p" if "log1p" in expression else "log"))


def test_a_mixture(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + """\
def ll(x, log_std, logits):
    weight = torch.softmax(logits, 0)
    dens = weight * torch.exp(-0.5 * x ** 2) / (log_std.exp() * 2.5)
    return dens.sum(dim=1).log().mean()
out = ll(z, z[0], z[1])
""")
    repair = case.repair("logsumexp", target="log")
    assert "    return torch.logsumexp(torch.log_softmax(logits, 0) + -0.5 * x ** 2 - (log_std + 0.916291), dim=1).mean()\n" in case.fixed(repair).replace("0.9162907318741551", "0.916291")
    before, after = case.both(repair)
    assert (before - after).abs() < 1e-4
