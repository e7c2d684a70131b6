"""The program's lines around the findings: a report explains itself where the program is no longer at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from numdebug.recording import Site
from numdebug.report.model import Excerpt, Report

AROUND = 3  # lines shown before and after, as in a diff
LONGEST = 300  # characters of a line


def excerpts(report: Report, source: Callable[[str], str | None]) -> list[Excerpt]:
    """Lines around every site of a finding, of what it explains and of the evidence that it rests on; neighbours are one excerpt."""
    wanted: dict[str, set[int]] = {}
    for site in _sites(report):
        last = min(site.end_line or site.line, site.line + 2 * AROUND)
        wanted.setdefault(site.file, set()).update(range(site.line - AROUND, last + AROUND + 1))
    found = []
    for file, numbers in wanted.items():
        lines = (source(file) or "").split("\n")
        kept = sorted(n for n in numbers if 1 <= n <= len(lines))
        while kept:
            run = [n for i, n in enumerate(kept) if n == kept[0] + i]
            found.append(Excerpt(file, run[0], "\n".join(lines[n - 1].rstrip("\r")[:LONGEST] for n in run)))
            kept = kept[len(run) :]
    return found


def _sites(report: Report) -> Iterator[Site]:
    cited = {e for d in report.diagnoses for e in d.evidence}
    places = [d.site for d in report.diagnoses]
    places += [c.site for d in report.diagnoses for c in d.consequences]
    places += [e.site for e in report.evidence if e.id in cited]
    places += [site for c in report.comparisons if c.apart for site in (c.apart.site_a, c.apart.site_b)]
    yield from (site for site in places if site is not None)
