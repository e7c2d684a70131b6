"""Where non-finite numbers are born, how, and where a zero that divides or meets a log came from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from numdebug.graph import STRUCTURAL, carriers
from numdebug.recording import Op, Recording, Sink, Value
from numdebug.run import Run

# Operations that write a constant: an infinity that one of them makes is the programmer's own.
CONSTANT = frozenset({
    "full", "full_like", "fill", "masked_fill", "new_full", "constant", "where", "scatter", "index_put", "copy", "constant_pad_nd",
    "index_fill", "triu", "tril",
})  # fmt: skip
_FROM_INF = {"mul": "0*inf", "matmul": "0*inf", "div": "inf/inf", "sub": "inf-inf", "add": "inf-inf", "sum": "inf-inf", "mean": "inf-inf"}
_KEEPS_ZERO = frozenset({"abs", "relu", "clamp", "sqrt", "neg", "square", "where", "masked_fill", "rsqrt"})
_MAKES_ZERO = frozenset({
    "div", "exp", "softmax", "sigmoid", "matmul", "sum", "mean", "norm", "var", "std", "sub", "rsub", "erfc", "cumsum", "min", "add",
})  # fmt: skip
_NORMALISE = frozenset({"layer_norm", "batch_norm", "group_norm", "rms_norm", "var", "std"})
_INTEGERS = ("int", "uint", "bool")


@dataclass(eq=False)
class Birth:
    """`op` made `value` non-finite; `culprit` is the forward operation behind it (the same, unless born in backward)."""

    op: Op | None  # None: the value came non-finite from outside the window
    value: Value
    born: str
    culprit: Op | None
    deliberate: bool = False
    cause: Value | None = None  # the infinite operand, where one was at fault
    sinks: tuple[Sink, ...] = ()


def births(run: Run, sink: Sink) -> Iterator[Birth]:
    """Walk back from a consumed value through non-finite operands to the operations that made them, nearest the sink first."""
    recording = run.recording
    todo = [sink.value]
    seen: set[int] = set()
    while todo:
        value = todo.pop(0)
        if value.id in seen:
            continue
        seen.add(value.id)
        here = run.stats(value)
        if not here.non_finite:
            continue
        op = recording.producer(value)
        if op is None:
            yield Birth(None, value, "data", None, deliberate=_only_inf(run, value), sinks=(sink,))
            continue
        bad = contributing(run, op)
        if not bad:
            born = _birth(run, op, value, None, sink)
            behind_zero = _behind_zero(run, born)
            if behind_zero:
                todo.extend(behind_zero)
            else:
                yield born
            continue
        with_nan = [v for v in bad if run.stats(v).nan]
        if here.nan and not with_nan and op.name not in STRUCTURAL:
            yield _birth(run, op, value, bad[0], sink)
            todo.extend(bad)
        else:
            todo.extend([*with_nan, *(v for v in bad if v not in with_nan)])


def contributing(run: Run, op: Op) -> list[Value]:
    """The non-finite operands; of a where or masked_fill, those whose non-finite elements are let through."""
    bad = [v for v in op.operands if run.stats(v).non_finite]
    if not bad or op.name not in ("where", "masked_fill") or len(op.operands) < 2:
        return bad
    condition = run.array(op.operands[0 if op.name == "where" else 1])
    if condition is None or condition.dtype != bool:
        return bad
    if op.name == "masked_fill":
        sides = [(op.operands[0], ~condition)]
    elif len(op.operands) == 3:
        sides = [(op.operands[1], condition), (op.operands[2], ~condition)]
    else:  # the other branch is a plain number
        sides = [(op.operands[1], condition if "other" in op.scalars else ~condition)]
    return [value for value, chosen in sides if value in bad and _any_through(run.array(value), chosen)]


def _any_through(array: np.ndarray | None, chosen: np.ndarray) -> bool:
    return array is None or bool((~np.isfinite(array) & chosen).any())


def _behind_zero(run: Run, birth: Birth) -> list[Value]:
    """exp(-inf) is a finite 0 again: where the zero under a log came from there, the story goes on upstream."""
    if birth.born not in ("log of zero", "x/0", "0/0") or birth.op is None or birth.op.phase != "forward" or not birth.op.operands:
        return []
    place = 0 if birth.op.name in ("reciprocal", "rsqrt", "pow", "log", "log2", "log10") else -1
    zero = zero_origin(run, birth.op.operands[place])
    if zero.op is None or zero.op.name not in ("exp", "softmax", "exp2", "sigmoid"):
        return []
    return [v for v in zero.op.operands if run.stats(v).neginf and _not_meant(run, v)]


def _not_meant(run: Run, value: Value) -> bool:
    """Some operation made the infinity out of finite numbers."""
    seen: set[int] = set()
    todo = [value]
    while todo:
        current = todo.pop(0)
        op = run.recording.producer(current)
        if op is None or op.index in seen:
            continue
        seen.add(op.index)
        bad = contributing(run, op)
        if not bad and op.name not in CONSTANT and not _infinite_scalar(op):
            return True
        todo.extend(bad)
    return False


def _only_inf(run: Run, value: Value) -> bool:
    return run.stats(value).nan == 0


def _birth(run: Run, op: Op, value: Value, cause: Value | None, sink: Sink) -> Birth:
    culprit = op
    if op.phase == "backward" and op.forward is not None:
        culprit = run.recording.ops[op.forward]
    nan_scalar = any(isinstance(v, float) and math.isnan(v) for v in op.scalars.values())
    deliberate = nan_scalar or cause is None and (op.name in CONSTANT or _infinite_scalar(op)) and run.stats(value).nan == 0
    return Birth(op, value, how(run, op, value, cause), culprit, deliberate, cause, (sink,))


def _infinite_scalar(op: Op) -> bool:
    return any(isinstance(v, float) and not math.isfinite(v) for v in op.scalars.values())


def how(run: Run, op: Op, value: Value, cause: Value | None) -> str:
    """The kind of birth (catalogue B9, B10): overflow, x/0, 0/0, log of zero, domain, 0*inf, inf-inf, ..."""
    name = op.name
    arrays = [run.array(v) for v in op.operands]
    first = arrays[0] if arrays else None
    nan = run.stats(value).nan > 0
    if name in ("set", "from_file", "frombuffer"):  # storage filled from elsewhere
        return "data"
    if name == "empty" or name == "resize":
        return "uninitialised"
    if name in ("index", "gather", "take", "embedding") and nan:  # JAX fills what lies outside with NaN
        return "an index out of range"
    if name == "compiled":  # the compiler's result, beside that of the operations as written
        return "rewritten"
    if name == "logsumexp" or (op.phase == "backward" and (op.node or "").startswith("Logsumexp")):
        return "all masked" if cause is not None else "inf-inf"
    if name in ("softmax", "log_softmax", "attention", "_softmax_backward_data"):
        return "all masked" if cause is not None and first is not None and _row_all_neginf(first, op.scalars.get("dim", -1)) else "inf-inf"
    if cause is not None:
        return _FROM_INF.get(name, "nan from inf")
    if name in ("log", "log2", "log10", "log1p", "xlogy", "logit") and first is not None:
        argument = arrays[-1] if name == "xlogy" and arrays[-1] is not None else first
        edge = -1.0 if name == "log1p" else 0.0
        if name == "logit":
            return "domain" if nan else "log of zero"
        return "log of a negative" if nan and bool((argument < edge).any()) else "log of zero"
    if name in ("sqrt", "acos", "asin", "acosh", "atanh", "erfinv", "rsqrt", "lgamma", "digamma") and (nan or name in ("atanh", "erfinv")):
        return "domain"
    if name in ("rsqrt", "reciprocal"):
        return "x/0" if first is not None and bool((first == 0).any()) else "overflow"
    if name in ("div", "remainder", "fmod", "addcdiv"):
        divisor = arrays[-1]
        if (divisor is not None and bool((divisor == 0).any())) or op.scalars.get("other") == 0:
            return "0/0" if nan else "x/0"
        return "overflow"
    if name == "pow" and first is not None:
        exponent = op.scalars.get("exponent")
        if nan and bool((first < 0).any()):
            return "domain"
        if bool((first == 0).any()) and (not isinstance(exponent, (int, float)) or exponent < 0):
            return "x/0"
        return "overflow"
    if name in ("var", "std"):
        return "one sample" if nan else "overflow"
    if name == "mean" and nan and first is not None and first.size == 0:
        return "empty"
    if name in ("mean", "nll_loss") and nan:
        return "0/0"
    if name == "ctc_loss":
        return "infeasible"
    if name in ("mul", "add", "sub", "rsub") and nan and _infinite_scalar(op):
        return "0*inf" if name == "mul" else "inf-inf"
    if name in _NORMALISE and nan:
        return "0/0"
    if name in ("copy", "index_put", "where", "constant", "cast") and name != "cast":
        return "data"
    return "domain" if nan else "overflow"


def _row_all_neginf(array: np.ndarray, dim: object) -> bool:
    axis = dim if isinstance(dim, int) else -1
    if array.ndim == 0:
        return bool(np.isneginf(array))
    return bool(np.isneginf(array).all(axis=axis).any())


@dataclass(frozen=True)
class Zero:
    """Why an element is zero: `kind` names the operation's doing, `op` did it."""

    kind: str
    op: Op | None
    value: Value | None = None
    count: int = 0


