"""`--check-gradients`: the whole step against differences of its loss."""

from __future__ import annotations

from pathlib import Path

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
body, gate, head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *gate.parameters(), *head.parameters()], lr=0.1)
x, y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(3):
    hidden = torch.tanh(body(x))
    loss = (head(hidden * torch.sigmoid(gate(x)){cut}) - y).square().mean() + 1e-2 * gate.weight.square().sum() + gate.bias.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_right_gradients_are_said_to_agree(numdebug, tmp_path: Path):
    (tmp_path / "model.py").write_text(PROGRAM.format(cut=""))
    said = numdebug("diagnose", "model.py", "--check-gradients", "--format", "json")
    assert said.code == 0
    assert "the gradients of 6 of 6 parameters agree" in " ".join(said.report["notes"])


def test_a_path_that_is_cut_for_part_of_the_gradient_shows(numdebug, tmp_path: Path):
    (tmp_path / "model.py").write_text(PROGRAM.format(cut=".detach()"))
    said = numdebug("diagnose", "model.py", "--check-gradients", "--format", "json")
    assert said.code == 1
    [found] = said.report["diagnoses"]
    assert found["bug"] == "wrong-gradient" and "gate.weight" in found["because"] or "body.weight" in found["because"]
    assert numdebug("diagnose", "model.py").code == 0  # a detach may be meant: without the request it is left alone
