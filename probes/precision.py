"""Where did the digits go?

Measures  every value that the program consumes (losses, printed numbers, arrays that its names hold) against the same computation in
          float64; where one is wrong, its slice once more with every input moved by up to half an ulp, which tells an unstable formula
          from a question that has no better answer in this format; then which region, kept in float64, cures it.
Costs     one pass in float64 over the last recorded steps; four more over the slice of a wrong value, and one for each region tried.
Misses    steps that were not kept; errors that the program's own branches, roundings and random numbers depend on; what is wrong by
          less than a tenth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from numdebug.evidence import Evidence, Number
from numdebug.formats import FORMATS
from numdebug.formulas import SOLVERS, formula, region
from numdebug.graph import climb, first
from numdebug.recording import Op, Recording, Sink, Value
from numdebug.run import CannotAsk, Error, Run

QUESTION = "Where did the digits go?"

# Not one decimal digit of the answer is right: whatever it is used for, this is no longer rounding.
HARM = 0.1
# In a backward-stable algorithm the error is what its own roundings, each like half an ulp on an operand, explain. A sum of n terms
# collects n of them at worst and sqrt(n) as a rule; a hundred stand for the ten thousand operations of a long chain.
BEYOND = 100.0
_SIZES = frozenset({"abs", "norm", "mean", "sum", "pow", "square", "sqrt", "max", "amax", "div"})
_ELEMENTS = frozenset({  # a few of many
    "select", "slice", "index", "gather", "take", "unbind", "index_select", "amin", "amax", "min", "max", "topk", "sort", "diagonal",
})  # fmt: skip
FORMULA = 200  # operations: what is longer is a simulation or a training run, not a formula that somebody could rearrange
AMPLIFIED = 4.0  # a square doubles a relative error: what makes less than twice that of it has passed it on
ROUNDED = 8  # eps: a result of a few operations; beyond, it has a history of its own
MOST = 8  # wrong values traced in one run: they share their cause


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each operation at which digits of a consumed value were lost."""
    if run.recording.sinks:
        return
    try:
        wrong = _wrong(run)
    except CannotAsk:
        return
    seen: set[object] = set()
    for sink in wrong[-MOST:]:
        try:
            errors = run.trace_errors(sink.value, HARM, BEYOND)
        except CannotAsk:
            continue
        every = culprits(run, sink.value, errors)
        named = False
        for op in every:
            where = op.site.place if op.site is not None else op.index
            if where not in seen:
                seen.add(where)
                for fact in _fact(run, sink, op, every, errors):
                    named = True
                    yield fact
        for op in [] if named else _eaten(run, sink):
            if op.site is not None and op.site.place not in seen:
                seen.add(op.site.place)
                yield from (fact for fact in _fact(run, sink, op, [op], errors) if fact["proof"])


def _wrong(run: Run) -> list[Sink]:
    """Consumed values that are wrong. Where one should be 0 (the difference between two results), what it was computed from."""
    found: list[Sink] = []
    todo = {s.value.id: s for s in run.consumed()}
    seen: set[int] = set()
    for _ in range(3):
        errors = run.errors([s.value for s in todo.values()], HARM) if todo else {}
        seen.update(todo)
        found += [s for s in todo.values() if s.value.id in errors and harmed(errors[s.value.id])]
        zero = [s for s in todo.values() if s.value.id in errors and 2 * errors[s.value.id].zeros >= errors[s.value.id].size]
        sides = [replace(s, value=v) for s in zero for v in _sides(run.recording, s.value)]
        todo = {s.value.id: s for s in sides if s.value.id not in seen}
    return found


def _sides(recording: Recording, value: Value) -> list[Value]:
    """The two sides of the difference that a norm, mean or maximum was taken of."""
    above = next((p.op for p in climb(recording, value, _SIZES) if p.op.name in ("sub", "rsub", "add")), None)
    return [v for v in above.operands if v.dtype in FORMATS] if above is not None else []


def harmed(error: Error, explained: bool = False) -> bool:
    """The array as a whole is wrong, or half of its elements are; with `explained`, also where the inputs' rounding accounts for it."""
    count = error.wrong if explained else error.lost
    return count > 0 and (error.norm > HARM or 2 * count >= error.size)


def vanished(error: Error) -> bool:
    """Half of the elements are 0 only because the format has nothing so small. It may be meant; above a wrong value it is harm."""
    return 2 * error.flushed >= error.size > 0


