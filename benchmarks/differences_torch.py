"""Models for differences.py, PyTorch: a transformer and a convolutional network, with a place for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from numdebug.load.calls import Call

Layers = list[dict[str, torch.Tensor]]


def layers(count: int, width: int, seed: int) -> Layers:
    """Weights of a transformer."""
    g = torch.Generator().manual_seed(seed)

    def matrix(a: int, b: int) -> torch.Tensor:
        return torch.randn(a, b, generator=g) / a**0.5

    made = [
        {"qkv": matrix(width, 3 * width), "out": matrix(width, width), "up": matrix(width, 4 * width), "down": matrix(4 * width, width)}
        for _ in range(count)
    ]
    made.append({"table": matrix(50, width) * 50**0.5 / 10, "positions": matrix(64, width) * 64**0.5 / 10})
    return made


def transformer(ids: torch.Tensor, held: Layers, heads: int, fault: Any = None) -> torch.Tensor:
    """A small GPT without a head; `fault` changes one layer."""
    batch, time = ids.shape
    wrong = (fault.kind, fault.layer) if fault is not None else ("", -1)
    where = torch.arange(time)
    if wrong[0] == "position":
        where = where + 1
    x = F.embedding(ids, held[-1]["table"]) + F.embedding(where, held[-1]["positions"])
    for n, w in enumerate(held[:-1]):
        here = wrong[0] if wrong[1] == n else ""
        width = x.shape[-1]
        h = F.layer_norm(x, (width,), eps=1e-6 if here == "eps" else 1e-5)
        q, k, v = (h @ w["qkv"]).chunk(3, -1)
        if here == "head":
            q, k, v = (t.reshape(batch, heads, time, -1) for t in (q, k, v))
        else:
            q, k, v = (t.reshape(batch, time, heads, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2)
        if here != "scale":
            scores = scores / (width // heads) ** 0.5
        allowed = torch.tril(torch.ones(time, time, dtype=torch.bool), 1 if here == "mask" else 0)
        mixed = scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ v
        mixed = mixed.transpose(1, 2).reshape(batch, time, width)
        if here == "cast":
            mixed = mixed.to(torch.bfloat16).to(x.dtype)
        x = x + mixed @ (w["out"] * 1.01 if here == "weight" else w["out"])
        h = F.layer_norm(x, (width,))
        x = x + F.gelu(h @ w["up"], approximate="tanh" if here == "gelu" else "none") @ w["down"]
        middle = x.to(torch.bfloat16).mean(-1, keepdim=True).to(x.dtype) if here == "reduce" else x.mean(-1, keepdim=True)
        x = x - middle
    return x


class Convolutional(nn.Module):
    """Convolutions with batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()) for a, b in ((3, 8), (8, 16), (16, 16))
        ])
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return self.head(x.mean((2, 3)))


def healthy(form: str) -> Iterator[tuple[str, Call]]:
    """Models in one format."""
    dtype: torch.dtype = getattr(torch, form)
    for seed, width, depth in ((0, 16, 2), (1, 64, 3), (2, 256, 2)):
        torch.manual_seed(seed)
        net = nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))])
        yield f"mlp{width}", Call("net(x)", net.to(dtype), (torch.randn(48, width).to(dtype),), {}, net, ("x",))
    torch.manual_seed(3)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), 2, enable_nested_tensor=False).eval()
    yield "encoder", Call("net(x)", encoder.to(dtype), (torch.randn(12, 10, 32).to(dtype),), {}, encoder, ("x",))
    cnn = Convolutional().eval().to(dtype)
    yield "cnn", Call("net(x)", cnn, (torch.randn(12, 3, 16, 16).to(dtype),), {}, cnn, ("x",))
    lstm = nn.LSTM(12, 24, batch_first=True).to(dtype)
    if form == "float32":
        yield "lstm", Call("net(x)", lambda x: lstm(x)[0], (torch.randn(12, 15, 12).to(dtype),), {}, None, ("x",))
    held = [{k: w.to(dtype) for k, w in layer.items()} for layer in layers(2, 32, 4)]
    ids = torch.randint(0, 50, (8, 16), generator=torch.Generator().manual_seed(0))
    yield "gpt", Call("transformer(ids)", lambda ids: transformer(ids, held, 4), (ids,), {}, None, ("ids",))


