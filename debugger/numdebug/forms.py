"""The naive forms of the catalogue, found on a recorded graph: what each is made of, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from numdebug.graph import STRUCTURAL, Path, climb, first, is_guard, is_identity
from numdebug.recording import Op, Recording, Value

LOGS = frozenset({"log", "log2", "log10", "log1p"})
_SCALE = frozenset({"mul", "div"})
_WEIGHT = frozenset({"mul", "sum"})  # p * onehot summed: selects entries


@dataclass
class Form:
    """A naive form. `target` is the operation to replace, `parts` name the others by role, `chain` lies between (source first)."""

    name: str
    target: Op
    parts: dict[str, Op] = field(default_factory=dict)
    chain: tuple[Op, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)
    argument: Value | None = None  # the logits

    @property
    def members(self) -> set[int]:
        """Indices of every operation that belongs to the form."""
        return {self.target.index, *(op.index for op in self.parts.values()), *(op.index for op in self.chain)}


def find(recording: Recording, is_mask: Callable[[Value], bool]) -> Iterator[Form]:
    """Every naive form among the forward operations. `is_mask` tells a one-hot (only zeros and ones) from a weight."""
    for op in recording.ops:
        if op.phase != "forward":
            continue
        if op.name in LOGS:
            form = log_of_softmax(recording, op, is_mask) or log_of_sigmoid(recording, op) or softplus(recording, op)
            form = form or logsumexp(recording, op) or log_of_product(recording, op)
            if form is not None:
                yield form
        if op.name == "div":
            form = softmax(recording, op)
            if form is not None and not form.numbers["shifted"]:
                yield form
        if op.name == "norm" or op.name in ("sqrt", "rsqrt") or (op.name == "pow" and op.scalars.get("exponent") in (0.5, -0.5)):
            form = root_of_squares(recording, op)
            if form is not None:
                yield form


def _exp_behind(recording: Recording, value: Value, extra: frozenset[str] = frozenset(), guards: bool = False) -> Path | None:
    return next((p for p in climb(recording, value, extra, guards) if p.op.name == "exp"), None)


def shift_of(recording: Recording, value: Value) -> Value | None:
    """For x - max(x): x. The maximum may be detached, kept in a variable or broadcast."""
    op = first(recording, value)
    if op is None or op.name != "sub" or len(op.operands) != 2:
        return None
    source = op.operands[1]
    for _ in range(12):  # reshapes between the maximum and its use
        maker = recording.producer(source)
        if maker is None:
            return None
        if maker.name in ("amax", "max", "logsumexp", "topk", "maximum"):
            return op.operands[0]
        if maker.name not in STRUCTURAL or not maker.operands:
            return None
        source = maker.operands[0]
    return None


def softmax(recording: Recording, op: Op) -> Form | None:
    """exp(x) / Σ exp(x), with or without an epsilon and a shift; or the library's own."""
    if op.name == "softmax":
        return Form("softmax", op, numbers={"dim": op.scalars.get("dim"), "shifted": True, "library": True}, argument=op.operands[0])
    if op.name == "exp":
        inner = first(recording, op.operands[0])
        if inner is not None and inner.name == "log_softmax":
            numbers = {"dim": inner.scalars.get("dim"), "shifted": True, "library": True}
            return Form("softmax", op, numbers=numbers, argument=inner.operands[0])
        if inner is not None and inner.name == "sub" and len(inner.operands) == 2:
            lse = first(recording, inner.operands[1])
            if lse is not None and lse.name == "logsumexp":
                dim = lse.scalars.get("dim")
                numbers = {"dim": dim[0] if isinstance(dim, list) else dim, "shifted": True}
                return Form("softmax", op, numbers=numbers, argument=inner.operands[0])
        return None
    if op.name != "div" or len(op.operands) != 2:
        return None
    top = _exp_behind(recording, op.operands[0], frozenset({"mul"}))
    if top is None:
        return None
    for path in climb(recording, op.operands[1], guards=True):
        scattered = path.op.name in ("index_add", "scatter_add", "scatter_reduce", "segment_reduce")
        if path.op.name not in ("sum", "mean") and not scattered:
            continue
        below = _exp_behind(recording, path.op.operands[-1 if scattered else 0], frozenset({"mul"}))
        if below is None or below.op.index != top.op.index:
            continue
        dim = path.op.scalars.get("dim")
        dim = dim[0] if isinstance(dim, list) and len(dim) == 1 else dim
        argument = top.op.operands[0]
        logits = shift_of(recording, argument)
        numbers = {"dim": dim, "shifted": logits is not None, "weighted": any(o.name == "mul" for o in (*top.chain, *below.chain))}
        numbers["scattered"] = scattered
        return Form("softmax", op, {"exp": top.op, "sum": path.op}, path.chain, numbers, logits or argument)
    return None