def culprits(run: Run, value: Value, errors: dict[int, Error]) -> list[Op]:
    """Up from a wrong value through wrong operands, to the operations that made it out of right ones."""
    found = _solvers(run, value, errors)
    if found:
        return found
    todo, seen = [value], {value.id}
    parts: set[int] = set()  # arrays of which a wrong element was taken out: it is wrong although most of the others are right
    while todo:
        current = todo.pop(0)
        if current.id not in errors or not _wrong_there(errors[current.id], current.id in parts):
            continue
        op = run.recording.producer(current)
        if op is None:
            continue
        if op.name in _ELEMENTS or current.id in parts:
            parts.update(v.id for v in op.operands if v.id in errors and errors[v.id].lost)
        wrong = [v for v in op.operands if v.id in errors and _wrong_there(errors[v.id], v.id in parts)]
        if not wrong:
            wrong = _inherited(run, op, errors)
        if not wrong and op not in found:
            found.append(op)
        for v in wrong:
            if v.id not in seen:
                seen.add(v.id)
                todo.append(v)
    return sorted(found, key=lambda op: op.index)


def _inherited(run: Run, op: Op, errors: dict[int, Error]) -> list[Value]:
    """Wrong values further up, from which the error came down: no operation on the way made it much larger, and one made it smaller."""
    seen = {v.id for v in op.outputs}
    todo = [(op, errors[v.id].norm) for v in op.outputs if v.id in errors]
    found: list[Value] = []
    for _ in range(FORMULA):
        if not todo:
            break
        here, size = todo.pop(0)
        for v in here.operands:
            if v.id in seen or v.id not in errors or errors[v.id].norm * AMPLIFIED < size:
                continue
            seen.add(v.id)
            above = run.recording.producer(v)
            if harmed(errors[v.id]):
                found.append(v)
            elif above is not None:
                todo.append((above, errors[v.id].norm))
    return found


def _wrong_there(error: Error, part: bool) -> bool:
    return harmed(error) or vanished(error) or (part and error.lost > 0)


def _solvers(run: Run, value: Value, errors: dict[int, Error]) -> list[Op]:
    """Solves that return a wrong result for a right matrix. That the matrix's own rounding explains it is what ill-conditioned means."""

    def wrong(v: Value) -> bool:
        return v.id in errors and harmed(errors[v.id], explained=True)

    above = [op for op in run.recording.upstream(value) if op.name in SOLVERS]
    return [op for op in above if any(v.id in errors and errors[v.id].wrong for v in op.outputs) and not any(map(wrong, op.operands))]


def _eaten(run: Run, sink: Sink) -> list[Op]:
    """Solves whose condition number leaves their format no digit: what is wrong behind them may only be exposed where they are compared."""
    above = [op for op in run.recording.upstream(sink.value) if op.name in SOLVERS and op.outputs[0].dtype in FORMATS and op.operands]
    return [op for op in above if (found := _condition(run, op)) and found["digits"].value == 0]


def _fact(run: Run, sink: Sink, op: Op, every: list[Op], errors: dict[int, Error]) -> Iterator[Evidence]:
    if op.site is None or op.outputs[0].dtype not in FORMATS or _only_the_loss(run, op, errors):
        return
    if _exposes(run, sink, op, errors):
        return
    here = errors[op.outputs[0].id]
    alike = [o for o in every if o.site is not None and o.site.place == op.site.place]
    standing = next((s for o in alike if (s := _standing(run, o)) is not None), None)
    if standing is not None:
        op = standing
    kind = formula(run.recording, op)
    numbers = {
        "lost": Number(here.lost, "elements"),
        "size": Number(here.size, "elements"),
        "recorded": Number(here.recorded),
        "exact": Number(here.exact),
        "relative_error": Number(here.worst),
        "explained": Number((here.inherent or 0.0) / abs(here.exact) if here.exact else 0.0, "relative, by half an ulp on every input"),
        "largest_operand": Number(max([abs(run.stats(v).highest or 0.0) for v in op.operands] or [0.0])),
    }
    if kind.name == "solve":
        numbers.update(_condition(run, op))
    facts = {
        "op": op.name,
        "native": op.native,
        "stands_still": standing is not None,
        "form": "running-sum" if standing is not None else "difference" if kind.name == "running-sum" and _shrinks(run, op) else kind.name,
        "dtype": op.outputs[0].dtype,
        "phase": op.phase,
        "step": op.step,
        "members": sorted({op.index, *(o.index for o in kind.ops)}),
        "reaches": sink.name or "a number that the program reads",
        **_proof(run, sink, op, every),
    }
    sites = {role: o.site for role, o in kind.roles.items() if o.site is not None}
    if op.site is not None:
        sites["target"] = op.site
    ops = {"target": op.index, **{role: o.index for role, o in kind.roles.items()}}
    kept = "values-flushed" if vanished(here) and not harmed(here) else "digits-lost"
    yield Evidence(kept, "precision", site=op.site, op=op.index, numbers=numbers, facts=facts, sites=sites, ops=ops)


