"""Which operation turns finite numbers into the inf or NaN that reaches the user?

Measures  for every non-finite value that reaches a loss, a gradient, a parameter or an output: the operation at which the
          backward slice meets only finite operands, how the value was born (catalogue B9, B10), the range of what it was given,
          and where a zero that it divided by, or took the log of, came from.
Costs     nothing beyond the recorded step.
Misses    what happens inside one fused operation, and what no recorded operation made (memory written past the framework).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from numdebug.births import CONSTANT, Birth, Zero, births, dropped_by, reaches_name, without_followers, zero_origin
from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.graph import STRUCTURAL, downstream
from numdebug.recording import Op, Sink, Value
from numdebug.run import Run

QUESTION = "Which operation turns finite numbers into the inf or NaN that reaches the user?"

_MEETS_ZERO = ("log of zero", "x/0", "0/0")


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each culprit, in the order of (step, dataflow)."""
    found: dict[object, list[Birth]] = {}
    sinks = run.recording.sinks
    losses = [s for s in sinks if s.what == "loss"]
    for sink in losses or sinks:
        for birth in births(run, sink):
            key = birth.culprit.index if birth.culprit is not None else f"value {birth.value.id}"
            found.setdefault(key, []).append(birth)
    found = without_followers(found)
    ordered = sorted(found.values(), key=lambda group: -1 if group[0].culprit is None else group[0].culprit.index)
    alone = all(b.deliberate or b.culprit is None for group in ordered for b in group)
    followed = all(b.deliberate or b.culprit is None or (b.cause is not None and b.born != "all masked") for g in ordered for b in g)
    for group in ordered:
        if group[0].culprit is None and group[0].sinks[0].what == "output":
            continue  # data that a program keeps or prints as it was given
        yield _fact(run, group, alone, followed)
    yield from (_symptom(run, sink) for sink in sinks if run.stats(sink.value).non_finite)


def _symptom(run: Run, sink: Sink) -> Evidence:
    here = run.stats(sink.value)
    value = "nan" if here.nan else "inf" if here.posinf else "-inf"
    what = sink.what if sink.name is None else f"{sink.what} {sink.name}" if sink.what != "gradient" else f"gradient of {sink.name}"
    if here.size > 1:
        value += f" in {here.non_finite} of {here.size} elements"
    return Evidence("symptom", "nonfinite", site=sink.site, facts={"what": what, "value": value})


