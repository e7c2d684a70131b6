"""What a sentence says of cause and effect: it runs the way that the report has it, and gives each operation the part that it had."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.clauses import Clause, chain, clauses, meaning, pairs
from numdebug.explain.grounding.wording import JUDGED
from numdebug.explain.grounding.words import also, is_everyday, listed, parts, stem, terms, tokens

KINDLY = {kind: terms(words) for kind, words in also().items()}


MOVES = frozenset(stem(w) for w in (*listed("upwards"), *listed("downwards")))  # held against the numbers themselves
FREE = 1  # everyday words that a sentence about a cause or a cure may add
ACTIONS, BECAUSE = (frozenset(stem(w) for w in listed(name)) for name in ("actions", "because"))
OPERATIONS = frozenset(listed("operations"))
RERUN = frozenset(stem(w) for w in "numdebug diagnose run rerun repeat again restart command".split())
POLAR = frozenset(stem(w) for w in listed("polar"))


def _counts(word: str, kind: str) -> bool:
    """Whether a word must stand in the report: every one of a cause or cure, else terms and what turns a statement round."""
    if kind in ("cause", "fix", "ruled_out"):
        return True
    return word not in JUDGED | MOVES and (word in POLAR or not is_everyday(word))


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
    new = novelty(backing) - KINDLY[claim.kind]
    plain = {w for w in new if is_everyday(w) and w not in POLAR | MOVES}
    if len(plain) > FREE or new - plain:
        yield f"no statement of the report says this with {', '.join(sorted(new))}"
    if claim.kind in ("cause", "fix", "ruled_out"):
        yield from _denials(backing, parts_of)
    if claim.kind == "cause":
        yield from _operations(backing)
    if claim.kind == "fix":
        yield from _actions(backing)
    if claim.kind == "check" and not RERUN & {stem(t.text) for t in tokens(claim.text) if t.kind == "word"}:
        yield "a check says what to run again"
    if claim.kind == "ruled_out":
        yield from _roles(backing, parts_of)
    if claim.kind == "order":
        yield from _places(backing)


def _technical(part: Clause) -> frozenset[str]:
    return frozenset(w for w in part.meaning if not w.startswith("#") and not is_everyday(w))


def _denials(backing: Backing, found: list[Clause]) -> Iterator[str]:
    """What a sentence denies, the report denies."""
    denied = [c for s in backing.sentences for c in clauses(s) if c.negated]
    for part in found:
        own = _technical(part)
        if part.negated and own and not any(own <= c.meaning or own & c.meaning for c in denied):
            yield f"the report does not deny {part.text!r}"


def _causal(text: str) -> bool:
    """Whether the sentence makes one thing the effect of another."""
    return bool(BECAUSE & {stem(t.text) for t in tokens(text) if t.kind == "word"})


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


def _places(backing: Backing) -> Iterator[str]:
    """Lines that a sentence names come in the order of its subjects."""
    lines = [site.line if (site := backing.all[name].site) is not None else 0 for name in backing.claim.subjects]
    written = [int(n) for n in re.findall(r"(?:\.py:|\bline )(\d+)", backing.claim.text) if int(n) in lines]
    at = [lines.index(n) for n in written]
    if at != sorted(at):
        yield "the lines are named in another order than they came"


def _roles(backing: Backing, found: list[Clause]) -> Iterator[str]:
    """What was ruled out is the other bug, and it is not called the cause."""
    for name in backing.claim.subjects:
        item, d = backing.all[name], backing.all.diagnosis(name)
        if item.kind != "ruled-out" or d is None:
            continue
        other = {t for text in (item.says[0].split(" was ruled out")[0], *item.says[1:]) for t in terms(text)}
        own = terms(d.bug) | terms(d.title)
        for part in found:
            out = re.search(r"\b(?:rul\w+ out|exclude\w*|dismiss\w*|eliminate\w*|reject\w*)\b", part.text)
            named = bool(part.meaning & (other - own)), bool(part.meaning & (own - other))
            if out and named == (False, True):
                yield f"{d.bug} was not ruled out"
            if re.search(r"\b(?:root|culprit|the cause|proved|proven)\b", part.text) and named == (True, False) and not part.negated:
                yield f"{item.says[0].split(' was ruled out')[0]} is not the cause"
