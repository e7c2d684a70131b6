"""Functions of the library that count as one operation: softmax, logsumexp, var, norm, inverse, random draws, ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numdebug.observe.jax.interpret import Item
from numdebug.observe.jax.sites import draws

_FILES = ("/jax/_src/", "/flax/", "/optax/", "/equinox/")
COMPOSITE = {
    "softmax": "softmax", "_softmax": "softmax", "log_softmax": "log_softmax", "logsumexp": "logsumexp", "_logsumexp": "logsumexp",
    "logaddexp": "logaddexp", "softplus": "softplus", "log_sigmoid": "log_sigmoid", "relu": "relu", "relu6": "relu6", "silu": "silu",
    "swish": "silu", "gelu": "gelu", "elu": "elu", "selu": "selu", "leaky_relu": "leaky_relu", "sigmoid": "sigmoid",
    "var": "var", "_var": "var", "std": "std", "_std": "std", "mean": "mean", "_mean": "mean", "norm": "norm", "inv": "inverse",
    "solve": "solve", "lstsq": "lstsq", "pinv": "linalg_pinv", "det": "det", "slogdet": "slogdet", "_slogdet": "slogdet",
    "safe_norm": "norm", "nanmean": "nanmean", "nansum": "nansum", "nanvar": "nanvar", "nanstd": "nanstd",
    "eigh": "eigh", "svd": "svd", "cho_solve": "cholesky_solve",
}  # fmt: skip
_MATRIX = frozenset({"norm", "inv", "solve", "lstsq", "pinv", "det", "slogdet", "_slogdet", "eigh", "svd"})


class Group(Item):
    """Several items as one; computed again by running them."""

    def again(self, arrays: Sequence[Any], wide: bool) -> list[Any]:
        """The parts one after the other."""
        env: dict[int, Any] = {id(s): a for s, a in zip(self.operands, arrays, strict=True)}
        for part in self.parts:
            given = [env[id(s)] if id(s) in env else s.constant(wide) for s in part.operands]
            results = [s.array for s in part.results] if part.given else part.again(given, wide)
            env.update((id(s), r) for s, r in zip(part.results, results, strict=True))
        return [env[id(s)] for s in self.results]


def composite(item: Item) -> tuple[str, int] | None:
    """(canonical name, depth in `library`) of the outermost function that counts as one operation."""
    for depth, (name, file) in enumerate(item.library):
        path = file.replace("\\", "/")
        if draws(path):
            return "random", depth
        if name in COMPOSITE and any(part in path for part in _FILES) and (name not in _MATRIX or "linalg" in path or "optax" in path):
            return COMPOSITE[name], depth
    return None


def grouped(items: list[Item]) -> list[Item]:
    """The same items in order, with the parts of one library call as a Group; derivative rules stay beside it and point to it."""
    out: list[Item] = []
    current: list[Item] = []
    beside: list[Item] = []
    mark: Any = None
    head: tuple[str, int] | None = None

    def close() -> None:
        nonlocal current, beside
        if current:
            whole = _group(current, head[0]) if head is not None and (len(current) > 1 or head[0] == "random") else current[0]
            if head is not None and len(current) == 1 and head[0] not in ("random", "mean"):
                whole.name = head[0] if head[0] in ("relu", "sigmoid", "norm", "inverse", "det") else whole.name
            out.append(whole)
            for item in beside:
                item.forward = whole
        out.extend(beside)
        current, beside = [], []

    for item in items:
        found = composite(item) if item.phase == "forward" or item.forward is not None else None
        key: Any = None
        if found is not None:
            outside = item.calls[: _depth(item, found[1])]
            key = (found, item.places, outside, item.loop)
        again = current and item.phase == "forward" and item.name == current[0].name and item.key == current[0].key and item.key != 0
        if key is None or key != mark or again:
            close()
            mark, head = key, found
        if key is None:
            out.append(item)
        elif item.phase == "forward":
            current.append(item)
        else:
            beside.append(item)
    close()
    return out


def _depth(item: Item, depth: int) -> int:
    """How many of the enclosing calls lie outside of the library function."""
    inside = sum(1 for name, _ in item.library[depth:] if name)
    return max(0, len(item.calls) - inside)


def _group(parts: list[Item], name: str) -> Group:
    made = {id(s) for p in parts for s in p.results}
    operands = {id(s): s for p in parts for s in p.operands if id(s) not in made and s.number is None}
    first = parts[0]
    results = {id(s): s for p in reversed(parts) for s in p.results}
    group = Group(
        None, name, {}, list(operands.values()), list(results.values()), first.places, first.library, first.phase, first.loop, first.step,
        first.entry, first.key, first.jitted, name == "random", first.calls, parts=parts, scope=first.scope,
    )  # fmt: skip
    for slot in group.results:
        slot.item = group
    dims = next((p.params["axes"] for p in parts if "axes" in p.params), None)
    if dims is not None and len(dims) == 1:
        size = max((p.operands[0].array.ndim for p in parts if "axes" in p.params), default=0)
        group.params = {"dim": -1 if dims[0] == size - 1 else dims[0]}
    return group
