"""Sums of exponentials: softmax, logsumexp and softplus that were written by hand."""

from __future__ import annotations

import ast
import math

from numdebug.fixes import moving, scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.log_of_sigmoid import one_plus
from numdebug.fixes.log_of_softmax import logs
from numdebug.fixes.operations import Operation, constant, is_op, operation
from numdebug.fixes.softmaxes import Softmax, builtin_sum, by_hand, quotient, said, softmax
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import Trace, hoisted, inlinable, named_before, rebuilt, trace
from numdebug.fixes.wording import SUM, fit, number
from numdebug.fixes.words import words

_MASKS = ("mask", "keep", "valid", "weight", "hot", "not_self", "eye")


@form("softmax")
def write_softmax(job: Job) -> None:
    """The quotient becomes torch.softmax; where that cannot be said, the maximum is subtracted inside exp."""
    for role in job.each():
        try:
            source, node = job.find(role, (ast.BinOp, ast.Call, ast.AugAssign), lambda n, r=role: _quotient(job, r, n))  # type: ignore[misc]
        except Refused:
            _shift(job, role, None)
            continue
        found = by_hand(source, node)
        if found is None or not _as_softmax(job, source, found):
            _shift(job, role, node)


def _quotient(job: Job, role: str, node: ast.AST) -> bool:
    return quotient(job.source(job.repair.sites[role]), node)[0] is not None


def _as_softmax(job: Job, source: Source, found: Softmax) -> bool:
    node = found.node
    statement = source.statement(node)
    if found.dim is None and job.get("dim") is None and any(isinstance(n, ast.Call) for n in ast.walk(found.logits)):
        return False
    if found.library is None and words(job, source, node).framework == "numpy" and not spelling.imported(source, "scipy"):
        return False
    if all(moving.movable(source, p, source.statement(p), statement) for p in found.pieces if hasattr(p, "lineno")):
        text = said(job, source, found, "softmax", node)
        if isinstance(node, ast.AugAssign):
            start, end = source.span(node)
            job.put(source, start, end, f"{source.text(node.target)} = {text}")
            job.kept.add(node)
        else:
            job.replace(source, node, text)
        job.drop_unused(source, list(found.parts))
        return True
    if found.exp is None or isinstance(node, ast.AugAssign) or scope.scope_of(source, found.exp) is not scope.scope_of(source, node):
        return False
    holder = [d for d in found.parts if d.value is found.exp]
    places: list[ast.AST] = [node, *(d.statement for d in found.parts if d not in holder)]
    top, _ = quotient(source, node)
    dim_ready = found.dim is None or not scope.read(found.dim)
    if (
        len(holder) == 1
        and isinstance(top, ast.Name)
        and top.id == holder[0].name
        and dim_ready
        and all(any(source.inside(u, p) for p in places) for u in scope.uses(source, holder[0]))
    ):  # x = exp(x); x / x.sum(): the variable holds the softmax from the start
        job.replace(source, found.exp, said(job, source, found, "softmax", found.exp))
        job.replace(source, node, holder[0].name)
        job.drop_unused(source, [d for d in found.parts if d not in holder])
        return True
    return False


def _shift(job: Job, role: str, node: ast.AST | None) -> None:
    """exp(x) becomes exp(x - x.amax(dim, keepdim=True)): the quotient stays as it is."""
    site = job.role("exp", role)
    if site is None:
        raise Refused("the exponential is not known")
    source, call = job.find(site, ast.Call, lambda n: is_op(job.source(job.repair.sites[site]), n, "exp") is not None)
    op = operation(source, call)
    if op is None:
        raise Refused("not an exponential")
    dim = job.get("dim")
    text = str(dim) if isinstance(dim, int) else None
    if text is None and node is not None:
        _, bottom = quotient(source, node)
        if bottom is not None:
            way = trace(source, bottom, lambda n: is_op(source, n, "sum") is not None)
            total = operation(source, way.end) if not way.stopped else None
            if total is not None and total.dim is not None and isinstance(total.dim, ast.Constant | ast.UnaryOp):
                text = source.text(total.dim)
    if text is None:
        raise Refused("the dim is not known")
    x = op.operand
    if isinstance(x, ast.BinOp) and is_op(source, x.right, "max", "amax") is not None:
        raise Refused("the maximum is subtracted already")
    name = source.text(x) if simple(x) else named_before(job, source, x, ("logits", "scores"))
    job.replace(source, x, f"{name} - {words(job, source, call).method('max', name, text, True)}")


def simple(node: ast.expr) -> bool:
    """A name, or an attribute of one: cheap, and the same when read twice."""
    return scope.dotted(node) is not None


# -- log of a sum of exponentials --------------------------------------------------------------------------------


