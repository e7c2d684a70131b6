"""Report -> the things that an explanation may speak of, each with an id, and what the report says about each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from numdebug.evidence import Evidence
from numdebug.languages import section
from numdebug.probing import probes
from numdebug.recording import Site
from numdebug.report.json import place
from numdebug.report.model import Comparison, Diagnosis, Report

RUN, PROBES = "RUN", "PROBES"
PHASES = {"forward": 0, "loss": 0, "output": 0, "backward": 1, "gradient": 1, "optimizer": 2, "parameter": 2}
PAGE = ("What happens", "Why it matters", "How we know", "Fix")  # not: what tells the bug from others, and what to read on


@dataclass(frozen=True)
class Item:
    """One thing of the report. `says`: its sentences. `at`: (step, phase) where both are known. `of`: the diagnosis it belongs to."""

    id: str
    kind: str  # run, diagnosis, fix, consequence, ruled-out, evidence, comparison, note, probes, page, code
    says: tuple[str, ...]
    site: Site | None = None
    of: str = ""
    at: tuple[int, int] | None = None
    values: tuple[Any, ...] = ()  # exact values behind the sentences


class Items:
    """Everything in a report by id, in the order of the report, and the relations that the report itself states.

    `commands`: numdebug's own with their options, which an explanation may name, too.
    """

    def __init__(self, report: Report, with_source: bool = True, commands: Mapping[str, set[str]] | None = None) -> None:
        self.report = report
        self.commands = commands or {}
        self.with_source = with_source
        self.all: dict[str, Item] = {item.id: item for item in self._items()}
        self.rests_on = {f"D{n}": d.evidence for n, d in enumerate(report.diagnoses, 1)}

    def __getitem__(self, name: str) -> Item:
        return self.all[name]

    def __contains__(self, name: str) -> bool:
        return name in self.all

    def __iter__(self) -> Iterator[Item]:
        return iter(self.all.values())

    def diagnosis(self, name: str) -> Diagnosis | None:
        """The diagnosis that an item is, or belongs to."""
        owner = name if re.fullmatch(r"D\d+", name) else self.all[name].of if name in self.all else ""
        return self.report.diagnoses[int(owner[1:]) - 1] if owner else None

    def owners(self, name: str) -> tuple[str, ...]:
        """The diagnoses that an item speaks for: itself, the one it belongs to, those that rest on it."""
        if name not in self.all:
            return ()
        item = self.all[name]
        if item.kind == "diagnosis":
            return (item.id,)
        return (item.of,) if item.of else tuple(d for d, evidence in self.rests_on.items() if name in evidence)

    def before(self, first: str, second: str) -> bool:
        """Whether the report says that `first` came before `second`: a cause before what it explains, an earlier step or phase."""
        a, b = self.all[first], self.all[second]
        if b.kind == "consequence" and (a.id == b.of or (a.kind == "evidence" and a.id in self.rests_on[b.of])):
            return True
        if a.kind == "diagnosis" and b.says[0].startswith(("nonfinite-birth", "symptom")) and len(self.report.diagnoses) == 1:
            return second not in self.rests_on[first]  # the one root cause comes before what else went wrong
        if a.at is None or b.at is None:
            return False
        if a.at == b.at and a.kind == b.kind == "evidence":  # a probe lists what it found in the order of the run
            return a.says[0].split(" at ")[0] == b.says[0].split(" at ")[0] and list(self.all).index(first) < list(self.all).index(second)
        return a.at < b.at

    def _items(self) -> Iterator[Item]:
        report = self.report
        yield Item(RUN, "run", tuple(_run(report)), values=(report.program.observed.steps, report.program.observed.ops))
        for number, d in enumerate(report.diagnoses, 1):
            yield from self._diagnosis(f"D{number}", d)
        for e in report.evidence:
            yield _evidence(e)
        for number, c in enumerate(report.comparisons, 1):
            yield _comparison(f"X{number}", c)
        for number, note in enumerate(report.notes, 1):
            if "\n" not in note:  # what the program printed is its own business: it is neither sent nor spoken of
                yield Item(f"N{number}", "note", (note,))
        ran = [p.name for p in report.probes if p.ran]
        yield Item(PROBES, "probes", tuple(f"{name}: {question(name)}" for name in ran))

    def _diagnosis(self, name: str, d: Diagnosis) -> Iterator[Item]:
        step = d.site.step if d.site is not None and d.site.step is not None else self.report.program.observed.first_bad_step
        phase = PHASES.get(d.phase or "")
        at = (step, phase) if step is not None and phase is not None else None
        yield Item(name, "diagnosis", tuple(_said(d)), d.site, at=at)
        if d.fix is not None:
            yield Item(f"{name}.fix", "fix", (d.fix.summary, *_diff_lines(d, self.with_source)), d.site, name)
        for number, c in enumerate(d.consequences, 1):
            where = f" at {place(c.site)}" if c.site else ""
            first = self.report.program.observed.first_bad_step
            known = PHASES.get(c.what.split()[0])
            at = (first, known) if first is not None and known is not None else None
            yield Item(f"{name}.c{number}", "consequence", (f"the {c.what} is {c.value}{where}",), c.site, name, at)
        for number, r in enumerate(d.ruled_out, 1):
            yield Item(f"{name}.r{number}", "ruled-out", (f"{r.bug} was ruled out: {r.why}", *_title(r.bug)), None, name)
        if page := _page(d.bug):
            yield Item(f"{name}.page", "page", page, None, name)
        if self.with_source and (code := tuple(self._code(d))):
            yield Item(f"{name}.code", "code", code, d.site, name)

    def _code(self, d: Diagnosis) -> Iterator[str]:
        for excerpt in self.report.excerpts:
            if d.site is None or excerpt.file == d.site.file:
                yield from (f"{excerpt.file}:{excerpt.line + n}: {line}" for n, line in enumerate(excerpt.text.split("\n")))


def question(probe: str) -> str:
    """What a probe asks; empty for one that is not installed here."""
    return str(getattr(probes().get(probe), "QUESTION", ""))


def _run(report: Report) -> Iterator[str]:
    seen = report.program.observed
    yield f"program {report.program.path}"
    yield f"frameworks: {', '.join(report.program.frameworks) or 'none'}"
    yield f"verdict: {report.verdict}"
    yield f"seen: {seen.steps} steps, {seen.ops} operations, {'with' if seen.backward else 'without'} a backward pass"
    yield f"stopped because: {seen.stopped_because}"
    if seen.first_bad_step is not None:
        yield f"the first bad step is step {seen.first_bad_step}"
    if not report.diagnoses:
        yield "no diagnosis was made"
    yield from (f"called by numdebug, not by the program: {call}" for call in seen.guessed)
    yield from (f"environment: {name} {value}" for name, value in report.environment.items())


def _said(d: Diagnosis) -> Iterator[str]:
    yield f"{d.bug}: {d.title}"
    yield f"severity: {d.severity}; confidence {d.confidence:.2f}"
    if d.site is not None:
        module = f", module {d.site.module}" if d.site.module else ""
        step = f", step {d.site.step}" if d.site.step is not None else ""
        yield f"at {place(d.site)} in {d.site.function}{module}{step}"
    if d.op:
        yield f"operation {d.op} ({d.native_op or d.op}){f', {d.phase}' if d.phase else ''}"
    yield d.because
    word = {"yes": "yes", "no": "no", "not-tried": "not tried"}[d.confirmed]
    yield f"confirmed: {word}" + (f": {d.confirmed_why}" if d.confirmed_why else "")


def _diff_lines(d: Diagnosis, with_source: bool) -> Iterator[str]:
    if d.fix is not None and d.fix.diff and with_source:
        yield from d.fix.diff.rstrip("\n").split("\n")


def _evidence(e: Evidence) -> Item:
    values = {k: v for k, v in e.facts.items() if isinstance(v, str | bool | int | float)}
    said = [f"{e.kind} at {place(e.site)} (probe {e.probe})" + (f" in {e.site.function}" if e.site else "")]
    if e.site is not None and e.site.step is not None:
        said.append(f"step {e.site.step}")
    said += [f"{_spaced(k)}: {v}" for k, v in values.items()]
    said += [f"{_spaced(k)}: {n.value}{f' {n.unit}' if n.unit else ''}" for k, n in e.numbers.items()]
    phase = 3 + PHASES.get(str(e["what"]).split()[0], 0) if e.kind == "symptom" else PHASES.get(str(e["phase"]))
    at = (e.site.step, phase) if e.site is not None and e.site.step is not None and phase is not None else None
    return Item(e.id, "evidence", tuple(said), e.site, at=at, values=(*values.values(), *(n.value for n in e.numbers.values())))


def _comparison(name: str, c: Comparison) -> Item:
    said = [
        f"{c.a} against {c.b} ({c.axis}): {c.explanation}",
        c.because,
        f"{c.differing} of {c.size} elements of {c.output} differ, at most by {c.largest}, {c.ulps} ulp of {c.format}",
        f"envelope {c.envelope}, ratio {c.ratio}; {'explained' if c.explained else 'not explained'} by rounding",
        *([f"first difference: {c.first}"] if c.first else []),
        *([f"they part at {c.apart.op}: {c.apart.what}", c.apart.proof] if c.apart else []),
        *([f"goes away with {how}" for how in c.removed_by]),
        *([f"tolerance rtol {c.tolerance.rtol} atol {c.tolerance.atol}: {c.tolerance.why}", c.tolerance.assertion] if c.tolerance else []),
    ]
    values = (c.largest, c.ulps, c.envelope, c.ratio, c.differing, c.size)
    return Item(name, "comparison", tuple(s for s in said if s), c.apart.site_a if c.apart else None, values=values)


def _title(bug: str) -> tuple[str, ...]:
    known = import_module("numdebug.catalogue").bugs()
    return (f"{bug}: {known[bug].title}",) if bug in known else ()


def _page(bug: str) -> tuple[str, ...]:
    """What the bug's page of the catalogue says of the bug itself, sentence by sentence."""
    known = import_module("numdebug.catalogue").bugs()
    if bug not in known:
        return ()
    body = " ".join(text for heading in PAGE if (text := section(known[bug].page, heading)))
    return (known[bug].title, *re.split(r"(?<=[.;:]) ", body), *known[bug].symptoms)


def _spaced(name: str) -> str:
    return name.replace("_", " ")
