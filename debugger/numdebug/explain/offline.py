"""The explanation without a model: the report's facts in plain words."""

from __future__ import annotations

from numdebug.explain.claims import Claim
from numdebug.explain.items import RUN, Items


def explain(items: Items, language: str = "en") -> list[Claim]:
    """Claims in the order in which a person should read them."""
    out = []
    for number, d in enumerate(items.report.diagnoses, 1):
        out.append(Claim("cause", (f"D{number}",), (f"D{number}",), d.because))
        if d.fix is not None:
            out.append(Claim("fix", (f"D{number}.fix",), (f"D{number}.fix",), d.fix.summary, d.fix.diff))
    return [*out, Claim("evidence", (RUN,), (RUN,), items.report.verdict)]
