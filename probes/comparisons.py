"""Which comparisons come out wrong by a rounding error?

Measures  == and != between floats, and differences held against a tolerance: elements that are unequal as computed and equal in float64,
          where they lie within the rounding of what was compared.
Costs     one pass in float64 over what such comparisons depend on.
Misses    comparisons in Python, after item(); numbers that are equal in neither.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import first
from numdebug.recording import Op, Value
from numdebug.run import CannotAsk, Run

QUESTION = "Which comparisons come out wrong by a rounding error?"

_EQUAL = frozenset({"eq", "ne"})
_WITHIN = frozenset({"le", "lt", "gt", "ge"})
# float64 repeats the float32 computation with 2e-9 of its error: what is equal there is equal to twelve digits, or exactly.
EQUAL = 1e-12
ROUNDINGS = 64  # half ulps between two numbers that are meant to be equal: the sum of a formula of some tens of operations
MOST = 400  # comparisons looked at: of a long loop the last ones


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line."""
    if run.recording.sinks:
        return
    compared = [(op, pair) for op in run.recording.ops if op.phase == "forward" and (pair := _compared(run, op)) is not None]
    tolerant = {op.site.span for op, _ in compared if op.name in _WITHIN and op.site is not None}  # isclose begins with an ==
    pairs = [(op, *pair) for op, pair in compared if op.name in _WITHIN or op.site is None or op.site.span not in tolerant][-MOST:]
    wanted = {v.id: v for _, a, b, _ in pairs for v in (a, b) if isinstance(v, Value) and v.producer is not None}
    if not wanted:
        return
    try:
        exact = run.exact(list(wanted.values()))
    except CannotAsk:
        return
    lines: set[object] = set()
    for op, a, b, tolerance in pairs:
        if op.site is not None and op.site.place not in lines:
            found = _missed(run, op, a, b, tolerance, exact)
            if found is not None:
                lines.add(op.site.place)
                yield found


def _compared(run: Run, op: Op) -> tuple[Value, Value | float, float | None] | None:
    """The two numbers, and the tolerance where one is given."""
    if op.name in _EQUAL and op.operands and op.operands[0].dtype in FORMATS:
        other = op.operands[1] if len(op.operands) == 2 else op.scalars.get("other")
        return (op.operands[0], other, None) if isinstance(other, (Value, int, float)) else None
    if op.name not in _WITHIN or not op.operands or op.operands[0].dtype not in FORMATS:
        return None
    size = run.recording.producer(op.operands[0])
    if size is None or size.name != "abs":
        return None
    difference = first(run.recording, size.operands[0])
    if difference is None or difference.name != "sub" or len(difference.operands) != 2:
        return None
    bound = run.array(op.operands[1]) if len(op.operands) == 2 else op.scalars.get("other")
    if isinstance(bound, np.ndarray):
        bound = float(bound.max()) if bound.size and np.isfinite(bound).all() else None
    if not isinstance(bound, (int, float)):
        return None
    return difference.operands[0], difference.operands[1], float(bound)


def _missed(run: Run, op: Op, a: Value, b: Value | float, tolerance: float | None, exact: dict[int, np.ndarray]) -> Evidence | None:
    eps = FORMATS[a.dtype].eps
    low_a, high_a = _both(run, a, exact)
    low_b, high_b = _both(run, b, exact)
    if low_a is None or low_b is None or high_a is None or high_b is None:
        return None
    size = np.maximum(np.abs(high_a), np.abs(high_b))
    off = np.abs(low_a - low_b)
    with np.errstate(invalid="ignore"):
        missed = (np.abs(high_a - high_b) <= EQUAL * size) & (off > 0) & (off <= ROUNDINGS * eps * size)
        if tolerance is not None:
            missed &= off > tolerance
    if not missed.any():
        return None
    numbers = {
        "missed": Number(int(missed.sum()), "elements"),
        "size": Number(int(missed.size), "elements"),
        "apart": Number(float(off[missed].max())),
        "magnitude": Number(float(np.broadcast_to(size, missed.shape)[missed].max())),
        "eps": Number(eps),
    }
    if tolerance is not None:
        numbers["tolerance"] = Number(tolerance)
    proof = f"computed again in float64, with the same decisions, both sides of all {int(missed.sum())} agree to twelve digits"
    facts = {"op": op.name, "native": op.native, "dtype": a.dtype, "members": [op.index], "step": op.step, "proof": proof}
    sites = {"target": op.site} if op.site is not None else {}
    ops = {"target": op.index}
    return Evidence("missed-equality", "comparisons", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _both(run: Run, side: Value | float, exact: dict[int, np.ndarray]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """As computed, and in float64."""
    if not isinstance(side, Value):
        return np.asarray(float(side)), np.asarray(float(side))
    low = run.array(side)
    if low is None or low.dtype.kind != "f":
        return None, None
    low = low.astype(np.float64)
    return low, exact.get(side.id, low)
