"""What must hold of a recorded value whatever the weights are: bounds that follow from the formula alone."""

from __future__ import annotations

import math
from collections.abc import Callable

from numdebug.forms import shift_of
from numdebug.graph import STRUCTURAL, carriers, same_source
from numdebug.recording import Op, Recording, Value

Interval = tuple[float, float]
ANY: Interval = (-math.inf, math.inf)
_LONGEST = 60  # operations looked back; beyond them nothing is known

# Results that are bounded whatever goes in.
_RANGE: dict[str, Interval] = {
    "relu": (0.0, math.inf), "exp": (0.0, math.inf), "exp2": (0.0, math.inf), "sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0), "sin": (-1.0, 1.0), "cos": (-1.0, 1.0), "abs": (0.0, math.inf), "square": (0.0, math.inf),
    "norm": (0.0, math.inf), "var": (0.0, math.inf), "std": (0.0, math.inf), "softplus": (0.0, math.inf), "sqrt": (0.0, math.inf),
    "rsqrt": (0.0, math.inf), "log_softmax": (-math.inf, 0.0), "log_sigmoid": (-math.inf, 0.0), "cosh": (1.0, math.inf),
    "cdist": (0.0, math.inf), "hardtanh": (-1.0, 1.0), "expm1": (-1.0, math.inf), "elu": (-1.0, math.inf), "erf": (-1.0, 1.0),
    "bernoulli": (0.0, 1.0), "rand": (0.0, 1.0), "hardsigmoid": (0.0, 1.0), "acos": (0.0, math.pi), "atan": (-math.pi / 2, math.pi / 2),
    "hypot": (0.0, math.inf), "gelu": (-0.17, math.inf), "silu": (-0.279, math.inf), "erfc": (0.0, 2.0),
}  # fmt: skip
_KEEPS = frozenset({"sum", "cumsum", "prod", "cumprod", "mean", "reciprocal", "relu", "sqrt", "adaptive_avg_pool2d", "avg_pool2d"})
_SELECTS = frozenset({"where", "masked_fill"})


