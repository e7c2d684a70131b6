"""What would happen to this step in a narrower number format?

Measures  for float16, bfloat16 and both 8-bit formats: the largest result of the last recorded step against the format's largest number.
          With `--as FORMAT`: that step again with every number rounded to it, forward and backward: where it first overflows, which
          modules have to stay in float32, gradient entries that are 0 only because of the format, the loss scale that keeps 99.9 % of
          them, epsilons that are 0.
Costs     a look at every result (a tenth of a step). With `--as`: two steps where all is well, a dozen where it is not.
Misses    other steps than the last recorded one; what the optimizer does in the format, its epsilon apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from numdebug.emulation import Emulation
from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS, NARROW
from numdebug.recording import Op
from numdebug.run import CannotAsk, Run

QUESTION = "What would happen to this step in a narrower number format?"

MANY = 5_000  # operations: beyond, headroom is worth its time only to who asks for a format
LISTED = 5  # operations nearest to the limit
_STRICT = {"masked_fill": ("value",), "clamp": ("min", "max")}
_OWN = {FORMATS[name].max for name in ("float32", "float16", "bfloat16")}  # finfo(x.dtype).max: the format's own
_GUARDED = frozenset({"div", "log", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "pow"})
_HANDED_ON = frozenset({"expand", "view", "unsqueeze", "squeeze", "transpose", "reshape", "sqrt"})


def measure(run: Run) -> Iterator[Evidence]:
    """Headroom by format, then the step in the format that was asked for."""
    form = run.options.get("as")
    recording = run.recording
    if recording.sinks:  # it fails as it is
        if form:
            yield _summary(form, "the step is not finite as it ran")
        return
    if form or sum(op.step == recording.window[1] for op in recording.ops) <= MANY:
        yield from _headroom(run)
    if form:
        yield from _emulated(run, form)


def _headroom(run: Run) -> Iterator[Evidence]:
    tops = run.largest()
    if not tops:
        return
    ranked = sorted(tops, key=lambda place: -tops[place])
    first = run.recording.ops[ranked[0]]
    nearest = [f"{_words(run.recording.ops[place])}: {tops[place]:.4g}" for place in ranked[:LISTED]]
    for name in NARROW:
        limit = FORMATS[name]
        largest = tops[ranked[0]]
        numbers = {
            "largest": Number(largest),
            "limit": Number(limit.max),
            "headroom": Number(limit.max / largest if largest else limit.max, "times the largest result"),
            "beyond": Number(sum(top > limit.max for top in tops.values()), "operations"),
            "gone": Number(sum(0 < top <= limit.flush for top in tops.values()), "operations whose results are all 0"),
            "operations": Number(len(tops)),
        }
        facts = {"format": name, "op": first.name, "nearest": nearest}
        yield Evidence("headroom", "formats", site=first.site, op=first.index, numbers=numbers, facts=facts)


def _emulated(run: Run, form: str) -> Iterator[Evidence]:
    try:
        step = run.emulate(form)
    except CannotAsk as why:
        yield _summary(form, str(why))
        return
    yield _whole(run, step)
    if not step.finite:
        yield from _overflow(run, step)
    elif step.flushed:
        yield _underflow(run, step)
    yield from _epsilons(run, step)
    yield from _refused(run, step)


def _summary(form: str, why: str) -> Evidence:
    return Evidence("emulated-step", "formats", facts={"format": form, "why": why})


def _symptom(step: Emulation) -> str:
    if step.outputs_finite:
        return f"{step.bad_gradients} of {step.gradients} gradients are not finite"
    if step.loss is None:
        return "the output is not finite"
    what = "loss" if step.gradients else "result"  # nothing was differentiated
    return f"the {what} is {'NaN' if step.loss != step.loss else step.loss}"


def _whole(run: Run, step: Emulation) -> Evidence:
    numbers = {"limit": Number(FORMATS[step.format].max), **_gradients(step)}
    for name, value in (("loss", step.loss), ("loss_as_it_ran", step.recorded_loss)):
        if value is not None:
            numbers[name] = Number(value)
    facts = {"format": step.format, "finite": step.finite, "gradients": step.gradients, "mixed": step.mixed}
    if not step.finite:
        facts["symptom"] = _symptom(step)
    if step.keep is not None:
        facts["keep"] = list(step.keep)
    if step.worst is not None:
        facts["worst"] = step.worst[0]
    return Evidence("emulated-step", "formats", numbers=numbers, facts=facts)


def _gradients(step: Emulation) -> dict[str, Number]:
    if not step.entries or not step.finite:
        return {}
    numbers = {
        "share": Number(step.flushed / step.entries, "of all gradient entries"),
        "flushed": Number(step.flushed, "gradient entries"),
        "size": Number(step.entries, "gradient entries"),
        "zeros": Number(step.zeros, "gradient entries"),
    }
    if step.worst is not None:
        numbers["worst_share"] = Number(step.worst[1], f"of {step.worst[0]}")
    if step.scale is not None:
        numbers["loss_scale"] = Number(step.scale)
    if step.best is not None:
        numbers["highest_scale"] = Number(step.best[0])
        numbers["kept_there"] = Number(step.best[1], "of all gradient entries")
    return numbers


def _overflow(run: Run, step: Emulation) -> Iterator[Evidence]:
    first = step.first
    if first is None or first.op is None:
        return
    op = run.recording.ops[first.op]
    fits = first.largest <= FORMATS[step.format].max or first.largest == float("inf")
    numbers = {"largest": Number(first.largest), "limit": Number(FORMATS[step.format].max)}
    facts = {
        "format": step.format,
        "predicted": True,
        "fails": True,
        "op": op.name,
        "native": op.native,
        "born": "divided" if fits else "overflow",
        "backward": first.backward,
        "data": first.name,
        "symptom": _symptom(step),
        "members": [],
    }
    if step.keep is not None:
        facts["keep"] = list(step.keep)
        facts["proof"] = (
            f"the recorded step is finite; with every number rounded to {step.format}, {_symptom(step)}; "
            f"with {', '.join(step.keep)} kept in float32 it is finite"
        )
    yield Evidence("emulated-overflow", "formats", site=op.site, op=op.index, numbers=numbers, facts=facts)


def _underflow(run: Run, step: Emulation) -> Evidence:
    backward = [op for op in run.recording.ops if op.phase == "backward"]
    start = next((op for op in backward if op.step == backward[-1].step), None)
    if start is not None and start.site is None:  # numdebug called backward itself: the loss stands for it
        start = next((op for op in reversed(run.recording.ops[: start.index]) if op.site is not None), start)
    facts = {"format": step.format, "predicted": True, "members": []}
    if step.worst is not None:
        facts["worst"] = step.worst[0]
    if step.scale is not None:
        facts["proof"] = (
            f"the recorded step was computed in float32 and with every number rounded to {step.format}, and there again "
            f"with the loss times {step.scale:g}, which keeps at least 99.9 % of the gradient entries"
        )
    site = start.site if start is not None else None
    index = start.index if start is not None else None
    return Evidence("emulated-underflow", "formats", site=site, op=index, numbers=_gradients(step), facts=facts)


def _epsilons(run: Run, step: Emulation) -> Iterator[Evidence]:
    """Guards that the format rounds to 0: a small constant added, or a lower bound, in front of a division, a log or a root."""
    flush = FORMATS[step.format].flush
    seen = set()
    for op in run.recording.ops:
        eps = op.scalars.get("other") if op.name == "add" else op.scalars.get("min") if op.name == "clamp" else None
        if op.phase != "forward" or type(eps) is not float or not 0 < eps <= flush or op.site is None:
            continue
        if eps in (FORMATS["float32"].tiny, FORMATS["float32"].eps):  # finfo(x.dtype).tiny: the format's own
            continue
        guarded = _guards(run, op)
        if guarded and (op.site.place, eps) not in seen:
            seen.add((op.site.place, eps))
            facts = {"format": step.format, "predicted": True, "op": op.name, "native": op.native, "guards": guarded, "members": []}
            yield Evidence("emulated-epsilon", "formats", site=op.site, op=op.index, numbers={"epsilon": Number(eps)}, facts=facts)
    for name, eps in step.optimizers:
        facts = {"format": step.format, "predicted": True, "optimizer": name, "members": []}
        site = run.recording.places.get("optimizer")
        yield Evidence("emulated-epsilon", "formats", site=site, numbers={"epsilon": Number(eps)}, facts=facts)


def _refused(run: Run, step: Emulation) -> Iterator[Evidence]:
    """Constants that the framework does not take for an array in the format: it raises an error instead of rounding them to inf."""
    limit = FORMATS[step.format].max
    seen = set()
    for op in run.recording.ops:
        if op.phase != "forward" or op.name not in _STRICT or op.site is None or not op.outputs:
            continue
        if op.outputs[0].dtype not in (NARROW if step.mixed else ("float32", "float64")):
            continue
        for value in (op.scalars.get(name) for name in _STRICT[op.name]):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not limit < abs(value) < math.inf:
                continue
            if abs(value) in _OWN or (op.site.place, value) in seen:
                continue
            seen.add((op.site.place, value))
            facts = {"format": step.format, "op": op.name, "native": op.native, "members": []}
            yield Evidence("emulated-refusal", "formats", site=op.site, op=op.index, numbers={"constant": Number(value)}, facts=facts)


def _guards(run: Run, op: Op, depth: int = 3) -> str | None:
    """The operation that the guard is for."""
    for value in op.outputs:
        for user in run.recording.consumers(value):
            if user.phase != "forward":
                continue
            divided = user.name != "div" or (len(user.operands) > 1 and user.operands[1] is value)
            if user.name in _GUARDED and divided:
                return user.name
            if depth and user.name in _HANDED_ON and (found := _guards(run, user, depth - 1)):
                return found
    return None


def _words(op: Op) -> str:
    return f"{op.name} at {op.site.file}:{op.site.line}" if op.site is not None else op.name
