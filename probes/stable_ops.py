"""Which formulas are written in a form that overflows, underflows or cancels where a stable form does not?

Measures  every naive form on the graph (softmax, log of softmax or sigmoid, log-sum-exp, softplus, log of a product, root of squares),
          matched after reshapes, casts and guards are looked through, with the range of its argument.
Costs     nothing beyond the recorded step.
Misses    a form that is spread over several steps, or whose parts are joined by an operation it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numdebug.evidence import Evidence, Number
from numdebug.forms import Form, find
from numdebug.graph import is_guard
from numdebug.recording import Recording, Value
from numdebug.run import Run

QUESTION = "Which formulas are written in a form that fails where a stable form does not?"


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each naive form, in the order of execution."""
    for form in find(run.recording, lambda value: _is_mask(run, value)):
        yield _fact(run, form)


def _is_mask(run: Run, value: Value) -> bool:
    array = run.array(value)
    return array is not None and bool((array == 1).any()) and bool(((array == 0) | (array == 1)).all())


def _fact(run: Run, form: Form) -> Evidence:
    numbers = {}
    if form.argument is not None:
        stats = run.stats(form.argument)
        if stats.highest is not None and stats.lowest is not None:
            numbers["largest_argument"] = Number(stats.highest)
            numbers["smallest_argument"] = Number(stats.lowest)
    sites = {role: op.site for role, op in {"target": form.target, **form.parts}.items() if op.site is not None}
    facts: dict[str, Any] = {"form": form.name, "members": sorted(form.members), "chain": [op.index for op in form.chain]}
    facts["guards"] = [op.index for op in form.chain if is_guard(op)]
    facts["numbers"] = {k: v for k, v in form.numbers.items() if v is not None}
    facts["only_feeds_log"] = _only_feeds(run.recording, form)
    ops = {"target": form.target.index, **{role: op.index for role, op in form.parts.items()}}
    at = form.target
    return Evidence("naive-form", "stable_ops", site=at.site, op=at.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _only_feeds(recording: Recording, form: Form) -> bool:
    """Whether the inner function's result goes nowhere but into logs (so that it may return the log itself)."""
    source = form.parts.get("softmax") or form.parts.get("sigmoid")
    if source is None:
        return False
    todo = list(source.outputs)
    while todo:
        for user in recording.consumers(todo.pop()):
            if user.phase != "forward" or user.name in ("log", "log2", "log10", "log1p"):
                continue
            if user.name == "detach" and not any(u.phase == "forward" for v in user.outputs for u in recording.consumers(v)):
                continue  # autograd keeps the result for backward
            if user.index not in form.members:
                return False
            todo.extend(user.outputs)
    return True
