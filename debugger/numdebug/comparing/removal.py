"""What makes a benign difference go, of what can be tried on one call."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from numdebug.comparing import calling
from numdebug.comparing.calling import Caller, Varied
from numdebug.comparing.programs import Failed
from numdebug.comparing.sides import Side
from numdebug.load.calls import Call

REMOVED = 2.0**-20
"""A difference that shrinks by this much has gone: float64 rounds 2**-29 times as coarsely as float32, less what conditioning takes."""


def removed(axis: str, call: Call, both: Varied, caller: Caller, framework: str, rows: int | None) -> tuple[str, ...]:
    """What makes a benign difference go, of what was tried."""
    if axis not in ("rows", "order", "threads", "onednn", "compiled", "memory"):
        return ()
    before = _left(both, caller)
    tries: list[tuple[str, Varied]] = []
    if not before:
        return ()
    if framework != "numpy" and calling.varying(framework).owns_its_models(call):
        wide = calling.varying(framework).in_format(call, "float64")
        tries.append(("float64", calling.varied(axis, wide, framework, rows)))
    if framework == "torch" and axis != "threads":
        one = calling.varying("torch")
        tries.append(("one thread", replace(both, setting_a=lambda: one.threads(1), setting_b=lambda: one.threads(1))))
    if framework == "jax" and axis != "compiled":
        how = calling.varying("jax")
        tries.append(("jax.jit around the whole call", replace(both, a=how.compiled(both.a), b=how.compiled(both.b))))
    found = []
    for words, changed in tries:
        try:
            left = _left(changed, caller)
        except Failed:  # this way cannot be had: it removes nothing
            continue
        if left <= REMOVED * before:
            found.append(f"{words} ({left:.1g} left)" if left else words)
    return tuple(found)


def _left(both: Varied, caller: Caller) -> float:
    """The largest difference between both ways."""
    a, b = caller.plain(both.a, "", both.setting_a), caller.plain(both.b, "", both.setting_b)
    b.rows = both.rows
    return _largest(a, b)


def _largest(a: Side, b: Side) -> float:
    worst = 0.0
    for one, two in zip(a.outputs, b.outputs, strict=False):
        other = two.array if b.rows is None else b.rows.of(two.array)
        if one.array.shape == other.shape and one.array.size:
            with np.errstate(all="ignore"):
                worst = max(worst, float(np.nanmax(np.abs(one.array.astype(np.float64) - other.astype(np.float64)))))
    return worst
