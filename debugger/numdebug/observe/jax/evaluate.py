"""One JAX primitive computed again: in NumPy where there is a rule, else by the primitive itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numdebug.observe.jax.elementwise import ELEMENTWISE
from numdebug.observe.jax.structural import STRUCTURAL, floating, widest

RULES = {**STRUCTURAL, **ELEMENTWISE}
# XLA on a CPU reads subnormal numbers as 0; these are where that changes more than a last digit.
_SHARP = frozenset({"log", "div", "rsqrt", "sqrt", "pow", "integer_pow", "sign", "eq", "ne", "gt", "lt"})
_SCATTERS = {
    "scatter": jax.lax.scatter, "scatter-add": jax.lax.scatter_add, "scatter-mul": jax.lax.scatter_mul,
    "scatter-min": jax.lax.scatter_min, "scatter-max": jax.lax.scatter_max,
}  # fmt: skip
_KEEPS = frozenset(STRUCTURAL) - {"dot_general", "reduce_sum", "reduce_prod", "cumsum", "cumprod", "convert_element_type"}


def compute(primitive: Any, params: dict[str, Any], formats: Sequence[Any], arrays: Sequence[Any], wide: bool) -> list[Any]:
    """Results in `formats` (float64 for floating ones if `wide`). Raises where neither NumPy nor JAX can do it."""
    name = primitive.name
    with np.errstate(all="ignore"):
        if name in _SHARP and not wide:
            arrays = [flushed(a) for a in arrays]
        rule = RULES.get(name)
        try:
            if rule is None or any(not isinstance(a, np.ndarray | np.generic) for a in arrays):
                raise NotImplementedError
            result = rule([np.asarray(a) for a in arrays], params, wide)
        except NotImplementedError:
            result = by_jax(primitive, params, arrays, wide)
        several = list(result) if isinstance(result, list | tuple) else [result]
        return [_as(r, f, wide, name not in _KEEPS) for r, f in zip(several, formats, strict=True)]


def _as(result: Any, dtype: Any, wide: bool, may_flush: bool) -> Any:
    if not isinstance(result, np.ndarray | np.generic):
        return result  # a random key
    array = np.asarray(result)
    wanted = widest(dtype) if wide else np.dtype(dtype)
    if array.dtype != wanted:
        array = array.astype(wanted)
    return flushed(array) if may_flush and not wide else array


def flushed(array: Any) -> Any:
    """Subnormal numbers as 0 of the same sign. float16 is computed in float32, where its own are normal."""
    if not isinstance(array, np.ndarray) or not floating(array.dtype) or array.dtype.name == "float16" or array.dtype.itemsize == 1:
        return array
    tiny = np.finfo(np.float64).tiny if array.dtype == np.float64 else np.finfo(np.float32).tiny
    small = np.abs(array) < array.dtype.type(tiny)
    if not small.any():
        return array
    return np.where(small, np.copysign(array.dtype.type(0), array), array).astype(array.dtype)


def by_jax(primitive: Any, params: dict[str, Any], arrays: Sequence[Any], wide: bool) -> Any:
    """The primitive's own evaluation, one operation at a time."""
    arrays = _as_traced(params.get("jaxpr"), arrays)
    if wide:
        params = {k: _wider(v) if k in ("dtype", "new_dtype", "preferred_element_type") else v for k, v in params.items()}
    many = wide or any(getattr(a, "dtype", None) in (np.float64, np.int64, np.uint64, np.complex128) for a in arrays)
    with jax.enable_x64(many or bool(jax.config.jax_enable_x64)):
        given = [jnp.asarray(a) if isinstance(a, np.ndarray | np.generic) else a for a in arrays]
        if wide and primitive.name in _SCATTERS:  # its inner function is traced for one format
            kept = {k: params[k] for k in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}
            return host(_SCATTERS[primitive.name](*given, **kept))
        result = primitive.bind(*given, **params)
        return [host(r) for r in result] if primitive.multiple_results else host(result)


def _as_traced(closed: Any, arrays: Sequence[Any]) -> Sequence[Any]:
    """Whole numbers in the formats that a loop's body was traced for: a plain 0 counts as 64 bits here, and as 32 there."""
    expected = getattr(closed, "in_avals", None)
    if expected is None or len(expected) != len(arrays):
        return arrays
    return [
        a.astype(e.dtype) if isinstance(a, np.ndarray) and a.dtype.kind in "iu" and a.dtype != e.dtype else a
        for a, e in zip(arrays, expected, strict=True)
    ]


def _wider(dtype: Any) -> Any:
    return widest(dtype) if dtype is not None else None


def host(array: Any) -> Any:
    """A JAX array as NumPy's; random keys stay what they are."""
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return array
    return np.asarray(array)
