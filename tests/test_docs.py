"""The worked examples of the documentation work, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from graphs import Graph

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("tests/*/README.md")]


def example(page: str) -> dict:
    """What the page's Python block defines."""
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
    names: dict = {}
    exec(compile(code, page, "exec"), names)
    return names


def layer(rows: list[list[float]]) -> Graph:
    g = Graph()
    g.op("relu", g.input(rows), line=12)
    return g


def test_the_example_of_a_probe_feeds_the_example_of_a_bug():
    (fact,) = example("adding-a-probe.md")["measure"](layer([[-1, -2, 3], [-4, -1, 0]]))
    bug = example("adding-a-bug.md")["bug"]
    ((hit,),) = bug.when.find([fact])
    assert hit is fact and fact.site.line == 12
    assert bug.because((hit,)) == "2 of 3 units return 0 for every row of the batch"


def test_both_examples_stay_silent_on_a_layer_that_lives():
    assert not list(example("adding-a-probe.md")["measure"](layer([[1, -2, 3], [-4, 1, 0]])))
    (few,) = example("adding-a-probe.md")["measure"](layer([[1, -2, 3], [4, -1, 0]]))
    assert not example("adding-a-bug.md")["bug"].when.find([few])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_the_map_shows_rooms_that_exist():
    table = re.search(r"## The rooms\n(.*?)\n## ", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL)[1]
    for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", row):
            assert (ROOT / "debugger" / "numdebug" / name).exists() or (ROOT / name).exists(), name
