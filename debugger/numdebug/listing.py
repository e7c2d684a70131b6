"""What `numdebug bugs`, `bug`, `probes` and `probe` print."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Sequence
from importlib import import_module

from numdebug.diagnosing import probe_names, unknown
from numdebug.evidence import Evidence
from numdebug.report.escape import one_line, visible
from numdebug.report.json import place
from numdebug.report.model import Report

ENOUGH = 0.5  # share of the asked words, weighted, that a symptom must cover
LONG = 4  # letters: longer words lose their endings
SMALL = set("a an the is are was be been it its my in on of at to from for with and or but not no all very too when after".split())
SAME = {
    "fp16": "float16",
    "half": "float16",
    "explodes": "grow",
    "explode": "grow",
    "exploding": "grow",
    "diverge": "grow",
    "diverges": "grow",
    "bf16": "bfloat16",
    "fp32": "float32",
    "infinite": "inf",
    "infinity": "inf",
    "nans": "nan",
    "gradients": "gradient",
    "grad": "gradient",
    "grads": "gradient",
    "flat": "stuck",
    "plateau": "stuck",
    "constant": "stuck",
}


def bugs(symptom: str | None = None) -> str:
    """Bug ids by family with their titles; with a symptom, the causes that show it, and how each is told apart."""
    known = import_module("numdebug.catalogue").bugs()
    if symptom is None:
        lines = []
        for family in dict.fromkeys(b.family for b in known.values()):
            lines += [f"{family}", *(f"  {b.id:<28} {b.title}" for b in known.values() if b.family == family), ""]
        return "\n".join([*lines, "numdebug bug ID shows a bug's page.", ""])
    names = by_symptom(symptom, {b.id: (b.title, *b.symptoms) for b in known.values()})
    hits = [known[name] for name in names]
    if not hits:
        return f"no bug of the catalogue lists a symptom like {one_line(symptom)!r}; see all of them with: numdebug bugs\n"
    lines = []
    for b in hits:
        lines += [f"{b.id:<28} {b.title}"]
        tell = _section(b.page, "How we know")
        lines += [f"{'':<28} how we know: {tell}"] if tell else []
    return "\n".join(lines) + "\n"


def by_symptom(asked: str, known: dict[str, tuple[str, ...]]) -> list[str]:
    """Ids whose symptoms cover most of what was asked, best first; a word counts the more, the fewer bugs mention it."""
    wanted = _words(asked)
    described = {name: [_words(text) for text in texts] for name, texts in known.items()}
    mentions = {w: sum(any(w in words for words in texts) for texts in described.values()) for w in wanted}
    weight = {w: math.log((1 + len(known)) / (0.5 + n)) for w, n in mentions.items()}
    total = sum(weight.values())
    scores = {
        name: max((sum(weight[w] for w in wanted & words) for words in texts), default=0.0) / total if total else 0.0
        for name, texts in described.items()
    }
    return sorted((name for name, score in scores.items() if score >= ENOUGH), key=lambda name: -scores[name])


def _words(text: str) -> set[str]:
    """Words that carry meaning, cut to a common form: fp16 is float16, explodes is explode."""
    words = {SAME.get(w, w) for w in re.findall(r"[a-z0-9]+", text.lower())}
    return {re.sub(r"(ing|ed|es|s|e)$", "", w) if len(w) > LONG else w for w in words} - SMALL


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
