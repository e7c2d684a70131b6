"""Formulas without the subtraction that loses the digits: log1p, expm1, the half angle, distances without a matrix product."""

from __future__ import annotations

import ast

from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import constant, is_op
from numdebug.fixes.source import Refused
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
