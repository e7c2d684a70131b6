"""How well the emulated step foretells a real one: random networks in float16 and bfloat16, by `--as` and by model.half().

    python benchmarks/narrower.py [--networks 60] [--as float16]

docs/formats.md holds the last figures.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from numdebug.emulation import Emulation
from numdebug.journal import Journal
from numdebug.observe.torch.observer import TorchObserver, all_finite
from numdebug.observe.torch.torchrun import TorchRun

RIGHT, APART = 0.98, 0.05  # overflow verdicts; share of zero gradient entries, on average


class Attention(nn.Module):
    """One head, a shortcut, a mean over the sequence."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / x.shape[-1] ** 0.5
        return self.head((x + torch.softmax(scores, -1) @ self.v(x)).mean(1))


@dataclass
class Network:
    """A model, a batch, and its loss."""

    name: str
    model: nn.Module
    x: torch.Tensor
    y: torch.Tensor
    weight: float

    def loss(self, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = model(x)
        loss = F.mse_loss(out, y) if y.is_floating_point() else F.cross_entropy(out, y)
        return loss * self.weight


def network(seed: int) -> Network:
    """Small, of one of three kinds, with data, weights and loss of a random magnitude."""
    torch.manual_seed(seed)

    def between(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, ()))

    def power(low: float, high: float) -> float:
        return 10 ** (low + (high - low) * float(torch.rand(())))

    kind = ("MLP", "CNN", "attention")[seed % 3]
    act: Callable[[], nn.Module] = (nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU)[between(0, 3)]
    width, batch, classes = 2 ** between(3, 6), 2 ** between(2, 6), between(2, 10)
    if kind == "MLP":
        layers: list[nn.Module] = []
        for _ in range(between(1, 4)):
            layers += [nn.Linear(width, width), *([nn.LayerNorm(width)] if between(0, 2) == 0 else []), act()]
        model: nn.Module = nn.Sequential(*layers, nn.Linear(width, classes))
        x = torch.randn(batch, width)
    elif kind == "CNN":
        c = between(4, 16)
        norm = [nn.BatchNorm2d(c)] if between(0, 1) else []
        body = [nn.Conv2d(3, c, 3, padding=1), *norm, act(), nn.MaxPool2d(2), nn.Conv2d(c, c, 3, padding=1), act()]
        model = nn.Sequential(*body, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * c, classes))
        x = torch.randn(batch, 3, 8, 8)
    else:
        model = Attention(width, classes)
        x = torch.randn(batch, between(3, 12), width)
    gain = power(-0.3, 0.9)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(gain)
    x = x * power(-1, 3)
    y = torch.randint(0, classes, (batch,)) if between(0, 1) else torch.randn(batch, classes) * power(-1, 2)
    return Network(f"{kind} {seed}", model, x, y, power(-6, 1))


def foretold(net: Network, form: str) -> Emulation:
    """From one recorded step in float32."""
    folder = tempfile.TemporaryDirectory()
    watching = TorchObserver(Path(__file__).parent, Journal(Path(folder.name) / "journal"), {})
    model = copy.deepcopy(net.model)
    net.loss(model, net.x, net.y).backward()
    watching.finish()
    return TorchRun(watching, {}).emulate(form)


def real(net: Network, dtype: torch.dtype) -> tuple[bool, float]:
    """(finite, share of gradient entries that are 0) of the same step with model, data and targets in the format."""
    model = copy.deepcopy(net.model).to(dtype)
    y = net.y.to(dtype) if net.y.is_floating_point() else net.y
    loss = net.loss(model, net.x.to(dtype), y)
    loss.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    finite = all_finite(loss) and all(all_finite(g) for g in grads)
    return finite, sum(int((g == 0).sum()) for g in grads) / sum(g.numel() for g in grads)


def main() -> int:
    """The table; 0 where the prediction is as good as is asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=60)
    parser.add_argument("--as", dest="form", choices=["float16", "bfloat16"], default="float16")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    right, apart, failing, flushing = 0, [], 0, 0
    for seed in range(arguments.networks):
        net = network(seed)
        finite, zeros = real(net, getattr(torch, arguments.form))
        said = foretold(net, arguments.form)
        share = said.zeros / said.entries
        right += said.finite == finite
        failing += not finite
        if finite and said.finite:
            apart.append(abs(share - zeros))
            flushing += said.flushed > 0.001 * said.entries
        keep = f"  keep {', '.join(said.keep)}" if said.keep else ""
        scale = f"  scale 2**{math.log2(said.scale):.0f}" if said.scale else f"  best {said.best}" if said.best else ""
        wrong = "" if said.finite == finite else "  WRONG"
        print(f"{net.name:14} finite {finite!s:5} foretold {said.finite!s:5}  zeros {zeros:.3f} {share:.3f}{keep}{scale}{wrong}")
    mean = sum(apart) / len(apart)
    print(
        f"\n{arguments.networks} networks, {failing} overflow, {flushing} lose more than 0.1 % of their gradient entries\n"
        f"overflow verdict right: {right / arguments.networks:.1%} (≥ {RIGHT:.0%}); zero entries apart by {mean:.4f} on average,"
        f" {max(apart):.3f} at most (≤ {APART} on average)"
    )
    return int(right < RIGHT * arguments.networks or mean > APART)


if __name__ == "__main__":
    sys.exit(main())
