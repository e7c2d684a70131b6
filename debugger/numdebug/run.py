"""The seam that probes use: a recorded run that can be asked for numbers, and asked again. Each observer implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from numdebug.answers import Answers, NetworkCall
from numdebug.arithmetic import Arithmetic
from numdebug.emulation import Emulation
from numdebug.recording import Frame, Op, Recording, Sink, Site, Stats, Value
from numdebug.report.model import Repair
from numdebug.weights import Clipping, Untrained, Unwritten, Update


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


@dataclass(frozen=True)
class HandWritten:
    """One differentiated argument of a hand-written derivative, compared with differences in float64.

    `verdict`: right, wrong, surrogate (not meant as the derivative of its forward), undecided (`why` says so). Of a wrong one, `why` is
    the kind of mistake: factor, sign, part (of the elements), term, zero, nothing (returned). `factor`: what the gradient has to be
    multiplied by. `change` is one change of one operation that makes it right, `expression` where. `proof`: what besides the
    differences shows it.
    """

    function: str
    argument: str
    op: int
    site: Site | None
    call: Site | None
    verdict: str
    why: str
    error: float = 0.0  # |a - n| / max(|a|, |n|, 1e-8)
    analytic: float = 0.0
    numeric: float = 0.0
    uncertainty: float = 0.0
    word: str = ""
    size: int = 0
    factor: float | None = None
    share: float = 1.0  # of the elements looked at one by one that are wrong
    sweep: tuple[tuple[float, float], ...] = ()  # (h, derivative by differences)
    proof: str = ""
    change: str = ""
    change_kind: str = ""
    change_factor: str = ""
    expression: Site | None = None


@dataclass(frozen=True)
class Error:
    """One value against its float64 counterpart. `lost`: elements whose digits are gone; the rest speaks of the worst element.

    `norm` is Euclidean, of the whole array. `inherent`: what half an ulp on every input does to that element.
    """

    size: int
    lost: int
    worst: float  # relative error
    recorded: float
    exact: float
    norm: float
    inherent: float | None = None
    wrong: int = 0  # elements whose digits are gone, explained or not
    flushed: int = 0  # elements that are 0 as recorded, and below the format's smallest normal number but not 0 in float64
    zeros: int = 0  # elements that are not 0 as recorded, and 0 but for rounding in float64


@dataclass(frozen=True)
class GradientCheck:
    """A comparison with differences that the program makes itself, by the framework's own function."""

    site: Site | None
    dtype: str
    step: float
    absolute: float  # tolerances
    relative: float
    largest: float  # of the results that are differenced


@dataclass(frozen=True)
class Overwritten:
    """A value that a forward operation worked with and its backward read again, with a write in between. Indices of operations."""

    write: int
    forward: int
    backward: int
    changed: int  # elements that the write changed
    size: int
    effect: float  # of the backward operation's result: |with - without| / |without|, Euclidean
    repeats: bool  # run by itself, that operation gives bit for bit what was recorded


@dataclass(frozen=True)
class Gradient:
    """The gradient of one parameter after the backward passes of one step, before anything clips it."""

    name: str
    step: int
    size: int
    dims: int
    norm: float
    zeros: int  # entries that are exactly 0
    weight_norm: float
    used: tuple[int, ...] = ()  # forward operations that read the parameter, in order
    made_at: Site | None = None  # the line that made it, or filled it last; what an optimizer writes does not count
    made_by: str | None = None

    @property
    def relative(self) -> float:
        """|gradient| / |weight|."""
        return self.norm / self.weight_norm if self.weight_norm else self.norm


@dataclass(frozen=True)
class CheckedGradient:
    """One parameter's gradient of the whole step along a random direction, and what differences of the loss say.

    `verdict`: right, acceptable, inexact, suspicious, wrong; kink or undecided where differences cannot tell. `sweep`: (h, derivative).
    """

    name: str
    size: int
    analytic: float
    numeric: float
    uncertainty: float
    error: float
    verdict: str
    sweep: tuple[tuple[float, float], ...] = ()
    made_at: Site | None = None


@dataclass(frozen=True)
class Danger:
    """One operand of one operation, and where it would make the operation fail: too high, too low, or too near to 0."""

    op: int
    operand: int
    goal: Literal["high", "low", "small"]
    sigmas: float = 5.0  # how far from its tensor's mean a weight may go; 0: weights stay as they are


@dataclass(frozen=True)
class Moved:
    """A tensor that a trigger changed. `low` and `high`: what it holds now. `sigmas`: how far from its tensor's mean a moved weight is."""

    role: str  # weight or input
    name: str | None
    low: float
    high: float
    sigmas: float | None


