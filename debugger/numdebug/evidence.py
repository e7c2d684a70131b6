"""Typed facts that probes produce and rules read. A fact says how much of what, where, in which unit; never "bug"."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numdebug.recording import Site

# Kinds of fact about a run that failed (a NaN or inf reached the user, or the loss blew up). Every other kind is harm without a NaN:
# the fact is itself the symptom, and stands for its own diagnosis.
FAILURE = frozenset({"nonfinite-birth", "non-finite-input", "singular-derivative", "loss-history", "naive-form", "symptom"})


@dataclass(frozen=True)
class Number:
    """A measured value with its unit (None for a pure number or a word)."""

    value: float | int | str | bool
    unit: str | None = None


@dataclass(frozen=True)
class Evidence:
    """One fact. `sites` names further places by role ("softmax", "where", "logits"); the diff is written from them.

    `op` is the index of the recorded operation and `ops` those by role: they tie facts together and let confirm
    find the nodes again. `facts` holds words and flags that rules test (born, op, form, dtype, ...).
    """

    kind: str
    probe: str
    id: str = ""
    site: Site | None = None
    op: int | None = None
    numbers: dict[str, Number] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    sites: dict[str, Site] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        """A fact or the plain value of a number; None where this evidence does not have it."""
        if name in self.facts:
            return self.facts[name]
        return self.numbers[name].value if name in self.numbers else None
