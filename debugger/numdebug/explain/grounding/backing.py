"""What a claim may draw on: the items that it names, the diagnosis they belong to, that bug's page, its code, and the run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from numdebug.explain.claims import Claim
from numdebug.explain.grounding.words import parts, terms, tokens
from numdebug.explain.items import PROBES, RUN, Item, Items
from numdebug.languages import section
from numdebug.report.model import Diagnosis

PIECES = re.compile(r"[;:()]|, |\b(?:and|but|where|while|because|so that|which)\b")
COUNTED = ("consequence", "evidence", "ruled-out")


@dataclass(frozen=True)
class Quantity:
    """A number that the report has, and the words that it stands among."""

    value: float
    about: frozenset[str]


class Backing:
    """The named items of one claim, and everything in them by kind."""

    def __init__(self, claim: Claim, items: Items) -> None:
        self.claim = claim
        self.all = items
        self.named = [items[name] for name in dict.fromkeys((*claim.subjects, *claim.cites)) if name in items]
        self.owners = tuple(dict.fromkeys(owner for item in self.named for owner in items.owners(item.id)))
        more = [items[f"{owner}{part}"] for owner in self.owners for part in ("", ".fix", ".page", ".code") if f"{owner}{part}" in items]
        if claim.kind == "check":  # what must be gone then
            more += [item for item in items if item.kind == "consequence" and item.of in self.owners]
        self.items: list[Item] = list({item.id: item for item in (*self.named, *more, items[RUN])}.values())

    @cached_property
    def diagnoses(self) -> list[Diagnosis]:
        """The findings that the claim is about."""
        return [d for owner in self.owners if (d := self.all.diagnosis(owner)) is not None]

    @cached_property
    def sentences(self) -> list[str]:
        """Everything that the items say, code left out: words in the user's code are no statements."""
        return [s for item in self.items if item.kind != "code" for s in item.says if not _is_code(item, s)]

    @cached_property
    def cures(self) -> list[str]:
        """What the report says of the cure: the fix, its diff, and that part of the page."""
        known = import_module("numdebug.catalogue").bugs()
        pages = [section(known[d.bug].page, "Fix") for d in self.diagnoses if d.bug in known]
        return [
            *(s for item in self.items if item.kind == "fix" for s in item.says),
            *(s for page in pages for s in re.split(r"(?<=[.;:]) ", page)),
        ]

    @cached_property
    def terms(self) -> set[str]:
        """Every word that backs a word."""
        return {t for s in self.sentences for t in terms(s)}

    @cached_property
    def names(self) -> set[str]:
        """Every name of code: as it stands, and the parts of it that dots separate."""
        found: set[str] = set()
        for item in self.items:
            for sentence in item.says:
                for name in re.findall(r"[A-Za-z_<][\w>]*(?:\.\w+)*|\d+(?:\.\w+)+", sentence):
                    found |= {name, *name.split(".")}
            if item.site is not None:
                found |= {item.site.function, item.site.file, *(item.site.module or "").split(".")}
        return found

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Every number with the words that it stands among, and how many of a kind there are."""
        said = [(item, s) for item in self.items for s in item.says]
        if self.claim.kind == "fix":  # what a cure sets stands in the cure, not among what was measured, nor in lines that go
            said = [(item, s) for item, s in said if item.kind in ("fix", "page") and not s.startswith("-")]
        found = [Quantity(v, frozenset(about)) for item, s in said for v, about in stated(item, s)]
        for owner in self.owners:
            own = [item for item in self.all if item.of == owner]
            for kind in COUNTED:
                count = sum(item.kind == kind for item in own)
                kinds = {t for item in own if item.kind == kind for s in item.says for t in terms(s)}
                found.append(Quantity(count, frozenset(kinds)))
            for word in ("gradient", "parameter"):
                mine = [item for item in own if item.kind == "consequence" and word in item.says[0].split(" is ")[0]]
                found.append(Quantity(len(mine), frozenset({t for item in mine for t in terms(item.says[0])})))
            found.append(Quantity(len(self.all.rests_on[owner]), frozenset(parts("evidence") | parts("fact"))))
        if any(item.id == PROBES for item in self.named):
            found.append(Quantity(len(self.all[PROBES].says), frozenset(parts("probe") | parts("question"))))
        found.append(Quantity(len(self.all.report.diagnoses), frozenset(parts("diagnosis") | parts("finding") | parts("error"))))
        return found

    @cached_property
    def facts(self) -> list[tuple[frozenset[str], float]]:
        """What each measurement that is named measured: the words of its name, and the number."""
        found = []
        for item in self.named:
            for key, colon, rest in (s.partition(": ") for s in item.says if item.kind == "evidence"):
                if colon and (values := numbers(rest)):
                    found.append((frozenset(terms(key)), values[0]))
        return found

    @cached_property
    def groups(self) -> list[list[Quantity]]:
        """The numbers of each measurement."""
        return [[Quantity(v, frozenset()) for s in item.says for v in numbers(s)] for item in self.items if item.kind == "evidence"]

    @cached_property
    def lines(self) -> set[int]:
        """Lines that the named items and their diagnosis stand at, or speak of."""
        found: set[int] = set()
        for item in self.items:
            if item.kind == "code" or (self.claim.kind == "fix" and item.kind not in ("fix", "diagnosis")):
                continue
            if self.claim.kind == "cause" and item.kind == "fix":
                continue
            if item.site is not None:
                found |= set(range(item.site.line, (item.site.end_line or item.site.line) + 1))
            for sentence in item.says:
                found |= {int(n) for n in re.findall(r"\.py:(\d+)", sentence)}
                for run in re.findall(r"\blines? (\d+(?:(?:, | and | to |-)\d+)*)", sentence):
                    found |= {int(n) for n in re.findall(r"\d+", run)}
            if item.kind == "fix":
                found |= changed_lines(item.says)
        return found

    @cached_property
    def code_lines(self) -> dict[int, str]:
        """Lines of code that the claim names, by number."""
        code = [s for item in self.items if item.kind == "code" for s in item.says]
        return {int(m[1]): m[2] for s in code if (m := re.match(r"[^:]+:(\d+): ?(.*)", s))}

    @cached_property
    def near(self) -> list[str]:
        """The lines of code that the finding, or what is cited, stands at."""
        at = {n for item in self.items if item.site is not None for n in range(item.site.line, (item.site.end_line or item.site.line) + 1)}
        return [line for n, line in self.code_lines.items() if n in at]

    @cached_property
    def explicit(self) -> list[Quantity]:
        """The numbers of the items that the claim names itself."""
        return [Quantity(v, frozenset(about)) for item in self.named for s in item.says for v, about in stated(item, s)]

    @cached_property
    def steps(self) -> set[int]:
        """Steps that the named items speak of."""
        found = {int(n) for s in self.sentences for n in re.findall(r"\bsteps? (\d+)", s)}
        found |= {item.site.step for item in self.items if item.site is not None and item.site.step is not None}
        return found


def stated(item: Item, sentence: str) -> Iterator[tuple[float, set[str]]]:
    """Numbers of a sentence, each with the words of its own clause; a measurement's also with what was measured."""
    head = terms(item.says[0]) if item.kind in ("evidence", "comparison") else set()
    for piece in [sentence] if item.kind in ("code", "consequence", "run", "evidence", "comparison") else PIECES.split(sentence):
        for number in numbers(piece):
            yield number, terms(piece) | head


def numbers(text: str) -> list[float]:
    """Every number in a text; a percentage as it is written."""
    return [value(t.text) for t in tokens(text) if t.kind == "number"] + [
        float(n)
        for t in tokens(text)
        if t.kind in ("call", "name")
        for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])", t.text)
    ]


def value(text: str) -> float:
    """The number that is written."""
    return float(text.rstrip("%").replace(",", ""))


def _is_code(item: Item, sentence: str) -> bool:
    return item.kind == "fix" and sentence.startswith(("---", "+++", "@@", "+", "-", " "))


def changed_lines(diff: tuple[str, ...]) -> set[int]:
    """Line numbers, old and new, that a diff touches."""
    found: set[int] = set()
    old = new = 0
    for line in diff:
        if hunk := re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)", line):
            old, new = int(hunk[1]), int(hunk[2])
        elif line.startswith("-") and not line.startswith("---"):
            found.add(old)
            old += 1
        elif line.startswith("+") and not line.startswith("+++"):
            found.add(new)
            new += 1
        elif line.startswith(" "):
            old, new = old + 1, new + 1
    return found
