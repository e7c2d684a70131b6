"""Two sides, one verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from numdebug.arithmetic import PRODUCTS, Products
from numdebug.comparing.align import Alignment
from numdebug.comparing.divergence import Parting, part
from numdebug.comparing.envelope import Envelope, Measured, coarser, measure
from numdebug.comparing.judge import Facts, Judgement, judge
from numdebug.comparing.sides import FLOATS, Output, Side, paired
from numdebug.formats import FORMATS
from numdebug.recording import Value

NARROWER: tuple[Products, ...] = ("tf32", "tf32-truncated", "bfloat16")
FEW = 3
"""Samples of a wider envelope, whose question is only which format explains a difference."""


@dataclass
class Compared:
    """What was found. `output` names the output that stands out most."""

    axis: str
    a: Side
    b: Side
    output: str
    measured: Measured
    judgement: Judgement
    parting: Parting | None = None
    first: tuple[Value, Value, Measured] | None = None  # the first operation whose result differs at all
    missing: list[str] = field(default_factory=list)
    form: str = "float64"
    narrow: tuple[tuple[str, Measured], ...] = ()
    allowed: np.ndarray | None = None  # one standard deviation of rounding, of the output named, element by element
    samples: int = 1


class CannotCompare(Exception):
    """There is nothing to compare; the message says why."""


def compare(a: Side, b: Side, axis: str) -> Compared:
    """`b` against `a`. The envelope comes from the side with the coarser format, from `a` where they are alike. Raises CannotCompare."""
    pairs = paired(a.outputs, b.outputs)
    if not pairs:
        raise CannotCompare("the two sides have no output in common")
    for one, two in pairs:
        if one.array.shape != _rows(b, two.array).shape:
            words = f"{tuple(one.array.shape)} against {tuple(_rows(b, two.array).shape)}"
            raise CannotCompare(f"{one.name} has another shape on each side: {words}")
    comparison = _Comparison(a, b, axis, pairs)
    return comparison.result()


def _rows(side: Side, array: np.ndarray) -> np.ndarray:
    return array if side.rows is None else side.rows.of(array)


class _Comparison:
    def __init__(self, a: Side, b: Side, axis: str, pairs: list[tuple[Output, Output]]) -> None:
        self.a, self.b, self.axis, self.pairs = a, b, axis, pairs
        self.forms = (coarser(a.formats), coarser(b.formats))
        self.swapped = FORMATS[self.forms[1]].eps > FORMATS[self.forms[0]].eps and b.run is not None and b.rows is None or a.run is None
        self.reference = b if self.swapped else a
        self.form = coarser(self.forms)
        self.envelope: Envelope | None = None
        self.wider: Envelope | None = None  # of the narrower products that were tried last

    def result(self) -> Compared:
        worst, measured = self._worst(plain=True)
        if measured.identical:
            return self._told(worst, measured, None, None, ())
        if self.reference.run is None:
            return self._told(worst, measured, None, None, ())
        self.envelope = Envelope(self.reference.run, self.reference.values)
        worst, measured = self._worst()
        parting = first = None
        if self.a.run is not None and self.b.run is not None and worst[0].value is not None and worst[1].value is not None:
            alignment = Alignment(self.a, self.b, self._agree)
            first = self._first(alignment)
            if not measured.within:
                parting = part(alignment, worst[0].value, worst[1].value, lambda value, array: self._measured(value, array, worst[1].value))
                parting = self._sized(parting, alignment) if parting is not None else None
        return self._told(worst, measured, parting, first, self._narrow(worst, measured, parting))

    def _told(
        self, worst: tuple[Output, Output], measured: Measured, parting: Parting | None, first: tuple[Value, Value, Measured] | None,
        narrow: tuple[tuple[str, Measured], ...],
    ) -> Compared:  # fmt: skip
        opaque = self.a.run is None or self.b.run is None or worst[0].value is None or worst[1].value is None
        facts = Facts(self.axis, measured, self._formats(self.a, worst[0]), self._formats(self.b, worst[1]), parting, narrow, opaque)
        judgement = judge(facts)
        value = worst[1].value if self.swapped else worst[0].value
        allowed = self.envelope.of(value) if self.envelope is not None and value is not None else None
        if judgement.explanation == "reduced-precision-matmul" and self.wider is not None and value is not None:
            allowed = self.wider.of(value)
        return Compared(
            self.axis, self.a, self.b, worst[0].name, measured, judgement, parting, first, self._missing(), self.form, narrow, allowed,
            self._samples(),
        )  # fmt: skip

    def _formats(self, side: Side, output: Output) -> frozenset[str]:
        return side.formats if side.values else frozenset({output.dtype})

    def _missing(self) -> list[str]:
        known = {o.name for pair in self.pairs for o in pair}
        return [o.name for o in (*self.a.outputs, *self.b.outputs) if o.name not in known]

    def _worst(self, plain: bool = False) -> tuple[tuple[Output, Output], Measured]:
        found = []
        for one, two in self.pairs:
            spread = None
            value = two.value if self.swapped else one.value
            if not plain and self.envelope is not None and value is not None:
                spread = self.envelope.of(value)
            found.append(((one, two), measure(one.array, _rows(self.b, two.array), spread, self._samples(), self.form)))
        return max(found, key=lambda pair: (pair[1].non_finite, pair[1].ratio, pair[1].differing))

    def _samples(self) -> int:
        return self.envelope.samples if self.envelope is not None else 1

    def _spread(self, a: Value, b: Value | None) -> np.ndarray | None:
        assert self.envelope is not None
        return self.envelope.of(b if self.swapped and b is not None else a)

    def _measured(self, a: Value, array: np.ndarray, b: Value | None = None) -> Measured:
        held = self.a.array(a)
        assert held is not None
        return measure(held, array, self._spread(a, b), self._samples(), self.form)

    def _sized(self, parting: Parting, alignment: Alignment) -> Parting:
        """How far the operands and the result of that operation are apart."""
        before = 0.0
        for value in parting.b.operands if parting.b is not None else ():
            twin = alignment.partner.get(value.id)
            held = self.b.array(value)
            if twin is not None and held is not None and value.dtype.startswith(FLOATS) and (x := self.a.array(twin)) is not None:
                spread = self._spread(twin, value)
                if x.size == held.size and spread is not None and spread.size == x.size:
                    before = max(before, self._of(x, held.reshape(x.shape), spread.reshape(x.shape)).ratio)
        after = None
        if parting.a is not None and parting.b is not None and parting.a.outputs and parting.b.outputs:
            x, y = self.a.array(parting.a.outputs[0]), self.b.array(parting.b.outputs[0])
            if x is not None and y is not None and x.shape == y.shape and x.dtype.kind == "f":
                after = self._of(x, y, self._spread(parting.a.outputs[0], parting.b.outputs[0]))
        return replace(parting, before=before, after=after)

    def _of(self, x: np.ndarray, y: np.ndarray, spread: np.ndarray | None) -> Measured:
        return measure(x, y, spread if spread is not None and spread.shape == x.shape else None, self._samples(), self.form)

    def _agree(self, a: Value, b: Value) -> bool:
        x, y = self.a.array(a), self.b.array(b)
        if x is None or y is None or x.size != y.size:
            return False
        if x.shape != y.shape:
            if [n for n in x.shape if n != 1] != [n for n in y.shape if n != 1]:
                return False
            y = y.reshape(x.shape)
        if x.dtype.kind not in "fV" or y.dtype.kind not in "fV":
            return bool(np.array_equal(x, y))
        spread = self._spread(a, b)
        if spread is None or (spread.size == x.size and spread.shape != x.shape):
            spread = spread.reshape(x.shape) if spread is not None else None
        if spread is None:
            return bool(np.array_equal(x, y, equal_nan=True))
        if spread.size != x.size:
            return False
        return measure(x, y, spread, self._samples(), self.form).within

    def _first(self, alignment: Alignment) -> tuple[Value, Value, Measured] | None:
        """The first operation whose result is not the same bit for bit."""
        for op in self.b.ops:
            for value in op.outputs:
                twin = alignment.partner.get(value.id)
                if twin is None or not value.dtype.startswith(FLOATS):
                    continue
                x, y = self.a.array(twin), self.b.array(value)
                if x is not None and y is not None and x.size == y.size and not np.array_equal(x.ravel(), y.ravel(), equal_nan=True):
                    return twin, value, measure(x, y.reshape(x.shape), self._spread(twin, value), self._samples(), self.form)
        return None

    def _narrow(self, worst: tuple[Output, Output], measured: Measured, parting: Parting | None) -> tuple[tuple[str, Measured], ...]:
        """The output against the envelopes of narrower products, smallest first, until one explains it."""
        one, two = worst
        value = two.value if self.swapped else one.value
        if measured.within or value is None or not any(op.name in PRODUCTS for op in self.reference.ops):
            return ()
        if parting is not None and (parting.kind != "result" or parting.op.name not in PRODUCTS):
            return ()
        found = []
        for form in NARROWER:
            assert self.reference.run is not None
            self.wider = Envelope(self.reference.run, [value], form, FEW)
            found.append((form, measure(one.array, _rows(self.b, two.array), self.wider.of(value), FEW, self.form)))
            if found[-1][1].within:
                break
        return tuple(found)
