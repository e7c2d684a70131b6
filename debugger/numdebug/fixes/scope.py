"""Names: which assignment reaches a use, what is still used, and whether an expression means the same elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from numdebug.fixes.source import Refused, ScopeNode, Source

LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Definition:
    """`name = value`: the only value that a use can see."""

    name: str
    statement: ast.stmt
    value: ast.expr
    simple: bool  # one target, so that the statement can go as a whole


def scope_of(source: Source, node: ast.AST) -> ScopeNode:
    """The function, class or module that a node is evaluated in."""
    below = node
    for above in source.ancestors(node):
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            body = above.body if isinstance(above.body, list) else [above.body]
            if below in body:
                return above
        elif isinstance(above, ast.ClassDef) and below in above.body or isinstance(above, ast.Module):
            return above
        below = above
    raise Refused("outside of any scope")


def within(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes evaluated in a scope itself, nested functions and classes left out (their names kept)."""
    todo: list[ast.AST]
    if isinstance(scope, ast.Lambda):
        todo = [scope.body]
    elif isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        todo = list(scope.body)
    else:
        todo = [scope]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            todo.extend(node.decorator_list)
            continue
        if isinstance(node, ast.Lambda):
            continue
        todo.extend(ast.iter_child_nodes(node))


def parameters(scope: ast.AST) -> list[ast.arg]:
    """The parameters of a function, in order; none for a module or class."""
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return []
    a = scope.args
    extra = [x for x in (a.vararg, a.kwarg) if x is not None]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *extra]


def bound_names(node: ast.AST) -> Iterator[str]:
    """Names that this one node binds or unbinds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            for alias in names:
                yield (alias.asname or alias.name).split(".")[0]
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.Global(names=listed) | ast.Nonlocal(names=listed):
            yield from listed
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name


def bindings(scope: ast.AST, name: str) -> list[ast.AST]:
    """Nodes of a scope that bind a name, its parameters among them."""
    found: list[ast.AST] = [n for n in within(scope) if name in bound_names(n)]
    return [*(a for a in parameters(scope) if a.arg == name), *found]


def home(source: Source, use: ast.AST, name: str) -> ScopeNode | None:
    """The scope whose binding a name refers to; None for a builtin or a comprehension's variable."""
    for above in source.ancestors(use):
        if isinstance(above, _COMPREHENSIONS) and any(name in bound_names(n) for g in above.generators for n in ast.walk(g.target)):
            return None
    scope: ScopeNode | None = scope_of(source, use)
    first = True
    while scope is not None:
        if (first or not isinstance(scope, ast.ClassDef)) and bindings(scope, name):
            return scope
        first = False
        scope = scope_of(source, scope) if not isinstance(scope, ast.Module) else None
    return None


def block_of(source: Source, statement: ast.stmt) -> tuple[ast.AST, list[ast.stmt]]:
    """The node whose list of statements holds this one, and that list."""
    above = source.parents[statement]
    for _, value in ast.iter_fields(above):
        if isinstance(value, list) and any(item is statement for item in value):
            return above, value
    raise Refused("a statement outside of a block")


def dominates(source: Source, first: ast.stmt, later: ast.AST) -> bool:
    """Whether `first` has always run, earlier in the same scope, when `later` runs."""
    if scope_of(source, first) is not scope_of(source, later):
        return False
    above, block = block_of(source, first)
    for node in (later, *source.ancestors(later)):
        if isinstance(node, ast.stmt) and any(item is node for item in block):
            return block.index(first) < block.index(node)
    if isinstance(above, ast.With | ast.AsyncWith):
        return dominates(source, above, later)
    return False


def reaching(source: Source, use: ast.expr) -> Definition | None:
    """The one assignment whose value a name, or an attribute of self, has at `use`."""
    if isinstance(use, ast.Attribute):
        return _attribute(source, use)
    if not isinstance(use, ast.Name):
        return None
    scope = home(source, use, use.id)
    if scope is None:
        return None
    found = bindings(scope, use.id)
    own = scope_of(source, use)
    if scope is not own:  # a global or an outer local: only when bound once and for all
        return _as_definition(source, use.id, found[0]) if len(found) == 1 else None
    here = source.span(use)[0]
    statement = source.statement(use)
    before = [n for n in found if source.span(n)[0] < here and not source.inside(n, statement)]
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    own_stores = [n for n in found if not isinstance(n, ast.arg) and source.inside(n, statement)]
    if isinstance(statement, ast.For | ast.AsyncFor) and not source.inside(use, statement.iter):
        own_stores = []
    if any(not any(source.inside(n, t) for t in targets) for n in own_stores):
        return None
    if not before:
        return None
    nearest = max(before, key=lambda n: source.span(n)[0])
    definition = _as_definition(source, use.id, nearest)
    if definition is None or not dominates(source, definition.statement, use):
        return None
    if _changed(source, use.id, definition.statement, use):
        return None
    for loop in source.ancestors(use):
        if isinstance(loop, _SCOPES):
            break
        if isinstance(loop, LOOPS) and not source.inside(nearest, loop):
            if any(source.inside(n, loop) for n in found):
                return None
    return definition


