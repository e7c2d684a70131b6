"""How a network is put together and trained: an activation that goes or gets a slope, a time step, eval mode."""

from __future__ import annotations

import ast
from dataclasses import replace

from numdebug.fixes import layers, scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.operations import constant, is_number, is_op
from numdebug.fixes.settings import bound_literal, change_bound, parameter_values, set_keyword
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.wording import number
from numdebug.fixes.words import words

_PROBABILITIES = {"torch.nn.Softmax", "torch.nn.Sigmoid", "torch.nn.Softmax2d", "torch.nn.modules.activation.Softmax"}


@form("no_activation")
def write_no_activation(job: Job) -> None:
    """The argument instead of its softmax or sigmoid; `nn.Identity()` where a module stands in a Sequential."""
    for role in job.each():
        if layers.without_activation(job, role):
            continue
        source, call = _probabilities_at(job, role)
        if spelling.means(source, call.func) in _PROBABILITIES:
            job.replace(source, call, f"{(scope.dotted(call.func) or '').rpartition('.')[0]}.Identity()")
            continue
        op = is_op(source, call, "softmax", "sigmoid")
        operand = op.operand if op is not None else call.args[0] if len(call.args) == 1 else None
        if operand is None or (op is None and call.keywords):
            raise Refused("no argument to keep")
        job.replace(source, call, source.text(operand))


def _probabilities_at(job: Job, role: str) -> tuple[Source, ast.Call]:
    return job.find(role, ast.Call, lambda call: _activation(job, role, call))


def _activation(job: Job, role: str, call: ast.Call) -> bool:
    source = job.source(job.repair.sites[role])
    if is_op(source, call, "softmax", "sigmoid") is not None:
        return True
    if spelling.means(source, call.func) in _PROBABILITIES:
        return "." in (scope.dotted(call.func) or "")
    definition = scope.reaching(source, call.func)
    return definition is not None and isinstance(definition.value, ast.Call) and _means(source, definition.value) in _PROBABILITIES


def _means(source: Source, call: ast.Call) -> str | None:
    return spelling.means(source, call.func)


@form("leaky_relu")
def write_leaky_relu(job: Job) -> None:
    """The same place with a slope on both sides."""
    for role in job.each():
        source, call = _relu_at(job, role)
        if spelling.means(source, call.func) == "torch.nn.ReLU":
            before = (scope.dotted(call.func) or "").rpartition(".")[0]
            if not before:
                raise Refused("ReLU was imported by its own name")
            given = ", ".join(source.text(k) for k in call.keywords) or ", ".join(f"inplace={source.text(a)}" for a in call.args)
            job.replace(source, call, f"{before}.LeakyReLU({given})")
            continue
        op = is_op(source, call, "relu")
        if op is None or op.rest or call.keywords:
            raise Refused("arguments of relu that leaky_relu does not have")
        job.replace(source, call, words(job, source, call).call("leaky_relu", source.text(op.operand)))


def _relu_at(job: Job, role: str) -> tuple[Source, ast.Call]:
    source = job.source(job.repair.sites[role])
    return job.find(
        role, ast.Call, lambda call: is_op(source, call, "relu") is not None or spelling.means(source, call.func) == "torch.nn.ReLU"
    )


@form("log_of_it")
def write_log_softmax_for_softmax(job: Job) -> None:
    """log_softmax where softmax stands."""
    for role in job.each():
        source, call = _probabilities_at(job, role)
        name = {"softmax": "log_softmax", "Softmax": "LogSoftmax"}.get((scope.dotted(call.func) or "").rpartition(".")[2])
        if name is None or not isinstance(call.func, ast.Attribute):
            raise Refused("not a softmax by its own name")
        end = source.span(call.func)[1]
        job.put(source, end - len(call.func.attr), end, name)


@form("initial_bias")
def write_initial_bias(job: Job) -> None:
    """The number that a bias is filled with becomes 0; where no number is written, the ReLU gets a slope."""
    site = job.repair.sites["target"]
    source = job.source(site)
    calls = [n for n in (source.at(site) or source.on_line(site)) if isinstance(n, ast.Call) and _fills(n)]
    values = [a for call in calls[:1] for a in (*call.args, *(k.value for k in call.keywords if k.arg in ("val", "value", "fill_value")))]
    values = [v for v in values if is_number(v)]
    if len(values) == 1:
        job.replace(source, values[0], "0.0")
        return
    if "relu" not in job.repair.sites:
        raise Refused("no ReLU to change")
    job.repair = replace(job.repair, sites={"target": job.repair.sites["relu"]})
    write_leaky_relu(job)


