"""From a log back to the softmax or sigmoid inside it: through guards, indexing and variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from numdebug.fixes import moving, scope
from numdebug.fixes.job import Job
from numdebug.fixes.operations import constant, operation
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.wording import fit, level_in

SMALL = 0.05
"""An addend or a lower bound up to this is a guard against log(0), not part of the model."""

STRUCTURE = frozenset(
    """amax amin clone contiguous cpu cuda detach diag diagonal double expand expand_as flatten float gather index_select
    masked_select max min movedim mT narrow permute ravel repeat reshape select sort squeeze swapaxes t take_along_dim to
    topk transpose type_as unflatten unsqueeze view view_as""".split()
)
"""What the logarithm can be exchanged with: moving elements, casts, and order (the log is monotone)."""

_VIEWS = {"T", "mT", "values"}


@dataclass(frozen=True)
class Layer:
    """Something around the inner expression; a guard is left out when the whole is built again."""

    node: ast.expr
    inner: ast.expr
    guard: bool


@dataclass
class Trace:
    """The way in: `layers` outermost first, `hops` the assignments it passed, `end` what it was looking for."""

    start: ast.expr
    end: ast.expr
    layers: list[Layer] = field(default_factory=list)
    hops: list[scope.Definition] = field(default_factory=list)
    stopped: bool = False


def trace(source: Source, start: ast.expr, goal: Callable[[ast.expr], bool], structure: bool = True) -> Trace:
    """Follow `start` inwards until `goal` holds; `stopped` when it cannot be followed to there."""
    found = Trace(start, start)
    seen: set[ast.expr] = set()
    while not goal(found.end):
        if found.end in seen:
            found.stopped = True
            break
        seen.add(found.end)
        layer = guard(source, found.end) or (structural(source, found.end) if structure else None)
        if layer is not None:
            found.layers.append(layer)
            found.end = layer.inner
            continue
        definition = scope.reaching(source, found.end)
        if definition is None:
            found.stopped = True
            break
        found.hops.append(definition)
        found.end = definition.value
    return found


def guard(source: Source, node: ast.expr) -> Layer | None:
    """clamp to a tiny bound, + eps, relu, abs: changes nothing of a probability but its zeros."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for inner, eps in ((node.left, node.right), (node.right, node.left)):
            value = constant(source, eps)
            if value is not None and 0 <= value <= SMALL:
                return Layer(node, inner, True)
        return None
    op = operation(source, node)
    if op is None:
        return None
    if op.name in {"relu", "abs", "nan_to_num"}:
        return Layer(node, op.operand, True)
    if op.name in {"clamp", "clamp_min", "clamp_max"}:
        low = op.argument(0, "min", "a_min", "x_min") if op.name != "clamp_max" else None
        high = op.argument(0 if op.name == "clamp_max" else 1, "max", "a_max", "x_max") if op.name != "clamp_min" else None
        lo, hi = constant(source, low), constant(source, high)
        fine_low = low is None or (isinstance(low, ast.Constant) and low.value is None) or (lo is not None and lo <= SMALL)
        fine_high = high is None or (isinstance(high, ast.Constant) and high.value is None) or (hi is not None and hi >= 1 - SMALL)
        return Layer(node, op.operand, True) if fine_low and fine_high else None
    if op.name == "maximum" and op.rest:
        for inner, eps in ((op.operand, op.rest[0]), (op.rest[0], op.operand)):
            made = operation(source, eps)
            value = constant(source, made.operand if made and made.name in {"tensor", "as_tensor"} else eps)
            if value is not None and 0 <= value <= SMALL:
                return Layer(node, inner, True)
    return None


def structural(source: Source, node: ast.expr) -> Layer | None:
    """Indexing, views, gathers and casts: the log can be taken before or after."""
    if isinstance(node, ast.Subscript):
        return Layer(node, node.value, False)
    if isinstance(node, ast.Attribute) and node.attr in _VIEWS:
        return Layer(node, node.value, False)
    op = operation(source, node)
    if op is not None and op.name == "sum" and isinstance(op.operand, ast.BinOp) and isinstance(op.operand.op, ast.Mult):
        sides = op.operand.left, op.operand.right
        for inner, other in (sides, sides[::-1]):
            if _one_hot(source, other) and op.rest + tuple(op.node.keywords):
                return Layer(node, inner, False)
    if op is None or op.name not in STRUCTURE:
        return None
    if op.name in {"max", "min"} and op.rest and not isinstance(op.rest[0], ast.Constant | ast.UnaryOp):
        return None
    if not op.method and op.words.framework == "torch" and op.name in {"float", "double", "to", "cpu", "cuda", "view"}:
        return None
    return Layer(node, op.operand, False)


