"""What a run of the program computed, as plain data: the loss of each step, and every number that it took out of its framework."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Result:
    """One number or array. `digest`: of all its bits; `shown`: the first element."""

    what: str
    digest: str
    shown: float | None = None


@dataclass(frozen=True)
class Results:
    """One run. `whole`: it came to its end, and no time limit cut it short."""

    whole: bool
    failed: str
    found: tuple[Result, ...]


def results(watcher: Any) -> list[Result]:
    """Of a finished run, in order."""
    found: list[Result] = []
    for name, observer in watcher.observers.items():
        for step in observer.steps:
            if step.loss is not None:
                found.append(Result(f"the loss of step {step.index}", repr(float(step.loss)), float(step.loss)))
        run = watcher.run(name)
        for sink in run.consumed() if run is not None else ():
            held = run.array(sink.value)
            if held is not None:
                found.append(_result(sink.name or "a number that the program takes out", held))
    return found


def _result(name: str, held: np.ndarray) -> Result:
    array = np.ascontiguousarray(held)
    digest = hashlib.sha256(repr((array.shape, array.dtype.str)).encode() + array.tobytes()).hexdigest()
    shown = float(array.flat[0]) if array.size and array.dtype.kind in "fiub" else None
    return Result(name, digest, shown)


def first_difference(a: Sequence[Result], b: Sequence[Result]) -> tuple[Result, Result] | None:
    """Where two runs part; None where every bit agrees."""
    for one, other in zip(a, b, strict=False):
        if one != other:
            return one, other
    if len(a) != len(b):
        said = Result("how many numbers the program takes out", "")
        return Result(said.what, str(len(a)), len(a)), Result(said.what, str(len(b)), len(b))
    return None
