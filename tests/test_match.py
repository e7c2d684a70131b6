"""One root cause for each symptom: what comes first, and what becomes of the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from graphs import fact, site

from numdebug.match import match, settle
from numdebug.report.model import Diagnosis, Repair


def suspect(bug: str, confirmed: str = "not-tried", kind: str = "rewrite", evidence: tuple[str, ...] = (), line: int = 1) -> Diagnosis:
    repair = None if kind == "absent" else Repair("form", kind, "change it")
    why = f"{bug} was {confirmed}"
    return Diagnosis(
        bug, bug, "error", 0.5, "because", site(line), confirmed=confirmed, confirmed_why=why, evidence=evidence, repair=repair
    )


BEFORE = [  # (first, second)
    (suspect("b", "yes"), suspect("a", "not-tried")),
    (suspect("b", "not-tried"), suspect("a", "no")),
    (suspect("b", "yes", "none"), suspect("a", "not-tried", "rewrite")),
    (suspect("b", "yes", "rewrite"), suspect("a", "yes", "setting")),
    (suspect("b", "yes", "setting"), suspect("a", "yes", "data")),
    (suspect("b", "yes", "data"), suspect("a", "yes", "absent")),
]


@pytest.mark.parametrize(("first", "second"), BEFORE)
def test_rank(first, second):
    for order in ([first, second], [second, first]):
        (root,) = settle(order, [])
        assert root.bug == first.bug


def test_dataflow_decides_between_equals():
    (root,) = settle([suspect("b", "yes"), suspect("a", "yes")], [])
    assert root.bug == "b"


def test_every_order_gives_the_same_root():
    several = [suspect("a", "no"), suspect("b", "yes", "data"), suspect("c", "yes", "setting"), suspect("d", "not-tried")]
    assert {settle(order, [])[0].bug for order in permutations(several)} == {"c"}


def test_the_others_are_ruled_out_with_a_reason():
    root, *rest = settle([suspect("root", "yes"), suspect("wrong", "no"), suspect("late", "yes", "setting")], [])
    assert not rest
    against = {other.bug: other.why for other in root.ruled_out}
    assert against["wrong"] == "wrong was no"
    assert "root repaired and nothing else changed" in against["late"]


def test_the_same_bug_on_another_line_is_not_ruled_out():
    (root,) = settle([suspect("a", "yes", line=3), suspect("a", "yes", line=9)], [])
    assert root.site.line == 3 and not root.ruled_out


def test_symptoms_are_listed_as_consequences():
    symptom = fact("symptom", line=30, what="loss", value="nan")
    (root,) = settle([suspect("a", "yes")], [symptom])
    assert [(c.what, c.value, c.site.line) for c in root.consequences] == [("loss", "nan", 30)]


def test_silent_harm_stands_by_itself():
    failed, wrapped = fact("nonfinite-birth", op=1), fact("integer-wrap", op=2)
    found = settle([suspect("a", "yes", evidence=(failed.id,)), suspect("b", "yes", evidence=(wrapped.id,))], [failed, wrapped])
    assert [d.bug for d in found] == ["a", "b"]


def test_confidence_follows_confirmation():
    values = [settle([suspect("a", confirmed)], [])[0].confidence for confirmed in ("yes", "not-tried", "no")]
    assert values == sorted(values, reverse=True)


def test_nothing_in_nothing_out():
    assert settle([], []) == [] and match([]) == []


def overflow(op: int, line: int):
    """exp overflowed: enough for one entry of the catalogue."""
    known = {"op": "exp", "born": "overflow", "deliberate": False, "forward_finite": False, "dtype": "float32", "reaches": "the loss"}
    return replace(fact("nonfinite-birth", op, line, numbers={"largest_input": 120.0}), facts=known)


def test_one_diagnosis_for_each_bug_and_line_in_dataflow_order():
    found = match([overflow(8, 20), overflow(2, 30), overflow(5, 20)])
    assert [(d.bug, d.site.line) for d in found] == [("exp-overflow", 30), ("exp-overflow", 20)]
    assert len(found[1].evidence) == 2


def test_select_and_ignore():
    evidence = [overflow(1, 3)]
    assert match(evidence, select=["log-of-zero"]) == []
    assert match(evidence, ignore=["exp-overflow"]) == []
    assert match(evidence, select=["exp-overflow"])[0].bug == "exp-overflow"


def test_a_naive_form_takes_the_birth_over():
    found = match(
        [overflow(2, 3), fact("naive-form", op=4, line=4, members={2, 3, 4}, form="softmax", numbers={"largest_argument": 120.0})]
    )
    assert [d.bug for d in found] == ["softmax-overflow"]
