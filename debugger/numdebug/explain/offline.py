"""Report -> the explanation without a model: an ordered list of claims, each with its citations, in English or Hindi."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from numdebug.catalogue import bugs
from numdebug.evidence import Evidence
from numdebug.explain import endings, versus
from numdebug.explain.claims import LONGEST, Claim
from numdebug.explain.items import PROBES, RUN, Items
from numdebug.explain.phrases import Say
from numdebug.explain.proofs import proof
from numdebug.explain.symptoms import spreading, symptom
from numdebug.languages import fix_in, section, spoken
from numdebug.recording import Site
from numdebug.report.model import Diagnosis, Fix

READ = ("cause", "order", "evidence", "fix", "check", "ruled_out")
SHORT = 4  # findings after the first that are told, each in brief
TOPICS = {
    "range": "nonfinite swallowed dtype_range stable_ops gradient_edges epsilons",
    "digits": "precision running_sums comparisons whole_numbers updates quotients",
    "gradients": "gradients whole_gradient gradient_flow activations clipping loss_scale overwritten aliases ownership",
    "training": "loss_history loss_inputs row_order recurrences time_steps evaluation unwritten",
    "repeat": "repeatability",
}
ROUTINE = frozenset({"headroom", "device-spread", "loss-history", "naive-form"})  # measured of every program, whatever its health
FORETOLD = "foretold: "
WHOLE = 1e9  # whole numbers below it are written out
MECHANISM = 260  # characters of the catalogue's explanation of a bug


def explain(items: Items, language: str = "en") -> list[Claim]:
    """The explanation of a report, in the order in which a person wants to read it."""
    say = Say(language)
    report = items.report
    found = [(f"D{n}", d) for n, d in enumerate(report.diagnoses, 1) if d.severity != "note"]
    if report.comparisons:
        told = [*versus.claims(items, say), *_besides(items, say)]
        return told if len(report.comparisons) > 1 else _by_kind(told)
    if not found:
        told = [*endings.claims(items, say, topics(items, set(), say)), *_hazards(items, say), *_besides(items, say)]
        return _by_kind(told)
    told = _by_kind([*_first(items, *found[0], say), *_besides(items, say)])
    for name, d in found[1 : 1 + SHORT]:
        told += _another(items, name, d, say)
    if len(found) > 1 + SHORT:
        told.append(Claim("evidence", (RUN,), (RUN,), say("rest")))
    return [*told, *_looked(items, found, say)]


def _by_kind(told: list[Claim]) -> list[Claim]:
    return sorted(told, key=lambda c: READ.index(c.kind))


def _besides(items: Items, say: Say) -> Iterator[Claim]:
    """What numdebug called, where the program calls nothing itself, and the notes of the report."""
    for call in items.report.program.observed.guessed[:1]:
        yield Claim("evidence", (RUN,), (RUN,), say("guessed", call=_call(call, say)))
    for name in _notes(items):
        yield Claim("evidence", (name,), (name,), say("note", text=say.quoted(items[name].says[0])))


def _first(items: Items, name: str, d: Diagnosis, say: Say) -> Iterator[Claim]:
    """All there is to say about the finding that matters most."""
    yield Claim("cause", (name,), (name,), _cause(items, d, say))
    if code := _line(items, name, d):
        yield Claim("cause", (name,), (f"{name}.code",), say("line", code=code))
    yield Claim("evidence", (name,), (name, *d.evidence[:2]), _measured(items, d, "measured", say))
    if what := _mechanism(d, say):
        yield Claim("cause", (name,), (f"{name}.page",), say("mechanism", what=what))
    if steps := spreading(d, say):
        cites = tuple(f"{name}.c{n}" for n in range(1, min(len(d.consequences), 6) + 1))
        yield Claim("order", (name, *cites), (name, *cites), say("spreads", steps=steps))
    sure = proof(d, say)
    for text in sure.said:
        yield Claim("evidence", (name,), (name,), text)
    if d.fix is not None:
        yield _fix(name, d, d.fix, say)
    yield _check(items, name, d, say, sure.losses)
    if d.bug in bugs():
        yield Claim("check", (name,), (name, f"{name}.page"), say("more", bug=d.bug))
    for number, r in enumerate(d.ruled_out[:3], 1):
        yield Claim("ruled_out", (f"{name}.r{number}",), (f"{name}.r{number}",), _ruled(r.bug, r.why, say))


def _another(items: Items, name: str, d: Diagnosis, say: Say) -> Iterator[Claim]:
    yield Claim("cause", (name,), (name,), say("another", place=place(d.site, say), where=where(d.site, say), title=title(d, say)))
    if code := _line(items, name, d):
        yield Claim("cause", (name,), (f"{name}.code",), say("line", code=code))
    yield Claim("evidence", (name,), (name, *d.evidence[:2]), _measured(items, d, "another_measured", say))
    sure = proof(d, say)
    for text in sure.said[:1]:
        yield Claim("evidence", (name,), (name,), text)
    if d.fix is not None:
        yield _fix(name, d, d.fix, say)
    yield _check(items, name, d, say, sure.losses)


def _cause(items: Items, d: Diagnosis, say: Say) -> str:
    slots = {"place": place(d.site, say), "where": where(d.site, say), "title": title(d, say)}
    if d.title.startswith(FORETOLD):
        return say("cause_foretold", **slots)
    step = items.report.program.observed.first_bad_step
    if d.consequences:
        return say("cause_failed", symptom=symptom(d.consequences[0], step, say), **slots)
    if d.severity == "warning":
        return say("cause_latent" if d.confirmed_why.startswith("tried with these values") else "cause_warning", **slots)
    return say("cause_silent" if step is None else "cause_plain", **slots)


def title(d: Diagnosis, say: Say) -> str:
    """What the bug is called, in the reader's language."""
    known = bugs().get(d.bug)
    return spoken(known, say.language).title if known is not None and say.language != "en" else d.title.removeprefix(FORETOLD)


