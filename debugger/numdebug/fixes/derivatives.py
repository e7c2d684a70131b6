"""A slip in a hand-written derivative: a factor that was left out, a sign, a plus for a minus."""

from __future__ import annotations

import ast

from numdebug.fixes.job import Job, form
from numdebug.fixes.source import Refused
from numdebug.fixes.wording import PRODUCT, UNARY, fit

_OTHER: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+"}


@form("derivative")
def write_derivative(job: Job) -> None:
    """The one change of one operation after which the backward agrees with differences."""
    for role in job.each():
        source, node = job.find(role, (ast.BinOp, ast.Call, ast.UnaryOp))
        kind, factor = job.get("kind"), job.get("factor")
        if kind in ("swap", "swapped"):
            if not isinstance(node, ast.BinOp) or type(node.op) not in _OTHER:
                raise Refused("not a sum or difference")
            first, second = node.left, node.right
            number = isinstance(first, ast.Constant)  # PyTorch was given the tensor first, then the number
            if isinstance(node.op, ast.Add) and number != (kind == "swapped"):
                first, second = second, first
            job.replace(source, node, f"{source.text(first)} {_OTHER[type(node.op)]} {fit(source.text(second), PRODUCT)}")
        elif kind == "sign":
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                job.replace(source, node, source.text(node.operand))
            else:
                job.replace(source, node, f"-{fit(source.text(node), UNARY)}")
        elif kind in ("factor", "missing factor") and factor:
            text = fit(source.text(node), PRODUCT)
            divisor = factor.removeprefix("1 / ")
            job.replace(source, node, f"{text} / {divisor}" if divisor != factor else f"{factor} * {text}")
        else:
            raise Refused(f"no way to write {kind}")
