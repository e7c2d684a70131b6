"""The hooks: every primitive that JAX evaluates and every jitted call that the program makes pass by here.

Arrays are immutable, so a record keeps references; only donated arguments are copied. Under a trace nothing is recorded: what is being
traced runs later, as part of a call.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import api, array, core, custom_derivatives, pjit, source_info_util

from numdebug.observe.frames import Place
from numdebug.observe.jax.derivatives import Use
from numdebug.observe.jax.sites import Library, Sites, scopes, transforms

LARGE = 128 << 20  # bytes
SEGMENT = 40_000  # calls without a step boundary before the window slides

_run = pjit._run_python_pjit
_fastpath = pjit._get_fastpath_data
_process = core.EvalTrace.process_primitive
_vjp = api.vjp
_value = array.ArrayImpl._value
_custom = {kind: kind.__call__ for kind in (custom_derivatives.custom_vjp, custom_derivatives.custom_jvp)}
USES = 2  # of one hand-written derivative that are kept


class Entry:
    """One call: a primitive evaluated eagerly, or a jitted function with its jaxpr."""

    __slots__ = (
        "args", "backward", "copies", "differentiates", "forward", "key", "labels", "library", "outs", "params", "places", "primitive",
        "scope", "step", "trainer",
    )  # fmt: skip

    def __init__(
        self, primitive: Any, params: dict[str, Any], args: list[Any], places: tuple[Place, ...], library: Library, backward: bool,
        key: int, scope: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.primitive = primitive
        self.params = params
        self.args = args
        self.copies: dict[int, np.ndarray] = {}  # of donated arguments, by their identity
        self.outs: list[Any] = []
        self.places = places
        self.library = library
        self.backward = backward
        self.forward = False  # evaluated on the way to a derivative
        self.key = key
        self.scope = scope
        self.step = 0
        self.differentiates = False
        self.trainer: Any = None  # the model of Keras whose training step this is
        self.labels: dict[str, str] = {}  # names of its variables, by their path inside the state

    @property
    def jaxpr(self) -> Any:
        """Of a jitted call."""
        return self.params.get("jaxpr") if self.primitive.name in ("jit", "pjit") else None


class Capture:
    """One run's records. `listener` is told of calls that matter to a step, and of what leaves JAX."""

    def __init__(self, sites: Sites, listener: Any) -> None:
        self.sites = sites
        self.listener = listener
        self.setup: list[Entry] = []  # before the first step: where data and parameters were made
        self.segments: deque[list[Entry]] = deque([[]], maxlen=2)
        self.count = 0
        self.step = 0
        self.donated: dict[int, tuple[Any, np.ndarray]] = {}  # arrays of recorded calls that were given away since, and what they held
        self.uses: list[Use] = []  # of hand-written derivatives
        self.on = False
        self.quiet = 0
        self.ending: Callable[[], BaseException] | None = None

    # -- hooks -----------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """From now on. Compiled calls leave their shortcut past Python, which changes no result."""
        capture = self

        def run(p: Any, args_flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
            if not capture.watching or not core.trace_state_clean():
                return _run(p, args_flat, fun, args, kwargs)
            return capture._jitted(p, list(args_flat), fun, args, kwargs)

        def fastpath(*args: Any) -> Any:
            caller = sys._getframe(1).f_code.co_name
            return None if caller == "cache_miss" else _fastpath(*args)

        def process(trace: Any, primitive: Any, args: Any, params: Any, /) -> Any:
            if not capture.watching:
                return _process(trace, primitive, args, params)
            return capture._primitive(trace, primitive, list(args), params)

        def vjp(fun: Any, *primals: Any, **options: Any) -> Any:
            if not capture.watching or not core.trace_state_clean() or sys._getframe(1).f_code.co_name != "value_and_grad_f":
                return _vjp(fun, *primals, **options)
            return capture._differentiated(fun, primals, options)

        def value(held: Any) -> Any:
            if capture.watching:
                capture.listener.read(held)
            return _value.fget(held)  # type: ignore[misc]

        for kind, call in _custom.items():
            kind.__call__ = self._with_own_derivative(call)  # type: ignore[method-assign]
        pjit._run_python_pjit = run
        pjit._get_fastpath_data = fastpath
        core.EvalTrace.process_primitive = process  # type: ignore[method-assign]
        api.vjp = vjp
        array.ArrayImpl._value = property(value)  # type: ignore[method-assign,assignment]
        pjit._cpp_pjit_cache_fun_only.clear()
        pjit._cpp_pjit_cache_explicit_attributes.clear()
        self.on = True

    def detach(self) -> None:
        """Everything as it was."""
        self.on = False
        pjit._run_python_pjit = _run
        core.EvalTrace.process_primitive = _process  # type: ignore[method-assign]
        api.vjp = _vjp
        for kind, call in _custom.items():
            kind.__call__ = call  # type: ignore[method-assign]
        array.ArrayImpl._value = _value  # type: ignore[method-assign]

    def _with_own_derivative(self, call: Any) -> Any:
        capture = self

        @functools.wraps(call)
        def called(function: Any, *args: Any, **kwargs: Any) -> Any:
            if capture.on and not kwargs and capture._own(function):
                known = [u for u in capture.uses if u.function is function]
                if len(known) >= USES:  # the first and the latest: what holds at the start need not hold later
                    capture.uses.remove(known[-1])
                capture.uses.append(Use(function, args, capture.sites.here(sys._getframe(1))[0]))
            return call(function, *args, **kwargs)

        return called

    def _own(self, function: Any) -> bool:
        """The program's own, not one of a library."""
        code = getattr(inspect.unwrap(function.fun), "__code__", None)
        return code is not None and self.sites.frames.kind(code) == 1

    @property
    def watching(self) -> bool:
        """Whether what runs now is the program's."""
        return self.on and not self.quiet

    # -- calls -----------------------------------------------------------------------------------------------------

    def _jitted(self, p: Any, args_flat: list[Any], fun: Any, args: Any, kwargs: Any) -> Any:
        self._look_at_the_clock()
        places, library = self.sites.here(sys._getframe(2))
        entry = self._entry(pjit.jit_p, p.params, args_flat, places, library)
        donated = zip(args_flat, p.params["donated_invars"], strict=True)
        entry.copies = {id(a): np.array(a) for a, given_away in donated if given_away and _plain(a)}
        if entry.copies:  # also of results of calls that stay recorded when this one is dropped
            made = {id(o): o for kept in self.entries() for o in kept.outs}
            again = {key: (made[key], array) for key, array in entry.copies.items() if key in made}
            self.donated = {key: pair for key, pair in self.donated.items() if made.get(key) is pair[0]} | again
        self.listener.before(entry)
        self.quiet += 1
        try:
            result = _run(p, args_flat, fun, args, kwargs)
        finally:
            self.quiet -= 1
        entry.outs = list(result[1])
        self._add(entry)
        self.listener.after(entry)
        return result

    def _primitive(self, trace: Any, primitive: Any, args: list[Any], params: dict[str, Any]) -> Any:
        self._look_at_the_clock()
        places, library = self.sites.here(sys._getframe(2), scopes(source_info_util.current_name_stack()))
        entry = self._entry(primitive, params, args, places, library)
        self.quiet += 1
        try:
            result = _process(trace, primitive, args, params)
        finally:
            self.quiet -= 1
        entry.outs = list(result) if primitive.multiple_results else [result]
        self._add(entry)
        if entry.jaxpr is not None:
            self.listener.after(entry)
        return result

    def _entry(self, primitive: Any, params: dict[str, Any], args: list[Any], places: tuple[Place, ...], library: Library) -> Entry:
        context = source_info_util._source_info_context.context
        scope, made_by = scopes(context.name_stack), transforms(context.name_stack)
        key = 0
        if context.traceback is not None:  # a derivative rule at work: the line is that of what it differentiates
            inner, names = self.sites.of(context.traceback, scope)
            if inner:
                places, library = inner, names
            key = id(context.traceback)
        entry = Entry(primitive, params, args, places, library, "transpose" in made_by, key, scope)
        entry.forward = "jvp" in made_by
        return entry

    def _add(self, entry: Entry) -> None:
        entry.step = self.step
        self.count += 1
        segment = self.segments[-1]
        segment.append(entry)
        if len(segment) > SEGMENT:
            del segment[: SEGMENT // 2]

    def entries(self) -> list[Entry]:
        """What is still known, in order; of steps on large arrays only the last one, because every result of its equations is held."""
        steps = [segment for segment in self.segments if segment]
        last = steps[-1:] if len(steps) > 1 and _bytes(steps[-1]) > LARGE else steps
        return [*self.setup, *(entry for segment in last for entry in segment)]

    def first_step(self) -> None:
        """Everything until now was set-up."""
        self.setup, self.segments[-1] = self.segments[-1], []

    def boundary(self, step: int) -> None:
        """A new step begins."""
        self.step = step
        self.segments.append([])

    def _look_at_the_clock(self) -> None:
        if self.ending is not None:
            raise self.ending()

    # -- derivatives taken eagerly ---------------------------------------------------------------------------------

    def _differentiated(self, fun: Any, primals: Any, options: dict[str, Any]) -> Any:
        names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(primals)[0]]
        leaves = jax.tree_util.tree_leaves(primals)
        self.listener.differentiating(list(zip(names, leaves, strict=True)))
        answer, pull, *aux = _vjp(fun, *primals, **options)

        def pulled(cotangent: Any) -> Any:
            gradients = pull(cotangent)
            self.listener.differentiated(answer, list(zip(names, leaves, jax.tree_util.tree_leaves(gradients), strict=False)))
            return gradients

        return (answer, pulled, *aux)


def _bytes(entries: list[Entry]) -> int:
    """Of everything that one step was given and gave."""
    arrays = {id(a): a for entry in entries for a in (*entry.args, *entry.outs)}
    return sum(int(getattr(a, "nbytes", 0)) for a in arrays.values() if not isinstance(a, jax.Array) or not a.is_deleted())


def _plain(held: Any) -> bool:
    return isinstance(held, jax.Array) and not jax.dtypes.issubdtype(held.dtype, jax.dtypes.extended)
