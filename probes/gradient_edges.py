"""Where is a derivative infinite, or poisoned by a branch that the forward pass threw away?

Measures  for every non-finite gradient: the forward operation whose derivative made it, whether that operation's own result was
          finite, at which point it was evaluated, and whether a where() drops the elements concerned.
Costs     nothing beyond the recorded step.
Misses    an edge that this run's data did not reach.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.births import Birth, births, dropped_by, without_followers
from numdebug.evidence import Evidence, Number
from numdebug.recording import Op, Sink
from numdebug.run import Run

QUESTION = "Where is a derivative infinite, or poisoned by a branch that the forward pass threw away?"

# Operation -> points at which its derivative is infinite (or undefined).
EDGES: dict[str, tuple[float, ...]] = {
    "sqrt": (0.0,), "rsqrt": (0.0,), "pow": (0.0,), "norm": (0.0,), "log": (0.0,), "log2": (0.0,), "log10": (0.0,), "log1p": (-1.0,),
    "acos": (-1.0, 1.0), "asin": (-1.0, 1.0), "atanh": (-1.0, 1.0), "acosh": (1.0,), "atan2": (0.0,), "hypot": (0.0,), "div": (0.0,),
    "reciprocal": (0.0,), "std": (0.0,), "cdist": (0.0,), "erfinv": (-1.0, 1.0), "logit": (0.0, 1.0), "abs": (0.0,), "angle": (0.0,),
}  # fmt: skip
_EIGEN = ("eigh", "svd", "eig", "linalg_eigvalsh")


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each forward operation whose derivative is to blame."""
    found: dict[object, list[Birth]] = {}
    if any(s.what == "loss" and run.stats(s.value).non_finite and not _derived(run, s) for s in run.recording.sinks):
        return
    for sink in run.recording.sinks:
        if sink.what != "gradient" and not _derived(run, sink):
            continue
        for birth in births(run, sink):
            if birth.culprit is not None and birth.op is not None and birth.culprit.phase == "forward" and not birth.deliberate:
                found.setdefault(birth.culprit.index, []).append(birth)
    for group in without_followers(found).values():
        if group[0].culprit is not None:
            yield _fact(run, group[0].culprit)


def _derived(run: Run, sink: Sink) -> bool:
    """What is consumed was computed from a gradient: the norm of one, or a penalty on it."""
    op = run.recording.producer(sink.value)
    return sink.what in ("loss", "output") and op is not None and op.phase != "forward"


def _fact(run: Run, op: Op) -> Evidence:
    operands = [run.array(v) for v in op.operands]
    argument = operands[-1] if op.name in ("div",) else operands[0] if operands else None
    edge, count = None, 0
    if argument is not None:
        for point in EDGES.get(op.name, ()):
            here = int((argument == point).sum())
            if here:
                edge, count = point, count + here
    facts = {
        "op": op.name,
        "forward_finite": not any(run.stats(v).non_finite for v in op.outputs),
        "members": [op.index],
        "dropped": False,
        "eigen": op.name in _EIGEN,
        "native": op.native,
        "square": bool(op.operands) and len(op.operands[0].shape) > 1 and op.operands[0].shape[-1] == op.operands[0].shape[-2],
        "operands": len(op.operands),
        "scalars": {k: v for k, v in op.scalars.items() if isinstance(v, (int, float))},
    }
    numbers = {"at_edge": Number(count, "elements")}
    if edge is not None:
        numbers["edge"] = Number(edge)
    ops = {"culprit": op.index}
    sites = {"target": op.site} if op.site is not None else {}
    where = dropped_by(run, op)
    if where is not None and _lets_through(run, op, where):
        where = None
    if where is not None:
        facts["dropped"] = True
        facts["branch"] = "a" if len(where.operands) > 1 and _feeds(run, op, where, 1) else "b"
        facts["selector"] = where.name
        ops["where"] = where.index
        if where.site is not None:
            sites["where"] = where.site
    if op.name in _EIGEN and op.outputs:
        most = operands[0].ndim if operands[0] is not None else 9
        values = next((a for v in op.outputs if (a := run.array(v)) is not None and a.ndim < most), None)
        if values is not None and values.shape[-1:] and values.shape[-1] > 1:
            gap = float(np.abs(np.diff(np.sort(values, axis=-1), axis=-1)).min())
            numbers["smallest_gap"] = Number(gap)
    return Evidence("singular-derivative", "gradient_edges", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _lets_through(run: Run, op: Op, where: Op) -> bool:
    """Whether the selector keeps an element at the edge after all, where the shapes allow to say so element by element."""
    condition = run.array(where.operands[0 if where.name == "where" else 1])
    result, argument = run.array(op.outputs[0]), run.array(op.operands[-1 if op.name == "div" else 0])
    if condition is None or result is None or argument is None or condition.shape != result.shape or argument.shape != result.shape:
        return False
    at_edge = ~np.isfinite(result)
    for point in EDGES.get(op.name, ()):
        at_edge |= argument == point
    first = where.name == "where" and len(where.operands) > 1 and _feeds(run, op, where, 1)
    kept = condition if first else ~condition
    return bool(at_edge.any()) and bool((at_edge & kept).any())


def _feeds(run: Run, op: Op, where: Op, place: int) -> bool:
    value = where.operands[place]
    return run.recording.depends(op, value)