def log_of_softmax(recording: Recording, log: Op, is_mask: Callable[[Value], bool]) -> Form | None:
    """log of a probability that came out of a softmax, past indexing, guards, and a sum over p * onehot."""
    if log.name == "log1p":
        return None
    for path in climb(recording, log.operands[0], extra=_WEIGHT, guards=True):
        source = softmax(recording, path.op)
        if source is None:
            continue
        chain = tuple(reversed(path.chain))
        if not _selects(chain, path.op, is_mask):
            continue
        parts = {"softmax": source.target, **{k: v for k, v in source.parts.items() if k == "exp"}}
        numbers = {name: source.numbers[name] for name in ("dim", "shifted")}
        return Form("log-of-softmax", log, parts, chain, numbers, source.argument)
    return None


def _selects(chain: tuple[Op, ...], source: Op, is_mask: Callable[[Value], bool]) -> bool:
    """Whether the operations between softmax and log keep single probabilities: a sum only after a product with a one-hot."""
    names = [op.name for op in chain if op.name in ("mul", "sum")]
    if not names:
        return True
    made = {v.id for v in source.outputs}
    masked = False
    for op in chain:
        if op.name == "mul" and len(op.operands) == 2:
            others = [v for v in op.operands if v.id not in made]
            if len(others) != 1 or not is_mask(others[0]):
                return False
            masked = True
        made.update(v.id for v in op.outputs)
    return masked if "sum" in names else True


def sigmoid(recording: Recording, op: Op) -> tuple[Op, Op | None, Value, int] | None:
    """(the σ, its exp if hand-written, z, sign of z): library, 1/(1+exp(-z)), exp(z)/(1+exp(z)), (1+tanh(z))/2."""
    if op.name == "sigmoid":
        return op, None, op.operands[0], 1
    if op.name in ("reciprocal", "div"):
        plus = first(recording, op.operands[-1])
        if plus is None or plus.name not in ("add", "rsub") or plus.scalars.get("other") != 1 or len(plus.operands) != 1:
            return None
        inner = _exp_behind(recording, plus.operands[0])
        if inner is None:
            return None
        if op.name == "div" and len(op.operands) == 2:
            top = _exp_behind(recording, op.operands[0])
            return (op, inner.op, inner.op.operands[0], 1) if top is not None and top.op.index == inner.op.index else None
        return op, inner.op, inner.op.operands[0], -1
    return None


def log_of_sigmoid(recording: Recording, log: Op) -> Form | None:
    """log σ(z) or log(1 - σ(z)), past guards; `sign` says which."""
    between = frozenset({"rsub", "neg", "add", "sub", "mul"})
    for path in climb(recording, log.operands[0], extra=between, guards=True):
        found = sigmoid(recording, path.op)
        if found is None:
            continue
        source, exp, argument, sign = found
        flips = 0
        plain = True
        for op in path.chain:
            if op.name == "rsub" and op.scalars.get("other") == 1 and len(op.operands) == 1:
                flips += 1
            elif op.name == "neg":
                flips += 1 if log.name == "log1p" or _one_follows(op, path.chain) else 0
            elif op.name in ("rsub", "mul"):
                plain = plain and is_identity(op)
            elif op.name in ("add", "sub") and not is_guard(op) and not (len(op.operands) == 1 and op.scalars.get("other") == 1):
                plain = False
        if log.name == "log1p" and flips == 0:
            continue
        if plain:
            numbers = {"sign": "-" if flips % 2 else "+", "argument_sign": sign}
            parts = {"sigmoid": source, **({"exp": exp} if exp is not None else {})}
            return Form("log-of-sigmoid", log, parts, tuple(reversed(path.chain)), numbers, argument)
    return None


