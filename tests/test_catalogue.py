"""Every entry of the catalogue proves itself: its broken program is named and cured, its fixed one is silent, its page is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from forked import apply, loud, silent

from numdebug.catalogue import Bug, bugs
from numdebug.comparing.asking import Asked, compare

SECTIONS = ["What happens", "Why it matters", "How we know", "Not this", "Fix", "Read on"]
EVERY = [(b, framework) for b in bugs().values() for framework in b.broken]
PROGRAMS = [pytest.param(b, framework, id=f"{b.id}-{framework}") for b, framework in EVERY if b.compared is None]
PAIRS = [pytest.param(b, framework, id=f"{b.id}-{framework}") for b, framework in EVERY if b.compared is not None]
UNTRIED = {
    "shuffled-labels": "which of two orders is the right one cannot be seen",
    "vanishing-gradient": "another architecture is the programmer's to choose",
    "exploding-gradient": "no single line is written badly, so there is no repair to try",
}


@pytest.mark.parametrize(("bug", "framework"), PROGRAMS)
def test_the_broken_program_is_named_confirmed_and_cured(bug: Bug, framework: str, diagnose_in, tmp_path: Path):
    diagnose = diagnose_in(framework)
    file = tmp_path / "model.py"
    file.write_text(bug.broken[framework])
    outcome = diagnose(file)
    if bug.severity == "note":
        assert outcome.exit_code == 0 and silent(outcome)
        assert [(d.bug, d.site.line) for d in outcome.report.diagnoses] == [(bug.id, culprit(bug.broken[framework]))]
        return
    assert loud(outcome)[:1] == [(bug.id, culprit(bug.broken[framework]))], outcome.report.verdict
    assert outcome.exit_code == int(bug.severity == "error")
    first = outcome.report.diagnoses[0]
    assert first.confirmed == ("not-tried" if bug.id in UNTRIED else "yes"), first.confirmed_why
    if first.fix is not None and first.fix.diff is not None:
        apply(first.fix.diff, tmp_path)
        assert silent(diagnose(file)), first.fix.diff


@pytest.mark.parametrize(("bug", "framework"), PROGRAMS)
def test_the_fixed_program_is_silent(bug: Bug, framework: str, diagnose_in, tmp_path: Path):
    diagnose = diagnose_in(framework)
    file = tmp_path / "model.py"
    file.write_text(bug.fixed[framework])
    outcome = diagnose(file)
    assert silent(outcome), outcome.report.verdict


@pytest.mark.parametrize(("bug", "framework"), PAIRS)
def test_two_sides_that_differ_are_explained_and_the_fixed_ones_agree(bug: Bug, framework: str, tmp_path: Path):
    file = tmp_path / "model.py"
    a, b = (f"{file}:{name}" for name in bug.compared)
    file.write_text(bug.broken[framework])
    outcome = compare(Asked(a, b))
    assert [c.explanation for c in outcome.report.comparisons] == [bug.id], outcome.report.verdict
    assert outcome.exit_code == int(bug.severity == "error")
    (found,) = outcome.report.diagnoses
    assert (found.bug, found.severity) == (bug.id, bug.severity)
    if bug.severity == "error":
        assert found.site.line == culprit(bug.broken[framework])
    file.write_text(bug.fixed[framework])
    again = compare(Asked(a, b))
    assert again.report.comparisons[0].explanation in ("identical", "rounding-difference"), again.report.verdict
    assert again.exit_code == 0


@pytest.mark.parametrize("bug", bugs().values(), ids=lambda b: b.id)
def test_the_page_is_whole(bug: Bug):
    lines = bug.page.splitlines()
    assert [line for line in lines[2:] if line and not line.startswith(" ")] == SECTIONS
    assert lines[0] and not lines[0].endswith(".") and not lines[1]
    for heading in SECTIONS:
        assert re.search(rf"^{heading}\n    \S", bug.page, re.MULTILINE), heading


@pytest.mark.parametrize("bug", bugs().values(), ids=lambda b: b.id)
def test_the_entry_is_whole(bug: Bug):
    assert bug.broken and bug.broken.keys() == bug.fixed.keys()
    assert bug.title and bug.fix and bug.symptoms
    for program in bug.broken.values():
        assert culprit(program)
        assert len(program.splitlines()) <= 25


def culprit(program: str) -> int:
    """The line that ends with `# here`."""
    (line,) = [number for number, text in enumerate(program.splitlines(), 1) if text.endswith("  # here")]
    return line