@dataclass(frozen=True)
class Trigger:
    """Data and weights inside the plausible range that make the recorded step fail. `run`: that step, recorded."""

    run: Run
    moved: tuple[Moved, ...]


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

    def exact(self, values: Sequence[Value]) -> dict[int, np.ndarray]:
        """By id: the same operations in float64, from data and parameters up to each value; decisions stay as the program took them."""
        ...

    def recompute(self, values: Sequence[Value], how: Arithmetic, given: Mapping[int, np.ndarray] | None = None) -> dict[int, np.ndarray]:
        """By id: these values computed once more in another arithmetic, from data and parameters on; `given` (by id) replaces values.

        Nothing above a given value is computed, so that an operation whose operands are all given is evaluated by itself. Low-precision
        results come as float32 (exact). A value that cannot be computed again is left out.
        """
        ...

    def deviations(self, values: Sequence[Value], how: Arithmetic) -> dict[int, np.ndarray]:
        """By id: by how much the noise of `how` moves these values; float32 or float64, on the scale of the program's own rounding."""
        ...

    def check_gradients(self) -> list[CheckedGradient]:
        """Every parameter's gradient of the last recorded loss against differences in float64."""
        ...

    def functions(self) -> list[HandWritten]:
        """Every hand-written derivative of the recorded steps, argument by argument, compared with differences."""
        ...

    def checks(self) -> list[GradientCheck]:
        """Gradient checks that the program makes itself."""
        ...

    def overwritten(self) -> list[Overwritten]:
        """Values that backward read after they had been overwritten."""
        ...

    def training_mode(self, op: Op) -> str | None:
        """"dropout" or "batch statistics" where a layer's training mode made the operation run; None otherwise."""
        ...

    def network_call(self, op: Op) -> NetworkCall | None:
        """The call of a whole network that an operation of its training mode ran in; None where it was not kept."""
        ...

    def ask_again(self, op: Op) -> Answers:
        """That network, asked twice more with the same input and once with fewer rows, as it was called and in evaluation mode."""
        ...

    def updates(self) -> list[Update]:
        """What the recorded steps did to weights, by line and step."""
        ...

    def clippings(self) -> list[Clipping]:
        """Gradients that were clipped between the backward pass and the optimizer."""
        ...

    def untrained(self) -> list[Untrained]:
        """Parameters that have not changed since the first step although the loss depends on them."""
        ...

    def unwritten(self) -> list[Unwritten]:
        """Memory from empty() whose content reaches what the program consumes."""
        ...

    def provoke(self, danger: Danger) -> Trigger | None:
        """Search for data (inside the range that was seen) and weights (near their tensor's mean) that make the step fail there."""
        ...

    def flushed(self) -> dict[str, tuple[int, int, float]]:
        """By parameter: gradient entries, entries that are zero only because of a low-precision format, largest |g| lost."""
        ...

    def emulate(self, format: str) -> Emulation:
        """The last recorded step as it would be in a narrower format."""
        ...

    def largest(self) -> dict[int, float]:
        """By operation of the last recorded step: the largest finite magnitude among its results."""
        ...

    def consumed(self) -> list[Sink]:
        """What the program takes out: losses, numbers that it reads or prints, arrays under a name; recorded results only."""
        ...

    def losses(self) -> list[Value]:
        """What the last backward pass differentiated."""
        ...

    def errors(self, values: Sequence[Value], harm: float) -> dict[int, Error]:
        """By id: how far these values are from float64; `lost` counts relative errors above `harm`."""
        ...

    def gradient_error(self) -> tuple[float, float]:
        """(error, size) of all gradients together (Euclidean) against float64."""
        ...

    def trace_errors(self, value: Value, harm: float, beyond: float) -> dict[int, Error]:
        """Everything that `value` is computed from. A lost element's error is also `beyond` times what its inputs' rounding explains."""
        ...

    def kept_wide(self, ops: frozenset[int], value: Value, harm: float) -> Error:
        """The error of `value` when these operations alone are computed in float64."""

    def gradients(self) -> list[Gradient]:
        """Of every parameter in the recorded steps, by step, in the order in which the forward pass uses them."""
        ...

    def made(self, op: Op) -> Site | None:
        """The line that constructed the library's module (nn.ReLU, nn.Softmax) inside which the operation ran."""
        ...

    def module(self, op: Op) -> int | None:
        """A number for the framework's module inside which the operation ran: equal for equal modules, None outside of any."""
        ...


class CannotAsk(Exception):
    """The step cannot be run again; the message says why."""