class Intervals:
    """Bounds of values, worked out from `known` (what a value from outside the window may be) through the recorded operations."""

    def __init__(self, recording: Recording, known: Callable[[Value], Interval]) -> None:
        self.recording = recording
        self.known = known
        self._found: dict[int, Interval] = {}

    def of(self, value: Value, depth: int = 0) -> Interval:
        """(lowest, highest) that `value` can be."""
        if value.id not in self._found:
            self._found[value.id] = ANY  # a loop in the graph knows nothing
            op = self.recording.producer(value)
            self._found[value.id] = self.known(value) if op is None else ANY if depth > _LONGEST else self._made(op, depth + 1)
        return self._found[value.id]

    def _made(self, op: Op, depth: int) -> Interval:
        low, high = _RANGE.get(op.name, ANY)
        made = self._computed(op, depth)
        return max(low, made[0]), min(high, made[1])

    def _computed(self, op: Op, depth: int) -> Interval:
        name, scalars = op.name, op.scalars
        other = scalars.get("other")
        number = float(other) if isinstance(other, (int, float)) else None
        if name in ("layer_norm", "group_norm") and op.operands and len(op.operands) == 1:
            root = math.sqrt(max(op.operands[0].shape[-1] if op.operands[0].shape else 1, 1))  # |x - mean| <= sqrt(n) * deviation
            return -root, root
        if not op.operands:
            return self._constant(op)
        inner = [self.of(v, depth) for v in (carriers(op) if name in STRUCTURAL or name in _SELECTS else op.operands)]
        if name in STRUCTURAL or name in _SELECTS:
            fill = scalars.get("value", number)
            if isinstance(fill, (int, float)) and name in ("masked_fill", "where", "constant_pad_nd"):
                inner.append((float(fill), float(fill)))
            if name == "index_put":
                return ANY
            return min(i[0] for i in inner), max(i[1] for i in inner)
        a = inner[0]
        if name == "sub" and shift_of(self.recording, op.outputs[0]) is not None:
            return -math.inf, 0.0  # x - max(x)
        if len(inner) == 2:
            return self._two(op, a, inner[1])
        return self._one(op, a, number)

    def _constant(self, op: Op) -> Interval:
        fill = op.scalars.get("fill_value", {"zeros": 0.0, "ones": 1.0, "zeros_like": 0.0, "ones_like": 1.0}.get(op.name))
        return (float(fill), float(fill)) if isinstance(fill, (int, float)) else ANY

    def _one(self, op: Op, a: Interval, number: float | None) -> Interval:
        name, scalars = op.name, op.scalars
        if name == "neg":
            return -a[1], -a[0]
        if name == "clamp":
            low, high = scalars.get("min"), scalars.get("max")
            low = float(low) if isinstance(low, (int, float)) else -math.inf
            high = float(high) if isinstance(high, (int, float)) else math.inf
            return min(max(a[0], low), high), max(min(a[1], high), low)
        if name in ("add", "sub", "rsub") and number is not None and scalars.get("alpha", 1) == 1:
            if name == "rsub":
                return number - a[1], number - a[0]
            number = number if name == "add" else -number
            return a[0] + number, a[1] + number
        if name in ("mul", "div") and number:
            ends = [_times(end, number if name == "mul" else 1 / number) for end in a]
            return min(ends), max(ends)
        if name == "pow" and isinstance(scalars.get("exponent"), (int, float)):
            exponent = scalars["exponent"]
            if exponent % 2 == 0 or a[0] >= 0:
                return 0.0, math.inf
        if name in _KEEPS:
            return self._kept(name, a)
        if name == "exp":
            return (0.0 if a[0] < -87 else math.exp(a[0])), (math.exp(a[1]) if a[1] < 700 else math.inf)
        if name in ("sigmoid", "tanh", "log_softmax", "softmax"):
            return ANY
        if name == "log1p" and a[0] >= 0:
            return 0.0, math.inf
        if name in ("abs", "square"):
            return (a[0] if a[0] > 0 and name == "abs" else 0.0), (max(abs(a[0]), abs(a[1])) if name == "abs" else math.inf)
        if name in ("dropout", "repeat_interleave", "round", "floor", "ceil", "scatter_add", "index_add"):
            return (0.0, math.inf) if a[0] >= 0 else ANY
        return ANY

    @staticmethod
    def _kept(name: str, a: Interval) -> Interval:
        """What keeps a sign keeps it; a mean keeps its bounds; a maximum is part of a sum of what is not negative."""
        if name in ("mean", "adaptive_avg_pool2d", "avg_pool2d"):
            return a
        if name == "relu":
            return max(a[0], 0.0), max(a[1], 0.0)
        if name == "sqrt" and a[0] >= 0:
            return math.sqrt(a[0]), math.sqrt(a[1]) if a[1] >= 0 else math.inf
        if name in ("sum", "cumsum") and a[0] >= 0:
            return a[0], math.inf
        return (0.0, math.inf) if a[0] >= 0 else ANY

    def _two(self, op: Op, a: Interval, b: Interval) -> Interval:
        name = op.name
        if name in ("add", "sub") and op.scalars.get("alpha", 1) == 1:
            return (a[0] + b[0], a[1] + b[1]) if name == "add" else (a[0] - b[1], a[1] - b[0])
        if name == "maximum":
            return max(a[0], b[0]), max(a[1], b[1])
        if name == "minimum":
            return min(a[0], b[0]), min(a[1], b[1])
        if name == "mul":
            if op.operands[0] is op.operands[1] or same_source(self.recording, *op.operands):
                return 0.0, math.inf
            ends = [_times(x, y) for x in a for y in b]
            return min(ends), max(ends)
        if name == "matmul" and a[0] >= 0 and b[0] >= 0:
            return 0.0, math.inf
        if name == "div" and a[0] >= 0 and b[0] >= 0:
            return 0.0, (1.0 if self._share(op) else math.inf)
        return ANY

    def _share(self, op: Op) -> bool:
        """x / Σx of what is not negative lies in [0, 1]."""
        below = self.recording.producer(op.operands[1])
        while below is not None and below.name in STRUCTURAL and below.operands:
            below = self.recording.producer(carriers(below)[0])
        if below is None or below.name != "sum" or not below.operands:
            return False
        return same_source(self.recording, below.operands[0], op.operands[0])


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y
