"""What a step would do in the format that `--as` names, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from numdebug.evidence import Evidence

LOST = 0.001  # the share that a loss scale may lose (see the 99.9 % of the search)


def asked(evidence: Sequence[Evidence]) -> Evidence | None:
    """The fact about the format that the user asked for."""
    return next((e for e in evidence if e.kind == "emulated-step"), None)


def headline(evidence: Sequence[Evidence]) -> str:
    """For the verdict of a run without a finding; empty where no format was asked for or the step is as good in it."""
    whole = asked(evidence)
    if whole is None or whole["why"]:
        return ""
    if whole["finite"]:
        lost = whole["share"] or 0.0
        return f"; in {whole['format']} {_percent(lost)} of the gradient entries are lost without a loss scale" if lost > LOST else ""
    first = next((e for e in evidence if e.kind == "emulated-overflow" and e.site is not None), None)
    where = f", first at {first.site.file}:{first.site.line}" if first is not None and first.site is not None else ""
    return f"; in {whole['format']} {whole['symptom']}{where}"


def sentences(evidence: Sequence[Evidence]) -> Iterator[str]:
    """One a line."""
    whole = asked(evidence)
    if whole is None:
        return
    name = whole["format"]
    if whole["why"]:
        yield f"not tried: {whole['why']}"
        return
    if whole["mixed"]:
        yield f"the last recorded step with {name} in place of the narrow formats in the program; what it holds in float32 stays there"
    else:
        yield f"the last recorded step with every number in it rounded to {name}: data, weights, results, gradients (not the optimizer)"
    if whole["finite"]:
        yield f"it is finite{_loss(whole)}"
        yield from _gradients(whole, name)
    else:
        yield from _failure(whole, evidence)
    for e in evidence:
        if e.kind == "emulated-refusal" and e.site is not None:
            what = f"{e['op']} with {e['constant']:g} ({e.site.file}:{e.site.line})"
            yield f"{what} raises an error in it, as the constant does not fit; take torch.finfo(x.dtype).min or .max"
        if e.kind == "emulated-epsilon":
            where = f" ({e.site.file}:{e.site.line})" if e.site is not None else ""
            whose = f"{e['optimizer']}'s eps" if e["optimizer"] else f"the epsilon in front of {e['guards']},"
            yield f"{whose} {e['epsilon']:g}{where} is 0 in it"


def _loss(whole: Evidence) -> str:
    if whole["loss"] is None:
        return ""
    values = f"{whole['loss']:.5g} ({whole['loss_as_it_ran']:.5g} as it ran)"
    return f": loss {values}, {whole['gradients']} gradients" if whole["gradients"] else f": result {values}"


def _gradients(whole: Evidence, name: str) -> Iterator[str]:
    if whole["share"] is None:
        return
    if not whole["flushed"]:
        yield "no gradient entry is lost"
        return
    worst = f", most in {whole['worst']} ({_percent(whole['worst_share'])})" if whole["worst"] else ""
    yield f"{_percent(whole['share'])} of {whole['size']} gradient entries are 0 only because of {name}{worst}"
    top = f"up to {_power(whole['highest_scale'])} nothing overflows" if whole["highest_scale"] else ""
    if whole["loss_scale"]:
        yield f"a loss scale of {_power(whole['loss_scale'])} keeps at least 99.9 % of them; {top}"
    elif top:
        yield f"no loss scale keeps 99.9 % of them: {top}, and {_percent(whole['kept_there'])} are kept"


def _failure(whole: Evidence, evidence: Sequence[Evidence]) -> Iterator[str]:
    first = next((e for e in evidence if e.kind == "emulated-overflow"), None)
    where = f", first at {first.site.file}:{first.site.line}" if first is not None and first.site is not None else ""
    what = ""
    if first is not None:
        largest = f"{first['largest']:.5g} does not fit (largest {first['limit']:g})"
        what = f" ({first['op']}: {largest if first['born'] == 'overflow' else 'a number became 0'})"
    yield f"{whole['symptom']}{where}{what}"
    kept = whole["keep"]
    if kept:
        yield f"finite with {', '.join(kept)} kept in float32"
    else:
        yield "no small set of modules was found that cures it when kept in float32"


def _percent(share: float) -> str:
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{100 * share:.4f}".rstrip("0") + " %" if share < 0.001 or share > 0.99 else f"{100 * share:.3g} %"


def _power(scale: float) -> str:
    return f"2**{math.log2(scale):.0f}"