@form("logsumexp")
def write_logsumexp(job: Job) -> None:
    """log(sum(exp(x))) becomes logsumexp(x); of a mean, less the log of the count; of two terms, logaddexp."""
    for _, source, log in logs(job, "log", "log1p"):
        if (
            log.name == "log1p"
            or _terms(source, log.operand) is not None
            and any(constant(source, t) == 1.0 for t in _terms(source, log.operand) or ())
        ):
            _softplus(job, source, log)
            continue
        way = trace(source, log.operand, lambda n, s=source: _sum(s, n) or _terms(s, n) is not None)  # type: ignore[misc]
        if way.stopped:
            raise Refused("no sum under the log")
        terms = _terms(source, way.end)
        if terms is not None:
            _logaddexp(job, source, log, way, terms)
            continue
        _logsumexp(job, source, log, way)


def _sum(source: Source, node: ast.expr) -> bool:
    return is_op(source, node, "sum", "mean") is not None or builtin_sum(source, node)


def _terms(source: Source, node: ast.expr) -> list[ast.expr] | None:
    """The terms of `exp(a) + exp(b) + ...`; at most constants beside exponentials."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return None
    terms: list[ast.expr] = []
    for side in (node.left, node.right):
        terms += _terms(source, side) or [side]
    raised = 0
    for term in terms:
        way = _exp(source, term)
        if way is not None:
            raised += 1
        elif constant(source, term) is None:
            return None
    plain = sum(constant(source, t) is not None for t in terms)
    return terms if raised and raised + plain == len(terms) and _real(source, terms) else None


def _real(source: Source, terms: list[ast.expr]) -> bool:
    """Whether more than one term is not a tiny constant."""
    return sum((constant(source, t) or 1.0) > 1e-3 for t in terms) > 1


def _exp(source: Source, node: ast.expr) -> Trace | None:
    way = trace(source, node, lambda n: is_op(source, n, "exp") is not None, structure=False)
    return None if way.stopped or way.layers else way


def _logaddexp(job: Job, source: Source, log: Operation, way: Trace, terms: list[ast.expr]) -> None:
    hops = list(way.hops)
    text = ""
    speak = words(job, source, log.node)
    real = [t for t in terms if (constant(source, t) or 1.0) > 1e-3]
    if any(constant(source, t) is not None for t in real):
        raise Refused("a constant among the exponentials")
    for term in real:
        inner = _exp(source, term)
        op = operation(source, inner.end) if inner is not None else None
        if inner is None or op is None or not inlinable(source, way, [op.operand], log.node):
            raise Refused("a term cannot be said at the log")
        hops += inner.hops
        argument = source.text(op.operand)
        text = speak.call("logaddexp", text, argument) if text else argument
    job.replace(source, log.node, rebuilt(source, way, text))
    job.drop_unused(source, hops)


def _logsumexp(job: Job, source: Source, log: Operation, way: Trace) -> None:
    total = operation(source, way.end)
    by_name = builtin_sum(source, way.end)
    summed = way.end.args[0] if by_name and isinstance(way.end, ast.Call) else total.operand if total is not None else None
    if summed is None:
        raise Refused("no sum")
    hops = list(way.hops)
    weight: ast.expr | None = None
    inner = _exp(source, summed)
    if inner is None:
        product = trace(source, summed, lambda n: isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult | ast.Div), structure=False)
        if product.stopped or product.layers or not isinstance(product.end, ast.BinOp):
            raise Refused("the sum is not of exponentials")
        hops += product.hops
        for side, other in ((product.end.left, product.end.right), (product.end.right, product.end.left)):
            inner = _exp(source, side) if isinstance(product.end.op, ast.Mult) else None
            if inner is not None:
                weight = other
                break
        if inner is None or weight is None or not any(m in source.text(weight).lower() for m in _MASKS):
            _mixture(job, source, log, way, product.end, hops)
            return
    op = operation(source, inner.end)
    if op is None:
        raise Refused("no exponential")
    hops += inner.hops
    dim = None if by_name or total is None else total.dim
    keep = None if by_name or total is None else total.keep
    pieces = [p for p in (weight, dim, keep) if p is not None]
    if not inlinable(source, way, pieces, log.node):
        raise Refused("the sum cannot be said at the log")
    mean = total is not None and total.name == "mean" and not by_name
    x = op.operand
    movable = inlinable(source, way, [x], log.node)
    effects = moving.has_effects(x) and inner.hops != [] and bool(_others(source, inner.hops, log.node))
    if (movable and not effects) and (not mean or simple(x)):
        text = source.text(x)
    else:
        text = hoisted(job, source, x, ("logits", "scores"))
    speak = words(job, source, log.node)
    argument = text if weight is None else f"{fit(text, SUM)} + {speak.call('log', source.text(weight))}"
    kept = source.text(keep) if keep is not None else None
    if by_name:
        said_ = speak.call("logsumexp", argument, dim="0")
    elif dim is not None:
        said_ = speak.call("logsumexp", argument, dim=source.text(dim), keepdim=kept)
    elif keep is not None:
        raise Refused("a sum over everything that keeps its dims")
    else:
        said_ = speak.all_over("logsumexp", argument)
    if mean:
        root_math = spelling.module(job, source, "math", log.node)
        if dim is not None and not isinstance(dim, ast.Constant | ast.UnaryOp | ast.Name):
            raise Refused("a mean over several dims")
        count = speak.count(text) if dim is None else f"{text}.shape[{source.text(dim)}]"
        said_ = f"{said_} - {root_math}.log({count})"
    job.replace(source, log.node, rebuilt(source, way, said_))
    job.drop_unused(source, hops)


def _mixture(job: Job, source: Source, log: Operation, way: Trace, product: ast.BinOp, hops: list[scope.Definition]) -> None:
    """log of a sum of weight * exp(x) / width: logsumexp of the log of each factor, all of them surely positive."""
    total = operation(source, way.end)
    if total is None or total.name != "sum" or not any(is_op(source, n, "exp") for n in ast.walk(product)):
        raise Refused("the sum is not of exponentials alone")
    terms = _log_terms(job, source, product, log.node, hops)
    dim, keep = total.dim, total.keep
    if not inlinable(source, way, [p for p in (dim, keep) if p is not None], log.node) or dim is None:
        raise Refused("the sum cannot be said at the log")
    kept = source.text(keep) if keep is not None else None
    said_ = words(job, source, log.node).call("logsumexp", terms, dim=source.text(dim), keepdim=kept)
    job.replace(source, log.node, rebuilt(source, way, said_))
    job.drop_unused(source, hops)


def _log_terms(job: Job, source: Source, node: ast.expr, at: ast.AST, hops: list[scope.Definition]) -> str:
    """The log of a positive product as a sum; refuses a factor that may be negative."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        left = _log_terms(job, source, node.left, at, hops)
        right = _log_terms(job, source, node.right, at, hops)
        sign, level = ("+", SUM) if isinstance(node.op, ast.Mult) else ("-", SUM + 1)
        return f"{fit(left, SUM)} {sign} {fit(right, level)}"
    value = constant(source, node)
    if value is not None and value > 0:
        return number(math.log(value))
    for name in ("exp", "softmax", "sigmoid", "sqrt"):
        way = trace(source, node, lambda n, name=name: is_op(source, n, name) is not None, structure=False)  # type: ignore[misc]
        op = operation(source, way.end) if not way.stopped and not way.layers else None
        if op is None or not inlinable(source, way, [op.operand, *op.rest], at) or moving.has_effects(op.operand):
            continue
        hops += way.hops
        text = source.text(op.operand)
        if name == "exp":
            return text
        if name == "sigmoid":
            return words(job, source, at).call("logsigmoid", text)
        if name == "sqrt":
            return f"0.5 * {words(job, source, at).call('log', text)}"
        inner = softmax(source, op.node)
        if inner is not None:
            return said(job, source, inner, "log_softmax", at)
    raise Refused("a factor that may be negative")


