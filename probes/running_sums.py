"""Which running sums have stopped moving?

Measures  sums and averages that a line updates again and again: whether the last updates left them bit for bit as they were, although
          the same updates in float64 move them.
Costs     one pass in float64 over what such a sum is made of, where one stands still.
Misses    sums inside one operation (sum, cumsum, a normalisation's running statistics), and what an optimizer updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import STRUCTURAL
from numdebug.recording import Op, Recording, Value
from numdebug.run import CannotAsk, Run

QUESTION = "Which running sums have stopped moving?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source

_ADDS = frozenset({"add", "sub", "lerp", "addcmul", "addcdiv", "index_add", "index_put", "scatter_add"})
_BETWEEN = STRUCTURAL | {"mul", "div", "cast"}  # what may stand between one update and the next: a decay, a reshape
# So many updates in a row without effect are no accident of one rounding: even if each were absorbed with probability 1/2, eight are 0.4 %.
TAIL = 8
DRIFT = 0.1  # of the sum: what the updates of the whole run amount to where only a few of them were recorded


@dataclass
class _Chain:
    """Updates of one sum, in order."""

    ops: list[Op] = field(default_factory=list)


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line."""
    lines: dict[object, list[list[Op]]] = {}
    for chain in _chains(run.recording):
        tail = _still(run, chain.ops)
        if len(tail) >= 2 and tail[-1].site is not None:
            lines.setdefault(tail[-1].site.place, []).append(tail)
    for tails in lines.values():
        yield from _fact(run, tails)


def _chains(recording: Recording) -> list[_Chain]:
    """Each sum's updates, tied together by the dataflow from one to the next on the same expression."""
    of: dict[int, _Chain] = {}
    chains: list[_Chain] = []
    for op in recording.ops:
        if op.phase != "forward" or op.name not in _ADDS or op.site is None or not op.outputs or op.outputs[0].dtype not in FORMATS:
            continue
        before = _before(recording, op)
        chain = of.get(before.index) if before is not None else None
        if chain is None:
            chain = _Chain()
            chains.append(chain)
        chain.ops.append(op)
        of[op.index] = chain
    return [c for c in chains if len(c.ops) >= 2]


def _before(recording: Recording, op: Op) -> Op | None:
    """The update whose result this one goes on from."""
    todo = [(v, 0) for v in op.operands if v.shape == op.outputs[0].shape]
    while todo:
        value, depth = todo.pop(0)
        above = recording.producer(value)
        if above is None or depth > 4:
            continue
        if above.name == op.name and above.site is not None and op.site is not None and above.site.span == op.site.span:
            return above
        if above.name in _BETWEEN:
            todo.extend((v, depth + 1) for v in above.operands if v.shape == value.shape)
    return None


def _state(recording: Recording, op: Op, before: Op | None) -> Value | None:
    """The sum as it was before this update."""
    if before is not None:
        return before.outputs[0]
    return next((v for v in op.operands if v.shape == op.outputs[0].shape and v.dtype == op.outputs[0].dtype), None)


def _still(run: Run, ops: list[Op]) -> list[Op]:
    """The updates at the end of a chain that left at least half of the sum's elements as they were."""
    tail: list[Op] = []
    for op, before in zip(reversed(ops), [*reversed(ops[:-1]), None], strict=True):
        state = _state(run.recording, op, before)
        old, new = (run.array(state) if state is not None else None), run.array(op.outputs[0])
        if old is None or new is None or old.shape != new.shape or 2 * int((old == new).sum()) < new.size or not new.any():
            break
        tail.append(op)
    return tail[::-1]


def _fact(run: Run, tails: list[list[Op]]) -> Iterator[Evidence]:
    recording = run.recording
    ends = [(tail, _state(recording, tail[0], _before(recording, tail[0])), tail[-1].outputs[0]) for tail in tails]
    try:
        exact = run.exact([v for _, first, last in ends if first is not None for v in (first, last)])
    except CannotAsk:
        return
    stuck = size = 0
    moved = total = largest = 0.0
    for tail, first, last in ends:
        if first is None or first.id not in exact or last.id not in exact:
            continue
        old, new = run.array(first), run.array(last)
        assert old is not None and new is not None
        drift = np.abs(exact[last.id] - exact[first.id])
        ulp = np.maximum(np.abs(old.astype(np.float64)) * FORMATS[last.dtype].eps, FORMATS[last.dtype].subnormal)
        still = (old == new) & (drift > (ulp if len(tail) >= TAIL else 0.0))
        stuck += int(still.sum())
        size += new.size
        moved += float((drift[still] ** 2).sum()) / len(tail) ** 2
        total += float((old.astype(np.float64)[still] ** 2).sum())
        largest = max([largest, *np.abs(old[still].astype(np.float64)).ravel()])
    tail = max(tails, key=len)
    rate = (moved / total) ** 0.5 if total else 0.0
    steps = len(recording.steps)
    if 2 * stuck < size or (len(tail) < TAIL and rate * steps < DRIFT):
        return
    op = tail[-1]
    numbers = {
        "stuck": Number(stuck, "elements"),
        "size": Number(size, "elements"),
        "updates": Number(len(tail), "updates in a row without effect"),
        "sum": Number(largest),
        "drift": Number(rate, "of the sum, an update"),
        "eps": Number(FORMATS[op.outputs[0].dtype].eps),
    }
    proof = f"the recorded updates once more in float64 move {'it' if size == 1 else f'{stuck} elements'}, by {rate:.1e} of the sum each"
    members = [o.index for o in tail]
    facts = {"op": op.name, "native": op.native, "dtype": op.outputs[0].dtype, "members": members, "step": op.step, "proof": proof}
    sites = {"target": op.site} if op.site is not None else {}
    ops = {"target": op.index}
    made = ends[0][1]
    if made is not None and made.made_at is not None:
        sites["made"] = made.made_at
    yield Evidence("stuck-sum", "running_sums", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)
