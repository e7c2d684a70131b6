"""Which epsilons are 0 in the format that they are added in?

Measures  for every addition of a positive number that rounds to 0 in the format of its result (1e-8 in float16) to what is never negative
          and divides later: elements so small that the epsilon would matter, whose value in float64 is another one, and whose numerator
          is not 0.
Costs     one pass in float64 over what such an addition depends on; nothing where there is none.
Misses    epsilons inside of library functions; divisors that pass through more than a root, a clamp or a reshape.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import STRUCTURAL
from numdebug.recording import Op, Value
from numdebug.run import CannotAsk, Run

QUESTION = "Which epsilons are 0 in the format that they are added in?"

# An epsilon below a hundredth of what it is added to changes its root or quotient by less than rounding in float16 does (1e-3) tenfold.
MATTERS = 0.01
# Not one decimal digit of the divisor is right.
HARM = 0.1
_THROUGH = STRUCTURAL | {"sqrt", "clamp", "maximum"}


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line."""
    if run.recording.sinks:
        return
    seen: set[object] = set()
    for op in run.recording.ops:
        eps = op.scalars.get("other")
        if op.name != "add" or op.phase == "backward" or op.site is None or not isinstance(eps, float) or len(op.operands) != 1:
            continue
        known = FORMATS.get(op.outputs[0].dtype)
        if known is None or not 0 < eps * float(op.scalars.get("alpha", 1)) <= known.flush or op.site.place in seen:
            continue
        fact = _fact(run, op, eps)
        if fact is not None:
            seen.add(op.site.place)
            yield fact


def _fact(run: Run, op: Op, eps: float) -> Evidence | None:
    kept, out = run.array(op.operands[0]), run.array(op.outputs[0])
    if kept is None or out is None or not np.isfinite(kept).all() or (kept < 0).any():
        return None
    x, result = kept.astype(np.float64), out.astype(np.float64)
    weak = x * MATTERS < eps
    if not weak.any():
        return None
    try:
        exact = run.exact([op.outputs[0]]).get(op.outputs[0].id)
    except CannotAsk:
        return None
    if exact is None or exact.shape != x.shape:
        return None
    weak &= np.abs(result - exact) > HARM * np.abs(exact)
    harmed = _dividing(run, op, weak)
    if not harmed:
        return None
    worst = int(np.argmax(np.where(weak, np.abs(result - exact), -1.0)))
    numbers = {
        "epsilon": Number(eps),
        "weak": Number(int(weak.sum()), "elements"),
        "size": Number(x.size, "elements"),
        "recorded": Number(float(result.flat[worst])),
        "exact": Number(float(exact.flat[worst])),
    }
    facts = {
        "op": op.name, "native": op.native, "phase": op.phase, "step": op.step, "dtype": op.outputs[0].dtype, "members": [op.index],
        "proof": f"the recorded operations in float64 give {float(exact.flat[worst]):.3g} here where {op.outputs[0].dtype} gives"
        f" {float(result.flat[worst]):.3g}, and without the epsilon the recorded line gives bit for bit the same",
    }  # fmt: skip
    assert op.site is not None
    if not np.array_equal(x, result):
        facts["proof"] = ""
    return Evidence("vanished-epsilon", "epsilons", site=op.site, op=op.index, numbers=numbers, facts=facts, sites={"target": op.site})


def _dividing(run: Run, op: Op, weak: np.ndarray) -> bool:
    """Whether one of these elements divides something that is not 0."""
    todo: list[tuple[Value, bool]] = [(v, True) for v in op.outputs]
    seen: set[int] = set()
    while todo:
        value, aligned = todo.pop()
        if value.id in seen:
            continue
        seen.add(value.id)
        for user in run.recording.consumers(value):
            if user.phase == "backward":
                continue
            if user.name in ("rsqrt", "reciprocal"):
                return bool(weak.any())
            if user.name == "div" and len(user.operands) == 2 and user.operands[1] is value:
                top = run.array(user.operands[0])
                if top is None:
                    continue
                try:
                    if not aligned or bool((np.broadcast_to(weak, np.broadcast_shapes(weak.shape, top.shape)) & (top != 0)).any()):
                        return True
                except ValueError:  # shapes that a reshape in between has changed
                    return bool((top != 0).any())
            elif user.name in _THROUGH:
                todo.extend((v, aligned and user.name not in STRUCTURAL) for v in user.outputs)
    return False
