"""Which parameters does training leave alone although the loss depends on them?

Measures  parameters that are bit for bit what they were at the first step, and were not loaded from elsewhere: those that get a gradient
          and are in no optimizer; and those that an optimizer has and no gradient ever reaches, although the recorded forward pass computes
          the loss from them, with the place where that computation leaves autograd.
Costs     one pass over the recorded operations for each such parameter.
Misses    parameters that the loss does not depend on (an unused head); a way through NumPy; parameters frozen by requires_grad=False.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.run import Run
from numdebug.weights import Untrained

QUESTION = "Which parameters does training leave alone although the loss depends on them?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each cause."""
    if run.recording.sinks:
        return
    for one in run.untrained():
        yield _fact(run, one)


def _fact(run: Run, one: Untrained) -> Evidence:
    recording = run.recording
    steps = len(recording.steps)
    numbers = {"parameters": Number(len(one.names)), "elements": Number(one.elements), "steps": Number(steps)}
    if one.gradient is not None:
        numbers["gradient"] = Number(one.gradient, "norm")
    op = recording.ops[one.op] if one.op is not None else None
    site = op.site if op is not None else recording.places.get("optimizer") or recording.places.get("update")
    if one.late and one.made is not None:
        site = one.made
    same = f"they are bit for bit what they were before the first of {steps} steps"
    if one.why == "unowned":
        proof = f"{same}, while the backward pass gives them a gradient of norm {one.gradient:.3g}, and nothing updates them"
    else:
        proof = f"{same} and never got a gradient, while the recorded loss is computed from them through this operation"
    facts = {
        "op": op.name if op is not None else None, "native": op.native if op is not None else None,
        "phase": "forward", "step": op.step if op is not None else None, "why": one.why, "how": one.how, "late": one.late,
        "names": list(one.names), "members": [one.op] if one.op is not None else [], "proof": proof,
    }  # fmt: skip
    sites = {"target": site} if site is not None else {}
    return Evidence("untrained-parameters", "ownership", site=site, op=one.op, numbers=numbers, facts=facts, sites=sites)
