"""A recorded step whose operations NumPy can compute again: what the observers of JAX and of NumPy hand to ArrayRun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numdebug.recording import Frame, Op, Recording, Sink, Site, Value
from numdebug.report.model import Repair
from numdebug.run import Danger, HandWritten, Moved, Replayed

Compute = Callable[[Sequence[np.ndarray], bool], Sequence[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Piece:
    """One elementary operation: a Node, or a part of a composite one (of softmax: maximum, difference, exp, sum and quotient).

    `formats`: of its results, as recorded. `terms`: how many numbers each element of a product is the sum of, where the observer knows.
    """

    name: str
    compute: Compute
    formats: tuple[str, ...]
    scalars: dict[str, Any] = field(default_factory=dict)
    terms: int | None = None


Step = Callable[[Piece, Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(eq=False)
class Node:
    """One operation that can be computed again.

    `compute(arrays, wide)`: arrays for `op.operands`, in order, give arrays for `op.outputs`, in order. With `wide`, floating-point
    operands are float64 (complex128; see Graph.wide) and so are floating-point results; whole numbers and booleans stay as they are.
    Otherwise operands have the recorded formats, and the results have too (bfloat16 and the like as ml_dtypes arrays). Raises where it
    cannot be done.
    `given`: its results are data, whatever the arithmetic (random numbers, what came from outside).
    `moved(arrays, generator)`: as `compute` with `wide`, and its own constants (0.1) moved at random by up to half an ulp of their
    format, where that is narrower than the wide one.
    `inside(arrays, step)`: of a composite operation, as `compute` with `wide`, each of its pieces computed by `step`.
    """

    op: Op
    compute: Compute
    given: bool = False
    moved: Callable[[Sequence[np.ndarray], np.random.Generator], Sequence[np.ndarray]] | None = None
    inside: Callable[[Sequence[np.ndarray], Step], Sequence[np.ndarray]] | None = None
    terms: int | None = None  # see Piece


@dataclass(eq=False)
class Weight:
    """One trained array in one step. `gradient`: as the optimizer got it, before anything clipped it, where that is known."""

    step: int
    name: str
    before: Value
    after: Value | None = None
    gradient: Value | None = None


@dataclass(eq=False)
class Graph:
    """`nodes[i].op is recording.ops[i]`; `arrays` holds the recorded elements by Value.id, in their own formats."""

    recording: Recording
    nodes: list[Node]
    arrays: dict[int, np.ndarray]
    losses: list[Value] = field(default_factory=list)  # what was differentiated
    consumed: list[Sink] = field(default_factory=list)  # what the program takes out: losses, numbers it prints, arrays under a name
    weights: list[Weight] = field(default_factory=list)
    wide: np.dtype = field(default_factory=lambda: np.dtype(np.float64))  # the format of exact values: wider than any that was recorded
    frames: Callable[[Op], tuple[Frame, ...]] = lambda op: op.frames  # the user's frames, outer to inner
    search: Callable[[Danger], tuple[Graph, list[Moved]] | None] = lambda danger: None  # values near these that make it fail there
    retry: Callable[[list[Repair]], Replayed] | None = None  # this step with repairs in it, differentiated again
    functions: Callable[[], list[HandWritten]] = list  # hand-written derivatives, compared with differences
    made: dict[int, Site] = field(default_factory=dict)  # by Op.index: the Site that constructed the library's layer it ran in
    modules: dict[int, int] = field(default_factory=dict)  # by Op.index: a number for that layer
    modes: dict[int, str] = field(default_factory=dict)  # by Op.index: "dropout" or "batch statistics", see Run.training_mode
    squares: Any = None  # see arrays.noise.Squares
    recomputed: int = 0  # operations computed again so far, in whatever arithmetic
