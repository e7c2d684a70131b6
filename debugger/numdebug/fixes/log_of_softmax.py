"""log(softmax(x)) becomes log_softmax(x), wherever the softmax stands."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from numdebug.fixes import moving, scope, spelling
from numdebug.fixes.flow import Flow, holders
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import Operation, is_op
from numdebug.fixes.softmaxes import Softmax, said, softmax
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import Trace, fresh_name, hoisted, inlinable, rebuilt, trace
from numdebug.fixes.wording import fit
from numdebug.fixes.words import words


def logs(job: Job, *names: str) -> list[tuple[str, Source, Operation]]:
    """The targets, each a call of the logarithm."""
    found = []
    for role in job.each():
        source, node = job.find(role, ast.Call, lambda n, role=role: _is_log(job, role, n, names))  # type: ignore[misc]
        op = is_op(source, node, *names)
        if op is None:
            raise Refused("not a log")
        found.append((role, source, op))
    if len({op.node for _, _, op in found}) != len(found):
        raise Refused("the same log twice")
    return found


def _is_log(job: Job, role: str, node: ast.Call, names: tuple[str, ...]) -> bool:
    op = is_op(job.source(job.repair.sites[role]), node, *names)
    if op is None or op.node.keywords and any(k.arg == "out" for k in op.node.keywords):
        return False
    return not (op.method and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_"))


@form("log_softmax")
def write(job: Job) -> None:
    """Each log in turn; a softmax in another function is changed there, once."""
    found = logs(job, "log")
    idle: list[tuple[Source, scope.Definition]] = []
    names: dict[ast.expr, str] = {}
    elsewhere: list[tuple[str, Source, Operation, Trace]] = []
    nodes = [op.node for _, _, op in found]
    ways = [trace(source, op.operand, lambda n, s=source: softmax(s, n) is not None) for _, source, op in found]  # type: ignore[misc]
    for (role, source, op), way in zip(found, ways, strict=True):
        job.mark = role[6:]
        if way.stopped:
            elsewhere.append((role, source, op, way))
            continue
        inner = softmax(source, way.end)
        if inner is None:
            raise Refused("no softmax")
        hops = [h for w, f in zip(ways, found, strict=True) if f[1] is source for h in w.hops]
        _here(job, source, op, way, inner, readers(source, nodes, hops), names)
        idle += [(source, d) for d in (*way.hops, *inner.parts)]
    for role, source, op, way in elsewhere:
        if not _through_helper(job, source, role, op, way):
            _in_its_function(job, source, role, op, way, list(nodes))
    for source in {s for s, _ in idle}:
        job.drop_unused(source, [d for s, d in idle if s is source])


def _here(job: Job, source: Source, log: Operation, way: Trace, inner: Softmax, places: list[ast.AST], names: dict[ast.expr, str]) -> None:
    fits = inlinable(source, way, inner.pieces, log.node)
    kept = any(not only_read_in(source, d, places) for d in way.hops)
    costly = any(isinstance(n, ast.Call | ast.MatMult) for n in ast.walk(inner.logits))
    again = kept or len(job.targets()) > 1
    if not way.hops or (fits and not (again and costly) and not (again and moving.has_effects(inner.logits))):
        if not fits:
            raise Refused("the logits mean something else at the log")
        job.replace(source, log.node, rebuilt(source, way, said(job, source, inner, "log_softmax", log.node)))
        return
    if len(way.hops) == 1 and not kept and len(job.targets()) == 1:
        _in_place(job, source, log, way, said(job, source, inner, "log_softmax", inner.node))
        return
    others = [p for p in inner.pieces if p is not inner.logits]
    if not inlinable(source, way, others, log.node) or scope.scope_of(source, inner.node) is not scope.scope_of(source, log.node):
        raise Refused("the softmax cannot be repeated at the log")
    if inner.logits not in names:
        names[inner.logits] = named(job, source, inner.expression, inner.logits, way.hops, places)
    job.replace(source, log.node, rebuilt(source, way, said(job, source, inner, "log_softmax", log.node, names[inner.logits])))


def readers(source: Source, all_logs: Sequence[ast.expr], hops: list[scope.Definition]) -> list[ast.AST]:
    """The logs, and the assignments on the way to them where those will all go."""
    places: list[ast.AST] = [*all_logs, *(h.statement for h in hops)]
    try:
        for hop in hops:
            source.lines_of(hop.statement)
    except Refused:
        return list(all_logs)
    if all(h.simple and only_read_in(source, h, places) for h in hops):
        return places
    return list(all_logs)


def named(job: Job, source: Source, node: ast.expr, logits: ast.expr, hops: list[scope.Definition], places: list[ast.AST]) -> str:
    """A name for the logits, given where the probabilities were: in their place if only the logs read them."""
    last = hops[-1]
    idle = all(only_read_in(source, h, places) for h in hops)
    way = trace(source, last.value, lambda n: n is node)
    statement = last.statement
    if idle and not way.stopped and not way.hops and all(layer.guard for layer in way.layers):
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = fresh_name(source, ("logits", "scores"))
            start, end = source.span(statement)
            job.put(source, start, end, f"{name} = {fit(source.text(logits), 0)}")
            job.kept.add(statement)
            return name
    return hoisted(job, source, logits, ("logits", "scores"))


def only_read_in(source: Source, definition: scope.Definition, places: Sequence[ast.AST]) -> bool:
    """Whether a name is read nowhere but in these expressions."""
    return all(any(source.inside(use, place) for place in places) for use in scope.uses(source, definition))


def _in_place(job: Job, source: Source, log: Operation, way: Trace, text: str) -> None:
    """Make the variable hold the log, and read it where its log was taken."""
    hop = way.hops[0]
    deeper = [layer for layer in way.layers if source.inside(layer.node, hop.value)]
    outer = [layer for layer in way.layers if layer not in deeper]
    job.replace(source, hop.value, rebuilt(source, Trace(hop.value, way.end, deeper), text))
    job.replace(source, log.node, rebuilt(source, Trace(way.start, way.end, outer), hop.name))


def _through_helper(job: Job, source: Source, role: str, log: Operation, way: Trace) -> bool:
    """log(my_softmax(x)): the helper's softmax is of its own parameter, so that the log can be said at the call."""
    call = way.end
    if not isinstance(call, ast.Call) or call.keywords or not isinstance(call.func, ast.Name):
        return False
    home = scope.home(source, call, call.func.id)
    bound = scope.bindings(home, call.func.id) if home is not None else []
    if len(bound) != 1 or not isinstance(bound[0], ast.FunctionDef) or bound[0].decorator_list:
        return False
    function = bound[0]
    returns = [n for n in scope.within(function) if isinstance(n, ast.Return)]
    if len(returns) != 1 or returns[0].value is None:
        return False
    inside = trace(source, returns[0].value, lambda n: softmax(source, n) is not None, structure=False)
    inner = softmax(source, inside.end) if not inside.stopped else None
    given = [a.arg for a in function.args.args]
    if inner is None or not isinstance(inner.logits, ast.Name) or inner.logits.id not in given:
        return False
    if len(scope.bindings(function, inner.logits.id)) != 1 or any(isinstance(a, ast.Starred) for a in call.args):
        return False
    position = given.index(inner.logits.id)
    literal = isinstance(inner.dim, ast.Constant) or (isinstance(inner.dim, ast.UnaryOp) and isinstance(inner.dim.operand, ast.Constant))
    if position >= len(call.args) or not literal or inner.dim is None:
        return False
    if not inlinable(source, way, list(call.args), log.node):
        return False
    dim = source.text(inner.dim) if hasattr(inner.dim, "lineno") else ast.unparse(inner.dim)
    text = words(job, source, log.node).call("log_softmax", source.text(call.args[position]), dim=dim)
    if any(moving.has_effects(a) for i, a in enumerate(call.args) if i != position):
        return False
    if way.hops and (moving.has_effects(call.args[position]) or any(not only_read_in(source, d, [log.node]) for d in way.hops)):
        return False
    job.replace(source, log.node, rebuilt(source, way, text))
    job.drop_unused(source, way.hops)
    return True


