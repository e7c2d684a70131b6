"""Values that a mask or a where should have kept away: made safe before the operation, not dropped after it."""

from __future__ import annotations

import ast

from numdebug.fixes import moving, scope
from numdebug.fixes.arguments import find_guarded
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import Operation, constant, is_op, operation
from numdebug.fixes.softmaxes import constructor_of, in_place, softmax
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import named_before
from numdebug.fixes.wording import ATOM, LOOSE, fit, number
from numdebug.fixes.words import words


@form("safe_where")
def write_safe_where(job: Job) -> None:
    """f(x) in a branch of where(c, f(x), 0) becomes f(where(c, x, safe)): the other branch never sees a singular x."""
    for role in job.each():
        site = job.role("where", role)
        if site is None:
            raise Refused("no where")
        source = job.source(job.repair.sites[site])
        _, call = job.find(site, ast.Call, lambda n, s=source: is_op(s, n, "where", "masked_fill") is not None)  # type: ignore[misc]
        own, node, argument, spread = _singular(job, role)
        if own is not source:
            raise Refused("the where is in another file")
        condition, default = _condition(source, call)
        branch = job.get("branch", default)
        if branch not in ("a", "b"):
            raise Refused("no branch")
        op = operation(source, node)
        if op is not None and in_place(op) or isinstance(node, ast.AugAssign):
            raise Refused("in place")
        text = _said_at(source, condition, call, node)
        text = f"{fit(text, ATOM)}{spread}" if spread else text
        safe = number(job.get("safe", 1.0))
        inner = source.text(argument)
        pair = (inner, safe) if branch == "a" else (safe, inner)
        job.replace(source, argument, words(job, source, node).call("where", text, *pair))


def _singular(job: Job, role: str) -> tuple[Source, ast.AST, ast.expr, str]:
    """The singular expression, what to make safe in it, and how a condition on its result spreads over that: a norm loses an axis."""
    source = job.source(job.repair.sites[role])
    node = job.maybe(role, ast.Call)
    op = is_op(source, node, "norm", "vector_norm")
    if node is None or op is None:
        return (*find_guarded(job, role), "")
    over = constant(source, op.argument(1, "dim", "axis"))
    if over != -1 or op.keep is not None:
        raise Refused("a norm over other axes than the last")
    return source, node, op.operand, "[..., None]"


def _condition(source: Source, call: ast.Call) -> tuple[ast.expr, str | None]:
    op = is_op(source, call, "where", "masked_fill")
    if op is None or len(op.rest) < 1:
        raise Refused("not a where")
    if op.name == "masked_fill":
        return op.rest[0], "b"
    if op.method:
        return op.rest[0], "a"
    if len(op.rest) != 2:
        raise Refused("a where without branches")
    return op.operand, None


def _said_at(source: Source, condition: ast.expr, call: ast.AST, node: ast.AST) -> str:
    """The condition as text that means the same where the singular operation stands."""
    there, here = source.statement(call), source.statement(node)
    if scope.scope_of(source, call) is not scope.scope_of(source, node):
        raise Refused("the where is in another function")
    if there is here:
        if not _same_level(source, call, node):
            raise Refused("the condition is not known here")
        return fit(source.text(condition), LOOSE)
    candidates = [condition]
    definition = scope.reaching(source, condition)
    if definition is not None and isinstance(condition, ast.Name):
        candidates.append(definition.value)
    for candidate in candidates:
        if not moving.has_effects(candidate) and known_at(source, candidate, there, here):
            return fit(source.text(candidate), LOOSE)
    raise Refused("the condition is not known yet where the operation runs")


def _same_level(source: Source, call: ast.AST, node: ast.AST) -> bool:
    """Whether no lambda or comprehension stands between the two."""
    kinds = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    return source.nearest(call, kinds) is source.nearest(node, kinds)


