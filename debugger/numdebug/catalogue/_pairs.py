"""A broken program and its fixed twin, written down once: the broken one, and what to change in it."""

from __future__ import annotations

Pair = tuple[str, str]


def pair(broken: str, *changes: tuple[str, str]) -> Pair:
    """The program, and the program with each text replaced by another; the mark of the culprit goes."""
    fixed = broken
    for old, new in changes:
        if fixed.count(old) != 1:
            raise ValueError(f"{old!r} stands {fixed.count(old)} times in the program")
        fixed = fixed.replace(old, new)
    return broken, fixed.replace("  # here", "")
