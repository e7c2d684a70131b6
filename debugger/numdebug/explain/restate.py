"""A claim in the report's own words: what is shown where a model's claim holds and its wording does not."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from numdebug.explain.claims import Claim
from numdebug.explain.grounding import structure
from numdebug.explain.items import Item, Items
from numdebug.report.json import place

LONG = re.compile(r"-?\d+\.\d{5,}(?:e[-+]?\d+)?")
MOST = 5  # numbers of a measurement that are said


def restated(claim: Claim, items: Items) -> Claim | None:
    """The same kind, subjects and citations, said as the report says it; None where already these do not hold.

    Where only the order is one that the report does not know, the subjects are said without an order.
    """
    if list(structure.complaints(claim, items)):
        return restated(replace(claim, kind="evidence"), items) if claim.kind == "order" else None
    text = LONG.sub(lambda m: f"{float(m[0]):.4g}", _text(claim, items))
    own = items.diagnosis(claim.subjects[0])
    patch = own.fix.diff if claim.kind == "fix" and items.with_source and own is not None and own.fix is not None else None
    return replace(claim, text=text, patch=patch) if text else None


def _text(claim: Claim, items: Items) -> str:
    subjects = [items[name] for name in claim.subjects]
    d = items.diagnosis(claim.subjects[0])
    if claim.kind == "cause" and d is not None:
        return "; with it ".join([d.because, *(item.says[0] for item in subjects[1:])]) + "."
    if claim.kind == "fix" and d is not None and d.fix is not None:
        return f"{d.fix.summary}."
    if claim.kind == "check":
        gone = f"{d.bug} must not be reported any more" if d is not None else "it says what it sees then"
        return f"Run numdebug diagnose {items.report.program.path} again after the change; {gone}."
    if claim.kind == "order":
        joined = _short(subjects[0], items)
        for one, other in pairwise(subjects):
            joined += f"{'; then ' if items.before(one.id, other.id) else '; '}{_short(other, items)}"
        return f"{joined}."
    return "; ".join(_short(item, items) for item in subjects) + "."


def _short(item: Item, items: Items) -> str:
    """One item in a phrase."""
    d = items.diagnosis(item.id)
    if item.kind == "diagnosis" and d is not None:
        return f"{d.title} at {place(d.site)}" if d.site else d.title
    if item.kind == "evidence":
        head = item.says[0].split(" (probe")[0]
        facts = [s for s in item.says[1:] if not s.endswith((": False", ": True")) and not s.startswith(("native", "step"))]
        return f"{head}: {', '.join(facts[:MOST])}" if facts else head
    if item.kind == "probes":
        return f"asked besides: {' '.join(s.split(': ', 1)[-1] for s in item.says[:MOST])}".removesuffix("?") + "?"
    return item.says[0] if item.kind != "run" else f"{item.says[2].rstrip('.')}; {item.says[3]}"
