"""Numbers that are set once: an optimizer's eps and rate, an epsilon, a switch of a loss or of autocast."""

from __future__ import annotations

import ast
from collections.abc import Callable

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import constant, default_of, is_number, literal_of, operation
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.wording import number
from numdebug.optimizers import OPTAX

_OPTIMIZERS = frozenset(
    """SGD Adam AdamW RMSprop Adagrad Adadelta Adamax NAdam RAdam ASGD LBFGS Rprop SparseAdam Adafactor Muon Lion LAMB
    FusedAdam Adam8bit AdamW8bit""".split()
)
_SCHEDULES = frozenset("exponential_decay cosine_decay_schedule constant_schedule linear_schedule polynomial_schedule".split())
_SCHEDULES |= frozenset("ExponentialDecay CosineDecay PolynomialDecay InverseTimeDecay piecewise_constant_schedule".split())
_WITH_EPS = _OPTIMIZERS - {"SGD", "ASGD", "LBFGS", "Rprop", "Lion"}
_EPS_AT = {"Adam": 3, "AdamW": 3, "RMSprop": 3, "Adadelta": 3, "Adamax": 3, "NAdam": 3, "RAdam": 3, "Adagrad": 5}


def set_keyword(job: Job, source: Source, call: ast.Call, name: str, text: str, position: int | None = None) -> None:
    """Give a call a keyword argument, or change the one it has."""
    for keyword in call.keywords:
        if keyword.arg == name:
            job.replace(source, keyword.value, text)
            return
    if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
        raise Refused("arguments that cannot be seen")
    if position is not None and len(call.args) > position:
        job.replace(source, call.args[position], text)
        return
    given = [*call.args, *(k.value for k in call.keywords)]
    if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.GeneratorExp):
        raise Refused("a bare generator")
    end = source.span(call)[1] - 1
    if not given:
        job.put(source, end, end, f"{name}={text}")
        return
    last = max(source.span(g)[1] for g in given)
    rest = source.data[last:end]
    code = b"".join(line.split(b"#")[0] for line in rest.splitlines())
    if b"," in code:  # a trailing comma: the same style for the new one
        if b"#" in rest[: rest.index(b",")]:
            raise Refused("a comment before the comma")
        if b"\n" in rest:  # a line of its own, after the comment of the line before
            at = last + len(rest[: rest.index(b"\n")].rstrip())
            job.put(source, at, at, f"\n{_indent(source, given[-1])}{name}={text},")
        else:
            at = last + rest.index(b",") + 1
            job.put(source, at, at, f" {name}={text}")
        return
    at = last + len(code.rstrip()) if code.strip() else last
    if code.strip() and b"#" in rest:
        raise Refused("a comment among the arguments")
    job.put(source, at, at, f", {name}={text}")


def _indent(source: Source, node: ast.expr) -> str:
    line = source.data[source.offset(node.lineno, 0) :]
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def _constructor(source: Source, node: ast.AST, names: frozenset[str] | set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    home, _, last = (spelling.means(source, node.func) or "").rpartition(".")
    return last in names or names is _OPTIMIZERS and home.split(".")[0] == "optax" and last in OPTAX


def is_optimizer(source: Source, node: ast.AST) -> bool:
    """Whether a call makes an optimizer."""
    return _constructor(source, node, _OPTIMIZERS)


def find_constructor(job: Job, role: str, names: frozenset[str] | set[str]) -> tuple[Source, ast.Call]:
    """The call at the span, or the only such call in the file."""
    source = job.source(job.repair.sites[role])
    try:
        return job.find(role, ast.Call, lambda n: _constructor(source, n, names))
    except Refused:
        made = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and _constructor(source, n, names)]
        if len(made) != 1:
            raise
        return source, made[0]


@form("optimizer_eps")
def write_optimizer_eps(job: Job) -> None:
    """Set the optimizer's eps."""
    eps = job.literal("eps")
    if eps is None:
        raise Refused("no eps")
    for role in job.each():
        source, call = find_constructor(job, role, _WITH_EPS)
        name = (scope.dotted(call.func) or "").rpartition(".")[2]
        old = next((k.value for k in call.keywords if k.arg == "eps"), None)
        if old is not None and not is_number(old):
            change_bound(job, source, old, lambda _: eps)
            continue
        set_keyword(job, source, call, "eps", eps, _EPS_AT.get(name))


# -- the learning rate -------------------------------------------------------------------------------------------


@form("learning_rate")
def write_learning_rate(job: Job) -> None:
    """Multiply the literal that the rate comes from by a factor."""
    factor = job.get("factor", 0.1)
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < float("inf"):
        raise Refused("no factor")

    def scaled(old: float) -> str:
        value = float(f"{old * factor:.12g}")
        return number(value)

    for role in job.each():
        source, node = _rate(job, role)
        change_bound(job, source, node, scaled)


