"""Models, optimizers and derivatives of the frameworks that a program has imported. numdebug itself imports none of them here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import unwrap
from types import FunctionType
from typing import Any

MODELS = {
    "torch": ("torch.nn.Module",),
    "equinox": ("equinox.Module",),
    "linen": ("flax.linen.Module",),
    "nnx": ("flax.nnx.Module",),
    "keras": ("keras.Layer", "keras.Model"),
}
LOSSES = ("torch.nn.modules.loss._Loss", "keras.losses.Loss")
OPTIMIZERS = ("torch.optim.Optimizer", "keras.optimizers.Optimizer", "optax.GradientTransformation", "flax.nnx.Optimizer")
VARIABLES = ("variables", "params", "state", "weights", "parameters")  # what a flax.linen module is applied to


def loaded(path: str) -> Any:
    """`a.b.C` where the program has imported module `a` or `a.b`, else None."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:length]))
        if found is None:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


def is_a(value: Any, *paths: str) -> bool:
    """Whether `value` is an object of one of these classes."""
    return any(isinstance(kind, type) and isinstance(value, kind) for kind in map(loaded, paths))


def model_kind(value: Any) -> str | None:
    """torch, equinox, linen, nnx or keras: whose model, layer or loss `value` is. A wrapped function is none."""
    if isinstance(value, type) or wrapped(value) is not None:
        return None
    return next((kind for kind, paths in MODELS.items() if is_a(value, *paths)), None)


def model_class(value: Any) -> bool:
    """A class of such models."""
    bases = [base for paths in MODELS.values() for base in map(loaded, paths)]
    return isinstance(value, type) and any(isinstance(base, type) and issubclass(value, base) for base in bases)


def wrapped(value: Any) -> FunctionType | None:
    """The Python function inside a transformed one: jax.jit(f), eqx.filter_grad(f), functools.cache(f)."""
    if isinstance(value, FunctionType) and not hasattr(value, "__wrapped__") or isinstance(value, type) or not callable(value):
        return None
    inner = unwrap(value) if hasattr(value, "__wrapped__") else None
    return inner if isinstance(inner, FunctionType) else None


def takes_gradient(value: Any) -> bool:
    """Whether a transformed function gives a derivative, by what JAX and Equinox write into it."""
    layer, seen = value, 0
    while layer is not None and seen < 8:
        if "radient of" in (getattr(layer, "__doc__", None) or "") or "Grad" in type(layer).__name__:
            return True
        layer, seen = getattr(layer, "__wrapped__", None) or getattr(layer, "_fn", None), seen + 1
    return False


def forward(model: Any) -> Callable[..., Any]:
    """The method whose parameters a call of the model takes."""
    method: Callable[..., Any] = getattr(model, {"torch": "forward", "keras": "call"}.get(model_kind(model) or "", "__call__"))
    return method


def is_tree(value: Any) -> bool:
    """A container of JAX, of arrays alone: a train state, an optimizer's state."""
    jax = sys.modules.get("jax")
    if jax is None or isinstance(value, type) or callable(value) and not hasattr(value, "__dataclass_fields__"):
        return False
    leaves = jax.tree_util.tree_leaves(value)
    if len(leaves) == 1 and leaves[0] is value:
        return False
    return (bool(leaves) or isinstance(value, tuple)) and all(hasattr(leaf, "dtype") or isinstance(leaf, int | float) for leaf in leaves)


def is_key(value: Any) -> bool:
    """A key for JAX's random numbers."""
    name = str(getattr(value, "dtype", ""))
    return name.startswith("key<") or (name == "uint32" and tuple(getattr(value, "shape", ())) == (2,) and is_jax(value))


def is_jax(value: Any) -> bool:
    """An array of JAX."""
    return is_a(value, "jax.Array")


def differentiable(value: Any) -> bool:
    """An array of floating-point numbers."""
    return hasattr(value, "shape") and str(getattr(value, "dtype", "")).startswith(("float", "bfloat"))


def has_floats(value: Any) -> bool:
    """Whether a tree of JAX has something to differentiate in it."""
    jax = sys.modules["jax"]
    return any(differentiable(leaf) for leaf in jax.tree_util.tree_leaves(value))


def differentiate(function: Callable[..., Any], args: tuple[Any, ...], at: tuple[int, ...], loss: Callable[[Any], Any]) -> Any:
    """Value and gradient of the scalar that `loss` finds in what `function` returns, for the arguments at these positions."""
    jax = sys.modules["jax"]

    @wraps(function)
    def scalar(*given: Any) -> Any:
        return loss(function(*given))

    nnx = loaded("flax.nnx.value_and_grad")
    if nnx is not None and any(model_kind(args[i]) == "nnx" for i in at):
        return nnx(scalar, argnums=at)(*args)
    leaves, tree = jax.tree_util.tree_flatten(tuple(args[i] for i in at))
    if all(differentiable(leaf) for leaf in leaves):
        return jax.value_and_grad(scalar, argnums=at)(*args)
    places = [i for i, leaf in enumerate(leaves) if differentiable(leaf)]

    def of_floats(floats: list[Any]) -> Any:
        mixed = list(leaves)
        for place, value in zip(places, floats, strict=True):
            mixed[place] = value
        given = list(args)
        for position, argument in zip(at, jax.tree_util.tree_unflatten(tree, mixed), strict=True):
            given[position] = argument
        return scalar(*given)

    return jax.value_and_grad(of_floats)([leaves[i] for i in places])


def variables(values: Mapping[str, Any]) -> str | None:
    """The name of what the file would apply a flax.linen module to."""
    jax = sys.modules.get("jax")
    for name in VARIABLES:
        value = values.get(name)
        if jax is not None and isinstance(value, Mapping) and has_floats(value):
            return name
    return None
