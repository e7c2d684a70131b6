"""Clipping in its place, clipping where there is none, and memory that begins as zeros."""

from __future__ import annotations

import ast

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job, form
from numdebug.fixes.settings import is_optimizer, set_keyword
from numdebug.fixes.source import Refused


@form("unscale_before_clip")
def write_unscale(job: Job) -> None:
    """scaler.unscale_(optimizer) on a line of its own before the statement that clips."""
    source, step = job.find(
        "scaler", ast.Call, lambda n: isinstance(n.func, ast.Attribute) and n.func.attr == "step" and len(n.args) == 1 and not n.keywords
    )
    assert isinstance(step.func, ast.Attribute)
    scaler, optimizer = scope.dotted(step.func.value), scope.dotted(step.args[0])
    if scaler is None or optimizer is None:
        raise Refused("the scaler or its optimizer has no name")
    site = job.repair.sites.get("clip")
    if site is None or site.file != job.repair.sites["scaler"].file:
        raise Refused("the clipping is not called from where the scaler steps")
    here = source.at(site) or source.on_line(site)
    if not here:
        raise Refused("no call here")
    statement = source.statement(here[0])
    if scope.scope_of(source, statement) is not scope.scope_of(source, step):
        raise Refused("another function")
    for above in source.ancestors(statement):  # several passes of a loop would unscale more than once
        if isinstance(above, ast.For | ast.While) and step not in ast.walk(above):
            statement = above
    job.before(source, statement, f"{scaler}.unscale_({optimizer})")


@form("clip_by_norm")
def write_clip_by_norm(job: Job) -> None:
    """clip_grad_norm_ in place of clip_grad_value_."""
    limit = job.literal("limit")
    for role in job.each():
        if limit is not None and _by_norm(job, role, limit):
            continue
        source, call = job.find(role, ast.Call, lambda n: (scope.dotted(n.func) or "").rpartition(".")[2] == "clip_grad_value_")
        if len(call.args) != 2 or call.keywords or limit is None:
            raise Refused("other arguments than parameters and limit")
        if isinstance(call.func, ast.Attribute):
            name = f"{source.text(call.func.value)}.clip_grad_norm_"
        else:
            name = f"{spelling.torch(job, source, call)}.nn.utils.clip_grad_norm_"
        job.replace(source, call, f"{name}({source.text(call.args[0])}, {limit})")


def _by_norm(job: Job, role: str, limit: str) -> bool:
    """optax.clip and Keras's clipvalue, where the span or the file has one."""
    site = job.repair.sites[role]
    source = job.source(site)
    if spelling.framework(source).framework == "torch":
        return False
    calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call)]
    clips = [c for c in calls if spelling.means(source, c.func) == "optax.clip" and len(c.args) == 1 and isinstance(c.func, ast.Attribute)]
    values = [k for c in calls if (spelling.means(source, c.func) or "").startswith("keras.optimizers.") for k in c.keywords]
    values = [k for k in values if k.arg == "clipvalue"]
    if len(clips) + len(values) != 1:
        raise Refused("which clipping is meant")
    for call in clips:
        job.replace(source, call, f"{source.text(call.func)}_by_global_norm({limit})")
    for keyword in values:
        start, end = source.span(keyword)
        job.put(source, start, end, f"clipnorm={limit}")
    return True


@form("clip_gradients")
def write_clip_gradients(job: Job) -> None:
    """The optimizer clips by norm: a link before it in optax, an argument in Keras."""
    limit = job.literal("limit") or "1.0"
    source = job.source(job.repair.sites["target"])
    calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call)]
    made = [c for c in calls if is_optimizer(source, c)]
    if len(made) != 1:
        raise Refused("which optimizer is meant")
    home = (spelling.means(source, made[0].func) or "").split(".")[0]
    if home == "keras":
        set_keyword(job, source, made[0], "clipnorm", limit)
    elif home == "optax":
        optax = spelling.reached(job, source, "optax", made[0])
        link = f"{optax}.clip_by_global_norm({limit})"
        chain = source.parent(made[0])
        if isinstance(chain, ast.Call) and spelling.means(source, chain.func) == "optax.chain":
            start, _ = source.span(made[0])
            job.put(source, start, start, f"{link}, ")
        else:
            job.replace(source, made[0], f"{optax}.chain({link}, {source.text(made[0])})")
    else:
        raise Refused("clipping has a line of its own here")


@form("zeros")
def write_zeros(job: Job) -> None:
    """zeros in place of empty."""
    names = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}
    for role in job.each():
        source, call = job.find(role, ast.Call, lambda n: isinstance(n.func, ast.Attribute) and n.func.attr in names)
        assert isinstance(call.func, ast.Attribute)
        end = source.span(call.func)[1]
        job.put(source, end - len(call.func.attr), end, names[call.func.attr])