def _fact(run: Run, group: list[Birth], alone: bool, followed: bool) -> Evidence:
    forward = [b for b in group if b.op is not None and b.op.phase != "backward"]
    birth = (forward or group)[0]
    sinks = tuple({id(s): s for b in group for s in b.sinks}.values())
    if birth.culprit is None:
        return _data(run, birth, sinks, alone, followed)
    culprit = birth.culprit
    stats = [run.stats(v) for v in culprit.operands]
    forward_bad = any(run.stats(v).non_finite for v in culprit.outputs)
    dtype = culprit.outputs[0].dtype if culprit.outputs else birth.value.dtype
    here = run.stats(birth.value)
    numbers = {
        "non_finite": Number(here.non_finite, "elements"),
        "size": Number(here.size, "elements"),
    }
    highest = [s.highest for s in stats if s.highest is not None]
    lowest = [s.lowest for s in stats if s.lowest is not None]
    if highest:
        numbers["largest_input"] = Number(max(highest))
        numbers["smallest_input"] = Number(min(lowest))
    if dtype in FORMATS:
        numbers["format_limit"] = Number(FORMATS[dtype].max)
    facts: dict[str, Any] = {
        "born": birth.born,
        "op": culprit.name,
        "phase": "forward" if forward else "backward",
        "dtype": dtype,
        "deliberate": birth.deliberate,
        "from": "finite" if birth.cause is None else "inf",
        "forward_finite": not forward_bad,
        "loss_finite": not any(s.what == "loss" for s in sinks),
        "sink": sinks[0].what,
        "reaches": reaches_name(sinks),
        "optimizer": culprit.phase == "optimizer",
        "members": sorted({culprit.index, *(b.op.index for b in group if b.op is not None)}),
        "native": culprit.native,
        "step": culprit.step,
        "scalars": {k: v for k, v in culprit.scalars.items() if isinstance(v, (int, float))},
        "operands": len(culprit.operands),
        "feeds_log": any(u.name in ("log", "log2", "log10") for v in culprit.outputs for u in _users(run, v)),
        "returns": any(_brings_back(op) for op in downstream(run.recording, culprit)),
        "picked": alone and birth.deliberate and culprit.name in CONSTANT,
    }
    ops = {"culprit": culprit.index}
    sites = {}
    zero = _zero(run, culprit, birth)
    if zero is not None:
        facts["zero_from"] = zero.kind
        if zero.op is not None:
            ops["zero"] = zero.op.index
            facts["zero_dtype"] = zero.op.outputs[0].dtype if zero.op.outputs else None
            if zero.op.site is not None:
                sites["zero"] = zero.op.site
            other = zero.op.scalars.get("other", zero.op.scalars.get("min"))
            if zero.kind == "epsilon" and isinstance(other, (int, float)):
                numbers["epsilon"] = Number(float(other))
    where = dropped_by(run, culprit)
    if where is not None:
        facts["dropped"] = True
        ops["where"] = where.index
        if where.site is not None:
            sites["where"] = where.site
    if birth.cause is not None:
        facts["mask"] = _mask_side(run, birth)
        facts["written_infinity"] = any(b.deliberate for b in births(run, Sink("output", birth.cause)))
    if culprit.site is not None:
        sites["target"] = culprit.site
    site = culprit.site
    if zero is not None and zero.kind == "product underflow" and zero.op is not None and birth.born == "0/0":
        site = zero.op.site  # the quotient of two products: the line that multiplies is the one to change
    return Evidence("nonfinite-birth", "nonfinite", site=site, op=culprit.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _brings_back(op: Op) -> bool:
    """A root, a quotient or a log: what it returns is smaller than what it was given."""
    return op.name in ("sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p", "norm", "atan2", "tanh", "sigmoid") or (
        (op.name == "div" and len(op.operands) == 2) or (op.name == "pow" and _below_one(op.scalars.get("exponent")))
    )


def _below_one(exponent: object) -> bool:
    """A root, or a negative power."""
    return isinstance(exponent, (int, float)) and (exponent < 0 or 0 < exponent < 1)


def _users(run: Run, value: Value) -> Iterator[Op]:
    """Forward operations that read a value, past structural ones."""
    for user in run.recording.consumers(value):
        if user.phase == "forward":
            yield user
            if user.name in STRUCTURAL:
                for v in user.outputs:
                    yield from _users(run, v)


def _zero(run: Run, culprit: Op, birth: Birth) -> Zero | None:
    if culprit.name in ("log", "log2", "log10") or birth.born == "log of zero":
        return zero_origin(run, culprit.operands[-1 if culprit.name == "xlogy" else 0], -1.0 if culprit.name == "log1p" else 0.0)
    if birth.born in _MEETS_ZERO and culprit.operands:
        place = 0 if culprit.name in ("reciprocal", "rsqrt", "pow") else -1
        if run.stats(culprit.operands[place]).zero:
            return zero_origin(run, culprit.operands[place])
    return None


def _mask_side(run: Run, birth: Birth) -> str | None:
    """For a product with an infinity: which operand is a mask (only zeros and ones, not computed from the other)."""
    if birth.op is None or birth.op.name != "mul" or len(birth.op.operands) != 2:
        return None
    for side, value in zip(("left", "right"), birth.op.operands, strict=True):
        array = run.array(value)
        if value is not birth.cause and array is not None and array.size and bool(((array == 0) | (array == 1)).all()):
            return side
    return None


def _data(run: Run, birth: Birth, sinks: tuple[Sink, ...], alone: bool, followed: bool) -> Evidence:
    """`followed`: every NaN was made of an infinity. One in features, which weights multiply, is no mask: masks are added."""
    value = birth.value
    here = run.stats(value)
    array = run.array(value)
    numbers = {"nan": Number(here.nan, "elements"), "inf": Number(here.inf, "elements"), "size": Number(here.size, "elements")}
    facts: dict[str, object] = {"name": value.name, "role": value.role, "made_by": value.made_by, "dtype": value.dtype, "value": value.id}
    facts |= {"reaches": reaches_name(sinks), "sink": sinks[0].what}
    constant = value.made_by in ("full", "full_like", "fill_", "masked_fill", "masked_fill_", "new_full", "where") or value.shape == ()
    features = followed and any(op.name in ("matmul", "conv") for op in _users(run, value))
    facts["meant"] = here.nan == 0 and (constant or not (alone or features))
    facts["picked"] = alone and here.nan == 0
    if array is not None and array.ndim >= 1:
        rows = sorted({int(row) for row in np.nonzero(~np.isfinite(array))[0]})
        facts["rows"] = rows[:10]
        numbers["rows"] = Number(len(rows), "rows")
    reader = next(iter(run.recording.consumers(value)), None)
    site = value.made_at or (reader.site if reader is not None else None)
    if reader is not None:
        facts["members"] = [op.index for op in run.recording.consumers(value)]
    op = reader.index if reader else None
    return Evidence("non-finite-input", "nonfinite", site=site, op=op, numbers=numbers, facts=facts, sites={"target": site} if site else {})

