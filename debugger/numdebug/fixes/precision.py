"""A wider type, or a smaller number, where the type at hand cannot hold the result."""

from __future__ import annotations

import ast

from numdebug.fixes import moving, scope, spelling
from numdebug.fixes.branches import known_at
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import constant, is_op, operation
from numdebug.fixes.softmaxes import in_place
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.wording import ATOM, PRODUCT, UNARY, fit
from numdebug.fixes.words import Words, words

_TWO = set("matmul mm bmm mul add sub div mv dot linear addmm baddbmm einsum multiply outer".split())
_ONE = set("sum mean square exp pow norm vector_norm cumsum cumprod prod var std expm1 softplus logsumexp".split())
_INTEGER = {"sum", "prod", "cumsum", "cumprod", "mul", "add", "sub", "square", "pow", "abs", "neg", "matmul", "dot", "multiply"}
_ARITHMETIC = (ast.MatMult, ast.Mult, ast.Add, ast.Sub, ast.Div, ast.Pow, ast.LShift)


_SIGNS: dict[type[ast.operator], str] = {
    ast.Mult: "*",
    ast.Add: "+",
    ast.Sub: "-",
    ast.Div: "/",
    ast.Pow: "**",
    ast.LShift: "<<",
    ast.MatMult: "@",
}


def operands(source: Source, node: ast.AST) -> list[ast.expr]:
    """The arrays that an operation reads; literals are left out."""
    found: list[ast.expr]
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        found = [node.left] if isinstance(node.op, ast.Pow) else [node.left, node.right]
    else:
        op = operation(source, node)
        if op is None or in_place(op):
            return []
        if op.name in _TWO:
            found = [op.operand, *op.rest]
        elif op.name in _ONE | _INTEGER:
            found = [op.operand]
        else:
            return []
    return [f for f in found if not isinstance(f, ast.Constant) and constant(source, f) is None]


@form("float32")
def write_float32(job: Job) -> None:
    """The operands of a half-precision operation are cast to float32; with `back`, its result is cast again."""
    for role in job.each():
        source, node = job.find(role, (ast.BinOp, ast.Call), lambda n, r=role: bool(operands(job.source(job.repair.sites[r]), n)))  # type: ignore[misc]
        found = operands(source, node)
        if job.get("back"):
            end = _restored(source, node)
            if end is node and not _sums(source, node):
                raise Refused("the result would overflow again when cast back")
            first = next((f for f in found if scope.dotted(f) is not None), None)
            speak = words(job, source, node)
            like = source.text(first) if first is not None else None
            if source.inside(node, end):
                job.replace(source, end, _back(speak, _widened(job, source, end, found), like))
                continue
            if first is not None and not moving.movable(source, first, source.statement(first), source.statement(end)):
                raise Refused("the dtype is not at hand where the result is in range again")
            job.replace(source, end, _back(speak, source.text(end), like))
        for operand in found:
            job.replace(source, operand, words(job, source, node).cast(source.text(operand), "float32"))


def _back(speak: Words, text: str, like: str | None) -> str:
    if like is not None:
        return speak.cast_like(text, like)
    return f"{fit(text, ATOM)}.half()" if speak.torch else speak.cast(text, "float16")


def _widened(job: Job, source: Source, outer: ast.expr, found: list[ast.expr]) -> str:
    """The text of an expression with some of its parts cast to float32."""
    start = source.span(outer)[0]
    text = source.text(outer).encode()
    for operand in sorted(found, key=source.span, reverse=True):
        a, b = source.span(operand)
        text = text[: a - start] + words(job, source, outer).cast(source.text(operand), "float32").encode() + text[b - start :]
    return text.decode()


_ROOTS = {"sqrt", "rsqrt", "log", "softmax", "log_softmax", "tanh", "sigmoid", "logsumexp", "div"}
_PASSING = set("sum mean add sub mul masked_fill where clamp cumsum transpose view reshape unsqueeze squeeze".split())
_LONG_SUMS = set("sum mean matmul mm bmm var std norm vector_norm cumsum einsum linear".split())


