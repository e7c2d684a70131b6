"""log(sigmoid(z)) and log(1 - sigmoid(z)) in many spellings."""

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
y = torch.tensor([0, 3, 2, 1])
w = torch.randn(5, 5)
hot = F.one_hot(y, 5).float()
EPS = 1e-7
"""

SPELLINGS = {
    "torch.log(torch.sigmoid(z))": "F.logsigmoid(z)",
    "z.sigmoid().log()": "F.logsigmoid(z)",
    "F.sigmoid(z * 2).clamp(1e-7, 1 - 1e-7).log()": "F.logsigmoid(z * 2)",
    "torch.log(1 - torch.sigmoid(z))": "F.logsigmoid(-z)",
    "torch.log(1.0 - torch.sigmoid(z + 1) + EPS)": "F.logsigmoid(-(z + 1))",
    "torch.log(1 + 1e-7 - torch.sigmoid(z[0]))": "F.logsigmoid(-z[0])",
    "torch.log1p(-torch.sigmoid(z))": "F.logsigmoid(-z)",
    "torch.log1p(-torch.sigmoid(-z))": "F.logsigmoid(z)",
    "torch.log(1 / (1 + torch.exp(-z)))": "F.logsigmoid(z)",
    "torch.log(1 - 1 / (1 + torch.exp(-z)))": "F.logsigmoid(-z)",
    "torch.log(1 / (1 + torch.exp(z)))": "F.logsigmoid(-z)",
    "torch.log(torch.exp(z) / (1 + torch.exp(z)))": "F.logsigmoid(z)",
    "(1 - nn.Sigmoid()(z)).clamp(min=1e-6).log()": "F.logsigmoid(-z)",
    "torch.log(torch.sigmoid(z).squeeze(0)[:, 1] + 1e-12)": "F.logsigmoid(z).squeeze(0)[:, 1]",
    "torch.log((1 - torch.sigmoid(z))[:, 1])": "F.logsigmoid(-z)[:, 1]",
    "hot * torch.log(torch.sigmoid(z @ w))": None,
}


@pytest.mark.parametrize("expression", SPELLINGS)
def test_in_one_expression(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    repair = case.repair("log_sigmoid", target="log1p" if "log1p" in expression else "log")
    want = SPELLINGS[expression] or "hot * F.logsigmoid(z @ w)"
    assert case.fixed(repair) == HEAD + f"out = {want}\n"
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-4


VARIABLES = {
    "both, through one variable": (
        "def f(z, hot):\n    h = torch.sigmoid(z)\n    return torch.where(hot > 0, torch.log(h), torch.log(1 - h))\nout = f(z, hot)\n",
        "def f(z, hot):\n    return torch.where(hot > 0, F.logsigmoid(z), F.logsigmoid(-z))\nout = f(z, hot)\n",
    ),
    "by hand, kept for accuracy": (
        "e = torch.exp(-z)\np = 1 / (1 + e)\nacc = (p > 0.5).float()\nout = -hot * torch.log(p) - (1 - hot) * torch.log(1 - p)\n",
        "e = torch.exp(-z)\np = 1 / (1 + e)\nacc = (p > 0.5).float()\nout = -hot * F.logsigmoid(z) - (1 - hot) * F.logsigmoid(-z)\n",
    ),
    "by hand, dropped": (
        "e = torch.exp(-z)\np = 1 / (1 + e)\nout = -hot * torch.log(p) - (1 - hot) * torch.log(1 - p)\n",
        "out = -hot * F.logsigmoid(z) - (1 - hot) * F.logsigmoid(-z)\n",
    ),
    "logits that are costly": (
        "net = nn.Linear(5, 5)\np = torch.sigmoid(net(z))\nq = 1 - p\nout = hot * torch.log(p) + (1 - hot) * torch.log(q + 1e-9)\n",
        "net = nn.Linear(5, 5)\nlogits = net(z)\nout = hot * F.logsigmoid(logits) + (1 - hot) * F.logsigmoid(-logits)\n",
    ),
    "clamped into the same name": (
        "p = torch.sigmoid(z)\np = p.clamp(1e-6, 1 - 1e-6)\nout = hot * torch.log(p) + (1 - hot) * torch.log(1 - p)\n",
        "out = hot * F.logsigmoid(z) + (1 - hot) * F.logsigmoid(-z)\n",
    ),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_with_variables(tmp_path: Path, name: str) -> None:
    code, want = VARIABLES[name]
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("log_sigmoid", {"sign": {"target": "+", "target2": "-"}}, target=("log", 0), target2=("log", 1))
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-4


ELSEWHERE = {
    "function": (
        "def D(x):\n    return torch.sigmoid(x @ w).squeeze()\nreal = D(z)\nfake = D(-z)\nout = torch.log(real + 1e-8) + torch.log(1 - fake + 1e-8)\n",
        "def D(x):\n    return (x @ w).squeeze()\nreal = D(z)\nfake = D(-z)\nout = F.logsigmoid(real) + F.logsigmoid(-fake)\n",
    ),
    "Sequential": (
        "D = nn.Sequential(nn.Linear(5, 1), nn.Sigmoid())\nout = torch.log(D(z)) + torch.log(1 - D(-z))\n",
        "D = nn.Sequential(nn.Linear(5, 1))\nout = F.logsigmoid(D(z)) + F.logsigmoid(-D(-z))\n",
    ),
    "Sequential over lines": (
        "D = nn.Sequential(\n    nn.Linear(5, 1),  # head\n    nn.Sigmoid(),\n)\nout = torch.log(D(z)) + torch.log(1 - D(-z))\n",
        "D = nn.Sequential(\n    nn.Linear(5, 1),  # head\n)\nout = F.logsigmoid(D(z)) + F.logsigmoid(-D(-z))\n",
    ),
    "module": (
        """\
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 1)
        self.act = nn.Sigmoid()
    def forward(self, x):
        h = self.fc(x)
        return self.act(h)
