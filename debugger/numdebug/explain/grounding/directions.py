"""What a sentence says of cause and effect, of earlier and later, and of what was ruled out: it runs the way that the report has it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.clauses import Clause, chain, clauses, pairs
from numdebug.explain.grounding.statements import follows, spine
from numdebug.explain.grounding.words import terms, tokens


def complaints(backing: Backing) -> Iterator[str]:
    """What runs the other way in the report."""
    yield from _reversed(backing)
    if backing.claim.kind == "ruled_out":
        yield from _roles(backing, clauses(backing.claim.text))
    if backing.claim.kind == "order":
        yield from _listed(backing)


def _reversed(backing: Backing) -> Iterator[str]:
    """Where the sentence has the effect bring about the cause."""
    seq = sequence(backing)
    counts = Counter(w for c, _ in seq for w in c.meaning)
    weight = {w: 1.0 / n for w, n in counts.items()}
    for cause, effect in pairs(backing.claim.text):
        a, b = ranks(cause, seq, weight), ranks(effect, seq, weight)
        if a is not None and b is not None and a[0] > b[1]:
            yield f"{cause.text!r} does not bring about {effect.text!r} in the report"


def sequence(backing: Backing) -> list[tuple[Clause, int]]:
    """The report's own account: clauses with their place from cause to effect."""
    out: list[tuple[Clause, int]] = []
    order = {"loss": 1, "output": 1, "gradient": 2, "parameter": 3}
    for d in backing.diagnoses:
        out += chain(d.because)
        last = max((at for _, at in out), default=0)
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


def _listed(backing: Backing) -> Iterator[str]:
    """The sentence speaks of the subjects in their order, and turns none of them round."""
    said = spine(backing.claim.text)
    report = [w for name in backing.claim.subjects for s in backing.all[name].says if not s.startswith("confirmed") for w in spine(s)]
    if not follows(said, report) or {"before", "after"} & {t.text.lower() for t in tokens(backing.claim.text)}:
        yield "the sentence does not speak of its subjects in their order"


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
