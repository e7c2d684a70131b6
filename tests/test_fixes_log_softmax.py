"""log(softmax(x)) in many spellings: the text that comes out, and that it computes the same."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_fixes_support import Case

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
z = torch.randn(4, 5)
y = torch.tensor([0, 3, 2, 1])
hot = F.one_hot(y, 5).float()
n = 4
"""

SPELLINGS = {
    "torch.log(torch.softmax(z, dim=1))": "out = torch.log_softmax(z, dim=1)",
    "torch.log(F.softmax(z, dim=1))": "out = F.log_softmax(z, dim=1)",
    "F.softmax(z, 1).log()": "out = F.log_softmax(z, 1)",
    "z.softmax(-1).log()": "out = z.log_softmax(-1)",
    "(2 * z).softmax(dim=-1).log()": "out = (2 * z).log_softmax(dim=-1)",
    "torch.log(nn.functional.softmax(z / 2.0, dim=1) + 1e-10)": "out = nn.functional.log_softmax(z / 2.0, dim=1)",
    "torch.softmax(z, dim=1).clamp(min=1e-12).log()": "out = torch.log_softmax(z, dim=1)",
    "torch.log(torch.clamp(torch.softmax(z, 1), 1e-9, 1.0))": "out = torch.log_softmax(z, 1)",
    "torch.log(torch.relu(torch.softmax(z, dim=1)))": "out = torch.log_softmax(z, dim=1)",
    "torch.log(torch.softmax(z, dim=1)[torch.arange(n), y])": "out = torch.log_softmax(z, dim=1)[torch.arange(n), y]",
    "torch.log(torch.softmax(z, 1).gather(1, y[:, None])).squeeze(1)": "out = torch.log_softmax(z, 1).gather(1, y[:, None]).squeeze(1)",
    "torch.log(torch.gather(torch.softmax(z, 1), 1, y[:, None]) + 1e-8)": "out = torch.gather(torch.log_softmax(z, 1), 1, y[:, None])",
    "torch.log(torch.softmax(z, 1).max(dim=1).values)": "out = torch.log_softmax(z, 1).max(dim=1).values",
    "-(hot * torch.log(torch.softmax(z, 1))).sum(1)": "out = -(hot * torch.log_softmax(z, 1)).sum(1)",
    "-hot * torch.softmax(z, 1).log()": "out = -hot * torch.log_softmax(z, 1)",
    "nn.Softmax(dim=1)(z).log()": "out = torch.log_softmax(z, dim=1)",
    "torch.log(z.exp() / z.exp().sum(1, keepdim=True))": "out = torch.log_softmax(z, dim=1)",
    "torch.log(torch.exp(z) / (torch.exp(z).sum(dim=1, keepdim=True) + 1e-12))": "out = torch.log_softmax(z, dim=1)",
    "(torch.exp(z - z.max(1, keepdim=True).values) / torch.exp(z - z.max(1, keepdim=True).values).sum(1, keepdim=True)).log()":
        "out = torch.log_softmax(z, dim=1)",
    "torch.softmax(z, dim=-1).T.log()": "out = torch.log_softmax(z, dim=-1).T",
    "F.softmax(z, dim=-1, dtype=torch.float64).log()": "out = F.log_softmax(z, dim=-1, dtype=torch.float64)",
}


@pytest.mark.parametrize("expression", SPELLINGS)
def test_in_one_expression(tmp_path: Path, expression: str) -> None:
    case = Case(tmp_path, HEAD + f"out = {expression}  # kept\n")
    role = "softmax" if "oftmax" in expression else "div"
    repair = case.repair("log_softmax", target="log", softmax=role)
    assert case.fixed(repair) == HEAD + SPELLINGS[expression] + "  # kept\n"
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


