"""Does a state grow by a factor each time it passes through the same line?

Measures  for products (matmul, conv, mul) that stand on one line and run eight or more times, each working on what the one before gave:
          the largest magnitude each time, and the factor from one to the next.
Costs     one pass over the recorded operations.
Misses    growth that takes more than one line to go round, and loops too long to be recorded whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.recording import Op, Recording
from numdebug.run import Run

QUESTION = "Does a state grow by a factor each time it passes through the same line?"

PASSES = 8
NEAR = 60  # operations looked at between two passes


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for the first such line: growth that went through half of what the format can hold, on a logarithmic scale."""
    by_place: dict[object, list[Op]] = {}
    for op in run.recording.ops:
        if op.phase == "forward" and op.name in ("matmul", "conv", "mul") and op.site is not None and op.outputs:
            by_place.setdefault((op.name, op.site.span, op.step), []).append(op)
    for ops in sorted(by_place.values(), key=lambda group: (group[0].name == "mul", group[0].index)):
        state = _chain(run.recording, ops)
        if len(state) < PASSES:
            continue
        sizes = [s for op in state if (s := run.stats(op.outputs[0]).max_abs)]
        known = FORMATS.get(ops[0].outputs[0].dtype)
        if known is None or len(sizes) < PASSES or sizes[-1] < sizes[0] * known.max**0.5:
            continue
        op = next(o for o in state if run.stats(o.outputs[0]).max_abs)
        numbers = {
            "first_size": Number(sizes[0]),
            "last_size": Number(sizes[-1]),
            "passes": Number(len(sizes), "passes"),
            "factor": Number((sizes[-1] / sizes[0]) ** (1 / (len(sizes) - 1)), "per pass"),
        }
        sites = {"target": op.site} if op.site is not None else {}
        facts = {"op": op.name, "native": op.native, "phase": op.phase, "dtype": op.outputs[0].dtype, "members": [o.index for o in state]}
        yield Evidence("growing-state", "recurrences", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites)
        return


def _chain(recording: Recording, ops: list[Op]) -> list[Op]:
    """The longest run of operations of which each works on the result of the one before."""
    best: list[Op] = []
    run: list[Op] = []
    for op in ops:
        run = [*run, op] if run and _works_on(recording, op, run[-1]) else [op]
        best = max(best, run, key=len)
    return best


def _works_on(recording: Recording, op: Op, before: Op) -> bool:
    for operand in op.operands:
        for count, upstream in enumerate(recording.upstream(operand)):
            if upstream is before:
                return True
            if upstream.index < before.index or count > NEAR:
                break
    return False