def place(site: Site | None, say: Say) -> str:
    """model.py:12"""
    return f"{site.file}:{site.line}" if site is not None else say.part("no_place")


def where(site: Site | None, say: Say) -> str:
    """, in forward() of encoder.layers.3"""
    if site is None or not site.function or site.function.startswith("<"):
        return ""
    module = say.part("in_module", module=site.module) if site.module else ""
    return say.part("in_function", function=site.function, module=module)


def _line(items: Items, name: str, d: Diagnosis) -> str:
    """The line itself, where the report holds it."""
    if f"{name}.code" not in items or d.site is None:
        return ""
    start = f"{d.site.file}:{d.site.line}: "
    text = next((s.removeprefix(start).strip() for s in items[f"{name}.code"].says if s.startswith(start)), "")
    return text if len(text) <= LONGEST // 2 else ""


def _measured(items: Items, d: Diagnosis, key: str, say: Say) -> str:
    text = d.because if say.language == "en" else _in_numbers(d, items.report.evidence, say) or say.quoted(d.because)
    return say(key, text=text.rstrip(".।"))


def _in_numbers(d: Diagnosis, evidence: Sequence[Evidence], say: Say) -> str:
    """The bug's own sentence with the numbers of this report; empty where it has none or a number is missing."""
    known = bugs().get(d.bug)
    if known is None:
        return ""
    values: dict[str, str] = {}
    by_id = {e.id: e for e in evidence}
    for e in (by_id[name] for name in d.evidence if name in by_id):
        for key, number in {**e.facts, **{k: n.value for k, n in e.numbers.items()}}.items():
            if isinstance(number, str | int | float) and not isinstance(number, bool):
                values.setdefault(key, _short(number) if isinstance(number, float) else str(number))
    for sentence in spoken(known, say.language).measured:
        try:
            return sentence.format(**values)
        except KeyError:
            continue
    return ""


def _short(number: float) -> str:
    """Four digits; a whole number as one (65504, not 6.55e+04)."""
    return f"{number:.0f}" if number.is_integer() and abs(number) < WHOLE else f"{number:.4g}"


