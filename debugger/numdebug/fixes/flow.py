"""Where a value goes: whether everything that is made of it, in the whole file, is one of the given logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from numdebug.fixes import scope
from numdebug.fixes.operations import operation
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import structural

_ORDER = {"argmax", "argsort", "shape", "size", "dim", "ndim", "device", "dtype"}
"""What is the same for a probability and for its logarithm."""

Item = tuple[ast.AST, int | None]
"""A value, and its place in the tuple that it is part of."""


class Flow:
    """Follows values forward through assignments, returns, calls and parameters of one file."""

    def __init__(self, source: Source, logs: list[ast.expr], guards: list[ast.expr] | None = None) -> None:
        self.source = source
        self.guards = guards or []  # clamps and the like that will be taken out
        self.logs = logs
        self.reached: set[ast.AST] = set()

    def only_feeds(self, start: ast.expr) -> None:
        """Refuse unless every use of a value ends in one of the logs, or asks for its order only."""
        todo: list[Item] = [(start, None)]
        seen: set[tuple[ast.AST, int | None]] = set()
        while todo:
            item = todo.pop()
            if item in seen:
                continue
            seen.add(item)
            todo.extend(self._uses(*item))
        if not self.reached:
            raise Refused("the value does not reach the log in this file")

    def _uses(self, node: ast.AST, index: int | None) -> Iterator[Item]:
        source = self.source
        if isinstance(node, ast.expr):
            for log in self.logs:
                if source.inside(node, log):
                    self.reached.add(log)
                    return
        parent = source.parent(node)
        match parent:
            case ast.Expr():
                return
            case ast.Attribute(attr=attr) if attr in _ORDER:
                return
            case ast.Assign(targets=[target], value=value) if value is node:
                yield from self._stored(target, parent, index)
                return
            case ast.Return():
                yield from self._returned(parent, index)
                return
            case ast.Lambda(body=body) if body is node:
                raise Refused("a lambda returns the value")
            case ast.Tuple(elts=elements) if index is None and isinstance(source.parent(parent), ast.Return):
                yield (parent, elements.index(node))  # type: ignore[arg-type]
                return
            case ast.Subscript(value=value, slice=ast.Constant(value=int(at))) if value is node and index is not None:
                if at == index:
                    yield (parent, None)
                return
            case ast.Call() if index is None:
                op = operation(source, parent)
                if op is not None and op.operand is node and op.name in _ORDER:
                    return
                if node in parent.args and not any(isinstance(a, ast.Starred) for a in parent.args):
                    function = self._function(parent.func)
                    if function is not None:
                        yield from self._passed(function, parent.args.index(node))
                        return
            case ast.Attribute(value=value) if value is node and index is None:
                call = source.parent(parent)
                op = operation(source, call)
                if op is not None and op.operand is node and isinstance(call, ast.Call) and call.func is parent:
                    if op.name in _ORDER:
                        return
                    layer = structural(source, call)
                    if layer is not None:
                        yield (call, None)
                        return
        for above in self.guards:
            if index is None and source.inside(node, above) and node is not above:
                yield (above, None)
                return
        if isinstance(parent, ast.expr) and index is None:
            layer = structural(source, parent)
            if layer is not None and layer.inner is node:
                yield (parent, None)
                return
        raise Refused("the probabilities are used for something else as well")

    def _stored(self, target: ast.expr, statement: ast.stmt, index: int | None) -> Iterator[Item]:
        if index is not None and isinstance(target, ast.Tuple):
            target, index = target.elts[index], None
        if not isinstance(target, ast.Name) and not (isinstance(target, ast.Attribute) and scope.dotted(target)):
            raise Refused("the probabilities are stored where their use cannot be followed")
        name = scope.dotted(target) or ""
        for use in scope.uses(self.source, scope.Definition(name, statement, ast.Constant(None), True)):
            if not isinstance(use, ast.Name | ast.Attribute):
                raise Refused("the probabilities are used for something else as well")
            if isinstance(use, ast.Name):
                if self.source.span(use)[0] < self.source.span(statement)[0] and not self._in_loop(statement):
                    continue
                found = scope.reaching(self.source, use)
                if found is not None and found.statement is not statement:
                    continue
            yield (use, index)

    def _in_loop(self, statement: ast.stmt) -> bool:
        return self.source.nearest(statement, (ast.For, ast.While, ast.AsyncFor)) is not None

    def _returned(self, statement: ast.stmt, index: int | None) -> Iterator[Item]:
        function = scope.scope_of(self.source, statement)
        if not isinstance(function, ast.FunctionDef):
            raise Refused("the value leaves its function in a way that cannot be followed")
        calls = list(callers(self.source, function))
        if not calls:
            raise Refused(f"nothing in this file calls {function.name}")
        for call in calls:
            yield (call, index)

    def _function(self, func: ast.expr) -> ast.FunctionDef | None:
        if isinstance(func, ast.Name):
            home = scope.home(self.source, func, func.id)
            found = scope.bindings(home, func.id) if home is not None else []
            if len(found) == 1 and isinstance(found[0], ast.FunctionDef):
                return found[0]
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self":
            owner = self.source.nearest(func, ast.ClassDef)
            for statement in owner.body if owner is not None else []:
                if isinstance(statement, ast.FunctionDef) and statement.name == func.attr:
                    return statement
        return None

    def _passed(self, function: ast.FunctionDef, position: int) -> Iterator[Item]:
        given = [*function.args.posonlyargs, *function.args.args]
        if isinstance(self.source.parent(function), ast.ClassDef):
            given = given[1:]
        if position >= len(given):
            raise Refused("the value is passed on in a way that cannot be followed")
        for use in ast.walk(function):
            if isinstance(use, ast.Name) and use.id == given[position].arg:
                if isinstance(use.ctx, ast.Load) and scope.reaching(self.source, use) is None:
                    yield (use, None)


def callers(source: Source, function: ast.FunctionDef) -> Iterator[ast.Call]:
    """Calls in the file that may run a function: by its name, or, for forward, of an object of its class."""
    owner = source.parent(function)
    names = {function.name}
    if isinstance(owner, ast.ClassDef):
        if function.name in {"forward", "__call__"}:
            names = instances(source, {owner.name})
            bases = [b for c in ast.walk(source.tree) if isinstance(c, ast.ClassDef) for b in c.bases]
            if any(scope.dotted(b) == owner.name for b in bases):
                raise Refused("the class has subclasses")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            last = node.id if isinstance(node, ast.Name) else node.attr
            if last not in names:
                continue
            parent = source.parent(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                yield parent
            elif isinstance(node, ast.Name) and function.name in names:
                raise Refused("the function is handed on")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and isinstance(owner, ast.ClassDef):
            if scope.dotted(node.func.func) == owner.name:
                yield node


def instances(source: Source, classes: set[str]) -> set[str]:
    """Names, by their last part, that may hold an object of these classes."""
    made = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and scope.dotted(n.func) in classes]
    return holders(source, made)


def holders(source: Source, made: list[ast.Call]) -> set[str]:
    """Names, by their last part, that these constructed objects get, also as parameters of the file's functions."""
    names: set[str] = set()
    for call in made:
        node: ast.AST | None = source.parent(call)
        while isinstance(node, ast.Attribute | ast.Call):  # .to(device), .half(), torch.compile(...)
            node = source.parent(node)
        if isinstance(node, ast.Assign):
            names |= {t.rpartition(".")[2] for t in map(scope.dotted, node.targets) if t is not None}
        elif isinstance(node, ast.Return):  # a function that builds it
            function = scope.scope_of(source, node)
            if isinstance(function, ast.FunctionDef) and function.name not in {"forward", "__call__"}:
                names |= holders(source, list(callers(source, function)))
    functions = {n.name: n for n in ast.walk(source.tree) if isinstance(n, ast.FunctionDef)}
    while True:
        more = set(names)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                given = functions[node.func.id].args.args
                for position, value in enumerate(node.args[: len(given)]):
                    if isinstance(value, ast.Name) and value.id in names or value in made:
                        more.add(given[position].arg)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in names:
                more |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
                if scope.dotted(node.value.func) in {"torch.compile", "torch.jit.script"}:
                    first = node.value.args[0]
                    if isinstance(first, ast.Name) and first.id in names:
                        more |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        if more == names:
            return names
        names = more
