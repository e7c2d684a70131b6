"""Journal -> Report: whatever the child got to say, and however it ended, in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from numdebug.errors import FOUND, INTERRUPTED, NOTHING_SEEN, OURS
from numdebug.evidence import Evidence
from numdebug.journal import Record, body
from numdebug.plain import from_plain
from numdebug.report import verdict
from numdebug.report.model import Comparison, Diagnosis, Observed, ProbeRun, Program, Report
from numdebug.report.suppressions import Suppressions
from numdebug.report.verdict import Fate
from numdebug.running import Ending

ENDED = "the program ended"
FAILED = ("raised", "hung", "killed", "left", "exit")  # endings that are never clean


class Reader:
    """The journal's records by name."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records

    def all(self, name: str) -> list[dict[str, Any]]:
        """Fields of every record called `name`, in order."""
        return [body(r, name) for r in self.records if r.name == name]

    def last(self, name: str) -> dict[str, Any] | None:
        """Fields of the last record called `name`, or None."""
        return (self.all(name) or [{}])[-1] or None

    def merged(self, name: str) -> dict[str, Any]:
        """Fields of all records called `name`; later ones win."""
        return {k: v for data in self.all(name) for k, v in data.items()}

    def has(self, name: str) -> bool:
        """Whether there is such a record."""
        return any(r.name == name for r in self.records)


def assemble(
    given: str,
    ending: Ending,
    keep: Callable[[str], bool],
    suppressions: Suppressions,
    match: Callable[[list[Evidence]], list[Diagnosis]] | None = None,
) -> tuple[Report, int]:
    """The report and the exit code. `match` judges the evidence where the child did not get that far."""
    journal = Reader(ending.records)
    fate = fate_of(journal, ending)
    evidence = [from_plain(Evidence, data) for data in journal.all("evidence")]
    diagnoses = [from_plain(Diagnosis, data) for data in journal.all("diagnosis")]
    if not journal.has("matched") and not diagnoses and evidence and match is not None:
        diagnoses = match(evidence)
    notes = list(dict.fromkeys(str(d.get("text", "")) for d in journal.all("note")))
    invented = [str(d.get("text", "")) for d in journal.all("invented")]
    known = len(diagnoses)
    diagnoses = [kept for d in diagnoses if (kept := _soften(d, invented)) and keep(d.bug)]
    if known > len(diagnoses):
        fewer = known - len(diagnoses)
        notes.append(f"{fewer} finding{'s' if fewer > 1 else ''} left out by --select, --ignore or the configuration")
    diagnoses, suppressed = suppressions.apply(diagnoses)
    observed = observed_of(journal, fate)
    report = Report(
        program=Program(given, list(journal.merged("frameworks").get("names", [])), observed),
        environment=journal.merged("environment"),
        diagnoses=diagnoses,
        evidence=evidence,
        notes=[*notes, *suppressed, *(f"the input was invented: {text}" for text in invented), *fate.notes],
        probes=[from_plain(ProbeRun, data) for data in journal.all("probe")],
        comparisons=[from_plain(Comparison, data) for data in journal.all("comparison")],
    )
    report.verdict = str(journal.merged("verdict").get("text") or verdict.sentence(report, fate))
    return report, exit_code(report, fate, unexplained=not known and verdict.failed(report))


def _soften(diagnosis: Diagnosis, invented: list[str]) -> Diagnosis:
    """Values that numdebug invented never give more than a warning, and the warning shows them."""
    if not invented or diagnosis.severity != "error":
        return diagnosis
    return replace(diagnosis, severity="warning", because=f"{diagnosis.because} (with the invented input {'; '.join(invented)})")


def observed_of(journal: Reader, fate: Fate) -> Observed:
    """What was run and seen; how the program ended is our own knowledge unless the observer stopped it."""
    data = journal.merged("observed")
    known = {f.name for f in fields(Observed)}
    observed = from_plain(Observed, {k: v for k, v in data.items() if k in known})
    observed.guessed = list(dict.fromkeys([*observed.guessed, *(str(d.get("text", "")) for d in journal.all("guessed"))]))
    if fate.how not in ("returned", "stopped") or observed.stopped_because == ENDED:
        observed.stopped_because = fate.why or ENDED
    if not observed.steps and (steps := journal.all("step")):  # the child had no time to sum up
        observed.steps = 1 + max(int(step.get("index", 0)) for step in steps)  # not every step is written down
        observed.backward = True
    return observed


def fate_of(journal: Reader, ending: Ending) -> Fate:
    """How the program ended, in words, from its own last record and the child's exit status."""
    last = journal.last("ended") or {}
    how, why, status = last.get("how", ""), str(last.get("why") or ""), last.get("status")
    raised = journal.last("raised") if how == "raised" else None
    failure = journal.last("failure")
    notes = []
    if failure:
        notes.append(f"numdebug met an error of its own while {failure.get('where')}: {_last_line(str(failure.get('traceback', '')))}")
    if ending.interrupted:
        how, why = "interrupted", "interrupted (Ctrl-C)"
    elif not how and ending.timed_out:
        how, why = "hung", "it did not react to the time limit and was ended"
    elif ending.timed_out and not journal.has("end"):
        notes.append("the analysis did not finish in time; this report holds what was found until then")
    elif not how and ending.status is not None and ending.status < 0:
        how, why = "killed", verdict.signal_words(-ending.status)
    elif not how:
        how, why = "left", f"the program ended its own process with status {ending.status}"
    elif not journal.has("end") and ending.status is not None:
        notes.append(f"the analysis ended early ({verdict.status_words(ending.status)}); this report holds what was found until then")
    if how == "exit":
        message = f" with the message {last['message']!r}" if last.get("message") else f"({status})"
        why = f"the program called sys.exit{message}" if status else ENDED
        how = "exit" if status else "returned"
    if how in FAILED and ending.tail.strip():
        notes.append("the program's last output:\n" + ending.tail.strip())
    ops = journal.merged("observed").get("ops") or len(journal.all("step"))
    passes, models = journal.merged("seen"), journal.merged("unrun").get("models", [])
    unusable = str(journal.merged("unusable").get("text", ""))
    whole = how in ("returned", "stopped") and not models  # a program of plain array operations
    seen = bool(ops) and not unusable and (not passes or passes.get("forward") or passes.get("backward") or whole)
    return Fate(how, why, raised, bool(failure), bool(seen), tuple(models), unusable, tuple(notes))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "unknown"


def exit_code(report: Report, fate: Fate, unexplained: bool = False) -> int:
    """0 clean, 1 findings, 3 our own error, 4 nothing seen or an unexplained failure, 130 interrupted."""
    if fate.how == "interrupted":
        return INTERRUPTED
    if any(d.severity == "error" for d in report.diagnoses):
        return FOUND
    if fate.ours:
        return OURS
    if fate.how in FAILED or not fate.seen or unexplained:
        return NOTHING_SEEN
    return 0


def chosen(select: Iterable[str], ignore: Iterable[str], family: Callable[[str], str]) -> Callable[[str], bool]:
    """Whether a bug id is wanted: named itself or by its family; nothing selected means everything."""
    wanted, unwanted = set(select), set(ignore)

    def keep(bug: str) -> bool:
        if not wanted and not unwanted:
            return True
        names = {bug, family(bug)}
        return (not wanted or bool(names & wanted)) and not names & unwanted

    return keep
