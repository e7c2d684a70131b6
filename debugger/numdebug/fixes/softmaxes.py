"""Recognising a softmax, from a library or written by hand, and saying the same in another form."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from numdebug.fixes import moving, scope, spelling
from numdebug.fixes.job import Job
from numdebug.fixes.operations import Operation, constant, is_op, operation
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import spliced, trace
from numdebug.fixes.wording import ATOM, fit
from numdebug.fixes.words import words


@dataclass(frozen=True)
class Softmax:
    """exp(logits) / sum of exp(logits) over `dim`; `parts` are the assignments that only serve the hand-written form."""

    node: ast.expr | ast.AugAssign
    logits: ast.expr
    dim: ast.expr | None
    library: Operation | None = None
    parts: tuple[scope.Definition, ...] = ()
    exp: ast.expr | None = None
    constructor: ast.Call | None = None

    @property
    def expression(self) -> ast.expr:
        """The node, where it is an expression and no augmented assignment."""
        if isinstance(self.node, ast.AugAssign):
            raise Refused("a statement, not an expression")
        return self.node

    @property
    def pieces(self) -> list[ast.expr]:
        """What a rewrite writes again."""
        dim = [] if self.dim is None or self.constructor is not None or not hasattr(self.dim, "lineno") else [self.dim]
        if self.library is not None:
            extra = [k.value for k in self.library.node.keywords if k.arg not in ("input", "dim", "axis")]
            return [self.logits, *dim, *extra]
        return [self.logits, *dim]


def softmax(source: Source, node: ast.AST) -> Softmax | None:
    """The softmax that a node is, or None."""
    if isinstance(node, ast.Call):
        op = is_op(source, node, "softmax")
        if op is not None and not node_is_module_call(op):
            return Softmax(node, op.operand, op.dim, op)
        made = constructor_of(source, node, "torch.nn.Softmax")
        if made is not None and len(node.args) == 1:
            dim = next((k.value for k in made.keywords if k.arg == "dim"), made.args[0] if made.args else None)
            return None if dim is None else Softmax(node, node.args[0], dim, constructor=made)
    return by_hand(source, node)


def node_is_module_call(op: Operation) -> bool:
    """Whether `self.softmax(x)` was read as a method of self."""
    return op.method and isinstance(op.operand, ast.Name) and op.operand.id == "self"


def constructor_of(source: Source, call: ast.Call, what: str) -> ast.Call | None:
    """The constructor of the module that is called here: `nn.Softmax(1)(x)`, or a name bound once to nn.Softmax(1)."""
    if isinstance(call.func, ast.Call):
        made: ast.expr = call.func
    else:
        definition = scope.reaching(source, call.func)
        if definition is None:
            return None
        made = definition.value
    return made if isinstance(made, ast.Call) and spelling.means(source, made.func) == what else None


def by_hand(source: Source, node: ast.AST) -> Softmax | None:
    """`e / e.sum(dim, keepdim=True)`, with or without a shift by the maximum and an eps in the divisor."""
    top, bottom = quotient(source, node)
    if top is None or bottom is None or not isinstance(node, ast.expr | ast.AugAssign):
        return None
    raised = trace(source, top, lambda n: is_op(source, n, "exp") is not None, structure=False)
    if raised.stopped or raised.layers:
        return None
    exp = operation(source, raised.end)
    total = trace(source, bottom, lambda n: is_op(source, n, "sum") is not None or builtin_sum(source, n))
    if total.stopped or exp is None:
        return None
    if isinstance(total.end, ast.Call) and builtin_sum(source, total.end):
        summed, dim = total.end.args[0], ast.Constant(0)
        kept = True
    else:
        op = operation(source, total.end)
        if op is None:
            return None
        summed, found_dim = op.operand, op.dim
        keep = op.keep
        kept = keep is not None or any(not layer.guard for layer in total.layers)
        if found_dim is not None and not kept and constant(source, found_dim) not in (0.0, -1.0):
            return None
        dim = found_dim  # type: ignore[assignment]
    again = trace(source, summed, lambda n: is_op(source, n, "exp") is not None, structure=False)
    if again.stopped or again.layers or not (again.end is raised.end or ast.dump(again.end) == ast.dump(raised.end)):
        return None
    if again.end is not raised.end and not moving.movable(source, again.end, source.statement(again.end), source.statement(raised.end)):
        return None
    logits, shift = unshifted(source, exp.operand)
    parts = (*raised.hops, *again.hops, *total.hops, *shift)
    return Softmax(node, logits, dim, None, tuple({d.statement: d for d in reversed(parts)}.values()), raised.end)


def quotient(source: Source, node: ast.AST) -> tuple[ast.expr | None, ast.expr | None]:
    """Numerator and denominator of a division."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.left, node.right
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
        return node.target, node.value
    op = is_op(source, node, "div")
    if op is not None and op.rest and not op.node.keywords and not in_place(op):
        return op.operand, op.rest[0]
    return None, None


