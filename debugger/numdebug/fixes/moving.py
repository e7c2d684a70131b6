"""Whether an expression can be evaluated somewhere else: same value, same effects."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from numdebug.fixes.scope import LOOPS, dotted, home, read, scope_of, within, written
from numdebug.fixes.source import Source

_UNSETTLING = {"step", "backward", "zero_grad", "train", "eval", "manual_seed", "load_state_dict", "copy_", "zero_"}


def _between(source: Source, first: ast.stmt, later: ast.stmt) -> Iterator[ast.AST]:
    """Nodes that may run after `first` and before `later`, the targets of `first` among them."""
    start, end = source.span(first)[1], source.span(later)[0]
    scope = scope_of(source, first)
    loops = []
    for above in source.ancestors(later):
        if above is scope:
            break
        if isinstance(above, LOOPS) and not source.inside(first, above):
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
    if root.split(".")[0] in _ARRAYS or root in {"nn.functional", "nn"}:
        return last[:1].islower() and last not in {"bernoulli", "multinomial", "normal", "seed"}
    if isinstance(call.func, ast.Attribute):
        return last in PURE_METHODS
    return path in {"len", "int", "float", "abs", "max", "min", "sum", "range", "tuple", "list"}


_ARRAYS = {"torch", "F", "math", "np", "numpy", "jnp", "jax", "jnn", "lax", "jsp", "scipy", "special", "keras", "ops", "nnx"}

PURE_METHODS = frozenset(
    """abs astype ravel amax amin argmax argmin bool clamp clamp_max clamp_min clip clone contiguous cos cpu cumprod cumsum cuda detach diff
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
    branches = (*LOOPS, ast.If, ast.Try)
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
