"""What was wrong with the numbers that went in: rows, ties, and samples of one."""

from __future__ import annotations

import ast

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import is_number, is_op
from numdebug.fixes.settings import set_keyword
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.tracing import named_before
from numdebug.fixes.wording import SUM, fit
from numdebug.fixes.words import words


@form("drop_rows")
def write_drop_rows(job: Job) -> None:
    """After the array is made, its rows with NaN or inf are dropped; where others run in parallel, in the table that all are cut from."""
    for role in job.each():
        site = job.repair.sites[role]
        source = job.source(site)
        nodes = source.at(site) or source.on_line(site)
        if not nodes:
            raise Refused("nothing at the span")
        statement = source.statement(nodes[0])
        try:
            _drop_after(job, source, statement, job.get("ndim", 2))
        except Refused as why:
            table = _table_of(source, statement)
            if table is None:
                raise why from None
            _drop_after(job, source, table, 2)


def _drop_after(job: Job, source: Source, statement: ast.stmt, dims: object) -> None:
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)):
        raise Refused("not a simple assignment")
    name = statement.targets[0].id
    if not isinstance(statement.value, ast.Call | ast.BinOp | ast.Subscript) or not _array(statement.value):
        raise Refused("not an array")
    _alone(source, statement, name)
    library = _library(source, statement.value)
    array = library or spelling.framework(source).framework
    if array in ("numpy", "jax"):
        np = spelling.reached(job, source, "jax.numpy" if array == "jax" else "numpy", statement)
        finite = f"{np}.isfinite({name})"
        tail = {1: "", 2: ".all(axis=1)"}.get(dims, f".reshape(len({name}), -1).all(axis=1)")  # type: ignore[call-overload]
    elif array == "torch":
        finite = f"{name}.isfinite()"
        tail = {1: "", 2: ".all(dim=1)"}.get(dims, ".flatten(1).all(dim=1)")  # type: ignore[call-overload]
    else:
        raise Refused("an unknown kind of array")
    job.after(source, statement, f"{name} = {name}[{finite}{tail}]")


def _table_of(source: Source, statement: ast.stmt) -> ast.Assign | None:
    """The earlier assignment in the same scope whose columns the statement takes: `table` of `table[:, :3]`."""
    read = [node for node in ast.walk(statement) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)]
    taken = {p.value.id for p in read if isinstance(p.value, ast.Name) and isinstance(p.slice, ast.Tuple) and len(p.slice.elts) == 2}
    if len(taken) != 1:
        return None
    name = taken.pop()
    before = source.span(statement)[0]
    found = [
        node
        for node in scope.within(scope.scope_of(source, statement))
        if isinstance(node, ast.Assign)
        and source.span(node)[0] < before
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    return found[0] if len(found) == 1 else None


def _alone(source: Source, statement: ast.Assign, name: str) -> None:
    """Refuse where rows of the array belong to rows of another that is not made of it."""
    own = scope.scope_of(source, statement)
    if source.nearest(statement, (ast.For, ast.While)) is not None:
        raise Refused("the array is made in a loop")
    end = source.span(statement)[1]
    derived = {name}
    assigned: dict[str, list[ast.expr]] = {}
    for node in scope.within(own):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for n in ast.walk(target):
                    if isinstance(n, ast.Name):
                        assigned.setdefault(n.id, []).append(node.value)
                        if source.span(node)[0] < end and n.id == name and node is not statement:
                            raise Refused("the name is bound more than once")
    while True:
        more = {n for n, values in assigned.items() if any(scope.read(v) & derived for v in values)} | derived
        if more == derived:
            break
        derived = more
    before_data = {n for v in [statement.value] for n in scope.read(v)}
    others = {n for n, values in assigned.items() if n not in derived and any(_array(v) for v in values)}
    others |= {n for n in before_data if n in assigned and n not in derived and any(_array(v) for v in assigned[n])}
    for node in ast.walk(own):
        if not isinstance(node, ast.Call | ast.BinOp | ast.Tuple) or source.span(node)[0] < end:
            continue
        reads = scope.read(node)
        if reads & derived and reads & others:
            raise Refused("another array runs in parallel")


def _library(source: Source, value: ast.expr) -> str | None:
    """The library whose array a value surely is: that of the function which its chain of methods begins with."""
    node: ast.expr = value
    while True:
        match node:
            case ast.BinOp(left=left):
                node = left
            case ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=func):
                root = (spelling.means(source, func) or "").split(".")[0]
                if root in {"numpy", "torch", "jax"}:
                    return root
                last = func.attr if isinstance(func, ast.Attribute) else ""
                if last in {"numpy", "to_numpy"}:
                    return "numpy"
                if root in {"pandas", "polars"} or not isinstance(func, ast.Attribute):
                    return "pandas" if root in {"pandas", "polars"} else None
                node = func.value
            case ast.Attribute(value=inner, attr=attr):
                if attr == "values":
                    return "numpy"
                node = inner
            case _:
                return None


