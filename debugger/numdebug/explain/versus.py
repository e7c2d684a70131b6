"""The explanation of a comparison: the same thing computed two ways."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from numdebug.catalogue import bugs
from numdebug.explain.claims import Claim
from numdebug.explain.items import Items
from numdebug.explain.phrases import Say
from numdebug.languages import fix_in
from numdebug.report.model import Comparison

MOST = 4  # comparisons that are told one by one
LOOSE = 0.1  # a tolerance above it tests nothing: the output is a small difference of large numbers


def claims(items: Items, say: Say) -> Iterator[Claim]:
    """What differs by more than rounding first; then what rounding explains; then what is the same."""
    every = [(f"X{n}", c) for n, c in enumerate(items.report.comparisons, 1)]
    order = sorted(every, key=lambda one: (one[1].explained, one[1].predicted, one[1].explanation == "identical"))
    for name, c in order[:MOST]:
        yield from _one(name, c, say)
    real = [(name, c) for name, c in order if not c.explained]
    if real:
        yield _fix(items, *real[0], say)
        yield Claim("check", (real[0][0],), (real[0][0],), say("compare_check"))
        return
    allowed = [(name, c) for name, c in order if c.tolerance is not None and c.tolerance.rtol < LOOSE and not c.axis.startswith("tf32")]
    if allowed:
        name, c = max(allowed, key=lambda one: (not one[1].predicted, one[1].tolerance.atol if one[1].tolerance else 0.0))
        assert c.tolerance is not None
        yield Claim("check", (name,), (name,), say("tolerance", assertion=c.tolerance.assertion))


def _one(name: str, c: Comparison, say: Say) -> Iterator[Claim]:
    if c.explanation == "identical":
        yield Claim("evidence", (name,), (name,), say("same", a=c.a, b=c.b))
        return
    known = f"why_{c.explanation}"
    if c.explained and known in say.phrases:
        why = say.part(known)
    elif c.explanation == "real-difference":
        why = say.part("why_real")
    else:
        why = say.part("why_other", text=say.quoted(c.because))
    text = say("differ_explained" if c.explained else "differ_real", a=c.a, b=c.b, why=why)
    yield Claim("evidence", (name,), (name,), text)
    slots = {"differing": c.differing, "size": c.size, "largest": _short(c.largest), "ulps": _short(c.ulps)}
    text = say("figures", output=c.output, format=c.format, **slots)
    if math.isfinite(c.ratio) and c.envelope:
        text += " " + say("rounding_allows" if c.explained else "rounding_times", ratio=_short(c.ratio))
    yield Claim("evidence", (name,), (name,), text)
    if c.predicted:
        yield Claim("evidence", (name,), (name,), say("predicted"))
    if c.apart is not None and not c.explained:
        sites = [s for s in (c.apart.site_a, c.apart.site_b) if s is not None]
        places = say.each(list(dict.fromkeys(f"{s.file}:{s.line}" for s in sites))) or say.part("no_place")
        yield Claim("evidence", (name,), (name,), say("parted", op=c.apart.op, places=places, what=_what(c.apart.what, say)))
        if c.apart.proof:
            yield Claim("evidence", (name,), (name,), say("parted_proof", text=say.quoted(c.apart.proof)))
    if c.removed_by:
        yield Claim("evidence", (name,), (name,), say("goes_with", how=say.each(list(c.removed_by))))


def _what(text: str, say: Say) -> str:
    found = re.fullmatch(r"(?P<argument>.+) of (?P<op>\S+) is (?P<was>.+) on one side and (?P<now>.+) on the other", text)
    return say.part("parted_argument", **found.groupdict()) if found else say.quoted(text)


def _fix(items: Items, name: str, c: Comparison, say: Say) -> Claim:
    known = bugs().get(c.explanation)
    english = known.fix if known is not None else ""
    own = next((f"D{n}" for n, d in enumerate(items.report.diagnoses, 1) if d.bug == c.explanation and d.fix is not None), "")
    if own:
        d = items.report.diagnoses[int(own[1:]) - 1]
        english = d.fix.summary if d.fix is not None else english
    told = (fix_in(say.language, c.explanation, english) or say.quoted(english)) if english else ""
    return Claim("fix" if own else "check", (own or name,), (f"{own}.fix",) if own else (name,), say("fix_none", fix=told))


def _short(number: float) -> str:
    return f"{number:.3g}"
