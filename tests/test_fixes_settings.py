"""Settings: where the number is written is where it changes."""

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
from torch import nn
net = nn.Linear(2, 2)
x = torch.ones(3)
"""

OPT = "torch.optim.Adam(net.parameters(), lr=1e-3)"
CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    ("optimizer_eps", {"eps": 1e-4}, f"opt = {OPT}\n", OPT, "opt = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-4)\n"),
    ("optimizer_eps", {"eps": 1e-4}, "opt = torch.optim.Adam(net.parameters(), eps=1e-8)  # slow\n", "torch.optim.Adam(net.parameters(), eps=1e-8)",
     "opt = torch.optim.Adam(net.parameters(), eps=1e-4)  # slow\n"),
    ("optimizer_eps", {"eps": 1e-4}, "opt = torch.optim.AdamW(\n    net.parameters(),\n    lr=1e-3,  # rate\n)\n", "opt = torch.optim.AdamW(\n    net.parameters(),\n    lr=1e-3,  # rate\n)",
     "opt = torch.optim.AdamW(\n    net.parameters(),\n    lr=1e-3,  # rate\n    eps=1e-4,\n)\n"),
    ("optimizer_eps", {"eps": 1e-4}, "EPS = 1e-8\nopt = torch.optim.Adam(net.parameters(), eps=EPS)\n", "torch.optim.Adam(net.parameters(), eps=EPS)",
     "EPS = 1e-4\nopt = torch.optim.Adam(net.parameters(), eps=EPS)\n"),
    ("learning_rate", {"factor": 0.1}, "opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)\n", "torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)",
     "opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)\n"),
    ("learning_rate", {"factor": 0.1}, "opt = torch.optim.SGD(net.parameters(), 8)\n", "torch.optim.SGD(net.parameters(), 8)", "opt = torch.optim.SGD(net.parameters(), 0.8)\n"),
    ("learning_rate", {"factor": 0.1}, "LR = 3e-2\nopt = torch.optim.SGD(net.parameters(), lr=LR)\n", "torch.optim.SGD(net.parameters(), lr=LR)",
     "LR = 0.003\nopt = torch.optim.SGD(net.parameters(), lr=LR)\n"),
    ("learning_rate", {"factor": 0.01}, "def fit(lr=0.05):\n    return torch.optim.SGD(net.parameters(), lr=lr)\nfit()\n", "torch.optim.SGD(net.parameters(), lr=lr)",
     "def fit(lr=5e-4):\n    return torch.optim.SGD(net.parameters(), lr=lr)\nfit()\n"),
    ("learning_rate", {"factor": 0.1}, "def fit(lr):\n    return torch.optim.SGD(net.parameters(), lr=lr)\nfit(lr=2.0)\n", "torch.optim.SGD(net.parameters(), lr=lr)",
     "def fit(lr):\n    return torch.optim.SGD(net.parameters(), lr=lr)\nfit(lr=0.2)\n"),
    ("learning_rate", {"factor": 0.1}, "g = x\nx -= 0.1 * g\n", "x -= 0.1 * g", "g = x\nx -= 0.01 * g\n"),
    ("learning_rate", {"factor": 0.1}, "def f(w, alpha=1.5):\n    w += alpha * w\nf(x)\n", "w += alpha * w", "def f(w, alpha=0.15):\n    w += alpha * w\nf(x)\n"),
    ("learning_rate", {"factor": 0.1}, "rate = 0.5\ng = x\nx = x - rate * g\n", "x - rate * g", "rate = 0.05\ng = x\nx = x - rate * g\n"),
    ("learning_rate", {"factor": 0.1}, "lr = 0.5\n", "lr = 0.5", "lr = 0.05\n"),
    ("learning_rate", {"factor": 0.1}, "x.sub_(x, alpha=0.5)\n", "x.sub_(x, alpha=0.5)", "x.sub_(x, alpha=0.05)\n"),
    ("learning_rate", {"factor": 0.1}, "class T:\n    def __init__(self, lr=0.5):\n        self.lr = lr\n    def step(self):\n        self.opt = torch.optim.SGD(net.parameters(), lr=self.lr)\nT()\n",
     "torch.optim.SGD(net.parameters(), lr=self.lr)",
     "class T:\n    def __init__(self, lr=0.05):\n        self.lr = lr\n    def step(self):\n        self.opt = torch.optim.SGD(net.parameters(), lr=self.lr)\nT()\n"),
    ("epsilon", {"eps": 1e-4}, "out = x / (x + 1e-8)\n", "x + 1e-8", "out = x / (x + 1e-4)\n"),
    ("epsilon", {"eps": 1e-4}, "EPS = 1e-8\nout = torch.log(x + EPS)\n", "torch.log(x + EPS)", "EPS = 1e-4\nout = torch.log(x + EPS)\n"),
    ("epsilon", {"eps": 1e-4}, "def f(x, eps=1e-8):\n    return x / (x.std() + eps)\nf(x)\n", "x / (x.std() + eps)", "def f(x, eps=1e-4):\n    return x / (x.std() + eps)\nf(x)\n"),
    ("epsilon", {"eps": 1e-4}, "class N(nn.Module):\n    def __init__(self, eps=1e-8):\n        super().__init__()\n        self.eps = eps\n    def forward(self, x):\n        return torch.rsqrt(x + self.eps)\n", "x + self.eps",
     "class N(nn.Module):\n    def __init__(self, eps=1e-4):\n        super().__init__()\n        self.eps = eps\n    def forward(self, x):\n        return torch.rsqrt(x + self.eps)\n"),
    ("epsilon", {"eps": 1e-4}, "out = x.clamp(min=1e-10)\n", "x.clamp(min=1e-10)", "out = x.clamp(min=1e-4)\n"),
    ("zero_infinity", {}, "loss = nn.CTCLoss(blank=0)\n", "nn.CTCLoss(blank=0)", "loss = nn.CTCLoss(blank=0, zero_infinity=True)\n"),
    ("zero_infinity", {}, "loss = nn.CTCLoss()\nloss(x, x, x, x) if 0 else None\n", "loss(x, x, x, x)", "loss = nn.CTCLoss(zero_infinity=True)\nloss(x, x, x, x) if 0 else None\n"),
    ("bfloat16_autocast", {}, "with torch.autocast('cuda', dtype=torch.float16):\n    pass\n", "torch.autocast('cuda', dtype=torch.float16)",
     "with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n"),
    ("bfloat16_autocast", {}, "with torch.autocast('cuda'):\n    pass\n", "torch.autocast('cuda')", "with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n"),
]


@pytest.mark.parametrize(("form", "numbers", "code", "target", "want"), CASES)
def test_setting(tmp_path: Path, form: str, numbers: dict[str, Any], code: str, target: str, want: str) -> None:
    if target.startswith("opt ="):
        target = target.removeprefix("opt = ")
    case = Case(tmp_path, HEAD + code)
    assert case.fixed(case.repair(form, numbers, target=target)) == HEAD + want


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("optimizer_eps", {"eps": 1e-4}, "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n", "torch.optim.SGD(net.parameters(), lr=0.1)"),
    ("optimizer_eps", {}, f"opt = {OPT}\n", OPT),
    ("learning_rate", {"factor": 0.1}, "kw = {}\nopt = torch.optim.SGD(net.parameters(), **kw)\n", "torch.optim.SGD(net.parameters(), **kw)"),
    ("learning_rate", {"factor": 0.1}, "lr = 0.1\nlr = lr * 2\nopt = torch.optim.SGD(net.parameters(), lr=lr)\n", "torch.optim.SGD(net.parameters(), lr=lr)"),
    ("learning_rate", {"factor": 0.1}, "g = x\nx -= g\n", "x -= g"),
    ("epsilon", {"eps": 1e-4}, "out = x / (x + 1e-8) + 1e-7\n", "x / (x + 1e-8) + 1e-7"),
    ("epsilon", {"eps": 1e-4}, "out = x + x\n", "x + x"),
    ("bfloat16_autocast", {}, "with torch.autocast('cuda', dtype=torch.bfloat16):\n    pass\n", "torch.autocast('cuda', dtype=torch.bfloat16)"),
]


@pytest.mark.parametrize(("form", "numbers", "code", "target"), REFUSED)
def test_refused(tmp_path: Path, form: str, numbers: dict[str, Any], code: str, target: str) -> None:
    case = Case(tmp_path, HEAD + code)
    assert case.refused(case.repair(form, numbers, target=target))