_NO_ARRAYS = {"default_rng", "manual_seed", "device", "len", "int", "float", "range", "open", "dict", "set"}


def _array(value: ast.expr) -> bool:
    """Whether a value may be an array: no literal, and no object of a class."""
    if is_number(value) or isinstance(value, ast.Constant | ast.Lambda | ast.Dict | ast.JoinedStr):
        return False
    if isinstance(value, ast.List | ast.Tuple):
        return bool(value.elts)
    if isinstance(value, ast.Call):
        last = (scope.dotted(value.func) or "").rpartition(".")[2]
        return not last[:1].isupper() and last not in _NO_ARRAYS
    return True


@form("break_ties")
def write_break_ties(job: Job) -> None:
    """A small ramp on the diagonal keeps eigenvalues apart."""
    eps = job.literal("eps")
    if eps is None:
        raise Refused("no eps")
    names = ("eigh", "eigvalsh", "symeig") if not job.get("square") else ("eigh", "eigvalsh", "symeig", "svd", "svdvals", "eig")
    for role in job.each():
        site = job.repair.sites[role]
        source, call = job.find(role, ast.Call, lambda n, s=site: is_op(job.source(s), n, *names) is not None)  # type: ignore[misc]
        op = is_op(source, call, *names)
        if op is None:
            raise Refused("not a decomposition")
        m = source.text(op.operand)
        if scope.dotted(op.operand) is None:
            m = named_before(job, source, op.operand, ("matrix", "symmetric"))
        speak = words(job, source, call)
        device = f", device={m}.device" if speak.torch else ""
        ramp = f"{speak.name('linspace')}(0.0, {eps}, {m}.shape[-1], dtype={m}.dtype{device})"
        job.replace(source, op.operand, f"{m} + {speak.name('diag')}({ramp})")


@form("correction0")
def write_correction(job: Job) -> None:
    """The standard deviation of one sample divides by n, not by n - 1; with an eps, under the root."""
    eps = job.literal("eps")
    for role in job.each():
        site = job.repair.sites[role]
        source, call = job.find(role, ast.Call, lambda n, s=site: is_op(job.source(s), n, "std", "var") is not None)  # type: ignore[misc]
        op = is_op(source, call, "std", "var")
        flags = op is None or any(isinstance(a, ast.Constant) and isinstance(a.value, bool) for a in op.rest)
        if op is None or flags or len(op.rest) > 1:
            raise Refused("positional flags")
        old = next((k for k in call.keywords if k.arg in ("unbiased", "correction", "ddof")), None)
        none = "correction=0" if op.words.framework == "torch" else "ddof=0"
        if op.words.framework != "torch" and old is None:
            raise Refused("it divides by n already")
        if op.name == "std" and eps is not None:
            if not isinstance(call.func, ast.Attribute):
                raise Refused("std under its bare name")
            text = source.text(call).encode()
            begin = source.span(call)[0]
            if old is not None:
                a, b = source.span(old)
                text = text[: a - begin] + none.encode() + text[b - begin :]
            else:
                close = text.rstrip(b")").rstrip() if not (call.args or call.keywords) else text[:-1].rstrip().rstrip(b",")
                lead = b", " if call.args or call.keywords else b""
                text = (text[:-1] if not lead else close) + lead + b"correction=0)"
            at = source.span(call.func)[1] - begin
            said = text[: at - 3].decode() + "var" + text[at:].decode()
            job.replace(source, call, words(job, source, call).method("sqrt", f"{fit(said, SUM)} + {eps}"))
            continue
        if old is not None:
            a, b = source.span(old)
            job.put(source, a, b, none)
        else:
            set_keyword(job, source, call, "correction", "0")
