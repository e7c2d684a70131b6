"""Models for differences.py, JAX: a transformer and small networks, with a place for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numdebug.load.calls import Call

Layers = list[dict[str, Any]]


def layers(count: int, width: int, seed: int) -> Layers:
    """Weights of a transformer."""
    g = np.random.default_rng(seed)

    def matrix(a: int, b: int) -> np.ndarray:
        found: np.ndarray = (g.standard_normal((a, b)) / a**0.5).astype(np.float32)
        return found

    made: Layers = [
        {"qkv": matrix(width, 3 * width), "out": matrix(width, width), "up": matrix(width, 4 * width), "down": matrix(4 * width, width)}
        for _ in range(count)
    ]
    made.append({"table": matrix(50, width) * np.float32(0.7), "positions": matrix(64, width) * np.float32(0.8)})
    return made


def normed(x: Any, eps: float) -> Any:
    """Layer normalisation without weights."""
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + eps)


def transformer(ids: Any, held: Layers, heads: int, fault: Any = None) -> Any:
    """A small GPT without a head; `fault` changes one layer."""
    batch, time = ids.shape
    wrong = (fault.kind, fault.layer) if fault is not None else ("", -1)
    where = jnp.arange(time)
    if wrong[0] == "position":
        where = where + 1
    x = held[-1]["table"][ids] + held[-1]["positions"][where]
    for n, w in enumerate(held[:-1]):
        here = wrong[0] if wrong[1] == n else ""
        width = x.shape[-1]
        h = normed(x, 1e-6 if here == "eps" else 1e-5)
        q, k, v = jnp.split(h @ w["qkv"], 3, -1)
        if here == "head":
            q, k, v = (t.reshape(batch, heads, time, -1) for t in (q, k, v))
        else:
            q, k, v = (t.reshape(batch, time, heads, -1).transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2)
        if here != "scale":
            scores = scores / (width // heads) ** 0.5
        allowed = jnp.tril(jnp.ones((time, time), bool), 1 if here == "mask" else 0)
        mixed = jax.nn.softmax(jnp.where(allowed, scores, -jnp.inf), -1) @ v
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, time, width)
        if here == "cast":
            mixed = mixed.astype(jnp.bfloat16).astype(x.dtype)
        x = x + mixed @ (w["out"] * 1.01 if here == "weight" else w["out"])
        h = normed(x, 1e-5)
        x = x + jax.nn.gelu(h @ w["up"], approximate=here == "gelu") @ w["down"]
        middle = x.astype(jnp.bfloat16).mean(-1, keepdims=True).astype(x.dtype) if here == "reduce" else x.mean(-1, keepdims=True)
        x = x - middle
    return x


def mlp(x: Any, held: list[Any]) -> Any:
    """Dense layers with tanh."""
    for w in held[:-1]:
        x = jnp.tanh(x @ w)
    return x @ held[-1]


def _placed(held: Any, form: str) -> Any:
    return jax.tree_util.tree_map(lambda w: jnp.asarray(w, form), held)


def healthy(form: str) -> Iterator[tuple[str, Call]]:
    """Models in one format."""
    g = np.random.default_rng(0)
    for width, depth in ((10, 3), (64, 3), (256, 2)):
        held = _placed([g.standard_normal((width, width)) / width**0.5 for _ in range(depth)], form)
        x = jnp.asarray(g.standard_normal((48, width)), form)
        yield f"mlp{width}", Call("mlp(x)", lambda x, held: mlp(x, held), (x, held), {}, None, ("x", "held"))
        yield f"vmap{width}", Call("vmap", lambda x, held: jax.vmap(lambda r: mlp(r, held))(x), (x, held), {}, None, ("x", "held"))
        yield f"jit{width}", Call("jit", jax.jit(lambda x, held: mlp(x, held)), (x, held), {}, None, ("x", "held"))
    held = _placed(layers(2, 32, 4), form)
    ids = jnp.asarray(g.integers(0, 50, (8, 16)))
    yield "gpt", Call("transformer(ids)", lambda ids, held: transformer(ids, held, 4), (ids, held), {}, None, ("ids", "held"))
    image, kernel = jnp.asarray(g.standard_normal((8, 3, 12, 12)), form), jnp.asarray(g.standard_normal((6, 3, 3, 3)), form)
    yield "conv", Call("conv", lambda x, k: jax.nn.relu(jax.lax.conv(x, k, (1, 1), "SAME")), (image, kernel), {}, None, ("x", "k"))


def rewritten() -> Iterator[tuple[str, Call, Call]]:
    """The same formula written two ways."""
    g = np.random.default_rng(1)
    x, w = jnp.asarray(g.standard_normal((24, 96)), "float32"), jnp.asarray(g.standard_normal((96, 40)) / 10, "float32")

    def call(f: Any, *args: Any) -> Call:
        return Call("f", f, args)

    def running(x: Any) -> Any:
        return jax.lax.scan(lambda c, r: (c + r, None), jnp.zeros_like(x[0]), x)[0]

    def soft(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    yield "einsum", call(lambda x, w: x @ w, x, w), call(lambda x, w: jnp.einsum("ij,jk->ik", x, w), x, w)
    yield "vmap", call(lambda x, w: x @ w, x, w), call(lambda x, w: jax.vmap(lambda r: r @ w)(x), x, w)
    yield "loop", call(lambda x, w: x @ w, x, w), call(lambda x, w: jnp.stack([r @ w for r in x]), x, w)
    yield "chunks", call(lambda x, w: x @ w, x, w), call(lambda x, w: x[:, :50] @ w[:50] + x[:, 50:] @ w[50:], x, w)
    yield "scan", call(lambda x: x.sum(0), x), call(running, x)
    yield "softmax", call(lambda x: jax.nn.softmax(x, -1), x), call(soft, x)
    yield "logsumexp", call(lambda x: jax.nn.logsumexp(x, -1), x), call(lambda x: jnp.log(jnp.exp(x).sum(-1)), x)
    yield "variance", call(lambda x: x.var(-1), x), call(lambda x: jnp.square(x - x.mean(-1, keepdims=True)).mean(-1), x)
    yield "gelu", call(lambda x: jax.nn.gelu(x, approximate=False), x), call(lambda x: 0.5 * x * (1 + jax.lax.erf(x / 2**0.5)), x)
    yield "sigmoid", call(jax.nn.sigmoid, x), call(lambda x: 1 / (1 + jnp.exp(-x)), x)
    yield "norms", call(lambda x: jnp.linalg.norm(x, axis=1), x), call(lambda x: jnp.sqrt((x * x).sum(1)), x)


def faulty() -> Iterator[tuple[str, Any, Any, int, tuple[str, ...]]]:
    """(name, call with a fault, output in float64 with a fault, layers, kinds of faults)."""
    kinds = ("eps", "weight", "gelu", "scale", "reduce", "position", "mask", "head", "cast")
    for width, heads, count, seed in ((32, 4, 3, 0), (64, 8, 2, 1)):
        held = layers(count, width, seed)
        ids = np.random.default_rng(seed).integers(0, 50, (4, 16))

        def call_of(fault: Any, held: Layers = held, ids: Any = ids, heads: int = heads) -> Call:
            near = _placed(held, "float32")
            return Call("transformer(ids)", lambda ids: transformer(ids, near, heads, fault), (jnp.asarray(ids),), {}, None, ("ids",))

        def wide(fault: Any, held: Layers = held, ids: Any = ids, heads: int = heads) -> np.ndarray:
            with jax.enable_x64(True):
                return np.asarray(transformer(jnp.asarray(ids), _placed(held, "float64"), heads, fault))

        yield f"gpt{width} jax", call_of, wide, count, kinds
