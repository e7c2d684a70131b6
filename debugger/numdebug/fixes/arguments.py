"""Guarding what a function or a division is given: clamp it, add an eps, or replace the zeros of a divisor."""

from __future__ import annotations

import ast

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import Operation, constant, is_op, operation
from numdebug.fixes.softmaxes import in_place
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import SMALL, named_before
from numdebug.fixes.wording import LOOSE, SUM, fit, number
from numdebug.fixes.words import words

UNARY = frozenset(
    """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt acos asin atanh acosh atan sin cos tan sinh cosh tanh reciprocal square
    erfinv logit lgamma digamma sigmoid softplus logsigmoid abs erf erfc log_softmax softmax ndtri log_ndtr""".split()
)
_LENGTHS = {"size", "numel", "item", "nelement", "dim"}


def guarded(source: Source, node: ast.AST) -> ast.expr:
    """The part of a singular expression that decides: a function's argument, a divisor, the base of a power."""
    part = _decisive(source, node)
    if isinstance(part, ast.Constant) or constant(source, part) is not None and not isinstance(part, ast.BinOp):
        raise Refused("a constant cannot be guarded")
    return part


def _decisive(source: Source, node: ast.AST) -> ast.expr:
    match node:
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod(), right=right) | ast.AugAssign(op=ast.Div(), value=right):
            return right
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            return right if constant(source, left) is not None else left
    op = operation(source, node)
    if op is None:
        raise Refused("not a function of one array")
    if op.name in UNARY:
        return op.operand
    if op.name == "pow":
        return op.rest[0] if op.rest and constant(source, op.operand) is not None else op.operand
    if op.name == "div" and op.rest:
        return op.rest[0]
    raise Refused(f"{op.name} has no argument to guard")


def _accepts(job: Job, role: str, node: ast.AST) -> bool:
    try:
        guarded(job.source(job.repair.sites[role]), node)
    except Refused:
        return False
    return True


def find_guarded(job: Job, role: str) -> tuple[Source, ast.AST, ast.expr]:
    """The singular expression of a role and the part of it to guard."""
    source, node = job.find(role, (ast.Call, ast.BinOp, ast.AugAssign), lambda n: _accepts(job, role, n))
    return source, node, guarded(source, node)


# -- clamp the argument ------------------------------------------------------------------------------------------


@form("clamp_argument")
def write_clamp(job: Job) -> None:
    """f(x) becomes f(x.clamp(min=lo, max=hi)); bounds that are there already are moved."""
    for role in job.each():
        source, node, argument = find_guarded(job, role)
        op = operation(source, node)
        changes = op is not None and in_place(op) and argument is op.operand
        there = is_op(source, argument, "clamp")
        if changes or there is None or in_place(there):
            low, high = _bounds(job, source, node, argument, None)
            job.replace(source, argument, words(job, source, node).clamp(source.text(argument), low, high, changes))
        else:
            low, high = _bounds(job, source, node, there.operand, there)
            job.replace(source, argument, words(job, source, node).clamp(source.text(there.operand), low, high))


def _bounds(job: Job, source: Source, node: ast.AST, argument: ast.expr, there: Operation | None) -> list[str | None]:
    found: list[str | None] = []
    for key, word, position in (("lo", "min", 0), ("hi", "max", 1)):
        old = there.argument(position, word, f"a_{word}", f"x_{word}") if there is not None else None
        if job.get(key) is not None:
            found.append(bound(job, source, node, argument, key))
        elif old is not None and not (isinstance(old, ast.Constant) and old.value is None):
            found.append(source.text(old))
        else:
            found.append(None)
    if job.get("lo") is None and job.get("hi") is None:
        raise Refused("no bounds")
    return found


