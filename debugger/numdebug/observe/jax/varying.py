"""The same JAX computation another way: op by op, compiled, in another format, with dropout on or off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from numdebug.load import frameworks
from numdebug.load.calls import Call


def floats(held: Any) -> bool:
    """An array of floating-point numbers."""
    return isinstance(held, jax.Array) and jnp.issubdtype(held.dtype, jnp.floating)


def op_by_op(call: Call) -> Call:
    """Nothing compiled as a whole."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with jax.disable_jit():
            return call.function(*args, **kwargs)

    return replace(call, function=run)


def compiled(call: Call) -> Call:
    """The whole call as one compiled function; what is no array is part of the program."""

    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if hasattr(leaf, "dtype")]

        def of_arrays(arrays: list[Any]) -> Any:
            whole = list(leaves)
            for place, array in zip(places, arrays, strict=True):
                whole[place] = array
            inner, keywords = jax.tree_util.tree_unflatten(tree, whole)
            return call.function(*inner, **keywords)

        return jax.jit(of_arrays)([leaves[i] for i in places])

    return replace(call, function=run)


def in_format(call: Call, name: str) -> Call:
    """Arrays of the model and the arguments in this number format."""
    dtype = jnp.dtype(name)

    def cast(leaf: Any) -> Any:
        return leaf.astype(dtype) if floats(leaf) else leaf

    def run(*args: Any, **kwargs: Any) -> Any:
        with jax.enable_x64(True) if name == "float64" else jax.enable_x64(jax.config.jax_enable_x64):
            inner, keywords = jax.tree_util.tree_map(cast, (args, kwargs))
            function = jax.tree_util.tree_map(cast, call.function) if frameworks.model_kind(call.function) == "equinox" else call.function
            return function(*inner, **keywords)

    return replace(call, function=run)


def owns_its_models(call: Call) -> bool:
    """What is changed about a copy of the model takes effect."""
    return frameworks.model_kind(call.model) == "equinox" or call.model is None or frameworks.model_kind(call.model) == "linen"


def in_mode(call: Call, training: bool) -> Call:
    """Equinox alone: dropout and batch normalisation as in training, or not."""
    import equinox as eqx

    model = eqx.nn.inference_mode(call.model, value=not training)
    return replace(call, function=model, model=model)


@contextmanager
def repeatable() -> Iterator[None]:
    """JAX's random numbers are the program's own keys."""
    yield
