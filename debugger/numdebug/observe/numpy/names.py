"""NumPy's functions in the field's own words, and their plain arguments by name."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np

_CANONICAL = {
    "subtract": "sub", "multiply": "mul", "true_divide": "div", "divide": "div", "truediv": "div", "power": "pow", "float_power": "pow",
    "negative": "neg", "absolute": "abs", "fabs": "abs", "arctan2": "atan2", "arctan": "atan", "arccos": "acos", "arcsin": "asin",
    "arccosh": "acosh", "arcsinh": "asinh", "arctanh": "atanh", "fmax": "maximum", "fmin": "minimum", "greater": "gt", "less": "lt",
    "greater_equal": "ge", "less_equal": "le", "equal": "eq", "not_equal": "ne", "rint": "round", "around": "round", "fix": "trunc",
    "mod": "remainder", "floordiv": "floor_divide", "logaddexp": "logsumexp", "max": "amax", "min": "amin", "and_": "bitwise_and",
    "or_": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift", "left_shift":
    "bitwise_left_shift", "right_shift": "bitwise_right_shift", "invert": "bitwise_not", "clip": "clamp", "concatenate": "cat",
    "hstack": "cat", "vstack": "stack", "column_stack": "stack", "array": "stack", "asarray": "stack", "dot": "matmul", "vdot": "matmul",
    "inner": "matmul", "astype": "cast", "ravel": "reshape", "flatten": "reshape", "inv": "inverse", "det": "det", "average": "mean",
    "broadcast_to": "expand", "swapaxes": "transpose", "moveaxis": "transpose", "expand_dims": "unsqueeze", "fromiter": "stack",
    "pinv": "linalg_pinv", "qr": "linalg_qr", "item": "_local_scalar_dense", "zeros_like": "zeros", "ones_like": "ones",
    "full_like": "full", "empty_like": "empty", "fill": "fill", "copyto": "copy", "take_along_axis": "gather", "trapz": "trapezoid",
    "searchsorted": "searchsorted", "digitize": "bucketize", "compress": "index", "take": "index", "atleast_1d": "view",
    "atleast_2d": "view", "cumulative_sum": "cumsum", "cumulative_prod": "cumprod", "vecdot": "matmul", "matvec": "matmul",
    "ascontiguousarray": "copy", "permute_dims": "permute", "pow": "pow",
}  # fmt: skip
_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}
_PARAMETERS = {"axis": "dim", "a_min": "min", "a_max": "max", "keepdims": "keepdim"}
_KEPT = frozenset({"axis", "keepdims", "ddof", "a_min", "a_max", "min", "max", "start", "stop", "step", "num", "decimals", "ord", "n", "p"})


def canonical(name: str, method: str = "") -> str:
    """subtract -> sub; add.reduce -> sum; max -> amax."""
    if method == "reduce":
        return _REDUCED.get(name, f"{name}_reduce")
    if method == "accumulate":
        return _ACCUMULATED.get(name, f"{name}_accumulate")
    if method == "outer":
        return _CANONICAL.get(name, name)
    return _CANONICAL.get(name, name)


@cache
def _signature(name: str) -> tuple[str, ...]:
    function = getattr(np, name, None) or getattr(np.linalg, name, None)
    try:
        return tuple(inspect.signature(function).parameters) if callable(function) else ()
    except (TypeError, ValueError):  # written in C, without a signature
        return {"arange": ("start", "stop", "step"), "clip": ("a", "min", "max")}.get(name, ())


def scalars_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The plain arguments that tell something, by the names that PyTorch gives them. `args` begin with the array itself."""
    if name == "clip":
        parameters: tuple[str, ...] = ("a", "min", "max")
    elif name == "arange" and len(args) == 1:
        parameters = ("stop",)
    else:
        parameters = _signature(name)
    given = {**dict(zip(parameters, args, strict=False)), **kwargs}
    found: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            value = value.item()
        if key in _KEPT and isinstance(value, (bool, int, float)):
            found[_PARAMETERS.get(key, key)] = value
    return found
