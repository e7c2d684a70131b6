"""Where the compiler's result is not that of the equations as written: which equation it rewrote, and the switch that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from numdebug.observe.jax.calls import CALLS
from numdebug.observe.jax.evaluate import host

SWITCH = {"xla_disable_hlo_passes": "algsimp"}
TRIED = 24  # equations set apart, each costing one compilation of the call
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "pow", "integer_pow", "sqrt", "rsqrt", "max", "min", "exp", "log", "dot_general"})
_BIG = 3_000  # equations: a call with more of them is not compiled again and again


@dataclass(frozen=True)
class Rewritten:
    """`equation` is the one that comes out as written when its operands are set apart from it; None where none was found."""

    equation: Any
    without_simplifier: bool  # with the algebraic simplifier switched off, the compiled result is the written one


def differs(written: Any, compiled: Any) -> bool:
    """The compiled result is not finite where the equations as written give something finite."""
    if not isinstance(written, np.ndarray) or written.dtype.kind != "f" or written.shape != compiled.shape:
        return False
    return bool((np.isfinite(written) & ~np.isfinite(compiled)).any())


def explained(closed: Any, args: Sequence[Any], place: int, written: np.ndarray) -> Rewritten | None:
    """Why the compiled call gives something else at its output `place`. None where it does so by itself no longer."""
    equations = list(_flat(closed.jaxpr))
    if len(equations) > _BIG:
        return None

    def outcome(apart: int | None, switch: dict[str, str] | None = None) -> Any:
        function = jax.jit(lambda *a: _evaluate(closed.jaxpr, closed.consts, a, [0], apart)[place], compiler_options=switch or {})
        return host(function(*args))

    if not differs(written, outcome(None)):
        return None
    candidates = [n for n, eqn in enumerate(equations) if eqn.primitive.name in _ARITHMETIC]
    found = next((n for n in reversed(candidates[-TRIED:]) if not differs(written, outcome(n))), None)
    return Rewritten(equations[found] if found is not None else None, not differs(written, outcome(None, SWITCH)))


def _flat(jaxpr: Any) -> Any:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name in CALLS:
            inner = eqn.params[CALLS[eqn.primitive.name]]
            yield from _flat(getattr(inner, "jaxpr", inner))
        else:
            yield eqn


def _evaluate(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], counter: list[int], apart: int | None) -> list[Any]:
    """The equations one by one under a trace; before the one numbered `apart`, a barrier that the compiler does not look through."""
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True)) | dict(zip(jaxpr.invars, args, strict=True))

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else env[var]

    for eqn in jaxpr.eqns:
        given = [read(v) for v in eqn.invars]
        name = eqn.primitive.name
        if name in CALLS:
            inner = eqn.params[CALLS[name]]
            results = _evaluate(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), given, counter, apart)
        else:
            if counter[0] == apart:
                given = list(jax.lax.optimization_barrier(tuple(given)))
            counter[0] += 1
            out = eqn.primitive.bind(*given, **eqn.primitive.get_bind_params(eqn.params))
            results = list(out) if eqn.primitive.multiple_results else [out]
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(v) for v in jaxpr.outvars]