def _mechanism(d: Diagnosis, say: Say) -> str:
    """What happens, and why it hurts, for someone who does not know the bug; nothing of inf and NaN where there is none."""
    known = bugs().get(d.bug)
    if known is None:
        return ""
    if say.language != "en" and known.hindi is not None:
        return known.hindi.what
    text = section(known.page, "Why it matters")
    failed = any(word in c.value.lower() for c in d.consequences for word in ("nan", "inf"))
    sentences = [s for s in text.split(". ") if s and (failed or not re.search(r"\b(?:inf|NaN)\b", s))]
    kept = ""
    for sentence in sentences:
        if len(kept) + len(sentence) > MECHANISM:
            break
        kept += f"{sentence.rstrip('.')}. "
    return kept.strip()


def _fix(name: str, d: Diagnosis, fix: Fix, say: Say) -> Claim:
    text = fix_in(say.language, d.bug, fix.summary) or say.quoted(fix.summary)
    key = "fix_patch" if fix.diff else "fix_words" if d.site is not None else "fix_none"
    return Claim("fix", (name,), (f"{name}.fix",), say(key, fix=text, place=place(d.site, say)), fix.diff)


def _check(items: Items, name: str, d: Diagnosis, say: Say, losses: tuple[str, str] | None) -> Claim:
    command, step = f"numdebug diagnose {items.report.program.path}", items.report.program.observed.first_bad_step
    if d.confirmed == "no":
        text = say("check_partly", command=command)
    elif d.consequences:
        text = say("check_failed_step", command=command, step=step) if step else say("check_failed", command=command)
    else:
        text = say("check_silent", command=command, place=place(d.site, say))
    if losses is not None:
        text += " " + say("check_losses", first=losses[0], last=losses[1])
    return Claim("check", (name,), (name, RUN), text)


def _ruled(bug: str, why: str, say: Say) -> str:
    known = bugs().get(bug)
    name = spoken(known, say.language).title if known is not None else bug
    if why.endswith("repaired and nothing else changed, the symptom is gone"):
        return say("ruled_follows", title=name)
    if why.startswith("a consequence of "):
        return say("ruled_consequence", title=name)
    if why == "comes later in the dataflow":
        return say("ruled_later", title=name)
    return say("ruled_other", title=name, text=say.quoted(why))


def topics(items: Items, used: set[str], say: Say) -> str:
    """What the probes that ran look for, leaving out what any of them has measured something of, and what the program has not got."""
    report = items.report
    ran = {p.name for p in report.probes if p.ran}
    used = used | {e.probe for e in report.evidence if e.kind not in ROUTINE}
    if not report.program.observed.backward:
        ran -= {name for topic in ("gradients", "training") for name in TOPICS[topic].split()}
    free = [topic for topic, names in TOPICS.items() if ran & set(names.split()) and not used & set(names.split())]
    return "; ".join(say.part(f"topic_{topic}") for topic in free)


def _looked(items: Items, found: list[tuple[str, Diagnosis]], say: Say) -> Iterator[Claim]:
    cited = {e for _, d in found for e in d.evidence}
    used = {e.probe for e in items.report.evidence if e.id in cited}
    if items.report.program.observed.first_bad_step is not None or any(
        "inf" in c.value or "nan" in c.value.lower() for _, d in found for c in d.consequences
    ):
        used |= {*TOPICS["range"].split(), *TOPICS["gradients"].split()}
    if text := topics(items, used, say):
        yield Claim("ruled_out", (PROBES,), (PROBES,), say("looked", topics=text))


def _hazards(items: Items, say: Say) -> Iterator[Claim]:
    for number, d in enumerate(items.report.diagnoses[:2], 1):
        name = f"D{number}"
        yield Claim("evidence", (name,), (name,), say("hazard", place=place(d.site, say), where=where(d.site, say), title=title(d, say)))


def _call(call: str, say: Say) -> str:
    return call if re.fullmatch(r"[\w.]+\(.*\)", call) else say.quoted(call)


def _notes(items: Items) -> list[str]:
    return [item.id for item in items if item.kind == "note" and len(item.says[0]) < LONGEST][:3]