def known_at(source: Source, node: ast.expr, there: ast.stmt, here: ast.stmt) -> bool:
    """Whether an expression of the later statement has its value at the earlier one already."""
    if not scope.dominates(source, here, there):
        return False
    own = scope.scope_of(source, there)
    for name in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
        home = scope.home(source, there, name)
        if home is own and not isinstance(home, ast.Module) or home is own:
            for bound in scope.bindings(own, name):
                if not isinstance(bound, ast.arg) and source.span(bound)[0] >= source.span(here)[0]:
                    return False
    return moving.movable(source, node, here, there)


# -- masking by multiplication -----------------------------------------------------------------------------------


@form("masked_fill")
def write_masked_fill(job: Job) -> None:
    """x * mask becomes where(mask, x, 0): zero times inf is not zero."""
    for role in job.each():
        source, node = job.find(role, (ast.BinOp, ast.Call), lambda n, r=role: _product(job.source(job.repair.sites[r]), n) is not None)  # type: ignore[misc]
        sides = _product(source, node)
        if sides is None:
            raise Refused("not a product")
        side = job.get("mask_side") or job.get("mask")
        if side not in ("left", "right"):
            raise Refused("which side is the mask")
        mask, x = (sides[0], sides[1]) if side == "left" else (sides[1], sides[0])
        speak = words(job, source, node)
        text = source.text(mask)
        plain = isinstance(mask, ast.Compare) or is_op(source, mask, "bool", "isfinite", "logical_not") is not None
        plain = plain or isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert)
        cast = is_op(source, mask, "float", "double", "half", "to", "type_as")
        if cast is not None and isinstance(cast.operand, ast.Compare):
            condition = source.text(cast.operand)
        elif isinstance(mask, ast.BinOp) and isinstance(mask.op, ast.Sub) and isinstance(mask.left, ast.Constant) and mask.left.value == 1:
            condition = f"{fit(source.text(mask.right), ATOM)} == 0"
        else:
            condition = text if plain else speak.nonzero(text)
        job.replace(source, node, speak.call("where", condition, source.text(x), "0.0"))


def _product(source: Source, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return node.left, node.right
    op = is_op(source, node, "mul", "multiply")
    if op is not None and op.rest and not in_place(op):
        return op.operand, op.rest[0]
    return None


# -- rows that are masked as a whole -----------------------------------------------------------------------------


@form("guard_masked_rows")
def write_masked_rows(job: Job) -> None:
    """Rows of nothing but -inf are set to 0 before the softmax."""
    for role in job.each():
        source, node = job.find(role, ast.Call, lambda n, r=role: _soft(job.source(job.repair.sites[r]), n) is not None)  # type: ignore[misc]
        found = _soft(source, node)
        if found is None:
            raise Refused("not a softmax")
        argument, dim = found
        recorded = str(job.get("dim")) if isinstance(job.get("dim"), int) else None
        text = recorded if dim is None else source.text(dim) if hasattr(dim, "lineno") else ast.unparse(dim)
        if text is None:
            raise Refused("a softmax without a dim")
        name = source.text(argument)
        if scope.dotted(argument) is None:
            name = named_before(job, source, argument, ("scores", "logits"))
        speak = words(job, source, node)
        if speak.torch:
            job.replace(source, argument, f"{name}.masked_fill({name}.isneginf().all(dim={text}, keepdim=True), 0.0)")
            continue
        empty = speak.method("all", speak.call("isneginf", name), text, True)
        job.replace(source, argument, speak.call("where", empty, "0.0", name))


def _soft(source: Source, node: ast.AST) -> tuple[ast.expr, ast.expr | None] | None:
    op: Operation | None = is_op(source, node, "log_softmax")
    if op is not None and not in_place(op):
        return op.operand, op.dim
    found = softmax(source, node)
    if found is not None and isinstance(found.node, ast.Call):
        return found.logits, found.dim
    if isinstance(node, ast.Call) and len(node.args) == 1:
        made = constructor_of(source, node, "torch.nn.LogSoftmax")
        if made is not None:
            return node.args[0], next((k.value for k in made.keywords if k.arg == "dim"), made.args[0] if made.args else None)
    return None
