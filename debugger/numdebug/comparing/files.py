"""Two files of saved arrays, in the words of a report."""

from __future__ import annotations

import math

from numdebug.comparing.stored import Pair, Tables
from numdebug.formats import coarser
from numdebug.report.model import Comparison

MOST = 20
"""Arrays that a report shows, those that differ most first."""
_WORST_FIRST = ("shape", "real-difference", "dtype-mismatch", "reduced-precision", "rounding-difference", "flush-to-zero", "same-values")


def told(tables: Tables, first: str, second: str) -> tuple[list[Comparison], list[str]]:
    """(what differs, the worst first; sentences about the rest)."""
    apart = [p for p in tables.pairs if p.explanation != "identical"]
    apart.sort(key=lambda p: (_WORST_FIRST.index(p.explanation), -p.scaled))
    found = [_comparison(p, first, second) for p in apart[:MOST]]
    same = len(tables.pairs) - len(apart)
    notes = [f"{same} of {len(tables.pairs)} arrays are the same, bit for bit"] if apart else []
    if len(apart) > MOST:
        notes.append(f"{len(apart) - MOST} more arrays differ")
    notes += [f"only in {file}: {_list(names)}" for file, names in ((first, tables.first), (second, tables.second)) if names]
    stripped = zip((first, second), tables.stripped, strict=True)
    notes += [f"names in {file} were compared without {prefix!r} in front" for file, prefix in stripped if prefix]
    if not apart:
        size = sum(p.size for p in tables.pairs)
        form = coarser(d for p in tables.pairs for d in p.dtypes)
        same_bits = "every element is the same, bit for bit"
        every = f"{len(tables.pairs)} arrays"
        found.append(Comparison("arrays", first, second, "identical", True, False, same_bits, every, size, 0, 0.0, 0.0, form, 0.0, 0.0))
    return found, notes


def alone(tables: Tables, first: str, second: str) -> Comparison | None:
    """Arrays that one file has alone."""
    missing = len(tables.first) + len(tables.second)
    if not missing:
        return None
    words = f"{missing} arrays are in one file only ({_list((*tables.first, *tables.second))})"
    return Comparison(
        "arrays", first, second, "real-difference", False, False, words, "names", missing, missing, 0.0, 0.0, "", 0.0, math.inf
    )  # fmt: skip


def _comparison(p: Pair, first: str, second: str) -> Comparison:
    explanation = {
        "shape": "real-difference", "same-values": "identical", "reduced-precision": "dtype-mismatch",
    }.get(p.explanation, p.explanation)  # fmt: skip
    return Comparison(
        "arrays", first, second, explanation, p.explained, False, _because(p, first, second), p.name, p.size,
        p.differing if p.explanation != "shape" else p.size, p.largest, p.scaled, coarser(p.dtypes), 0.0, 0.0 if p.explained else math.inf,
    )  # fmt: skip


def _because(p: Pair, first: str, second: str) -> str:
    if p.explanation == "shape":
        return f"the shapes are {p.shapes[0]} and {p.shapes[1]}" + (f": {p.hint}" if p.hint else "")
    if p.explanation == "same-values":
        return f"the same values, stored as {p.dtypes[0]} and {p.dtypes[1]}"
    if p.rounded:
        which = first if p.rounded == "first" else second
        return f"in {which} it is what rounding to {p.format} makes of the other"
    if p.explanation == "rounding-difference":
        return "within the tolerance asked for"
    if p.explanation == "flush-to-zero":
        return "every differing element is subnormal on one side and 0 on the other"
    if p.non_finite:
        return f"{p.non_finite} elements are finite on one side only"
    worst = f"the largest at {list(p.at)}: {p.a:.9g} against {p.b:.9g}, {p.ulps:.3g} gaps of the format there"
    return f"{worst}; {p.hint}" if p.hint else worst


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
