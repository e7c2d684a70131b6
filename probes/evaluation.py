"""Is a trained network evaluated as it was trained: with dropout active, or with the statistics of the batch at hand?

Measures  for forward passes without gradients: active dropout, and batch normalisation on the statistics of the batch although it keeps
          running ones, in layers that were trained before; whether the result stays out of every later gradient.
Costs     one pass over the recorded operations.
Misses    evaluation outside of the recorded steps; attention kernels that drop inside.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.recording import Op, Recording, Site, Value
from numdebug.run import Run

QUESTION = "Is a trained network evaluated with dropout or batch statistics active?"
SILENT = True

SEVERAL = 3  # stochastic passes over the same input, put together: their spread is wanted (Monte-Carlo dropout)
# What predictions are turned into. A pass whose result meets none of these was made for something else (statistics brought up to date).
_JUDGED = frozenset({
    "_local_scalar_dense", "argmax", "argmin", "eq", "max", "topk", "gt", "lt", "ge", "le", "cat", "stack", "mean", "sum", "mse_loss",
    "nll_loss", "log_softmax", "binary_cross_entropy", "binary_cross_entropy_with_logits", "l1_loss", "smooth_l1_loss", "huber_loss",
})  # fmt: skip


def measure(run: Run) -> Iterator[Evidence]:
    """One fact: of the first such pass."""
    recording = run.recording
    if recording.sinks:
        return
    differentiated = {op.forward for op in recording.ops if op.phase == "backward" and op.forward is not None}
    found = [(op, kind) for op in recording.ops if op.phase == "forward" and (kind := _active(op)) is not None]
    trained = {_layer(run, op) for op, _ in found if op.grad and _followers(recording, op, differentiated) is None}
    suspects: list[tuple[Op, str, set[int]]] = []
    for op, kind in found:
        if not op.grad and _layer(run, op) in trained:
            followers = _followers(recording, op, differentiated)
            if followers is not None and any(recording.ops[i].name in _JUDGED for i in followers):
                suspects.append((op, kind, followers))
    if not suspects or _repeated(run, [(op, followers) for op, _, followers in suspects]):
        return
    op, kind, _ = suspects[0]
    at = _called_from(run, op)
    sites = {"target": at} if at is not None else {}
    numbers = {"passes": Number(len(suspects), "calls")}
    facts = {"active": kind, "op": op.name, "native": op.native, "members": [op.index]}
    yield Evidence("train-mode-evaluation", "evaluation", site=at, op=op.index, numbers=numbers, facts=facts, sites=sites)


def _layer(run: Run, op: Op) -> object:
    module = run.module(op)
    return module if module is not None else op.site.place if op.site is not None else None


def _called_from(run: Run, op: Op) -> Site | None:
    """The line that calls the network: where the frames enter `forward`, the method that PyTorch calls."""
    frames = run.frames(op)
    outside = next((n for n, frame in enumerate(frames) if frame.function == "forward"), len(frames))
    if not frames or not outside:
        return op.site
    f = frames[outside - 1]
    return Site(f.file, f.line, f.column, f.end_line, f.end_column, f.function, None, op.step)


def _active(op: Op) -> str | None:
    if op.name == "bernoulli" and op.in_place and isinstance(op.scalars.get("p"), float) and 0 < op.scalars["p"] < 1:
        return "dropout"
    if op.name == "dropout" and op.scalars.get("train"):
        return "dropout"
    if op.name == "batch_norm" and op.scalars.get("training") and len([v for v in op.operands if len(v.shape) == 1]) >= 4:
        return "batch statistics"  # with weight, bias and both running statistics given
    return None


def _followers(recording: Recording, op: Op, differentiated: set[int]) -> set[int] | None:
    """What uses the result; None where that is differentiated (a teacher, a target, a generator's fakes, training itself)."""
    todo, seen = [op], {op.index}
    while todo:
        current = todo.pop()
        if current.index in differentiated:
            return None
        for value in current.outputs:
            for user in recording.consumers(value):
                if user.index not in seen and user.phase == "forward":
                    seen.add(user.index)
                    todo.append(user)
    return seen - {op.index}


def _repeated(run: Run, passes: list[tuple[Op, set[int]]]) -> bool:
    """The same input several times, and the results put together."""
    inputs: dict[tuple[object, bytes], list[set[int]]] = {}
    for op, followers in passes:
        source = _input_of(run.recording, op)
        numbers = run.array(source) if source is not None else None
        if numbers is not None:
            inputs.setdefault((_layer(run, op), np.ascontiguousarray(numbers).tobytes()), []).append(followers)
    return any(len(several) >= SEVERAL and set.intersection(*several[:SEVERAL]) for several in inputs.values())


def _input_of(recording: Recording, op: Op) -> Value | None:
    """What the stochastic operation is applied to: for dropout, the other factor of the product that the mask goes into."""
    if op.name != "bernoulli":
        return op.operands[0] if op.operands else None
    todo = [op]
    for _ in range(4):
        users = [u for o in todo for v in o.outputs for u in recording.consumers(v) if u.phase == "forward"]
        product = next((u for u in users if u.name == "mul" and len(u.operands) == 2), None)
        if product is not None:
            made = {v.id for o in todo for v in o.outputs}
            return next((v for v in product.operands if v.id not in made), None)
        todo = users
    return None
