"""Is a trained network evaluated as it was trained: with dropout active, or with the statistics of the batch at hand?

Measures  for forward passes whose result is used and never differentiated: active dropout, and batch normalisation on the statistics of
          the batch although it keeps running ones, in layers that were trained before or loaded; how far the answers to the same input lie
          apart when the network is asked again, with all rows and with fewer, and whether evaluation mode ends that.
Costs     one pass over the recorded operations, and six of that network where there is something to ask.
Misses    evaluation outside of the recorded steps; attention kernels that drop inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from numdebug.answers import Answers, NetworkCall
from numdebug.evidence import Evidence, Number
from numdebug.load.source import read_somewhere
from numdebug.recording import Frame, Op, Recording, Site, Value
from numdebug.run import CannotAsk, Run

QUESTION = "Is a trained network evaluated with dropout or batch statistics active?"
SILENT = True

SEVERAL = 3  # stochastic passes over the same input, put together: their spread is wanted (Monte-Carlo dropout)
# What predictions are turned into. A pass whose result meets none of these was made for something else (statistics brought up to date).
_ENTRIES = ("forward", "__call__", "call")  # what PyTorch, JAX's libraries and Keras call a network by
_JUDGED = frozenset({
    "_local_scalar_dense", "sort", "argsort", "multinomial",
    "argmax", "argmin", "eq", "max", "topk", "gt", "lt", "ge", "le", "cat", "stack", "mean", "sum", "mse_loss",
    "nll_loss", "log_softmax", "binary_cross_entropy", "binary_cross_entropy_with_logits", "l1_loss", "smooth_l1_loss", "huber_loss",
})  # fmt: skip


@dataclass(frozen=True)
class _Pass:
    """One layer in training mode whose result is used, and never differentiated. `followers`: the operations that use it."""

    op: Op
    kind: str
    followers: set[int]
    at: Site | None  # the line that calls the network
    call: NetworkCall | None


def measure(run: Run) -> Iterator[Evidence]:
    """One fact: of the first such pass."""
    recording = run.recording
    if recording.sinks:
        return
    found = [(op, kind) for op in recording.ops if op.phase != "backward" and (kind := run.training_mode(op)) is not None]
    suspects = _untrained(run, found) if found else []
    if not suspects or _repeated(run, [(p.op, p.followers) for p in suspects if p.kind == "dropout"]):
        return
    first = suspects[0]
    answers, why_not = _asked_again(run, [p.op for p in suspects if p.at == first.at])
    if answers is not None and not (answers.repeated or answers.fewer):
        return  # asked again, it gives the same answers
    own = first.op.site is not None and first.at is not None and first.op.site.place != first.at.place
    still = answers is not None and (answers.repeated_evaluating > 0 or (not answers.repeated and _apart(answers)))
    functional = still and own
    sites = {"target": first.at} if first.at is not None else {}
    if functional and first.op.site is not None:
        sites = {"target": (run.made(first.op) if first.kind == "batch statistics" else None) or first.op.site}
    if first.at is not None:  # by letters: a digit would say which target they belong to
        sites |= {f"via_{letter}": _site(frame) for letter, frame in zip(ascii_lowercase, run.frames(first.op), strict=False)}
    numbers = {"passes": Number(len(suspects), "calls")}
    facts = {
        "active": sorted({p.kind for p in suspects if p.at == first.at}, reverse=True), "op": first.op.name, "native": first.op.native,
        "members": [first.op.index], "functional": functional,
        "loaded": first.call is not None and first.call.loaded, "why_not": why_not, "measured": _measured(answers),
    }  # fmt: skip
    if answers is not None:
        numbers |= {"rows": Number(answers.rows, "rows"), "part": Number(answers.part, "rows"), "repeated": Number(answers.repeated)}
        numbers |= {"repeated_evaluating": Number(answers.repeated_evaluating), "size": Number(answers.size)}
        if answers.fewer is not None and answers.fewer_evaluating is not None:
            numbers |= {"fewer": Number(answers.fewer), "fewer_evaluating": Number(answers.fewer_evaluating)}
    yield Evidence("train-mode-evaluation", "evaluation", site=first.at, op=first.op.index, numbers=numbers, facts=facts, sites=sites)


def _untrained(run: Run, found: Sequence[tuple[Op, str]]) -> list[_Pass]:
    recording = run.recording
    differentiated = {op.forward for op in recording.ops if op.phase == "backward" and op.forward is not None}
    last = max((op.index for op in recording.ops if op.phase == "backward"), default=-1)
    followers = {op.index: _followers(recording, op, differentiated) for op, _ in found}
    training = [op for op, _ in found if op.grad and followers[op.index] is None]
    trained = {_layer(run, op) for op in training}
    paths = [[(f.file, f.line) for f in run.frames(op)] for op in training]
    lines = {place for path in paths for place in path}
    taken = {sink.value.id: sink.name for sink in run.consumed() if not (sink.name or "").startswith("_")}
    suspects: list[_Pass] = []
    for op, kind in found:
        after = followers[op.index]
        call = run.network_call(op)
        at = _called_from(run, op, call)
        if after is None or (call is not None and (call.rivals or not call.outside)):
            continue
        frames = run.frames(op)
        if op.grad and [(f.file, f.line) for f in frames] in paths:
            continue
        if _place(at) in lines:  # a function that training calls as well: the innermost line that only evaluation passes through
            own = [f for f in frames[: call.outside if call is not None else None] if (f.file, f.line) not in lines]
            at = _site(own[-1]) if own else at
        if _layer(run, op) not in trained and not (call is not None and call.loaded):
            continue
        names = [taken[v.id] for i in after for v in recording.ops[i].outputs if v.id in taken]
        if kind == "batch statistics":  # a pass for the sake of its statistics may leave its result behind under a name
            names = [name for name in names if name is None or read_somewhere(name)]
        judged = any(recording.ops[i].name in _JUDGED and run.training_mode(recording.ops[i]) is None for i in after)
        if judged or names:
            suspects.append(_Pass(op, kind, after, at, call))
    monitored = {_place(p.at) for p in suspects if p.call is not None and p.call.trained_on and p.op.index < last}
    return [p for p in suspects if not (p.call is not None and p.call.trained_on and _place(p.at) in monitored)]


def _asked_again(run: Run, ops: Sequence[Op]) -> tuple[Answers | None, str]:
    """Of these calls on one line, the last ones are kept."""
    why_not = ""
    for op in (ops[0], ops[-1]):
        try:
            return run.ask_again(op), ""
        except CannotAsk as why:
            why_not = str(why)
    return None, why_not


def _measured(answers: Answers | None) -> str:
    """What asking again proves by itself: in evaluation mode the network gives one answer."""
    if answers is None or answers.repeated_evaluating or not (answers.repeated or answers.fewer) or _apart(answers):
        return ""
    worst = max(answers.repeated, answers.fewer or 0.0)
    calm = answers.fewer_evaluating or 0.0
    return f"asked again after the program's end, the network gives answers up to {worst:.3g} apart, in evaluation mode {calm:.1g}"


def _apart(answers: Answers) -> bool:
    """In evaluation mode, fewer rows still get other answers: not by rounding, but like in training mode."""
    return answers.fewer is not None and answers.fewer_evaluating is not None and answers.fewer_evaluating > 0.5 * answers.fewer


def _place(site: Site | None) -> tuple[str, int] | None:
    return site.place if site is not None else None


def _site(frame: Frame) -> Site:
    return Site(frame.file, frame.line, frame.column, frame.end_line, frame.end_column, frame.function)


def _layer(run: Run, op: Op) -> object:
    """What its calls have in common: the library's object, or the line; of a network of library layers alone, no line is its own."""
    module = run.module(op)
    if module is not None:
        return module
    own = any(frame.function in _ENTRIES for frame in run.frames(op))
    return op.site.place if own and op.site is not None else op.name


