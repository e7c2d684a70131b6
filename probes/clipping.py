"""What did clipping do to the gradients?

Measures  for every recorded backward pass whose gradients are changed before the optimizer sees them: how many elements, by how much, and
          the cosine between before and after; whether a loss scale was still on them, and what clipping after its removal would have left.
Costs     one pass over the gradients of the recorded steps.
Misses    steps that were not recorded; gradients that are replaced and not changed in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.recording import Site
from numdebug.run import Run
from numdebug.training import progress
from numdebug.weights import Clipping

QUESTION = "What did clipping do to the gradients?"
# Clipping in the other order would have left a tenth more: rounding in float16 (5e-4) does not explain it.
APART = 1.1
# Most elements cut, not the outliers that clipping by value is for.
MOST = 0.5
# Cutting the larger half of normally distributed elements leaves a cosine of 0.95; signs alone leave 0.80 of them.
TURNED = 0.9
# A run that has lost nine tenths of its loss is not held up, unless it is nowhere near its end: from the second quarter of the run to the
# last one the loss still halves.
STUCK = 0.1
FALLING = 0.5
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line that clips: of its recorded steps the one with the least effect."""
    if run.recording.sinks:
        return
    least: dict[object, Clipping] = {}
    for one in run.clippings():
        op = run.recording.ops[one.op]
        key = (op.site.place if op.site else None, one.kind)
        known = least.get(key)
        if known is None or _effect(one) < _effect(known):
            least[key] = one
    losses = [s.loss for s in run.recording.steps if s.loss is not None and math.isfinite(s.loss)]
    left = abs(losses[-1]) / abs(losses[0]) if losses and losses[0] else 1.0
    went = progress(run.recording)
    slow = left > STUCK or (went is not None and went.steps > 3 and went.late < FALLING * went.middle)
    for one in least.values():
        if harmful(one, slow, _adaptive(run)):
            yield _fact(run, one, left)


def harmful(one: Clipping, slow: bool, adaptive: bool) -> bool:
    """Clipped under a loss scale with another outcome; or cut by value to another direction, while the loss stays up or is far from
    its end."""
    if one.scale is not None:
        return one.meant > APART
    most = one.kind == "value" and one.changed > MOST * one.elements
    return most and one.cosine < TURNED and slow and not adaptive


def _effect(one: Clipping) -> float:
    return one.meant if one.scale is not None else 1 - one.cosine


def _fact(run: Run, one: Clipping, left: float) -> Evidence:
    op = run.recording.ops[one.op]
    numbers = {
        "changed": Number(one.changed, "elements"),
        "elements": Number(one.elements, "elements that are not 0"),
        "share": Number(one.changed / one.elements if one.elements else 0.0, "of them"),
        "cosine": Number(one.cosine, "between the gradients before and after"),
        "factor": Number(one.factor, "norm after over norm before"),
        "limit": Number(one.limit, "norm" if one.kind == "norm" else "largest element"),
        "loss_left": Number(left, "last loss over first"),
        "meant": Number(one.meant, "norm that clipping unscaled gradients would leave, over the norm that the optimizer got"),
    }
    at = run.made(op) or op.site
    sites: dict[str, Site] = {"target": at} if at is not None else {}
    proof = ""
    if one.scale is not None and one.unscale is not None:
        numbers["scale"] = Number(one.scale, "loss scale")
        sites.update(_step(run, one))
        proof = (
            f"computed from the recorded gradients: with the scale of {one.scale:g} taken off first, the same limit leaves a norm"
            f" {one.meant:.3g} times the one that the optimizer got"
        )
    facts = {
        "op": op.name, "native": op.native, "phase": op.phase, "step": op.step, "how": one.kind, "members": [op.index], "proof": proof,
        "scaled": one.scale is not None,
    }  # fmt: skip
    return Evidence("clipped-gradients", "clipping", site=at, op=op.index, numbers=numbers, facts=facts, sites=sites)


def _adaptive(run: Run) -> bool:
    """The optimizer divides each element by the root of something: it does not mind their sizes. A norm is one number."""
    roots = [op for op in run.recording.ops if op.phase == "optimizer" and (op.name == "sqrt" or "_fused_ada" in op.native)]
    return any(op.name != "sqrt" or not op.outputs or op.outputs[0].shape != () for op in roots)


def _step(run: Run, one: Clipping) -> dict[str, Site]:
    """Where the scaler steps, and the place in the same function from which the clipping was called."""
    assert one.unscale is not None
    unscale = run.recording.ops[one.unscale]
    if unscale.site is None:
        return {}
    found = {"scaler": unscale.site}
    for frame in run.frames(run.recording.ops[one.op]):
        if frame.file == unscale.site.file and frame.function == unscale.site.function:
            found["clip"] = Site(frame.file, frame.line, frame.column, frame.end_line, frame.end_column, frame.function)
    return found
