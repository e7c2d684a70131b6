"""What would this computation give on another device?

Measures  of what the program consumes last (losses, results it reads or keeps): by how much products summed in another order, and products
          with TF32 operands as GPUs may use them for float32, move it, in the Euclidean norm relative to its size. That a run differs from
          process to process, that rows depend on their batch through dropout or batch statistics: `repeatability` and `evaluation` ask.
Costs     two runs of the recorded forward pass, where it computes products.
Misses    what happens over steps; kernels other than products.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.arithmetic import PRODUCTS, Arithmetic
from numdebug.evidence import Evidence, Number
from numdebug.recording import Recording, Value
from numdebug.run import CannotAsk, Run

QUESTION = "What would this computation give on another device?"

MANY = 5_000  # operations: beyond, the answer is not worth its time unless `numdebug compare` is asked
OUTPUTS = 8
LOST = 0.1
"""No digit is right: what the other probes call wrong as well."""
KEPT = 1e-3
"""Three digits survive another order of summation: TF32 has as many, so that it alone is to blame for what is lost."""


def measure(run: Run) -> Iterator[Evidence]:
    """One fact: about the result that TF32 would move most."""
    recording = run.recording
    if recording.sinks or len(recording.ops) > MANY or not any(op.name in PRODUCTS for op in recording.ops):
        return
    values = _last(recording, [*run.losses(), *(sink.value for sink in run.consumed())])
    if not values:
        return
    try:
        sums = run.recompute(values, Arithmetic(order=1))
        tf32 = run.recompute(values, Arithmetic(products="tf32"))
    except CannotAsk:  # then there is nothing to say
        return
    found = [(_moved(run, v, tf32), _moved(run, v, sums), v) for v in values]
    known = [(wide, near, v) for wide, near, v in found if wide is not None and near is not None]
    if not known:
        return
    wide, near, value = max(known, key=lambda one: one[0])
    op = recording.producer(value)
    numbers = {"tf32": Number(wide, "of its size"), "order": Number(near, "of its size")}
    assert op is not None  # _last keeps what an operation made
    facts = {"lost": wide > LOST and near < KEPT, "op": op.name, "members": [op.index]}
    yield Evidence("device-spread", "cross_device", site=op.site, op=op.index, numbers=numbers, facts=facts)


def _last(recording: Recording, values: list[Value]) -> list[Value]:
    """Of the last step, in float32, each once."""
    kept = {v.id: v for v in values if v.dtype == "float32" and v.producer is not None}
    step = max((recording.ops[v.producer].step for v in kept.values() if v.producer is not None), default=None)
    return [v for v in kept.values() if v.producer is not None and recording.ops[v.producer].step == step][-OUTPUTS:]


def _moved(run: Run, value: Value, again: dict[int, np.ndarray]) -> float | None:
    before, after = run.array(value), again.get(value.id)
    if before is None or after is None or before.shape != after.shape or not np.isfinite(before).all():
        return None
    size = float(np.linalg.norm(before.astype(np.float64)))
    return float(np.linalg.norm(after.astype(np.float64) - before.astype(np.float64))) / size if size else None
