"""Evaluates the calls of a recorded window equation by equation: jit, scan, while, cond, remat and custom rules are opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from numdebug.observe.arrays.numbers import widened
from numdebug.observe.frames import Place
from numdebug.observe.jax.calls import CALLS
from numdebug.observe.jax.compiled import differs, explained
from numdebug.observe.jax.evaluate import compute
from numdebug.observe.jax.loops import Loop, finite, has_transpose, size
from numdebug.observe.jax.sites import Library, Sites, draws, scopes, transforms
from numdebug.observe.jax.structural import floating

MOST = 20_000  # equations evaluated for one window; of loops beyond it only some iterations are opened
_SIDE_EFFECTS = frozenset({"debug_callback", "debug_print", "io_callback", "print"})
OPENED = (3, 64)  # iterations of such a loop, at least and at most: the first that is not finite (or the last), and those before it
FEW = 6_000  # equations of one such loop that are evaluated in all, as long as that is enough for the fewest iterations


class Slot:
    """One array at one moment. `array`: NumPy's, or a random key. `number`: it is this plain number of the program, however broadcast."""

    __slots__ = ("array", "item", "number")

    def __init__(self, array: Any, item: Item | None = None, number: Any = None) -> None:
        self.array = array
        self.item = item
        self.number = number

    def constant(self, wide: bool) -> Any:
        """As an operand that nobody gives: in float64 if `wide`."""
        return widened(self.array) if wide and isinstance(self.array, np.ndarray) else self.array


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
    differentiated: bool = False  # evaluated on the way to a derivative

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
    differentiated: bool = False

    def place(self) -> dict[str, Any]:
        """What every Item that stands here has in common."""
        return {
            "places": self.places, "library": self.library, "phase": self.phase, "loop": self.loop, "step": self.step,
            "entry": self.entry, "jitted": self.jitted, "calls": self.calls, "scope": self.scope,
        }  # fmt: skip


