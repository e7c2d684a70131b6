"""Run the failing step (or the program) again with the suspect repaired. Did the symptom go?

Confirmed means all four: the control reproduces the symptom; only the suspect line changes (or, where no single line clears it,
the smallest set of lines); the symptom goes; and the repair computes what the naive form computes where that one is finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numdebug.evidence import FAILURE, Evidence
from numdebug.report.model import Diagnosis
from numdebug.run import CannotAsk, Replayed, Run
from numdebug.siblings import every_call, with_siblings
from numdebug.trials import BETTER, Try, alternatives, by_program, in_program, late, untried

MOST = 12  # suspects tried one by one; beyond it the failing step is not worth more of the user's time
SUSPICIONS = frozenset({"learning-rate-divergence"})  # where nothing failed, only a run at a lower rate makes this a finding


def confirm(run: Run, diagnoses: Sequence[Diagnosis], evidence: Sequence[Evidence], trial: Try | None) -> list[Diagnosis]:
    """The same diagnoses with `confirmed` and why."""
    harmful = {e.id for e in evidence if e.kind not in FAILURE}
    proofs = {e.id: str(e["proof"]) for e in evidence if e["proof"]}
    silent = [d for d in diagnoses if d.evidence and (d.evidence[0] in harmful or d.evidence[0] in proofs)]
    loud = [d for d in diagnoses if d not in silent]
    was = late([s.loss for s in run.recording.steps if s.loss is not None])
    measured = {e.id: str(e["measured"]) for e in evidence if e["measured"]}
    tried = [_proven(d, proofs) or _measured(in_program(d, trial, False, was), measured) for d in silent]
    done = [*_loud(run, loud, evidence, trial), *(d for d in tried if d.bug not in BETTER or d.confirmed != "no")]
    return sorted(done, key=lambda d: [o.bug == d.bug and o.site == d.site for o in diagnoses].index(True))


def _loud(run: Run, diagnoses: Sequence[Diagnosis], evidence: Sequence[Evidence], trial: Try | None) -> list[Diagnosis]:
    if not diagnoses:
        return []
    failed = bool(run.recording.sinks)
    try:
        control = run.again()
    except CannotAsk:
        before = [(s.index, s.loss) for s in run.recording.steps if s.loss is not None]
        return _suspicions(by_program(diagnoses, evidence, trial, failed, before), failed)
    if control.finite:
        tried = [_with_trial(untried(d, "the recorded step alone does not reproduce the symptom"), trial, failed) for d in diagnoses]
        return _suspicions(tried, failed)
    tried = [_alone(run, d, control) if number < MOST else untried(d, "too many suspects") for number, d in enumerate(diagnoses)]
    if not any(d.confirmed == "yes" for d in tried):
        tried = _together(run, tried, evidence)
    if not any(d.confirmed == "yes" for d in tried):
        tried = [_with_trial(d, trial, failed) for d in tried]
    return tried


def _suspicions(tried: list[Diagnosis], failed: bool) -> list[Diagnosis]:
    return [d for d in tried if failed or d.bug not in SUSPICIONS or d.confirmed == "yes"]


def _proven(d: Diagnosis, proofs: dict[str, str]) -> Diagnosis | None:
    """A fact that was measured together with its own control needs no second run."""
    proof = next((proofs[e] for e in d.evidence if e in proofs), None)
    return None if proof is None else replace(d, confirmed="yes", confirmed_why=proof)


def _measured(d: Diagnosis, measured: dict[str, str]) -> Diagnosis:
    """What was measured stands where there is no repair that could be tried in the program."""
    return (_proven(d, measured) or d) if d.confirmed == "not-tried" else d


def _with_trial(d: Diagnosis, trial: Try | None, failed: bool) -> Diagnosis:
    """A setting takes effect over steps: it needs the program, not the step."""
    if d.repair is None or d.repair.kind != "setting" or d.confirmed == "yes":
        return d
    return in_program(d, trial, failed)


def _alone(run: Run, d: Diagnosis, control: Replayed) -> Diagnosis:
    if d.repair is None or d.repair.kind == "none":
        return untried(d, "there is no repair that could be tried on the recorded step")
    if d.repair.kind == "setting":
        return untried(d, "a setting takes effect over steps, not in the recorded one")
    for repair in alternatives(d.repair):
        try:
            outcome = run.rewrite([every_call(run.recording, repair)])
        except CannotAsk as why:
            d = untried(d, str(why)) if d.confirmed != "no" else d
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
