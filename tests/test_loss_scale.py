"""The loss scaler's history."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from numdebug.probing import probes
from numdebug.recording import Step


@pytest.mark.parametrize(
    ("dropped", "said"),
    [(set(), "settled"), ({0, 1, 2}, "settled"), (set(range(100)), "drops steps to the end"), ({0, 1, 90}, "searching")],
    ids=["none", "warm-up", "all", "one late"],
)
def test_warm_up_is_told_from_disease(dropped: set[int], said: str):
    steps = [Step(n, scaled=True, skipped=n in dropped) for n in range(100)]
    [fact] = probes()["loss_scale"].measure(SimpleNamespace(recording=SimpleNamespace(steps=steps)))
    assert fact["verdict"] == said
    assert fact["dropped"] == len(dropped)


def test_a_run_without_a_scaler_has_no_history():
    assert not list(probes()["loss_scale"].measure(SimpleNamespace(recording=SimpleNamespace(steps=[Step(0)]))))
