"""What `numdebug bugs`, `bug`, `probes` and `probe` print."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from importlib import import_module

from numdebug.catalogue import Bug
from numdebug.diagnosing import probe_names, unknown
from numdebug.evidence import Evidence
from numdebug.languages import section, spoken
from numdebug.report.escape import one_line, visible
from numdebug.report.json import place
from numdebug.report.model import Report

ENOUGH = 0.5  # share of the asked words, weighted, that a symptom must cover
LONG = 4  # letters: longer words lose their endings
SMALL = set("a an the is are was be been it its my in on of at to from for with and or but not no all very too when after".split())
HINDI = "[\u0900-\u097f]"
WIDTH = 120
SMALL_HINDI = set(
    "है हैं हो होता होती होते हुआ हुई हुए जाता जाती जाते जाए गया गई गए रहा रही रहे रहता रहती रहते था थी थे का की के को में से पर ने और या भी ही तो जो "
    "यह वह ये वे इस उस कि एक कर करता करती करते करने मेरा मेरी मेरे आता आती आते आ रह लगा लगती".split()
)
SAME = {
    "नैन": "nan",
    "इनफ": "inf",
    "इंफ": "inf",
    "अनंत": "inf",
    "लॉस": "loss",
    "लास": "loss",
    "नॉर्म": "norm",
    "ग्रेडिएंट्स": "ग्रेडिएंट",
    "ग्रेडियंट": "ग्रेडिएंट",
    "ग्रैडिएंट": "ग्रेडिएंट",
    "ग्रेडिएन्ट": "ग्रेडिएंट",
    "एक्यूरेसी": "accuracy",
    "लेयर्स": "लेयर",
    "परत": "लेयर",
    "परतें": "लेयर",
    "सीखती": "सीखतीं",
    "सीख": "सीखतीं",
    "अटक": "अटका",
    "स्थिर": "अटका",
    "फट": "explode",
    "घट": "घटता",
    "बढ़": "बढ़ता",
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


_FAMILIES = {"range": "range", "gradient": "ग्रेडिएंट", "training": "ट्रेनिंग", "precision": "precision", "difference": "अंतर"}
_SAID: dict[str, dict[str, str]] = {
    "en": {
        "more": "numdebug bug ID shows a bug's page.",
        "none": "no bug of the catalogue lists a symptom like {asked!r}; see all of them with: numdebug bugs",
        "tell": "how we know: {text}",
    },
    "hi": {
        "more": "किसी bug का पेज देखने के लिए: numdebug bug ID --language hi",
        "none": "सूची के किसी bug में {asked!r} जैसा लक्षण नहीं है; पूरी सूची: numdebug bugs --language hi",
        "tell": "क्या होता है: {text}",
        "what": "क्या होता है",
        "symptoms": "लक्षण",
        "fix": "उपाय",
        "page": "पूरा पेज (English में): numdebug bug {name}",
    },
}


def bugs(symptom: str | None = None, language: str = "en") -> str:
    """Bug ids by family with their titles; with a symptom, the causes that show it, and how each is told apart."""
    known = import_module("numdebug.catalogue").bugs()
    say = _SAID[language]
    if symptom is None:
        lines = []
        for family in dict.fromkeys(b.family for b in known.values()):
            named = _FAMILIES[family] if language == "hi" else family
            mine = [b for b in known.values() if b.family == family]
            lines += [named, *(f"  {b.id:<28} {spoken(b, language).title}" for b in mine), ""]
        return "\n".join([*lines, say["more"], ""])
    names = by_symptom(symptom, {b.id: _described(b, symptom) for b in known.values()})
    hits = [known[name] for name in names]
    if not hits:
        return say["none"].format(asked=one_line(symptom)) + "\n"
    lines = []
    for b in hits:
        lines += [f"{b.id:<28} {spoken(b, language).title}"]
        tell = spoken(b, language).what if language == "hi" else section(b.page, "How we know")
        lines += [f"{'':<28} {say['tell'].format(text=tell)}"] if tell else []
    return "\n".join(lines) + "\n"


def _described(bug: Bug, asked: str) -> tuple[str, ...]:
    """The texts that a symptom is looked for in: those of the language that it is asked in."""
    if not re.search(HINDI, asked) or bug.hindi is None:
        return (bug.title, *bug.symptoms)
    return (bug.title, *bug.symptoms, bug.hindi.title, *bug.hindi.symptoms)


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
    """Words that carry meaning, cut to a common form: fp16 is float16, explodes is explode, and लॉस is loss."""
    plain = unicodedata.normalize("NFD", text.lower()).replace("\u093c", "")  # Hindi is typed with and without its dots below
    words = {SAME.get(w, w) for w in re.findall(rf"[a-z0-9]+|{HINDI}+", plain)}
    return {re.sub(r"(ing|ed|es|s|e)$", "", w) if len(w) > LONG else w for w in words} - SMALL - SMALL_HINDI


def bug(name: str, language: str = "en") -> str:
    """The page of one bug."""
    known = import_module("numdebug.catalogue").bugs()
    if name not in known:
        raise unknown("bug", name, known, "numdebug bugs")
    b = known[name]
    if language == "en" or b.hindi is None:
        return f"{b.id} ({b.family})\n\n{visible(inspect.cleandoc(b.page))}\n"
    say, words = _SAID[language], b.hindi
    lines = [f"{b.id} ({_FAMILIES[b.family]})", "", words.title, "", say["what"], *_indented(words.what)]
    lines += [say["symptoms"], *(f"    {symptom}" for symptom in words.symptoms), say["fix"], *_indented(words.fix)]
    return "\n".join([*lines, "", say["page"].format(name=name), ""])


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")


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