def _changed(source: Source, name: str, first: ast.stmt, use: ast.AST) -> bool:
    """Whether what a name holds may be changed in place between its assignment and a use (a clamp does not count)."""
    start, end = source.span(first)[1], source.span(use)[0]
    loops = [a for a in source.ancestors(use) if isinstance(a, LOOPS) and not source.inside(first, a)]
    for node in within(scope_of(source, use)):
        if not isinstance(node, ast.Subscript | ast.Call) or name not in written(node):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _HARMLESS:
            continue
        if start <= source.span(node)[0] < end and not source.inside(use, node) or any(source.inside(node, a) for a in loops):
            return True
    return False


_HARMLESS = {"clamp_", "clamp_min_", "clamp_max_", "relu_", "clip_", "requires_grad_", "detach_"}


def _as_definition(source: Source, name: str, node: ast.AST) -> Definition | None:
    statement = source.parents.get(node)
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(target=ast.Name(), value=ast.expr() as value):
            return Definition(name, statement, value, True)
        case ast.Assign(targets=targets, value=value) if node in targets:
            return Definition(name, statement, value, False)
        case ast.Tuple(elts=elements):
            above = source.parents.get(statement)
            if isinstance(above, ast.Assign) and len(above.targets) == 1 and isinstance(above.value, ast.Tuple):
                values = above.value.elts
                if len(values) == len(elements) and not any(isinstance(e, ast.Starred) for e in (*values, *elements)):
                    return Definition(name, above, values[elements.index(node)], False)  # type: ignore[arg-type]
    return None


def _attribute(source: Source, use: ast.Attribute) -> Definition | None:
    """`self.p`, stored by one plain assignment in the class."""
    if not (isinstance(use.value, ast.Name) and use.value.id == "self"):
        return None
    owner = source.nearest(use, ast.ClassDef)
    if owner is None:
        return None
    text = source.text(use)
    stores = [
        n for n in ast.walk(owner) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store | ast.Del) and source.text(n) == text
    ]
    if len(stores) != 1 or any(text in written(n) for n in ast.walk(owner) if isinstance(n, ast.Subscript | ast.Call)):
        return None
    above = source.parents.get(stores[0])
    match above:
        case ast.Assign(targets=[_], value=value) | ast.AnnAssign(value=ast.expr() as value):
            return Definition(text, above, value, True)
    return None


def loads(source: Source, definition: Definition) -> list[ast.AST]:
    """Uses of a defined name, or attribute of self, anywhere it can be seen."""
    if "." in definition.name:
        last = definition.name.rpartition(".")[2]
        return [n for n in ast.walk(source.tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n.attr == last]
    scope = scope_of(source, definition.statement)
    return [
        n
        for n in ast.walk(scope)
        if (isinstance(n, ast.Name) and n.id == definition.name and not isinstance(n.ctx, ast.Store))
        or (isinstance(n, ast.Global | ast.Nonlocal) and definition.name in n.names)
        or (isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name) and n.target.id == definition.name)
        or (isinstance(n, ast.Constant) and n.value == definition.name and isinstance(scope, ast.Module))
        or (isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in {"locals", "vars", "eval"})
    ]


def uses(source: Source, definition: Definition) -> list[ast.AST]:
    """Places that may read the value of this very assignment."""
    found = []
    end = source.span(definition.statement)[1]
    for use in loads(source, definition):
        if isinstance(use, ast.Name) and scope_of(source, use) is scope_of(source, definition.statement):
            looped = any(isinstance(a, LOOPS) and source.inside(definition.statement, a) for a in source.ancestors(use))
            if source.span(use)[0] < end and not looped:
                continue
            seen = reaching(source, use)
            if seen is not None and seen.statement is not definition.statement:
                continue
            if source.span(use)[0] >= end and seen is None and _overwritten(source, definition, use):
                continue
        found.append(use)
    return found


def _overwritten(source: Source, definition: Definition, use: ast.Name) -> bool:
    """Whether the name is certainly bound again between the assignment and a use."""
    end, here = source.span(definition.statement)[1], source.span(use)[0]
    for node in bindings(scope_of(source, use), use.id):
        if isinstance(node, ast.arg):
            continue
        statement = source.statement(node)
        if end <= source.span(node)[0] < here and not source.inside(use, statement) and dominates(source, statement, use):
            return True
    return False


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as text; None for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value)
            return None if base is None else f"{base}.{attr}"
    return None


def read(node: ast.AST) -> set[str]:
    """Names and dotted attributes that an expression reads."""
    found = {dotted(n) for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)}
    own = {name for n in ast.walk(node) if isinstance(n, ast.comprehension) for t in ast.walk(n.target) for name in bound_names(t)}
    return {f for f in found if f is not None and f not in own}


def written(node: ast.AST) -> Iterator[str]:
    """Names and dotted attributes that a node stores to or changes in place."""
    yield from bound_names(node)
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            base = dotted(node)
            if base:
                yield base
        case ast.Subscript(ctx=ast.Store() | ast.Del(), value=value):
            base = dotted(value)
            if base:
                yield base
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr.endswith("_") and not attr.endswith("__"):
            base = dotted(value)
            if base:
                yield base
        case ast.Call(keywords=keywords):
            for keyword in keywords:
                base = dotted(keyword.value) if keyword.arg == "out" else None
                if base:
                    yield base
