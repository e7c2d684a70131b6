"""Run the failing step (or the program) again with the suspect repaired. Did the symptom go?

Confirmed means all four: the control reproduces the symptom; only the suspect line changes (or, where no single line clears it,
the smallest set of lines); the symptom goes; and the repair computes what the naive form computes where that one is finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from numdebug.evidence import FAILURE, Evidence
from numdebug.report.model import Diagnosis, Repair
from numdebug.run import CannotAsk, Replayed, Run
from numdebug.siblings import every_call, with_siblings

Try = Callable[[Repair], "Trial | None"]
MOST = 12  # suspects tried one by one; beyond it the failing step is not worth more of the user's time
BETTER = frozenset({"clip-by-value"})  # a choice that harms only if the run ends with a lower loss without it
SUSPICIONS = frozenset({"learning-rate-divergence"})  # where nothing failed, only a run at a lower rate makes this a finding


@dataclass(frozen=True)
class Trial:
    """A run of the whole program with a repair in its source: whether it failed, what its loss did, which silent facts it still shows."""

    finite: bool
    steps: int
    first_loss: float | None
    last_loss: float | None
    change: str
    repair: Repair
    silent: frozenset[tuple[str, int]] = frozenset()  # (kind, line)

    @property
    def falls(self) -> bool:
        """The loss ends below where it began."""
        return self.first_loss is not None and self.last_loss is not None and self.last_loss < self.first_loss

    @property
    def learns(self) -> bool:
        """The loss ends at less than half of where it began."""
        return self.first_loss is not None and self.last_loss is not None and abs(self.last_loss) < 0.5 * abs(self.first_loss)


def confirm(run: Run, diagnoses: Sequence[Diagnosis], evidence: Sequence[Evidence], trial: Try | None) -> list[Diagnosis]:
    """The same diagnoses with `confirmed` and why."""
    harmful = {e.id for e in evidence if e.kind not in FAILURE}
    proofs = {e.id: str(e["proof"]) for e in evidence if e["proof"]}
    silent = [d for d in diagnoses if d.evidence and (d.evidence[0] in harmful or d.evidence[0] in proofs)]
    loud = [d for d in diagnoses if d not in silent]
    was = _late([s.loss for s in run.recording.steps if s.loss is not None])
    tried = [_proven(d, proofs) or _in_program(d, trial, False, was) for d in silent]
    done = [*_loud(run, loud, evidence, trial), *(d for d in tried if d.bug not in BETTER or d.confirmed != "no")]
    return sorted(done, key=lambda d: [o.bug == d.bug and o.site == d.site for o in diagnoses].index(True))


def _loud(run: Run, diagnoses: Sequence[Diagnosis], evidence: Sequence[Evidence], trial: Try | None) -> list[Diagnosis]:
    if not diagnoses:
        return []
    failed = bool(run.recording.sinks)
    try:
        control = run.again()
    except CannotAsk as why:
        return [_with_trial(_untried(d, str(why)), trial, failed) for d in diagnoses]
    if control.finite:
        tried = [_with_trial(_untried(d, "the recorded step alone does not reproduce the symptom"), trial, failed) for d in diagnoses]
        return [d for d in tried if failed or d.bug not in SUSPICIONS or d.confirmed == "yes"]
    tried = [_alone(run, d, control) if number < MOST else _untried(d, "too many suspects") for number, d in enumerate(diagnoses)]
    if not any(d.confirmed == "yes" for d in tried):
        tried = _together(run, tried, evidence)
    if not any(d.confirmed == "yes" for d in tried):
        tried = [_with_trial(d, trial, failed) for d in tried]
    return tried


def _proven(d: Diagnosis, proofs: dict[str, str]) -> Diagnosis | None:
    """A fact that was measured together with its own control needs no second run."""
    proof = next((proofs[e] for e in d.evidence if e in proofs), None)
    return None if proof is None else replace(d, confirmed="yes", confirmed_why=proof)


def _late(losses: Sequence[float]) -> float | None:
    """The loss at the end of a run: the median of the last ten steps."""
    return median(losses[-10:]) if losses else None


def _in_program(d: Diagnosis, trial: Try | None, failed: bool, was: float | None = None) -> Diagnosis:
    """The repair in the source, and the program once more. `was`: the loss at the end of the program as it is."""
    if d.repair is None or d.repair.kind == "none":
        return _untried(d, "there is no repair that could be tried")
    if trial is None:
        return _untried(d, "it needs a second run of the program, which --no-rerun forbids")
    outcome = trial(d.repair)
    if outcome is None:
        return _untried(d, "the change could not be written into the program")
    if not outcome.finite:
        return replace(d, confirmed="no", confirmed_why=f"run again {outcome.change}, the program fails")
    line = d.site.line if d.site is not None else 0
    if not failed and any(at == line for _, at in outcome.silent):
        return replace(d, confirmed="no", confirmed_why=f"run again {outcome.change}, the same line shows the same harm")
    if d.repair.form == "learning_rate" and not (outcome.falls if failed else outcome.learns):
        return replace(d, confirmed="no", confirmed_why=f"run again {outcome.change}, the loss does not fall either")
    if d.bug in BETTER and (was is None or outcome.last_loss is None or outcome.last_loss >= was):
        return replace(d, confirmed="no", confirmed_why=f"run again {outcome.change}, the loss does not end lower")
    before = "the program as it is fails" if failed else "the program as it is shows the harm"
    after = f"all {outcome.steps} steps are finite" if failed else "it is gone"
    losses = ""
    if outcome.first_loss is not None and outcome.last_loss is not None:
        losses = f", and the loss goes from {outcome.first_loss:.4g} to {outcome.last_loss:.4g}"
    return replace(d, confirmed="yes", confirmed_why=f"{before}; run again {outcome.change}, {after}{losses}", repair=outcome.repair)


def _untried(d: Diagnosis, why: str) -> Diagnosis:
    return d if d.confirmed == "yes" else replace(d, confirmed="not-tried", confirmed_why=why)


def _with_trial(d: Diagnosis, trial: Try | None, failed: bool) -> Diagnosis:
    """A setting takes effect over steps: it needs the program, not the step."""
    if d.repair is None or d.repair.kind != "setting" or d.confirmed == "yes":
        return d
    return _in_program(d, trial, failed)


def _alone(run: Run, d: Diagnosis, control: Replayed) -> Diagnosis:
    if d.repair is None or d.repair.kind == "none":
        return _untried(d, "there is no repair that could be tried on the recorded step")
    if d.repair.kind == "setting":
        return _untried(d, "a setting takes effect over steps, not in the recorded one")
    for repair in alternatives(d.repair):
        try:
            outcome = run.rewrite([every_call(run.recording, repair)])
        except CannotAsk as why:
            d = _untried(d, str(why)) if d.confirmed != "no" else d
            continue
        if not outcome.finite:
            d = replace(d, confirmed="no", confirmed_why=_still(outcome))
            continue
        wrong = outcome.disagreement
        if wrong is not None:
            d = replace(d, confirmed="no", confirmed_why=wrong)
            continue
        return replace(d, confirmed="yes", confirmed_why=_gone(d, outcome, control), repair=repair)
    return d


def alternatives(repair: Repair) -> list[Repair]:
    """The repair, and other forms of it where the first may not be the one that fits."""
    numbers = repair.numbers
    if repair.form == "guard_divisor":
        other = "where" if numbers.get("mode") == "clamp" else "clamp"
        return [repair, *(replace(repair, numbers={**numbers, "mode": mode}) for mode in (other, "both"))]
    if repair.form == "clamp_argument" and "hi" in numbers and "lo" not in numbers:
        return [repair, *(replace(repair, numbers={**numbers, "hi": numbers["hi"] / part}) for part in (2, 4))]
    if repair.form == "clamp_argument" and numbers.get("lo") == "tiny":
        return [repair, replace(repair, numbers={**numbers, "lo": "eps"})]
    if repair.form == "add_epsilon":
        return [repair, replace(repair, numbers={**numbers, "eps": 1e-8})]
    if repair.form == "masked_fill":
        other = "right" if numbers.get("mask_side") == "left" else "left"
        return [repair, replace(repair, numbers={**numbers, "mask_side": other})]
    return [repair]


def _together(run: Run, diagnoses: list[Diagnosis], evidence: Sequence[Evidence]) -> list[Diagnosis]:
    """No single line clears it: the smallest set of lines that does, found by taking lines away again."""
    chosen = [replace(d, repair=with_siblings(d.repair, evidence)) for d in diagnoses if d.repair is not None and d.confirmed == "no"]
    chosen = [d for d in chosen if d.repair is not None and d.repair.kind in ("rewrite", "data")][:MOST]
    if not chosen or not _cured(run, chosen):
        return diagnoses
    for d in list(chosen):
        fewer = [other for other in chosen if other is not d]
        if fewer and _cured(run, fewer):
            chosen = fewer
    sites = [d.repair.sites for d in chosen if d.repair is not None]
    lines = sorted({site.line for places in sites for role, site in places.items() if role.startswith("target")})
    words = " and ".join(map(str, lines))
    why = f"control re-run reproduces the symptom; with lines {words} repaired together it is gone, with one of them alone it is not"
    cured = {(d.bug, d.site): d.repair for d in chosen}
    return [
        replace(d, confirmed="yes", confirmed_why=why, repair=cured[d.bug, d.site]) if (d.bug, d.site) in cured else d for d in diagnoses
    ]  # fmt: skip


def _cured(run: Run, chosen: Sequence[Diagnosis]) -> bool:
    try:
        return run.rewrite([every_call(run.recording, d.repair) for d in chosen if d.repair is not None]).finite
    except CannotAsk:
        return False


def _still(outcome: Replayed) -> str:
    what = "the loss" if not outcome.outputs_finite else f"{outcome.bad_gradients} of {outcome.gradients} gradients"
    return f"with this line repaired, {what} would still not be finite"


def _gone(d: Diagnosis, outcome: Replayed, control: Replayed) -> str:
    line = f"line {d.site.line}" if d.site is not None else "the cause"
    symptom = "the failure"
    if control.loss is not None:
        symptom = f"{control.bad_gradients} bad gradients" if control.outputs_finite else f"loss {control.loss:.4g}"
    what = "data" if d.repair is not None and d.repair.kind == "data" else line
    result = "the output is finite" if not outcome.gradients else f"loss and all {outcome.gradients} gradients are finite"
    same = " bit for bit" if control.same else ""
    value = f" (loss {outcome.loss:.4g})" if outcome.loss is not None else ""
    agree = f"; {outcome.agreement}" if outcome.agreement else ""
    return f"control re-run reproduces {symptom}{same}; with {what} repaired and nothing else changed, {result}{value}{agree}"


def as_trial(watcher: Any, change: str, repair: Repair, silent: Iterable[Evidence]) -> Trial:
    """What a second run of the program showed."""
    observers = list(watcher.observers.values())
    steps = [s for o in observers for s in o.steps]
    losses = [s.loss for s in steps if s.loss is not None]
    finite = bool(steps or watcher.ops) and all(o.first_bad is None for o in observers)
    seen = frozenset((e.kind, e.site.line) for e in silent if e.kind not in FAILURE and e.site is not None)
    return Trial(finite, len(steps), losses[0] if losses else None, _late(losses), change, repair, seen)