def _others(source: Source, hops: list[scope.Definition], log: ast.AST) -> list[ast.AST]:
    return [u for h in hops for u in scope.uses(source, h) if not source.inside(u, log)]


# -- log(1 + exp(x)) ---------------------------------------------------------------------------------------------


@form("softplus")
def write_softplus(job: Job) -> None:
    """log(1 + exp(x)) becomes softplus(x)."""
    for _, source, log in logs(job, "log", "log1p"):
        _softplus(job, source, log)


def _softplus(job: Job, source: Source, log: Operation) -> None:
    way = Trace(log.operand, log.operand)
    raised: ast.expr | None = log.operand
    if log.name == "log":
        way = trace(source, log.operand, lambda n: one_plus(source, n) is not None)
        raised = None if way.stopped else one_plus(source, way.end)
    inner = trace(source, raised, lambda n: is_op(source, n, "exp") is not None) if raised is not None else None
    op = operation(source, inner.end) if inner is not None else None
    if inner is None or inner.stopped or op is None:
        raise Refused("not log(1 + exp(x))")
    if not inlinable(source, way, [], log.node) or not inlinable(source, inner, [], log.node):
        raise Refused("the indexing means something else at the log")
    hops = [*way.hops, *inner.hops]
    effects = moving.has_effects(op.operand) and bool(_others(source, hops, log.node))
    if moving.movable(source, op.operand, source.statement(op.operand), source.statement(log.node)) and not effects:
        text = source.text(op.operand)
    else:
        text = hoisted(job, source, op.operand, ("z", "logits", "argument"))
    said_ = words(job, source, log.node).call("softplus", text)
    job.replace(source, log.node, rebuilt(source, way, rebuilt(source, inner, said_)))
    job.drop_unused(source, hops)


__all__ = ["simple", "write_logsumexp", "write_softmax", "write_softplus"]
