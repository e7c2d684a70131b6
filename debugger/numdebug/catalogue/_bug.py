"""What a catalogue entry is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from numdebug.report.model import Repair, Severity
from numdebug.rules import Condition, Found


@dataclass(frozen=True)
class Words:
    """What readers of another language see of a bug. `what`: in one or two sentences, what happens and why it hurts.

    `symptoms`: as many as the English ones, in their order. `fixes`: the English sentences that `repair` may give, {} for what varies in
    them, to the same in this language. Names of code, numbers and {} stay as they are. `measured`: what the evidence shows, each with
    {names} of its numbers; the first of which all are known is said.
    """

    title: str
    symptoms: tuple[str, ...]
    fix: str
    what: str
    fixes: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bug:
    """One root cause. `broken` and `fixed` are whole programs by framework; in `broken` the culprit's line ends with `# here`."""

    id: str
    title: str
    family: Literal["range", "gradient", "training", "precision", "difference"]
    when: Condition
    because: Callable[[Found], str]
    fix: str
    repair: Callable[[Sequence[Found]], Repair | None] | None = None
    severity: Severity = "error"
    symptoms: tuple[str, ...] = ()
    broken: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
    explains: tuple[str, ...] = ()  # ids whose facts this root cause brings about: never reported beside it
    compared: tuple[str, str] | None = None  # found by a comparison: the names in its programs that are held against each other
    hindi: Words | None = None  # where there is none, readers of Hindi see the English text
    page: str = ""

    def documented(self, page: str) -> Bug:
        """With its module's docstring as the page that users read."""
        return replace(self, page=page.strip() + "\n")
