"""What `diagnose` foretells of another device: a note where TF32 products alone would leave no digit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import torch

torch.manual_seed(0)
matrix, x = torch.randn(200, 200), torch.randn(200, 1)
target = matrix @ x
near = x + {step} * torch.randn(200, 1)
residual = matrix @ near - target
print(residual.norm().item())
"""


@pytest.mark.parametrize(("step", "lost"), [("1e-4", True), ("1.0", False)])
def test_a_small_residual_of_large_products_does_not_bear_tf32(diagnose: Callable[..., Any], tmp_path: Path, step: str, lost: bool) -> None:
    file = tmp_path / "model.py"
    file.write_text(PROGRAM.format(step=step))
    outcome = diagnose(file)
    assert outcome.exit_code == 0
    (fact,) = [e for e in outcome.report.evidence if e.kind == "device-spread"]
    assert fact["lost"] is lost
    assert (fact["tf32"] > 0.1) is lost and fact["order"] < 1e-3
    notes = [(d.bug, d.severity) for d in outcome.report.diagnoses]
    assert notes == ([("reduced-precision-matmul", "note")] if lost else [])
