"""Where a program goes through a set in its own order, or numbers things by hash(): both differ from process to process for strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from numdebug.fixes import scope
from numdebug.fixes.source import Source
from numdebug.repeat.files import argument, builtin, calls, function

_MAKERS = ("set", "frozenset")
_KEEP = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})  # methods of a set that give a set
_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
_IN_ORDER = ("list", "tuple", "enumerate", "zip", "iter", "map", "filter", "dict")  # what they give has the order of what they are given
_METHODS = frozenset({"join", "extend", "fromkeys", "from_iterable", "chain", "fromiter", "array", "asarray", "tensor"})
_ANY_ORDER = ("sorted", "set", "frozenset", "len", "min", "max", "any", "all")  # the order makes no difference to them
_DEPTH = 6  # names behind names that are looked up


class Sets:
    """What of a file's expressions is a set."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def walked(self) -> Iterator[ast.expr]:
        """Expressions that are sets, where the program goes through them one by one, in the order of the text."""
        found = [e for n in self.source.walk() for e in self._gone_through(n) if not self._any_order(e) and self.is_set(e)]
        yield from sorted(found, key=lambda e: (e.lineno, e.col_offset))

    def hashed(self) -> Iterator[ast.Call]:
        """Calls of hash() outside of a class's own __hash__."""
        for call in calls(self.source):
            if builtin(self.source, call.func, "hash") and len(call.args) == 1 and function(self.source, call) != "__hash__":
                yield call

    def _gone_through(self, node: ast.AST) -> Iterator[ast.expr]:
        if isinstance(node, ast.For | ast.AsyncFor):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp | ast.SetComp):
            yield from (g.iter for g in node.generators)
        elif isinstance(node, ast.Call):
            method = isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS
            if method or builtin(self.source, node.func, *_IN_ORDER):
                yield from (a for a in node.args if not isinstance(a, ast.Starred))
        elif isinstance(node, ast.Assign):
            yield from [node.value] if any(isinstance(t, ast.Tuple | ast.List) for t in node.targets) else []
        elif isinstance(node, ast.Starred | ast.YieldFrom):
            yield node.value

    def _any_order(self, expression: ast.expr) -> bool:
        """What becomes of it does not depend on the order: sorted(list(s)), max(f(x) for x in s), {f(x) for x in s}."""
        inner: ast.AST = expression
        for above in self.source.ancestors(expression):
            if isinstance(above, ast.SetComp):
                return True
            if isinstance(above, ast.Call) and inner in above.args and builtin(self.source, above.func, *_ANY_ORDER):
                return True
            passes = isinstance(above, ast.comprehension | ast.ListComp | ast.GeneratorExp | ast.Starred | ast.List | ast.Tuple)
            if not passes and not (isinstance(above, ast.Call) and builtin(self.source, above.func, "list", "tuple", "map", "filter")):
                return False
            inner = above
        return False

    # -- is it a set? ----------------------------------------------------------------------------------------------

    def is_set(self, node: ast.expr | None, depth: int = 0) -> bool:
        """Whether an expression is certainly meant to be a set, of other things than plain numbers."""
        if node is None or depth > _DEPTH:
            return False
        match node:
            case ast.Set(elts=elements):
                return not all(isinstance(e, ast.Constant) and isinstance(e.value, int | float) for e in elements)
            case ast.SetComp():
                return True
            case ast.BinOp(op=op, left=left, right=right) if isinstance(op, _OPERATORS):
                return any(self.is_set(side, depth + 1) or _keys(side) for side in (left, right))
            case ast.IfExp(body=body, orelse=other):
                return self.is_set(body, depth + 1) or self.is_set(other, depth + 1)
            case ast.Call():
                return self._made(node, depth)
            case ast.Name():
                return self._named(node, depth)
            case ast.Attribute(attr=attr):
                return any(self.is_set(value, depth + 1) for value in self._attributes.get(attr, ()))
            case ast.Subscript(value=ast.Name() | ast.Attribute() as held):
                return self._held(held)
        return False

    def _made(self, call: ast.Call, depth: int) -> bool:
        if builtin(self.source, call.func, *_MAKERS):
            inner = call.args[0] if call.args else None
            return not (isinstance(inner, ast.Call) and builtin(self.source, inner.func, "range"))
        if isinstance(call.func, ast.Attribute) and call.func.attr in _KEEP:
            of_class = isinstance(call.func.value, ast.Name) and call.func.value.id in _MAKERS
            return of_class or self.is_set(call.func.value, depth + 1)
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
        made = self._functions.get(name, [])
        return len(made) == 1 and any(self.is_set(value, depth + 1) for value in _returned(made[0]))

    def _named(self, use: ast.Name, depth: int) -> bool:
        home = scope.home(self.source, use, use.id)
        if home is None:
            return False
        here = self.source.span(use)[0]
        inside = scope.scope_of(self.source, use) is home
        bound = [b for b in scope.bindings(home, use.id) if not inside or isinstance(b, ast.arg) or self.source.span(b)[0] < here]
        for binding in sorted(bound, key=lambda b: self.source.span(b)[0], reverse=True):
            statement = self.source.statement(binding) if not isinstance(binding, ast.arg) else None
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, _OPERATORS):
                if self.is_set(statement.value, depth + 1):
                    return True
                continue
            if isinstance(binding, ast.arg):
                return self._given(home, binding, depth)
            if isinstance(statement, ast.AnnAssign) and _annotated(statement.annotation):
                return True
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                if isinstance(statement, ast.Assign) and binding not in statement.targets:
                    return False  # one of several, or part of a longer target
                value = statement.value
                return value is not None and not self.source.inside(use, value) and self.is_set(value, depth + 1)
            return False
        return False

    def _given(self, owner: ast.AST, parameter: ast.arg, depth: int) -> bool:
        """By its annotation, or by what the file's own calls hand over."""
        if parameter.annotation is not None and _annotated(parameter.annotation):
            return True
        if not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        names = [a.arg for a in scope.parameters(owner)]
        place = names.index(parameter.arg)
        for call in calls(self.source):
            direct = isinstance(call.func, ast.Name) and call.func.id == owner.name
            method = isinstance(call.func, ast.Attribute) and call.func.attr == owner.name and names[:1] == ["self"]
            made = isinstance(call.func, ast.Name) and owner.name == "__init__" and self._class_of(owner) == call.func.id
            if direct or method or made:
                value = argument(call, place - (method or made), parameter.arg)
                if self.is_set(value, depth + 2):
                    return True
        return False

    def _class_of(self, method: ast.AST) -> str | None:
        above = self.source.parent(method)
        return above.name if isinstance(above, ast.ClassDef) else None

    def _held(self, held: ast.expr) -> bool:
        """What a dictionary of sets gives: made by defaultdict(set), or filled with sets."""
        text = self.source.text(held)
        for node in self.source.walk():
            if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                value = node.value
                if isinstance(target, ast.Name | ast.Attribute) and self.source.text(target) == text:
                    makes = isinstance(value, ast.Call) and bool(value.args) and (scope.dotted(value.func) or "").endswith("defaultdict")
                    if makes and isinstance(value, ast.Call) and builtin(self.source, value.args[0], *_MAKERS):
                        return True
                    if isinstance(value, ast.DictComp) and self.is_set(value.value, 1):
                        return True
                elif isinstance(target, ast.Subscript) and self.source.text(target.value) == text and self.is_set(value, _DEPTH - 1):
                    return True
        return False

    @cached_property
    def _attributes(self) -> dict[str, list[ast.expr]]:
        """By name: what is stored under it, as an attribute or in a class's body, anywhere in the file."""
        found: dict[str, list[ast.expr]] = {}
        for node in self.source.walk():
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    in_class = isinstance(target, ast.Name) and isinstance(self.source.parent(node), ast.ClassDef)
                    name = target.attr if isinstance(target, ast.Attribute) else self.source.text(target) if in_class else None
                    if name is not None:
                        found.setdefault(name, []).append(node.value)
        return found

    @cached_property
    def _functions(self) -> dict[str, list[ast.FunctionDef]]:
        found: dict[str, list[ast.FunctionDef]] = {}
        for node in self.source.walk():
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
        return found


def _keys(node: ast.expr) -> bool:
    """`d.keys()`: two of them give a set."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("keys", "items") and not node.args


def _annotated(annotation: ast.expr) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return (scope.dotted(base) or "").rpartition(".")[2] in ("set", "frozenset", "Set", "FrozenSet", "AbstractSet")


def _returned(maker: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in scope.within(maker):
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
