"""Collected results that are one memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import loud, silent

PROGRAM = """\
import torch
torch.manual_seed(0)
state, w = torch.zeros(8), 0.3 * torch.randn(8, 8)
seen = []
for u in torch.rand(20):
    state.copy_(torch.tanh(w @ state + u))
    seen.append({entry})
print(torch.stack(seen).std(0).mean())
"""


def test_a_list_of_one_memory_is_named_where_it_is_overwritten(diagnose, tmp_path: Path):
    (tmp_path / "model.py").write_text(PROGRAM.format(entry="state"))
    outcome = diagnose(tmp_path / "model.py")
    assert loud(outcome) == [("in-place-damage", 6)]
    assert outcome.report.diagnoses[0].confirmed == "yes"


@pytest.mark.parametrize("entry", ["state.clone()", "state + 0", "state.mean().view(1)"])
def test_copies_are_fine(entry: str, diagnose, tmp_path: Path):
    (tmp_path / "model.py").write_text(PROGRAM.format(entry=entry))
    assert silent(diagnose(tmp_path / "model.py"))


def test_repeating_one_array_is_fine(diagnose, tmp_path: Path):
    (tmp_path / "model.py").write_text("import torch\nx = torch.zeros(4)\nx += 1\nx *= 2\nprint(torch.stack([x, x, x]).sum())\n")
    assert silent(diagnose(tmp_path / "model.py"))
