"""The seam that probes use: a recorded run that can be asked for numbers, and asked again. Each observer implements it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from numdebug.recording import Frame, Op, Recording, Stats, Value
from numdebug.report.model import Repair


@dataclass(frozen=True)
class Replayed:
    """What running the recorded step again gave. `same`: bit for bit the recorded outputs."""

    loss: float | None
    finite: bool  # outputs and all gradients
    outputs_finite: bool
    gradients: int
    bad_gradients: int
    same: bool
    agreement: str = ""  # how the repaired operations compare, in float64, with what they replace where that is finite
    disagreement: str | None = None  # the repair computes something else


class Run(Protocol):
    """One observed run. Raises `CannotAsk` where the recording does not suffice."""

    recording: Recording
    options: dict[str, Any]

    def stats(self, value: Value) -> Stats:
        """Counts and range of one value, computed once."""
        ...

    def array(self, value: Value) -> np.ndarray | None:
        """The elements, or None where they were not kept. Low-precision formats come as float32 (exact)."""
        ...

    def frames(self, op: Op) -> tuple[Frame, ...]:
        """The user's frames of one operation, outer to inner."""
        ...

    def again(self) -> Replayed:
        """The recorded step once more, unchanged: the control."""
        ...

    def rewrite(self, repairs: list[Repair]) -> Replayed:
        """The recorded step with the repairs applied."""
        ...

    def exact(self, value: Value) -> np.ndarray | None:
        """The same operations in float64, up to `value`."""
        ...

    def flushed(self) -> dict[str, tuple[int, int, float]]:
        """By parameter: gradient entries, entries that are zero only because of a low-precision format, largest |g| lost."""
        ...


class CannotAsk(Exception):
    """The step cannot be run again; the message says why."""
