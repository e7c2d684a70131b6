"""Failures within reach of a run that stays healthy: found, proven with values that are shown, and never suspected where they cannot be."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from forked import loud
from graphs import Graph

from numdebug.intervals import ANY, Intervals
from numdebug.latent import moves
from numdebug.recording import Value
from numdebug.run import Moved

HEAD = """\
import torch
from torch import nn
torch.manual_seed(0)
x, y = torch.randn(64, 6), torch.randint(3, (64,))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
"""
TAIL = """
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(6):
    loss = f(net(x))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
REACHED = {
    "log of softmax": ("log-of-softmax", "def f(z):\n    return -torch.log(torch.softmax(z, dim=1))[torch.arange(64), y].mean()"),
    "ranking": ("log-of-sigmoid", "def f(z):\n    return -torch.log(torch.sigmoid(z[:, 0] - z[:, 1])).mean()"),
    "logistic loss": ("softplus-overflow", "def f(z):\n    return torch.log(1 + torch.exp(-z[:, 0] * (2.0 * (y > 0) - 1))).mean()"),
    "mixture": ("logsumexp-overflow", "def f(z):\n    return -torch.log(torch.exp(z).sum(dim=1)).mean()"),
    "gate": ("softmax-overflow", "def f(z):\n    e = torch.exp(z); return (e / e.sum(1, keepdim=True))[:, 0].square().mean()"),
}
OUT_OF_REACH = {
    "stable": "def f(z):\n    return nn.functional.cross_entropy(z, y)",
    "shifted": "def f(z):\n    e = torch.exp(z - z.max(1, keepdim=True).values); return (e / e.sum(1, keepdim=True))[:, 0].square().mean()",
    "bounded scores": "def f(z):\n    return -torch.log(torch.softmax(10 * torch.tanh(z), dim=1))[torch.arange(64), y].mean()",
    "cosines": (
        "def f(z):\n    z = nn.functional.normalize(z, dim=1)\n"
        "    return -torch.log(torch.softmax(z @ z.T / 0.1, dim=1)).diagonal().mean()"
    ),
    "guarded": "def f(z):\n    return -torch.log(torch.softmax(z, dim=1) + 1e-6)[torch.arange(64), y].mean()",
    "clamped rate": "def f(z):\n    rate = torch.exp(z[:, 0].clamp(-20, 20)); return (rate - y * z[:, 0]).mean()",
}


@pytest.mark.parametrize(("bug", "body"), REACHED.values(), ids=REACHED)
def test_a_failure_within_reach_is_a_warning(bug: str, body: str, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + body + TAIL)
    outcome = diagnose(file)
    assert loud(outcome) == [(bug, 7)]
    found = outcome.report.diagnoses[0]
    assert (found.severity, found.confirmed, outcome.exit_code) == ("warning", "yes", 0)
    assert "sigma of" in found.because and "the run stays healthy" in found.because


@pytest.mark.parametrize("body", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_one_out_of_reach_is_not(body: str, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + body + TAIL)
    assert loud(diagnose(file)) == []


def test_a_program_without_a_loss(diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    head = HEAD + "def f(z):\n    e = torch.exp(z); return e / e.sum(1, keepdim=True)\n"
    file.write_text(head + "with torch.no_grad():\n    print(f(net(x)).mean(0))\n")
    assert loud(diagnose(file)) == [("softmax-overflow", 7)]


def test_weights_and_their_transposed_view_move_together(diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    body = "def f(z):\n    with torch.no_grad():\n        _ = z[:, :1] @ net[2].weight[:1]\n    return torch.log(1 + torch.exp(z)).mean()"
    file.write_text(HEAD + body + TAIL)
    assert loud(diagnose(file)) == [("softplus-overflow", 9)]


def bounds(graph: Graph, value: Value) -> tuple[float, float]:
    return Intervals(graph.recording, lambda v: ANY).of(value)


def test_what_algebra_says():
    g = Graph()
    x = g.input([[1.0, -2.0], [0.5, 3.0]])
    assert bounds(g, x) == ANY
    assert bounds(g, g.op("square", x))[0] == 0
    assert bounds(g, g.op("add", g.op("sum", g.op("square", x)), other=1e-6))[0] > 0
    assert bounds(g, g.op("mul", x, x))[0] == 0
    assert bounds(g, g.op("neg", g.op("abs", x)))[1] == 0
    assert bounds(g, g.op("neg", g.op("square", x)))[1] == 0
    top = g.op("amax", x, result=[[1.0], [3.0]])
    assert bounds(g, g.op("sub", x, top)) == (-math.inf, 0)
    e = g.op("exp", x)
    assert bounds(g, g.op("div", e, g.op("sum", e))) == (0, 1)
    bounded = g.op("mul", g.op("tanh", x, result=[[0.1, 0.2], [0.3, 0.4]]), other=10.0, result=[[1.0, 2.0], [3.0, 4.0]])
    assert bounds(g, bounded) == (-10, 10)
    assert bounds(g, g.op("clamp", x, min=-3.0, max=2.0, result=[[1.0, -2.0], [0.5, 2.0]])) == (-3, 2)
    assert bounds(g, g.op("sub", x, g.op("exp", x))) == ANY


def test_what_was_moved_is_said():
    weights = [Moved("weight", name, 0.0, 1.0, sigmas) for name, sigmas in (("a.weight", 1.0), ("b.weight", 3.25), ("c.bias", 0.5))]
    assert moves(weights) == "with a.weight, b.weight and 1 more within 3.2 sigma of their mean"
    assert moves(weights[:1]) == "with a.weight within 1 sigma of its mean"
    assert "further than the usual 5" in moves([Moved("weight", "a", 0.0, 1.0, 6.0)])
    assert moves([Moved("input", "x", -2.0, 2.5, None)]) == "with x between -2 and 2.5, inside its observed range"