def without_followers(groups: dict[object, list[Birth]]) -> dict[object, list[Birth]]:
    """In backward, a NaN made of an infinity that another operation made is that one's doing."""
    roots = [b for group in groups.values() for b in group if b.cause is None and not b.deliberate and b.op is not None]
    if not roots:
        return groups
    return {key: group for key, group in groups.items() if not all(_follows(b) for b in group)}


def _follows(birth: Birth) -> bool:
    return birth.cause is not None and birth.op is not None and birth.op.phase == "backward"


def _tiny(run: Run, value: Value) -> int:
    """Elements that are 0, or subnormal: their reciprocal overflows."""
    stats = run.stats(value)
    return stats.zero + stats.subnormal


def zero_origin(run: Run, value: Value, edge: float = 0.0) -> Zero:
    """Follow the elements of `value` that equal `edge` upstream, to the operation that made them so."""
    recording: Recording = run.recording
    current = value
    for _ in range(60):
        op = recording.producer(current)
        if op is None:
            return Zero("data", None, current, _tiny(run, current))
        zeros = _tiny(run, current) if edge == 0.0 else 0
        if op.name == "cast":
            source = run.array(op.operands[0])
            if source is not None and edge == 0.0 and zeros > int((source == 0).sum()):
                return Zero("cast underflow", op, current, zeros)
        if op.name in STRUCTURAL and op.operands:
            current = carriers(op)[0]
            continue
        if op.name == "add" and len(op.operands) == 2:  # both summands are 0 there
            floats = [v for v in op.operands if v.producer is not None and _tiny(run, v)]
            if floats:
                current = max(floats, key=lambda v: _tiny(run, v))
                continue
        if op.name == "add" and len(op.operands) == 1 and (_small(op.scalars.get("other")) or op.scalars.get("rounded")):
            return Zero("epsilon", op, current, zeros)
        if op.name in ("clamp", "maximum") and len(op.operands) == 1 and _small(op.scalars.get("min")) and op.scalars["min"] > 0:
            return Zero("epsilon", op, current, zeros)
        if op.name in _KEEPS_ZERO or (op.name == "pow" and len(op.operands) == 1):
            inner = carriers(op)
            below = inner[0]
            if _tiny(run, below) and edge == 0.0:
                current = below
                continue
            kind = {"relu": "cut off", "clamp": "cut off", "where": "masked", "masked_fill": "masked"}.get(op.name, "underflow")
            return Zero(kind, op, current, zeros)
        if op.name in ("mul", "prod", "cumprod") and op.operands:
            if all(_tiny(run, v) == 0 for v in op.operands if v.dtype.startswith(("float", "bfloat"))):
                return Zero("product underflow" if op.name != "mul" or len(op.operands) == 2 else "underflow", op, current, zeros)
            floats = [v for v in op.operands if _tiny(run, v) and v.dtype.startswith(("float", "bfloat"))]
            if not floats:
                return Zero("masked", op, current, zeros)
            current = max(floats, key=lambda v: (v.producer is not None, _tiny(run, v)))
            continue
        if op.name in _MAKES_ZERO:
            if op.name in ("sum", "mean", "matmul", "norm", "cumsum") and op.operands:
                below = carriers(op)[0]
                stat = run.stats(below)
                if below.dtype.startswith(_INTEGERS) or stat.size == 0:
                    return Zero("count", op, current, zeros)
                if _tiny(run, below) and below.producer is not None:
                    inner_zero = zero_origin(run, below)
                    if inner_zero.kind in ("exp", "softmax", "sigmoid", "product underflow", "cast underflow", "underflow"):
                        return inner_zero
                return Zero(op.name, op, current, zeros)
            if op.name == "div" and len(op.operands) >= 1:
                below = op.operands[0]
                if _tiny(run, below):
                    current = below
                    continue
                return Zero("underflow", op, current, zeros)
            return Zero(op.name, op, current, zeros)
        return Zero(op.name, op, current, zeros)
    return Zero("unknown", None, current)


