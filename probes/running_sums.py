"""Which running sums have stopped moving?

Measures  sums and averages that a line updates again and again: whether the last updates left them bit for bit as they were, although
          the same updates in float64 move them.
Costs     one pass in float64 over what such a sum is made of, where one stands still.
Misses    sums inside one operation (sum, cumsum, a normalisation's running statistics), and what an optimizer updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import STRUCTURAL, carriers
from numdebug.recording import Op, Recording, Value
from numdebug.run import CannotAsk, Run

QUESTION = "Which running sums have stopped moving?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source

_ADDS = frozenset({"add", "sub", "lerp", "addcmul", "addcdiv"})
_BETWEEN = STRUCTURAL | {"mul", "div", "cast", "add", "sub"}  # what may stand between one update and the next: a decay, a reshape
NEAR = 60  # operations of one update that are looked through for what it is computed from
DEPTH = 4  # operations between one update and the next
WINDOW = 64  # updates looked at: the last ones
# So many updates without effect are no accident of one rounding: even if each were absorbed with probability 1/2, eight are 0.4 %.
TAIL = 8
# A state that is pulled towards something (an average of the last values, a relaxation) settles where the pull is half an ulp of it: the
# pull is as strong as the distance that is left, so that this is harmless as long as three digits are right.
SETTLED = 1e-3
DRIFT = 0.1  # of the sum: what the updates of the whole run amount to, where only a few of them were recorded


@dataclass
class _Update:
    """One addition to a running sum: which elements it left as they were, and what it would have added to them."""

    op: Op
    chain: int  # the first update of the same sum
    still: np.ndarray
    added: np.ndarray
    held: np.ndarray

    @property
    def lost(self) -> bool:
        """Half of the elements that should have moved did not."""
        return 2 * int(self.still.sum()) >= max(1, int((self.added != 0).sum()))


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each expression."""
    lines: dict[object, list[_Update]] = {}
    for op, state, chain in _updates(run.recording):
        update = _update(run, op, state, chain)
        if update is not None and op.site is not None:
            lines.setdefault((op.site.span, op.name), []).append(update)
    for updates in lines.values():
        yield from _fact(run, updates)


def _updates(recording: Recording) -> list[tuple[Op, Value, int]]:
    """Additions whose result the same expression adds to again, in order; the operand that is the sum; the first addition to it."""
    chains: dict[int, int] = {}
    again: set[int] = set()
    found: list[tuple[Op, Value, int]] = []
    for op in recording.ops:
        if op.phase == "forward" and op.name in _ADDS and op.site is not None and op.outputs and op.outputs[0].dtype in FORMATS:
            state, before = _state(recording, op)
            chains[op.index] = op.index
            if state is not None and before is not None:
                again.update((before.index, op.index))
                chains[op.index] = chains.get(before.index, before.index)
                found.append((op, state, chains[op.index]))
            elif op.operands and op.operands[0].dtype == op.outputs[0].dtype:
                found.append((op, op.operands[0], op.index))
    return [one for one in found if one[0].index in again]


def _state(recording: Recording, op: Op) -> tuple[Value | None, Op | None]:
    """The operand that goes on from the same expression's earlier result, and that earlier operation."""
    for operand in op.operands:
        todo, seen = [(operand, 0)], {operand.id}
        while todo:
            value, depth = todo.pop(0)
            above = recording.producer(value)
            if above is None or depth > DEPTH:
                continue
            if above.name == op.name and above.site is not None and op.site is not None and above.site.span == op.site.span:
                return operand, above
            if above.name in _BETWEEN:
                todo.extend((v, depth + 1) for v in carriers(above) if v.id not in seen)
                seen.update(v.id for v in above.operands)
    return None, None


