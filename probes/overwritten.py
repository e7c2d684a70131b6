"""Which values did the backward pass read after something had overwritten them?

Measures  for each operation of the backward pass whose operand is a tensor of its forward operation, written in between where autograd does
          not look (through .data, or a view that shares the memory): the line of the write, and, the operation run again with the value
          from before it, how far its gradient is off.
Costs     each such operation twice.
Misses    writes that PyTorch does not dispatch (NumPy, shared memory); damage to data that a later step reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numdebug.evidence import Evidence, Number
from numdebug.run import Run

QUESTION = "Which values did the backward pass read after something had overwritten them?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each write, with the worst of its effects."""
    ops = run.recording.ops
    worst: dict[int, Any] = {}
    for one in run.overwritten():
        if one.write not in worst or one.effect > worst[one.write].effect:
            worst[one.write] = one
    for one in worst.values():
        write, forward, backward = ops[one.write], ops[one.forward], ops[one.backward]
        numbers = {
            "changed": Number(one.changed, "elements"),
            "size": Number(one.size, "elements"),
            "effect": Number(one.effect, "of the gradient's norm"),
        }
        proof = ""
        if one.repeats:
            proof = (
                f"{backward.node or backward.name} run again on what it read gives the recorded gradient bit for bit; with the value from"
                f" before the write and nothing else changed, the gradient differs by {one.effect:.1%} of its norm"
            )
        facts = {
            "op": write.name, "native": write.native, "phase": write.phase, "step": write.step, "read": forward.name,
            "read_line": forward.site.line if forward.site is not None else None, "members": [write.index], "proof": proof,
        }  # fmt: skip
        sites = {"target": write.site} if write.site is not None else {}
        yield Evidence("overwritten", "overwritten", site=write.site, op=write.index, numbers=numbers, facts=facts, sites=sites)
