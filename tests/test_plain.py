"""Dataclasses survive the way through strict JSON, whatever numbers they hold."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from numdebug.evidence import Evidence, Number
from numdebug.journal import Journal, read
from numdebug.plain import from_plain, to_plain
from numdebug.recording import Frame, Site
from numdebug.report.model import Consequence, Diagnosis, Fix, Repair, RuledOut

text = st.text(max_size=12)
numbers = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.booleans(), st.text(max_size=8).filter(lambda t: t not in ("nan", "inf", "-inf"))
)
sites = st.builds(
    Site,
    text,
    st.integers(1, 9),
    st.one_of(st.none(), st.integers(1, 9)),
    st.none(),
    st.none(),
    text,
    st.one_of(st.none(), text),
    st.one_of(st.none(), st.integers(0, 9)),
    st.lists(text, max_size=2).map(tuple),
)
facts = st.dictionaries(text, st.recursive(numbers, lambda inner: st.lists(inner, max_size=2), max_leaves=4), max_size=3)
evidence = st.builds(
    Evidence,
    text,
    text,
    text,
    st.one_of(st.none(), sites),
    st.one_of(st.none(), st.integers(0, 9)),
    st.dictionaries(text, st.builds(Number, numbers, st.one_of(st.none(), text)), max_size=3),
    facts,
    st.dictionaries(text, sites, max_size=2),
    st.dictionaries(text, st.integers(0, 9), max_size=2),
)
diagnoses = st.builds(
    Diagnosis,
    text,
    text,
    st.sampled_from(["error", "warning", "note"]),
    st.floats(0, 1),
    text,
    st.one_of(st.none(), sites),
    frames=st.lists(st.builds(Frame, text, st.integers(1, 9), text), max_size=2).map(tuple),
    fix=st.one_of(st.none(), st.builds(Fix, text, st.one_of(st.none(), text))),
    consequences=st.lists(st.builds(Consequence, text, text, st.one_of(st.none(), sites)), max_size=2).map(tuple),
    ruled_out=st.lists(st.builds(RuledOut, text, text), max_size=2).map(tuple),
    repair=st.one_of(st.none(), st.builds(Repair, text, st.just("rewrite"), text, st.dictionaries(text, sites, max_size=2))),
)


@given(evidence)
def test_evidence_comes_back(fact):
    assert from_plain(Evidence, json.loads(json.dumps(to_plain(fact), allow_nan=False))) == fact


@given(diagnoses)
def test_diagnoses_come_back(diagnosis):
    assert from_plain(Diagnosis, json.loads(json.dumps(to_plain(diagnosis), allow_nan=False))) == diagnosis


def test_non_finite_numbers_come_back_as_numbers():
    plain = to_plain(Evidence("k", "p", numbers={"a": Number(math.inf)}, facts={"b": -math.inf, "c": [math.nan]}))
    assert plain["numbers"]["a"]["value"] == "inf"
    assert plain["facts"] == {"b": "-inf", "c": ["nan"]}
    back = from_plain(Evidence, plain)
    assert back["a"] == math.inf
    assert back["b"] == -math.inf
    assert math.isnan(back["c"][0])


def test_the_journal_is_readable_up_to_the_last_whole_line(tmp_path):
    journal = Journal(tmp_path / "journal")
    journal.add("evidence", Evidence("k", "p"))
    journal.add("note", text="a\nb\u2028\ud800")
    journal.add("evidence", kind="k", probe="p")
    with (tmp_path / "journal").open("a") as file:
        file.write('{"record": "no')
    records = read(tmp_path / "journal")
    assert [r.name for r in records] == ["evidence", "note", "evidence"]
    assert records[0]["kind"] == records[2]["kind"] == "k"
    assert read(tmp_path / "nothing") == []
