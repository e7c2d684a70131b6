"""Which results depend on memory that was never written?

Measures  every empty() of the recorded operations: they are run again with two different fillings of that memory, and what the program
          consumes (losses, numbers that it reads, arrays that its names hold) is compared bit for bit.
Costs     nothing without empty(); else three runs of the recorded forward pass, and three for each empty() that matters.
Misses    writes and reads through NumPy; memory made before the recorded operations.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.run import CannotAsk, Run

QUESTION = "Which results depend on memory that was never written?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source
EARLY = True  # asked of the first step too: a parameter is read before the first update writes to it


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each empty() whose content is consumed."""
    try:
        found = run.unwritten()
    except CannotAsk:
        return
    for one in found:
        op = run.recording.ops[one.op]
        numbers = {"size": Number(one.size, "elements"), "changed": Number(one.changed, "consumed values")}
        facts = {
            "op": op.name, "native": op.native, "phase": op.phase, "step": op.step, "name": one.name, "parameter": one.parameter,
            "reaches": one.reaches, "members": [op.index],
            "proof": f"the recorded operations run again with two other fillings of this memory give two other values of {one.reaches};"
            " with the same filling twice, the same",
        }  # fmt: skip
        sites = {"target": op.site} if op.site is not None else {}
        kind = "unwritten-memory"
        if run.recording.sinks and one.cures:  # left-overs so large that the run failed of them
            kind, facts = "nonfinite-birth", {**facts, "born": "uninitialised", "deliberate": False}
        yield Evidence(kind, "unwritten", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites)
