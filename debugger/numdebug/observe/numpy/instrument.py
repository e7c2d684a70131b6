"""Rewrites the program's own source so that each operation on arrays passes through the recorder. Lines and columns stay as they are.

`a + b` becomes `__numdebug__.binary("add", a, b)`, a call `f(x)` becomes `__numdebug__.call(f, x)`, and so on: values stay plain
NumPy arrays, and what the program computes stays what it is.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

HOOK = "__numdebug__"  # a name of the recorder that every module finds among the builtins
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.Pow: "pow", ast.MatMult: "matmul",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "lshift",
    ast.RShift: "rshift",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.Invert: "invert"}
_ATTRIBUTES = frozenset({"T", "mT", "real", "imag"})
# What they return depends on the frame that calls them.
_LEFT_ALONE = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__", "breakpoint"})
_COMPILED = frozenset({"jit", "njit", "vectorize", "guvectorize", "stencil", "cfunc"})  # decorators that compile what they are given


def instrumented(source: str | bytes, path: str) -> CodeType:
    """The code of a file with its operations recorded."""
    tree = _Rewriter().visit(ast.parse(source, path))
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.temporaries = 0

    # -- expressions -------------------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _hook(node, "binary", ast.Constant(_BINARY[type(node.op)]), node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.operand, ast.Constant) or type(node.op) not in _UNARY:
            return self.generic_visit(node)
        self.generic_visit(node)
        return _hook(node, "unary", ast.Constant(_UNARY[type(node.op)]), node.operand)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or type(node.ops[0]) not in _COMPARE:
            return node
        return _hook(node, "binary", ast.Constant(_COMPARE[type(node.ops[0])]), node.left, node.comparators[0])

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _LEFT_ALONE:
            return node
        call = ast.Call(_name("call", node), [node.func, *node.args], node.keywords)
        return ast.copy_location(call, node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return _hook(node, "get", node.value, _key(node.slice))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or node.attr not in _ATTRIBUTES:
            return node
        return _hook(node, "attribute", node.value, ast.Constant(node.attr))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        node.value = _hook(node.value, "shown", node.value)
        return node

    # -- iteration and unpacking -------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _hook(node.iter, "items", node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = _hook(node.iter, "items", node.iter)
        return node

    # -- writes ------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        if len(node.targets) != 1:
            return node
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return _statement(node, _hook(node, "set", node.value, target.value, _key(target.slice)))
        if isinstance(target, (ast.Tuple, ast.List)):
            node.value = _hook(node.value, "unpacked", node.value)
            after: list[ast.stmt] = []
            elements = [self._unpacked(node, element, after) for element in target.elts]
            target.elts = elements
            return [node, *after]
        return node

    def _unpacked(self, node: ast.stmt, element: ast.expr, after: list[ast.stmt]) -> ast.expr:
        """`a[i], b = ...`: the first goes to a temporary name, and from there into the array."""
        if not isinstance(element, ast.Subscript):
            return element
        self.temporaries += 1
        name = f"{HOOK}{self.temporaries}"
        held = ast.copy_location(ast.Name(name, ast.Load()), element)
        after.append(_statement(node, _hook(element, "set", held, element.value, _key(element.slice))))
        return ast.copy_location(ast.Name(name, ast.Store()), element)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        self.generic_visit(node)
        word = ast.Constant(_BINARY[type(node.op)])
        target = node.target
        if isinstance(target, ast.Name):
            held = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            return ast.copy_location(ast.Assign([target], _hook(node, "in_place", word, held, node.value)), node)
        if isinstance(target, ast.Subscript):
            return _statement(node, _hook(node, "in_place_item", word, target.value, _key(target.slice), node.value))
        return _statement(node, _hook(node, "in_place_attribute", word, target.value, ast.Constant(target.attr), node.value))

    # -- what is not to be touched -----------------------------------------------------------------------------

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        words = {n.attr if isinstance(n, ast.Attribute) else n.id for d in node.decorator_list for n in ast.walk(d) if _named(n)}
        if words & _COMPILED:
            return node
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            case.guard = self.visit(case.guard) if case.guard is not None else None
            case.body = [out for statement in case.body for out in _listed(self.visit(statement))]
        return node


def _named(node: ast.AST) -> bool:
    return isinstance(node, (ast.Attribute, ast.Name))


def _listed(result: Any) -> list[ast.stmt]:
    return result if isinstance(result, list) else [result]


def _name(method: str, at: ast.AST) -> ast.expr:
    found = ast.Attribute(ast.Name(HOOK, ast.Load()), method, ast.Load())
    return ast.copy_location(found, at)


def _hook(at: ast.expr | ast.stmt, method: str, *args: ast.expr) -> ast.expr:
    call = ast.Call(_name(method, at), list(args), [])
    return ast.copy_location(call, at)


def _statement(at: ast.stmt, call: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(call), at)


def _key(key: ast.expr) -> ast.expr:
    """An index as a value: `1:3` is slice(1, 3)."""
    if isinstance(key, ast.Slice):
        parts = [part or ast.Constant(None) for part in (key.lower, key.upper, key.step)]
        return ast.copy_location(ast.Call(_name("slice", key), parts, []), key)
    if isinstance(key, ast.Tuple):
        return ast.copy_location(ast.Tuple([_key(part) for part in key.elts], ast.Load()), key)
    return key


# -- the program's other modules ---------------------------------------------------------------------------------


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Never from a cache, and never into one."""
        path = self.get_filename(fullname)
        return instrumented(self.get_data(path), path)


class Finder(MetaPathFinder):
    """Finds the modules in the program's folder and loads them recorded."""

    def __init__(self, folder: Path, loaded: Callable[[str], None]) -> None:
        self.folder = folder.resolve()
        self.loaded = loaded

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The usual spec with a loader of our own, for files of the program; None for any other module."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader or spec.origin is None:
            return None
        file = Path(spec.origin).resolve()
        if not file.is_relative_to(self.folder) or "site-packages" in file.parts or file.is_relative_to(sys.prefix):
            return None
        self.loaded(str(spec.origin))
        spec.loader = _Loader(fullname, spec.origin)
        return spec