def loss(p, q):
    return torch.log(p) + torch.log(1 - q)
D = Critic()
out = loss(D(z), D(-z))
""",
        """\
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 1)
        self.act = nn.Sigmoid()
    def forward(self, x):
        h = self.fc(x)
        return h
def loss(p, q):
    return F.logsigmoid(p) + F.logsigmoid(-q)
D = Critic()
out = loss(D(z), D(-z))
""",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_in_another_function(tmp_path: Path, name: str) -> None:
    code, want = ELSEWHERE[name]
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("log_sigmoid", {"only_feeds_log": True}, target=("log", 0), target2=("log", 1), sigmoid="sigmoid")
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-4
    assert case.refused(case.repair("log_sigmoid", target=("log", 0), target2=("log", 1), sigmoid="sigmoid"))
    printed = Case(tmp_path, HEAD + code + "print(D(z).mean())\n")
    assert printed.refused(printed.repair("log_sigmoid", {"only_feeds_log": True}, target=("log", 0), target2=("log", 1), sigmoid="sigmoid"))


def test_the_wrong_sign_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "out = torch.log(1 - torch.sigmoid(z))\n")
    assert case.refused(case.repair("log_sigmoid", {"sign": {"target": "+"}}, target="log"))


@pytest.mark.parametrize("expression", ["torch.log(2 - torch.sigmoid(z))", "torch.log(torch.sigmoid(z) * hot)", "torch.log1p(torch.sigmoid(z))"])
def test_refused(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}\n")
    assert case.refused(case.repair("log_sigmoid", target="log1p" if "log1p" in expression else "log"))


def test_functional_is_spelled_as_the_file_does(tmp_path: Path) -> None:
    case = Case(tmp_path, "import torch\nz = torch.randn(3)\nout = torch.sigmoid(z).log()\n")
    assert "out = torch.nn.functional.logsigmoid(z)" in case.fixed(case.repair("log_sigmoid", target="log"))
    case = Case(tmp_path, "import torch.nn as nn\nfrom torch import randn\nz = randn(3)\nout = z.sigmoid().log()\n")
    assert "out = nn.functional.logsigmoid(z)" in case.fixed(case.repair("log_sigmoid", target="log"))
    case = Case(tmp_path, "from torch import randn, sigmoid, log\nz = randn(3)\nout = log(sigmoid(z))\n")
    new = case.fixed(case.repair("log_sigmoid", target="log"))
    assert new == "from torch import randn, sigmoid, log\nimport torch\nz = randn(3)\nout = torch.nn.functional.logsigmoid(z)\n"


def test_a_clamp_of_the_parameter_goes(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + """\
class Net(nn.Module):
    def forward(self, x):
        return torch.sigmoid(x * 2).flatten()
def bce(p, y):
    p = p.clamp(EPS, 1 - EPS)
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()
net = Net()
out = bce(net(z), hot.flatten())
""")
    repair = case.repair("log_sigmoid", {"only_feeds_log": True}, target=("log", 0), target2=("log", 1), sigmoid="sigmoid")
    new = case.fixed(repair)
    assert "return (x * 2).flatten()" in new
    assert "def bce(p, y):\n    return -(y * F.logsigmoid(p) + (1 - y) * F.logsigmoid(-p)).mean()\n" in new
    before, after = case.both(repair)
    assert (before - after).abs() < 1e-4


def test_a_function_that_builds_the_layers(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + """\
def build():
    return nn.Sequential(
        nn.Linear(5, 5),
        nn.Sigmoid(),
    )
net = build()
out = torch.log(net(z)) + torch.log1p(-net(z))
""")
    repair = case.repair("log_sigmoid", {"only_feeds_log": True}, target="log", target2="log1p", sigmoid="sigmoid")
    assert case.fixed(repair).endswith("        nn.Linear(5, 5),\n    )\nnet = build()\nout = F.logsigmoid(net(z)) + F.logsigmoid(-net(z))\n")