def _in_its_function(job: Job, source: Source, role: str, log: Operation, way: Trace, all_logs: list[ast.Call]) -> None:
    """The softmax is in another function or in a layer, and all that is made of it goes into these logs."""
    if not job.get("only_feeds_log"):
        raise Refused("the softmax of another function may serve others")
    site = job.role("softmax", role)
    if site is None or job.source(job.repair.sites[site]) is not source:
        raise Refused("the softmax is in another file")
    inner = next((s for s in (softmax(source, n) for n in source.at(job.repair.sites[site])) if s is not None), None)
    if inner is None or inner.constructor is not None:
        known = inner.constructor if inner else None
        change_layer(job, source, "torch.nn.Softmax", "LogSoftmax", list(all_logs), known, guards_of([way]))
    else:
        start = returned(job, source, inner.expression, said(job, source, inner, "log_softmax", inner.node))
        Flow(source, list(all_logs), guards_of([way])).only_feeds(start)
        job.drop_unused(source, list(inner.parts))
    unguard(job, source, way, all_logs)
    job.replace(source, log.node, outside(source, log, way))


def outside(source: Source, log: Operation, way: Trace) -> str:
    """The argument of the log without its guards, up to the first variable."""
    first = way.hops[0].value if way.hops else None
    layers = [layer for layer in way.layers if first is None or not source.inside(layer.node, first)]
    end = layers[-1].inner if layers else way.start
    return rebuilt(source, Trace(way.start, end, layers), source.text(end))


