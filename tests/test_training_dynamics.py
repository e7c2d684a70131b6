"""Harm in training that leaves every number finite: what is named, and healthy programs that look like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import loud, silent

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
"""


def loop(loss: str, parameters: str = "model.parameters()", steps: int = 25) -> str:
    return f"""
optimizer = torch.optim.Adam({parameters}, lr=1e-2)
for step in range({steps}):
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


BROKEN = {
    "softmax module in a Sequential": (
        "double-softmax",
        "model = nn.Sequential(nn.Linear(6, 3), nn.Softmax(dim=1))" + loop("F.cross_entropy(model(x), y)"),
        "nn.Softmax",
    ),
    "sigmoid into BCE with logits": (
        "double-softmax",
        "model = nn.Linear(6, 1)" + loop("F.binary_cross_entropy_with_logits(torch.sigmoid(model(x)), (x[:, :1] > 0).float())"),
        "torch.sigmoid",
    ),
    "probabilities into nll": (
        "double-softmax",
        "model = nn.Linear(6, 3)" + loop("F.nll_loss(F.softmax(model(x), dim=1), y)"),
        "F.softmax",
    ),
    "biases that start far below zero": (
        "dead-relu",
        "model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))\nmodel[0].bias.data.fill_(-30.0)"
        + loop("F.cross_entropy(model(x), y)"),
        "fill_",
    ),
    "only the inputs are shuffled": (
        "shuffled-labels",
        "x = x[torch.randperm(96)]\nmodel = nn.Linear(6, 3)" + loop("F.cross_entropy(model(x), y)"),
        "randperm",
    ),
    "a spring that swings outwards": (
        "unstable-integration",
        "state, spring = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [-9.0, 0.0]])\nfor step in range(100):\n"
        "    state = state + 0.1 * (spring @ state)",
        "state + 0.1",
    ),
}
HEALTHY = {
    "attention inside": "a, b = nn.Linear(6, 6), nn.Linear(6, 3)"
    + loop("F.cross_entropy(b(F.softmax(a(x), dim=1) * x), y)", "[*a.parameters(), *b.parameters()]"),
    "soft targets": "model = nn.Linear(6, 3)" + loop("F.cross_entropy(model(x), F.softmax(4 * x[:, :3], dim=1))"),
    "a margin that is satisfied": "model = nn.Linear(6, 1)" + loop("F.relu(-5 - model(x)).mean()"),
    "one permutation for both": "order = torch.randperm(96)\nx, y = x[order], y[order]\nmodel = nn.Linear(6, 3)"
    + loop("F.cross_entropy(model(x), y)"),
    "labels made after the shuffle": "x = x[torch.randperm(96)]\ny = x[:, :3].argmax(1)\nmodel = nn.Linear(6, 3)"
    + loop("F.cross_entropy(model(x), y)"),
    "a gate that its bias shuts": "gate, model = nn.Linear(6, 6), nn.Linear(6, 3)\nnn.init.constant_(gate.bias, -8.0)"
    + loop("F.cross_entropy(model(x + torch.sigmoid(gate(x)) * x), y)", "[*gate.parameters(), *model.parameters()]"),
    "Monte-Carlo dropout": "model = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.Linear(16, 3))"
    + loop("F.cross_entropy(model(x), y)")
    + "with torch.no_grad():\n    print(torch.stack([model(x) for _ in range(5)]).std(0).mean())",
    "a solution that grows": "state = torch.rand(4)\nfor step in range(100):\n    state = state + 0.1 * state",
    "a damped swing": "state = torch.rand(4)\nfor step in range(100):\n    state = state + 0.1 * (-18.0 * state)",
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_cause_is_named_at_its_line(name: str, diagnose, tmp_path: Path):
    bug, body, culprit = BROKEN[name]
    file = tmp_path / "model.py"
    file.write_text(HEAD + body)
    line = next(n for n, text in enumerate((HEAD + body).splitlines(), 1) if culprit in text)
    assert loud(diagnose(file)) == [(bug, line)]


@pytest.mark.parametrize("name", HEALTHY)
def test_what_looks_like_it_and_is_healthy_stays_silent(name: str, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + HEALTHY[name])
    outcome = diagnose(file)
    assert silent(outcome), outcome.report.verdict
