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
from numdebug.graph import climb, leaf
from numdebug.recording import Op, Value
from numdebug.run import CannotAsk, Run

QUESTION = "Which comparisons come out wrong by a rounding error?"

_EQUAL = frozenset({"eq", "ne"})
_SIZES = frozenset({"abs", "norm", "square", "pow"})
_OF_SIZES = frozenset({"max", "amax", "sum", "mean", "sqrt"})
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
    by_line: dict[object, list[Evidence | None]] = {}
    for op, a, b, tolerance in pairs:
        if op.site is not None:
            by_line.setdefault(op.site.place, []).append(_missed(run, op, a, b, tolerance, exact))
    for outcomes in by_line.values():  # a tolerance that is met in the end was only being waited for
        found = next((e for e in outcomes if e is not None), None)
        if found is not None and (found["tolerance"] is None or outcomes[-1] is not None):
            yield found


def _compared(run: Run, op: Op) -> tuple[Value, Value | float, float | None] | None:
    """The two numbers, and the tolerance where one is given."""
    if op.name in _EQUAL and op.operands and op.operands[0].dtype in FORMATS:
        other = op.operands[1] if len(op.operands) == 2 else op.scalars.get("other")
        return (op.operands[0], other, None) if isinstance(other, (Value, int, float)) else None
    if op.name not in _WITHIN or not op.operands or op.operands[0].dtype not in FORMATS:
        return None
    path = next(climb(run.recording, op.operands[0], _SIZES | _OF_SIZES), None)
    if path is None or path.op.name != "sub" or len(path.op.operands) != 2 or not any(o.name in _SIZES for o in path.chain):
        return None
    difference = path.op
    bound = run.array(op.operands[1]) if len(op.operands) == 2 else op.scalars.get("other")
    if isinstance(bound, np.ndarray):
        bound = float(bound.max()) if bound.size and np.isfinite(bound).all() else None
    if not isinstance(bound, (int, float)) or difference.operands[0].dtype not in FORMATS:
        return None
    return difference.operands[0], difference.operands[1], float(bound)


def _missed(run: Run, op: Op, a: Value, b: Value | float, tolerance: float | None, exact: dict[int, np.ndarray]) -> Evidence | None:
    eps = FORMATS[a.dtype].eps
    low_a, high_a = _both(run, a, exact)
    low_b, high_b = _both(run, b, exact)
    if low_a is None or low_b is None or high_a is None or high_b is None:
        return None
    size = np.maximum(np.abs(high_a), np.abs(high_b))
    with np.errstate(invalid="ignore"):
        off = np.abs(low_a - low_b)
        apart = np.abs(high_a - high_b)
        equal = apart <= EQUAL * size
        if op.name in _EQUAL and _written(run, b) and _rounded(low_a, high_a):
            equal |= (apart <= eps * size) & (2 * apart <= off)
        missed = np.isfinite(size) & equal & (off > 0) & (off <= ROUNDINGS * eps * size)
        if tolerance is not None:
            missed = _beyond(run, op, missed, apart, off, size)
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
    close = apart.shape != missed.shape or bool((apart <= EQUAL * size)[missed].all())
    how = "agree to twelve digits" if close else f"agree as closely as {a.dtype} can hold such numbers"
    proof = f"computed again in float64, with the same decisions, both sides of all {int(missed.sum())} {how}"
    facts = {"op": op.name, "native": op.native, "dtype": a.dtype, "members": [op.index], "step": op.step, "proof": proof}
    sites = {"target": op.site} if op.site is not None else {}
    ops = {"target": op.index}
    return Evidence("missed-equality", "comparisons", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _written(run: Run, side: Value | float) -> bool:
    """Numbers of the program's own (0.3, a table of times): their format holds them, like a formula's constants, to half an ulp."""
    if not isinstance(side, Value):
        return not float(side).is_integer()
    numbers = run.array(side)
    return leaf(run.recording, side).producer is None and numbers is not None and bool((numbers != np.rint(numbers)).any())


def _rounded(low: np.ndarray, high: np.ndarray) -> bool:
    """It was computed, and not read."""
    return low.shape == high.shape and bool((low != high).any())


def _beyond(run: Run, op: Op, missed: np.ndarray, exact: np.ndarray, off: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Of the missed elements those that the program found too far apart; of a norm or maximum all of them or none."""
    outcome = run.array(op.outputs[0])
    if outcome is None:
        return np.zeros_like(missed)
    far = ~outcome if op.name in ("lt", "le") else outcome
    if far.shape == missed.shape:
        both: np.ndarray = missed & far
        return both
    eps = FORMATS[op.operands[0].dtype].eps
    scale = float(np.linalg.norm(np.broadcast_to(size, missed.shape)))
    equal = float(np.linalg.norm(exact)) <= EQUAL * scale and float(np.linalg.norm(off)) <= ROUNDINGS * eps * scale
    apart: np.ndarray = off > 0
    return apart if far.all() and equal else np.zeros_like(missed)


def _both(run: Run, side: Value | float, exact: dict[int, np.ndarray]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """As computed, and in float64."""
    if not isinstance(side, Value):
        return np.asarray(float(side)), np.asarray(float(side))
    low = run.array(side)
    if low is None or low.dtype.kind != "f":
        return None, None
    low = low.astype(np.float64)
    return low, exact.get(side.id, low)