def _one_follows(neg: Op, chain: tuple[Op, ...]) -> bool:
    return any(op.name == "add" and op.scalars.get("other") == 1 for op in chain)


def _never_positive(recording: Recording, value: Value) -> bool:
    """-|x|, whose exponential cannot overflow."""
    neg = first(recording, value)
    inner = first(recording, neg.operands[0]) if neg is not None and neg.name == "neg" else None
    return inner is not None and inner.name == "abs"


def softplus(recording: Recording, log: Op) -> Form | None:
    """log(1 + exp x), log1p(exp x)."""
    if log.name == "log1p":
        inner = _exp_behind(recording, log.operands[0])
        if inner is not None and _never_positive(recording, inner.op.operands[0]):
            return None
        return Form("softplus", log, {"exp": inner.op}, argument=inner.op.operands[0]) if inner is not None else None
    plus = first(recording, log.operands[0])
    if plus is None or plus.name not in ("add",) or not (plus.scalars.get("other") == 1 or _ones(plus)):
        return None
    inner = next((p for v in plus.operands if (p := _exp_behind(recording, v)) is not None), None)
    return Form("softplus", log, {"exp": inner.op}, (plus,), argument=inner.op.operands[0]) if inner is not None else None


def _ones(op: Op) -> bool:
    return len(op.operands) == 2 and any(v.producer is None and v.shape == () for v in op.operands)


def logsumexp(recording: Recording, log: Op) -> Form | None:
    """log Σ exp(x), with weights, past a guard; or log of a product of exponentials with a matrix."""
    if log.name == "log1p":
        return None
    for path in climb(recording, log.operands[0], extra=_SCALE | {"div"}, guards=True):
        if path.op.name not in ("sum", "mean", "matmul", "add"):
            continue
        if path.op.name == "add" and len(path.op.operands) != 2:
            continue
        inner = next((p for v in path.op.operands if (p := _exp_behind(recording, v, _SCALE | {"sum"}, True)) is not None), None)
        if inner is None:
            continue
        shifted = shift_of(recording, inner.op.operands[0]) is not None
        if shifted:
            return None
        dim = path.op.scalars.get("dim")
        numbers = {"dim": dim, "keepdim": path.op.scalars.get("keepdim", False), "reduce": path.op.name}
        numbers["weighted"] = any(op.name in _SCALE for op in (*inner.chain, *path.chain))
        numbers["inner"] = [op.index for op in reversed(inner.chain)]
        return Form("logsumexp", log, {"sum": path.op, "exp": inner.op}, tuple(reversed(path.chain)), numbers, inner.op.operands[0])
    return None


def log_of_product(recording: Recording, log: Op) -> Form | None:
    """log of prod or cumprod."""
    for path in climb(recording, log.operands[0], guards=True):
        if path.op.name in ("prod", "cumprod"):
            numbers = {"dim": path.op.scalars.get("dim"), "cumulative": path.op.name == "cumprod"}
            return Form("log-of-product", log, {"product": path.op}, tuple(reversed(path.chain)), numbers, path.op.operands[0])
    return None


def root_of_squares(recording: Recording, root: Op) -> Form | None:
    """sqrt(Σ x²) and the norms: a square leaves the range before the root brings it back."""
    if root.name == "norm":
        return Form("root-of-squares", root, {}, (), {"library": True}, root.operands[0]) if root.operands else None
    for path in climb(recording, root.operands[0], extra=frozenset({"sum", "mean", "add", "neg"}), guards=True):
        if path.op.name == "square" or (path.op.name == "pow" and path.op.scalars.get("exponent") == 2) or (
            path.op.name == "mul" and len(path.op.operands) == 2 and path.op.operands[0] is path.op.operands[1]
        ):
            return Form("root-of-squares", root, {"square": path.op}, tuple(reversed(path.chain)), {"library": False}, path.op.operands[0])
    return None
