"""Roots of sums of squares, without the squares leaving the range on the way."""

from __future__ import annotations

import ast
import math

from numdebug.fixes import moving, scope
from numdebug.fixes.arguments import euclidean
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import constant, is_op, operation
from numdebug.fixes.softmaxes import in_place
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import Trace, fresh_name, inlinable, named_before, trace
from numdebug.fixes.wording import PRODUCT, fit, number
from numdebug.fixes.words import words


def under_root(source: Source, node: ast.AST) -> ast.expr | None:
    """x of sqrt(x) and x ** 0.5."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and constant(source, node.right) == 0.5:
        return node.left
    op = is_op(source, node, "sqrt", "pow")
    if op is None or in_place(op):
        return None
    if op.name == "pow" and (not op.rest or constant(source, op.rest[0]) != 0.5):
        return None
    return op.operand


def squared(source: Source, node: ast.expr) -> ast.expr | None:
    """x of x * x, x ** 2, x.pow(2), x.square()."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and ast.dump(node.left) == ast.dump(node.right):
        return node.left
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and constant(source, node.right) == 2.0:
        return node.left
    op = is_op(source, node, "square", "pow", "mul")
    if op is None or in_place(op):
        return None
    if op.name == "square":
        return op.operand
    if op.name == "pow":
        return op.operand if op.rest and constant(source, op.rest[0]) == 2.0 else None
    return op.operand if op.rest and ast.dump(op.rest[0]) == ast.dump(op.operand) else None


@form("hypot", "scaled_norm")
def write_magnitude(job: Job) -> None:
    """sqrt(x*x + y*y) becomes hypot(x, y); the root of a sum of squares is scaled by the largest element."""
    for role in job.each():
        source, node = _root(job, role)
        argument = under_root(source, node)
        if argument is None:
            _norm(job, source, node)
            continue
        way = trace(source, argument, lambda n, s=source: _squares(s, n) is not None or _total(s, n), structure=False)  # type: ignore[misc]
        if way.stopped or way.layers:
            raise Refused("not the root of a sum of squares")
        parts = _squares(source, way.end)
        if parts is not None:
            _hypot(job, source, node, way, parts)
        else:
            _scaled(job, source, node, way)


def _root(job: Job, role: str) -> tuple[Source, ast.expr]:
    source = job.source(job.repair.sites[role])

    def accept(node: ast.AST) -> bool:
        op = is_op(source, node, "norm", "vector_norm")
        return under_root(source, node) is not None or op is not None and euclidean(source, op)

    try:
        return job.find(role, (ast.BinOp, ast.Call), accept)
    except Refused:
        start = job.maybe(role, ast.expr)
        for above in source.ancestors(start) if start is not None else ():
            if isinstance(above, ast.BinOp | ast.Call) and accept(above):
                return source, above
            if isinstance(above, ast.stmt):
                break
        raise


def _squares(source: Source, node: ast.expr) -> list[ast.expr] | None:
    """x and y of x*x + y*y, a positive constant among them as it is."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return None
    parts: list[ast.expr] = []
    for side in (node.left, node.right):
        more = _squares(source, side)
        one = squared(source, side)
        if more is not None:
            parts += more
        elif one is not None:
            parts.append(one)
        elif (constant(source, side) or 0.0) >= 0.1 and isinstance(side, ast.Constant):
            parts.append(side)
        else:
            return None
    return parts


def _hypot(job: Job, source: Source, node: ast.expr, way: Trace, parts: list[ast.expr]) -> None:
    if not inlinable(source, way, parts, node):
        raise Refused("the sides mean something else at the root")
    speak = words(job, source, node)
    variable = [p for p in parts if constant(source, p) is None]
    if not variable:
        raise Refused("only constants")
    text = source.text(variable[0])
    for part in variable[1:]:
        text = speak.call("hypot", text, source.text(part))
    for part in parts:
        value = constant(source, part)
        if value is not None:
            like = variable[0]
            if moving.has_effects(like):
                raise Refused("an expression that would run twice")
            side = number(math.sqrt(value))
            text = speak.call("hypot", text, speak.call("full_like", source.text(like), side) if speak.torch else side)
    job.replace(source, node, text)
    job.drop_unused(source, way.hops)


def _total(source: Source, node: ast.expr) -> bool:
    op = is_op(source, node, "sum", "mean")
    return op is not None and not in_place(op)


def _scaled(job: Job, source: Source, node: ast.expr, way: Trace) -> None:
    total = operation(source, way.end)
    if total is None:
        raise Refused("no sum")
    inner = trace(source, total.operand, lambda n: squared(source, n) is not None, structure=False)
    v = squared(source, inner.end) if not inner.stopped and not inner.layers else None
    if v is None:
        raise Refused("not a sum of squares")
    dim, keep = total.dim, total.keep
    pieces = [p for p in (v, dim, keep) if p is not None]
    if not inlinable(source, way, pieces, node) or not inlinable(source, inner, [], node):
        raise Refused("the vector means something else at the root")
    _say_scaled(job, source, node, v, dim, keep, total.name)
    job.drop_unused(source, [*way.hops, *inner.hops])


def _norm(job: Job, source: Source, node: ast.expr) -> None:
    op = operation(source, node)
    if op is None or any(k.arg not in {"p", "ord", "dim", "keepdim", "axis", "keepdims", "input", "x"} for k in op.node.keywords):
        raise Refused("not a plain norm")
    _say_scaled(job, source, node, op.operand, op.argument(1, "dim", "axis"), op.keep, "sum")


def _say_scaled(job: Job, source: Source, node: ast.expr, v: ast.expr, dim: ast.expr | None, keep: ast.expr | None, name: str) -> None:
    statement = source.statement(node)
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
        raise Refused("no line for the scale")
    for above in source.ancestors(node):
        if isinstance(above, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp):
            raise Refused("the scale may not be computed first")
        if above is statement:
            break
    if keep is not None and not isinstance(keep, ast.Constant):
        raise Refused("keepdim is computed")
    plain = scope.dotted(v) is not None
    text = source.text(v) if plain else named_before(job, source, v, ("vector", "values"))
    speak = words(job, source, node)
    scale = fresh_name(source, ("scale", "largest"))
    tiny = speak.finfo(text, "tiny") or "1e-30"
    size = speak.method("abs", speak.detached(text))
    if dim is None:
        job.before(source, statement, f"{scale} = {speak.clamp(speak.method('max', size), tiny, None)}")
        root = speak.method("sqrt", speak.method(name, speak.method("square", f"{text} / {scale}")))
        job.replace(source, node, f"{root} * {scale}")
        return
    if not isinstance(dim, ast.Constant | ast.UnaryOp):
        raise Refused("several dims")
    over = source.text(dim)
    kept = keep is not None and isinstance(keep, ast.Constant) and bool(keep.value)
    job.before(source, statement, f"{scale} = {speak.clamp(speak.method('max', size, over, True), tiny, None)}")
    squeezed = f"{scale}.squeeze({over})" if speak.framework != "keras" else speak.call("squeeze", scale, over)
    back = scale if kept else squeezed
    root = speak.method("sqrt", speak.method(name, speak.method("square", f"{text} / {scale}"), over, kept))
    job.replace(source, node, f"{root} * {fit(back, PRODUCT)}")