def bound(job: Job, source: Source, node: ast.AST, argument: ast.expr, key: str) -> str:
    """A bound as text: a number, or a property of the argument's dtype."""
    value = job.get(key)
    if isinstance(value, str):
        if value not in {"tiny", "eps", "smallest_normal", "max"}:
            raise Refused("an unknown bound")
        if scope.dotted(argument) is not None:
            said = words(job, source, node).finfo(source.text(argument), value)
            if said is not None:
                return said
        value = job.get(f"{key}_value")
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise Refused("a bound that is not a number")
    return number(value)


# -- add an eps --------------------------------------------------------------------------------------------------

_EPS_UNARY = {"sqrt", "rsqrt", "log", "log2", "log10", "reciprocal"}


@form("add_epsilon")
def write_epsilon(job: Job) -> None:
    """sqrt(x) becomes sqrt(x + eps); a norm or a standard deviation is written out with the eps under its root."""
    eps = job.literal("eps")
    if eps is None:
        raise Refused("no eps")
    for role in job.each():
        source, node = job.find(role, (ast.Call, ast.BinOp), lambda n, r=role: _takes_eps(job.source(job.repair.sites[r]), n))  # type: ignore[misc]
        op = operation(source, node)
        if op is not None and op.name in {"norm", "vector_norm", "std", "dist", "pairwise_distance"}:
            if in_place(op):
                raise Refused("in place")
            job.replace(source, op.node, written_out(job, source, op, eps))
            continue
        argument = guarded(source, node)
        if op is not None and in_place(op):
            raise Refused("in place")
        if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Add):
            sides = (argument.right, argument.left)
            small = next((s for s in sides if isinstance(s, ast.Constant) and (constant(source, s) or 1.0) <= SMALL), None)
            if small is not None:
                job.replace(source, small, eps)
                continue
        job.replace(source, argument, f"{fit(source.text(argument), SUM)} + {eps}")


def _takes_eps(source: Source, node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow) and constant(source, node.left) is None and (constant(source, node.right) or 0.0) < 1.0
    op = operation(source, node)
    if op is None:
        return False
    if op.name in {"norm", "vector_norm"}:
        return euclidean(source, op)
    if op.name == "pairwise_distance":
        return len(op.rest) == 1 and not op.node.keywords and not op.method
    if op.name == "dist":
        return len(op.rest) == 1 and not op.node.keywords
    if op.name == "pow":
        return not op.rest or (constant(source, op.rest[0]) or 0.0) < 1.0
    return op.name in _EPS_UNARY or op.name == "std"


def euclidean(source: Source, op: Operation) -> bool:
    """Whether a norm is the Euclidean one of a vector or of all elements."""
    order = op.argument(0, "p", "ord")
    if op.words.framework != "torch" and op.name == "norm":  # without an axis, the norm of all elements
        return order is None or constant(source, order) == 2.0 and op.argument(1, "axis") is not None
    if order is None or isinstance(order, ast.Constant) and order.value in (None, "fro", 2):
        full = spelling.means(source, op.node.func) or ""
        return not (full == "torch.linalg.norm" and order is not None and op.argument(1, "dim") is None)
    return constant(source, order) == 2.0


def norm_arguments(source: Source, op: Operation) -> tuple[str | None, str | None]:
    """A norm's dim and keepdim, which are those of a sum."""
    dim, keep = op.argument(1, "dim", "axis"), op.keep
    if any(k.arg not in {"p", "ord", "dim", "keepdim", "axis", "keepdims", "input", "self", "x"} for k in op.node.keywords):
        raise Refused("a norm with a dtype")
    return source.text(dim) if dim is not None else None, source.text(keep) if keep is not None else None


