"""log(sigmoid(z)) becomes logsigmoid(z), and log(1 - sigmoid(z)) logsigmoid(-z), wherever the sigmoid stands."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from numdebug.fixes import scope
from numdebug.fixes.flow import Flow
from numdebug.fixes.job import Job, form
from numdebug.fixes.log_of_softmax import change_layer, guards_of, logs, named, only_read_in, outside, readers, returned, unguard
from numdebug.fixes.operations import Operation, constant, is_op, operation
from numdebug.fixes.softmaxes import constructor_of, node_is_module_call, quotient
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import SMALL, Trace, guard, inlinable, rebuilt, trace
from numdebug.fixes.wording import LOOSE, UNARY, fit
from numdebug.fixes.words import words


@dataclass(frozen=True)
class Sigmoid:
    """1 / (1 + exp(-logits)); `negated` where the text has the logits with the other sign."""

    node: ast.expr
    logits: ast.expr
    negated: bool = False
    parts: tuple[scope.Definition, ...] = ()


@dataclass(frozen=True)
class Argument:
    """What a log is taken of: `sign` of the logits, the way to the complement (if any) and on to the sigmoid."""

    sign: str
    outer: Trace
    inner: Trace

    @property
    def hops(self) -> list[scope.Definition]:
        """The assignments on the way."""
        return self.outer.hops if self.outer is self.inner else [*self.outer.hops, *self.inner.hops]

    def rebuilt(self, source: Source, text: str) -> str:
        """The log's indexing and views around `text`."""
        text = rebuilt(source, self.inner, text)
        return text if self.outer is self.inner else rebuilt(source, self.outer, text)


def sigmoid(source: Source, node: ast.AST) -> Sigmoid | None:
    """The sigmoid that a node is, or None."""
    if isinstance(node, ast.Call):
        op = is_op(source, node, "sigmoid", "expit")
        if op is not None and not node_is_module_call(op):
            return Sigmoid(node, op.operand)
        if len(node.args) == 1 and constructor_of(source, node, "torch.nn.Sigmoid") is not None:
            return Sigmoid(node, node.args[0])
    if not isinstance(node, ast.expr):
        return None
    top, bottom = quotient(source, node)
    op = is_op(source, node, "reciprocal")
    if op is not None:
        top, bottom = ast.Constant(1.0), op.operand
    if top is None or bottom is None:
        return None
    below = trace(source, bottom, lambda n: one_plus(source, n) is not None, structure=False)
    raised = one_plus(source, below.end) if not below.stopped else None
    if raised is None or any(not layer.guard for layer in below.layers):
        return None
    way = trace(source, raised, lambda n: is_op(source, n, "exp") is not None, structure=False)
    exp = operation(source, way.end)
    if way.stopped or way.layers or exp is None:
        return None
    parts = (*below.hops, *way.hops)
    if constant(source, top) == 1.0:
        plain, flipped = negation(exp.operand)
        return Sigmoid(node, plain, not flipped, parts)
    same = trace(source, top, lambda n: is_op(source, n, "exp") is not None, structure=False)
    if same.stopped or same.layers or not (same.end is way.end or ast.dump(same.end) == ast.dump(way.end)):
        return None
    return Sigmoid(node, exp.operand, False, (*parts, *same.hops))


def one_plus(source: Source, node: ast.expr) -> ast.expr | None:
    """x of `1 + x`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if constant(source, one) == 1.0:
                return other
    op = is_op(source, node, "add")
    if op is not None and op.rest and constant(source, op.rest[0]) == 1.0:
        return op.operand
    return None


def negation(node: ast.expr) -> tuple[ast.expr, bool]:
    """The expression without a minus before it, and whether there was one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return node.operand, True
    return node, False


def complement(source: Source, node: ast.expr) -> ast.expr | None:
    """p of `1 - p`, also of `1 + eps - p` and `-p + 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        left = constant(source, node.left)
        return node.right if left is not None and abs(left - 1.0) <= SMALL else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            value = constant(source, one)
            plain, flipped = negation(other)
            if value is not None and abs(value - 1.0) <= SMALL and flipped:
                return plain
    op = is_op(source, node, "sub", "rsub")
    if op is not None and op.rest and not op.node.keywords:
        pair = (op.operand, op.rest[0]) if op.name == "sub" else (op.rest[0], op.operand)
        return pair[1] if constant(source, pair[0]) == 1.0 else None
    return None


def argument(source: Source, log: Operation) -> Argument:
    """How the log's argument is made; the inner way is `stopped` where the sigmoid is out of sight."""
    start = log.operand
    if log.name == "log1p":
        minus = trace(source, start, lambda n: negation(n)[1] or is_op(source, n, "neg") is not None)
        if minus.stopped:
            raise Refused("log1p of something else")
        op = operation(source, minus.end)
        plain = op.operand if op is not None else negation(minus.end)[0]
        return Argument("-", minus, trace(source, plain, lambda n: sigmoid(source, n) is not None))
    way = trace(source, start, lambda n: sigmoid(source, n) is not None or complement(source, n) is not None)
    rest = complement(source, way.end) if not way.stopped and sigmoid(source, way.end) is None else None
    if rest is None:
        return Argument("+", way, way)
    return Argument("-", way, trace(source, rest, lambda n: sigmoid(source, n) is not None))


