"""JAX primitives that work element by element, in NumPy. `arrays` are the operands; results may still have another format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

Arrays = Sequence[np.ndarray]
Rule = Callable[[Arrays, dict[str, Any], bool], Any]
LOW = frozenset({"bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"})


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy and some of NumPy know nothing of bfloat16: compute in float32, as XLA does on a CPU."""

    def call(*arrays: np.ndarray) -> Any:
        return function(*[a.astype(np.float32) if a.dtype.name in LOW else a for a in arrays])

    return call


def _unary(function: Callable[..., Any]) -> Rule:
    wider = in_float32(function)
    return lambda arrays, params, wide: wider(arrays[0])


def _binary(function: Callable[..., Any]) -> Rule:
    return lambda arrays, params, wide: function(arrays[0], arrays[1])


def _logistic(x: np.ndarray) -> np.ndarray:
    return special.expit(x) if not np.iscomplexobj(x) else 1 / (1 + np.exp(-x))


def _sign(x: np.ndarray) -> np.ndarray:
    if np.iscomplexobj(x):
        return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
    return np.sign(x)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":  # towards zero, and -1 for a zero divisor, as XLA does
        safe = np.where(b == 0, 1, b)
        quotient = np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)) if a.dtype.kind == "i" else a // safe
        return np.where(b == 0, np.array(-1).astype(a.dtype), quotient)
    return np.divide(a, b)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iu":
        return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b)))
    return np.fmod(a, b)


def _integer_pow(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    """By repeated multiplication, as XLA does it: an overflow on the way is an overflow."""
    exponent = params["y"]
    base = arrays[0]
    if exponent == 0:
        return np.ones_like(base)
    power, result, left = base, None, abs(exponent)
    while left:
        if left & 1:
            result = power if result is None else result * power
        left >>= 1
        if left:
            power = power * power
    assert result is not None
    return np.reciprocal(result) if exponent < 0 else result


def _round(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    x = arrays[0]
    if int(params["rounding_method"]) == 1:  # to nearest, ties to even
        return in_float32(np.round)(x)
    return in_float32(lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5))(x)


def _maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.logical_or(a, b) if a.dtype == bool else np.maximum(a, b)


def _minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.logical_and(a, b) if a.dtype == bool else np.minimum(a, b)


def _clamp(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    low, x, high = arrays
    return np.minimum(np.maximum(low, x), high)


def _select_n(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    which, *cases = arrays
    if which.ndim == 0:
        return cases[int(which)]
    if len(cases) == 2:
        return np.where(which, cases[1], cases[0])
    return np.choose(which, cases)


def _shift(function: Callable[..., Any]) -> Rule:
    def rule(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
        x, by = arrays
        bits = x.dtype.itemsize * 8
        inside = by.astype(np.uint64) < bits
        safe = np.where(inside, by, 0).astype(x.dtype)
        return np.where(inside, function(x, safe), 0).astype(x.dtype)

    return rule


def _logical_right(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return (x.view(unsigned) >> by.astype(unsigned)).view(x.dtype)


def _arithmetic_right(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    x, by = arrays
    return x >> np.minimum(by, x.dtype.itemsize * 8 - 1).astype(x.dtype)


def _not(x: np.ndarray) -> np.ndarray:
    return np.logical_not(x) if x.dtype == bool else np.invert(x)


def _logical(on_bool: Callable[..., Any], on_int: Callable[..., Any]) -> Rule:
    return lambda arrays, params, wide: (on_bool if arrays[0].dtype == bool else on_int)(arrays[0], arrays[1])


ELEMENTWISE: dict[str, Rule] = {
    "neg": _unary(np.negative), "abs": _unary(np.abs), "sign": _unary(_sign), "floor": _unary(np.floor), "ceil": _unary(np.ceil),
    "exp": _unary(np.exp), "exp2": _unary(np.exp2), "log": _unary(np.log), "log1p": _unary(np.log1p), "expm1": _unary(np.expm1),
    "sqrt": _unary(np.sqrt), "rsqrt": _unary(lambda x: np.reciprocal(np.sqrt(x))), "cbrt": _unary(np.cbrt),
    "sin": _unary(np.sin), "cos": _unary(np.cos), "tan": _unary(np.tan), "asin": _unary(np.arcsin), "acos": _unary(np.arccos),
    "atan": _unary(np.arctan), "sinh": _unary(np.sinh), "cosh": _unary(np.cosh), "tanh": _unary(np.tanh), "asinh": _unary(np.arcsinh),
    "acosh": _unary(np.arccosh), "atanh": _unary(np.arctanh), "logistic": _unary(_logistic), "erf": _unary(special.erf),
    "erfc": _unary(special.erfc), "erf_inv": _unary(special.erfinv), "lgamma": _unary(special.gammaln), "digamma": _unary(special.digamma),
    "bessel_i0e": _unary(special.i0e), "bessel_i1e": _unary(special.i1e), "is_finite": _unary(np.isfinite), "not": _unary(_not),
    "square": _unary(np.square), "real": _unary(np.real), "imag": _unary(np.imag), "conj": _unary(np.conj),
    "population_count": _unary(np.bitwise_count), "copy": _unary(np.copy), "copy_p": _unary(np.copy), "stop_gradient": _unary(np.copy),
    "optimization_barrier": lambda arrays, params, wide: list(arrays), "reduce_precision": _unary(np.copy),
    "add": _binary(np.add), "add_any": _binary(np.add), "sub": _binary(np.subtract), "mul": _binary(np.multiply), "div": _binary(_divide),
    "rem": _binary(_remainder), "pow": _binary(in_float32(np.power)), "max": _binary(_maximum), "min": _binary(_minimum),
    "atan2": _binary(in_float32(np.arctan2)), "nextafter": _binary(np.nextafter), "complex": _binary(lambda re, im: re + 1j * im),
    "eq": _binary(np.equal), "ne": _binary(np.not_equal), "lt": _binary(np.less), "le": _binary(np.less_equal),
    "gt": _binary(np.greater), "ge": _binary(np.greater_equal), "and": _logical(np.logical_and, np.bitwise_and),
    "or": _logical(np.logical_or, np.bitwise_or), "xor": _logical(np.logical_xor, np.bitwise_xor),
    "shift_left": _shift(np.left_shift), "shift_right_logical": _shift(_logical_right), "shift_right_arithmetic": _arithmetic_right,
    "igamma": _binary(in_float32(special.gammainc)), "igammac": _binary(in_float32(special.gammaincc)),
    "zeta": _binary(in_float32(special.zeta)), "integer_pow": _integer_pow, "round": _round, "clamp": _clamp, "select_n": _select_n,
}  # fmt: skip
"""By the primitive's name."""
