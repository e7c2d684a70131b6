"""Evaluates the calls of a recorded window equation by equation: jit, scan, while, cond, remat and custom rules are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from numdebug.observe.frames import Place
from numdebug.observe.jax.evaluate import compute, host
from numdebug.observe.jax.sites import Library, Sites, draws

MOST = 60_000  # equations evaluated for one window; loops beyond it run natively
_CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vmap_call": "call", "core_closed_call": "call_jaxpr",
}  # fmt: skip


class Slot:
    """One array at one moment. `array`: NumPy's, or a random key. `number`: it is this plain number of the program, however broadcast."""

    __slots__ = ("array", "given", "item", "number", "source")

    def __init__(self, array: Any, item: Item | None = None, number: Any = None) -> None:
        self.array = array
        self.item = item
        self.number = number
        self.source: Any = None  # the program's own array object, of what came from outside
        self.given = False


@dataclass(eq=False)
class Item:
    """One evaluated primitive (or a group of them that a library function makes)."""

    primitive: Any
    name: str
    params: dict[str, Any]
    operands: list[Slot]
    results: list[Slot]
    places: tuple[Place, ...]
    library: Library
    phase: str
    loop: tuple[str, ...]
    step: int
    entry: int
    key: int  # of its traceback: what was traced at one moment
    jitted: bool
    given: bool = False
    calls: tuple[int, ...] = ()
    forward: Item | None = None
    parts: list[Item] = field(default_factory=list)
    scope: tuple[str, ...] = ()  # name scopes: layers of Flax and Keras

    def again(self, arrays: Sequence[Any], wide: bool) -> list[Any]:
        """The results for other operands."""
        return compute(self.primitive, self.params, [r.array.dtype for r in self.results], arrays, wide)


@dataclass(frozen=True)
class Context:
    """Where a piece of jaxpr stands."""

    places: tuple[Place, ...]
    library: Library
    phase: str
    loop: tuple[str, ...]
    step: int
    entry: int
    jitted: bool
    calls: tuple[int, ...] = ()
    scope: tuple[str, ...] = ()


