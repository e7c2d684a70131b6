"""Which updates do the weights' format swallow?

Measures  for every operation that writes to trained weights in the recorded steps: its exact result in float64 against what the weights
          hold afterwards: elements that should have moved and stayed bit for bit the same; and by how much their exact updates would have
          lowered the loss over the steps of the run (to first order, -gradient * update, each update against another step's gradient where
          there is one, so that the noise of a batch does not count).
Costs     the recorded updates twice.
Misses    steps that were not recorded; weights that are rebuilt instead of written to; moving averages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.run import Run
from numdebug.weights import Update

QUESTION = "Which updates do the weights' format swallow?"


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line that updates weights, about the last recorded step."""
    if run.recording.sinks:
        return
    last: dict[object, Update] = {}
    for one in run.updates():
        site = run.recording.ops[one.op].site
        last[(site.place if site else None, one.dtype)] = one
    losses = [s.loss for s in run.recording.steps if s.loss is not None and math.isfinite(s.loss)]
    largest = max(map(abs, losses), default=0.0)
    for one in last.values():
        if not one.absorbed or not losses:
            continue
        op = run.recording.ops[one.op]
        lost = one.lost if one.lost_elsewhere is None else min(one.lost, one.lost_elsewhere)
        steps = len(run.recording.steps)
        numbers = {
            "absorbed": Number(one.absorbed, "elements"),
            "moving": Number(one.moving, "elements"),
            "share": Number(one.absorbed / one.moving, "of the elements with a nonzero update"),
            "steps": Number(steps),
            "lost": Number(lost * steps, "of the loss, to first order, over the run's steps"),
            "lost_share": Number(lost * steps / largest if largest else 0.0, "of the largest loss of the run"),
        }
        proof = ""
        if one.repeats:
            proof = (
                f"the update run again on the recorded numbers gives the weights bit for bit; in float64 it moves all {one.moving}"
                f" elements, and rounded to {one.dtype} {one.absorbed} of them are what they were"
            )
        facts = {
            "op": op.name, "native": op.native, "phase": op.phase, "step": op.step, "dtype": one.dtype, "members": [op.index],
            "proof": proof,
        }  # fmt: skip
        sites = {"target": op.site} if op.site is not None else {}
        yield Evidence("absorbed-updates", "updates", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites)
