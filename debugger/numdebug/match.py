"""The rule engine: evidence and catalogue in, diagnoses out, root cause first. Pure: it never runs a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from numdebug.catalogue import Bug, bugs
from numdebug.evidence import FAILURE, Evidence
from numdebug.report.model import Consequence, Diagnosis, Fix, RuledOut, Severity
from numdebug.rules import Found


def match(evidence: Sequence[Evidence], select: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> list[Diagnosis]:
    """Every bug whose condition holds; one diagnosis for each bug and source line, ranked by (step, dataflow)."""
    chosen = [b for b in bugs().values() if (select is None or b.id in set(select)) and b.id not in set(ignore)]
    found: list[tuple[tuple[int, int], Diagnosis]] = []
    for bug in chosen:
        groups: dict[object, list[Found]] = {}
        for hit in bug.when.find(evidence):
            where = hit[0].site
            groups.setdefault(where.place if where else None, []).append(hit)
        for hits in groups.values():
            first = min(hits, key=_order)
            found.append((_order(first), diagnosis(bug, first, hits)))
    found.sort(key=lambda pair: pair[0])
    return [d for _, d in found]


def _order(hit: Found) -> tuple[int, int]:
    """Dataflow order: data from outside the window first, then by operation; what no operation made comes last."""
    head = hit[0]
    if head.kind == "non-finite-input":
        return (0, head.op if head.op is not None else -1)
    return (1, head.op if head.op is not None else 1 << 60)


def diagnosis(bug: Bug, hit: Found, hits: Sequence[Found]) -> Diagnosis:
    """What the bug says of the evidence that it matched."""
    head = hit[0]
    repair = bug.repair(hits) if bug.repair is not None else None
    return Diagnosis(
        bug=bug.id,
        title=f"foretold: {bug.title}" if head["predicted"] else bug.title,
        severity=_foretold(head) if head["predicted"] else _graded(bug, head),
        confidence=0.5,
        because=bug.because(hit),
        site=head.site,
        op=head["op"] if isinstance(head["op"], str) else None,
        native_op=head["native"] if isinstance(head["native"], str) else None,
        phase=head["phase"] if isinstance(head["phase"], str) else None,
        confirmed="yes" if head["cured"] else "not-tried",
        confirmed_why=str(head["proof"]) if head["proof"] else "not run again yet",
        fix=Fix(repair.summary if repair is not None else bug.fix),
        evidence=tuple(dict.fromkeys(e.id for one in hits for e in one)),
        repair=repair,
    )


def _graded(bug: Bug, head: Evidence) -> Severity:
    """What arithmetic explains fails nobody's build."""
    if head.kind == "device-spread":  # of a device that this program may never see
        return "note"
    if head.kind != "difference":
        return bug.severity
    return "error" if not head["explained"] else "note" if bug.severity == "note" else "warning"


def _foretold(head: Evidence) -> Severity:
    """Of another run than the user's own (--as): that it fails is worth a warning, what it merely loses a note."""
    return "warning" if head["fails"] else "note"


def settle(diagnoses: Sequence[Diagnosis], evidence: Sequence[Evidence]) -> list[Diagnosis]:
    """One root cause for each symptom: confirmed before unconfirmed, a line repair before a setting before data, then dataflow.

    What a confirmed cause explains is listed beneath it; a competing explanation that did not cure the symptom is ruled out.
    """
    if not diagnoses:
        return []
    diagnoses = _roots(diagnoses)
    ranked = sorted(enumerate(diagnoses), key=lambda pair: (_rank(pair[1]), pair[0]))
    root = ranked[0][1]
    silent = [d for _, d in ranked[1:] if _symptom(d, evidence) != _symptom(root, evidence) and d.confirmed != "no"]
    rest = [d for _, d in ranked[1:] if d not in silent]
    consequences = list(root.consequences) + list(_consequences(evidence))
    out = tuple(RuledOut(d.bug, _against(d, root)) for d in rest if d.bug != root.bug)
    confidence = {"yes": 0.99, "not-tried": 0.7, "no": 0.4}[root.confirmed]
    settled = [replace(root, confidence=confidence, consequences=tuple(consequences), ruled_out=(*root.ruled_out, *out))]
    if silent:
        settled.extend(settle(silent, []))
    return settled


def _roots(diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """Without those that another explains; they are named beneath it."""
    known = bugs()
    kept = list(diagnoses)
    for d in diagnoses:
        root = next((r for r in kept if r is not d and r.bug in known and d.bug in known[r.bug].explains and _stands(r, d)), None)
        if root is not None and d in kept:
            kept.remove(d)
            why = f"a consequence of {root.bug}"
            kept[kept.index(root)] = replace(root, ruled_out=(*root.ruled_out, RuledOut(d.bug, why)))
    return kept


def _stands(root: Diagnosis, other: Diagnosis) -> bool:
    return root.confirmed == "yes" or (root.confirmed == "not-tried" and other.confirmed != "yes")


def _rank(d: Diagnosis) -> tuple[int, int]:
    kinds = {"rewrite": 0, "setting": 1, "data": 2, "none": 3}
    return {"yes": 0, "not-tried": 1, "no": 2}[d.confirmed], kinds[d.repair.kind] if d.repair else 3


def _symptom(d: Diagnosis, evidence: Sequence[Evidence]) -> str:
    """Failures of the same step share one root; what harms silently stands by itself."""
    kinds = {e.kind for e in evidence if e.id in d.evidence}
    return "failure" if kinds & FAILURE or not kinds else d.bug


def _against(d: Diagnosis, root: Diagnosis) -> str:
    if d.confirmed == "no":
        return d.confirmed_why
    if root.confirmed == "yes":
        return f"with {root.bug} repaired and nothing else changed, the symptom is gone"
    return "comes later in the dataflow"


def _consequences(evidence: Sequence[Evidence]) -> Iterable[Consequence]:
    for e in evidence:
        if e.kind == "symptom":
            yield Consequence(str(e["what"]), str(e["value"]), e.site)
