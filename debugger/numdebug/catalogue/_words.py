"""Phrases and repairs that several entries share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from numdebug.evidence import Evidence
from numdebug.formats import FORMATS
from numdebug.recording import Site
from numdebug.report.model import Repair
from numdebug.rules import Found


def number(value: Any, digits: int = 3) -> str:
    """A measured number in short form."""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def foretold(e: Evidence) -> str:
    """Why the step fails in the format that was asked for."""
    then = f"so in {e['format']} {e['symptom']}"
    if e["data"]:
        return f"{e['data']} holds numbers up to {number(e['largest'], 4)}, beyond the largest of {e['format']} ({e['limit']:g}), {then}"
    what = f"the derivative of {e['op']}" if e["backward"] else e["op"]
    if e["born"] == "divided":
        return f"{what} is given a number that {e['format']} rounded to 0, and its result is not finite, {then}"
    return f"{what} gives {number(e['largest'], 4)} here, beyond the largest {e['format']} ({e['limit']:g}), {then}"


def keep_in_float32(hits: Sequence[Found]) -> Repair:
    """Words only: nothing in the program is wrong as it runs."""
    kept = hits[0][0]["keep"]
    where = f"keep {', '.join(kept)} in float32" if kept else "keep it in float32"
    return Repair("keep_float32", "none", f"{where}, scale before the operation, or use bfloat16")


def share(e: Evidence) -> str:
    """3 of 640 elements."""
    return f"{e['non_finite']} of {e['size']} elements"


def limit_of_exp(dtype: str | None) -> str:
    """float32 overflows above 88.7"""
    known = FORMATS.get(dtype or "")
    return f"{dtype} overflows above {known.exp_limit:.1f}" if known else "the format overflows"


def reaches(e: Evidence) -> str:
    """... and reaches the loss"""
    return f"and it reaches {e['reaches']}"


def several(hits: Sequence[Found], kind: str) -> list[Evidence]:
    """Every evidence of one kind, each once, in order."""
    return list({e.id: e for hit in hits for e in hit if e.kind == kind}.values())


def repair_forms(form: str, summary: str, evidences: Sequence[Evidence], **numbers: Any) -> Repair | None:
    """A rewrite of one or more naive forms on a line: target, target2, ... each with its own parts."""
    if not evidences:
        return None
    sites: dict[str, Site] = {}
    ops: dict[str, int] = {}
    gathered: dict[str, Any] = {}
    for index, e in enumerate(evidences):
        mark = "" if index == 0 else str(index + 1)
        sites.update({role + mark: site for role, site in e.sites.items()})
        ops.update({role + mark: op for role, op in e.ops.items()})
        gathered.update({name + mark: value for name, value in e.facts.get("numbers", {}).items()})
        gathered["chain" + mark] = e.facts.get("chain", [])
        gathered["guards" + mark] = e.facts.get("guards", [])
    gathered["only_feeds_log"] = all(e.facts.get("only_feeds_log", False) for e in evidences)
    return Repair(form, "rewrite", summary, sites, ops, {**gathered, **numbers})


def repair_ops(
    form: str, summary: str, hits: Sequence[Found], kind: Literal["rewrite", "setting", "data", "none"] = "rewrite", **numbers: Any
) -> Repair:
    """A rewrite of the culprit operations themselves."""
    sites: dict[str, Site] = {}
    ops: dict[str, int] = {}
    heads = list({hit[0].id: hit[0] for hit in hits}.values())
    for index, e in enumerate(heads):
        mark = "" if index == 0 else str(index + 1)
        sites.update({role + mark: site for role, site in e.sites.items()})
        ops.update({role + mark: op for role, op in e.ops.items()})
        if "culprit" in e.ops:
            ops["target" + mark] = e.ops["culprit"]
    return Repair(form, kind, summary, sites, ops, numbers)