def written_out(job: Job, source: Source, op: Operation, eps: str) -> str:
    """A norm or a standard deviation with an eps under the root."""
    if op.name == "std":
        text, func = source.text(op.node), op.node.func
        if isinstance(func, ast.Attribute):
            at = source.span(func)[1] - source.span(op.node)[0]
            raw = text.encode()
            return words(job, source, op.node).method("sqrt", f"{raw[: at - 3].decode()}var{raw[at:].decode()} + {eps}")
        raise Refused("std under its bare name")
    if op.name in {"dist", "pairwise_distance"}:  # of PyTorch only
        dim = "" if op.name == "dist" else "-1"
        difference = f"({source.text(op.operand)} - {fit(source.text(op.rest[0]), SUM + 1)})"
        return f"({difference}.square().sum({dim}) + {eps}).sqrt()"
    speak = words(job, source, op.node)
    dim_, keep = norm_arguments(source, op)
    if not speak.torch and speak.framework != "keras":
        total = speak.call("sum", speak.method("square", source.text(op.operand)), dim=dim_, keepdim=keep)
        return speak.method("sqrt", f"{total} + {eps}")
    if speak.framework == "keras":
        return speak.method("sqrt", f"{speak.call('sum', speak.method('square', source.text(op.operand)), dim=dim_, keepdim=keep)} + {eps}")
    given = ", ".join([*([f"dim={dim_}"] if dim_ else []), *([f"keepdim={keep}"] if keep else [])])
    return f"({speak.method('square', source.text(op.operand))}.sum({given}) + {eps}).sqrt()"


# -- guard a divisor ---------------------------------------------------------------------------------------------


@form("guard_divisor")
def write_divisor(job: Job) -> None:
    """a / b becomes a / b.clamp(min=eps), or, for divisors of either sign, a / torch.where(b == 0, 1, b)."""
    mode = job.get("mode", "clamp")
    for role in job.each():
        source, node, divisor = find_guarded(job, role)
        op = operation(source, node)
        remainder = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
        if remainder or op is not None and op.name not in {"div", "reciprocal", "rsqrt", "pow"}:
            raise Refused("not a division")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) or op is not None and op.name == "pow":
            power = node.right if isinstance(node, ast.BinOp) else op.argument(0, "exponent") if op is not None else None
            if power is None or (constant(source, power) or 0.0) >= 0:
                raise Refused("not a division")
        if op is not None and in_place(op) and divisor is op.operand:
            raise Refused("in place")
        if _plain_number(source, divisor):
            if mode == "where":
                raise Refused("a number that may be zero")
            count = _is_count(source, divisor)
            eps = "1" if count else job.literal("eps")
            job.replace(source, divisor, f"max({source.text(divisor)}, {eps})")
            continue
        if mode == "where":
            name = source.text(divisor)
            if scope.dotted(divisor) is None:
                name = named_before(job, source, divisor, ("divisor", "denominator"))
            speak = words(job, source, node)
            text = speak.call("where", f"{name} == 0", speak.call("ones_like", name) if speak.torch else "1.0", name)
        else:
            eps = job.literal("eps")
            if eps is None:
                raise Refused("no eps")
            if mode == "add":
                text = f"{fit(source.text(divisor), SUM)} + {eps}"
            elif mode == "clamp":
                text = words(job, source, node).clamp(source.text(divisor), eps, None)
            else:
                raise Refused("an unknown mode")
        job.replace(source, divisor, fit(text, LOOSE))


def _plain_number(source: Source, node: ast.expr) -> bool:
    """Whether an expression is a Python number, not an array."""
    if isinstance(node, ast.Name):
        definition = scope.reaching(source, node)
        return definition is not None and _plain_number(source, definition.value)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            if scope.home(source, node, node.func.id) is not None:
                return False
            if node.func.id in {"sum", "max", "min"}:
                return all(_plain_number(source, a) for a in node.args)
            return node.func.id in {"len", "int", "float", "round"}
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in _LENGTHS or (spelling.means(source, node.func) or "").startswith("math.")
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.BinOp):
        return _plain_number(source, node.left) and _plain_number(source, node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_count(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        definition = scope.reaching(source, node)
        return definition is not None and _is_count(source, definition.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in {"len", "int"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in {"size", "numel", "nelement"}
    return isinstance(node, ast.Subscript)


__all__ = ["bound", "euclidean", "find_guarded", "guarded", "norm_arguments", "write_clamp", "write_divisor", "write_epsilon"]
