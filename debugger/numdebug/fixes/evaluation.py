"""A network in evaluation mode while it is evaluated, and in training mode while it goes on being trained."""

from __future__ import annotations

import ast
from functools import partial

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.source import Refused, Source

_DROPOUTS = frozenset({
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "scaled_dot_product_attention",
})  # fmt: skip
_TRAINS = frozenset({"backward", "step"})


@form("dropout_training")
def write_dropout_training(job: Job) -> None:
    """`training=self.training` in a call of functional dropout."""
    for role in job.each():
        source = job.source(job.repair.sites[role])
        _, call = job.find(role, ast.Call, partial(_is_dropout, source))
        owner = source.nearest(call, ast.FunctionDef)
        if owner is None or [a.arg for a in owner.args.args][:1] != ["self"] or not isinstance(source.parent(owner), ast.ClassDef):
            raise Refused("no module whose mode it could follow")
        if (spelling.means(source, call.func) or "").endswith("scaled_dot_product_attention"):
            rate = next((k.value for k in call.keywords if k.arg == "dropout_p"), call.args[4] if len(call.args) > 4 else None)
            if rate is None:
                raise Refused("no rate is given here")
            job.replace(source, rate, f"{source.text(rate)} if self.training else 0.0")
            continue
        given = next((k.value for k in call.keywords if k.arg == "training"), call.args[2] if len(call.args) > 2 else None)
        if given is not None:
            job.replace(source, given, "self.training")
        elif any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
            raise Refused("arguments that are not written here")
        else:
            last = source.span((*call.args, *(k.value for k in call.keywords))[-1])[1]
            job.put(source, last, last, ", training=self.training")


def _is_dropout(source: Source, call: ast.Call) -> bool:
    return (spelling.means(source, call.func) or "").removeprefix("torch.nn.functional.") in _DROPOUTS


@form("running_statistics")
def write_running_statistics(job: Job) -> None:
    """`track_running_stats=True` where a layer was constructed without."""
    for role in job.each():
        source, given = job.find(role, ast.Call, _without_statistics)
        job.replace(source, next(k.value for k in given.keywords if k.arg == "track_running_stats"), "True")


def _without_statistics(call: ast.Call) -> bool:
    return any(k.arg == "track_running_stats" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords)


@form("evaluation_mode")
def write_evaluation_mode(job: Job) -> None:
    """`model.eval()` before the statement that calls the model; `model.train()` after it where training goes on in training mode.

    Of JAX's libraries and Keras: the switch in the call itself the other way round, or `eqx.nn.inference_mode(model)`.
    """
    for role in job.each():
        source, call = _network(job, *job.find(role, ast.Call))
        if not spelling.imported(source, "torch") and (_switched(job, source, call) or _inference(job, source, call)):
            continue
        model = _callee(call)
        name = scope.dotted(model)
        if name is None:
            raise Refused("the network has no name here")
        statement = source.statement(call)
        _same_name(source, model, statement)
        again = _goes_on(job)
        if again and isinstance(statement, ast.Return) and statement.value is not None:
            result = _free(source, statement, "evaluated")
            start, end = source.span(statement)
            indent = source.indent_of(statement)
            value = source.text(statement.value)
            lines = (f"{name}.eval()", f"{result} = {value}", f"{name}.train()", f"return {result}")
            job.put(source, start, end, f"\n{indent}".join(lines))
            continue
        if again and not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
            raise Refused("no place to go back to training mode")
        job.before(source, statement, f"{name}.eval()")
        if again:
            job.after(source, statement, f"{name}.train()")


def _callee(node: ast.expr) -> ast.expr:
    """What is called: `model` of model(x), of model.forward(x) and of jax.vmap(model)(x); an argument stands for itself."""
    if not isinstance(node, ast.Call):
        return node
    if isinstance(node.func, ast.Attribute) and node.func.attr == "forward":
        return node.func.value
    model: ast.expr = node.func
    while isinstance(model, ast.Call) and model.args:
        model = model.args[0]
    return model


