"""Loops and nested pieces of a jaxpr: how long they are, whether they train, and a scan that JAX runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from numdebug.observe.jax.calls import CALLS
from numdebug.observe.jax.evaluate import host
from numdebug.observe.jax.sites import transforms


@dataclass
class Loop:
    """One scan."""

    eqn: Any
    args: list[Any]
    carry: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        p = self.eqn.params
        n, m = p["num_consts"], p["num_consts"] + p["num_carry"]
        self.consts, self.xs = self.args[:n], self.args[m:]
        self.carry = self.carry or self.args[n:m]
        self.closed = p["jaxpr"]
        self.body, self.length = self.closed.jaxpr, p["length"]
        self.results = len(self.closed.out_avals) - p["num_carry"]
        self.order = range(self.length - 1, -1, -1) if p["reverse"] else range(self.length)

    def natively(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """By JAX: the carry after each iteration in the order of execution, and the stacked results."""
        function = jaxpr_as_fun(self.closed)
        consts = [s.array for s in self.consts]
        n = len(self.carry)

        def body(carry: Any, row: Any) -> Any:
            outs = function(*consts, *carry, *row)
            return outs[:n], (outs[:n], outs[n:])

        start, rows = [s.array for s in self.carry], [s.array for s in self.xs]
        backwards = self.eqn.params["reverse"]
        given = [jax.numpy.asarray(a) for a in start]
        _, (carries, results) = jax.lax.scan(body, given, rows, length=self.length, reverse=backwards)
        ordered = [host(c) for c in carries]
        return [c[::-1] for c in ordered] if backwards else ordered, [host(r) for r in results]


def training_loop(jaxpr: Any) -> int | None:
    """The length of the scan that is a whole training run, one step an iteration; None where there is none."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "scan" and not _backward(eqn) and has_transpose(eqn.params["jaxpr"].jaxpr):
            return int(eqn.params["length"])
        found = next((n for inner in _nested(eqn) if (n := training_loop(inner)) is not None), None)
        if found is not None and eqn.primitive.name in CALLS:
            return found
    return None


def _backward(eqn: Any) -> bool:
    return "transpose" in transforms(eqn.source_info.name_stack)


def has_transpose(jaxpr: Any) -> bool:
    """Whether something in it is the backward half of a derivative."""
    for eqn in jaxpr.eqns:
        if _backward(eqn):
            return True
        if any(has_transpose(inner) for inner in _nested(eqn)):
            return True
    return False


def _nested(eqn: Any) -> Iterator[Any]:
    """The pieces of jaxpr inside an equation."""
    for inner in (*eqn.params.values(), *eqn.params.get("branches", ())):
        if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
            yield getattr(inner, "jaxpr", inner)


def size(jaxpr: Any) -> int:
    """Equations to evaluate, those of a loop as often as it runs."""
    total = 0
    for eqn in jaxpr.eqns:
        length = eqn.params.get("length", 1) if eqn.primitive.name == "scan" else 1
        total += 1 + length * sum(size(inner) for inner in _nested(eqn))
    return total


def finite(array: Any) -> bool:
    """No NaN and no infinity in it; whole numbers have none."""
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
