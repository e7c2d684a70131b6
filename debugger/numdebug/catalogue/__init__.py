"""The bug catalogue: one file for each bug, found by walking this folder."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from numdebug.catalogue._bug import Bug

__all__ = ["Bug", "bugs"]


@cache
def bugs() -> dict[str, Bug]:
    """Every entry by id, in the order of catalogue families."""
    found: list[Bug] = []
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            loaded = import_module(f"{__name__}.{module.name}")
            entry: Bug = loaded.bug
            found.append(entry.documented(loaded.__doc__ or ""))
    families = ("range", "gradient", "training", "precision", "difference")
    return {b.id: b for b in sorted(found, key=lambda b: (families.index(b.family), b.id))}
