"""A probe that fails takes nothing else down."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from numdebug.evidence import Evidence
from numdebug.probing import asked, probes


def broken(run: object) -> Iterator[Evidence]:
    yield Evidence("one", "broken")
    raise ZeroDivisionError("inside the probe")


def test_what_was_measured_before_a_probe_failed_is_kept_and_the_failure_is_told():
    told: list[dict] = []
    journal = SimpleNamespace(add=lambda record, **data: told.append({"record": record, **data}))
    facts = list(asked("broken", SimpleNamespace(measure=broken), None, journal))
    assert [f.kind for f in facts] == ["one"]
    assert told[0]["record"] == "failure" and "broken" in told[0]["where"] and "inside the probe" in told[0]["traceback"]


def test_every_probe_says_what_it_asks_measures_costs_and_misses():
    for name, module in probes().items():
        assert module.QUESTION and module.__doc__, name
        for word in ("Measures", "Costs", "Misses"):
            assert word in module.__doc__, (name, word)
