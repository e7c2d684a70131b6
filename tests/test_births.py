"""Where non-finite numbers are born, how, and where a zero came from."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import Graph

from numdebug.births import births, dropped_by, zero_origin

INF, NAN = np.inf, np.nan


def born(g: Graph, value) -> list[tuple[str, str]]:
    return [(b.op.name if b.op else "outside", b.born) for b in births(g, g.sink(value))]


@pytest.mark.parametrize(
    ("name", "operands", "how"),
    [
        ("exp", [[100.0]], "overflow"),
        ("log", [[0.0]], "log of zero"),
        ("log", [[-1.0]], "log of a negative"),
        ("sqrt", [[-1.0]], "domain"),
        ("div", [[1.0], [0.0]], "x/0"),
        ("div", [[0.0], [0.0]], "0/0"),
        ("mul", [[1e30], [1e30]], "overflow"),
        ("square", [[1e30]], "overflow"),
    ],
)
def test_kinds_of_birth(name, operands, how):
    g = Graph()
    assert born(g, g.op("sum", g.op(name, *map(g.input, operands)))) == [(name, how)]


def test_finite_numbers_have_no_birth():
    g = Graph()
    assert born(g, g.op("exp", g.input([1.0]))) == []


def test_a_nan_is_followed_past_what_carries_it():
    g = Graph()
    bad = g.op("log", g.input([-1.0, 1.0]))
    assert born(g, g.op("sum", g.op("mul", g.op("view", bad), g.input([2.0, 2.0])))) == [("log", "log of a negative")]


def test_inf_minus_inf_names_both_itself_and_the_infinity():
    g = Graph()
    e = g.op("exp", g.input([100.0]))
    assert born(g, g.op("sub", e, e)) == [("sub", "inf-inf"), ("exp", "overflow")]


def test_two_causes_are_both_found():
    g = Graph()
    y = g.op("add", g.op("log", g.input([0.0])), g.op("exp", g.input([1.0])))
    z = g.op("add", y, g.op("log", g.input([0.0])))
    assert born(g, z) == [("log", "log of zero")] * 2


def test_data_comes_from_outside():
    g = Graph()
    assert born(g, g.op("sum", g.input([NAN, 1.0]))) == [("outside", "data")]


def test_an_infinity_that_was_written_down_is_deliberate():
    g = Graph()
    masked = g.op("masked_fill", g.input([1.0, 2.0]), result=[1.0, -INF], value=-INF)
    (birth,) = births(g, g.sink(masked, "output"))
    assert birth.deliberate


def test_the_culprit_of_a_backward_birth_is_its_forward_operation():
    g = Graph()
    root = g.op("sqrt", g.input([0.0]))
    grad = g.op("div", g.input([1.0]), root, phase="backward", forward=g.maker(root))
    (birth,) = births(g, g.sink(grad, "gradient"))
    assert birth.op.name == "div" and birth.culprit is g.maker(root)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda g: g.input([0.0, 1.0]), "data"),
        (lambda g: g.op("exp", g.input([-200.0, 1.0])), "exp"),
        (lambda g: g.op("relu", g.input([-1.0, 1.0])), "cut off"),
        (lambda g: g.op("mul", g.input([1e-30, 1.0]), g.input([1e-30, 1.0])), "product underflow"),
        (lambda g: g.op("sub", g.input([1.0, 2.0]), g.input([1.0, 1.0])), "sub"),
        (lambda g: g.op("sum", g.input([0.0, 0.0])), "sum"),
        (lambda g: g.op("cast", g.input([1e-9, 1.0]), result=np.array([0.0, 1.0])), "cast underflow"),
        (lambda g: g.op("add", g.op("exp", g.input([-200.0, 1.0])), result=[0.0, 1.0], other=1e-50), "epsilon"),
    ],
)
def test_where_a_zero_came_from(build, kind):
    g = Graph()
    value = build(g)
    assert zero_origin(g, g.op("view", value)).kind == kind


def test_what_a_where_drops():
    g = Graph()
    root = g.op("sqrt", g.input([-1.0, 4.0]))
    kept = g.op("where", g.input([False, True], "bool"), root, g.input([0.0, 0.0]), result=[0.0, 2.0])
    g.op("sum", kept)
    assert dropped_by(g, g.maker(root)) is g.maker(kept)


def test_a_condition_drops_nothing():
    g = Graph()
    test = g.op("sqrt", g.input([1.0]))
    g.op("where", test, g.input([1.0]), g.input([0.0]), result=[1.0])
    assert dropped_by(g, g.maker(test)) is None