class Interpreter:
    """`items` in order of execution."""

    def __init__(self, sites: Sites, outside: Callable[[Any], Slot]) -> None:
        self.sites = sites
        self.outside = outside  # the Slot of an array that the program holds
        self.items: list[Item] = []
        self.incomplete: str | None = None
        self.rounds: list[tuple[int, list[tuple[Slot, Slot, Slot]]]] = []  # of training loops: step, (at the start, before, after)
        self.handed: list[Slot] = []  # what the last round of a training loop hands on, its loss among them
        self.decisions: list[Slot] = []  # by which branches were taken and loops ended
        self._calls = count()

    # -- one call of the program's ---------------------------------------------------------------------------------

    def call(self, primitive: Any, params: dict[str, Any], args: list[Slot], outs: Sequence[Any], context: Context, key: int) -> list[Slot]:
        """A call that the program made, with the results that it got (on the host)."""
        if primitive.name in ("jit", "pjit") and not any(draws(file) for _, file in context.library):
            closed = params["jaxpr"]
            inner = self._inside(context, params.get("name", ""), closed)
            before = len(self.items)
            try:
                results = self._run(closed.jaxpr, self._constants(closed), args, inner)
            except Exception as why:  # a primitive that works only as the program calls it: the call stays closed
                del self.items[before:]
                name = params.get("name", "function")
                self.incomplete = f"the compiled function {name} could not be looked into ({_first_line(why)})"
                return self._closed(primitive, args, outs, inner, key)
            passed = {id(a) for a in args}
            for place, (slot, array) in enumerate(zip(results, outs, strict=True)):
                if id(slot) in passed or slot.number is not None:
                    continue
                if differs(slot.array, array):
                    results[place] = self._rewritten(closed, args, place, slot, array, inner)
                else:
                    slot.array = array
            return results
        return self._primitive(primitive, params, args, context, key, outs)

    def _closed(self, primitive: Any, args: list[Slot], outs: Sequence[Any], context: Context, key: int) -> list[Slot]:
        """A call as one operation, with the results that the program got."""
        results = [Slot(o) for o in outs]
        return self._add(Item(primitive, "call", {}, args, results, key=key, given=True, **context.place()))

    def _add(self, item: Item) -> list[Slot]:
        for slot in item.results:
            slot.item = item
        self.items.append(item)
        return item.results

    def _rewritten(self, closed: Any, args: list[Slot], place: int, slot: Slot, array: np.ndarray, context: Context) -> Slot:
        """The compiler made something else of an output: an operation of its own, at the equation that it rewrote."""
        written = slot.array
        why = explained(closed, [a.array for a in args], place, written)
        numbers = [v for v in getattr(why.equation, "invars", ()) if isinstance(v, Literal)] if why is not None else []
        shown = why is not None and (why.equation is not None or why.without_simplifier)  # else it is rounding in another order
        if why is None or not shown or numbers and why.equation.primitive.name in ("add", "sub"):  # an epsilon that vanished has a name
            slot.array = array
            return slot
        equation = why.equation
        places, library = self.sites.of(equation.source_info.traceback) if equation is not None else ((), ())
        item = slot.item
        here = replace(
            context,
            places=_joined(places, context.places) if places else item.places if item is not None else context.places,
            library=library,
            phase=item.phase if item is not None else context.phase,
        )
        made = self._made("compiled", [slot], array, lambda arrays, wide, xp: list(arrays), here)
        assert made.item is not None
        made.item.given = True
        made.item.params = {"equation": equation.primitive.name if equation is not None else "", "simplifier": why.without_simplifier}
        return made

    def _inside(self, context: Context, name: str, closed: Any) -> Context:
        info = getattr(getattr(closed, "jaxpr", closed), "debug_info", None)
        file = str(getattr(info, "func_filename", "") or "")
        return replace(
            context,
            library=(*context.library, (name, file)),
            calls=(*context.calls, next(self._calls)),
        )

    def _constants(self, closed: Any) -> list[Slot]:
        """Arrays that a traced function took from around it."""
        return [self.outside(c) for c in closed.consts]

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
        own, made_by = scopes(source.name_stack), transforms(source.name_stack)
        scope = (*context.scope, *own)
        places, library = self.sites.of(source.traceback, scope)
        phase = "backward" if "transpose" in made_by or "rematted_computation" in own else context.phase
        if "jvp" in made_by and not context.differentiated:
            context = replace(context, differentiated=True)
        if places:
            here = replace(context, places=_joined(places, context.places), library=library, phase=phase)
        else:
            here = replace(context, library=(*context.library, *library), phase=phase)
        here = replace(here, scope=scope)
        name = eqn.primitive.name
        if name in CALLS:
            inner = eqn.params[CALLS[name]]
            closed = hasattr(inner, "jaxpr")
            consts = self._constants(inner) if closed else []
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
        if name in _SIDE_EFFECTS:
            return self._not_repeated(eqn, args, here)
        return self._primitive(eqn.primitive, eqn.params, args, here, id(source.traceback), None, [v.aval for v in eqn.outvars])

    def _primitive(
        self, primitive: Any, params: dict[str, Any], args: list[Slot], context: Context, key: int, outs: Sequence[Any] | None,
        avals: Sequence[Any] = (),
    ) -> list[Slot]:  # fmt: skip
        if outs is None:
            arrays = compute(primitive, params, [a.dtype for a in avals], [a.array for a in args], False)
        else:
            arrays = list(outs)
        if args and all(a.number is not None for a in args) and all(_uniform(a) for a in arrays):
            return [Slot(a, number=a.flat[0].item()) for a in arrays]
        keys = any(not isinstance(a, np.ndarray) for a in (*arrays, *(s.array for s in args)))  # random keys
        results = [Slot(a) for a in arrays]
        differentiated = context.differentiated
        item = Item(primitive, primitive.name, params, args, results, key=key, given=keys, differentiated=differentiated, **context.place())
        return self._add(item)

    # -- control flow ----------------------------------------------------------------------------------------------

    def _scan(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        p = eqn.params
        loop = Loop(eqn, args)
        trains = context.phase == "forward" and has_transpose(loop.body)
        if len(self.items) + loop.length * size(loop.body) > MOST:
            return self._window(loop, context, trains)
        carry = [_carried(slot) for slot in loop.carry]
        columns: list[dict[int, Slot]] = [{} for _ in range(loop.results)]
        for index in loop.order:
            carry, row = self._iteration(loop, index, carry, context, trains)
            for column, slot in zip(columns, row, strict=True):
                column[index] = slot
        avals = [v.aval for v in eqn.outvars[p["num_carry"] :]]
        return [*carry, *self._stacked(loop, columns, avals, context)]

    def _iteration(self, loop: Loop, index: int, carry: list[Slot], context: Context, trains: bool) -> tuple[list[Slot], list[Slot]]:
        row = [self._pick(x, index, context) for x in loop.xs]
        here = replace(context, loop=(*context.loop, f"scan#{index}"), calls=(*context.calls, next(self._calls)))
        if trains:
            here = replace(here, step=index)
        outs = self._run(loop.body, self._constants(loop.closed), [*loop.consts, *carry, *row], here)
        if trains:
            self.rounds.append((index, list(zip(loop.carry, carry, outs[: len(carry)], strict=True))))
            self.handed = outs
        return outs[: len(carry)], outs[len(carry) :]

    def _stacked(self, loop: Loop, columns: list[dict[int, Slot]], avals: list[Any], context: Context) -> list[Slot]:
        stacked = []
        for column, aval in zip(columns, avals, strict=True):
            stacked.append(self._stack([column[i] for i in range(loop.length)], aval, context))
        return stacked

    def _window(self, loop: Loop, context: Context, trains: bool) -> list[Slot]:
        """A loop too long to be opened: JAX runs it, and only the iterations that matter are opened."""
        carries, rows = loop.natively()
        order = list(loop.order)
        fine = (all(map(finite, [*(c[n] for c in carries), *(r[i] for r in rows)])) for n, i in enumerate(order))
        bad = next((n for n, healthy in enumerate(fine) if not healthy), None)
        last = len(order) - 1 if bad is None else bad
        few, many = OPENED
        first = max(0, last + 1 - min(many, max(few, FEW // size(loop.body))))
        self.incomplete = "of a long loop, only some iterations were looked into"
        carry = [_carried(slot) for slot in loop.carry] if first == 0 else self._opaque(loop, [c[first - 1] for c in carries], context)
        columns: list[dict[int, Slot]] = [{} for _ in rows]
        for index in order[first : last + 1]:
            carry, row = self._iteration(loop, index, carry, context, trains)
            for column, slot in zip(columns, row, strict=True):
                column[index] = slot
        if last < len(order) - 1:
            carry = self._opaque(replace(loop, carry=carry), [c[-1] for c in carries], context)
        for column, row in zip(columns, rows, strict=True):
            carry = [*carry, *self._opaque(replace(loop, carry=[*loop.carry, *column.values()]), [row], context)]
        return carry

    def _opaque(self, loop: Loop, arrays: list[Any], context: Context) -> list[Slot]:
        """Iterations that were not opened: data, as far as the questions go."""
        results = [Slot(np.asarray(a)) for a in arrays]
        return self._add(Item(None, "scan", {}, [*loop.consts, *loop.carry, *loop.xs], results, key=0, given=True, **context.place()))

    def _while(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        p = eqn.params
        test, body = p["cond_jaxpr"], p["body_jaxpr"]
        n, m = p["cond_nconsts"], p["body_nconsts"]
        test_consts, body_consts, carry = args[:n], args[n : n + m], [_carried(slot) for slot in args[n + m :]]
        start, trains = carry, context.phase == "forward" and has_transpose(body.jaxpr)
        inner, outer = self._constants(body), self._constants(test)
        for index in count():
            here = replace(context, loop=(*context.loop, f"while#{index}"), calls=(*context.calls, next(self._calls)))
            here = replace(here, step=index) if trains else here
            (go,) = self._run(test.jaxpr, outer, [*test_consts, *carry], here)
            self.decisions.append(go)
            if not np.any(go.array):
                return list(carry)
            if len(self.items) > MOST:
                rest = self._primitive(eqn.primitive, p, [*args[: n + m], *carry], context, id(eqn), None, [v.aval for v in eqn.outvars])
                self.incomplete = "a loop is too long to be looked into"
                return rest
            new = self._run(body.jaxpr, inner, [*body_consts, *carry], here)
            if trains:
                self.rounds.append((index, list(zip(start, carry, new, strict=True))))
            if go.array.ndim:  # batched: lanes that have stopped keep their carry
                new = [self._masked(go, before, after, here) for before, after in zip(carry, new, strict=True)]
            carry = new
        raise AssertionError

    def _cond(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        index, *rest = args
        branches = eqn.params["branches"]
        self.decisions.append(index)
        chosen = min(max(int(index.array), 0), len(branches) - 1)
        closed = branches[chosen]
        here = replace(context, loop=(*context.loop, f"cond#{chosen}"), calls=(*context.calls, next(self._calls)))
        return self._run(closed.jaxpr, self._constants(closed), rest, here)

    def _solve(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
        start = lengths.matvec + lengths.vecmat
        consts = args[start : start + lengths.solve]
        right = args[start + lengths.solve + lengths.transpose_solve :]
        closed = jaxprs.solve
        return self._run(closed.jaxpr, self._constants(closed), [*consts, *right], self._inside(context, "solve", closed))

    def _not_repeated(self, eqn: Any, args: list[Slot], context: Context) -> list[Slot]:
        """A call back into the program's Python, which may print or count: it has run once, and does not run again."""
        if not eqn.outvars:
            return []
        self.incomplete = "what a callback into Python returned inside a compiled function is not known"
        zeros = [np.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
        return self._closed(eqn.primitive, args, zeros, context, 0)

    # -- pieces of control flow, as operations ---------------------------------------------------------------------

    def _pick(self, slot: Slot, index: int, context: Context) -> Slot:
        array = slot.array[index]
        if not isinstance(slot.array, np.ndarray):
            return Slot(array)
        return self._made("slice", [slot], np.asarray(array), lambda arrays, wide, xp: [arrays[0][index]], context)

    def _stack(self, slots: list[Slot], aval: Any, context: Context) -> Slot:
        if not slots:
            return Slot(np.zeros(aval.shape, aval.dtype))
        if not isinstance(slots[0].array, np.ndarray):
            return Slot(jax.numpy.stack([s.array for s in slots]))
        array = np.stack([s.array for s in slots])
        return self._made("stack", slots, array, lambda arrays, wide, xp: [xp.stack(arrays)], context)

    def _masked(self, go: Slot, before: Slot, after: Slot, context: Context) -> Slot:
        if not isinstance(before.array, np.ndarray):
            return after
        shape = go.array.shape + (1,) * (before.array.ndim - go.array.ndim)

        def choose(arrays: Sequence[Any], wide: bool, xp: Any) -> list[Any]:
            return [xp.where(arrays[0].reshape(shape), arrays[1], arrays[2])]

        return self._made("where", [go, after, before], choose([go.array, after.array, before.array], False, np)[0], choose, context)

    def _made(self, name: str, operands: list[Slot], array: np.ndarray, again: Any, context: Context) -> Slot:
        item = Own(None, name, {}, operands, [Slot(array)], key=0, differentiated=context.differentiated, **context.place())
        item.function = again
        return self._add(item)[0]


class Own(Item):
    """An operation of control flow, without a primitive of its own."""

    function: Any = None

    def again(self, arrays: Sequence[Any], wide: bool) -> list[Any]:
        return list(self.function(arrays, wide, np))


def _carried(slot: Slot) -> Slot:
    """A loop's state is no number of the program's, although it may begin as one."""
    floats = slot.number is not None and isinstance(slot.array, np.ndarray) and floating(slot.array.dtype)
    return Slot(slot.array) if floats else slot


def _joined(inner: tuple[Place, ...], outer: tuple[Place, ...]) -> tuple[Place, ...]:
    """Frames inside a traced function, then those of its call."""
    return inner if inner[-len(outer) :] == outer else (*inner, *outer)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


def _uniform(array: Any) -> bool:
    """One plain number, however often."""
    if not isinstance(array, np.ndarray) or not array.size or array.dtype.kind not in "fiub":
        return False
    first = array.flat[0]
    return bool((array == first).all() or (first != first and (array != array).all()))