def _network(job: Job, source: Source, call: ast.Call) -> tuple[Source, ast.expr]:
    """Of a call of the file's own function that is handed the network: that argument; else the call itself."""
    called = call.func.id if isinstance(call.func, ast.Name) else None
    own = [f for f in ast.walk(source.tree) if isinstance(f, ast.FunctionDef) and f.name == called]
    if len(own) != 1:
        return source, call
    names = [a.arg for a in own[0].args.args]
    for role, site in job.repair.sites.items():
        here = role.startswith("via_") and site.file == source.name
        inner = next((n for n in source.at(site) if isinstance(n, ast.Call)), None) if here else None
        model = _callee(inner) if inner is not None and source.inside(inner, own[0]) else None
        if isinstance(model, ast.Name) and model.id in names:
            given = next((k.value for k in call.keywords if k.arg == model.id), None)
            place = names.index(model.id)
            if given is None and place < len(call.args):
                given = call.args[place]
            if given is not None:
                return source, given
    raise Refused("the network is not handed over here")


_OFF = frozenset({"train", "training", "is_training"})  # switches of training mode by their usual names; those below work against it
_ON = frozenset({"deterministic", "use_running_average", "inference", "eval"})


def _switched(job: Job, source: Source, call: ast.expr) -> bool:
    """A plain True or False that the call gives to a keyword: the only one, or the one with a usual name."""
    if not isinstance(call, ast.Call):
        return False
    plain = [k for k in call.keywords if isinstance(k.value, ast.Constant) and isinstance(k.value.value, bool) and k.arg]
    usual = [k for k in plain if k.arg in _OFF | _ON]
    chosen = usual if usual else plain if len(plain) == 1 else []
    for keyword in chosen:
        given = keyword.value
        assert isinstance(given, ast.Constant)
        if (keyword.arg in _OFF and given.value is False) or (keyword.arg in _ON and given.value is True):
            continue
        job.replace(source, given, str(not given.value))
    return bool(chosen)


def _inference(job: Job, source: Source, call: ast.expr) -> bool:
    """`eqx.nn.inference_mode(model)` in the place of a model of Equinox, also inside of `jax.vmap(model)`."""
    package = spelling.name_of(source, "equinox")
    if package is None:
        return False
    model = _callee(call)
    if scope.dotted(model) is None:
        return False
    job.replace(source, model, f"{package}.nn.inference_mode({source.text(model)})")
    return True


def _same_name(source: Source, model: ast.expr, statement: ast.stmt) -> None:
    """The model's name means the same before the statement."""
    root = model
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name) or scope.home(source, root, root.id) is None:
        raise Refused("the network is bound inside the expression")
    if root.id in {name for node in ast.walk(statement) if node is not root for name in scope.bound_names(node)}:
        raise Refused("the statement binds the network's name")
    if any(isinstance(above, ast.Lambda) for above in source.ancestors(model)):
        raise Refused("the call is inside a lambda")


def _goes_on(job: Job) -> bool:
    """Whether a loop around the evaluation also trains, without a train() of its own."""
    for role, site in job.repair.sites.items():
        if not role.startswith("via"):
            continue
        try:
            source = job.source(site)
        except Refused:
            continue
        here = next((n for n in source.at(site) if isinstance(n, ast.expr)), None)
        for loop in source.ancestors(here) if here is not None else ():
            if isinstance(loop, scope.LOOPS):
                methods = _methods(source, loop)
                if methods & _TRAINS and "train" not in methods:
                    return True
    return False


def _methods(source: Source, loop: ast.AST, depth: int = 0) -> set[str]:
    """Names of methods called in a loop, and in the file's own functions that it calls."""
    found: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
            found |= {name} if isinstance(node.func, ast.Attribute) else set()
            own = [f for f in ast.walk(source.tree) if isinstance(f, ast.FunctionDef) and f.name == name]
            if depth < 2 and len(own) == 1:
                found |= _methods(source, own[0], depth + 1)
    return found


def _free(source: Source, statement: ast.stmt, name: str) -> str:
    taken = {n.id for n in ast.walk(scope.scope_of(source, statement)) if isinstance(n, ast.Name)}
    return next(one for one in (name, f"{name}_", f"evaluated_{name}") if one not in taken)
