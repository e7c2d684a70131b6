"""`# numdebug: ignore[bug-id] reason` on the line of a diagnosis: it is left out of the report and counted in its notes."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable

from numdebug.report.model import Diagnosis

COMMENT = re.compile(r"#\s*numdebug:\s*ignore\[(?P<bugs>[^\]]+)\]\s*(?P<reason>.*)")


class Suppressions:
    """Reads each file's comments once. `source` gives a file's text (relative to the program's folder), or None."""

    def __init__(self, source: Callable[[str], str | None]) -> None:
        self._source = source
        self._known: dict[str, dict[int, tuple[set[str], str]]] = {}

    def apply(self, diagnoses: Iterable[Diagnosis]) -> tuple[list[Diagnosis], list[str]]:
        """(what stays, one note for each that does not)."""
        kept, notes = [], []
        for diagnosis in diagnoses:
            reason = self._reason(diagnosis)
            if reason is None or diagnosis.site is None:
                kept.append(diagnosis)
            else:
                because = f": {reason}" if reason else ""
                notes.append(f"suppressed in the source: {diagnosis.bug} at {diagnosis.site.file}:{diagnosis.site.line}{because}")
        return kept, notes

    def _reason(self, diagnosis: Diagnosis) -> str | None:
        site = diagnosis.site
        if site is None:
            return None
        if site.file not in self._known:
            self._known[site.file] = ignored(self._source(site.file) or "")
        for line in range(site.line, (site.end_line or site.line) + 1):
            bugs, reason = self._known[site.file].get(line, (set(), ""))
            if diagnosis.bug in bugs:
                return reason
        return None


def ignored(text: str) -> dict[int, tuple[set[str], str]]:
    """Line number -> (bug ids, reason). Only real comments count, not strings that look like one."""
    found: dict[int, tuple[set[str], str]] = {}
    if "numdebug:" not in text:
        return found
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (hit := COMMENT.search(token.string)):
                found[token.start[0]] = ({b.strip() for b in hit["bugs"].split(",")}, hit["reason"].strip())
    except (tokenize.TokenError, SyntaxError):
        pass
    return found
