"""Phrases about lost digits."""

from __future__ import annotations

from numdebug.evidence import Evidence


def wrong_by(e: Evidence) -> str:
    """... gives 0 where the same operations in float64 give 1.2e-05, in 3 of 4 elements, and it reaches std"""
    many = f" ({e['lost']} of {e['size']} elements are wrong by more than a tenth)" if e["size"] > 1 else ""
    return f"it gives {e['recorded']:.6g} where float64 gives {e['exact']:.6g}{many}, and this reaches {e['reaches']}"
