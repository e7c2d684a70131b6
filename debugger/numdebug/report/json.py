"""Report <-> the published JSON (docs/report.schema.json). Strict: non-finite numbers are the strings "nan", "inf", "-inf"."""

from __future__ import annotations

import json
from typing import Any

from numdebug import __version__
from numdebug.errors import UserError
from numdebug.evidence import Evidence, Number
from numdebug.plain import from_plain, to_plain
from numdebug.recording import Frame, Site
from numdebug.report.model import Comparison, Diagnosis, Excerpt, ProbeRun, Program, Report

SCHEMA_VERSION = "1"


def render(report: Report) -> str:
    """The report as JSON text, control characters escaped by JSON itself."""
    return json.dumps(publish(report), indent=2, allow_nan=False) + "\n"


def publish(report: Report) -> dict[str, Any]:
    """The report as the published structure."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "numdebug", "version": __version__},
        "program": to_plain(report.program),
        "environment": to_plain(report.environment),
        "verdict": report.verdict,
        "diagnoses": [_diagnosis(d) for d in report.diagnoses],
        "evidence": [_evidence(e) for e in report.evidence],
        "notes": to_plain(report.notes),
        "probes": to_plain(report.probes),
        "comparisons": to_plain(report.comparisons),
        "excerpts": to_plain(report.excerpts),
        **({"explanation": report.explanation} if report.explanation is not None else {}),
    }


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(diagnosis)
    plain.pop("repair")
    plain["frames"] = [_frame(f) for f in diagnosis.frames]
    return plain


def _frame(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line, "function": frame.function, "library": frame.library}


def _evidence(evidence: Evidence) -> dict[str, Any]:
    """Words and flags that rules test are published among the numbers: a reader wants both."""
    words = {k: Number(v) for k, v in evidence.facts.items() if isinstance(v, str | bool | int | float)}
    return {
        "id": evidence.id,
        "probe": evidence.probe,
        "kind": evidence.kind,
        "site": to_plain(evidence.site),
        "numbers": to_plain({**words, **evidence.numbers}),
    }


def parse(text: str) -> Report:
    """The report behind published JSON, or a UserError that says what is wrong with it."""
    try:
        data = json.loads(text, parse_constant=_refuse)
    except ValueError as why:
        raise UserError(f"this is not a numdebug report: {why}; make one with: numdebug diagnose FILE --format json") from None
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        version = data.get("schema_version") if isinstance(data, dict) else None
        raise UserError(
            f"this is not a numdebug report of schema version {SCHEMA_VERSION} (it says {version!r}); diagnose the program again."
        )
    try:
        return Report(
            program=from_plain(Program, data["program"]),
            environment=dict(data["environment"]),
            verdict=str(data["verdict"]),
            diagnoses=[from_plain(Diagnosis, d) for d in data["diagnoses"]],
            evidence=[from_plain(Evidence, e) for e in data["evidence"]],
            notes=[str(n) for n in data["notes"]],
            probes=[from_plain(ProbeRun, p) for p in data["probes"]],
            comparisons=[from_plain(Comparison, c) for c in data.get("comparisons", [])],
            excerpts=[from_plain(Excerpt, x) for x in data.get("excerpts", [])],
        )
    except (KeyError, TypeError, AttributeError, ValueError) as why:
        raise UserError(f"this numdebug report is damaged ({type(why).__name__}: {why}); diagnose the program again.") from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not strict JSON")


def place(site: Site | None) -> str:
    """`model.py:22:12`, as editors take it."""
    if site is None:
        return "(no place)"
    return f"{site.file}:{site.line}" + (f":{site.column}" if site.column else "")
