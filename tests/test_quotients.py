"""Difference quotients that a program takes itself: those made of rounding noise are named, suitable ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import loud

NOISY = {
    "read off": "x = torch.randn(50)\nh = 1e-7\nprint((f(x + h).item() - f(x).item()) / h)",
    "tensors": "x = torch.randn(50, requires_grad=True)\nf(x).backward(); h = 1e-7\nprint((f(x + h) - f(x - h)) / (2 * h))",
    "gradcheck": "x = torch.randn(50, requires_grad=True)\nh = 1\nprint(torch.autograd.gradcheck(f, (x,), raise_exception=False))",
}
SOUND = {
    "a suitable step": "x = torch.randn(50)\nh = 5e-3\nprint((f(x + h).item() - f(x - h).item()) / (2 * h))",
    "float64": "x = torch.randn(50).double()\nh = 1e-6\nprint((f(x + h).item() - f(x - h).item()) / (2 * h))",
    "on a grid": "x = torch.linspace(0, 6, 400)\nu = x.sin()\nprint(((u[2:] - u[:-2]) / 0.03).abs().max().item())",
    "a difference of results": "x = torch.randn(50)\nh = 0\nprint(f(x).item() - f(2 * x).item())",
    "gradcheck in float64": "x = torch.randn(50).double().requires_grad_(True)\nh = 1\nprint(torch.autograd.gradcheck(f, (x,)))",
    "gradcheck with what float32 needs": (
        "x = torch.randn(5, requires_grad=True)\nh = 1\nprint(torch.autograd.gradcheck(f, (x,), eps=1e-2, atol=1e-2, rtol=1e-2))"
    ),
}
HEAD = "import torch\ntorch.manual_seed(0)\ndef f(x):\n    return (x.sin() * x + 1).mean()\n"


def test_without_a_derivative_to_check_it_is_a_cancellation(diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + "x = torch.randn(50)\nh = 1e-7\nprint((f(x + h) - f(x - h)) / (2 * h))")
    assert loud(diagnose(file)) == [("cancellation", 7)]


@pytest.mark.parametrize("body", NOISY.values(), ids=NOISY)
def test_a_quotient_of_noise_is_named(body: str, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + body)
    assert loud(diagnose(file)) == [("unreliable-gradient-check", 7)]


@pytest.mark.parametrize("body", SOUND.values(), ids=SOUND)
def test_a_sound_one_is_not(body: str, diagnose, tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + body)
    assert not [bug for bug, _ in loud(diagnose(file)) if bug == "unreliable-gradient-check"]