def _one_hot(source: Source, node: ast.expr) -> bool:
    """Whether an array has a single 1 in each row, by its name or by how it is made: its product and sum select."""
    if "hot" in (scope.dotted(node) or "").lower():
        return True
    definition = scope.reaching(source, node) if isinstance(node, ast.Name | ast.Attribute) else None
    made = source.text(definition.value if definition is not None else node)
    return "one_hot" in made or re.match(r"(torch|jnp|np|keras\.ops|ops)\.eye\([^()]*\)\[", made) is not None


def spliced(source: Source, outer: ast.expr, inner: ast.expr, text: str) -> str:
    """The text of `outer` with other text in the place of `inner`."""
    start, end = source.span(outer)
    at, to = source.span(inner)
    text = fit(text, level_in(source.parent(inner), inner))
    before, after = source.data[start:at].decode(), source.data[to:end].decode()
    if text.startswith("(") is False and before.endswith("(") and after.startswith(")") and isinstance(inner, ast.BinOp | ast.UnaryOp):
        parent = source.parent(inner)
        if isinstance(parent, ast.Attribute | ast.Subscript):
            before, after = before[:-1], after[1:]
    return before + text + after


def rebuilt(source: Source, found: Trace, text: str) -> str:
    """The traced expression with its guards gone and `text` in the place of its end."""
    for layer in reversed(found.layers):
        if not layer.guard:
            text = spliced(source, layer.node, layer.inner, text)
    return text


def inlinable(source: Source, found: Trace, moved: list[ast.expr], target: ast.AST) -> bool:
    """Whether all that would be written at the target means there what it means where it stands now."""
    statement = source.statement(target)
    pieces = [*moved, *(n for layer in found.layers if not layer.guard for n in _beside(layer))]
    return all(moving.movable(source, piece, source.statement(piece), statement) for piece in pieces)


def _beside(layer: Layer) -> list[ast.AST]:
    """The parts of a layer other than its inner expression."""
    parts: list[ast.AST] = []
    todo: list[ast.AST] = [layer.node]
    while todo:
        node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if child is layer.inner or isinstance(child, ast.expr_context):
                continue
            if any(n is layer.inner for n in ast.walk(child)):
                todo.append(child)
            elif isinstance(child, ast.expr | ast.keyword | ast.Slice):
                parts.append(child)
    return parts


def fresh_name(source: Source, wanted: tuple[str, ...]) -> str:
    """A name that the file does not use yet."""
    taken = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name)}
    taken |= {n.arg for n in ast.walk(source.tree) if isinstance(n, ast.arg)}
    taken |= {name for n in ast.walk(source.tree) for name in scope.bound_names(n)}
    taken |= {n.attr for n in ast.walk(source.tree) if isinstance(n, ast.Attribute)}
    for name in (*wanted, *(f"{w}_{i}" for i in range(2, 9) for w in wanted)):
        if name not in taken:
            return name
    raise Refused("no free name")


def hoisted(job: Job, source: Source, node: ast.expr, wanted: tuple[str, ...]) -> str:
    """Give an expression a name of its own, on a line before its statement, and read that; the name."""
    reads = scope.read(node)
    for other in scope.within(scope.scope_of(source, node)):  # a second name for the same array would change with it
        changes = isinstance(other, ast.Subscript | ast.Call) and any(w in reads for w in scope.written(other))
        if changes or isinstance(other, ast.AugAssign) and scope.dotted(other.target) in reads:
            raise Refused("the array is changed in place")
    name = named_before(job, source, node, wanted)
    job.replace(source, node, name)
    return name


def named_before(job: Job, source: Source, node: ast.expr, wanted: tuple[str, ...]) -> str:
    """Give an expression a name of its own, on a line before its statement, where it is left as it is; the name."""
    statement = source.statement(node)
    if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
        raise Refused("no line to name the expression on")
    for above in source.ancestors(node):
        if above is statement:
            break
        if isinstance(above, ast.IfExp | ast.BoolOp | ast.Lambda | ast.comprehension | ast.ListComp | ast.GeneratorExp | ast.NamedExpr):
            raise Refused("the expression may not be evaluated first")
    name = fresh_name(source, wanted)
    text = source.text(node)
    job.before(source, statement, f"{name} = {fit(text, 0)}")
    return name