@form("log_sigmoid")
def write(job: Job) -> None:
    """Each log in turn; a sigmoid in another function or layer is taken out there, once."""
    found = logs(job, "log", "log1p")
    nodes: list[ast.expr] = [op.node for _, _, op in found]
    idle: list[tuple[Source, scope.Definition]] = []
    away: list[tuple[str, Source, Operation, Argument]] = []
    names: dict[ast.expr, str] = {}
    ways = [argument(source, op) for _, source, op in found]
    for (role, source, op), way in zip(found, ways, strict=True):
        job.mark = role[6:]
        signs = job.get("sign")
        wanted = signs.get(role) if isinstance(signs, dict) else signs
        if wanted not in (None, way.sign):
            raise Refused("the sign is not the one that was seen")
        if way.inner.stopped:
            away.append((role, source, op, way))
            continue
        inner = sigmoid(source, way.inner.end)
        if inner is None:
            raise Refused("no sigmoid")
        hops = [h for w, f in zip(ways, found, strict=True) if f[1] is source for h in w.hops]
        text = _logits(job, source, op, way, inner, readers(source, nodes, hops), names)
        job.replace(source, op.node, way.rebuilt(source, _call(job, source, op.node, text, (way.sign == "-") != inner.negated)))
        idle += [(source, d) for d in (*way.hops, *inner.parts)]
    if away:
        _elsewhere(job, away, nodes)
    for source in {s for s, _ in idle}:
        job.drop_unused(source, [d for s, d in idle if s is source])


def _call(job: Job, source: Source, at: ast.AST, logits: str, negative: bool) -> str:
    speak = words(job, source, at)
    return speak.call("logsigmoid", speak.minus(logits) if negative else logits)


def _logits(
    job: Job, source: Source, log: Operation, way: Argument, inner: Sigmoid, places: list[ast.AST], names: dict[ast.expr, str]
) -> str:
    ways = [way.outer, way.inner] if way.outer is not way.inner else [way.inner]
    if any(not inlinable(source, w, [], log.node) for w in ways):
        raise Refused("the indexing means something else at the log")
    if inner.logits in names:
        return names[inner.logits]
    kept = any(not only_read_in(source, d, places) for d in way.hops) or len(job.targets()) > 1
    costly = any(isinstance(n, ast.Call | ast.MatMult) for n in ast.walk(inner.logits))
    fits = inlinable(source, way.inner, [inner.logits], log.node)
    if fits and (not way.hops or not (kept and costly)):
        return source.text(inner.logits)
    if not way.hops or scope.scope_of(source, inner.node) is not scope.scope_of(source, log.node):
        raise Refused("the logits mean something else at the log")
    names[inner.logits] = named(job, source, inner.node, inner.logits, way.hops, places)
    return names[inner.logits]


def _elsewhere(job: Job, away: list[tuple[str, Source, Operation, Argument]], all_logs: list[ast.expr]) -> None:
    if not job.get("only_feeds_log"):
        raise Refused("the sigmoid of another function may serve others")
    guards = guards_of([w for _, _, _, way in away for w in (way.outer, way.inner)])
    for role, source, op, way in away:
        site = job.role("sigmoid", role)
        if site is None or job.source(job.repair.sites[site]) is not source:
            raise Refused("the sigmoid is in another file")
        inner = next((s for s in (sigmoid(source, n) for n in source.at(job.repair.sites[site])) if s is not None), None)
        if inner is None:
            change_layer(job, source, "torch.nn.Sigmoid", None, all_logs, None, guards)
        elif inner.node not in {e for _, _, _, w in away for e in (w.inner.end,)}:
            text = source.text(inner.logits)
            text = f"-{fit(text, UNARY)}" if inner.negated else text
            start = returned(job, source, inner.node, fit(text, LOOSE))
            Flow(source, all_logs, guards).only_feeds(start)
            job.drop_unused(source, list(inner.parts))
        if way.outer is not way.inner and way.outer.hops:
            raise Refused("the complement has a name of its own")
        unguard(job, source, way.inner, all_logs)
        text = outside(source, op, way.inner)
        call = _call(job, source, op.node, text, way.sign == "-")
        layers = [] if way.outer is way.inner else way.outer.layers
        job.replace(source, op.node, rebuilt(source, Trace(way.outer.start, way.outer.end, layers), call))


__all__ = ["complement", "guard", "negation", "sigmoid", "write"]
