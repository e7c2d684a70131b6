"""Which difference quotients of the program are mostly rounding noise?

Measures  for (f(a) - f(b)) / h written out in the program, where both come from the same code at points a plain number apart: the quotient
          against the same operations in float64; for the framework's gradcheck: what rounding alone can put into its differences,
          against its tolerances.
Costs     two runs of the operations that lead to each quotient, in float64.
Misses    quotients put together in Python from points that were moved in place; quotients of more than 100,000 elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import leaf
from numdebug.recording import Op, Recording, Value
from numdebug.run import CannotAsk, GradientCheck, Run

QUESTION = "Which difference quotients are mostly rounding noise?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source

LARGEST = 100_000  # elements
SMALL = 0.1  # a step above it is no step towards a derivative
TRIES = 4  # differences looked at on one line
LONGEST = 4000  # operations above a difference that are looked through
MOST = 8  # quotients looked at: a loop makes the same one again and again


def measure(run: Run) -> Iterator[Evidence]:
    """Quotients in the order of execution, then gradchecks."""
    seen: set[object] = set()
    tried: Counter[object] = Counter()
    for minuend, subtrahend, at in _differences(run.recording):
        place = at.site.place if at.site is not None else None
        tried[place] += 1
        if place in seen or len(seen) >= MOST or tried[place] > TRIES:
            continue
        step = _apart(run.recording, minuend, subtrahend)
        if step is not None:
            seen.add(place)
            yield from _noisy(run, minuend, subtrahend, at, step)
    for check in run.checks():
        yield from _check(check)


def _differences(recording: Recording) -> Iterator[tuple[Value, Value, Op]]:
    """(f(a), f(b), the operation that takes their difference or reads the second of them off)."""
    read: Op | None = None
    for op in recording.ops:
        if op.phase != "forward":
            continue
        if op.name == "sub" and len(op.operands) == 2 and op.scalars.get("alpha", 1) == 1:
            yield op.operands[0], op.operands[1], op
        if op.name == "_local_scalar_dense" and op.operands:
            one_line = read is not None and read.site is not None and op.site is not None and read.site.place == op.site.place
            if one_line and read is not None and read.step == op.step:
                yield read.operands[0], op.operands[0], op
            read = op


def _apart(recording: Recording, one: Value, other: Value) -> float | None:
    """How far apart the points are at which the same code was evaluated; None where that is not what this is."""
    if one is other or one.dtype != other.dtype or one.shape != other.shape or one.dtype not in FORMATS or one.dtype == "float64":
        return None
    first, second = recording.producer(one), recording.producer(other)
    if first is None or second is None or first is second or first.name != second.name:
        return None
    moved, base = _moves(recording, one), _moves(recording, other)
    common = moved.keys() & base.keys()
    steps = {moved[v] - base[v] for v in common if moved[v] != base[v]}
    if not common:  # f(x + h) - f(x): the second reads x itself
        inputs = {leaf(recording, v).id for op in islice(recording.upstream(other), LONGEST) for v in op.operands}
        steps = {h for v, h in moved.items() if v in inputs}
    if len(steps) != 1:
        return None
    (step,) = steps
    return step if 0 < abs(step) <= SMALL else None


def _moves(recording: Recording, value: Value) -> dict[int, float]:
    """By value id: the plain number that is added to it on the way to `value`."""
    found: dict[int, float] = {}
    for op in islice(recording.upstream(value), LONGEST):
        other = op.scalars.get("other")
        if op.name in ("add", "sub") and len(op.operands) == 1 and isinstance(other, (int, float)) and abs(other) <= SMALL:
            found[leaf(recording, op.operands[0]).id] = float(other) * (1 if op.name == "add" else -1) * float(op.scalars.get("alpha", 1))
    return found


def _noisy(run: Run, one: Value, other: Value, at: Op, step: float) -> Iterator[Evidence]:
    a, b = run.array(one), run.array(other)
    if a is None or b is None or not a.size or a.size > LARGEST or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return
    try:
        exactly = run.exact([one, other])
        right, left = exactly.get(one.id), exactly.get(other.id)
    except CannotAsk:
        return
    if right is None or left is None:
        return
    seen = (a.astype(np.float64) - b.astype(np.float64)) / step
    exact = (right - left) / step
    size = float(np.linalg.norm(exact))
    if not size or not np.isfinite(size):
        return
    error = float(np.linalg.norm(seen - exact)) / size
    bound = FORMATS[one.dtype].eps * float(max(np.abs(a).max(), np.abs(b).max())) / abs(step)
    given = f"give {size:.4g} where {one.dtype} gives {np.linalg.norm(seen):.4g} ({error:.1%} off)"
    proof = f"the same operations in float64, at the same points, {given}"
    numbers = {
        "error": Number(error, "relative"),
        "step": Number(abs(step)),
        "bound": Number(bound),
        "derivative": Number(float(np.abs(exact).max())),
    }
    facts: dict[str, object] = {"op": at.name, "native": at.native, "dtype": one.dtype, "by": "hand", "members": [at.index], "proof": proof}
    facts["checks"] = _checks(run, at)
    yield Evidence("noisy-quotient", "quotients", site=at.site, op=at.index, numbers=numbers, facts=facts)


def _checks(run: Run, at: Op) -> bool:
    """The program also differentiates, and the quotient is no part of what it differentiates: a check, not a derivative that it needs."""
    recording = run.recording
    if at.name == "_local_scalar_dense":
        return True  # put together in Python: the model cannot be differentiated through it
    return any(op.phase == "backward" for op in recording.ops) and not any(recording.depends(at, loss) for loss in run.losses())


def _check(check: GradientCheck) -> Iterator[Evidence]:
    if check.dtype not in FORMATS or check.dtype == "float64" or not check.largest:
        return
    noise = FORMATS[check.dtype].eps * check.largest / (2 * check.step)
    allowed = check.absolute + check.relative * check.largest
    numbers = {
        "error": Number(noise / allowed, "of what is tolerated"),
        "step": Number(check.step),
        "bound": Number(noise),
        "allowed": Number(allowed),
    }
    facts = {"op": "gradcheck", "dtype": check.dtype, "by": "gradcheck", "members": []}
    yield Evidence("noisy-quotient", "quotients", site=check.site, numbers=numbers, facts=facts)
