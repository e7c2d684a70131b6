"""Kind, subjects and citations: do they fit each other by the report's own relations?"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.explain.claims import Claim
from numdebug.explain.items import Items

SUBJECTS = {  # kind of claim -> kinds of items that it may be about
    "cause": {"diagnosis", "consequence"},
    "evidence": {"evidence", "diagnosis", "consequence", "comparison", "note", "run"},
    "order": {"evidence", "diagnosis", "consequence"},
    "fix": {"fix", "diagnosis"},
    "check": {"fix", "diagnosis", "run", "consequence", "comparison"},
    "ruled_out": {"ruled-out", "probes"},
}


def complaints(claim: Claim, items: Items) -> Iterator[str]:
    """What does not fit."""
    unknown = [name for name in (*claim.subjects, *claim.cites) if name not in items]
    if unknown:
        yield f"the report has no {', '.join(unknown)}"
        return
    if not claim.subjects or not claim.cites:
        yield "subjects and cites name at least one item each"
        return
    kinds = [items[name].kind for name in claim.subjects]
    wrong = [name for name, kind in zip(claim.subjects, kinds, strict=True) if kind not in SUBJECTS[claim.kind]]
    if wrong:
        yield f"a claim of kind {claim.kind} is not about {', '.join(wrong)}"
        return
    if claim.kind == "cause" and (kinds[0] != "diagnosis" or any(k != "consequence" for k in kinds[1:])):
        yield "a cause has one diagnosis as its first subject, and then only consequences of it"
        return
    owner = claim.subjects[0]
    if claim.kind == "cause" and any(items[name].of != owner for name in claim.subjects[1:]):
        yield f"the report does not say that {owner} explains {', '.join(claim.subjects[1:])}"
    if claim.kind == "order":
        yield from _order(claim, items)
    yield from _citations(claim, items)


def _order(claim: Claim, items: Items) -> Iterator[str]:
    if len(claim.subjects) < 2:
        yield "an order has two or more subjects, first to last"
        return
    for first, second in zip(claim.subjects, claim.subjects[1:], strict=False):
        if items.before(second, first) or not (items.before(first, second) or _together(first, second, items)):
            yield f"the report does not say that {first} came before {second}"


def _together(first: str, second: str, items: Items) -> bool:
    """Consequences of one diagnosis in the order of the report, at the same moment: they may be listed one after the other."""
    a, b = items[first], items[second]
    return a.kind == b.kind == "consequence" and a.of == b.of and a.at == b.at


def _citations(claim: Claim, items: Items) -> Iterator[str]:
    """What is cited must speak for the diagnosis that the claim is about."""
    about = {owner for name in claim.subjects for owner in items.owners(name)}
    if not about:
        return
    for name in claim.cites:
        if items[name].kind in ("run", "probes", "note", "code"):
            continue
        others = set(items.owners(name))
        if items[name].kind == "evidence" and not others and (claim.kind in ("evidence", "order") or _symptom_of(name, about, items)):
            continue
        if not others & about:
            yield f"{name} does not speak for {', '.join(sorted(about))}"


def _symptom_of(name: str, about: set[str], items: Items) -> bool:
    """Evidence that no diagnosis rests on, at the place of one or of what it explains, or of the run as a whole."""
    site = items[name].site
    places = {(i.site.file, i.site.line) for i in items if i.site is not None and (i.id in about or i.of in about)}
    return site is None or (site.file, site.line) in places