def in_place(op: Operation) -> bool:
    """Whether a method changes its array: `x.div_(s)`."""
    return op.method and isinstance(op.node.func, ast.Attribute) and op.node.func.attr.endswith("_")


def builtin_sum(source: Source, node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum" and len(node.args) == 1):
        return False
    return scope.home(source, node, "sum") is None and not isinstance(node.args[0], ast.GeneratorExp)


def unshifted(source: Source, argument: ast.expr) -> tuple[ast.expr, list[scope.Definition]]:
    """The argument of exp without the maximum that was subtracted from it, and the assignments this leaves idle."""
    direct = argument
    hops: list[scope.Definition] = []
    if isinstance(direct, ast.Name):
        definition = scope.reaching(source, direct)
        if definition is not None and isinstance(definition.value, ast.BinOp):
            if moving.movable(source, definition.value, definition.statement, source.statement(argument)):
                direct, hops = definition.value, [definition]
    if isinstance(direct, ast.BinOp) and isinstance(direct.op, ast.Sub):
        shift = trace(source, direct.right, lambda n: is_op(source, n, "max", "amax") is not None)
        if not shift.stopped:
            top = operation(source, shift.end)
            if top is not None and ast.dump(top.operand) == ast.dump(direct.left):
                return direct.left, [*hops, *shift.hops]
        unpacked = _unpacked_max(source, direct)
        if unpacked is not None:
            return direct.left, [*hops, unpacked]
    return argument, []


def _unpacked_max(source: Source, difference: ast.BinOp) -> scope.Definition | None:
    """`m, _ = x.max(...)` before `x - m`."""
    name = difference.right
    if not isinstance(name, ast.Name):
        return None
    home = scope.home(source, name, name.id)
    found = scope.bindings(home, name.id) if home is not None else []
    if len(found) != 1:
        return None
    pair = source.parent(found[0])
    statement = source.parent(pair) if isinstance(pair, ast.Tuple) else None
    if not (isinstance(statement, ast.Assign) and isinstance(pair, ast.Tuple) and pair.elts[0] is found[0]):
        return None
    op = is_op(source, statement.value, "max")
    if op is None or ast.dump(op.operand) != ast.dump(difference.left):
        return None
    others = [e for e in pair.elts[1:] if not (isinstance(e, ast.Name) and e.id.startswith("_"))]
    return scope.Definition(name.id, statement, statement.value, not others)


def dim_text(job: Job, source: Source, found: Softmax) -> str | None:
    """The dim as written, else the one that was recorded."""
    if found.dim is not None:
        return source.text(found.dim) if hasattr(found.dim, "lineno") else ast.unparse(found.dim)
    recorded = job.get("dim")
    return str(recorded) if isinstance(recorded, int) else None


def said(job: Job, source: Source, found: Softmax, name: str, at: ast.AST, logits: str | None = None) -> str:
    """The softmax as a call of `name` (softmax, log_softmax), in the words of the original where it was one."""
    speak = words(job, source, found.expression if found.library is not None else at)
    if found.library is not None:
        call = found.library.node
        func = call.func
        text = source.text(call)
        if logits is not None:
            text = spliced(source, call, found.logits, logits)
        old = source.text(func)
        if speak.framework == "numpy" and not spelling.imported(source, "scipy"):
            raise Refused("a softmax of another library")
        if isinstance(func, ast.Attribute):
            if found.library.method:
                tail = text[len(text) - (len(source.text(call)) - len(source.text(func))) :]
                body = logits if logits is not None else source.text(found.logits)
                return f"{fit(body, ATOM)}.{name}{tail}"
            return old[: len(old) - len(func.attr)] + name + text[len(old) :]
        return f"{speak.name(name)}{text[len(old) :]}"
    dim = dim_text(job, source, found)
    body = logits if logits is not None else source.text(found.logits)
    if dim is not None:
        return speak.call(name, body, dim=dim)
    if found.constructor is not None:
        raise Refused("a softmax without a dim")
    if not speak.torch:
        return speak.call(name, body, dim="None")
    if "(" in body:
        raise Refused("a sum over everything, of an expression that would be written twice")
    return speak.shaped_as(speak.call(name, speak.flat(body), dim="0"), body)
