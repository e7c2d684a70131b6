"""JAX primitives that move, reduce and combine elements, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from numdebug.observe.jax.elementwise import LOW, Arrays, Rule


def floating(dtype: Any) -> bool:
    """A real floating-point format, also one of ml_dtypes."""
    return np.dtype(dtype).kind == "f" or np.dtype(dtype).name.startswith(("bfloat", "float"))


def widest(dtype: Any) -> np.dtype:
    """float64 or complex128 for what is floating point, else the format itself."""
    given = np.dtype(dtype)
    return np.dtype(np.complex128) if given.kind == "c" else np.dtype(np.float64) if floating(given) else given


def _convert(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    target = np.dtype(params["new_dtype"])
    source = arrays[0]
    if wide:
        target = widest(target)
    if target.kind in "iu" and floating(source.dtype):  # XLA saturates, and makes NaN 0
        info = np.iinfo(target)
        whole = np.trunc(source.astype(np.float64))
        inside = np.where((whole > info.min) & (whole < info.max), whole, 0).astype(target)
        return np.where(whole >= info.max, info.max, np.where(whole <= info.min, info.min, inside)).astype(target)
    if target.kind == "b":
        return source != 0
    if source.dtype.kind == "c" and target.kind != "c":
        source = source.real
    return source.astype(target)


def _bitcast(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    """The bits are those of the format that the program has."""
    source, target = arrays[0], np.dtype(params["new_dtype"])
    if wide and source.dtype == np.float64 and target.itemsize == 4:
        source = source.astype(np.float32)
    if source.dtype.itemsize != target.itemsize:
        raise NotImplementedError
    return np.ascontiguousarray(source).view(target).reshape(source.shape)


def _broadcast(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    shape, dimensions = params["shape"], params["broadcast_dimensions"]
    inner = [1] * len(shape)
    for place, dimension in enumerate(dimensions):
        inner[dimension] = arrays[0].shape[place]
    return np.broadcast_to(arrays[0].reshape(inner), shape)


def _reshape(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    order = params.get("dimensions")
    return (arrays[0] if order is None else arrays[0].transpose(order)).reshape(params["new_sizes"])


def _squeeze(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    return np.squeeze(arrays[0], axis=tuple(int(d) for d in params["dimensions"]))


def _pad(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    x, value = arrays
    config = params["padding_config"]
    shape = [low + high + n + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.shape, config, strict=True)]
    out = np.full([max(s, 0) for s in shape], value, dtype=x.dtype)
    source, target = [], []
    for n, (low, _, inner), size in zip(x.shape, config, out.shape, strict=True):
        places = low + np.arange(n) * (inner + 1)
        inside = (places >= 0) & (places < size)
        source.append(np.nonzero(inside)[0])
        target.append(places[inside])
    out[np.ix_(*target)] = x[np.ix_(*source)]
    return out


def _slice(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    strides = params["strides"] or [1] * arrays[0].ndim
    return arrays[0][tuple(slice(a, b, s) for a, b, s in zip(params["start_indices"], params["limit_indices"], strides, strict=True))]


def _starts(shape: tuple[int, ...], sizes: Any, indices: Arrays) -> tuple[slice, ...]:
    clipped = [min(max(int(i), 0), n - s) for i, n, s in zip(indices, shape, sizes, strict=True)]
    return tuple(slice(i, i + s) for i, s in zip(clipped, sizes, strict=True))


def _dynamic_slice(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    x, *indices = arrays
    return x[_starts(x.shape, params["slice_sizes"], indices)]


def _dynamic_update(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    x, update, *indices = arrays
    out = np.array(x)
    out[_starts(x.shape, update.shape, indices)] = update
    return out


def _iota(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    shape, dimension = params["shape"], params["dimension"]
    line = np.arange(shape[dimension]).astype(widest(params["dtype"]) if wide else params["dtype"])
    return np.broadcast_to(line.reshape([-1 if d == dimension else 1 for d in range(len(shape))]), shape)


def _reduce(function: Any, identity: Any = None) -> Rule:
    def rule(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
        x = arrays[0]
        axes = tuple(params["axes"])
        if function is np.add:
            return _summed(x.astype(np.float32) if x.dtype.name in LOW else x, axes).astype(x.dtype, copy=False)
        if function is np.multiply and x.dtype.name in LOW:
            return function.reduce(x.astype(np.float32), axis=axes).astype(x.dtype)
        if x.dtype == bool and function in (np.maximum, np.minimum):
            return (np.logical_or if function is np.maximum else np.logical_and).reduce(x, axis=axes)
        if not x.size and identity is not None:
            return function.reduce(x, axis=axes, initial=identity)
        return function.reduce(x, axis=axes, **({"dtype": x.dtype} if function is np.multiply else {}))

    return rule


def _summed(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """By halves, as XLA does it. NumPy does so along the last axes alone, and adds up others one row after another."""
    kept = [d for d in range(x.ndim) if d not in axes]
    if x.dtype.kind == "f" and kept and kept[-1] > min(axes, default=x.ndim):
        x = np.ascontiguousarray(x.transpose([*kept, *axes]))
        axes = tuple(range(len(kept), x.ndim))
    return np.sum(x, axis=axes, dtype=x.dtype)


def _arg(function: Any) -> Rule:
    def rule(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
        x = arrays[0]
        axis = int(params["axes"][0])
        return function(x.astype(np.float32) if x.dtype.name in LOW else x, axis=axis).astype(params["index_dtype"])

    return rule


def _cumulative(function: Any) -> Rule:
    def rule(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
        x, axis = arrays[0], params["axis"]
        turned = np.flip(x, axis) if params["reverse"] else x
        result = function(turned, axis=axis)
        return np.flip(result, axis) if params["reverse"] else result

    return rule


def _cumlogsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    return np.logaddexp.accumulate(x, axis=axis)


def _sort(arrays: Arrays, params: dict[str, Any], wide: bool) -> list[np.ndarray]:
    axis, keys = params["dimension"], params["num_keys"]
    columns = [a.astype(np.float32) if a.dtype.name in LOW else a for a in arrays[:keys]]
    order = np.argsort(columns[0], axis=axis, kind="stable") if keys == 1 else np.lexsort(columns[::-1], axis=axis)
    return [np.take_along_axis(a, order, axis) for a in arrays]


def _top_k(arrays: Arrays, params: dict[str, Any], wide: bool) -> list[np.ndarray]:
    x, k = arrays[0], params["k"]
    axis = params.get("axis", -1)
    column = x.astype(np.float64) if floating(x.dtype) else x.astype(np.int64)
    order = np.argsort(-column, axis=axis, kind="stable")
    index = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, index, axis), index.astype(np.int32)]


def _dot(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    a, b = arrays
    (contract_a, contract_b), (batch_a, batch_b) = params["dimension_numbers"]
    low = a.dtype.name in LOW or b.dtype.name in LOW
    left, right = (a.astype(np.float32), b.astype(np.float32)) if low else (a, b)
    free_a = [d for d in range(a.ndim) if d not in (*contract_a, *batch_a)]
    free_b = [d for d in range(b.ndim) if d not in (*contract_b, *batch_b)]
    batch = [a.shape[d] for d in batch_a]
    inner = int(np.prod([a.shape[d] for d in contract_a], dtype=int))
    x = left.transpose([*batch_a, *free_a, *contract_a]).reshape([*batch, -1 if inner and left.size else _count(a, free_a), inner])
    y = right.transpose([*batch_b, *contract_b, *free_b]).reshape([*batch, inner, -1 if inner and right.size else _count(b, free_b)])
    product = np.matmul(x, y)
    return product.reshape([*batch, *(a.shape[d] for d in free_a), *(b.shape[d] for d in free_b)])


def _count(x: np.ndarray, dimensions: list[int]) -> int:
    return int(np.prod([x.shape[d] for d in dimensions], dtype=int))


def _concatenate(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    return np.concatenate(arrays, axis=params["dimension"])


def _split(arrays: Arrays, params: dict[str, Any], wide: bool) -> list[np.ndarray]:
    return np.split(arrays[0], np.cumsum(params["sizes"])[:-1], axis=params["axis"])


def _gather(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    """Where every slice is one element or a whole axis, and indices are in range; the rest is left to JAX."""
    x, indices = arrays
    numbers = params["dimension_numbers"]
    sizes, collapsed = params["slice_sizes"], numbers.collapsed_slice_dims
    mapped = [int(d) for d in numbers.start_index_map]
    if numbers.operand_batching_dims or sorted(collapsed) != sorted(mapped) or any(sizes[d] != 1 for d in mapped):
        raise NotImplementedError
    if any(sizes[d] != x.shape[d] for d in range(x.ndim) if d not in mapped):
        raise NotImplementedError
    picked = [indices[..., place] for place in range(len(mapped))]
    if any(((i < 0) | (i >= x.shape[d])).any() for i, d in zip(picked, mapped, strict=True)):
        raise NotImplementedError
    rest = [d for d in range(x.ndim) if d not in mapped]
    taken = x.transpose([*mapped, *rest])[tuple(picked)]  # batch dimensions first, then whole axes
    batch = taken.ndim - len(rest)
    offset = [int(d) for d in numbers.offset_dims]
    others = [d for d in range(taken.ndim) if d not in offset]
    order = [0] * taken.ndim
    for source, target in enumerate(others):
        order[target] = source
    for source, target in enumerate(offset):
        order[target] = batch + source
    return taken.transpose(order)


def _scatter(combine: Any) -> Rule:
    """As _gather: updates of single elements or of whole rest axes, in range."""

    def rule(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
        x, indices, updates = arrays
        numbers = params["dimension_numbers"]
        mapped = [int(d) for d in numbers.scatter_dims_to_operand_dims]
        if numbers.operand_batching_dims or sorted(numbers.inserted_window_dims) != sorted(mapped) or x.dtype.name in LOW:
            raise NotImplementedError
        picked = [indices[..., place] for place in range(len(mapped))]
        if any(((i < 0) | (i >= x.shape[d])).any() for i, d in zip(picked, mapped, strict=True)):
            raise NotImplementedError
        rest = [d for d in range(x.ndim) if d not in mapped]
        window = [int(d) for d in numbers.update_window_dims]
        if [updates.shape[d] for d in window] != [x.shape[d] for d in rest]:
            raise NotImplementedError
        moved = updates.transpose([*(d for d in range(updates.ndim) if d not in window), *window])
        out = np.array(x).transpose([*mapped, *rest])
        if combine is None:
            out[tuple(picked)] = moved
        else:
            combine.at(out, tuple(picked), moved)
        return out.transpose(np.argsort([*mapped, *rest]))

    return rule


def _reduce_window(function: Any) -> Rule:
    def rule(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
        if any(d != 1 for d in (*params["base_dilation"], *params["window_dilation"])):
            raise NotImplementedError
        x = arrays[0].astype(np.float32) if arrays[0].dtype.name in LOW else arrays[0]
        empty = 0 if function is np.sum else (np.finfo(x.dtype).min if floating(x.dtype) else np.iinfo(x.dtype).min)
        edge = -np.inf if function is np.max and floating(x.dtype) else empty
        if function is np.min:
            edge = np.inf if floating(x.dtype) else np.iinfo(x.dtype).max
        padded = np.pad(x, params["padding"], constant_values=edge)
        windows = np.lib.stride_tricks.sliding_window_view(padded, params["window_dimensions"])
        steps = tuple(slice(None, None, s) for s in params["window_strides"])
        return function(windows[steps], axis=tuple(range(x.ndim, 2 * x.ndim)))

    return rule


def _each(function: Any) -> Any:
    """A function of one matrix, over all leading dimensions."""

    def call(x: np.ndarray) -> list[np.ndarray]:
        flat = x.reshape(-1, *x.shape[-2:])
        parts = [function(m) for m in flat]
        return [np.stack(column).reshape(*x.shape[:-2], *column[0].shape) for column in zip(*parts, strict=True)]

    return call


def _lu_one(matrix: np.ndarray) -> tuple[np.ndarray, ...]:
    if not np.isfinite(matrix).all():
        raise NotImplementedError
    factors, pivots = linalg.lu_factor(matrix, check_finite=False)
    order = np.arange(matrix.shape[0])
    for place, other in enumerate(pivots):
        order[[place, other]] = order[[other, place]]
    return factors.astype(matrix.dtype), pivots.astype(np.int32), order.astype(np.int32)


def _lu(arrays: Arrays, params: dict[str, Any], wide: bool) -> list[np.ndarray]:
    if arrays[0].shape[-1] != arrays[0].shape[-2]:
        raise NotImplementedError
    return _each(_lu_one)(arrays[0])


def _cholesky_one(matrix: np.ndarray) -> tuple[np.ndarray]:
    try:
        return (np.linalg.cholesky((matrix + matrix.conj().T) / 2),)
    except np.linalg.LinAlgError:
        return (np.full_like(matrix, np.nan),)


def _cholesky(arrays: Arrays, params: dict[str, Any], wide: bool) -> list[np.ndarray]:
    return _each(_cholesky_one)(arrays[0])


def _triangular(arrays: Arrays, params: dict[str, Any], wide: bool) -> np.ndarray:
    a, b = arrays
    left = params["left_side"]
    turned = {(False, False): 0, (True, False): 1, (True, True): 2}[(params["transpose_a"], params["conjugate_a"])]
    out = []
    for matrix, right in zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]), strict=True):
        lower, trans = params["lower"], turned
        if not left:  # x a = b is a^T x^T = b^T
            matrix, right, lower = matrix.T, right.T, not lower
        solved = _solve_triangle(matrix, right, lower, trans, params["unit_diagonal"])
        out.append(solved if left else solved.T)
    return np.stack(out).reshape(b.shape) if out else np.zeros_like(b)


def _solve_triangle(matrix: np.ndarray, right: np.ndarray, lower: bool, trans: int, unit: bool) -> np.ndarray:
    if not unit and (np.diagonal(matrix) == 0).any():
        raise NotImplementedError
    return linalg.solve_triangular(matrix, right, lower=lower, trans=trans, unit_diagonal=unit, check_finite=False)


STRUCTURAL: dict[str, Rule] = {
    "convert_element_type": _convert, "broadcast_in_dim": _broadcast, "squeeze": _squeeze, "pad": _pad, "slice": _slice,
    "bitcast_convert_type": _bitcast, "reshape": _reshape,
    "transpose": lambda arrays, params, wide: arrays[0].transpose(params["permutation"]),
    "rev": lambda arrays, params, wide: np.flip(arrays[0], params["dimensions"]),
    "expand_dims": lambda arrays, params, wide: np.expand_dims(arrays[0], params["dimensions"]),
    "dynamic_slice": _dynamic_slice, "dynamic_update_slice": _dynamic_update, "iota": _iota, "concatenate": _concatenate, "split": _split,
    "reduce_sum": _reduce(np.add), "reduce_prod": _reduce(np.multiply), "reduce_max": _reduce(np.maximum, -np.inf),
    "reduce_min": _reduce(np.minimum, np.inf), "reduce_and": _reduce(np.logical_and), "reduce_or": _reduce(np.logical_or),
    "argmax": _arg(np.argmax), "argmin": _arg(np.argmin), "cumsum": _cumulative(lambda x, axis: np.cumsum(x, axis=axis, dtype=x.dtype)),
    "cumprod": _cumulative(lambda x, axis: np.cumprod(x, axis=axis, dtype=x.dtype)), "cummax": _cumulative(np.maximum.accumulate),
    "cummin": _cumulative(np.minimum.accumulate), "cumlogsumexp": _cumulative(_cumlogsumexp), "sort": _sort, "top_k": _top_k,
    "dot_general": _dot, "gather": _gather, "scatter": _scatter(None), "scatter-add": _scatter(np.add),
    "reduce_window_max": _reduce_window(np.max), "reduce_window_sum": _reduce_window(np.sum), "reduce_window_min": _reduce_window(np.min),
    "lu": _lu, "cholesky": _cholesky, "triangular_solve": _triangular,
}  # fmt: skip
"""By the primitive's name."""