def _rate(job: Job, role: str) -> tuple[Source, ast.expr]:
    site = job.repair.sites[role]
    source = job.source(site)
    here = source.at(site) or source.on_line(site)
    for node in here:
        if is_number(node) and isinstance(node, ast.expr) and not isinstance(source.parent(node), ast.UnaryOp):
            return source, node
        if _constructor(source, node, _OPTIMIZERS) and isinstance(node, ast.Call):
            return source, _lr(source, node)
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) if is_number(value):
                return source, value
            case ast.Assign(value=ast.Call() as value) if _constructor(source, value, _OPTIMIZERS):
                return source, _lr(source, value)
            case ast.AugAssign(op=ast.Sub() | ast.Add(), value=step):
                return source, _rate_in(source, step)
            case ast.Assign(value=ast.BinOp(op=ast.Sub() | ast.Add(), right=step)):
                return source, _rate_in(source, step)
            case ast.BinOp(op=ast.Mult()):
                return source, _rate_in(source, node)
            case ast.BinOp(op=ast.Sub() | ast.Add(), right=step) if isinstance(step, ast.BinOp):
                return source, _rate_in(source, step)
            case ast.arg():
                default = default_of(source.parent(source.parent(node) or node), node)
                if default is not None:
                    return source, default
        op = operation(source, node)
        if op is not None and op.name in {"sub", "add"}:
            alpha = op.keyword("alpha")
            if alpha is not None:
                return source, alpha
            if op.rest and isinstance(op.rest[0], ast.BinOp):
                return source, _rate_in(source, op.rest[0])
        if isinstance(node, ast.Name):
            return source, node
        if isinstance(node, ast.Call):
            given = next((k.value for k in node.keywords if k.arg in ("lr", "learning_rate", "step_size")), None)
            if given is not None:
                return source, given
    made = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and _constructor(source, n, _OPTIMIZERS)]
    steps = [n for node in here for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub)]
    steps = [n for n in dict.fromkeys(steps) if isinstance(n.right, ast.BinOp) and isinstance(n.right.op, ast.Mult)]
    if len(steps) == 1:  # tree.map(lambda p, g: p - lr * g, params, grads)
        return source, _rate_in(source, steps[0].right)
    if len(made) == 1 and (not here or any(_applies(n) for n in here)):
        return source, _lr(source, made[0])
    raise Refused("no rate here")


def _applies(node: ast.AST) -> bool:
    """Whether a line lets an optimizer that was made elsewhere take its steps."""
    called = [(scope.dotted(n.func) or "").rpartition(".")[2] for n in ast.walk(node) if isinstance(n, ast.Call)]
    return bool(set(called) & {"apply_updates", "apply_gradients", "apply", "update", "fit", "compile", "train_on_batch", "step"})


def _lr(source: Source, call: ast.Call) -> ast.expr:
    torch = (spelling.means(source, call.func) or "").split(".")[0] not in ("optax", "keras")
    value = next((k.value for k in call.keywords if k.arg in ("lr", "learning_rate")), None)
    if value is None and len(call.args) > torch:
        value = call.args[int(torch)]
    if value is None:
        raise Refused("the rate is the optimizer's default")
    definition = scope.reaching(source, value)
    planned = definition.value if definition is not None else value
    if not torch and _constructor(source, planned, _SCHEDULES) and isinstance(planned, ast.Call):
        first = next((k.value for k in planned.keywords if k.arg in ("init_value", "initial_learning_rate", "value")), None)
        return first if first is not None else planned.args[0] if planned.args else value
    return value


_RATES = ("lr", "learning_rate", "rate", "alpha", "eta", "step", "gamma", "mu", "epsilon")


def _rate_in(source: Source, step: ast.expr) -> ast.expr:
    """The rate in `rate * gradient`: a literal, or a name bound to one."""
    factors: list[ast.expr] = []
    todo = [step]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            todo += [node.right, node.left]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            todo.append(node.left)
        else:
            factors.append(node)
    literals = [f for f in factors if is_number(f)]
    if len(literals) == 1:
        return literals[0]
    named = [f for f in factors if any(r in (scope.dotted(f) or "").lower().rpartition(".")[2] for r in _RATES)]
    if not literals and len(named) == 1:
        return named[0]
    raise Refused("which factor is the rate")


