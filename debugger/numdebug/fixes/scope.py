"""Names: which assignment reaches a use, what is still used, and whether an expression means the same elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from numdebug.fixes.source import Refused, ScopeNode, Source

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_UNSETTLING = {"step", "backward", "zero_grad", "train", "eval", "manual_seed", "load_state_dict", "copy_", "zero_"}


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
        if isinstance(above, _COMPREHENSIONS) and any(
            name in bound_names(n) for g in above.generators for n in ast.walk(g.target)
        ):
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
    for loop in source.ancestors(use):
        if isinstance(loop, _SCOPES):
            break
        if isinstance(loop, _LOOPS) and not source.inside(nearest, loop):
            if any(source.inside(n, loop) for n in found):
                return None
    return definition


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
        n
        for n in ast.walk(owner)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store | ast.Del) and source.text(n) == text
    ]
    if len(stores) != 1:
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
        return [
            n
            for n in ast.walk(source.tree)
            if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and n.attr == last
        ]
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
    start, end = source.span(definition.statement)
    for use in loads(source, definition):
        if isinstance(use, ast.Name) and scope_of(source, use) is scope_of(source, definition.statement):
            looped = any(
                isinstance(a, _LOOPS) and source.inside(definition.statement, a) for a in source.ancestors(use)
            )
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


def _between(source: Source, first: ast.stmt, later: ast.stmt) -> Iterator[ast.AST]:
    """Nodes that may run after `first` and before `later`, the targets of `first` among them."""
    start, end = source.span(first)[1], source.span(later)[0]
    scope = scope_of(source, first)
    loops = []
    for above in source.ancestors(later):
        if above is scope:
            break
        if isinstance(above, _LOOPS) and not source.inside(first, above):
            loops.append(above)
    for node in within(scope):
        if source.inside(node, first):
            if not (isinstance(first, ast.Assign | ast.AnnAssign) and first.value and source.inside(node, first.value)):
                yield node
        elif isinstance(node, ast.expr | ast.stmt | ast.ExceptHandler) and not isinstance(node, ast.Module):
            begin = source.span(node)[0]
            if start <= begin < end or any(source.inside(node, loop) for loop in loops):
                yield node


def has_effects(node: ast.AST) -> bool:
    """Whether evaluating an expression runs anything but known functions of arrays."""
    return any(
        isinstance(n, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) or isinstance(n, ast.Call) and not _pure(n)
        for n in ast.walk(node)
    )


def _pure(call: ast.Call) -> bool:
    path = dotted(call.func) or ""
    root, _, last = path.rpartition(".")
    if isinstance(call.func, ast.Attribute):
        last = call.func.attr
    if any(k.arg == "out" for k in call.keywords) or last.endswith("_") or "rand" in last or "dropout" in last:
        return False
    if root.split(".")[0] in {"torch", "F", "math", "np"} or root in {"nn.functional"}:
        return last[:1].islower() and last not in {"bernoulli", "multinomial", "normal", "seed"}
    if isinstance(call.func, ast.Attribute):
        return last in PURE_METHODS
    return path in {"len", "int", "float", "abs", "max", "min", "sum", "range", "tuple", "list"}


PURE_METHODS = frozenset(
    """abs amax amin argmax argmin bool clamp clamp_max clamp_min clip clone contiguous cos cpu cumprod cumsum cuda detach diff
    div double exp expand expand_as expm1 flatten float gather ge gt half index_select int le log log10 log1p log2 log_softmax
    logsumexp long lt masked_fill matmul max mean min mm mul narrow neg norm permute pow prod reciprocal relu repeat reshape
    rsqrt select sigmoid sin size softmax sqrt square squeeze std sub sum swapaxes t take_along_dim tanh to topk transpose tril
    triu type_as unsqueeze var view view_as where item tolist""".split()
)


def movable(source: Source, node: ast.AST, first: ast.stmt, later: ast.stmt) -> bool:
    """Whether an expression of statement `first` has the same value, and the same effects, when evaluated in `later`."""
    if first is later:
        return True
    reads = read(node)
    effects = has_effects(node)
    if scope_of(source, first) is not scope_of(source, later):
        return not effects and _same_object(source, node, first, later)
    if _contexts(source, first, (ast.With, ast.AsyncWith)) != _contexts(source, later, (ast.With, ast.AsyncWith)):
        return False
    branches = (*_LOOPS, ast.If, ast.Try)
    if effects and _contexts(source, first, branches) != _contexts(source, later, branches):
        return False
    for other in _between(source, first, later):
        for name in written(other):
            if name in reads or any(r.startswith(f"{name}.") for r in reads):
                return False
        if isinstance(other, ast.Call) and isinstance(other.func, ast.Attribute):
            if effects and other.func.attr in _UNSETTLING:
                return False
            if isinstance(other.func.value, ast.Name) and other.func.value.id == "self":
                if any(r.startswith("self.") for r in reads) and _stores(source, other.func.attr, reads):
                    return False
    return True


def _same_object(source: Source, node: ast.AST, first: ast.stmt, later: ast.stmt) -> bool:
    """Whether an expression over attributes of self, each stored once, reads the same in another method of the class."""
    owner = source.nearest(first, ast.ClassDef)
    if owner is None or source.nearest(later, ast.ClassDef) is not owner:
        return False
    scope = scope_of(source, first)
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and n.id != "self" and not isinstance(home(source, n, n.id), ast.Module):
            return False
        if isinstance(n, ast.Name) and n.id == "self" and not isinstance(source.parents.get(n), ast.Attribute):
            return False
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self":
            name = f"self.{n.attr}"
            stores = [w for w in ast.walk(owner) if name in written(w)]
            if len(stores) != 1 or source.span(stores[0])[0] > source.span(first)[0]:
                return False
            if scope_of(source, stores[0]) is not scope:
                return False
    return True


def _stores(source: Source, method: str, reads: set[str]) -> bool:
    return any(
        isinstance(f, ast.FunctionDef) and f.name == method and any(w in reads for n in ast.walk(f) for w in written(n))
        for f in ast.walk(source.tree)
    )


def _contexts(source: Source, statement: ast.stmt, kinds: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    return [a for a in source.ancestors(statement) if isinstance(a, kinds)]
