"""Networks that are evaluated in training mode: what is named, how it is put right, and what is meant so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from forked import apply, loud, silent

HEAD = """\
import copy
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(64, 6)
y = x[:, 0] - x[:, 1]
new = torch.randn(8, 6)
"""
NET = """\
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
"""
STEP = "    optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
TRAIN = "for epoch in range(3):\n    loss = (model(x)[:, 0] - y).square().mean()\n" + STEP


def lines(tmp_path: Path, text: str) -> tuple[Path, int]:
    file = tmp_path / "model.py"
    file.write_text(text)
    return file, next((n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# here")), 0)


LOADED = """\
state = {k: torch.randn_like(v).abs() if v.is_floating_point() else v for k, v in model.state_dict().items()}
model.load_state_dict(state)
with torch.no_grad():
    print(model(new).tolist())  # here
"""
FUNCTIONAL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.b(F.dropout(torch.tanh(self.a(x)), 0.5))

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
"""
BROKEN = {
    "predict": NET + TRAIN + "@torch.no_grad()\ndef predict(rows):\n    return model(rows)  # here\nprint(predict(new))\n",
    "with gradients": NET + TRAIN + "print(model(new).mean().item())  # here\n",
    "loaded": NET + LOADED,
    "functional": FUNCTIONAL + TRAIN + "model.eval()\nwith torch.no_grad():\n    print(model(new).tolist())  # here\n",
    "a part": NET + TRAIN + "model.eval()\nmodel[3].train()\nwith torch.no_grad():\n    print(model(new).sum().item())  # here\n",
    "copied": NET + TRAIN + "served = copy.deepcopy(model)\nwith torch.no_grad():\n    print(served(new).sum().item())  # here\n",
    "left in training": NET + "for epoch in range(3):\n    model.train()\n    loss = (model(x)[:, 0] - y).square().mean()\n" + STEP
    + "    with torch.no_grad():\n        print(epoch, model(new).sum().item())  # here\n",
    "in the loop": NET + "def check():\n    with torch.no_grad():\n        return model(new).sum().item()  # here\n" + TRAIN
    + "    print(check())\n",
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_it_is_named_and_put_right(diagnose, tmp_path: Path, case: str):
    file, line = lines(tmp_path, HEAD + BROKEN[case])
    outcome = diagnose(file)
    assert loud(outcome) == [("train-eval-mismatch", line)], outcome.report.verdict
    (d,) = outcome.report.diagnoses
    assert d.confirmed == "yes", d.confirmed_why
    assert "two calls with the same 8 rows differ by" in d.because
    apply(d.fix.diff, tmp_path)
    assert silent(diagnose(file)), d.fix.diff


def test_training_goes_on_in_training_mode(diagnose, tmp_path: Path):
    file, _ = lines(tmp_path, HEAD + BROKEN["in the loop"])
    (d,) = diagnose(file).report.diagnoses
    apply(d.fix.diff, tmp_path)
    text = file.read_text()
    assert text.index("model.eval()") < text.index("evaluated = model(new)") < text.index("model.train()") < text.index("return evaluated")


FINE = {
    "eval": NET + TRAIN + "model.eval()\nwith torch.no_grad():\n    print(model(new).tolist())\n",
    "Monte Carlo": NET + TRAIN + "model.eval()\nmodel[3].train()\nwith torch.no_grad():\n"
    "    several = torch.stack([model(new) for _ in range(10)])\nprint(several.std(0).mean().item())\n",
    "Monte Carlo in one call": NET + TRAIN + "model.eval()\nmodel[3].train()\nwith torch.no_grad():\n"
    "    print(model(new[:1].repeat(20, 1)).std().item())\n",
    "statistics": NET + TRAIN + "model[3].eval()\nwith torch.no_grad():\n    for part in x.split(16):\n        model(part)\n",
    "a metric while it trains": NET + TRAIN + "    with torch.no_grad():\n        print(model(x).mean().item())\n",
    "no such layers": "model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 1))\n"
    "optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)\n" + TRAIN + "with torch.no_grad():\n    print(model(new).tolist())\n",
    "instance norm": "model = nn.Sequential(nn.Unflatten(1, (2, 3)), nn.InstanceNorm1d(2, affine=True), nn.Flatten(), nn.Linear(6, 1))\n"
    "optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)\n" + TRAIN + "with torch.no_grad():\n    print(model(new).tolist())\n",
    "never trained": NET + "with torch.no_grad():\n    print(model(new).tolist())\n",
    "teacher": NET + "teacher = copy.deepcopy(model)\nfor epoch in range(3):\n    with torch.no_grad():\n        wanted = teacher(x)\n"
    "    loss = (model(x) - wanted).square().mean()\n    print(loss.item())\n" + STEP,
    "two players": "g = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))\n"
    "d = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1))\n"
    "og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())\nfor epoch in range(3):\n"
    "    fake = g(torch.randn(64, 6))\n    od.zero_grad()\n"
    "    (F.softplus(-d(x)).mean() + F.softplus(d(fake.detach())).mean()).backward()\n"
    "    od.step()\n    og.zero_grad()\n    F.softplus(-d(fake)).mean().backward()\n    og.step()\n"
    "    with torch.no_grad():\n        print((d(x) > 0).float().mean().item())\n",
}  # fmt: skip


@pytest.mark.parametrize("case", FINE)
def test_what_is_meant_so_stays_silent(diagnose, tmp_path: Path, case: str):
    file, _ = lines(tmp_path, HEAD + FINE[case])
    outcome = diagnose(file)
    assert silent(outcome), outcome.report.verdict


def test_asking_again_leaves_the_program_as_it_is(numdebug, tmp_path: Path):
    text = HEAD + BROKEN["predict"] + "print(sum(p.sum().item() for p in model.state_dict().values()), torch.rand(1).item())\n"
    (tmp_path / "model.py").write_text(text)
    alone = subprocess.run([sys.executable, "model.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    said = numdebug("diagnose", "model.py")
    assert alone.splitlines()[-1] in said.err.splitlines()
