"""Terms and judgements: a mechanism that the report does not speak of is not brought in, nothing is played down or made surer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.quantities import SPELLED
from numdebug.explain.grounding.words import also, is_everyday, listed, parts, stem, tokens

HARMLESS, SURE, UNSURE = (frozenset(stem(w) for w in listed(name)) for name in ("harmless", "sure", "unsure"))
NOTHING = re.compile(r"\b(?:no|without) (?:real )?(?:effect|need|problem|harm|impact|influence|danger|bug|reason|finding)\b", re.IGNORECASE)
PROVED = re.compile(r"\b(?:is|are|was|be) (?:then |thereby |thus )?(?:proved|proven|confirmed|verified|sure|certain)\b")
JUDGED = HARMLESS | SURE | UNSURE


def complaints(backing: Backing) -> Iterator[str]:
    """Words that the report does not back."""
    claim = backing.claim
    extra = {stem(w) for w in also()[claim.kind].split()}
    words = [t.text for t in tokens(claim.text) if t.kind == "word"]
    for word in dict.fromkeys(words):
        if word.lower() in SPELLED or stem(word) in JUDGED or stem(word) in extra or is_everyday(word) or word in backing.names:
            continue
        if parts(word) & backing.terms or all(parts(p) & backing.terms or is_everyday(p) for p in word.split("-")):
            continue
        yield f"the report does not speak of {word!r} here"
    yield from _harmless(backing, words)
    yield from _sureness(backing, words)


def _harmless(backing: Backing, words: list[str]) -> Iterator[str]:
    """Nothing is called harmless unless what is named calls it so."""
    own = {
        stem(w) for item in backing.items if item.kind not in ("page", "code") for s in item.says for w in re.findall(r"[a-z]+", s.lower())
    }
    for word in words:
        if stem(word) in HARMLESS and stem(word) not in own:
            yield f"the report does not call anything {word!r}"
    if found := NOTHING.search(" ".join(words)):
        yield f"the report does not say {found[0]!r}"


def _sureness(backing: Backing, words: list[str]) -> Iterator[str]:
    """As sure as `confirmed` says."""
    kind = backing.claim.kind
    states = {d.confirmed for d in backing.diagnoses}
    low = [w.lower() for w in words]
    denied = bool(set(low) & set(listed("negative")))
    if kind != "check" and states & {"no", "not-tried"} and "yes" not in states:
        sure = [w for w in low if stem(w) in SURE]
        if sure and not denied:
            yield f"{sure[0]}: this was not confirmed"
    if kind == "check" and PROVED.search(" ".join(low)):
        yield "a check proves nothing before it is made"
    if states == {"yes"} and kind in ("cause", "evidence", "order"):
        unsure = [w for w in low if stem(w) in UNSURE]
        if unsure and stem(unsure[0]) not in backing.terms:
            yield f"{unsure[0]}: this was confirmed"
    if (
        states == {"yes"}
        and kind != "ruled_out"
        and re.search(r"\b(not|never|un)\W?(been |yet |be )?(confirmed|proved|proven|verified|tested|tried|established)\b", " ".join(low))
    ):
        yield "this was confirmed"