def change_bound(job: Job, source: Source, node: ast.expr, new: Callable[[float], str]) -> None:
    """Change a literal, or the one literal that a name or attribute gets its value from."""
    if is_number(node):
        value = constant(source, node)
        if value is None:
            raise Refused("not a number")
        job.replace(source, node, new(value))
        return
    if isinstance(node, ast.BinOp):
        raise Refused("a computed value")
    origin = bound_literal(source, node)
    if isinstance(node, ast.Name) and origin is not None:
        home = scope.home(source, node, node.id)
        given = scope.bindings(home, node.id) if home is not None else []
        if len(given) == 1 and isinstance(given[0], ast.arg) and isinstance(home, ast.FunctionDef):
            passed = _passed(source, home, given[0])
            if passed:
                for value_node in passed:
                    change_bound(job, source, value_node, new)
                if not _called_without(source, home, given[0]):
                    return
    if origin is None:
        passed = parameter_values(source, node)
        if not passed:
            raise Refused("the value is not set in one place")
        for value_node in passed:
            change_bound(job, source, value_node, new)
        return
    value = constant(source, origin)
    if value is None:
        raise Refused("not a number")
    job.replace(source, origin, new(value))


def bound_literal(source: Source, node: ast.expr) -> ast.expr | None:
    """The literal a name stands for."""
    return literal_of(source, node)


def parameter_values(source: Source, node: ast.expr) -> list[ast.expr]:
    """What the calls in the file pass for a parameter."""
    if not isinstance(node, ast.Name):
        return []
    home = scope.home(source, node, node.id)
    given = scope.bindings(home, node.id) if home is not None else []
    if len(given) != 1 or not isinstance(given[0], ast.arg) or not isinstance(home, ast.FunctionDef):
        return []
    return _passed(source, home, given[0])


def _calls(source: Source, function: ast.FunctionDef) -> list[ast.Call]:
    owner = source.parent(function)
    name = function.name
    if isinstance(owner, ast.ClassDef) and name == "__init__":
        name = owner.name
    return [n for n in ast.walk(source.tree) if isinstance(n, ast.Call) and (scope.dotted(n.func) or "").rpartition(".")[2] == name]


def _argument(source: Source, function: ast.FunctionDef, arg: ast.arg, call: ast.Call) -> ast.expr | None:
    value = next((k.value for k in call.keywords if k.arg == arg.arg), None)
    positional = [*function.args.posonlyargs, *function.args.args]
    if isinstance(source.parent(function), ast.ClassDef):
        positional = positional[1:]
    if value is None and arg in positional and positional.index(arg) < len(call.args):
        value = call.args[positional.index(arg)]
    return value


def _passed(source: Source, function: ast.FunctionDef, arg: ast.arg) -> list[ast.expr]:
    values = [_argument(source, function, arg, c) for c in _calls(source, function)]
    return [v for v in values if v is not None]


def _called_without(source: Source, function: ast.FunctionDef, arg: ast.arg) -> bool:
    return any(_argument(source, function, arg, c) is None for c in _calls(source, function))


# -- epsilons ----------------------------------------------------------------------------------------------------


@form("epsilon")
def write_epsilon_value(job: Job) -> None:
    """Change the epsilon that vanishes to one that does not, where it is written."""
    eps = job.literal("eps")
    if eps is None:
        raise Refused("no eps")
    for role in job.each():
        site = job.repair.sites[role]
        source = job.source(site)
        tops = source.at(site) or source.on_line(site)
        found = [n for top in tops[:1] for n in _epsilons(source, top)]
        found = list({source.span(n): n for n in found}.values())
        if len(found) != 1:
            raise Refused(f"{len(found)} epsilons could be meant")
        change_bound(job, source, found[0], lambda _: eps)


def _epsilons(source: Source, top: ast.AST) -> list[ast.expr]:
    """Small numbers, and names bound to one, in an expression; the outermost of each."""
    if isinstance(top, ast.expr) and isinstance(top, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp):
        value = constant(source, top)
        if value is not None and 0 < abs(value) <= 1e-2:
            return [top]
        if isinstance(top, ast.Attribute) and not isinstance(top.value, ast.Name):
            return _epsilons(source, top.value)
        if isinstance(top, ast.UnaryOp):
            return _epsilons(source, top.operand)
        return []
    return [n for child in ast.iter_child_nodes(top) for n in _epsilons(source, child)]


# -- switches ----------------------------------------------------------------------------------------------------


@form("zero_infinity")
def write_zero_infinity(job: Job) -> None:
    """Set zero_infinity=True on the CTC loss."""
    for role in job.each():
        source, call = find_constructor(job, role, {"ctc_loss", "CTCLoss"})
        name = (scope.dotted(call.func) or "").rpartition(".")[2]
        set_keyword(job, source, call, "zero_infinity", "True", 6 if name == "ctc_loss" else 2)
