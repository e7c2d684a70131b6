"""The three training steps that every figure is a ratio of: a small GPT, a ResNet-18 for 32x32 images, a tiny MLP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Workload:
    """A model with the loss of one fixed batch; Adam 1e-4."""

    name: str
    model: nn.Module
    loss: Callable[[], torch.Tensor]
    optimizer: torch.optim.Optimizer
    steps: int  # timed together, so that a clock tick does not matter

    def step(self) -> None:
        """Forward, backward, update."""
        loss = self.loss()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Attention(nn.Module):
    """Causal self-attention with dropout, written out as in many a training script."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.inputs, self.output, self.dropout = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.inputs(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = self.dropout(scores.masked_fill(hidden, float("-inf")).softmax(-1))
        return self.output((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then a feed-forward network, each beside a shortcut."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(width), Attention(width, heads, dropout), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class GPT(nn.Module):
    """Vocabulary 256, width 256, 4 layers, 4 heads, dropout 0.1."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, 256), nn.Embedding(128, 256)
        self.blocks = nn.Sequential(*(Block(256, 4, 0.1) for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places(torch.arange(x.shape[1])))))


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def gpt() -> Workload:
    """Batch 8 of 128 tokens."""
    model = GPT()
    x = torch.randint(0, 256, (8, 129))
    return made("GPT", model, lambda: F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten()), 1)


def cnn() -> Workload:
    """ResNet-18 of width 64 for small images, batch 32 of 3x32x32."""
    shape = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    stem = (nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
    model = nn.Sequential(*stem, *(Residual(*s) for s in shape), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    return made("CNN", model, lambda: F.cross_entropy(model(x), y), 1)


def mlp() -> Workload:
    """64-64-64-10, batch 32."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
    return made("MLP", model, lambda: F.cross_entropy(model(x), y), 40)


def made(name: str, model: nn.Module, loss: Callable[[], torch.Tensor], steps: int) -> Workload:
    """With its optimizer."""
    return Workload(name, model, loss, torch.optim.Adam(model.parameters(), 1e-4), steps)