def _update(run: Run, op: Op, state: Value, chain: int) -> _Update | None:
    """The addition, element by element, in float64."""
    new, old = run.array(op.outputs[0]), run.array(state)
    others = [run.array(v) for v in op.operands if v is not state]
    if new is None or old is None or old.shape != new.shape or any(o is None for o in others):
        return None
    if not np.isfinite(old).all():  # an infinity does not move either
        return None
    factor = op.scalars.get("alpha", op.scalars.get("value", 1))
    other = op.scalars.get("other")
    wide = [np.asarray(o, dtype=np.float64) for o in others]
    if op.name == "lerp":
        weight = wide[1] if len(wide) > 1 else op.scalars.get("weight")
        added = (wide[0] - old) * weight if wide and isinstance(weight, (float, int, np.ndarray)) else None
    elif op.name in ("addcmul", "addcdiv"):
        added = (wide[0] * wide[1] if op.name == "addcmul" else wide[0] / wide[1]) if len(wide) == 2 else None
    else:
        added = wide[0] if wide else np.asarray(float(other)) if isinstance(other, (int, float)) else None
    if added is None or not isinstance(factor, (int, float)):
        return None
    added = np.broadcast_to(np.abs(added * factor), new.shape)
    return _Update(op, chain, (new == old) & (added != 0), added, np.abs(old.astype(np.float64)))


def _fact(run: Run, updates: list[_Update]) -> Iterator[Evidence]:
    tail = updates[-WINDOW:]
    lost = [u for u in tail if u.lost]
    if len(lost) < 2 or 2 * len(lost) < len(tail):
        return
    last = lost[-1]
    dtype = last.op.outputs[0].dtype
    eps = FORMATS[dtype].eps
    missing = sum(float((u.added * u.still).sum()) for u in lost)
    held = max(float(u.held[u.still].max()) for u in lost if u.still.any())
    moves = [float(np.linalg.norm(u.added[u.still]) / max(float(np.linalg.norm(u.held[u.still])), FORMATS[dtype].tiny)) for u in lost]
    rate = float(np.mean(moves))
    size = float(np.mean([u.still.sum() for u in lost]))
    if len(lost) >= TAIL:
        if missing < eps * held * max(1.0, size):
            return  # not an ulp in all: terms that have become negligible
    elif rate * len(run.recording.steps) < DRIFT:
        return
    if not _really(run, last, lost):
        return
    op = last.op
    numbers = {
        "updates": Number(len(lost), f"of the last {len(tail)} updates without effect"),
        "of": Number(len(tail), "updates"),
        "stuck": Number(int(last.still.sum()), "elements"),
        "size": Number(int(last.still.size), "elements"),
        "sum": Number(held),
        "added": Number(float(np.median(last.added[last.still]))),
        "rate": Number(rate, "of the sum, an update"),
        "eps": Number(eps),
    }
    proof = f"the recorded updates once more in float64 move the sum, by {rate:.1e} of it each"
    members = [u.op.index for u in lost]
    facts = {"op": op.name, "native": op.native, "dtype": dtype, "members": members, "step": op.step, "proof": proof}
    sites = {"target": op.site} if op.site is not None else {}
    ops = {"target": op.index}
    yield Evidence("stuck-sum", "running_sums", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _really(run: Run, last: _Update, lost: list[_Update]) -> bool:
    """In float64 the sum has gone on by what the recorded one misses. Compensated summation, which carries it elsewhere, has not."""
    value = last.op.outputs[0]
    recorded = run.array(value)
    try:
        exact = run.exact([value]).get(value.id)
    except CannotAsk:
        return False
    if recorded is None or exact is None:
        return False
    missing = sum((u.added * u.still for u in lost if u.chain == last.chain and u.still.shape == last.still.shape), np.zeros(()))
    off = np.abs(exact - recorded.astype(np.float64))
    gone = last.still & (off >= missing / 2)
    if _pulled(run.recording, last):
        gone &= off > SETTLED * np.abs(exact)
    return bool(gone.any())


def _pulled(recording: Recording, update: _Update) -> bool:
    """What is added is computed from the sum itself."""
    if update.op.name == "lerp":
        return True
    state, before = _state(recording, update.op)
    others = [v for v in update.op.operands if v is not state]
    return any(op is before for v in others for op in islice(recording.upstream(v), NEAR))