def _called_from(run: Run, op: Op, call: NetworkCall | None = None) -> Site | None:
    """The line that calls the network: where the frames enter it, or a method that its library calls."""
    frames = run.frames(op)
    outside = call.outside if call is not None else next((n for n, frame in enumerate(frames) if frame.function in _ENTRIES), len(frames))
    if not frames or not outside:
        return op.site
    f = frames[outside - 1]
    return Site(f.file, f.line, f.column, f.end_line, f.end_column, f.function, None, op.step)


def _followers(recording: Recording, op: Op, differentiated: set[int]) -> set[int] | None:
    """What uses the result; None where that is differentiated (a teacher, a target, a generator's fakes, training itself)."""
    todo, seen = [op], {op.index}
    while todo:
        current = todo.pop()
        if current.index in differentiated:
            return None
        for value in current.outputs:
            for user in recording.consumers(value):
                if user.index not in seen and user.phase != "backward":
                    seen.add(user.index)
                    todo.append(user)
    return seen - {op.index}


def _repeated(run: Run, passes: list[tuple[Op, set[int]]]) -> bool:
    """The same input several times, and the results put together."""
    inputs: dict[tuple[object, bytes], list[set[int]]] = {}
    for op, followers in passes:
        if any(user.name == op.name == "random" for v in op.outputs for user in run.recording.consumers(v)):
            continue  # the bits of a mask that follows
        source = _input_of(run.recording, op)
        numbers = run.array(source) if source is not None else None
        if numbers is not None and _same_rows(run, op, source, numbers):
            return True
        if numbers is not None:
            inputs.setdefault((_layer(run, op), np.ascontiguousarray(numbers).tobytes()), []).append(followers)
    return any(len(several) >= SEVERAL and set.intersection(*several[:SEVERAL]) for several in inputs.values())


def _same_rows(run: Run, op: Op, source: Value | None, numbers: np.ndarray) -> bool:
    """The same rows many times in one call: copied by the program, or by a map over random numbers."""
    if op.name == "batch_norm" or source is None or numbers.ndim < 2 or len(numbers) < SEVERAL:
        return False
    rows = np.ascontiguousarray(numbers).reshape(len(numbers), -1)
    return len(np.unique(rows, axis=0)) * SEVERAL <= len(rows)


def _input_of(recording: Recording, op: Op) -> Value | None:
    """What the stochastic operation is applied to: for dropout, what the mask is multiplied with or chooses from."""
    if op.name not in ("bernoulli", "random"):
        return op.operands[0] if op.operands else None
    todo = [op]
    for _ in range(4):
        users = [u for o in todo for v in o.outputs for u in recording.consumers(v) if u.phase != "backward"]
        product = next((u for u in users if (u.name == "mul" and len(u.operands) == 2) or u.name == "where"), None)
        if product is not None:
            made = {v.id for o in todo for v in o.outputs}
            return next((v for v in product.operands if v.id not in made), None)
        todo = users
    return None
