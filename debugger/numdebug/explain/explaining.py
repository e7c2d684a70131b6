"""The explanation of a report: a model's claims as far as the report backs them, or, without a model, the same facts in our own words.

The rule engine's verdict is never changed: claims only say what the report says. What the checker refuses is asked again once, then cut
and counted. Whatever goes wrong with the server, nothing of the report is lost: the rest is said in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numdebug.explain.claims import MOST, SCHEMA, Claim, Malformed, Reader
from numdebug.explain.grounding import check
from numdebug.explain.items import Items
from numdebug.explain.scrub import Scrubber
from numdebug.explain.server import Answer, NoAnswer

Source = Callable[[str], str | None]
Ask = Callable[[list[dict[str, Any]], Callable[[str], None]], Answer]  # messages, who hears the pieces -> the whole answer
Show = Callable[[Claim], None]
SHOWN = 6  # complaints about one statement that are told to the model


@dataclass(frozen=True)
class Removed:
    """A statement that is not shown, and why."""

    what: str
    why: tuple[str, ...]


@dataclass
class Explanation:
    """Accepted claims in order, what was removed, and one sentence where no model could be asked or its answer ended early."""

    claims: list[Claim] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    model: str = ""  # whose claims they are; empty: numdebug's own
    problem: str = ""
    own: list[Claim] = field(default_factory=list)  # what the model left out, in numdebug's own words

    @property
    def cut(self) -> str:
        """`2 statements removed: not backed by the evidence`; empty where nothing was removed."""
        n = len(self.removed)
        return f"{n} statement{'s' if n > 1 else ''} removed: not backed by the evidence" if n else ""


class Listener:
    """Takes claims out of the stream, checks each as soon as it is complete, and shows those that hold."""

    def __init__(self, items: Items, source: Source, show: Show, accept: Callable[[Claim], Claim | Removed]) -> None:
        self.items, self.source, self.show, self.accept = items, source, show, accept
        self.reader = Reader()
        self.kept: list[Claim] = []
        self.refused: list[Removed] = []

    def __call__(self, piece: str) -> None:
        """A further piece of the answer."""
        for found in self.reader.feed(piece):
            if self.reader.seen > MOST or (isinstance(found, Claim) and found in self.kept):
                continue
            judged = Removed(found.what, (found.why,)) if isinstance(found, Malformed) else self._judged(found)
            if isinstance(judged, Removed):
                self.refused.append(judged)
            else:
                self.kept.append(judged)
                self.show(judged)

    def _judged(self, claim: Claim) -> Claim | Removed:
        why = check(claim, self.items, self.source)
        return Removed(claim.text, tuple(why[:SHOWN])) if why else self.accept(claim)


def explain(
    items: Items,
    messages: list[dict[str, Any]],
    ask: Ask,
    source: Source,
    show: Show,
    accept: Callable[[Claim], Claim | Removed] = lambda claim: claim,
) -> Explanation:
    """A model's explanation. `accept` has the last word on a claim that the report backs: it tries patches, for instance.

    Raises nothing for a server that fails: the explanation says so in `problem`.
    """
    first = Listener(items, source, show, accept)
    done = Explanation()
    try:
        answer = _hear(ask, messages, first)
        done.problem = _wholeness(first, answer)
        if first.refused:
            second = Listener(items, source, show, accept)
            _hear(ask, [*messages, {"role": "assistant", "content": answer.text}, {"role": "user", "content": again(first.refused)}], second)
            first.kept += second.kept
            first.refused = _left(first.refused, second)
    except NoAnswer as why:
        done.problem = str(why)
    done.claims, done.removed = first.kept, first.refused
    return done


def _hear(ask: Ask, messages: list[dict[str, Any]], listener: Listener) -> Answer:
    heard: list[str] = []

    def hear(piece: str) -> None:
        heard.append(piece)
        listener(piece)

    answer = ask(messages, hear)
    if not heard:  # a server that does not stream
        listener(answer.text)
    return answer


def _wholeness(listener: Listener, answer: Answer) -> str:
    if listener.reader.seen == 0:
        return "the model's answer holds no claims in the form that was asked for; try another model with --model"
    if not listener.reader.closed:
        return "the model's answer ended before it was complete"
    return ""


def again(refused: Sequence[Removed]) -> str:
    """What the model is told of the statements that were refused."""
    told = [f"{n}. {r.what}\n   refused: {'; '.join(r.why)}" for n, r in enumerate(refused, 1)]
    return (
        "The report does not back these statements:\n" + "\n".join(told) + "\n\nFor each, give a claim that the report backs, or leave it out. "
        "Answer with JSON of the same form, with the corrected claims only."
    )


def _left(refused: list[Removed], second: Listener) -> list[Removed]:
    """What stays removed: each corrected claim that holds takes the place of one refused statement."""
    return refused[len(second.kept) :]


def completed(done: Explanation, own: Iterable[Claim], items: Items) -> Explanation:
    """With what the model left out of the essential: every finding's cause and fix are said, by the model or by us."""
    said = {(c.kind, owner) for c in done.claims for name in c.subjects for owner in items.owners(name)}
    needed = ("cause", "fix")
    missing = [c for c in own if c.kind in needed and not {(c.kind, o) for name in c.subjects for o in items.owners(name)} & said]
    if not done.claims:
        missing = list(own)
    return replace(done, own=missing)


def scrubbed(messages: list[dict[str, Any]], scrubber: Scrubber) -> list[dict[str, Any]]:
    """The messages without secrets, names of people and machines, and home folders."""
    return [{**m, "content": scrubber.scrub(m["content"])} if isinstance(m.get("content"), str) else m for m in messages]
