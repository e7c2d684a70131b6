"""Reading an expression as an operation on an array: `torch.log(p)`, `jnp.log(p)`, `p.log()` and `F.softmax(x, dim=1)` look the same."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from numdebug.fixes import scope, spelling
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.vocabulary import TORCH, Vocabulary, speaking


@dataclass(frozen=True)
class Operation:
    """One call: `operand` is the array it works on, `rest` the other positional arguments."""

    node: ast.Call
    name: str
    operand: ast.expr
    rest: tuple[ast.expr, ...]
    method: bool
    words: Vocabulary = TORCH

    def argument(self, position: int, *names: str) -> ast.expr | None:
        """An argument after the operand, by position or by one of its names."""
        for keyword in self.node.keywords:
            if keyword.arg in names:
                return keyword.value
        return self.rest[position] if 0 <= position < len(self.rest) else None

    @property
    def dim(self) -> ast.expr | None:
        """The dim of a reduction or of a softmax."""
        found = self.argument(0, "dim", "axis")
        if found is None and self.name in self.words.last_axis:
            return ast.UnaryOp(ast.USub(), ast.Constant(1))
        return found

    @property
    def keep(self) -> ast.expr | None:
        """The keepdim of a reduction."""
        return self.argument(self.words.keep_at.get(self.name, -1), "keepdim", "keepdims")

    def keyword(self, name: str) -> ast.expr | None:
        """A keyword's value."""
        return next((k.value for k in self.node.keywords if k.arg == name), None)


def operation(source: Source, node: ast.AST | None) -> Operation | None:
    """The call as an operation on an array, None where it is none that is known to be one."""
    if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    if any(k.arg is None for k in node.keywords):
        return None
    full = spelling.means(source, node.func)
    if full is not None:
        words = speaking(full)
        for prefix in words.reads if words is not None else ():
            name = full.removeprefix(prefix)
            if words is not None and name != full and "." not in name and name[:1].islower():
                return _function(node, full, name, words)
        root = full.split(".")[0]
        if root in {i.what.split(".")[0] for i in spelling.imports(source)} and scope.dotted(node.func) != full:
            return None
        if any(i.name == (scope.dotted(node.func) or "").split(".")[0] for i in spelling.imports(source)):
            return None
    if isinstance(node.func, ast.Attribute):
        name = node.func.attr.removesuffix("_") if not node.func.attr.startswith("_") else node.func.attr
        words = _words_of(source)
        return Operation(node, words.renamed.get(name, name), node.func.value, tuple(node.args), True, words)
    return None


def _function(node: ast.Call, full: str, name: str, words: Vocabulary) -> Operation | None:
    operand = next((k.value for k in node.keywords if k.arg in words.operand), None)
    rest = tuple(node.args) if operand is not None else tuple(node.args[1:])
    operand = operand if operand is not None else node.args[0] if node.args else None
    if operand is None or full == "jax.lax.clamp":  # whose first argument is a bound
        return None
    if full in ("jax.lax.max", "jax.lax.min"):  # of two arrays
        name = f"{name}imum"
    return Operation(node, words.renamed.get(name, name), operand, rest, False, words)


def _words_of(source: Source) -> Vocabulary:
    try:
        return spelling.framework(source)
    except Refused:
        return TORCH


def is_op(source: Source, node: ast.AST | None, *names: str) -> Operation | None:
    """The operation, if it has one of these names."""
    found = operation(source, node)
    return found if found is not None and found.name in names else None


def constant(source: Source, node: ast.expr | None) -> float | None:
    """The value of a literal, of arithmetic on literals, or of a name bound once to one."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = constant(source, operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            a, b = constant(source, left), constant(source, right)
            if a is None or b is None:
                return None
            try:
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.Div():
                        return a / b
                    case ast.Pow():
                        return _real(a**b)
            except (ArithmeticError, ValueError):
                return None
            return None
        case ast.Name(id=name):
            literal = literal_of(source, node)
            if literal is None and _tiny_name(name):
                return 1e-8
            return constant(source, literal) if literal is not None else None
        case ast.Attribute(attr=attr):
            literal = literal_of(source, node)
            if literal is not None:
                return constant(source, literal)
            if _tiny_name(attr) or attr in {"tiny", "eps", "smallest_normal"}:
                return 1e-8
    return None


def _real(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _tiny_name(name: str) -> bool:
    return name.lower().strip("_") in {"eps", "epsilon", "tiny", "delta_eps", "small", "self_eps"} or name.lower().endswith("_eps")


def literal_of(source: Source, node: ast.expr) -> ast.expr | None:
    """The literal that a name, a parameter's default or an attribute of self stands for, where it is bound just once."""
    if isinstance(node, ast.Name):
        home = scope.home(source, node, node.id)
        found = scope.bindings(home, node.id) if home is not None else []
        if len(found) != 1:
            return None
        if isinstance(found[0], ast.arg):
            return default_of(home, found[0])
        match source.parents.get(found[0]):
            case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(value=ast.expr() as value):
                return value if is_number(value) else None
        return None
    definition = scope.reaching(source, node)
    if definition is None:
        return None
    return definition.value if is_number(definition.value) else literal_of(source, definition.value)


def default_of(function: ast.AST | None, arg: ast.arg) -> ast.expr | None:
    """The default of a parameter, if it is a number."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return None
    a = function.args
    positional = [*a.posonlyargs, *a.args]
    if arg in positional:
        back = len(positional) - positional.index(arg)
        value = a.defaults[-back] if back <= len(a.defaults) else None
    elif arg in a.kwonlyargs:
        value = a.kw_defaults[a.kwonlyargs.index(arg)]
    else:
        return None
    return value if value is not None and is_number(value) else None


def is_number(node: ast.AST) -> bool:
    """Whether a node is a number, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)
