"""The forms that neither overflow nor underflow, in place of recorded operations: what `Replay` swaps in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from numdebug.graph import STRUCTURAL
from numdebug.observe.jax.interpret import Item
from numdebug.observe.jax.names import described
from numdebug.observe.jax.replay import Env, Swap, traced
from numdebug.report.model import Repair
from numdebug.run import CannotAsk

Form = Callable[[Sequence[Item], Repair, str], dict[int, Swap]]


def swaps(items: Sequence[Item], repairs: Sequence[Repair]) -> dict[int, Swap]:
    """By id of the Item: what stands in its place. Raises CannotAsk where a form has no replacement."""
    found: dict[int, Swap] = {}
    for repair in repairs:
        form = _FORMS.get(repair.form)
        if form is None:
            raise CannotAsk(f"{repair.form} cannot be tried on the recorded step")
        marks = [""]
        while f"target{len(marks) + 1}" in repair.ops:
            marks.append(str(len(marks) + 1))
        for mark in marks:
            found.update(form(items, repair, mark))
    return found


def _part(items: Sequence[Item], repair: Repair, role: str, mark: str) -> Item:
    place = repair.ops.get(role + mark)
    if place is None:
        raise CannotAsk(f"the recording does not know the {role} of this form")
    return items[place]


def _get(env: Env, item: Item, number: int = 0) -> Any:
    """The `number`-th array operand of an operation."""
    slot = described(item)[1][number] if item.primitive is not None else [s for s in item.operands if s.number is None][number]
    return env.get(id(slot), slot.array)


def _through(items: Sequence[Item], chain: Sequence[int], source: Item, start: Any, env: Env, skip: set[int]) -> Any:
    """`start` in place of what `source` returned, through the operations of `chain` but for those in `skip`."""
    current, previous = start, source
    for place in chain:
        item = items[place]
        if place not in skip:
            inner = {id(s) for s in previous.results}
            current = traced(item, {**env, **{id(s): current for s in item.operands if id(s) in inner}})[0]
        previous = item
    return current


def _skipped(items: Sequence[Item], places: Sequence[int]) -> set[int]:
    return {p for p in places if described(items[p])[0] not in STRUCTURAL}


def _log_softmax(items: Sequence[Item], repair: Repair, mark: str) -> dict[int, Swap]:
    target, source = _part(items, repair, "target", mark), _part(items, repair, "softmax", mark)
    chain, guards = repair.numbers.get("chain" + mark, []), repair.numbers.get("guards" + mark, [])
    exp = repair.ops.get("exp" + mark)
    dim = repair.numbers.get("dim" + mark, -1)
    axis = (dim[0] if dim else None) if isinstance(dim, list) else dim

    def swap(env: Env) -> Any:
        scores = _get(env, items[exp] if exp is not None else source)
        logs = scores if source.name == "exp" else jax.nn.log_softmax(scores, axis=axis if isinstance(axis, int) else -1)
        return _through(items, chain, source, logs, env, _skipped(items, [p for p in chain if p in guards]))

    return {id(target): swap}


def _softmax(items: Sequence[Item], repair: Repair, mark: str) -> dict[int, Swap]:
    target, exp = _part(items, repair, "target", mark), _part(items, repair, "exp", mark)
    dim = repair.numbers.get("dim" + mark)
    axis = tuple(dim) if isinstance(dim, list) and dim else dim if isinstance(dim, int) else None
    shape = target.results[0].array.shape
    return {id(target): lambda env: jnp.broadcast_to(jax.nn.softmax(_get(env, exp), axis=axis), shape)}


def _logsumexp(items: Sequence[Item], repair: Repair, mark: str) -> dict[int, Swap]:
    target, exp, total = (_part(items, repair, role, mark) for role in ("target", "exp", "sum"))
    numbers = repair.numbers
    if numbers.get("reduce" + mark) not in ("sum", "mean") or numbers.get("inner" + mark):
        raise CannotAsk("weights stand between the exponentials and their sum")
    chain, guards = numbers.get("chain" + mark, []), numbers.get("guards" + mark, [])
    dim = numbers.get("dim" + mark)
    axis = tuple(dim) if isinstance(dim, list) and dim else dim if isinstance(dim, int) else None

    def swap(env: Env) -> Any:
        scores = _get(env, exp)
        result = jax.nn.logsumexp(scores, axis=axis)
        if numbers.get("reduce" + mark) == "mean":
            result = result - jnp.log(scores.size / result.size)
        return _through(items, chain, total, result, env, _skipped(items, [p for p in chain if p in guards]))

    return {id(target): swap}


def _softplus(items: Sequence[Item], repair: Repair, mark: str) -> dict[int, Swap]:
    target, exp = _part(items, repair, "target", mark), _part(items, repair, "exp", mark)
    return {id(target): lambda env: jax.nn.softplus(_get(env, exp))}


def _log_sigmoid(items: Sequence[Item], repair: Repair, mark: str) -> dict[int, Swap]:
    target, source = _part(items, repair, "target", mark), _part(items, repair, "sigmoid", mark)
    exp = repair.ops.get("exp" + mark)
    sign = (-1.0 if repair.numbers.get("sign" + mark) == "-" else 1.0) * repair.numbers.get("argument_sign" + mark, 1)
    chain = repair.numbers.get("chain" + mark, [])

    def swap(env: Env) -> Any:
        logs = jax.nn.log_sigmoid(sign * _get(env, items[exp] if exp is not None else source))
        return _through(items, chain, source, logs, env, _skipped(items, chain))

    return {id(target): swap}


def _clamp_argument(items: Sequence[Item], repair: Repair, mark: str) -> dict[int, Swap]:
    target = _part(items, repair, "target", mark)
    lo, hi = repair.numbers.get("lo"), repair.numbers.get("hi")

    def swap(env: Env) -> Any:
        slot = described(target)[1][0]
        x = env.get(id(slot), slot.array)
        low = jnp.finfo(x.dtype).tiny if lo == "tiny" else jnp.finfo(x.dtype).eps if lo == "eps" else lo
        return traced(target, {**env, id(slot): jnp.clip(x, low, hi)})[0]

    return {id(target): swap}


_FORMS: dict[str, Form] = {
    "log_softmax": _log_softmax, "softmax": _softmax, "logsumexp": _logsumexp, "softplus": _softplus, "log_sigmoid": _log_sigmoid,
    "clamp_argument": _clamp_argument,
}  # fmt: skip