def guards_of(ways: list[Trace]) -> list[ast.expr]:
    """Clamps and the like that stand between a variable and a log."""
    return [layer.node for way in ways for layer in way.layers if layer.guard]


def unguard(job: Job, source: Source, way: Trace, all_logs: Sequence[ast.expr]) -> None:
    """Take the guards out of the assignments on the way to a log; `p = p.clamp(...)` goes as a whole."""
    for hop in way.hops:
        inside = [layer for layer in way.layers if source.inside(layer.node, hop.value)]
        if not any(layer.guard for layer in inside):
            continue
        if not only_read_in(source, hop, all_logs) or not hop.simple:
            raise Refused("a guarded value that something else reads")
        end = inside[-1].inner
        if all(layer.guard for layer in inside) and isinstance(end, ast.Name) and end.id == hop.name:
            if hop.statement not in job.removed:
                job.drop(source, hop.statement)
        else:
            job.replace(source, hop.value, rebuilt(source, Trace(hop.value, end, inside), source.text(end)))


def returned(job: Job, source: Source, node: ast.expr, text: str) -> ast.expr:
    """Write `text` for a value inside the function that returns it, without the guards on its way out; what was replaced."""
    function = scope.scope_of(source, node)
    for statement in scope.within(function):
        if not isinstance(statement, ast.Return) or statement.value is None:
            continue
        values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        for value in values:
            way = trace(source, value, lambda n: n is node)
            if way.stopped or not any(layer.guard for layer in way.layers):
                continue
            if way.hops:
                raise Refused("a guard on the way out of the function")
            job.replace(source, value, rebuilt(source, way, text))
            return value
    job.replace(source, node, text)
    return node


def change_layer(
    job: Job, source: Source, what: str, new: str | None, all_logs: list[ast.expr], known: ast.Call | None, guards: list[ast.expr]
) -> ast.Call:
    """Change (or, with no new name, take out) the one layer of this kind; every call of what holds it feeds the logs."""
    made = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and spelling.means(source, n.func) == what]
    if known is None and len(made) != 1:
        raise Refused(f"{len(made)} layers could be meant")
    layer = known if known is not None else made[0]
    holder: ast.Call = layer
    above = source.parent(layer)
    if isinstance(above, ast.Call) and (spelling.means(source, above.func) or "").endswith("nn.Sequential"):
        holder = above
        above = source.parent(above)
    names = holders(source, [holder])
    flow = Flow(source, all_logs, guards)
    calls = [
        n
        for n in ast.walk(source.tree)
        if isinstance(n, ast.Call) and (n.func is holder or (scope.dotted(n.func) or "").rpartition(".")[2] in names)
    ]
    if not calls or not (names or isinstance(above, ast.Call)):
        raise Refused("no call of the layer found")
    for call in calls:
        flow.only_feeds(call)
    if holder is not layer and holder.args and holder.args[-1] is not layer:
        raise Refused("the layer is not the last one")
    if new is not None:
        if isinstance(layer.func, ast.Attribute):
            start, end = source.span(layer.func)
            job.put(source, end - len(layer.func.attr.encode()), end, new)
        else:
            start, end = source.span(layer.func)
            job.put(source, start, end, f"{spelling.torch(job, source, layer)}.nn.{new}")
        return layer
    if holder is layer or len(holder.args) < 2 or holder.keywords:
        raise Refused("the layer cannot be taken out")
    take_out(job, source, holder.args[-2], layer)
    return layer


def take_out(job: Job, source: Source, before: ast.expr, last: ast.expr) -> None:
    """Remove the last argument of a call, with its line where it has one to itself."""
    start, end = source.span(last)
    line = source.offset(last.lineno, 0)
    following = source.offset((last.end_lineno or 0) + 1, 0) if (last.end_lineno or 0) < source.line_count else len(source.data)
    after = source.data[end:following].strip()
    if not source.data[line:start].strip() and (after == b"," or after.startswith(b",") and after[1:].lstrip().startswith(b"#")):
        job.put(source, line, following, "")
        return
    between = source.data[source.span(before)[1] : start]
    if between.strip() not in (b",", b"),"):
        raise Refused("something stands between the layers")
    job.put(source, source.span(before)[1] + len(between.rstrip()) - 1, end, "")


__all__ = ["change_layer", "guards_of", "logs", "named", "only_read_in", "outside", "readers", "returned", "unguard", "write"]
