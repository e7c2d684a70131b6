"""Text of expressions: how tightly it binds, and parentheses where its new place asks for them."""

from __future__ import annotations

import ast
import math

LOOSE, TEST, COMPARE, SUM, PRODUCT, UNARY, POWER, ATOM = 0, 1, 5, 10, 11, 12, 13, 15

_BINARY: dict[type[ast.operator], int] = {
    ast.BitOr: 6,
    ast.BitXor: 7,
    ast.BitAnd: 8,
    ast.LShift: 9,
    ast.RShift: 9,
    ast.Add: SUM,
    ast.Sub: SUM,
    ast.Pow: POWER,
}


def binding(node: ast.expr) -> int:
    """How tightly an expression holds together; ATOM needs no parentheses anywhere."""
    match node:
        case ast.NamedExpr() | ast.Tuple() | ast.Yield() | ast.YieldFrom() | ast.Starred():
            return -1
        case ast.Lambda():
            return LOOSE
        case ast.IfExp():
            return TEST
        case ast.BoolOp():
            return 2 if isinstance(node.op, ast.Or) else 3
        case ast.UnaryOp():
            return 4 if isinstance(node.op, ast.Not) else UNARY
        case ast.Compare():
            return COMPARE
        case ast.BinOp():
            return _BINARY.get(type(node.op), PRODUCT)
        case ast.Await():
            return 14
        case _:
            return ATOM


def fit(text: str, level: int) -> str:
    """`text`, in parentheses where it binds looser than `level` or would break at a line end."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return f"({text})"
    if text.startswith("(") and (isinstance(node, ast.Tuple) or node.col_offset > 0) and _whole(text):
        return text
    bare_number = level == ATOM and isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return f"({text})" if binding(node) < level or bare_number else text


def _whole(text: str) -> bool:
    """Whether the first parenthesis closes at the very end."""
    try:
        ast.parse(f"_{text}", mode="eval")  # a call of `_` with what stands inside
    except SyntaxError:
        return False
    node = ast.parse(f"_{text}", mode="eval").body
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


def level_in(parent: ast.AST | None, child: ast.expr) -> int:
    """How tightly the place of `child` in `parent` asks its text to bind."""
    match parent:
        case ast.Attribute():
            return ATOM
        case ast.Call(func=func) if func is child:
            return ATOM
        case ast.Subscript(value=value) if value is child:
            return ATOM
        case ast.BinOp(left=left, op=ast.Pow()):
            return 14 if left is child else UNARY
        case ast.BinOp(left=left, op=op):
            level = _BINARY.get(type(op), PRODUCT)
            return level if left is child else level + 1
        case ast.UnaryOp(op=ast.Not()):
            return 4
        case ast.UnaryOp():
            return UNARY
        case ast.Compare() | ast.Starred():
            return COMPARE + 1
        case ast.BoolOp(op=op):
            return 3 if isinstance(op, ast.Or) else 4
        case ast.IfExp() | ast.comprehension():
            return 2
        case ast.Await():
            return ATOM
        case ast.stmt():
            return -1
        case _:
            return LOOSE


def number(value: float) -> str:
    """A number as a person would write it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return f'float("{value}")'
    text = f"{value:.6g}"
    if float(text) != value and abs(float(text) - value) > 1e-9 * abs(value):
        text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa}e{int(exponent)}"
    short = f"{value:.0e}"
    if 0 < abs(value) <= 1e-3 and float(short) == value:  # 1e-4 rather than 0.0001
        mantissa, exponent = short.split("e")
        return f"{mantissa}e{int(exponent)}"
    return text if "." in text else f"{text}.0"
