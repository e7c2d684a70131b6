"""Products with a logarithm, and logarithms of products."""

from __future__ import annotations

import ast

from numdebug.fixes import moving, scope
from numdebug.fixes.job import Job, form
from numdebug.fixes.log_of_softmax import logs
from numdebug.fixes.operations import Operation, is_op, operation
from numdebug.fixes.softmaxes import in_place
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import guard, inlinable, rebuilt, trace
from numdebug.fixes.wording import ATOM, LOOSE, PRODUCT, fit
from numdebug.fixes.words import words

Term = tuple[str, ast.expr, Operation | None]
"""A term of a sum: its sign, its text, and the log that it is, if it is one."""


def factors(source: Source, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two sides of a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return node.left, node.right
    op = is_op(source, node, "mul", "multiply")
    if op is not None and op.rest and not op.node.keywords and not in_place(op):
        return op.operand, op.rest[0]
    return None


# -- t * log(t) --------------------------------------------------------------------------------------------------


@form("xlogy")
def write_xlogy(job: Job) -> None:
    """t * log(q) becomes xlogy(t, q), which is 0 where t is 0; a difference of logs is distributed."""
    done: set[ast.expr] = set()
    for role in job.each():
        source, node = _product(job, role)
        if node in done:
            continue
        done.add(node)
        sides = factors(source, node)
        for t, other in (sides, sides[::-1]) if sides is not None else ():
            hops: list[scope.Definition] = []
            terms = _terms(source, other, hops, node)
            if terms is not None:
                job.replace(source, node, _distributed(job, source, node, t, terms))
                job.drop_unused(source, hops)
                break
        else:
            raise Refused("no log in the product")


def _product(job: Job, role: str) -> tuple[Source, ast.expr]:
    source = job.source(job.repair.sites[role])
    try:
        found, node = job.find(role, (ast.BinOp, ast.Call), lambda n: factors(source, n) is not None)
        return found, node
    except Refused:
        pass
    other = job.role("mul", role)
    if other is not None:
        return job.find(other, (ast.BinOp, ast.Call), lambda n: factors(source, n) is not None)
    log = job.maybe(role, ast.Call)
    for above in source.ancestors(log) if log is not None else ():
        if isinstance(above, ast.expr) and factors(source, above) is not None:
            return source, above
        if isinstance(above, ast.stmt):
            break
    raise Refused("no product")


def _terms(source: Source, node: ast.expr, hops: list[scope.Definition], at: ast.AST) -> list[Term] | None:
    """The signed terms of a sum that has a log in it; None where it has none."""
    log = _log(source, node, hops, at)
    if log is not None:
        return [("+", node, log)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left = _terms(source, node.left, hops, at) or [("+", node.left, None)]
        right = _terms(source, node.right, hops, at) or [("+", node.right, None)]
        if isinstance(node.op, ast.Sub):
            right = [("-" if sign == "+" else "+", n, found) for sign, n, found in right]
        return [*left, *right] if any(found for _, _, found in (*left, *right)) else None
    return None


def _log(source: Source, node: ast.expr, hops: list[scope.Definition], at: ast.AST) -> Operation | None:
    way = trace(source, node, lambda n: is_op(source, n, "log") is not None, structure=False)
    op = is_op(source, way.end, "log") if not way.stopped and not way.layers else None
    if op is None or in_place(op) or not inlinable(source, way, [op.operand], at):
        return None
    hops.extend(way.hops)
    return op


def _distributed(job: Job, source: Source, node: ast.expr, t: ast.expr, terms: list[Term]) -> str:
    speak = words(job, source, node)
    said = source.text(t)
    if len(terms) > 1 and moving.has_effects(t):
        raise Refused("a factor that would run twice")
    text = ""
    for sign, term, log in terms:
        if log is None:
            part = f"{fit(said, PRODUCT)} * {fit(source.text(term), PRODUCT + 1)}"
        else:
            argument = log.operand
            layer = guard(source, argument)
            if layer is not None and source.text(layer.inner) in (said, said.lstrip("-")):
                argument = layer.inner
            part = speak.call("xlogy", said, source.text(argument))
        if not text:
            text = part if sign == "+" else f"-{part}"
        else:
            text = f"{text} {sign} {part}"
    return text


# -- log of a product --------------------------------------------------------------------------------------------


@form("log_space_product")
def write_log_space(job: Job) -> None:
    """log(prod(p)) becomes sum(log(p)), log(cumprod(p)) cumsum(log(p))."""
    for _, source, log in logs(job, "log"):
        way = trace(source, log.operand, lambda n, s=source: is_op(s, n, "prod", "cumprod") is not None)  # type: ignore[misc]
        product = operation(source, way.end) if not way.stopped else None
        if product is None or in_place(product) or any(k.arg == "dtype" for k in product.node.keywords):
            raise Refused("no product under the log")
        rest = [*product.rest, *(k.value for k in product.node.keywords if k.arg not in ("input", "self"))]
        p = product.operand
        if not inlinable(source, way, [p, *rest], log.node) or moving.has_effects(p):
            raise Refused("the factors mean something else at the log")
        exp = is_op(source, p, "exp")
        speak = words(job, source, log.node)
        inner = source.text(exp.operand) if exp is not None else speak.call("log", source.text(p))
        name = "sum" if product.name == "prod" else "cumsum"
        arguments = [source.text(a) for a in product.rest]
        arguments += [f"{k.arg}={source.text(k.value)}" for k in product.node.keywords if k.arg not in ("input", "self")]
        if product.method:
            inner = speak.method("log", source.text(p)) if exp is None else inner
            text = f"{fit(inner, ATOM)}.{name}({', '.join(arguments)})"
        else:
            text = f"{speak.name(name)}({', '.join([fit(inner, LOOSE), *arguments])})"
        job.replace(source, log.node, rebuilt(source, way, text))
        job.drop_unused(source, way.hops)


__all__ = ["factors", "write_log_space", "write_xlogy"]