def _small(number: object) -> bool:
    """A constant that stands in the source as an epsilon."""
    return isinstance(number, float) and 0 < abs(number) < 1e-2


def dropped_by(run: Run, op: Op) -> Op | None:
    """The where (or masked_fill) that throws away the elements that `op` made, if they reach the loss by no other way."""
    recording = run.recording
    selector: Op | None = None
    todo = list(op.outputs)
    seen: set[int] = set()
    while todo:
        value = todo.pop(0)
        users = [u for u in recording.consumers(value) if u.phase == "forward" and u.outputs and not _kept_for_backward(run, u)]
        if not users and value.shape == () and value not in op.outputs:
            return None  # a scalar that nothing else uses: the loss
        for user in users:
            if user.index in seen:
                continue
            seen.add(user.index)
            if user.name in ("where", "masked_fill") and not (user.name == "where" and value is user.operands[0]):
                selector = selector or user
                continue
            if user.outputs[0].dtype.startswith(("float", "bfloat")):
                todo.extend(user.outputs)
    return selector


def _kept_for_backward(run: Run, op: Op) -> bool:
    """A detach by which autograd keeps a result: no forward operation reads it."""
    return op.name == "detach" and not any(u.phase == "forward" for v in op.outputs for u in run.recording.consumers(v))


def reaches_name(sinks: tuple[Sink, ...]) -> str:
    """loss, the gradient of encoder.weight and 4 more, ..."""
    losses = [s for s in sinks if s.what == "loss"]
    if losses:
        return "the loss"
    kinds = {"gradient": "the gradient of ", "parameter": "the parameter "}
    words = [kinds.get(s.what, "") + (s.name or ("an output" if s.what == "output" else f"a {s.what}")) for s in sinks]
    return words[0] + (f" and {len(words) - 1} more" if len(words) > 1 else "") if words else "nothing"