def rewritten() -> Iterator[tuple[str, Call, Call]]:
    """The same formula written two ways."""
    torch.manual_seed(5)
    x, w, b = torch.randn(24, 96), torch.randn(40, 96) / 10, torch.randn(40)
    image, kernel = torch.randn(4, 3, 12, 12), torch.randn(6, 3, 3, 3)
    q, k, v = (torch.randn(2, 4, 12, 16) for _ in range(3))

    def call(f: Any, *args: Any) -> Call:
        return Call("f", f, args)

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.transpose(-1, -2) / 4).softmax(-1) @ v

    def unfolded(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return (k.flatten(1) @ F.unfold(x, 3)).reshape(4, 6, 10, 10)

    def norm(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()

    def soft(x: torch.Tensor) -> torch.Tensor:
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    def in_steps(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros_like(x[:, 0])
        for column in x.unbind(1):
            total = total + column
        return total

    for form in ("float32", "bfloat16"):
        d = getattr(torch, form)
        x_, w_, b_, q_, k_, v_ = (t.to(d) for t in (x, w, b, q, k, v))
        yield f"linear {form}", call(F.linear, x_, w_, b_), call(lambda x, w, b: x @ w.T + b, x_, w_, b_)
        yield f"einsum {form}", call(lambda x, w: x @ w.T, x_, w_), call(lambda x, w: torch.einsum("ij,kj->ik", x, w), x_, w_)
        halves = call(lambda x, w: x[:, :50] @ w[:, :50].T + x[:, 50:] @ w[:, 50:].T, x_, w_)
        yield f"chunks {form}", call(lambda x, w: x @ w.T, x_, w_), halves
        yield f"rows {form}", call(lambda x, w: x @ w.T, x_, w_), call(lambda x, w: torch.stack([w @ r for r in x]), x_, w_)
        yield f"attention {form}", call(F.scaled_dot_product_attention, q_, k_, v_), call(attention, q_, k_, v_)
        yield f"norm {form}", call(lambda x: F.layer_norm(x, (96,)), x_), call(norm, x_)
        yield f"softmax {form}", call(lambda x: x.softmax(-1), x_), call(soft, x_)
        yield f"sum {form}", call(lambda x: x.sum(1), x_), call(in_steps, x_)
    yield "conv", call(F.conv2d, image, kernel), call(unfolded, image, kernel)
    yield "logsumexp", call(lambda x: x.logsumexp(-1), x), call(lambda x: x.exp().sum(-1).log(), x)
    yield "variance", call(lambda x: x.var(-1, unbiased=False), x), call(lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1), x)
    yield "gelu", call(F.gelu, x), call(lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), x)
    yield "cross entropy", call(lambda x: -x.log_softmax(-1)[:, 0], x), call(lambda x: x.logsumexp(-1) - x[:, 0], x)
    yield "norms", call(lambda x: torch.linalg.vector_norm(x, dim=1), x), call(lambda x: (x * x).sum(1).sqrt(), x)


def faulty() -> Iterator[tuple[str, Any, Any, int, tuple[str, ...]]]:
    """(name, call with a fault, output in float64 with a fault, layers, kinds of faults)."""
    kinds = ("eps", "weight", "gelu", "scale", "reduce", "position", "mask", "head", "cast")
    for width, heads, count, seed in ((32, 4, 3, 0), (64, 8, 2, 1)):
        held = layers(count, width, seed)
        ids = torch.randint(0, 50, (4, 16), generator=torch.Generator().manual_seed(seed))

        def call_of(fault: Any, held: Layers = held, ids: torch.Tensor = ids, heads: int = heads) -> Call:
            return Call("transformer(ids)", lambda ids: transformer(ids, held, heads, fault), (ids,), {}, None, ("ids",))

        def wide(fault: Any, held: Layers = held, ids: torch.Tensor = ids, heads: int = heads) -> np.ndarray:
            exact = [{k: w.double() for k, w in layer.items()} for layer in held]
            found: np.ndarray = transformer(ids, exact, heads, fault).numpy()
            return found

        yield f"gpt{width} torch", call_of, wide, count, kinds
