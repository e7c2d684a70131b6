"""What was seen of a program: operations with their numbers and the lines they came from. No framework in here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["forward", "backward", "optimizer"]


@dataclass(frozen=True)
class Frame:
    """One Python frame; lines and columns are 1-based, `end_column` is exclusive as editors show it."""

    file: str
    line: int
    function: str
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    library: bool = False


@dataclass(frozen=True)
class Site:
    """A place in the user's program. `file` is relative to the program's folder where it lies below it."""

    file: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    function: str = "<module>"
    module: str | None = None
    step: int | None = None
    loop: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, int]:
        """The line as (file, line): what "all nodes of one source line" are joined on."""
        return self.file, self.line

    @property
    def span(self) -> tuple[str, int, int | None, int | None, int | None]:
        """The expression: (file, line, column, end_line, end_column)."""
        return self.file, self.line, self.column, self.end_line, self.end_column


@dataclass(frozen=True)
class Stats:
    """Counts over the elements of one array. `max_abs` and `min_abs` are over the finite elements, `min_abs` over the non-zero ones."""

    size: int
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zero: int = 0
    subnormal: int = 0
    max_abs: float | None = None
    min_abs: float | None = None
    lowest: float | None = None
    highest: float | None = None

    @property
    def inf(self) -> int:
        """Infinities of either sign."""
        return self.posinf + self.neginf

    @property
    def non_finite(self) -> int:
        """NaN and infinities together."""
        return self.nan + self.inf


@dataclass(eq=False)
class Value:
    """One array at one moment (an in-place write makes a new Value). `producer` is an index into `Recording.ops`."""

    id: int
    dtype: str
    shape: tuple[int, ...]
    producer: int | None = None
    name: str | None = None  # "layers.0.weight", "x", ... where known
    role: Literal["parameter", "buffer", "input", "constant", "result"] = "result"
    made_at: Site | None = None  # who made or last filled a value that no recorded op produced
    made_by: str | None = None  # the operation that did


@dataclass(eq=False)
class Op:
    """One operation. `operands` keep their order; a list operand is flattened; plain numbers stay in `scalars`."""

    index: int
    name: str  # canonical: exp, div, matmul, softmax, ...
    native: str  # the framework's own: aten.exp.default
    phase: Phase
    step: int
    operands: tuple[Value, ...]
    outputs: tuple[Value, ...]
    scalars: dict[str, Any] = field(default_factory=dict)  # name -> plain value: dim, eps, p, other, value, dtype
    site: Site | None = None
    frames: tuple[Frame, ...] = ()  # outer to inner
    forward: int | None = None  # for a backward op: the forward op it differentiates
    node: str | None = None  # for a backward op: the autograd node, e.g. "LogBackward0"
    in_place: bool = False
    grad: bool = True  # False where gradients were switched off


@dataclass(frozen=True)
class Sink:
    """A value that the user consumes."""

    what: Literal["loss", "gradient", "parameter", "output"]
    value: Value
    name: str | None = None
    site: Site | None = None
    step: int = 0


@dataclass
class Step:
    """What the cheap sentinel saw of one step. Norms are Euclidean, over all gradients or updates."""

    index: int
    loss: float | None = None
    gradient_norm: float | None = None
    update_norm: float | None = None
    learning_rate: float | None = None
    scaled: bool = False  # the loss was multiplied by a loss scale
    skipped: bool = False  # a loss scaler dropped the step


@dataclass
class Recording:
    """One window of steps as a directed graph in execution order, and the history of the steps before it."""

    ops: list[Op] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    framework: str = ""
    window: tuple[int, int] = (0, 0)  # first and last step with full records
    places: dict[str, Site] = field(default_factory=dict)  # "optimizer": where it was made; "update": where parameters change
    gradients: tuple[int, int] = (0, 0)  # at the program's end: parameters with a gradient, and those where all of it is exactly 0
    complete: bool = True  # False: the memory bound dropped values or operations
    why_incomplete: str | None = None

    def producer(self, value: Value) -> Op | None:
        """The op that made `value`, or None where it came from outside the window."""
        return None if value.producer is None else self.ops[value.producer]

    def consumers(self, value: Value) -> list[Op]:
        """Ops that read `value`."""
        if not hasattr(self, "_uses"):
            self._uses: dict[int, list[Op]] = {}
            for op in self.ops:
                for operand in {v.id: v for v in op.operands}.values():
                    self._uses.setdefault(operand.id, []).append(op)
        return self._uses.get(value.id, [])

    def upstream(self, start: Value) -> Iterator[Op]:
        """Ops that `start` depends on, nearest first, each once."""
        seen: set[int] = set()
        todo = [start]
        while todo:
            op = self.producer(todo.pop(0))
            if op is None or op.index in seen:
                continue
            seen.add(op.index)
            yield op
            todo.extend(op.operands)

    def depends(self, on: Op, value: Value) -> bool:
        """Whether `value` is computed from an output of `on`."""
        return any(op is on for op in self.upstream(value))
