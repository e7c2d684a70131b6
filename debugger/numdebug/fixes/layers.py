"""Layers that are described by their arguments, as Keras and JAX have them: activations, initial weights, number types."""

from __future__ import annotations

import ast

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job
from numdebug.fixes.operations import constant, is_number
from numdebug.fixes.settings import set_keyword
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.wording import number

_PROBABILITIES = {"softmax", "sigmoid", "Softmax"}
_DRAWS = {"jax.random.normal", "jax.random.truncated_normal", "numpy.random.randn", "numpy.random.normal", "numpy.random.standard_normal"}
_SPREADS = {"RandomNormal", "TruncatedNormal"}


def without_activation(job: Job, role: str) -> bool:
    """Whether a layer's `activation="softmax"` was taken out: the one at the span, else the only one of the file."""
    site = job.repair.sites[role]
    source = job.source(site)
    if spelling.framework(source).framework == "torch":
        return False
    here = [k for node in (source.at(site) or source.on_line(site)) for k in _activations(source, node)]
    found = list(dict.fromkeys(here)) or list(_activations(source, source.tree))
    calls = [n for node in source.at(site) for n in ast.walk(node) if isinstance(n, ast.Call)]
    if not here and any(_last(source, c.func) in _PROBABILITIES for c in calls):
        return False  # a call of softmax itself
    if not found:
        return False
    if len(found) > 1:
        raise Refused("several layers have such an activation")
    keyword, call = found[0]
    if keyword is None:
        _drop_layer(job, source, call)
    else:
        _drop_keyword(job, source, call, keyword)
    return True


def _activations(source: Source, top: ast.AST) -> list[tuple[ast.keyword | None, ast.Call]]:
    found: list[tuple[ast.keyword | None, ast.Call]] = []
    for call in (n for n in ast.walk(top) if isinstance(n, ast.Call)):
        for keyword in call.keywords:
            if keyword.arg in ("activation", "final_activation") and _last(source, keyword.value) in _PROBABILITIES:
                found.append((keyword, call))
        full = spelling.means(source, call.func) or ""
        if full in ("keras.layers.Softmax", "keras.layers.Activation"):
            if full.endswith("Softmax") or call.args and _last(source, call.args[0]) in _PROBABILITIES:
                found.append((None, call))
    return found


def _last(source: Source, node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return (spelling.means(source, node) or "").rpartition(".")[2] or None


def _drop_keyword(job: Job, source: Source, call: ast.Call, keyword: ast.keyword) -> None:
    start, end = source.span(keyword)
    given = [*call.args, *call.keywords]
    index = given.index(keyword)
    if index > 0:
        start = source.span(given[index - 1])[1]
    elif len(given) > 1:
        end = source.span(given[1])[0]
    job.put(source, start, end, "")


def _drop_layer(job: Job, source: Source, call: ast.Call) -> None:
    parent = source.parent(call)
    if isinstance(parent, ast.Call) and parent.func is call and len(parent.args) == 1:  # layers.Softmax()(x)
        job.replace(source, parent, source.text(parent.args[0]))
        return
    if not isinstance(parent, ast.List) or parent.elts[-1] is not call or len(parent.elts) < 2:
        raise Refused("the layer cannot be taken out")
    job.put(source, source.span(parent.elts[-2])[1], source.span(call)[1], "")


# -- initial weights ---------------------------------------------------------------------------------------------


def scaled_draw(job: Job, source: Source, call: ast.Call, gain: float) -> bool:
    """Whether a draw of initial weights was scaled: its own factor, its spread, or a factor put before it."""
    full = spelling.means(source, call.func) or ""
    parent = source.parent(call)
    if full in _DRAWS or (scope.dotted(call.func) or "").rpartition(".")[2] in ("standard_normal",):
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
            factor = next((side for side in (parent.left, parent.right) if is_number(side)), None)
            value = constant(source, factor)
            if factor is not None and value is not None:
                job.replace(source, factor, number(_rounded(value / gain)))
                return True
        job.replace(source, call, f"{number(_rounded(1 / gain))} * {source.text(call)}")
        return True
    name = full.rpartition(".")[2]
    if name in _SPREADS or "initializers" in full and name in ("normal", "truncated_normal"):
        key = "stddev"
        given = next((k.value for k in call.keywords if k.arg == key), None)
        position = None if full.startswith("keras") else 0
        given = call.args[0] if given is None and position == 0 and call.args else given
        value = constant(source, given) if given is not None else {"keras": 0.05}.get(full.split(".")[0], 0.01)
        if value is None:
            raise Refused("the spread is computed")
        set_keyword(job, source, call, key, number(_rounded(value / gain)), position)
        return True
    return False


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


# -- number types ------------------------------------------------------------------------------------------------

_HALVES = {"jax.numpy.float16", "numpy.float16"}


def wider_range(job: Job, source: Source) -> None:
    """Every float16 that the file chooses becomes bfloat16, whose range is that of float32; in NumPy, float32."""
    framework = spelling.framework(source).framework
    wider = "float32" if framework == "numpy" else "bfloat16"
    found = False
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and spelling.means(source, node) in _HALVES:
            end = source.span(node)[1]
            job.put(source, end - len(node.attr), end, wider)
            found = True
        elif isinstance(node, ast.Constant) and node.value in ("float16", "mixed_float16") and _is_dtype(source, node):
            job.replace(source, node, f'"{str(node.value).replace("float16", wider)}"')
            found = True
    if not found:
        raise Refused("no float16 is written here")


def _is_dtype(source: Source, node: ast.Constant) -> bool:
    parent = source.parent(node)
    if isinstance(parent, ast.keyword):
        return parent.arg is not None and "dtype" in parent.arg
    if isinstance(parent, ast.Call) and node in parent.args:
        last = (scope.dotted(parent.func) or "").rpartition(".")[2]
        return last in ("astype", "cast", "dtype") or "policy" in last.lower()
    return isinstance(parent, ast.Assign)


__all__ = ["scaled_draw", "wider_range", "without_activation"]