def _fills(call: ast.Call) -> bool:
    return (scope.dotted(call.func) or "").rpartition(".")[2].rstrip("_").lower() in ("constant", "fill", "full", "full_like")


_SPREAD = {"normal": ("std", 2, 1.0), "trunc_normal": ("std", 2, 1.0)}
_GAINED = {"xavier_normal": 1, "xavier_uniform": 1, "orthogonal": 1}


@form("initial_scale")
def write_initial_scale(job: Job) -> None:
    """Divide the scale of initial weights by what they amplify."""
    for role in job.each():
        gain = job.get("gain")
        if not isinstance(gain, int | float) or gain <= 0:
            raise Refused("no gain")
        site = job.repair.sites[role]
        source = job.source(site)
        here = source.at(site) or source.on_line(site)
        node = next((n for n in here if isinstance(n, ast.Call | ast.BinOp)), None)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            factor = next((side for side in (node.left, node.right) if is_number(side)), None)
            value = constant(source, factor)
            if factor is None or value is None:
                raise Refused("no factor")
            job.replace(source, factor, number(_rounded(value / gain)))
        elif isinstance(node, ast.Call):
            _scale_call(job, source, node, float(gain))
        else:
            raise Refused("no scale is written here")


def _scale_call(job: Job, source: Source, call: ast.Call, gain: float) -> None:
    if layers.scaled_draw(job, source, call, gain):
        return
    name = (scope.dotted(call.func) or "").rpartition(".")[2].rstrip("_")
    if isinstance(call.func, ast.Attribute) and not name.startswith("rand") and "init" not in (scope.dotted(call.func) or ""):
        raise Refused("a method whose arguments lie elsewhere")
    if name in _SPREAD:
        keyword, position, default = _SPREAD[name]
        given = next((k.value for k in call.keywords if k.arg == keyword), call.args[position] if len(call.args) > position else None)
        value = constant(source, given) if given is not None else default
        if value is None:
            raise Refused("the spread is computed")
        set_keyword(job, source, call, keyword, number(_rounded(value / gain)), position)
    elif name in _GAINED:
        given = next((k.value for k in call.keywords if k.arg == "gain"), call.args[1] if len(call.args) > 1 else None)
        value = constant(source, given) if given is not None else 1.0
        if value is None:
            raise Refused("the gain is computed")
        set_keyword(job, source, call, "gain", number(_rounded(value / gain)), 1)
    elif name == "uniform" and len(call.args) == 3 and all(constant(source, a) is not None for a in call.args[1:]):
        for bound in call.args[1:]:
            job.replace(source, bound, number(_rounded((constant(source, bound) or 0.0) / gain)))
    elif name in ("randn", "rand"):
        job.replace(source, call, f"{source.text(call)} * {number(_rounded(1 / gain))}")
    else:
        raise Refused("an unknown initialisation")


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


@form("time_step")
def write_time_step(job: Job) -> None:
    """Multiply the step h of x + h * f(x) by a factor, where its number is written."""
    factor = job.get("factor", 0.2)
    for role in job.each():
        source, total = job.find(role, ast.BinOp, lambda n: isinstance(n.op, ast.Add | ast.Sub))
        factors: list[ast.expr] = []
        for side in (total.left, total.right):
            while isinstance(side, ast.BinOp) and isinstance(side.op, ast.Div):  # h * f(x) / c
                side = side.left
            if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult):
                factors += [f for f in _factors(side) if is_number(f) or isinstance(f, ast.Name | ast.Attribute)]
        numbers = [f for f in factors if is_number(f)]
        bound = numbers or [f for f in factors if bound_literal(source, f) is not None or parameter_values(source, f)]
        if len(bound) != 1:
            raise Refused("which factor is the step")
        change_bound(job, source, bound[0], lambda old: number(_rounded(old * factor)))


def _factors(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]
