"""Which collected results are one and the same memory?

Measures  stacks and concatenations that are given one array several times, where that array was overwritten in place between the times at
          which it could have been collected: all of them show the last state.
Costs     nothing beyond the recorded step.
Misses    lists that are never put together; arrays overwritten through NumPy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.graph import STRUCTURAL
from numdebug.recording import Op, Value
from numdebug.run import Run

QUESTION = "Which collected results are one and the same memory?"
EARLY = True  # asked of the first step too, while set-up and data are at hand
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source

_COLLECTS = frozenset({"stack", "cat"})


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line that overwrites."""
    said: set[object] = set()
    for op in run.recording.ops:
        if op.name not in _COLLECTS or op.phase != "forward":
            continue
        for number, times in Counter(v.id for v in op.operands).items():
            value = next(v for v in op.operands if v.id == number)
            writes = _writes(run, value, times)
            if times < 2 or not writes or writes[-1].site is None or writes[-1].site.span in said:
                continue
            said.add(writes[-1].site.span)
            yield _fact(op, value, times, writes)


def _writes(run: Run, value: Value, times: int) -> list[Op]:
    """The in-place operations of one expression, between each two of `times` moments, that left this array as it is; the last one last."""
    found: list[Op] = []
    op = run.recording.producer(value)
    while op is not None and op.operands and (op.in_place or op.name in STRUCTURAL):
        if op.in_place:
            found.append(op)
        op = run.recording.producer(op.operands[0])
    often = Counter(w.site.span for w in found if w.site is not None)
    repeated = [w for w in found if w.site is not None and often[w.site.span] >= times - 1]
    return [w for w in repeated if w.site == repeated[0].site][::-1]


def _fact(op: Op, value: Value, times: int, writes: list[Op]) -> Evidence:
    write = writes[-1]
    numbers = {
        "times": Number(times, "times the same memory"),
        "of": Number(len(op.operands), "arrays"),
        "writes": Number(len(writes), "writes into it"),
        "elements": Number(math.prod(value.shape), "elements"),
    }
    proof = f"the {times} arrays are one memory, which {write.native} wrote {len(writes)} times; they are equal bit for bit"
    members = sorted({op.index, *(w.index for w in writes)})
    facts = {"op": write.name, "native": write.native, "dtype": value.dtype, "members": members, "step": write.step, "proof": proof}
    sites = {"target": write.site, **({"use": op.site} if op.site is not None else {})} if write.site is not None else {}
    ops = {"target": write.index, "use": op.index}
    return Evidence("same-memory", "aliases", site=write.site, op=write.index, numbers=numbers, facts=facts, sites=sites, ops=ops)
