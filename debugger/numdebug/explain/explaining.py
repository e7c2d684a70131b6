"""The explanation of a report: a model's claims as far as the report backs them, or, without a model, the same facts in our own words.

The rule engine's verdict is never changed: claims only say what the report says. What the checker refuses is asked again once, then cut
and counted; what the report itself says of the same subjects takes its place. Whatever goes wrong with the server, nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numdebug.explain.claims import MOST, Claim, Malformed, Reader
from numdebug.explain.grounding import check
from numdebug.explain.items import Items
from numdebug.explain.restate import restated
from numdebug.explain.server import Answer, NoAnswer

Source = Callable[[str], str | None]
Ask = Callable[[list[dict[str, Any]], Callable[[str], None]], Answer]  # messages, who hears the pieces -> the whole answer
Accept = Callable[[Claim], "Claim | Removed"]
SHOWN = 6  # complaints about one statement that are told to the model


@dataclass(frozen=True)
class Removed:
    """A statement that is not shown, and why. `claim`: what it was, where it was a claim at all."""

    what: str
    why: tuple[str, ...]
    claim: Claim | None = None


@dataclass
class Explanation:
    """Accepted claims in order, what was removed, and one sentence where no model could be asked or its answer ended early."""

    claims: list[Claim] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    own: list[Claim] = field(default_factory=list)  # what is said in numdebug's own words
    model: str = ""  # whose claims they are; empty: nobody's
    problem: str = ""

    @property
    def cut(self) -> str:
        """`2 statements removed: not backed by the evidence`; empty where nothing was removed."""
        n = len(self.removed)
        return f"{n} statement{'s' if n > 1 else ''} removed: not backed by the evidence" if n else ""


class Listener:
    """Takes claims out of the stream, checks each as soon as it is complete, and shows those that hold."""

    def __init__(self, items: Items, source: Source, show: Callable[[Claim], None], accept: Accept, known: Sequence[Claim] = ()) -> None:
        self.items, self.source, self.show, self.accept = items, source, show, accept
        self.reader = Reader()
        self.known = known  # shown before
        self.kept: list[Claim] = []
        self.refused: list[Removed] = []

    def __call__(self, piece: str) -> None:
        """A further piece of the answer."""
        for found in self.reader.feed(piece):
            if self.reader.seen > MOST or found in self.kept or found in self.known:
                continue
            judged = Removed(found.what, (found.why,)) if isinstance(found, Malformed) else self._judged(found)
            if isinstance(judged, Removed):
                self.refused.append(judged)
            else:
                self.kept.append(judged)
                self.show(judged)

    def _judged(self, claim: Claim) -> Claim | Removed:
        why = check(claim, self.items, self.source)
        judged = Removed(claim.text, tuple(why[:SHOWN])) if why else self.accept(claim)
        return replace(judged, claim=claim) if isinstance(judged, Removed) else judged


def as_it_is(claim: Claim) -> Claim:
    """Accept without a further test."""
    return claim


def explain(
    items: Items,
    messages: list[dict[str, Any]],
    ask: Ask,
    source: Source,
    show: Callable[[Claim], None],
    accept: Accept = as_it_is,
) -> Explanation:
    """A model's explanation. `accept` has the last word on a claim that the report backs: it tries patches, for instance.

    A server that fails raises nothing: the explanation says so in `problem`.
    """
    first = Listener(items, source, show, accept)
    problem = ""
    try:
        answer = _hear(ask, messages, first)
        problem = _wholeness(first)
        if first.refused:
            second = Listener(items, source, show, accept, first.kept)
            said = {"role": "assistant", "content": answer.text}
            _hear(ask, [*messages, said, {"role": "user", "content": again(first.refused)}], second)
            first.kept += second.kept
            first.refused = first.refused[len(second.kept) :]  # each corrected claim that holds takes the place of a refused statement
    except NoAnswer as why:
        problem = str(why)
    return Explanation(first.kept, first.refused, problem=problem)


def _hear(ask: Ask, messages: list[dict[str, Any]], listener: Listener) -> Answer:
    heard: list[str] = []

    def hear(piece: str) -> None:
        heard.append(piece)
        listener(piece)

    answer = ask(messages, hear)
    if not heard:  # a server that does not stream
        listener(answer.text)
    return answer


def _wholeness(listener: Listener) -> str:
    if listener.reader.seen == 0:
        return "the model's answer holds no claims in the form that was asked for; try another model with --model"
    return "" if listener.reader.closed else "the model's answer ended before it was complete"


def again(refused: Sequence[Removed]) -> str:
    """What the model is told of the statements that were refused."""
    told = [f"{n}. {r.what}\n   refused: {'; '.join(r.why)}" for n, r in enumerate(refused, 1)]
    return (
        "The report does not back these statements:\n"
        + "\n".join(told)
        + "\n\nFor each, give a claim in words of the items that it cites, or leave it out. "
        "Answer with JSON of the same form, corrected claims only."
    )


def in_our_words(done: Explanation, own: Sequence[Claim], items: Items) -> list[Claim]:
    """What is said in numdebug's own words, so that the whole is never less than our own explanation: whatever the model has said nothing
    of that was accepted, the proved diff where it has given none, and what the report says of the subjects of removed statements.
    """
    if not done.claims:
        return list(own)
    said = {key for claim in done.claims for key in _about(claim, items)}
    if not any(claim.kind == "fix" and claim.patch for claim in done.claims):
        said -= {key for claim in own if claim.kind == "fix" and claim.patch for key in _about(claim, items)}
    chosen = [claim for claim in own if not _about(claim, items) & said]
    told = said | {key for claim in chosen for key in _about(claim, items)}
    for removed in done.removed:
        if removed.claim is not None and not _about(removed.claim, items) & told:
            instead = restated(removed.claim, items)
            chosen += [instead] if instead is not None and instead not in chosen else []
    return chosen


def _about(claim: Claim, items: Items) -> set[tuple[str, str]]:
    """(kind, finding) for each finding that a claim speaks of; (kind, subject) where it speaks of none."""
    owners = {owner for name in claim.subjects for owner in items.owners(name)}
    return {(claim.kind, about) for about in owners or claim.subjects[:1]}
