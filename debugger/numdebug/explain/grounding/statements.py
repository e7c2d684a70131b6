"""What a sentence says is what one statement of the report says: its words, what it denies, what it does, which operation it names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.clauses import Clause, clauses, meaning
from numdebug.explain.grounding.wording import JUDGED
from numdebug.explain.grounding.words import also, is_everyday, listed, parts, stem, terms, tokens

FREE = 1  # everyday words that a sentence about a cause or a cure may add
SPARE = 3  # the same for a sentence that measures, orders or checks
KINDLY = {kind: terms(words) for kind, words in also().items()}
MOVES = frozenset(stem(w) for w in (*listed("upwards"), *listed("downwards")))  # held against the numbers themselves
POLAR, ACTIONS, BECAUSE = (frozenset(stem(w) for w in listed(name)) for name in ("polar", "actions", "because"))
OPERATIONS = frozenset(listed("operations"))
RERUN = frozenset(stem(w) for w in "numdebug diagnose run rerun repeat again restart command".split())


def complaints(backing: Backing) -> Iterator[str]:
    """What no statement of the report says."""
    claim = backing.claim
    found = clauses(claim.text)
    numbered = any(w.startswith("#") for part in found for w in part.meaning)
    if not numbered and not any(_technical(part) & backing.terms for part in found) and claim.kind != "check":
        yield "the sentence says nothing that the report says"
    new = novelty(backing) - KINDLY[claim.kind]
    plain = {w for w in new if is_everyday(w) and w not in POLAR | MOVES}
    if len(plain) > (FREE if claim.kind in ("cause", "fix", "ruled_out") else SPARE) or new - plain:
        yield f"no statement of the report says this with {', '.join(sorted(new))}"
    if claim.kind in ("cause", "fix", "ruled_out"):
        yield from _denials(backing, found)
    if claim.kind == "cause":
        yield from _operations(backing)
    if claim.kind == "fix":
        yield from _actions(backing)
    if claim.kind == "check" and not RERUN & {stem(t.text) for t in tokens(claim.text) if t.kind == "word"}:
        yield "a check says what to run again"


def novelty(backing: Backing) -> set[str]:
    """The words of the sentence that the statement of the report that fits it best does not have."""
    local: set[str] = set()
    if backing.claim.kind in ("evidence", "order"):
        local = {p for line in backing.near for name in re.findall(r"[A-Za-z_]\w*", line) for p in parts(name)}
    said = {
        w
        for part in clauses(backing.claim.text)
        for w in part.meaning
        if not w.startswith("#") and w not in local and _counts(w, backing.claim.kind)
    }
    return min(({*said - u} for u in statements(backing)), key=len, default=said)


def _counts(word: str, kind: str) -> bool:
    """Whether a word must stand in the report. Elsewhere than in a cause or cure, judgements and movements are held against the facts."""
    if kind in ("cause", "fix", "ruled_out"):
        return True
    return word not in JUDGED | MOVES


def statements(backing: Backing) -> list[frozenset[str]]:
    """What may be said in one sentence of a claim: the words of one statement of the report, with those of what it is about.

    A cause draws on one sentence of the diagnosis or its page, a fix on the fix and the page, evidence on what is named itself.
    """
    claim = backing.claim
    narrow = claim.kind in ("cause", "fix") or _causal(claim.text)
    about = frozenset().union(
        *(meaning(tokens(s)) for item in backing.named if item.kind == "consequence" for s in item.says), _frame(backing)
    )
    found: list[frozenset[str]] = []
    for item in backing.items:
        if item.kind == "code" or (claim.kind == "evidence" and item not in backing.named and item.kind != "run"):
            continue
        if claim.kind == "ruled_out" and item not in backing.named:
            continue
        if narrow and item.kind not in ("diagnosis", "fix", "page", "consequence", "ruled-out"):
            continue
        said = [meaning(tokens(s)) for s in item.says if not (claim.kind in ("cause", "fix") and s.startswith("confirmed"))]
        found += [frozenset().union(*said)] if item.kind in ("evidence", "comparison", "fix") else said
    return [u | about for u in found if u]


def _frame(backing: Backing) -> frozenset[str]:
    """Title, place and operation of the diagnoses: any sentence about them may repeat these."""
    found = [d for owner in backing.owners if (d := backing.all.diagnosis(owner)) is not None]
    return frozenset().union(*(meaning(tokens(f"{d.bug} {d.title} {d.op or ''} {d.site.function if d.site else ''}")) for d in found))


def _causal(text: str) -> bool:
    """Whether the sentence makes one thing the effect of another."""
    return bool(BECAUSE & {stem(t.text) for t in tokens(text) if t.kind == "word"})


def _technical(part: Clause) -> frozenset[str]:
    return frozenset(w for w in part.meaning if not w.startswith("#") and not is_everyday(w))


def _denials(backing: Backing, found: list[Clause]) -> Iterator[str]:
    """What a sentence denies, the report denies."""
    denied = [c for s in backing.sentences for c in clauses(s) if c.negated]
    for part in found:
        own = _technical(part)
        if part.negated and own and not any(own <= c.meaning or own & c.meaning for c in denied):
            yield f"the report does not deny {part.text!r}"


def _actions(backing: Backing) -> Iterator[str]:
    """What a cure does is what the report's cure does."""
    known = {stem(w) for item in backing.items if item.kind in ("fix", "page") for s in item.says for w in re.findall(r"[A-Za-z]+", s)}
    for token in tokens(backing.claim.text):
        if token.kind == "word" and stem(token.text) in ACTIONS and stem(token.text) not in known:
            yield f"the report's fix does not say {token.text!r}"


def _operations(backing: Backing) -> Iterator[str]:
    """An operation that a cause names is one of its finding, not only of the bug's page."""
    found = [d for owner in backing.owners if (d := backing.all.diagnosis(owner)) is not None]
    own = {t for d in found for t in terms(f"{d.bug} {d.title} {d.op or ''} {d.native_op or ''} {d.because}")}
    own |= {t for item in backing.named if item.kind in ("evidence", "consequence") for s in item.says for t in terms(s)}
    for token in tokens(backing.claim.text):
        if token.kind in ("word", "name") and token.text.lower().split(".")[-1] in OPERATIONS and not parts(token.text.lower()) & own:
            yield f"{token.text} is not an operation of this finding"
