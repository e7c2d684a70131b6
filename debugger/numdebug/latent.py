"""A run that stayed healthy: is there a failure within reach?

For each risky operation a trigger is searched for. What the trigger's step shows is judged by the same probes, rules and confirmation
as a failure that did happen; the finding is a warning, and says what was moved and how far.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from numdebug.confirm import confirm
from numdebug.evidence import Evidence
from numdebug.match import match, settle
from numdebug.probing import probes
from numdebug.recording import Site
from numdebug.report.model import Diagnosis
from numdebug.run import CannotAsk, Danger, Moved, Run, Trigger

# How far weights may move from their tensor's mean. Not at all for an exp by itself: under large enough weights every network overflows,
# and there is no other way to write it.
SIGMAS = 5.0
# A formula that has an equivalent stable form is at fault also where the weights must grow further: training may let them, and the repair
# costs nothing. The report says how far; six doublings of the weights' spread are the end.
FORM_SIGMAS = 64.0
SEARCHED = 8  # operations of one program for which a trigger is searched
FOUND = 4  # warnings of one program
# Failures that come from one formula. What grows without bound in a whole network is no formula's fault.
FORMULAS = frozenset({
    "log-of-softmax", "softmax-overflow", "logsumexp-overflow", "softplus-overflow", "log-of-sigmoid", "exp-overflow", "product-underflow",
})  # fmt: skip
_QUOTIENTS = ("div", "divide", "true_divide", "reciprocal")
JUDGES = ("nonfinite", "stable_ops", "gradient_edges")  # the probes that ask why a step failed


@dataclass(frozen=True)
class Latent:
    """One warning, with the facts that it rests on and the run that shows them."""

    diagnosis: Diagnosis
    evidence: list[Evidence]
    run: Run


def latent(run: Run, risks: Sequence[Evidence], source: Callable[[str], str | None], first: int) -> Iterator[Latent]:
    """Warnings for the risky operations, each proven. `first`: number of the first fact's id."""
    searched = found = 0
    explained: set[tuple[str, int]] = set()
    members: set[int] = set()  # of what was found: one formula is one finding
    for risk in risks:
        if searched >= SEARCHED or found >= FOUND:
            return
        if risk.site is None or risk.site.place in explained or members & set(risk["members"]):
            continue
        if not _spelled(risk, source(risk.site.file)):
            continue
        searched += 1
        try:
            shown = _searched(run, risk, first)
        except CannotAsk:
            return
        if shown is not None and shown.diagnosis.site is not None and shown.diagnosis.site.place not in explained:
            explained.update(_places(run, risk))
            members.update(risk["members"])
            explained.add(shown.diagnosis.site.place)
            first += len(shown.evidence)
            found += 1
            yield shown


def _searched(run: Run, risk: Evidence, first: int) -> Latent | None:
    for sigmas in (SIGMAS, FORM_SIGMAS) if risk["form"] else (0.0,):
        trigger = run.provoke(Danger(risk.op or 0, risk["operand"], risk["goal"], sigmas))
        shown = None if trigger is None else _judged(trigger, risk, first)
        if shown is not None:
            return shown
    return None


def _judged(trigger: Trigger, risk: Evidence, first: int) -> Latent | None:
    """The failure that a trigger makes, if it is one formula's, at the operation in question, and confirmed."""
    facts = [fact for name in JUDGES for fact in probes()[name].measure(trigger.run)]
    evidence = [replace(fact, id=f"E{first + number}") for number, fact in enumerate(facts)]
    diagnoses = settle(confirm(trigger.run, match(evidence), evidence, None), evidence)
    if not diagnoses:
        return None
    d = diagnoses[0]
    if d.confirmed != "yes" or d.bug not in FORMULAS or d.site is None or not _same_place(d, risk, evidence):
        return None
    words = moves(trigger.moved)
    because = f"the run stays healthy, but {words}, {d.because}"
    why = f"tried with these values: {d.confirmed_why}"
    d = replace(d, severity="warning", because=because, confirmed_why=why, consequences=(), confidence=_confidence(trigger.moved))
    return Latent(d, [e for e in evidence if e.kind != "symptom"], trigger.run)


def _confidence(moved: Sequence[Moved]) -> float:
    """The further weights have to move, the less likely it is that they ever will."""
    return 0.9 if max((m.sigmas or 0.0 for m in moved), default=0.0) <= SIGMAS else 0.6


def _same_place(d: Diagnosis, risk: Evidence, evidence: Sequence[Evidence]) -> bool:
    """Whether the failure is at the risky operation's line, or at that of another part of its form."""
    assert d.site is not None and risk.site is not None
    places = {d.site.place}
    for e in evidence:
        if e.id in d.evidence or (e.kind == "naive-form" and e.site is not None and e.site.place == d.site.place):
            places.update(site.place for site in (*e.sites.values(), *((e.site,) if e.site else ())))
    return risk.site.place in places


def _places(run: Run, risk: Evidence) -> set[tuple[str, int]]:
    sites = [run.recording.ops[op].site for op in risk["members"]]
    return {site.place for site in sites if site is not None}


def moves(moved: Sequence[Moved]) -> str:
    """What a trigger changed, in words."""
    parts = []
    weights = [m for m in moved if m.role == "weight"]
    if weights:
        furthest = max(m.sigmas or 0.0 for m in weights)
        far = f" (further than the usual {SIGMAS:g}: it is the formula that cannot take it)" if furthest > SIGMAS else ""
        parts.append(f"with {_names(weights, 'weights')} within {furthest:.2g} sigma of {'their' if len(weights) > 1 else 'its'} mean{far}")
    for m in [m for m in moved if m.role == "input"][:2]:
        name = m.name or "an input"
        parts.append(f"with {name} between {m.low:.3g} and {m.high:.3g}, inside its observed range")
    return " and ".join(parts)


def _names(moved: Sequence[Moved], what: str) -> str:
    named = [m.name for m in moved if m.name]
    if not named:
        return f"{len(moved)} tensors of {what}" if len(moved) > 1 else f"one tensor of {what}"
    more = len(moved) - min(len(named), 2)
    return " and ".join([", ".join(named[:2]), *([f"{more} more"] if more else [])]) if more else " and ".join(named[:2])


def _spelled(risk: Evidence, text: str | None) -> bool:
    """Whether the user wrote this operation at that place, and no library function that is called there."""
    node = _expression(risk.site, text) if text is not None and risk.site is not None else None
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        return called.rstrip("_") in (risk["op"], *(_QUOTIENTS if risk["op"] in _QUOTIENTS else ()))
    return isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div) and risk["op"] in _QUOTIENTS


def _expression(site: Site, text: str) -> ast.AST | None:
    """The syntax at exactly the site's span."""
    lines = text.split("\n")
    if site.column is None or site.end_line is None or site.end_column is None or site.end_line > len(lines):
        return None
    rows = [line.encode() for line in lines[site.line - 1 : site.end_line]]
    rows[-1] = rows[-1][: site.end_column - 1]
    rows[0] = rows[0][site.column - 1 :]
    piece = b"\n".join(rows).decode(errors="replace")
    for wrapped in (f"({piece}\n)", textwrap.dedent(piece)):
        try:
            body = ast.parse(wrapped).body
        except (SyntaxError, ValueError):
            continue
        return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else body[0] if len(body) == 1 else None
    return None
