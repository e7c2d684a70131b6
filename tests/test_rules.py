"""What the few words of a rule mean."""

from __future__ import annotations

import pytest
from graphs import fact

from numdebug.rules import Above, Anywhere, Below, birth, form, related, seen

EXP = fact("nonfinite-birth", op=3, line=7, numbers={"largest": 120.0}, name="exp", deliberate=False)
MASK = fact("nonfinite-birth", op=9, name="fill", deliberate=True)
FORM = fact("naive-form", op=4, members={3, 4, 5}, form="softmax")
OTHER = fact("naive-form", op=20, members={19, 20}, form="logsumexp")
POOL = [EXP, MASK, FORM, OTHER]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"name": "exp"}, True),
        ({"name": "log"}, False),
        ({"name": ("log", "exp")}, True),
        ({"largest": Above(100)}, True),
        ({"largest": Above(120)}, False),
        ({"largest": Below(121)}, True),
        ({"missing": Above(0)}, False),
        ({"missing": None}, True),
    ],
)
def test_a_fact_is_a_value_several_or_a_test(wanted, fits):
    assert seen("nonfinite-birth", **wanted).find([EXP]) == ([(EXP,)] if fits else [])


def test_a_birth_is_not_what_somebody_wrote_down():
    assert birth().find(POOL) == [(EXP,)]


def test_and_joins_what_speaks_of_one_operation():
    assert (birth() & form("softmax")).find(POOL) == [(EXP, FORM)]
    assert (birth() & form("logsumexp")).find(POOL) == []


def test_and_anywhere_joins_across_the_run():
    assert (birth() & Anywhere(form("logsumexp"))).find(POOL) == [(EXP, OTHER)]


def test_and_not_is_about_the_same_operation():
    assert (birth() & ~form("softmax")).find(POOL) == []
    assert (birth() & ~form("logsumexp")).find(POOL) == [(EXP,)]


def test_and_not_anywhere_is_about_the_whole_run():
    assert (birth() & ~Anywhere(form("logsumexp"))).find(POOL) == []
    assert (birth() & ~Anywhere(form("softplus"))).find(POOL) == [(EXP,)]


def test_or_takes_either():
    assert (form("softmax") | form("logsumexp")).find(POOL) == [(FORM,), (OTHER,)]


def test_the_first_fact_is_what_the_diagnosis_is_about():
    for hit in (birth() & form("softmax") & ~form("softplus")).find(POOL):
        assert hit[0] is EXP


def test_related_by_operation_or_membership():
    assert related(EXP, FORM) and not related(EXP, OTHER) and not related(fact("a"), fact("b"))


def test_explain_says_what_was_sought_and_why_it_did_not_fit():
    lines = [line for _, line in (birth(name="log") & ~form("softmax")).explain(POOL)]
    assert lines[0].endswith("0 found")
    assert any("name is 'exp'" in line for line in lines)
    assert any("deliberate is True" in line for line in lines)
    assert any(line.startswith("not the following: 1 found") for line in lines)


def test_explain_indents_by_depth():
    depths = [depth for depth, _ in (birth() & ~form("softmax")).explain(POOL)]
    assert depths[0] == 0 and max(depths) == 3