VARIABLES = {
    "dropped": (
        "p = torch.softmax(z, dim=1)  # probabilities\nout = torch.log(p)\n",
        "out = torch.log_softmax(z, dim=1)\n",
    ),
    "still used": (
        "p = torch.softmax(z, dim=1)\nhits = (p.argmax(1) == y).float()\nout = torch.log(p)\n",
        "p = torch.softmax(z, dim=1)\nhits = (p.argmax(1) == y).float()\nout = torch.log_softmax(z, dim=1)\n",
    ),
    "two variables": (
        "p = torch.softmax(z, dim=1)\nq = p[torch.arange(n), y]\nout = (q + 1e-12).log()\n",
        "out = torch.log_softmax(z, dim=1)[torch.arange(n), y]\n",
    ),
    "the logits change in between": (
        "p = torch.softmax(z, dim=1)\nz = z * 2\nprint(p)\nout = torch.log(p)\n",
        "logits = z\np = torch.softmax(logits, dim=1)\nz = z * 2\nprint(p)\nout = torch.log_softmax(logits, dim=1)\n",
    ),
    "one name": (
        "z = F.softmax(z, dim=1)\nout = torch.log(z)\n",
        "z = F.log_softmax(z, dim=1)\nout = z\n",
    ),
    "a call that must not run twice": (
        "net = nn.Linear(5, 3)\np = net(z).softmax(1)\nbest = p.argmax(1)\nout = p.log()\n",
        "net = nn.Linear(5, 3)\nlogits = net(z)\np = logits.softmax(1)\nbest = p.argmax(1)\nout = logits.log_softmax(1)\n",
    ),
    "a call that moves": (
        "net = nn.Linear(5, 3)\np = torch.softmax(net(z), dim=1)\nout = p.clamp(max=1.0).log()\n",
        "net = nn.Linear(5, 3)\nout = torch.log_softmax(net(z), dim=1)\n",
    ),
    "by hand with variables": (
        "e = torch.exp(z - z.max(dim=1, keepdim=True).values)\ns = e.sum(dim=1, keepdim=True)\np = e / s\nout = torch.log(p)\n",
        "out = torch.log_softmax(z, dim=1)\n",
    ),
    "by hand, maximum unpacked": (
        "m, _ = z.max(dim=1, keepdim=True)\ne = (z - m).exp()\nout = (e / e.sum(1, keepdim=True)).log()\n",
        "out = torch.log_softmax(z, dim=1)\n",
    ),
    "over several lines": (
        "out = -(hot * torch.log(  # here\n    torch.softmax(\n        z,\n        dim=1,\n    )\n)).sum(1)\n",
        "out = -(hot * torch.log_softmax(\n        z,\n        dim=1,\n    )).sum(1)\n",
    ),
    "a helper": (
        "def my_softmax(x):\n    e = torch.exp(x)\n    return e / e.sum(dim=1, keepdim=True)\nout = torch.log(my_softmax(2 * z))\n",
        "def my_softmax(x):\n    e = torch.exp(x)\n    return e / e.sum(dim=1, keepdim=True)\nout = torch.log_softmax(2 * z, dim=1)\n",
    ),
    "a layer of self": (
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
    def forward(self, x):
        p = self.softmax(x)
        return torch.log(p)
out = Net()(z)
""",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(dim=-1)
    def forward(self, x):
        return torch.log_softmax(x, dim=-1)
out = Net()(z)
""",
    ),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_with_variables(tmp_path: Path, name: str) -> None:
    code, want = VARIABLES[name]
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("log_softmax", target="log", softmax="softmax" if "oftmax(z" in code or "elf.softmax" in code or ").softmax" in code or "softmax(net" in code or "softmax(\n" in code else "div")
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


ELSEWHERE = {
    "function": (
        """\
def picture_net(x):
    return F.softmax(2 * x, dim=-1)
for _ in range(2):
    belief = picture_net(z)
    out = torch.mean(-torch.sum(hot * torch.log(belief + 1e-9), dim=1))
""",
        """\
def picture_net(x):
    return F.log_softmax(2 * x, dim=-1)
for _ in range(2):
    belief = picture_net(z)
    out = torch.mean(-torch.sum(hot * belief, dim=1))
""",
    ),
    "module, with a guard on the way and accuracy beside": (
        """\
class Net(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1).clamp(min=1e-7)
def loss(p, y):
    return -(torch.log(p[torch.arange(len(y)), y])).mean()
net = Net()
out = loss(net(z), y)
hits = (net(z).argmax(1) == y).sum()
""",
        """\
class Net(nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, dim=1)
def loss(p, y):
    return -p[torch.arange(len(y)), y].mean()
net = Net()
out = loss(net(z), y)
hits = (net(z).argmax(1) == y).sum()
""",
    ),
    "layer of a Sequential": (
        """\
net = nn.Sequential(nn.Identity(), nn.Softmax(dim=1))
p = net(z)
out = -(hot * p.log()).sum()
""",
        """\
net = nn.Sequential(nn.Identity(), nn.LogSoftmax(dim=1))
p = net(z)
out = -(hot * p).sum()
""",
    ),
    "Sequential in a module": (
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Identity(), nn.Softmax(1))
    def forward(self, x):
        return self.body(x)
model = Net()
out = torch.log(model(z) + 1e-12)
""",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Identity(), nn.LogSoftmax(1))
    def forward(self, x):
        return self.body(x)
model = Net()
out = model(z)
""",
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_in_another_function(tmp_path: Path, name: str) -> None:
    code, want = ELSEWHERE[name]
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("log_softmax", {"only_feeds_log": True}, target="log", softmax="softmax")
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5
    assert case.refused(case.repair("log_softmax", target="log", softmax="softmax"))


def test_attributes_of_self(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + dedent("""\
        class Model:
            def feed(self, x):
                self.z = x * 3
                self.p = F.softmax(self.z, dim=1)
                return self
            def cost(self):
                miss = torch.log1p(-self.p.clamp(max=1 - 1e-6))
                return hot * torch.log(self.p) + miss
        out = Model().feed(z).cost()
    """))
    repair = case.repair("log_softmax", target="log", softmax="softmax")
    assert "return hot * F.log_softmax(self.z, dim=1) + miss" in case.fixed(repair)
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5


def test_two_logs_of_one_softmax(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "p = z.softmax(1)\na = torch.log(p)\nout = a + p[:, :1].log()\n")
    repair = case.repair("log_softmax", target=("log", 0), target2=("log", 1), softmax="softmax")
    assert case.fixed(repair) == HEAD + "a = z.log_softmax(1)\nout = a + z.log_softmax(1)[:, :1]\n"


REFUSED = {
    "not a log": "out = torch.exp(torch.softmax(z, 1))\n",
    "a product": "out = torch.log(torch.softmax(z, 1) * hot)\n",
    "a sum": "out = torch.log(torch.softmax(z, 1).sum(1))\n",
    "one of two branches": "if n > 3:\n    p = torch.softmax(z, 1)\nelse:\n    p = hot\nout = torch.log(p)\n",
    "log in place": "p = torch.softmax(z, 1)\np.log_()\nout = p\n",
    "under no_grad": "with torch.no_grad():\n    p = torch.softmax(z, 1)\nout = torch.log(p)\nprint(p)\nprint(z)\n",
    "a real eps": "out = torch.log(torch.softmax(z, 1) + 1.0)\n",
    "a real bound": "out = torch.log(torch.softmax(z, 1).clamp(min=0.5))\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    code = REFUSED[name]
    case = Case(tmp_path, HEAD + code)
    target = case.op("exp" if name == "not a log" else "log")
    repair = case.repair("log_softmax", target=target, softmax="softmax")
    assert case.refused(repair)


def test_probabilities_used_elsewhere_are_not_changed_in_their_function(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "def net(x):\n    return torch.softmax(2 * x, 1)\nout = torch.log(net(z))\nprint(net(z).mean())\n")
    assert case.refused(case.repair("log_softmax", {"only_feeds_log": True}, target="log", softmax="softmax"))


def test_line_ends_tabs_and_letters_are_kept(tmp_path: Path) -> None:
    code = "import torch\r\nx = 'é'; z = torch.randn(2, 3)\r\ndef f(ζ):\r\n\tp = torch.softmax(ζ, 1)\r\n\tw = 'ü', torch.log(p)  # ö\r\n\treturn w[1]\r\nout = f(z)"
    case = Case(tmp_path, code)
    new = case.fixed(case.repair("log_softmax", target="log", softmax="softmax"))
    assert new == code.replace("\tp = torch.softmax(ζ, 1)\r\n", "").replace("torch.log(p)", "torch.log_softmax(ζ, 1)")


def test_jax_is_not_given_torch(tmp_path: Path) -> None:
    code = "import jax.numpy as jnp\nout = (e / e.sum(1, keepdim=True)).log()\n"
    case = Case(tmp_path, code)
    assert case.refused(case.repair("log_softmax", target="(e / e.sum(1, keepdim=True)).log()"))


def test_two_logs_of_a_call_that_must_run_once(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "net = nn.Linear(5, 3)\np = F.softmax(net(z), 1)\na = torch.log(p)\nout = a + p[:, :1].log()\n")
    repair = case.repair("log_softmax", target=("log", 0), target2=("log", 1), softmax="softmax")
    assert case.fixed(repair).endswith("logits = net(z)\na = F.log_softmax(logits, 1)\nout = a + F.log_softmax(logits, 1)[:, :1]\n")


def test_a_one_hot_selects(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "p = F.softmax(z, dim=1)\nout = -torch.log((p * hot).sum(dim=1) + 1e-12).mean()\n")
    repair = case.repair("log_softmax", target="log", softmax="softmax")
    assert case.fixed(repair) == HEAD + "out = -(F.log_softmax(z, dim=1) * hot).sum(dim=1).mean()\n"
    before, after = case.both(repair)
    assert (before - after).abs() < 1e-5


@pytest.mark.parametrize("change", ["p[0] = 0.2", "p.mul_(0.5)", "p += 0.1", "torch.mul(p, 0.5, out=p)"])
def test_changed_in_place(tmp_path: Path, change: str) -> None:
    case = Case(tmp_path, HEAD + f"p = F.softmax(z, dim=1)\n{change}\nout = torch.log(p)\n")
    assert case.refused(case.repair("log_softmax", {"only_feeds_log": True}, target="log", softmax="softmax"))


def test_logits_that_change_in_a_loop(tmp_path: Path) -> None:
    case = Case(tmp_path, HEAD + "p = F.softmax(z, dim=1)\nfor _ in range(2):\n    out = torch.log(p)\n    z = z + 1\n")
    repair = case.repair("log_softmax", target="log", softmax="softmax")
    assert case.fixed(repair).endswith("p = F.log_softmax(z, dim=1)\nfor _ in range(2):\n    out = p\n    z = z + 1\n")
    before, after = case.both(repair)
    assert (before - after).abs().max() < 1e-5
    code = HEAD + "p = F.softmax(z, dim=1)\nz += 1\nprint(p)\nout = torch.log(p)\n"
    case = Case(tmp_path, code)  # a second name for z would see the change
    assert case.refused(case.repair("log_softmax", target="log", softmax="softmax"))