class Interpreter:
    """`items` in order of execution."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self.items: list[Item] = []
        self.incomplete: str | None = None
        self._calls = count()

    # -- one call of the program's ---------------------------------------------------------------------------------

    def call(self, primitive: Any, params: dict[str, Any], args: list[Slot], outs: Sequence[Any], context: Context, key: int) -> list[Slot]:
        """A call that the program made, with the results that it got (on the host)."""
        if primitive.name in ("jit", "pjit") and not any(draws(file) for _, file in context.library):
            closed = params["jaxpr"]
            inner = self._inside(context, params.get("name", ""), closed)
            results = self._run(closed.jaxpr, [Slot(host(c)) for c in closed.consts], args, inner)
            passed = {id(a) for a in args}
            for slot, array in zip(results, outs, strict=True):
                if id(slot) not in passed and slot.number is None:
                    slot.array = array
            return results
        return self._primitive(primitive, params, args, context, key, outs)

    def _inside(self, context: Context, name: str, closed: Any, places: tuple[Place, ...] | None = None, library: Library = ()) -> Context:
        info = getattr(getattr(closed, "jaxpr", closed), "debug_info", None)
        file = str(getattr(info, "func_filename", "") or "")
        return replace(
            context,
            places=context.places if places is None else places,
            library=(*context.library, *library, (name, file)),
            calls=(*context.calls, next(self._calls)),
        )

    # -- jaxprs ----------------------------------------------------------------------------------------------------

    def _run(self, jaxpr: Any, consts: Sequence[Slot], args: Sequence[Slot], context: Context) -> list[Slot]:
        env: dict[Any, Slot] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(var: Any) -> Slot:
            if isinstance(var, Literal):
                value = np.asarray(var.val, dtype=var.aval.dtype)
                return Slot(value, number=value.item() if value.ndim == 0 else None)
            return env[var]

        for eqn in jaxpr.eqns:
            results = self._equation(eqn, [read(v) for v in eqn.invars], context)
            env.update((v, r) for v, r in zip(eqn.outvars, results, strict=True) if type(v).__name__ != "DropVar")
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        source = eqn.source_info
        places, library = self.sites.of(source.traceback)
        stack = str(source.name_stack)
        phase = "backward" if "transpose" in stack or "rematted_computation" in stack else context.phase
        if places:
            here = replace(context, places=_joined(places, context.places), library=library, phase=phase)
        else:
            here = replace(context, library=(*context.library, *library), phase=phase)
        scope = tuple(e.name for e in source.name_stack.stack if type(e).__name__ == "Scope")
        if scope:
            here = replace(here, scope=(*context.scope, *scope))
        name = eqn.primitive.name
        if name in _CALLS:
            inner = eqn.params[_CALLS[name]]
            closed = hasattr(inner, "jaxpr")
            consts = [Slot(host(c)) for c in inner.consts] if closed else []
            label = eqn.params.get("name") or name
            return self._run(inner.jaxpr if closed else inner, consts, args, self._inside(here, str(label), inner))
        if name == "scan":
            return self._scan(eqn, args, here)
        if name == "while":
            return self._while(eqn, args, here)
        if name == "cond":
            return self._cond(eqn, args, here)
        if name == "custom_linear_solve":
            return self._solve(eqn, args, here)
        return self._primitive(eqn.primitive, eqn.params, args, here, id(source.traceback), None, [v.aval for v in eqn.outvars])

    def _primitive(
        self, primitive: Any, params: dict[str, Any], args: list[Slot], context: Context, key: int, outs: Sequence[Any] | None,
        avals: Sequence[Any] = (),
    ) -> list[Slot]:  # fmt: skip
        given = False
        if outs is None:
            arrays = compute(primitive, params, [a.dtype for a in avals], [a.array for a in args], False)
        else:
            arrays = list(outs)
        if args and all(a.number is not None for a in args) and all(_uniform(a) for a in arrays):
            return [Slot(a, number=a.flat[0].item()) for a in arrays]
        if any(not isinstance(a, np.ndarray) for a in (*arrays, *(s.array for s in args))):
            given = True  # random keys
        results = [Slot(a) for a in arrays]
        item = Item(
            primitive, primitive.name, params, args, results, context.places, context.library, context.phase, context.loop, context.step,
            context.entry, key, context.jitted, given, context.calls, scope=context.scope,
        )  # fmt: skip
        for slot in results:
            slot.item = item
        self.items.append(item)
        return results

    # -- control flow ----------------------------------------------------------------------------------------------

    def _scan(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        p = eqn.params
        n, m = p["num_consts"], p["num_consts"] + p["num_carry"]
        consts, carry, xs = args[:n], args[n:m], args[m:]
        body, length = p["jaxpr"], p["length"]
        inner_consts = [Slot(host(c)) for c in body.consts]
        if len(self.items) + length * _size(body.jaxpr) > MOST:
            return self._natively(eqn, args, context)
        order = range(length - 1, -1, -1) if p["reverse"] else range(length)
        many = len(body.out_avals) - p["num_carry"]
        columns: list[dict[int, Slot]] = [{} for _ in range(many)]
        for index in order:
            row = [self._pick(x, index, context) for x in xs]
            here = replace(context, loop=(*context.loop, f"scan#{index}"), calls=(*context.calls, next(self._calls)))
            outs = self._run(body.jaxpr, inner_consts, [*consts, *carry, *row], here)
            carry = outs[: p["num_carry"]]
            for column, slot in zip(columns, outs[p["num_carry"] :], strict=True):
                column[index] = slot
        stacked = [
            self._stack([column[i] for i in range(length)], aval, context)
            for column, aval in zip(columns, [v.aval for v in eqn.outvars[p["num_carry"] :]], strict=True)
        ]
        return [*carry, *stacked]

    def _natively(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        """A loop too long to be opened: one operation, computed by JAX."""
        self.incomplete = "a loop is too long to be looked into"
        return self._primitive(eqn.primitive, eqn.params, args, context, id(eqn), None, [v.aval for v in eqn.outvars])

    def _while(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        p = eqn.params
        test, body = p["cond_jaxpr"], p["body_jaxpr"]
        n, m = p["cond_nconsts"], p["body_nconsts"]
        test_consts, body_consts, carry = args[:n], args[n : n + m], args[n + m :]
        inner = [Slot(host(c)) for c in body.consts]
        outer = [Slot(host(c)) for c in test.consts]
        for index in count():
            here = replace(context, loop=(*context.loop, f"while#{index}"), calls=(*context.calls, next(self._calls)))
            (go,) = self._run(test.jaxpr, outer, [*test_consts, *carry], here)
            if not np.any(go.array):
                return list(carry)
            if len(self.items) > MOST:
                rest = self._primitive(eqn.primitive, p, [*args[: n + m], *carry], context, id(eqn), None, [v.aval for v in eqn.outvars])
                self.incomplete = "a loop is too long to be looked into"
                return rest
            new = self._run(body.jaxpr, inner, [*body_consts, *carry], here)
            if go.array.ndim:  # batched: lanes that have stopped keep their carry
                new = [self._masked(go, before, after, here) for before, after in zip(carry, new, strict=True)]
            carry = new
        raise AssertionError

    def _cond(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        index, *rest = args
        branches = eqn.params["branches"]
        chosen = min(max(int(index.array), 0), len(branches) - 1)
        closed = branches[chosen]
        here = replace(context, loop=(*context.loop, f"cond#{chosen}"), calls=(*context.calls, next(self._calls)))
        return self._run(closed.jaxpr, [Slot(host(c)) for c in closed.consts], rest, here)

    def _solve(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        start = lengths.matvec + lengths.vecmat
        consts = args[start : start + lengths.solve]
        right = args[start + lengths.solve + lengths.transpose_solve :]
        closed = jaxprs.solve
        return self._run(closed.jaxpr, [Slot(host(c)) for c in closed.consts], [*consts, *right], self._inside(context, "solve", closed))

    # -- pieces of control flow, as operations ---------------------------------------------------------------------

    def _pick(self, slot: Slot, index: int, context: Context) -> Slot:
        array = slot.array[index]
        if not isinstance(slot.array, np.ndarray):
            return Slot(array)
        return self._made("slice", [slot], np.asarray(array), lambda arrays, wide: [arrays[0][index]], context)

    def _stack(self, slots: list[Slot], aval: Any, context: Context) -> Slot:
        if not slots:
            return Slot(np.zeros(aval.shape, aval.dtype))
        if not isinstance(slots[0].array, np.ndarray):
            return Slot(jax.numpy.stack([s.array for s in slots]))
        array = np.stack([s.array for s in slots])
        return self._made("stack", slots, array, lambda arrays, wide: [np.stack(arrays)], context)

    def _masked(self, go: Slot, before: Slot, after: Slot, context: Context) -> Slot:
        if not isinstance(before.array, np.ndarray):
            return after
        shape = go.array.shape + (1,) * (before.array.ndim - go.array.ndim)

        def choose(arrays: Sequence[Any], wide: bool) -> list[Any]:
            return [np.where(arrays[0].reshape(shape), arrays[1], arrays[2])]

        return self._made("where", [go, after, before], choose([go.array, after.array, before.array], False)[0], choose, context)

    def _made(self, name: str, operands: list[Slot], array: np.ndarray, again: Any, context: Context) -> Slot:
        result = Slot(array)
        item = _Own(
            None, name, {}, operands, [result], context.places, context.library, context.phase, context.loop, context.step, context.entry,
            0, context.jitted, False, context.calls, scope=context.scope,
        )  # fmt: skip
        item.function = again
        result.item = item
        self.items.append(item)
        return result


class _Own(Item):
    """An operation of control flow, without a primitive of its own."""

    function: Any = None

    def again(self, arrays: Sequence[Any], wide: bool) -> list[Any]:
        return list(self.function(arrays, wide))


def _joined(inner: tuple[Place, ...], outer: tuple[Place, ...]) -> tuple[Place, ...]:
    """Frames inside a traced function, then those of its call."""
    return inner if inner[-len(outer) :] == outer else (*inner, *outer)


def _uniform(array: Any) -> bool:
    """One plain number, however often."""
    return isinstance(array, np.ndarray) and array.size > 0 and array.dtype.kind in "fiub" and bool((array == array.flat[0]).all())


def _size(jaxpr: Any) -> int:
    total = 0
    for eqn in jaxpr.eqns:
        inner = [v for v in eqn.params.values() if hasattr(v, "eqns") or hasattr(v, "jaxpr")]
        inner += list(eqn.params.get("branches", ()))
        length = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
        total += 1 + length * sum(_size(getattr(v, "jaxpr", v)) for v in inner)
    return total
