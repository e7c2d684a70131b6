"""JAX's primitives in the field's own words: the names, operands and plain numbers that a recorded operation of any framework has."""

from __future__ import annotations

from typing import Any

from numdebug.observe.jax.elementwise import LOW
from numdebug.observe.jax.interpret import Item, Slot

CANONICAL = {
    "add_any": "add", "logistic": "sigmoid", "reduce_sum": "sum", "reduce_max": "amax", "reduce_min": "amin", "reduce_prod": "prod",
    "reduce_and": "all", "reduce_or": "any", "dot_general": "matmul", "conv_general_dilated": "conv", "broadcast_in_dim": "expand",
    "transpose": "permute", "convert_element_type": "cast", "reduce_precision": "cast", "gather": "index", "scatter": "index_put",
    "scatter-add": "index_put", "dynamic_slice": "slice", "dynamic_update_slice": "slice_scatter", "concatenate": "cat",
    "pad": "constant_pad_nd", "iota": "arange", "rev": "flip", "erf_inv": "erfinv", "not": "logical_not", "and": "logical_and",
    "or": "logical_or", "top_k": "topk", "stop_gradient": "detach", "copy_p": "copy", "lu": "linalg_lu_factor_ex", "qr": "linalg_qr",
    "householder_product": "linalg_qr", "geqrf": "linalg_qr", "rem": "fmod", "select_n": "where", "integer_pow": "pow",
    "max": "maximum", "min": "minimum", "expand_dims": "unsqueeze", "stage": "copy", "device_put": "copy",
    "reduce_window_max": "max_pool", "reduce_window_sum": "avg_pool", "cumlogsumexp": "logcumsumexp",
    "optimization_barrier": "copy", "rng_bit_generator": "random", "random_bits": "random", "threefry2x32": "random",
    "random_gamma": "random", "unstack": "unbind",
}  # fmt: skip
_COMMUTE = frozenset({"add", "mul", "maximum", "minimum", "eq", "ne"})
_TWO = frozenset({"add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmod", "atan2", "eq", "ne", "lt", "le", "gt", "ge"})
_MIRROR = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_REDUCE = frozenset({"sum", "amax", "amin", "prod", "all", "any"})


def described(item: Item) -> tuple[str, list[Slot], dict[str, Any]]:
    """(canonical name, operands without plain numbers, plain numbers by name)."""
    name = CANONICAL.get(item.name, item.name)
    operands, p = item.operands, item.params
    scalars: dict[str, Any] = {}
    if name == "where":
        return _where(operands)
    if name == "compiled":
        return name, operands, dict(p)
    if name == "clamp":
        return _clamp(operands)
    if name in _TWO and len(operands) == 2:
        return _two(name, operands)
    if name == "pow" and "y" in p:
        if p["y"] == -1:
            return "reciprocal", operands, {}
        return "pow", operands, {"exponent": p["y"]}
    if name in _REDUCE:
        dims = list(p.get("axes", ()))
        whole = len(dims) == operands[0].array.ndim
        scalars["dim"] = [] if whole else [int(d) - operands[0].array.ndim if d == operands[0].array.ndim - 1 else int(d) for d in dims]
    elif name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"):
        scalars["dim"] = p["axis"]
    elif name == "cast":
        scalars["dtype"] = item.results[0].array.dtype.name
    elif item.name == "scatter-add":
        scalars["accumulate"] = True
    elif name == "cat":
        scalars["dim"] = p.get("dimension", 0)
    return name, [o for o in operands if o.number is None] or operands[:0], scalars


def _two(name: str, operands: list[Slot]) -> tuple[str, list[Slot], dict[str, Any]]:
    left, right = operands
    if left.number is None and right.number is None:
        return name, operands, {}
    if left.number is not None and right.number is not None:
        return name, [], {"self": left.number, "other": right.number}
    first = right.number is None  # the number is the first operand
    number, array = (left.number, right) if first else (right.number, left)
    if name in ("maximum", "minimum") and isinstance(number, int | float):
        return "clamp", [array], {"min" if name == "maximum" else "max": number}
    if not first or name in _COMMUTE:
        scalars: dict[str, Any] = {"exponent" if name == "pow" else "other": number}
        if name == "add" and number == 0.0 and array.array.dtype.name in LOW:
            scalars["rounded"] = True  # nobody adds 0: what stood there is 0 in this format
        return name, [array], scalars
    if name == "sub":
        return "rsub", [array], {"other": number}
    if name == "div":
        return "reciprocal", [array], {"self": number}
    return _MIRROR.get(name, name), [array], {"other" if name in _MIRROR else "self": number}


def _where(operands: list[Slot]) -> tuple[str, list[Slot], dict[str, Any]]:
    if len(operands) != 3:
        return "where", [o for o in operands if o.number is None], {}
    which, otherwise, then = operands
    scalars = {k: s.number for k, s in (("self", then), ("other", otherwise)) if s.number is not None}
    return "where", [s for s in (which, then, otherwise) if s.number is None], scalars


def _clamp(operands: list[Slot]) -> tuple[str, list[Slot], dict[str, Any]]:
    low, x, high = operands
    scalars = {k: s.number for k, s in (("min", low), ("max", high)) if s.number is not None}
    return "clamp", [s for s in (x, low, high) if s.number is None], scalars