def _sums(source: Source, node: ast.expr) -> bool:
    """Whether an operation sums many terms: its result may fit where a partial sum did not."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.MatMult)
    return is_op(source, node, *_LONG_SUMS) is not None


def _restored(source: Source, node: ast.expr) -> ast.expr:
    """The expression after which a value is in range again: the root or quotient that it goes into; else itself."""
    at: ast.expr = node
    for _ in range(24):
        parent = source.parent(at)
        if isinstance(parent, ast.Attribute):
            parent = source.parent(parent)
        if isinstance(parent, ast.BinOp):
            if isinstance(parent.op, ast.Div) and parent.left is at:
                return parent
            if isinstance(parent.op, ast.Pow) and parent.left is at:
                power = constant(source, parent.right)
                return parent if power is not None and abs(power) < 1 else node
            if not isinstance(parent.op, ast.Add | ast.Sub | ast.Mult):
                return node
            at = parent
            continue
        op = operation(source, parent)
        if op is not None and isinstance(parent, ast.expr):
            if op.name in _ROOTS:
                return parent
            if op.name not in _PASSING:
                return node
            at = parent
            continue
        if isinstance(parent, ast.Assign) and parent.value is at and isinstance(parent.targets[0], ast.Name):
            uses = scope.uses(source, scope.Definition(parent.targets[0].id, parent, at, True))
            if len(uses) != 1 or not isinstance(uses[0], ast.expr):
                return node
            at = uses[0]
            continue
        return node
    return node


# -- dividing first ----------------------------------------------------------------------------------------------


@form("prescale")
def write_prescale(job: Job) -> None:
    """(q @ k) / c becomes (q / c) @ k: the product stays in range."""
    for role in job.each():
        source, node = job.find(role, (ast.BinOp, ast.Call), lambda n, r=role: _left(job.source(job.repair.sites[r]), n) is not None)  # type: ignore[misc]
        left = _left(source, node)
        site = job.role("div", role)
        if left is None or site is None:
            raise Refused("no division")
        own, division = job.find(site, (ast.BinOp, ast.AugAssign, ast.Call), lambda n, s=source: _scaling(s, n) is not None)  # type: ignore[misc]
        scaling = _scaling(source, division)
        if own is not source or scaling is None:
            raise Refused("the division is elsewhere")
        value, by, sign = scaling
        if not _scalar(source, by) and not job.get("scalar"):
            raise Refused("the divisor may be an array")
        inside = source.inside(value, node) or source.inside(node, value)
        if not inside:
            definition = scope.reaching(source, value)
            if definition is None or definition.value is not node:
                raise Refused("the division is of something else")
            readers = [u for u in scope.uses(source, definition) if u is not value and not source.inside(u, division)]
            if readers and not isinstance(division, ast.AugAssign):
                raise Refused("the product is used undivided as well")
            if not known_at(source, by, source.statement(division), source.statement(node)):
                raise Refused("the divisor is not known at the product")
        elif value is not node:
            raise Refused("the division is of something else")
        scaled = f"{fit(source.text(left), PRODUCT)} {sign} {fit(source.text(by), PRODUCT + 1)}"
        if inside:
            start = source.span(node)[0]
            a, b = source.span(left)
            text = source.text(node).encode()
            placed = fit(scaled, ATOM) if not _is_argument(source, left) else scaled
            said = (text[: a - start] + placed.encode() + text[b - start :]).decode()
            job.replace(source, division if isinstance(division, ast.expr) else node, said)
            continue
        job.replace(source, left, scaled if _is_argument(source, left) else fit(scaled, ATOM))
        statement = source.statement(division)
        if isinstance(division, ast.AugAssign) or _only_rebinds(statement, division, value):
            job.drop(source, statement)
        elif isinstance(division, ast.expr):
            job.replace(source, division, source.text(value))


def _is_argument(source: Source, node: ast.expr) -> bool:
    parent = source.parent(node)
    return isinstance(parent, ast.Call) and parent.func is not node


def _only_rebinds(statement: ast.stmt, division: ast.AST, value: ast.expr) -> bool:
    if not (isinstance(statement, ast.Assign) and statement.value is division and len(statement.targets) == 1):
        return False
    target = scope.dotted(statement.targets[0])
    return target is not None and target == scope.dotted(value)


def _left(source: Source, node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left
    op = is_op(source, node, "matmul", "bmm", "mm")
    return op.operand if op is not None else None


def _scaling(source: Source, node: ast.AST) -> tuple[ast.expr, ast.expr, str] | None:
    """The value, the scalar and the sign of `value / scalar` or `value * scalar`."""
    match node:
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return left, right, "/"
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return (right, left, "*") if _scalar(source, left) else (left, right, "*")
        case ast.AugAssign(target=ast.Name() as target, op=ast.Div(), value=value):
            return target, value, "/"
        case ast.AugAssign(target=ast.Name() as target, op=ast.Mult(), value=value):
            return target, value, "*"
    op = is_op(source, node, "div")
    return (op.operand, op.rest[0], "/") if op is not None and op.rest and not in_place(op) else None


def _scalar(source: Source, node: ast.expr) -> bool:
    """Whether an expression is surely a number."""
    if constant(source, node) is not None:
        return True
    if isinstance(node, ast.Call):
        full = spelling.means(source, node.func) or ""
        method = isinstance(node.func, ast.Attribute) and node.func.attr in {"size", "item"}
        return method or full in {"math.sqrt", "numpy.sqrt", "float", "int", "len"}
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
            base = source.text(node.left).lower()
            size = "dim" in base or base in {"d", "dk", "d_k", "n"}
            return constant(source, node.right) is not None and (size or _scalar(source, node.left))
        return _scalar(source, node.left) and _scalar(source, node.right)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    definition = scope.reaching(source, node) if isinstance(node, ast.Name | ast.Attribute) else None
    return definition is not None and _scalar(source, definition.value)


# -- integers ----------------------------------------------------------------------------------------------------


@form("widen_integer")
def write_widen(job: Job) -> None:
    """Small integers are cast before the arithmetic; a cast to uint8 is clamped first."""
    for role in job.each():
        source = job.source(job.repair.sites[role])
        dtype = str(job.get("dtype", "int64"))
        dtype = _wide_enough(job, source, dtype)
        if dtype not in {"int16", "int32", "int64", "float32", "float64"}:
            raise Refused("an unknown dtype")
        narrow = job.maybe(role, ast.Call)
        value = _to_uint8(source, narrow) if narrow is not None else None
        if value is not None:
            speak = words(job, source, narrow) if narrow is not None else None
            method = "clamp" if speak is None or speak.torch else "clip"
            job.replace(source, value, f"{fit(source.text(value), ATOM)}.{method}(0, 255)")
            continue
        changed = job.maybe(role, ast.AugAssign)
        if changed is not None and isinstance(changed.target, ast.Name) and isinstance(changed.op, _ARITHMETIC):
            sign = _SIGNS[type(changed.op)]
            start, end = source.span(changed)
            name = changed.target.id
            wide = words(job, source, changed.value).cast(name, dtype)
            job.put(source, start, end, f"{name} = {wide} {sign} {fit(source.text(changed.value), UNARY)}")
            continue
        source, node = job.find(role, (ast.BinOp, ast.Call), lambda n, s=source: bool(operands(s, n)))  # type: ignore[misc]
        for operand in operands(source, node):
            job.replace(source, operand, _wider(words(job, source, node), source.text(operand), dtype))


def _wide_enough(job: Job, source: Source, dtype: str) -> str:
    """Where int64 is not at hand, or much more than the narrow type at hand asks for: the next type that holds the results."""
    framework = spelling.framework(source).framework
    narrow = str(job.get("narrow") or "")
    if framework == "torch":
        return dtype
    if narrow in ("int8", "uint8"):
        return "int16" if job.get("op") in ("sub", "add", "rsub", "neg", "abs") else "int32"
    if narrow in ("int16", "uint16"):
        return "int32"
    return "float32" if framework != "numpy" else dtype


def _wider(speak: Words, text: str, dtype: str) -> str:
    return f"{fit(text, ATOM)}.to({speak.dtype(dtype)})" if speak.torch else speak.cast(text, dtype)


def _to_uint8(source: Source, node: ast.Call) -> ast.expr | None:
    if not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "byte" and not node.args:
        return node.func.value
    if node.func.attr in {"to", "type", "astype"} and len(node.args) == 1:
        if spelling.means(source, node.args[0]) in {"torch.uint8", "numpy.uint8", "jax.numpy.uint8"}:
            return node.func.value
    return None
