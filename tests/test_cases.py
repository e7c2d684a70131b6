"""The acceptance cases: whole programs as users write them, the buggy ones named at their line, their twins and healthy controls silent.

A fixed sample always runs; `make sweep` runs them all. `KNOWN` holds what cannot be relied on, with why.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked import loud, silent

CASES = Path(__file__).parent / "cases"
PAIRS, CONTROLS = 30, 15  # in the sample

KNOWN = {
    "public/torch_55_graph_attention_bias/model.py": "a parameter made with empty() holds left-over memory, here finite numbers",
}


@dataclass(frozen=True)
class Case:
    """One program and every answer that counts as right."""

    path: Path
    clean: bool
    latent: bool
    bugs: tuple[str, ...]
    lines: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(CASES).as_posix()


def cases() -> Iterator[Case]:
    for answer in sorted(CASES.rglob("expected.json")):
        for entry in json.loads(answer.read_text()):
            program = answer.parent / entry["program"]
            yield Case(program, entry["clean"], entry.get("latent", False), tuple(entry["bugs"]), tuple(entry["lines"]))


def sample(all_cases: list[Case]) -> set[Path]:
    """Folders whose programs run every time."""
    wrong = {case.path.parent for case in all_cases if not case.clean}
    pairs = {case.path.parent for case in all_cases if not case.clean and not case.latent}
    controls = {case.path.parent for case in all_cases} - wrong
    chance = random.Random(0)
    return {*chance.sample(sorted(pairs), PAIRS), *chance.sample(sorted(controls), CONTROLS)}


def params() -> Iterator:
    every = list(cases())
    always = sample(every)
    for case in every:
        marks = [] if case.path.parent in always else [pytest.mark.sweep]
        if case.name in KNOWN:
            marks.append(pytest.mark.xfail(reason=KNOWN[case.name], strict=False))  # depends on what the memory held
        yield pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", list(params()))
def test_case(case: Case, diagnose, tmp_path: Path):
    folder = tmp_path / "program"
    shutil.copytree(case.path.parent, folder, ignore=shutil.ignore_patterns("expected.json", "__pycache__"))
    outcome = diagnose(folder / case.path.name)
    if case.clean:
        assert silent(outcome), outcome.report.verdict
    elif case.latent:
        assert not [d for d in outcome.report.diagnoses if d.severity == "error"], outcome.report.verdict
        assert all(bug in case.bugs and line in case.lines for bug, line in loud(outcome)), outcome.report.verdict
    else:
        said = loud(outcome)
        assert said, outcome.report.verdict
        assert said[0][0] in case.bugs and said[0][1] in case.lines, (said, outcome.report.verdict)
        assert outcome.exit_code == 1


def test_known_failures_exist():
    assert KNOWN.keys() <= {case.name for case in cases()}