def _shrinks(run: Run, op: Op) -> bool:
    """The sum is smaller than what was added up: its terms cancel. A sum that only grows loses what it absorbs."""
    before = max([run.stats(v).max_abs or 0.0 for v in op.operands] or [0.0])
    return (run.stats(op.outputs[0]).max_abs or 0.0) < before


def _condition(run: Run, op: Op) -> dict[str, Number]:
    """The 2-norm condition number of the (worst) matrix, and the decimal digits that it leaves: -log10(eps * condition)."""
    matrix = run.array(op.operands[0])
    if matrix is None or matrix.ndim < 2 or not np.isfinite(matrix).all() or matrix.dtype.kind != "f":
        return {}
    condition = float(np.max(np.linalg.cond(matrix.astype(np.float64))))
    digits = max(0.0, -math.log10(FORMATS[op.outputs[0].dtype].eps * condition))
    return {"condition": Number(condition), "digits": Number(digits, "decimal digits")}


def _standing(run: Run, op: Op) -> Op | None:
    """The running sum behind a difference whose last update left it bit for bit as it was: what the difference misses was lost there."""
    for value in op.operands if op.name == "sub" else ():
        above = first(run.recording, value)
        if above is not None and above.operands and formula(run.recording, above).name == "running-sum":
            old, new = run.array(above.operands[0]), run.array(above.outputs[0])
            if old is not None and new is not None and old.shape == new.shape and bool((old == new).all()):
                return above
    return None


def _exposes(run: Run, sink: Sink, op: Op, errors: dict[int, Error]) -> bool:
    """A difference that the program only looks at (an energy drift, two methods compared), of results with a history of rounding each."""
    if op.name != "sub" or len(op.operands) != 2 or formula(run.recording, op).name != "difference":
        return False
    looked_at = any(p.op is op for p in climb(run.recording, sink.value, _SIZES)) or sink.value in op.outputs
    eps = FORMATS[op.outputs[0].dtype].eps
    if looked_at and sum(1 for _ in islice(run.recording.upstream(op.outputs[0]), FORMULA + 1)) > FORMULA:
        return True
    return looked_at and any(errors[v.id].norm > ROUNDED * eps for v in op.operands if v.id in errors)


def _only_the_loss(run: Run, op: Op, errors: dict[int, Error]) -> bool:
    """A loss that has become small may end in a cancellation (1 - cosine): what learning uses is its gradient."""
    recording = run.recording
    losses = [loss for loss in run.losses() if recording.depends(op, loss)]
    if not losses:
        return False
    largest = max([abs(s.loss) for s in recording.steps if s.loss is not None and math.isfinite(s.loss)] or [0.0])
    if any(loss.id in errors and abs(errors[loss.id].recorded - errors[loss.id].exact) > HARM * largest for loss in losses):
        return False
    try:
        error, size = run.gradient_error()
    except CannotAsk:
        return True
    norms = [s.gradient_norm for s in recording.steps if s.gradient_norm is not None and math.isfinite(s.gradient_norm)]
    return error <= HARM * max([size, *norms])


def _proof(run: Run, sink: Sink, op: Op, every: list[Op]) -> dict[str, object]:
    """The smallest region around the line (or, where that is not enough, around all such lines) that gives the right answer in float64."""
    assert op.site is not None
    line = [o for o in every if o.site is not None and o.site.place == op.site.place]
    try:
        for start in (line, every) if len(line) < len(every) else (line,):
            for ops in region(run.recording, sink.value, start):
                error = run.kept_wide(frozenset(o.index for o in ops), sink.value, HARM)
                if not error.lost:
                    return {"proof": _cured(op, ops, sink, error), "lines": _lines(op, ops)}
    except CannotAsk:
        return {}
    return {}


def _lines(op: Op, ops: list[Op]) -> list[int]:
    return sorted({o.site.line for o in ops if o.site is not None and op.site is not None and o.site.file == op.site.file})


def _cured(op: Op, ops: list[Op], sink: Sink, error: Error) -> str:
    lines = _lines(op, ops)
    where = f"line {lines[0]}" if len(lines) == 1 else "lines " + ", ".join(map(str, lines))
    return (
        f"the step run again in its own formats gives the same wrong result; with only {where} kept in float64 and rounded to "
        f"{op.outputs[0].dtype} afterwards, {sink.name or 'the consumed number'} agrees with float64 to {error.norm:.1e}"
    )
