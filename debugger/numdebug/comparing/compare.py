"""Two sides, one verdict."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from numdebug.arithmetic import PRODUCTS, SAMPLES, Arithmetic, Products
from numdebug.comparing.align import Alignment, same_order
from numdebug.comparing.divergence import MOVES, Parting, part
from numdebug.comparing.envelope import FEW, LIMIT, ULPS, Envelope, Measured, beyond, measure
from numdebug.comparing.judge import Facts, Judgement, judge
from numdebug.comparing.sides import FLOATS, Output, Side, identical, paired
from numdebug.formats import FORMATS, coarser
from numdebug.recording import Value
from numdebug.run import CannotAsk

FIRST = 24
"""Values whose envelopes are computed first where sides part; four times as many where that was too early."""
EMULATED = 0.25
"""Emulated products leave so much of a difference that they explain. Where activations fall on the other side of a rounding step in later
layers a little remains; a fault remains whole, and the rounding of the emulation comes on top."""
NARROWER: tuple[Products, ...] = ("tf32", "tf32-truncated", "bfloat16")


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
    allowed: np.ndarray | None = None  # one standard deviation of rounding, of the output named, element by element
    samples: int = 1


class CannotCompare(Exception):
    """There is nothing to compare; the message says why."""


def compare(a: Side, b: Side, axis: str) -> Compared:
    """`b` against `a`. The envelope comes from the side with the coarser format, from `a` where they are alike. Raises CannotCompare."""
    pairs = paired(a.outputs, b.outputs)
    if not pairs:
        raise CannotCompare("the two sides have no output in common")
    shapes = [(one.array.shape, _rows(b, two.array).shape) for one, two in pairs]
    alike = [pair for pair, (x, y) in zip(pairs, shapes, strict=True) if x == y]
    odd = [f"{one.name} ({x} against {y})" for (one, _), (x, y) in zip(pairs, shapes, strict=True) if x != y]
    for (one, two), (x, y) in zip(pairs, shapes, strict=True):
        if x != y and _last(a, one) and _last(b, two):
            said = Judgement("real-difference", False, f"{one.name} has shape {x} on one side and {y} on the other")
            return Compared(axis, a, b, one.name, Measured(one.array.size, differing=one.array.size, ratio=math.inf), said)
    if not alike:
        raise CannotCompare(f"the outputs have another shape on each side: {', '.join(odd[:3])}")
    known = {o.name for pair in pairs for o in pair}
    found = _Comparison(a, b, axis, alike).result()
    found.missing = [*odd, *(o.name for o in (*a.outputs, *b.outputs) if o.name not in known)]
    return found


def _rows(side: Side, array: np.ndarray) -> np.ndarray:
    return array if side.rows is None else side.rows.of(array)


def _last(side: Side, output: Output) -> bool:
    """Nothing is computed from it."""
    return side.run is None or output.value is None or not side.run.recording.consumers(output.value)


def _values(side: Side) -> list[Value]:
    return [o.value for o in side.outputs if o.value is not None]


def _swapped(a: Side, b: Side, pairs: list[tuple[Output, Output]]) -> bool:
    """Whether the envelope comes from `b`: whose outputs are coarser, or, where they are alike, which goes through fewer narrow formats."""
    if a.run is None or b.run is None or b.rows is not None:
        return a.run is None
    out_a, out_b = (FORMATS[coarser(o.dtype for o in side)].eps for side in zip(*pairs, strict=True))
    if out_a != out_b:
        return bool(out_b > out_a)
    return FORMATS[coarser(b.formats)].eps < FORMATS[coarser(a.formats)].eps


class _Comparison:
    def __init__(self, a: Side, b: Side, axis: str, pairs: list[tuple[Output, Output]]) -> None:
        self.a, self.b, self.axis, self.pairs = a, b, axis, pairs
        self.form = coarser(o.dtype for pair in pairs for o in pair)
        self.swapped = _swapped(a, b, pairs)
        self.reference = b if self.swapped else a
        self.envelope: Envelope | None = None
        self.inner: Envelope | None = None  # of everything that the reference computes
        self.other: Envelope | None = None  # of the outputs of the side that is not the reference
        self.blind = ""  # why there is no envelope
        self.emulated = ""  # the format that operands of one side's products are cast to, as autocast does
        self.wider: Envelope | None = None  # of the narrower products that were tried last

    def result(self) -> Compared:
        worst, measured = self._worst(plain=True)
        if measured.identical:
            return self._told(worst, measured, None, None, ())
        try:
            if self.reference.run is None:
                raise CannotAsk("the operations were not recorded")
            self.envelope = Envelope(self.reference.run, _values(self.reference), samples=FEW)
            worst, measured = self._settled()
        except CannotAsk as why:
            self.envelope, self.blind = None, str(why).splitlines()[0]
            return self._told(*self._worst(), None, None, ())
        if not measured.within and self._written_otherwise():
            self.other = Envelope(self._second.run, _values(self._second), samples=self.envelope.samples)  # type: ignore[arg-type]
            worst, measured = self._settled()
        parting = first = None
        if self.a.run is not None and self.b.run is not None and worst[0].value is not None and worst[1].value is not None:
            if measured.within:
                first = self._first()
            else:
                parting = self._parting(worst[0].value, worst[1].value)
                if parting is not None and self._into_products(parting):
                    self.other = Envelope(self._second.run, _values(self._second), samples=FEW)  # type: ignore[arg-type]
                    self.emulated = str(parting.now)
                    worst, measured = self._worst()
        return self._told(worst, measured, parting, first, self._narrow(worst, measured, parting))

    def _settled(self) -> tuple[tuple[Output, Output], Measured]:
        """More samples where few of them leave it open."""
        assert self.envelope is not None
        worst, measured = self._worst()
        if not measured.clear and self.envelope.samples < SAMPLES:
            for envelope in (self.envelope, self.other):
                if envelope is not None:
                    envelope.more(SAMPLES - envelope.samples)
            worst, measured = self._worst()
        return worst, measured

    def _parting(self, a: Value, b: Value) -> Parting | None:
        """Where they part: of programs with the same operations in the same order the beginning is looked at first."""
        assert self.reference.run is not None
        values, known = self._apart()
        count = FIRST if known else len(values)
        while True:
            self.inner = Envelope(self.reference.run, values[:count], samples=FEW)
            alignment = Alignment(self.a, self.b, self._agree)
            found = part(alignment, a, b, lambda value, array: self._measured(value, array, b))
            if found is None or self._looked_at(found, values[count:]):
                return self._sized(found, alignment) if found is not None else None
            count *= 4

    def _apart(self) -> tuple[list[Value], bool]:
        """Values of the reference that are not the same bit for bit on the other side; False where it has other operations."""
        pairs = same_order(self.a, self.b)
        if len(pairs) < max(len(self.a.ops), len(self.b.ops)):
            return self.reference.values, False
        values = []
        for pair in pairs:
            for two in zip(pair[0].outputs, pair[1].outputs, strict=False):
                x, y = self.a.array(two[0]), self.b.array(two[1])
                value = two[1] if self.swapped else two[0]
                if value.dtype.startswith(FLOATS) and not identical(x, y):
                    values.append(value)
        return values, True

    def _emulates(self, value: Value, one: Output, two: Output, form: Products) -> bool:
        """Most of the difference goes when the recorded products are computed that way: a fault of the same size would stay."""
        assert self.reference.run is not None
        again = self.reference.run.recompute([value], Arithmetic(products=form)).get(value.id)
        mine, theirs = (two, one) if self.swapped else (one, two)
        other = theirs.array if theirs is one else _rows(self.b, theirs.array)
        if again is None or again.shape != other.shape:
            return False
        with np.errstate(all="ignore"):
            before = np.linalg.norm((mine.array.astype(np.float64) - other).ravel())
            return bool(np.linalg.norm((again.astype(np.float64) - other).ravel()) < EMULATED * before)

    def _into_products(self, parting: Parting) -> bool:
        """A cast that serves nothing but products on its own line."""
        run = self._second.run
        if parting.kind != "dtype" or parting.op.name != "cast" or run is None or parting.b is None or self.swapped:
            return False
        users, todo = [], list(parting.b.outputs)
        while todo:
            for user in run.recording.consumers(todo.pop()):
                if user.name in MOVES:
                    todo.extend(user.outputs)
                else:
                    users.append(user)
        return bool(users) and all(u.name in PRODUCTS for u in users)

    def _looked_at(self, found: Parting, left: list[Value]) -> bool:
        """That operation's results are not among the values that are left."""
        op = found.b if self.swapped else found.a
        return op is None or not any(v in left for v in op.outputs)

    def _told(
        self, worst: tuple[Output, Output], measured: Measured, parting: Parting | None, first: tuple[Value, Value, Measured] | None,
        narrow: tuple[tuple[str, Measured], ...],
    ) -> Compared:  # fmt: skip
        opaque = self.a.run is None or self.b.run is None or worst[0].value is None or worst[1].value is None
        formats = self._formats(self.a, worst[0]), self._formats(self.b, worst[1])
        facts = Facts(self.axis, measured, *formats, parting, narrow, opaque, self.emulated)
        judgement = judge(facts)
        if judgement.explanation == "identical":
            names = [one.name for one, _ in self.pairs]
            judgement = replace(judgement, because=f"the same bit for bit: {', '.join(names[:6])}{' and more' if len(names) > 6 else ''}")
        if self.blind and not measured.identical:
            how = f"judged by {measured.ulps:.2g} ulp of its largest element, as this could not be computed again ({self.blind})"
            judgement = replace(judgement, because=f"{judgement.because}; {how}")
        value = worst[1].value if self.swapped else worst[0].value
        allowed = self._output(*worst)
        if judgement.explanation == "reduced-precision-matmul" and self.wider is not None and value is not None:
            allowed = self.wider.of(value)
        return Compared(
            self.axis, self.a, self.b, worst[0].name, measured, judgement, parting, first, form=self.form, allowed=allowed,
            samples=self._samples(),
        )  # fmt: skip

    def _formats(self, side: Side, output: Output) -> frozenset[str]:
        return side.formats if side.values else frozenset({output.dtype})

    def _worst(self, plain: bool = False) -> tuple[tuple[Output, Output], Measured]:
        found = []
        for one, two in self.pairs:
            spread = None if plain else self._output(one, two)
            measured = measure(one.array, _rows(self.b, two.array), spread, self._samples(), self.form)
            if spread is None and measured.differing:  # as of saved arrays: by the gaps at its largest element
                measured = replace(measured, ratio=LIMIT * measured.ulps / ULPS)
            found.append(((one, two), measured))
        return max(found, key=lambda pair: (pair[1].non_finite, pair[1].ratio, pair[1].differing))

    @property
    def _second(self) -> Side:
        return self.a if self.swapped else self.b

    def _written_otherwise(self) -> bool:
        """The other side computes something else in formats that are no narrower: it may lose more digits by its own formula."""
        one, two = self.reference, self._second
        if two.run is None or FORMATS[coarser(two.formats)].eps > FORMATS[coarser(one.formats)].eps:
            return False
        return Counter(op.name for op in one.ops) != Counter(op.name for op in two.ops)

    def _output(self, one: Output, two: Output) -> np.ndarray | None:
        """The spread of an output: of the reference, and of the other side where that was asked."""
        first, second = (two, one) if self.swapped else (one, two)
        spread = self.envelope.of(first.value) if self.envelope is not None and first.value is not None else None
        other = self.other.of(second.value) if self.other is not None and second.value is not None else None
        if spread is None or other is None:
            return spread
        both: np.ndarray = np.hypot(spread, _rows(self.b, other) if second is two else other)
        return both

    def _samples(self) -> int:
        return self.envelope.samples if self.envelope is not None else 1

    def _spread(self, a: Value, b: Value | None) -> np.ndarray | None:
        value = b if self.swapped and b is not None else a
        return self.inner.of(value) if self.inner is not None else None

    def _measured(self, a: Value, array: np.ndarray, b: Value | None = None) -> Measured:
        held = self.a.array(a)
        assert held is not None
        return measure(held, array, self._spread(a, b), FEW, self.form)

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
        return measure(x, y, spread if spread is not None and spread.shape == x.shape else None, FEW, self.form)

    def _agree(self, a: Value, b: Value) -> bool:
        x, y = self.a.array(a), self.b.array(b)
        if x is None or y is None or x.size != y.size:
            return False
        if x.shape != y.shape:
            if [n for n in x.shape if n != 1] != [n for n in y.shape if n != 1]:
                return False
            y = y.reshape(x.shape)
        floats = x.dtype.kind == "f" and y.dtype.kind == "f"
        if identical(x, y):
            return True
        spread = self._spread(a, b)
        if not floats or spread is None or spread.size != x.size:
            return False
        spread = spread.reshape(x.shape)
        return not beyond(x, y, spread) and measure(x, y, spread, FEW, self.form).within

    def _first(self) -> tuple[Value, Value, Measured] | None:
        """Of the same operations in the same order, the first whose result is not the same bit for bit."""
        pairs = same_order(self.a, self.b)
        if len(pairs) < max(len(self.a.ops), len(self.b.ops)):
            return None
        for one, two in pairs:
            for twin, value in zip(one.outputs, two.outputs, strict=False):
                x, y = self.a.array(twin), self.b.array(value)
                if x is None or y is None or x.shape != y.shape or x.dtype.kind != "f" or not value.dtype.startswith(FLOATS):
                    continue
                if not identical(x, y):
                    return twin, value, measure(x, y, None, 1, self.form)
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
            measured = measure(one.array, _rows(self.b, two.array), self.wider.of(value), FEW, self.form)
            if measured.within and self._emulates(value, one, two, form):
                found.append((form, measured))
                break
        return tuple(found)
