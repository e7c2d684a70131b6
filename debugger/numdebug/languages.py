"""What a bug is called, and its fix said, in the reader's language. English is what the catalogue is written in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from numdebug.catalogue import Bug, bugs
from numdebug.catalogue._bug import Words
from numdebug.catalogue._dialects import FRAMEWORKS, said
from numdebug.report.escape import one_line

AFTER = {  # what confirm and the fixes add to the end of a sentence
    "hi": {
        "; the diff keeps the probability above 0, because its function serves other callers too": (
            "; diff में probability को 0 से ऊपर रखा गया है, क्योंकि यह फ़ंक्शन दूसरी जगहों के भी काम आता है"
        ),
        " (tried: by itself it does not cure the step)": " (आज़माया गया: अकेले इससे स्टेप ठीक नहीं होता)",
    }
}


def spoken(bug: Bug, language: str) -> Words:
    """The bug's words in a language; in English where it has none in that one."""
    if language == "hi" and bug.hindi is not None:
        return bug.hindi
    return Words(bug.title, bug.symptoms, bug.fix, section(bug.page, "What happens") or bug.title)


def fix_in(language: str, bug: str, summary: str) -> str | None:
    """A report's `fix.summary` in a language; None where this sentence is not known in it."""
    if language == "en":
        return summary
    known = bugs().get(bug)
    if known is None or known.hindi is None:
        return None
    for english, translated in AFTER[language].items():
        if summary.endswith(english):
            head = fix_in(language, bug, summary.removesuffix(english))
            return None if head is None else f"{head}{translated}"
    for pattern, words, framework in _sentences(known, known.hindi):
        if found := re.fullmatch(pattern, summary):
            return said(words, framework, language).format(*found.groups())
    return None


def _sentences(bug: Bug, words: Words) -> Iterator[tuple[str, str, str]]:
    """(pattern of the English sentence, the same in other words, framework whose names it uses)."""
    for english, translated in {bug.fix: words.fix, **words.fixes}.items():
        for framework in FRAMEWORKS:
            yield re.escape(said(english, framework)).replace(r"\{\}", "(.+?)"), translated, framework


def section(page: str, heading: str) -> str:
    """One section of a bug's page on one line; empty where it has none."""
    found = re.search(rf"^[ \t]*{heading}[ \t]*\n(?P<body>(?:[ \t]+\S.*\n?|[ \t]*\n)+)", inspect.cleandoc(page) + "\n", re.MULTILINE)
    return one_line(found["body"]) if found else ""
