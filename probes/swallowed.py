"""Which overflow disappears again, leaving a plausible wrong number?

Measures  operations that turn finite numbers into inf where a quotient or reciprocal root makes an exact 0 of it; the same
          operations are computed in float64, and what should have stood there is reported.
Costs     one pass over products, squares and sums; for each such overflow, its own operations once more in float64.
Misses    an overflow that a minimum, a clamp or a comparison swallows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import downstream
from numdebug.recording import Op
from numdebug.run import CannotAsk, Run

QUESTION = "Which overflow disappears again, leaving a plausible wrong number?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source

_GROWS = frozenset({"pow", "square", "mul", "matmul", "sum", "mean", "norm", "addcmul"})
_SHRINKS = frozenset({"div", "rsqrt", "reciprocal"})
_MOST = 8  # overflows followed in one run: they come in layers of the same kind


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each source line."""
    if run.recording.sinks:
        return
    lines: set[object] = set()
    for op in run.recording.ops:
        if op.phase != "forward" or op.name not in _GROWS or not op.outputs or op.outputs[0].dtype not in FORMATS or op.site is None:
            continue
        if op.site.place in lines or len(lines) >= _MOST:
            continue
        if not run.stats(op.outputs[0]).inf or any(run.stats(v).non_finite for v in op.operands):
            continue
        found = _swallowed(run, op)
        if found is not None:
            lines.add(op.site.place)
            yield found


def _swallowed(run: Run, op: Op) -> Evidence | None:
    dtype = op.outputs[0].dtype
    for user in downstream(run.recording, op):
        if user.name not in _SHRINKS or not user.outputs or not run.stats(user.outputs[0]).zero or run.stats(user.outputs[0]).nan:
            continue
        recorded = run.array(user.outputs[0])
        try:
            exact = run.exact([user.outputs[0]]).get(user.outputs[0].id)
        except CannotAsk:
            return None
        if recorded is None or exact is None:
            return None
        lost = (recorded == 0) & (np.abs(exact) >= FORMATS[dtype].tiny)
        if not lost.any():
            continue
        largest = max(abs(s.highest or 0.0) for s in map(run.stats, op.operands))
        numbers = {
            "lost": Number(int(lost.sum()), "elements"),
            "size": Number(int(lost.size), "elements"),
            "largest_exact": Number(float(np.abs(exact[lost]).max())),
            "largest_input": Number(largest),
            "format_limit": Number(FORMATS[dtype].max),
        }
        facts = {"op": op.name, "dtype": dtype, "members": [op.index], "native": op.native, "shrinks": user.name}
        sites = {"target": op.site} if op.site is not None else {}
        ops = {"target": op.index}
        return Evidence("swallowed-overflow", "swallowed", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)
    return None
