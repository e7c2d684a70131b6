"""Which values sit at the edge of their number format: wrapped integers, gradients flushed to zero?

Measures  for integer arithmetic in 8, 16 and 32 bits: elements whose exact result does not fit, where they go on into floating point;
          for a step with float16 in it: gradient entries that are zero only because of the format (the step is run again in float32).
Costs     one pass over small-integer results; two more steps where float16 is used.
Misses    wrap-around in hashing (a wrapped value that meets a remainder or a bit operation is taken as meant).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.recording import Op
from numdebug.run import CannotAsk, Run

QUESTION = "Which values sit at the edge of their number format?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source
EARLY = True  # asked of the first step too, while set-up and data are at hand

_LIMITS = {
    "uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 2**16 - 1), "int16": (-(2**15), 2**15 - 1), "uint32": (0, 2**32 - 1),
    "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63),  # in float64: what rounds to 2**63 may fit
}  # fmt: skip
_EXACT = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "square": np.square, "abs": np.abs}
_REDUCTIONS: dict[str, Any] = {"sum": np.sum, "prod": np.prod, "cumsum": np.cumsum, "cumprod": np.cumprod}
_FACE_VALUE = frozenset({
    "gt", "lt", "ge", "le", "argmax", "argmin", "max", "min", "amax", "amin", "topk", "sort", "median",
})  # fmt: skip
_INDEXED = frozenset({"embedding", "index", "gather", "index_select", "take", "index_put", "scatter"})
_DELIBERATE = frozenset({
    "remainder", "fmod", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "__lshift__", "__rshift__",
    "bitwise_left_shift", "bitwise_right_shift", "__and__", "__xor__", "__or__",
})  # fmt: skip


def measure(run: Run) -> Iterator[Evidence]:
    """Wrapped integers first, then flushed gradients."""
    for op in run.recording.ops:
        if op.phase == "forward" and op.outputs and op.outputs[0].dtype in _LIMITS:
            yield from _wrapped(run, op)
    if not any(s.what in ("loss", "gradient", "parameter") for s in run.recording.sinks):
        yield from _flushed(run)


def _wrapped(run: Run, op: Op) -> Iterator[Evidence]:
    dtype = op.outputs[0].dtype
    low, high = _LIMITS[dtype]
    exact = _exact(run, op)
    if exact is None or not exact.size:
        return
    outside = int(((exact < low) | (exact > high)).sum())
    if not outside:
        return
    followers = _followers(run, op)
    if followers is None:
        return
    numbers = {
        "wrapped": Number(outside, "elements"),
        "size": Number(int(exact.size), "elements"),
        "lowest_exact": Number(float(exact.min())),
        "highest_exact": Number(float(exact.max())),
    }
    facts = {"op": op.name, "dtype": dtype, "members": [op.index, *followers], "native": op.native, "step": op.step}
    sites = {"target": op.site} if op.site is not None else {}
    ops = {"target": op.index}
    yield Evidence("integer-wrap", "dtype_range", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _exact(run: Run, op: Op) -> np.ndarray | None:
    """The result in arithmetic wide enough not to wrap, or None for an operation that cannot wrap (or is not known)."""
    arrays = [run.array(v) for v in op.operands]
    if any(a is None for a in arrays) or not arrays:
        return None
    if op.name == "cast":
        source = arrays[0]
        assert source is not None
        finite = source[np.isfinite(source)] if source.dtype.kind == "f" else source
        return np.trunc(finite.astype(np.float64))
    wide = [a.astype(np.float64) for a in arrays if a is not None]
    if op.name in _REDUCTIONS and len(wide) == 1:
        axis = op.scalars.get("dim")
        return np.asarray(_REDUCTIONS[op.name](wide[0], axis=axis if isinstance(axis, int) else None))
    if op.name == "index_add" and len(wide) == 3 and op.scalars.get("dim", 0) == 0:
        total, places, terms = wide
        np.add.at(total, places.astype(np.int64), terms)
        return total
    if op.name == "matmul" and len(wide) == 2:
        return np.asarray(np.matmul(*wide)) if all(a.ndim for a in wide) else None
    if op.name not in _EXACT and op.name != "rsub" and op.name != "pow":
        return None
    other = op.scalars.get("other", op.scalars.get("exponent"))
    if op.name == "pow" and len(wide) == 1:
        return wide[0] ** float(other) if isinstance(other, (int, float)) else None
    if op.name == "pow":
        return wide[0] ** wide[1]
    if op.name in ("neg", "square", "abs"):
        return _EXACT[op.name](wide[0])  # type: ignore[no-any-return]
    second = wide[1] if len(wide) > 1 else other
    if not isinstance(second, (int, float, np.ndarray)) or isinstance(second, bool):
        return None
    alpha = op.scalars.get("alpha", 1)
    if op.name in ("add", "sub") and alpha != 1:
        second = second * alpha
    return second - wide[0] if op.name == "rsub" else _EXACT[op.name](wide[0], second)


def _followers(run: Run, op: Op) -> list[int] | None:
    """What uses the wrapped integers, if something takes them at face value: floating point, an ordering, a search for the largest.

    None where nothing does, or where they meet an operation that wants them wrapped (hashing).
    """
    todo, seen, matters = [op], {op.index}, False
    while todo:
        current = todo.pop(0)
        for value in current.outputs:
            for user in run.recording.consumers(value):
                if user.name in _DELIBERATE:
                    return None
                if user.index in seen:
                    continue
                seen.add(user.index)
                floats = bool(user.outputs) and user.outputs[0].dtype.startswith(("float", "bfloat"))
                if user.name in _FACE_VALUE or (floats and user.name not in _INDEXED):
                    matters = True
                todo.append(user)
    return sorted(seen - {op.index}) if matters else None


def _flushed(run: Run) -> Iterator[Evidence]:
    recording = run.recording
    half = [op for op in recording.ops if op.outputs and op.outputs[0].dtype == "float16" and op.phase in ("forward", "backward")]
    backward = [op for op in half if op.phase == "backward"]
    if not backward or any(s.scaled for s in recording.steps):
        return
    try:
        lost = run.flushed()
    except CannotAsk:
        return
    size = sum(n for n, _, _ in lost.values())
    flushed = sum(k for _, k, _ in lost.values())
    if not size:
        return
    worst = max(lost, key=lambda name: lost[name][1] / lost[name][0])
    numbers = {
        "flushed": Number(flushed, "gradient entries"),
        "size": Number(size, "gradient entries"),
        "share": Number(flushed / size, "of all gradient entries"),
        "worst_share": Number(lost[worst][1] / lost[worst][0], f"of {worst}"),
        "largest_lost": Number(max(g for _, _, g in lost.values())),
    }
    cast = next((op for op in recording.ops if op.name == "cast" and op.outputs and op.outputs[0].dtype == "float16"), None)
    last = backward[0]
    sites = {"target": last.site} if last.site is not None else {}
    if cast is not None and cast.site is not None:
        sites["cast"] = cast.site
    facts = {"dtype": "float16", "worst": worst, "members": []}
    yield Evidence("flushed-gradients", "dtype_range", site=last.site, op=last.index, numbers=numbers, facts=facts, sites=sites)
