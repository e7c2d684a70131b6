"""What a sentence says is what one statement of the report says: its words, what it denies, what it does, which operation it names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.clauses import NEGATIVE, SILENT, Clause, clauses, meaning
from numdebug.explain.grounding.wording import JUDGED
from numdebug.explain.grounding.words import also, is_everyday, listed, parts, stem, term, terms, tokens
from numdebug.explain.items import PROBES

FREE = 1  # everyday words that a sentence about a cause or a cure may add
SPARE = 3  # the same for a sentence that measures, orders or checks
KINDLY = {kind: terms(words) for kind, words in also().items()}
MOVES = frozenset(stem(w) for w in (*listed("upwards"), *listed("downwards")))  # held against the numbers themselves
POLAR, ACTIONS, BECAUSE = (frozenset(stem(w) for w in listed(name)) for name in ("polar", "actions", "because"))
ASKED = re.compile(r"\b(?:asked?|asks|looked|looks|questions?|checked|examined|whether)\b", re.IGNORECASE)
FOUND = re.compile(r"\b(?:found|ruled|no other|none|exists?|shows?|showed|proved|clean|without)\b", re.IGNORECASE)
GONE = re.compile(
    r"\b(?:gone|no longer|not|no|neither|nor|without|clean|finite|disappear\w*|absent|vanish\w*|went away|never)\b", re.IGNORECASE
)
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
    if claim.kind != "check":
        yield from _denials(backing, found)
    about = {backing.all[name].kind for name in claim.subjects}
    if (claim.kind in ("cause", "fix") or (claim.kind == "evidence" and about & {"diagnosis", "run"})) and not _in_order(backing):
        yield "no statement of the report says this in this order"
    if claim.kind == "ruled_out" and PROBES in claim.subjects and (FOUND.search(claim.text) or not ASKED.search(claim.text)):
        yield "of the probes the report says only that they were asked"
    if claim.kind == "cause":
        yield from _operations(backing)
    if claim.kind == "fix":
        yield from _actions(backing)
        yield from _formulas(backing)
    if claim.kind == "check" and (not GONE.search(claim.text) or " --" in claim.text):
        yield "a check is to run numdebug diagnose again, as it was run, and to see that the finding is gone"
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
    said = (f"{d.bug} {d.title} {d.op or ''} {d.site.function if d.site else ''}" for d in backing.diagnoses)
    return frozenset().union(*(meaning(tokens(text)) for text in said))


def _causal(text: str) -> bool:
    """Whether the sentence makes one thing the effect of another."""
    return bool(BECAUSE & {stem(t.text) for t in tokens(text) if t.kind == "word"})


def _technical(part: Clause) -> frozenset[str]:
    return frozenset(w for w in part.meaning if not w.startswith("#") and not is_everyday(w))


def _denials(backing: Backing, found: list[Clause]) -> Iterator[str]:
    """What a sentence denies, the report denies, and what the report denies, it does not affirm."""
    known = [c for s in backing.sentences for c in clauses(s)]
    for part in found:
        own = _technical(part)
        if part.negated and own and not any(c.negated and own & c.meaning for c in known):
            yield f"the report does not deny {part.text!r}"
        fits = [c for c in known if len(own) > 1 and own <= c.meaning]
        if fits and all(c.negated != part.negated for c in fits):
            yield f"the report says the opposite of {part.text!r}"


def _in_order(backing: Backing) -> bool:
    """Whether the words come in the order of one statement of the report, and of what it brings about; nothing is left out that denies."""
    said = spine(backing.claim.text)
    ends = [w for item in backing.named if item.kind == "consequence" for w in spine(item.says[0])]
    kinds = {"fix": ("fix", "page"), "cause": ("diagnosis", "page")}.get(backing.claim.kind, ("diagnosis", "page", "run"))
    for item in backing.items:
        if item.kind not in kinds:
            continue
        for sentence in backing.cures if backing.claim.kind == "fix" else item.says:
            if backing.claim.kind != "evidence" and sentence.startswith("confirmed"):
                continue
            if follows(said, [*spine(sentence), *ends]) or (ends and follows(said, [*ends, *spine(sentence)]) and _fronted(backing)):
                return True
    return False


def _fronted(backing: Backing) -> bool:
    """Whether the sentence names the effect first: `the loss is NaN because ...`."""
    return bool(re.search(r"\b(?:because|since|as|due to)\b", backing.claim.text))


def spine(text: str) -> list[str]:
    """The words of a sentence that say something, in order; names of code by their last part, and `NOT` for what denies."""
    out = []
    for token in tokens(text):
        if token.kind == "word" and token.text.lower() in NEGATIVE:
            out.append("NOT")
        elif token.kind in ("word", "name", "call") and len(token.text) > 1 and stem(token.text) not in SILENT:
            out.append(term(token.text.split("(")[0].split(".")[-1]))
    return out


def follows(said: list[str], report: list[str]) -> bool:
    """Whether `said` is `report` with words left out, up to FREE everyday words; a NOT between two words that are said is not left out."""
    at, free = 0, FREE
    for n, word in enumerate(said):
        try:
            found = report.index(word, at)
        except ValueError:
            free -= 1
            if free < 0 or word == "NOT" or not is_everyday(word) or word in POLAR:
                return False
            continue
        if n and at and "NOT" in report[at:found]:
            return False
        at = found + 1
    return True


def _actions(backing: Backing) -> Iterator[str]:
    """What a cure does is what the report's cure does."""
    known = {stem(w) for item in backing.items if item.kind in ("fix", "page") for s in item.says for w in re.findall(r"[A-Za-z]+", s)}
    for token in tokens(backing.claim.text):
        if token.kind == "word" and stem(token.text) in ACTIONS and stem(token.text) not in known:
            yield f"the report's fix does not say {token.text!r}"


def _formulas(backing: Backing) -> Iterator[str]:
    """A formula that a cure names stands there as it is written."""
    known = ["".join(s.split()) for s in backing.cures if not s.startswith("-")]
    for formula in re.findall(r"(?:[\d.]+ ?[-*+/] ?)?[\w.]+\([^()]*\)(?: ?\*\* ?\d+)?", backing.claim.text):
        whole = rf"(?<![-*+/\w.]){re.escape(''.join(formula.split()))}(?![-*+/\w(])"
        if not any(re.search(whole, s) for s in known):
            yield f"the report's fix does not say {formula!r}"


def _operations(backing: Backing) -> Iterator[str]:
    """An operation that a cause names is one of its finding, not only of the bug's page."""
    own = {t for d in backing.diagnoses for t in terms(f"{d.bug} {d.title} {d.op or ''} {d.native_op or ''} {d.because}")}
    own |= {t for item in backing.named if item.kind in ("evidence", "consequence") for s in item.says for t in terms(s)}
    for token in tokens(backing.claim.text):
        if token.kind in ("word", "name") and token.text.lower().split(".")[-1] in OPERATIONS and not parts(token.text.lower()) & own:
            yield f"{token.text} is not an operation of this finding"
