"""Does a state that is stepped forward in a loop swing or spiral outwards, although what drives it pulls it back?

Measures  for states of the form x + h * f(x), eight or more in a row on one line: how successive differences follow from the two before,
          d[k+1] = a * d[k] + b * d[k-1]; the growth factor a step that this gives, and the growth rate that f itself would have.
Costs     one pass over the states of such loops.
Misses    implicit and adaptive methods; instabilities that have not grown tenfold; states that gradients update (optimizers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.recording import Op, Recording
from numdebug.run import Run

QUESTION = "Does a state that is stepped forward in a loop swing outwards?"
SILENT = True

STEPS = 8
# A tenfold growth of the differences over the loop: rounding and a damped swing give none.
GROWN = 10.0
# The two-term law must explain the differences to a tenth: otherwise the growth is not linear instability.
FIT = 0.1


@dataclass(frozen=True)
class _Law:
    factor: float  # growth of a difference by one step
    rate: float  # Re(h * lambda) of the exact solution, from z = 1 + h * lambda


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for the first loop that swings outwards."""
    recording = run.recording
    by_place: dict[object, list[Op]] = {}
    for op in recording.ops:
        if op.phase == "forward" and op.name in ("add", "sub") and op.site is not None and len(op.operands) == 2:
            by_place.setdefault(op.site.span, []).append(op)
    for ops in by_place.values():
        laws = ((states, _law(run, states)) for states in _states(recording, ops) if len(states) >= STEPS)
        states, law = next(((states, law) for states, law in laws if law is not None), ([], None))
        if law is None:
            continue
        op = states[-1]
        sites = {"target": op.site} if op.site is not None else {}
        numbers = {
            "factor": Number(law.factor, "per step"),
            "rate": Number(law.rate, "per step, of the exact solution"),
            "steps": Number(len(states), "steps"),
        }
        facts = {"op": op.name, "native": op.native, "members": [s.index for s in states]}
        yield Evidence("swinging-state", "time_steps", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites)
        return


def _states(recording: Recording, ops: list[Op]) -> list[list[Op]]:
    """Runs of additions of which each one works on the result of the one before, driven by a function of it."""
    runs: list[list[Op]] = []
    for op in ops:
        if runs and runs[-1][-1].outputs[0] in op.operands and _driven(recording, op, runs[-1][-1]):
            runs[-1].append(op)
        else:
            runs.append([op])
    return runs


def _driven(recording: Recording, op: Op, before: Op) -> bool:
    """The increment comes from the state itself, by a plain forward computation."""
    state = before.outputs[0]
    for increment in (v for v in op.operands if v is not state):
        for count, upstream in enumerate(recording.upstream(increment)):
            if upstream.phase == "backward":
                return False
            if upstream is before:
                return True
            if count > 60:
                break
    return False


def _law(run: Run, states: list[Op]) -> _Law | None:
    arrays = [run.array(op.outputs[0]) for op in states]
    kept = [a.astype(np.float64).ravel() for a in arrays if a is not None and a.dtype.kind == "f" and np.isfinite(a).all()][-24:]
    if len(kept) < STEPS or any(a.shape != kept[0].shape for a in kept):
        return None
    d = np.diff(np.stack(kept), axis=0)
    sizes = np.linalg.norm(d, axis=1)
    if not (sizes > 0).all() or np.linalg.norm(kept[-1]) < np.linalg.norm(kept[0]) * 0.5:
        return None
    late = d[-8:]
    target, one, two = late[2:].ravel(), late[1:-1].ravel(), late[:-2].ravel()
    (a, b), *_ = np.linalg.lstsq(np.stack([one, two], axis=1), target, rcond=None)
    if np.linalg.norm(target - a * one - b * two) > FIT * np.linalg.norm(target):
        return None
    roots = np.roots([1.0, -a, -b])
    z = max(roots, key=abs)
    factor = float(abs(z))
    whole = sizes[-1] / sizes[0]
    if factor <= 1.0 or (whole < GROWN and factor ** len(states) < GROWN) or sizes[-1] <= sizes[-4]:
        return None
    rate = float(z.real) - 1.0
    # An exact solution that itself grows is followed, not blown up: for x + h f(x), z = 1 + h lambda.
    if rate > 1e-6 * factor:
        return None
    return _Law(factor, rate)
