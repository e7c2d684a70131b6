"""Formulas without the subtraction that loses the digits: log1p, expm1, the half angle, distances without a matrix product."""

from __future__ import annotations

import ast

from numdebug.fixes import moving
from numdebug.fixes.job import Job, form
from numdebug.fixes.magnitudes import squared
from numdebug.fixes.operations import Operation, constant, is_op, operation
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import trace
from numdebug.fixes.wording import ATOM, fit
from numdebug.fixes.words import words


@form("log1p")
def write_log1p(job: Job) -> None:
    """log(1 + x), log(x + 1) and log(1 - x) become log1p."""
    for role in job.each():
        source, call = job.find(role, ast.Call, lambda n, r=role: is_op(job.source(job.repair.sites[r]), n, "log") is not None)  # type: ignore[misc]
        op = is_op(source, call, "log")
        assert op is not None
        match op.operand:
            case ast.BinOp(left=one, op=ast.Add(), right=x) if constant(source, one) == 1:
                text = source.text(x)
            case ast.BinOp(left=x, op=ast.Add(), right=one) if constant(source, one) == 1:
                text = source.text(x)
            case ast.BinOp(left=one, op=ast.Sub(), right=x) if constant(source, one) == 1:
                text = f"-({source.text(x)})"
            case _:
                raise Refused("the argument of the log is not written as 1 + x here")
        job.replace(source, call, words(job, source, call).call("log1p", text))


@form("expm1")
def write_expm1(job: Job) -> None:
    """exp(x) - 1 becomes expm1(x), and 1 - exp(x) its negative."""
    for role in job.each():
        source, node = job.find(role, ast.BinOp, lambda n: isinstance(n.op, ast.Sub))
        sign = "-" if constant(source, node.left) == 1 else ""
        exponential, one = (node.right, node.left) if sign else (node.left, node.right)
        op = is_op(source, exponential, "exp")
        if op is None or constant(source, one) != 1:
            raise Refused("the exp is not written beside the 1 here")
        job.replace(source, node, f"{sign}{words(job, source, exponential).call('expm1', source.text(op.operand))}")


@form("half_angle")
def write_half_angle(job: Job) -> None:
    """1 - cos(x) becomes 2 * sin(x / 2) ** 2."""
    for role in job.each():
        source, node = job.find(role, ast.BinOp, lambda n: isinstance(n.op, ast.Sub))
        op = is_op(source, node.right, "cos")
        if op is None or constant(source, node.left) != 1:
            raise Refused("the cosine is not written beside the 1 here")
        half = words(job, source, node.right).call("sin", f"{fit(source.text(op.operand), ATOM)} / 2")
        job.replace(source, node, f"2 * {half} ** 2")


@form("exact_distances")
def write_exact_distances(job: Job) -> None:
    """torch.cdist without its matrix product."""
    for role in job.each():
        source, call = job.find(role, ast.Call, lambda n, r=role: is_op(job.source(job.repair.sites[r]), n, "cdist") is not None)  # type: ignore[misc]
        if any(k.arg == "compute_mode" for k in call.keywords):
            raise Refused("the mode is chosen here already")
        text = source.text(call).rstrip()
        if "\n" in text:
            raise Refused("the call stands on several lines")
        comma = "" if text[:-1].rstrip().endswith(",") else ", "
        job.replace(source, call, f'{text[:-1].rstrip()}{comma}compute_mode="donot_use_mm_for_euclid_dist")')


@form("two_pass_variance")
def write_variance(job: Job) -> None:
    """mean(x * x) - mean(x) ** 2 becomes the variance, which subtracts the mean first."""
    for role in job.each():
        source, node = job.find(role, ast.BinOp, lambda n: isinstance(n.op, ast.Sub))
        of_squares = _mean(source, node.left)
        root = squared(source, node.right)
        of_values = _mean(source, root) if root is not None else None
        if of_squares is None or of_values is None:
            raise Refused("not the mean of squares less the square of the mean")
        x = squared(source, of_squares.operand)
        same = [ast.dump(part) if part is not None else "" for part in (x, of_squares.dim, of_squares.keep)]
        if x is None or same != [ast.dump(p) if p is not None else "" for p in (of_values.operand, of_values.dim, of_values.keep)]:
            raise Refused("two means of different arrays")
        if not moving.movable(source, x, source.statement(of_squares.node), source.statement(node)):
            raise Refused("the array has changed since")
        dim, keep = (source.text(p) if p is not None else None for p in (of_squares.dim, of_squares.keep))
        speak = words(job, source, of_squares.node)
        if not speak.torch:
            job.replace(source, node, speak.call("var", source.text(x), dim=dim, keepdim=keep))
            continue
        given = [*([f"dim={dim}"] if dim else []), "correction=0", *([f"keepdim={keep}"] if keep else [])]
        job.replace(source, node, f"{fit(source.text(x), ATOM)}.var({', '.join(given)})")


def _mean(source: Source, node: ast.expr) -> Operation | None:
    way = trace(source, node, lambda n: is_op(source, n, "mean") is not None, structure=False)
    return operation(source, way.end) if not way.stopped and not way.layers else None
