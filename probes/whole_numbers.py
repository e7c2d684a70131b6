"""Which whole numbers (positions, ids, counts, times) does their format not hold apart?

Measures  casts to a floating-point format, ranges and running counts made in one: how many different whole numbers became the same,
          where something then takes them at face value (an index, a comparison, a difference, a sine or cosine).
Costs     one pass over casts and ranges.
Misses    numbers that are rounded before PyTorch sees them; whole numbers that were computed in the format itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import STRUCTURAL, leaf
from numdebug.recording import Op, Recording, Site, Value
from numdebug.run import Run

QUESTION = "Which whole numbers (positions, ids, counts, times) does their format not hold apart?"
EARLY = True  # asked of the first step too, while set-up and data are at hand
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source

STEPS = 4  # of the format between neighbours, in the median: two binary digits of the differences are left
_SCALES = frozenset({"mul", "div", "matmul", "neg", "cast"})
_FACE_VALUE = frozenset({
    "eq", "ne", "sin", "cos", "embedding", "index", "gather", "one_hot", "bucketize", "searchsorted", "unique", "remainder",
})  # fmt: skip
_ORDERS = frozenset({"gt", "lt", "ge", "le"})


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line."""
    lines: set[object] = set()
    yield from _as_given(run)
    for op in run.recording.ops:
        if op.phase != "forward" or op.site is None or op.site.place in lines or not op.outputs or op.outputs[0].dtype not in FORMATS:
            continue
        exact = _exact(run, op)
        held = run.array(op.outputs[0]) if exact is not None else None
        if exact is None or held is None or exact.size != held.size or not np.isfinite(held).all():
            continue
        found = _merged(run, op, exact.ravel(), held.ravel().astype(np.float64))
        if found is not None:
            lines.add(op.site.place)
            yield found


