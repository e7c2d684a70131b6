"""What `numdebug bugs`, `bug`, `probes` and `probe` print."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from importlib import import_module

from numdebug.diagnosing import probe_names, unknown
from numdebug.evidence import Evidence
from numdebug.report.escape import one_line, visible
from numdebug.report.json import place
from numdebug.report.model import Report

FEW = 3  # letters: shorter words of a symptom carry no meaning


def bugs(symptom: str | None = None) -> str:
    """Bug ids by family with their titles; with a symptom, the causes that show it, and how each is told apart."""
    known = import_module("numdebug.catalogue").bugs()
    if symptom is None:
        lines = []
        for family in dict.fromkeys(b.family for b in known.values()):
            lines += [f"{family}", *(f"  {b.id:<28} {b.title}" for b in known.values() if b.family == family), ""]
        return "\n".join([*lines, "numdebug bug ID shows a bug's page.", ""])
    asked = _words(symptom)
    scored = [(_score(asked, b), b) for b in known.values()]
    hits = [b for score, b in sorted(scored, key=lambda s: -s[0]) if score]
    if not hits:
        return f"no bug of the catalogue lists a symptom like {one_line(symptom)!r}; see all of them with: numdebug bugs\n"
    lines = []
    for b in hits:
        lines += [f"{b.id:<28} {b.title}"]
        tell = _section(b.page, "How we know")
        lines += [f"{'':<28} how we know: {tell}"] if tell else []
    return "\n".join(lines) + "\n"


def _words(text: str) -> set[str]:
    return {w for w in re.findall(r"[a-z0-9]+", text.lower()) if len(w) >= FEW}


def _score(asked: set[str], bug: object) -> float:
    """How much of the asked symptom the bug's best symptom covers; its title and page count when no symptom does."""
    symptoms: tuple[str, ...] = getattr(bug, "symptoms", ())
    best = max((len(asked & _words(s)) / max(len(asked), 1) for s in symptoms), default=0.0)
    if best >= 0.5:
        return 1 + best
    text = _words(
        f"{getattr(bug, 'title', '')} {_section(getattr(bug, 'page', ''), 'What happens')} {_section(getattr(bug, 'page', ''), 'Why it matters')}"
    )
    return 0.5 if asked and asked <= text else 0.0


def _section(page: str, heading: str) -> str:
    found = re.search(rf"^[ \t]*{heading}[ \t]*\n(?P<body>(?:[ \t]+\S.*\n?|[ \t]*\n)+)", inspect.cleandoc(page) + "\n", re.MULTILINE)
    return one_line(found["body"]) if found else ""


def bug(name: str) -> str:
    """The page of one bug."""
    known = import_module("numdebug.catalogue").bugs()
    if name not in known:
        raise unknown("bug", name, known, "numdebug bugs")
    b = known[name]
    return f"{b.id} ({b.family})\n\n{visible(inspect.cleandoc(b.page))}\n"


def why(name: str, evidence: Sequence[Evidence]) -> str:
    """Why the rule of one bug did or did not fire: what it looks for, and each fact that fits or does not."""
    bug = import_module("numdebug.catalogue").bugs()[name]
    found = bug.when.find(evidence)
    lines = [f"\n{name}: the rule {'holds' if found else 'does not hold'} on {len(evidence)} pieces of evidence"]
    lines += [f"{'  ' * (depth + 1)}{one_line(line)}" for depth, line in bug.when.explain(evidence)]
    return "\n".join(lines)


def probes() -> str:
    """Probe names with their questions."""
    lines = []
    for name in probe_names():
        module = import_module(f"numdebug.probes.{name}")
        lines.append(f"{name:<20} {getattr(module, 'QUESTION', '')}")
    return "\n".join(lines) + "\n"


def evidence(report: Report) -> str:
    """Facts, one a paragraph, with their places and numbers."""
    if not report.evidence:
        return f"no evidence: {visible(report.verdict)}\n"
    lines = []
    for fact in report.evidence:
        lines.append(f"{fact.id} {fact.kind} at {place(fact.site)}")
        values = {**{k: str(v) for k, v in fact.facts.items()}, **{k: f"{n.value} {n.unit or ''}".strip() for k, n in fact.numbers.items()}}
        lines += [f"    {key}: {one_line(str(value))}" for key, value in values.items()]
        lines += [f"    {role} at {place(site)}" for role, site in fact.sites.items()]
    return "\n".join(map(visible, lines)) + "\n"
