"""The table of contents: load and observe have run; probe, match, confirm, and say what to change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numdebug.catalogue._dialects import in_words_of
from numdebug.confirm import confirm
from numdebug.evidence import Evidence
from numdebug.fixes import framework_of, write_diff, write_together
from numdebug.latent import latent
from numdebug.match import match, settle
from numdebug.probing import asked, probes
from numdebug.recording import Frame
from numdebug.report.model import Diagnosis, Fix, ProbeRun, Repair
from numdebug.run import CannotAsk, Run
from numdebug.siblings import distinct, every_call, with_siblings
from numdebug.trials import GUARDED, Trial, Try, as_trial

EVENTS = 5  # of NumPy's own warnings that a report lists


def analyse(watcher: Any, journal: Any, options: dict[str, Any]) -> None:
    """From what was observed to diagnoses, each fact journalled as soon as it is known."""
    watcher = _recorded(watcher, journal, options)
    for name, observer in watcher.observers.items():
        journal.add("observed", observer.observed())
        if observer.threads:
            journal.add("note", text="what the program computes in other threads is not observed")
        run = watcher.run(name)
        if run is None:
            continue
        if not run.recording.complete:
            journal.add("note", text=f"not everything was looked into: {run.recording.why_incomplete}")
        evidence = [*probe(run, journal, options), *_numbered(watcher.early.get(name, []), journal)]
        for fact in evidence:
            if fact.kind == "gradients-checked":
                journal.add("note", text=_checked(fact))
        found = [_spoken(run, d, watcher.folder) for d in match(evidence, options.get("select"), options.get("ignore") or ())]
        confirmed = confirm(run, found, evidence, _trial(watcher, options))
        settled = settle(confirmed, evidence)
        for diagnosis in settled:
            journal.add("diagnosis", explain(run, diagnosis, evidence, watcher.folder))
        if not run.recording.sinks and not any(d.severity == "error" for d in settled):
            _latent(run, evidence, watcher, journal, options)
    journal.add("matched")


def _checked(fact: Evidence) -> str:
    if fact["why_not"]:
        return f"the gradients were not checked: {fact['why_not']}"
    undecided = f"; of {fact['undecided']} differences cannot tell" if fact["undecided"] else ""
    return (
        f"the gradients of {fact['right']} of {fact['parameters']} parameters agree with differences of the loss in float64 "
        f"(largest relative error {fact['largest_error']:.1e}){undecided}"
    )


def probe(run: Run, journal: Any, options: dict[str, Any]) -> list[Evidence]:
    """Ask every question (or those that were chosen)."""
    wanted = options.get("probes")
    gathered: list[Evidence] = []
    for name, module in probes().items():
        if wanted and name not in wanted:
            continue
        begin = time.monotonic()
        gathered.extend(_numbered(asked(name, module, run, journal), journal, len(gathered)))
        journal.add("probe", ProbeRun(name, True, round(time.monotonic() - begin, 4), 0))
    return gathered


def _latent(run: Run, evidence: Sequence[Evidence], watcher: Any, journal: Any, options: dict[str, Any]) -> None:
    """Failures within reach of a run that stayed healthy, as warnings."""
    risks = [e for e in evidence if e.kind == "risky-op"]
    wanted, unwanted = options.get("select"), options.get("ignore") or ()
    for found in latent(run, risks, lambda file: _text(watcher.folder / file), len(evidence) + 1):
        if found.diagnosis.bug not in unwanted and (wanted is None or found.diagnosis.bug in wanted):
            for fact in found.evidence:
                journal.add("evidence", fact)
            journal.add("diagnosis", explain(found.run, found.diagnosis, found.evidence, watcher.folder))


def _text(file: Path) -> str | None:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None


def _numbered(facts: Iterable[Evidence], journal: Any | None, start: int = 0) -> list[Evidence]:
    out: list[Evidence] = []
    for fact in facts:
        numbered = replace(fact, id=fact.id or f"E{start + len(out) + 1}")
        if journal is not None:
            journal.add("evidence", numbered)
        out.append(numbered)
    return out


def _with_operations(watcher: Any, journal: Any, options: dict[str, Any]) -> Any:
    """A program that ran as it is, once more with its operations recorded."""
    again = options.get("run_again")
    for (file, line), text in [pair for o in watcher.observers.values() for pair in getattr(o, "events", {}).items()][:EVENTS]:
        journal.add("note", text=f"NumPy itself reported at {_name(file, watcher.folder)}:{line}: {text}")
    if again is None or options.get("no_rerun"):
        journal.add("unusable", text="what NumPy computes is recorded in a second run, which --no-rerun forbids")
        return watcher
    options["record"] = True
    second = again({})
    if second.failed == watcher.failed and second.observers:
        if any(getattr(o, "unfinished", False) for o in second.observers.values()):
            journal.add("note", text=f"recording it took too long: of what it computes the first {second.ops} operations were seen")
        return second
    options["record"] = False
    journal.add("unusable", text=f"it could not be recorded: run once more for that, it raised {second.failed}")
    return watcher


def _recorded(watcher: Any, journal: Any, options: dict[str, Any]) -> Any:
    """Where only the sentinel saw the failure: the program once more, with that step traced."""
    if any(getattr(o, "unrecorded", False) for o in watcher.observers.values()):
        return _with_operations(watcher, journal, options)
    bad = next((o.rerun for o in watcher.observers.values() if o.rerun is not None), None)
    again = options.get("run_again")
    if bad is None or again is None or options.get("no_rerun"):
        return watcher
    second = again({"window": [max(0, bad - 1), bad]})
    return second if any(o.first_bad is not None for o in second.observers.values()) else watcher


def _name(file: str, folder: Path) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else file


def _trial(watcher: Any, options: dict[str, Any]) -> Try | None:
    """Runs the program again with a repair (or several) in its source, or None where that is forbidden."""
    again = options.get("run_again")
    if again is None or options.get("no_rerun"):
        return None

    def trial(repair: Repair | tuple[Repair, ...]) -> Trial | None:
        if isinstance(repair, tuple):
            diff = write_together([distinct(r) for r in repair], watcher.folder)
            if diff is None:
                return None
            second = again({"diff": diff})
            return as_trial(second, "with these lines repaired", repair[0], _silent(second), _fails(second))
        outcome = None
        for changed in _variants(repair):
            diff = _written(changed, watcher.folder)
            if diff is None:
                return outcome
            second = again({"diff": diff, **({"traced": 0} if changed.form == "learning_rate" and not changed.numbers.get("look") else {})})
            outcome = as_trial(second, f"with {_change(changed)}", changed, _silent(second), _fails(second))
            if outcome.finite and (changed.form != "learning_rate" or outcome.falls):
                return outcome
        return outcome

    return trial


def _variants(repair: Repair) -> list[Repair]:
    """A learning rate is lowered by tens until the run holds."""
    if repair.form != "learning_rate":
        return [repair]
    return [replace(repair, numbers={**repair.numbers, "factor": repair.numbers["factor"] * factor}) for factor in (1.0, 0.1, 0.01, 0.001)]


def _silent(watcher: Any) -> list[Evidence]:
    """Harm without a NaN that a run still shows."""
    found = [e for early in watcher.early.values() for e in early]
    for name, observer in watcher.observers.items():
        run = watcher.run(name)
        if run is not None and observer.first_bad is None:
            for question, module in probes().items():
                if getattr(module, "SILENT", False):
                    found.extend(asked(question, module, run, watcher.journal))
    return found


def _fails(watcher: Any) -> bool:
    """Whether a run fails: infinities that the program wrote down itself and leaves under a name do not count."""
    for name, observer in watcher.observers.items():
        if observer.first_bad is None:
            continue
        run = watcher.run(name)
        if run is None or any(sink.what != "output" for sink in run.recording.sinks):
            return True
        if match(list(_numbered(asked("nonfinite", probes()["nonfinite"], run, watcher.journal), None))):
            return True
    return False


def _change(repair: Repair) -> str:
    if repair.form == "learning_rate":
        return f"the learning rate times {repair.numbers['factor']:g}"
    return f"the repair ({repair.summary})"


def _spoken(run: Run, d: Diagnosis, folder: Path) -> Diagnosis:
    """In the words of the file that the diagnosis points into."""
    file = folder / d.site.file if d.site is not None else None
    return in_words_of((file and framework_of(file)) or run.recording.framework, d)


def explain(run: Run, d: Diagnosis, evidence: Sequence[Evidence], folder: Path) -> Diagnosis:
    """The fix as a diff, where it can be written, and the frames that lead to the line."""
    d = _spoken(run, d, folder)
    summary = d.fix.summary if d.fix is not None else ""
    diff = None
    if d.repair is not None:
        diff = _written(with_siblings(d.repair, evidence), folder)
        if diff is None and d.confirmed == "yes":
            summary, diff = _second_best(run, d.repair, evidence, folder, summary)
        diff = diff or _written(d.repair, folder)
    if d.confirmed == "no":
        summary, diff = f"{summary} (tried: by itself it does not cure the step)", None
    frames: tuple[Frame, ...] = ()
    head = next((e for e in evidence if e.id in d.evidence and e.op is not None), None)
    if head is not None and head.op is not None and head.op < len(run.recording.ops):
        frames = run.frames(run.recording.ops[head.op])
    return replace(d, fix=Fix(summary, diff), frames=frames)


def _written(repair: Repair, folder: Path) -> str | None:
    return write_diff(distinct(repair), folder)


def _second_best(run: Run, repair: Repair, evidence: Sequence[Evidence], folder: Path, summary: str) -> tuple[str, str | None]:
    """Where the stable form would have to change another function's result: keep the argument of the log above 0 instead, if that holds."""
    if repair.form not in ("log_softmax", "log_sigmoid"):
        return summary, None
    whole = with_siblings(repair, evidence)
    clamp = Repair("clamp_argument", "rewrite", "", whole.sites, whole.ops, {"lo": "eps", "lo_value": 1e-7})
    try:
        holds = run.rewrite([every_call(run.recording, clamp)]).finite
    except CannotAsk:
        return summary, None
    diff = _written(clamp, folder) if holds else None
    if diff is None:
        return summary, None
    return f"{summary}; {GUARDED}", diff
