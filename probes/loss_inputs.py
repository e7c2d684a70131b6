"""What does each loss get: logits, probabilities, or log-probabilities?

Measures  for log_softmax, softmax, sigmoid, nll_loss, kl_div and binary cross-entropy with logits, in a step that is differentiated:
          which operation made their input, past reshapes and guards, and whether it holds probabilities along the class axis.
Costs     one pass over the inputs of losses.
Misses    probabilities that are scaled or weighted on their way into the loss; a loss written by hand without one of these operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.graph import carriers, is_guard
from numdebug.layers import steps_of
from numdebug.recording import Op, Recording, Value
from numdebug.run import Run

QUESTION = "What does each loss get: logits, probabilities, or log-probabilities?"
SILENT = True
EARLY = True

# What hands numbers on as they are. A loss behind anything else is fed with something new.
_PASSING = frozenset({
    "view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze", "permute", "transpose", "t", "copy", "cast", "contiguous",
    "alias", "select", "slice", "index", "view_copy", "expand",
})  # fmt: skip
# Rounding in a sum of probabilities: half precision keeps 3 digits.
CLOSE = 4e-3
_LOGITS = "logits"
_LOGS = "log-probabilities"


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each place that makes the wrong input, in the order of execution."""
    recording = run.recording
    if recording.sinks:
        return
    steps = set(steps_of(recording))
    said: set[object] = set()
    for op in recording.ops:
        if op.phase != "forward" or not op.grad or op.step not in steps:
            continue
        found = _wrong(run, op)
        if found is None:
            continue
        maker, given, wanted = found
        at = run.made(maker) or maker.site
        if at is None or at.place in said:
            continue
        said.add(at.place)
        sites = {"target": at} | ({"loss": op.site} if op.site is not None else {})
        numbers = {"lowest": Number(given[0]), "highest": Number(given[1])}
        facts: dict[str, Any] = {
            "op": maker.name,
            "native": maker.native,
            "loss": op.name,
            "given": given[2],
            "wanted": wanted,
            "members": [op.index],
        }
        if op.site is not None:
            facts["loss_line"] = op.site.line
        yield Evidence(
            "loss-input", "loss_inputs", site=at, op=maker.index, numbers=numbers, facts=facts, sites=sites, ops={"target": maker.index}
        )


def _wrong(run: Run, op: Op) -> tuple[Op, tuple[float, float, str], str] | None:
    """The operation that made the wrong input of a loss, the range and kind of what it made, and what the loss expects."""
    recording = run.recording
    if op.name == "log_softmax" and _reaches(recording, op, "nll_loss", "gather", "mul", "nll_loss2d"):
        return _probabilities(run, op, op.operands[0], _LOGITS, int(op.scalars.get("dim", -1)))
    if op.name == "logsumexp" and _less_its_own(recording, op):
        return _probabilities(run, op, op.operands[0], _LOGITS, -1)
    if op.name == "softmax" and _reaches(recording, op, "log", "nll_loss"):
        return _probabilities(run, op, op.operands[0], _LOGITS, int(op.scalars.get("dim", -1)), ("softmax",))
    if op.name == "binary_cross_entropy_with_logits":
        return _probabilities(run, op, op.operands[0], _LOGITS, None)
    if op.name == "sigmoid" and _reaches(recording, op, "binary_cross_entropy"):
        return _probabilities(run, op, op.operands[0], _LOGITS, None, ("sigmoid",))
    if op.name == "nll_loss":
        axis = 1 if len(op.operands[0].shape) > 1 else 0
        return _probabilities(run, op, op.operands[0], _LOGS, axis) or _raw(run, op, axis)
    if op.name == "sub" and len(op.operands) == 2:
        return _divergence(run, op)
    return None


def _made_by(recording: Recording, value: Value) -> Op | None:
    """The operation that computed a value, past reshapes, selections and guards."""
    while True:
        op = recording.producer(value)
        if op is None or not (op.name in _PASSING or (op.name in ("clamp", "add", "sub") and is_guard(op))):
            return op
        value = carriers(op)[0]


def _probabilities(
    run: Run, op: Op, value: Value, wanted: str, axis: int | None, makers: tuple[str, ...] = ("softmax", "sigmoid")
) -> tuple[Op, tuple[float, float, str], str] | None:
    maker = _made_by(run.recording, value)
    if maker is None or maker.name not in makers or maker is op:
        return None
    numbers = run.array(value)
    if numbers is None or not numbers.size or numbers.dtype.kind != "f":
        return None
    low, high = float(numbers.min()), float(numbers.max())
    if low < -CLOSE or high > 1 + CLOSE:
        return None
    if maker.name == "softmax" and axis is not None and np.abs(numbers.sum(axis=axis, dtype=np.float64) - 1).max() > CLOSE:
        return None
    return maker, (low, high, "probabilities"), wanted


def _raw(run: Run, op: Op, axis: int) -> tuple[Op, tuple[float, float, str], str] | None:
    """Scores straight from a layer, in a loss on log-probabilities: a log-probability is never above 0."""
    maker = _made_by(run.recording, op.operands[0])
    numbers = run.array(op.operands[0])
    if maker is None or maker.name not in ("matmul", "conv", "add") or numbers is None or not numbers.size:
        return None
    high = float(numbers.max())
    total = np.exp(np.minimum(numbers.astype(np.float64), 700.0)).sum(axis=axis)
    if high <= 0 or float(np.abs(np.log(total)).max()) < 0.1:
        return None
    return maker, (float(numbers.min()), high, "scores"), _LOGS


def _less_its_own(recording: Recording, op: Op) -> bool:
    """logsumexp(x) - x[label]: a cross-entropy that never makes the log-probabilities."""
    inner = _made_by(recording, op.operands[0])
    for value in op.outputs:
        for user in recording.consumers(value):
            if user.name == "sub" and len(user.operands) == 2 and inner is not None and _made_by(recording, user.operands[1]) is inner:
                return True
    return False


def _divergence(run: Run, op: Op) -> tuple[Op, tuple[float, float, str], str] | None:
    """kl_div(input, target) is target * log(target) - target * input."""
    recording = run.recording
    left, right = (recording.producer(v) for v in op.operands)
    if left is None or right is None or left.name != "xlogy" or right.name != "mul" or len(right.operands) != 2:
        return None
    target = left.operands[0]
    given = [v for v in right.operands if v is not target]
    if len(given) != 1 or target not in right.operands:
        return None
    return _probabilities(run, op, given[0], _LOGS, None)


def _reaches(recording: Recording, op: Op, *names: str) -> bool:
    """Whether a result goes, past reshapes and guards, into one of these operations."""
    todo, seen = [op], {op.index}
    while todo:
        for value in todo.pop().outputs:
            for user in recording.consumers(value):
                if user.phase != "forward" or user.index in seen:
                    continue
                if user.name in names:
                    return True
                seen.add(user.index)
                if user.name in _PASSING or (user.name in ("clamp", "add", "sub") and is_guard(user)):
                    todo.append(user)
    return False