def _as_given(run: Run) -> Iterator[Evidence]:
    """Data beyond the format's limit whose elements are subtracted from each other: what is left is a few of the format's steps."""
    said: set[int] = set()
    for op in run.recording.ops:
        if op.phase != "forward" or op.name != "sub" or len(op.operands) != 2 or op.outputs[0].dtype not in FORMATS or op.site is None:
            continue
        data = leaf(run.recording, op.operands[0])
        if data is not leaf(run.recording, op.operands[1]) or data.producer is not None or data.id in said or data.dtype not in FORMATS:
            continue
        held, off = run.array(data), run.array(op.outputs[0])
        eps = FORMATS[data.dtype].eps
        if held is None or off is None or held.size < 2 or not np.isfinite(held).all() or float(np.abs(held).min()) <= 2.0 / eps:
            continue
        flat = np.sort(held.ravel().astype(np.float64))
        step = float(np.abs(flat).max()) * eps / 2
        gaps = np.diff(flat)
        if not (gaps == 0).any() or float(np.median(gaps)) > STEPS * step:
            continue
        said.add(data.id)
        site = data.made_at or _given_at(run.recording, op.operands[0]) or op.site
        numbers = {
            "merged": Number(int((gaps == 0).sum()), "neighbours that are the same"),
            "size": Number(int(held.size), "elements"),
            "largest": Number(float(np.abs(flat).max())),
            "gap": Number(float(np.median(gaps)), "median distance of neighbours"),
            "spacing": Number(step, "between two numbers of this size"),
            "limit": Number(2.0 / eps, "largest whole number up to which all are held"),
        }
        facts = {
            "op": op.name, "native": op.native, "dtype": data.dtype, "members": [op.index], "used_by": "a difference", "step": op.step,
            "given": True,
        }  # fmt: skip
        sites = {"target": site, "use": op.site}
        ops = {"use": op.index}
        yield Evidence("merged-numbers", "whole_numbers", site=site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _given_at(recording: Recording, value: Value) -> Site | None:
    """The line that hands the data to the framework, where that is recorded."""
    op = recording.producer(value)
    while op is not None and op.operands:
        above = recording.producer(op.operands[0])
        if above is None:
            return op.site if op.name == "constant" else None
        op = above
    return None


def _exact(run: Run, op: Op) -> np.ndarray | None:
    """The whole numbers that the result stands for, where it may not hold them."""
    limit = 2.0 / FORMATS[op.outputs[0].dtype].eps  # up to here every whole number has its own place
    exact: np.ndarray | None = None
    if op.name == "cast" and op.operands and op.operands[0].dtype != op.outputs[0].dtype:
        exact = run.array(op.operands[0])
        if exact is not None and exact.dtype == bool:
            return None
    elif op.name == "arange":
        start, step = op.scalars.get("start", 0), op.scalars.get("step", 1)
        if isinstance(start, (int, float)) and isinstance(step, (int, float)):
            exact = start + step * np.arange(op.outputs[0].shape[0], dtype=np.float64)
    elif op.name == "cumsum" and op.operands:
        terms = run.array(op.operands[0])
        axis = op.scalars.get("dim")
        if terms is not None and terms.ndim and isinstance(axis, int):
            exact = np.cumsum(terms.astype(np.float64), axis=axis)
    if exact is None or exact.size < 2 or exact.dtype.kind not in "iuf":
        return None
    if exact.dtype.kind == "f" and (not np.isfinite(exact).all() or (op.name != "cast" and bool((exact != np.rint(exact)).any()))):
        return None
    return exact if float(np.abs(exact).max()) > limit else None


def _merged(run: Run, op: Op, exact: np.ndarray, held: np.ndarray) -> Evidence | None:
    order = np.argsort(exact, kind="stable")
    e, h = exact[order].astype(np.float64), held[order]
    same = (h[1:] == h[:-1]) & (e[1:] != e[:-1])
    if not same.any():
        return None
    user = _at_face_value(run, op)
    if user is None:
        return None
    at = int(np.nonzero(same)[0][0])
    numbers = {
        "merged": Number(int(same.sum()), "pairs of neighbours"),
        "size": Number(int(exact.size), "elements"),
        "one": Number(float(e[at])),
        "other": Number(float(e[at + 1])),
        "both": Number(float(h[at])),
        "limit": Number(2.0 / FORMATS[op.outputs[0].dtype].eps, "largest whole number up to which all are held"),
        "largest": Number(float(np.abs(exact).max())),
    }
    facts = {
        "op": op.name, "native": op.native, "dtype": op.outputs[0].dtype, "members": sorted({op.index, user.index}), "used_by": user.name,
        "step": op.step, "proof": "before this operation the same numbers are different, and float64 holds them all",
    }  # fmt: skip
    sites = {"target": op.site, **({"use": user.site} if user.site is not None else {})} if op.site is not None else {}
    ops = {"target": op.index, "use": user.index}
    return Evidence("merged-numbers", "whole_numbers", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _at_face_value(run: Run, op: Op) -> Op | None:
    """The operation that takes the numbers as they are: past scaling and reshaping only."""
    todo, seen = [op], {op.index}
    while todo:
        current = todo.pop(0)
        for value in current.outputs:
            for user in run.recording.consumers(value):
                if user.index in seen or user.phase != "forward":
                    continue
                seen.add(user.index)
                integers = bool(user.outputs) and user.outputs[0].dtype.startswith("int")
                if user.name in _FACE_VALUE | _ORDERS or (user.name == "cast" and integers) or _difference(run, user, seen):
                    return user
                shifted = user.name in ("add", "sub") and len(user.operands) == 1
                if shifted or user.name in _SCALES or user.name in STRUCTURAL:
                    todo.append(user)
    return None


def _difference(run: Run, user: Op, seen: set[int]) -> bool:
    """A difference between such numbers: both sides come from them."""
    if user.name != "sub" or len(user.operands) != 2:
        return False
    return all(v.producer is not None and v.producer in seen for v in user.operands)
