"""Reading a recorded graph: past what only moves numbers, to what computes them."""

from __future__ import annotations

import pytest
from graphs import Graph

from numdebug.graph import climb, downstream, first, is_guard, is_identity, leaf, same_source


def names(paths):
    return [path.op.name for path in paths]


@pytest.mark.parametrize("mover", ["view", "expand", "cast", "index", "detach", "permute", "contiguous"])
def test_climbs_past_what_moves_elements(mover):
    g = Graph()
    e = g.op("exp", g.input([1.0, 2.0]))
    moved = g.op(mover, e, result=[1.0, 2.0])
    (path,) = climb(g.recording, moved)
    assert path.op.name == "exp" and [op.name for op in path.chain] == [mover]


def test_stops_at_what_computes():
    g = Graph()
    y = g.op("mul", g.op("exp", g.input([1.0])), g.input([2.0]))
    assert names(climb(g.recording, y)) == ["mul"]
    assert names(climb(g.recording, y, extra=frozenset({"mul"}))) == ["exp"]


def test_guards_are_passed_only_when_asked():
    g = Graph()
    safe = g.op("add", g.op("exp", g.input([1.0])), other=1e-6)
    assert names(climb(g.recording, safe)) == ["add"]
    assert names(climb(g.recording, safe, guards=True)) == ["exp"]


@pytest.mark.parametrize(("other", "guard"), [(1e-8, True), (0.1, True), (-1e-3, True), (1.0, False)])
def test_a_small_constant_is_a_guard(other, guard):
    g = Graph()
    assert is_guard(g.maker(g.op("add", g.input([1.0]), other=other))) is guard


@pytest.mark.parametrize(
    ("name", "other", "same"), [("mul", 1, True), ("div", 1, True), ("add", 0, True), ("mul", 0, False), ("add", 1, False)]
)
def test_what_changes_nothing(name, other, same):
    g = Graph()
    assert is_identity(g.maker(g.op(name, g.input([3.0]), other=other))) is same


def test_nothing_computed_an_input():
    g = Graph()
    x = g.input([1.0])
    assert first(g.recording, x) is None and leaf(g.recording, x) is x


def test_same_numbers_in_other_shapes():
    g = Graph()
    x, y = g.input([1.0, 2.0]), g.input([1.0, 2.0])
    assert same_source(g.recording, g.op("view", x), g.op("view", g.op("view", x)))
    assert not same_source(g.recording, g.op("view", x), g.op("view", y))


def test_downstream_is_nearest_first_and_each_once():
    g = Graph()
    e = g.op("exp", g.input([1.0]))
    g.op("sum", g.op("mul", e, g.op("neg", e)))
    assert [op.name for op in downstream(g.recording, g.maker(e))] == ["neg", "mul", "sum"]


def test_a_ring_of_writes_ends():
    g = Graph()
    x = g.op("copy", g.input([1.0]), g.input([2.0]), result=[2.0])
    for _ in range(100):
        x = g.op("copy", x, x, result=[2.0])
    assert list(climb(g.recording, x)) == []
