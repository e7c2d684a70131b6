"""What training did to weights: absorbed updates, clipping, idle parameters, unwritten memory; and what only looks like them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from opinfo import observer
from torch import nn

from numdebug.observe.torch.torchrun import TorchRun


def run_of(program: Callable[[], object]) -> TorchRun:
    """Two steps (or whatever the program does), recorded."""
    torch.manual_seed(0)
    watching = observer()
    keep = program()
    watching.finish()
    run = TorchRun(watching, {})
    run.kept = keep  # type: ignore[attr-defined]
    return run


def train(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, steps: int = 3) -> nn.Module:
    for _ in range(steps):
        loss = model(x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


# -- updates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad])
@pytest.mark.parametrize("foreach", [False, True])
def test_absorbed_elements_are_counted_as_they_are(make, foreach):
    before: list[torch.Tensor] = []

    def program() -> nn.Module:
        model = nn.Linear(16, 16).to(torch.bfloat16)
        optimizer = make(model.parameters(), lr=1e-4, foreach=foreach)
        x = torch.randn(8, 16).bfloat16()
        train(model, optimizer, x, 2)
        before.extend(p.detach().clone() for p in model.parameters())
        return train(model, optimizer, x, 1)

    run = run_of(program)
    last = run.updates()[-1]
    same = sum(int((b == p).sum()) for b, p in zip(before, run.kept.parameters(), strict=True))
    assert last.dtype == "bfloat16" and last.repeats
    assert last.moving == 16 * 17 and last.absorbed == same > 0


def test_float32_weights_absorb_nothing():
    run = run_of(lambda: train(m := nn.Linear(16, 16), torch.optim.SGD(m.parameters(), 1e-2), torch.randn(8, 16)))
    assert run.updates() and all(u.absorbed < 0.01 * u.moving for u in run.updates())


def test_a_low_precision_copy_of_float32_weights_is_not_an_update():
    def program() -> object:
        model = nn.Linear(16, 16).bfloat16()
        master = [p.detach().float() for p in model.parameters()]
        for _ in range(2):
            model.zero_grad()
            model(torch.ones(4, 16, dtype=torch.bfloat16)).sum().backward()
            with torch.no_grad():
                for p, m in zip(model.parameters(), master, strict=True):
                    m.sub_(p.grad.float(), alpha=1e-6)
                    p.copy_(m)
        return model

    assert run_of(program).updates() == []


def test_what_is_lost_and_kept_is_not_absorbed():
    def program() -> object:
        w = nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
        rest = torch.zeros(8, dtype=torch.bfloat16)
        for _ in range(2):
            w.grad = None
            (w * 3).sum().backward()
            with torch.no_grad():
                step = w.grad * -1e-4 + rest
                old = w.clone()
                w.add_(step)
                rest = step - (w - old)
        return w

    assert run_of(program).updates() == []


def test_weights_that_are_replaced_are_updates_too():
    def program() -> object:
        w = torch.ones(8, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3):
            (w * 3).sum().backward()
            w = (w - 1e-4 * w.grad).detach().requires_grad_()
        return w

    found = run_of(program).updates()
    assert found and all((u.moving, u.absorbed, u.repeats) == (8, 8, True) for u in found)


# -- clipping ----------------------------------------------------------------------------------------------------


def clipped(clip: Callable[[nn.Module, torch.amp.GradScaler, torch.optim.Optimizer], object]) -> list:
    def program() -> object:
        model, scaler = nn.Linear(4, 1), torch.amp.GradScaler("cpu", init_scale=1024.0)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.randn(16, 4) * 10
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            clip(model, scaler, optimizer)
            scaler.step(optimizer)
            scaler.update()
        return model

    return run_of(program).clippings()


def by_hand(model: nn.Module, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    norm = sum(float(p.grad.square().sum()) for p in model.parameters()) ** 0.5
    for p in model.parameters():
        p.grad.mul_(min(1.0, 1.0 / norm))


def out_of_place(model: nn.Module, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    for p in model.parameters():
        p.grad = p.grad.clamp(-1.0, 1.0)


def unscaled(model: nn.Module, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def scaled_limit(model: nn.Module, scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())


@pytest.mark.parametrize("clip", [by_hand, lambda m, *_: nn.utils.clip_grad_norm_(m.parameters(), 1.0)])
def test_clipping_under_a_loss_scale_is_measured(clip):
    found = clipped(clip)
    assert found and all(c.scale == 1024.0 and c.kind == "norm" and c.meant > 500 for c in found)


def test_gradients_that_are_replaced_are_seen():
    found = clipped(out_of_place)
    assert found and all(c.scale == 1024.0 and c.kind == "value" for c in found)


def test_after_unscaling_no_scale_is_on():
    assert all(c.scale is None for c in clipped(unscaled))


@pytest.mark.parametrize("clip", [scaled_limit, lambda m, *_: nn.utils.clip_grad_norm_(m.parameters(), 1e9), lambda *_: None])
def test_a_scaled_limit_and_a_clip_without_effect_say_nothing(clip):
    assert clipped(clip) == []


# -- parameters left alone ---------------------------------------------------------------------------------------


class Two(nn.Module):
    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor] = lambda h: h) -> None:
        super().__init__()
        self.first, self.second, self.between = nn.Linear(4, 8), nn.Linear(8, 1), between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.between(torch.tanh(self.first(x))))


X = torch.linspace(-1, 1, 32).reshape(8, 4)


def alone(model: nn.Module, parameters) -> list[tuple[str, int]]:
    return [(u.why, u.elements) for u in run_of(lambda: train(model, torch.optim.SGD(list(parameters), 0.1), X)).untrained()]


def test_what_no_optimizer_has_is_found():
    model = Two()
    assert alone(model, model.second.parameters()) == [("unowned", 40)]


@pytest.mark.parametrize("cut", [lambda h: h.detach(), lambda h: h.data, lambda h: h.detach().clone() * 2])
def test_what_no_gradient_reaches_is_found(cut):
    model = Two(cut)
    assert alone(model, model.parameters()) == [("cut", 40)]


def test_a_number_that_comes_back_is_found():
    class Scaled(Two):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.37))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * self.scale.item()

    model = Scaled()
    assert alone(model, model.parameters()) == [("cut", 1)]


def frozen() -> tuple[nn.Module, list]:
    model = Two()
    model.first.requires_grad_(False)
    return model, list(model.second.parameters())


def loaded() -> tuple[nn.Module, list]:
    model = Two()
    model.first.load_state_dict(nn.Linear(4, 8).state_dict())
    return model, list(model.second.parameters())


def unused() -> tuple[nn.Module, list]:
    model = Two()
    model.spare = nn.Linear(3, 3)
    return model, list(model.parameters())


def another_way() -> tuple[nn.Module, list]:
    model = Two(lambda h: h + h.detach())
    return model, list(model.parameters())


@pytest.mark.parametrize("make", [frozen, loaded, unused, another_way])
def test_what_is_left_alone_on_purpose_is_not(make):
    def program() -> object:
        model, parameters = make()
        return train(model, torch.optim.SGD(parameters, 0.1), X)

    assert run_of(program).untrained() == []


def test_two_optimizers_in_turn_and_a_target_network_are_fine():
    def program() -> object:
        first, second, target = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
        one, other = torch.optim.SGD(first.parameters(), 0.1), torch.optim.Adam(second.parameters())
        for step in range(4):
            with torch.no_grad():
                goal = target(first(X))
            loss = (second(first(X)) - goal).square().mean()
            loss.backward()
            (one if step % 2 else other).step()
            target = copy.deepcopy(second)
            first.zero_grad()
            second.zero_grad()
        return first

    assert run_of(program).untrained() == []


# -- memory never written ----------------------------------------------------------------------------------------


def partly() -> float:
    out = torch.empty(4, 3)
    for t in range(1, 4):
        out[t] = float(t)
    return out.sum().item()


def added_to() -> float:
    sums = torch.empty(3)
    return sums.index_add_(0, torch.tensor([0, 1, 2]), torch.ones(3)).sum().item()


def a_parameter() -> float:
    weight = nn.Parameter(torch.empty(3))
    return (weight * 2).sum().item()


def whole() -> float:
    out = torch.empty(4, 3)
    for t in range(4):
        out[t] = float(t)
    return out.sum().item()


def masked() -> float:
    out = torch.empty(4)
    out[:2] = 1.0
    return torch.where(torch.arange(4) < 2, out, torch.zeros(4)).sum().item()


def result_argument() -> float:
    out = torch.empty(3)
    torch.exp(torch.ones(3), out=out)
    return out.sum().item()


def through_numpy() -> float:
    out = torch.empty(3)
    np.copyto(out.numpy(), 1.0)
    return out.sum().item()


def initialised() -> float:
    layer = nn.Sequential(nn.LSTM(3, 4), nn.Identity())
    return layer[0](torch.ones(2, 3))[0].sum().item()


@pytest.mark.parametrize("program", [partly, added_to, a_parameter])
def test_memory_that_is_read_before_it_is_written_is_found(program):
    assert len(run_of(program).unwritten()) == 1


@pytest.mark.parametrize("program", [whole, masked, result_argument, through_numpy, initialised])
def test_memory_that_is_filled_or_masked_is_not(program):
    assert run_of(program).unwritten() == []
