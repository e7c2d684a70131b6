"""Writes between forward and backward that autograd does not notice: harmful ones are found at their line, harmless ones are not."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
from opinfo import observer
from torch import nn

from numdebug.observe.torch.torchrun import TorchRun

Step = Callable[[nn.Linear, torch.Tensor], torch.Tensor]


def found(step: Step) -> list[tuple[int, float]]:
    """(line of the write, effect on the gradient) in two steps of training."""
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 4), torch.randn(8, 4)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    watching = observer()
    for _ in range(2):
        loss = step(layer, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    watching.finish()
    run = TorchRun(watching, {})
    seen = run.overwritten()
    assert all(one.repeats for one in seen)
    sites = [(run.recording.ops[one.write].site, one.effect) for one in seen]
    return [(site.line, effect) for site, effect in sites if site is not None]


def through_data(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    gate = torch.sigmoid(layer(x))
    out = gate * 2 * gate
    gate.data[gate < 0.5] = 0.0  # here
    return out.sum()


def a_kept_result(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    out = layer(x).exp()
    loss = out.sum()
    out.data.div_(out.data.sum())  # here
    return loss


def a_weight(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    loss = (layer(x).tanh() @ layer.weight).sum()
    layer.weight.data.clamp_(-0.1, 0.1)  # here
    return loss


def before_the_use(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    h = layer(x)
    h.data.clamp_(-0.5, 0.5)
    return (h * h).sum()


def without_effect(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    h = torch.relu_(layer(x))
    h.data.clamp_(max=100)
    return (h * h).sum()


def not_needed(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    h = layer(x)
    out = h + 1
    h.data.zero_()
    return out.sum()


def statistics(layer: nn.Linear, x: torch.Tensor, norm: nn.Module = nn.BatchNorm1d(4)) -> torch.Tensor:  # noqa: B008
    return (norm(layer(x)) * norm(layer(x + 1))).square().mean()


@pytest.mark.parametrize("step", [through_data, a_kept_result, a_weight], ids=lambda s: s.__name__)
def test_a_harmful_write_is_found_at_its_line(step: Step):
    lines, start = inspect.getsourcelines(step)
    here = start + next(n for n, text in enumerate(lines) if text.rstrip().endswith("# here"))
    seen = found(step)
    assert {line for line, _ in seen} == {here}
    assert max(effect for _, effect in seen) > 1e-3


@pytest.mark.parametrize("step", [before_the_use, without_effect, not_needed, statistics], ids=lambda s: s.__name__)
def test_a_harmless_write_is_not(step: Step):
    assert not [effect for _, effect in found(step) if effect > 0]
