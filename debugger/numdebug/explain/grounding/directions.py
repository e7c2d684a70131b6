"""What a sentence says of cause and effect: it runs the way that the report has it, and gives each operation the part that it had."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.clauses import Clause, chain, clauses, meaning, pairs
from numdebug.explain.grounding.words import also, is_everyday, listed, parts, stem, terms, tokens

KINDLY = {kind: terms(words) for kind, words in also().items()}


POLAR = frozenset(stem(w) for w in listed("polar"))


def _counts(word: str) -> bool:
    return word in POLAR or not is_everyday(word)


def units(backing: Backing) -> list[frozenset[str]]:
    """What the report says, one set of words for each statement: a sentence, a clause of it, or all that one measurement found."""
    found: list[frozenset[str]] = []
    for item in backing.items:
        if item.kind == "code":
            continue
        if item.kind in ("evidence", "comparison"):
            found.append(frozenset().union(*(meaning(tokens(s)) for s in item.says)))
        else:
            found += [meaning(tokens(s)) for s in item.says]
    return [u for u in found if u]


def novelty(backing: Backing) -> list[set[str]]:
    """For each clause, the words that its best backing statement does not have."""
    known = units(backing)
    local = {p for line in backing.near for name in re.findall(r"[A-Za-z_]\w*", line) for p in parts(name)}
    out = []
    for part in clauses(backing.claim.text):
        said = frozenset(w for w in part.meaning if not w.startswith("#") and w not in local and _counts(w))
        best = min((said - u for u in known), key=len, default=said)
        out.append(set(best))
    return out


def sequence(backing: Backing) -> list[tuple[Clause, int]]:
    """The report's own account: clauses with their place from cause to effect."""
    out: list[tuple[Clause, int]] = []
    for owner in backing.owners:
        d = backing.all.diagnosis(owner)
        if d is not None:
            out += chain(d.because)
            last = max((at for _, at in out), default=0)
            order = {"loss": 1, "output": 1, "gradient": 2, "parameter": 3}
            out += [(c, last + order.get(k.what.split()[0], 1)) for k in d.consequences for c in clauses(f"{k.what} {k.value}")]
    return out


def ranks(part: Clause, seq: list[tuple[Clause, int]], weight: dict[str, float]) -> tuple[int, int] | None:
    """First and last place in the account that a clause speaks of best; None where it speaks of none."""
    scores = [sum(weight[w] for w in part.meaning & c.meaning) for c, _ in seq]
    top = max(scores, default=0.0)
    if top <= 0:
        return None
    at = [place for (_, place), s in zip(seq, scores, strict=True) if s >= top - 1e-9]
    return min(at), max(at)


def reversed_pairs(backing: Backing) -> list[str]:
    """Where the sentence has the effect bring about the cause."""
    seq = sequence(backing)
    counts = Counter(w for c, _ in seq for w in c.meaning)
    weight = {w: 1.0 / n for w, n in counts.items()}
    out = []
    for cause, effect in pairs(backing.claim.text):
        a, b = ranks(cause, seq, weight), ranks(effect, seq, weight)
        if a is not None and b is not None and a[0] > b[1]:
            out.append(f"{cause.text!r} does not bring about {effect.text!r} in the report")
    return out


def complaints(backing: Backing) -> Iterator[str]:
    """Causal statements that the report does not make."""
    claim = backing.claim
    parts_of = clauses(claim.text)
    numbered = any(w.startswith("#") for part in parts_of for w in part.meaning)
    if not numbered and not any(_technical(part) & backing.terms for part in parts_of) and claim.kind != "check":
        yield "the sentence says nothing that the report says"
    yield from reversed_pairs(backing)
    if claim.kind == "evidence":
        return
    for new in novelty(backing):
        if new - KINDLY[claim.kind]:
            yield f"no statement of the report says this with {', '.join(sorted(new))}"
    if claim.kind in ("cause", "fix"):
        yield from _denials(backing, parts_of)
    if claim.kind == "ruled_out":
        yield from _roles(backing, parts_of)


def _technical(part: Clause) -> frozenset[str]:
    return frozenset(w for w in part.meaning if not w.startswith("#") and not is_everyday(w))


def _denials(backing: Backing, found: list[Clause]) -> Iterator[str]:
    """What a sentence denies, the report denies."""
    denied = [c for s in backing.sentences for c in clauses(s) if c.negated]
    for part in found:
        own = _technical(part)
        if part.negated and own and not any(own <= c.meaning or own & c.meaning for c in denied):
            yield f"the report does not deny {part.text!r}"


def _roles(backing: Backing, found: list[Clause]) -> Iterator[str]:
    """What was ruled out is the other bug, and it is not called the cause."""
    for name in backing.claim.subjects:
        item, d = backing.all[name], backing.all.diagnosis(name)
        if item.kind != "ruled-out" or d is None:
            continue
        other, own = terms(item.says[0].split(" was ruled out")[0]), terms(d.bug) | terms(d.title)
        for part in found:
            out = re.search(r"\b(?:rul\w+ out|exclude\w*|dismiss\w*|eliminate\w*|reject\w*)\b", part.text)
            named = bool(part.meaning & (other - own)), bool(part.meaning & (own - other))
            if out and named == (False, True):
                yield f"{d.bug} was not ruled out"
            if re.search(r"\b(?:root|culprit|the cause|proved|proven)\b", part.text) and named == (True, False) and not part.negated:
                yield f"{item.says[0].split(' was ruled out')[0]} is not the cause"
