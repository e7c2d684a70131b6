"""The bug catalogue: one file for each bug, found by walking this folder."""

from __future__ import annotations

import pkgutil
from dataclasses import replace
from functools import cache
from importlib import import_module

from numdebug.catalogue._bug import Bug
from numdebug.catalogue._jax import PROGRAMS as JAX
from numdebug.catalogue._keras import PROGRAMS as KERAS
from numdebug.catalogue._numpy import PROGRAMS as NUMPY

__all__ = ["Bug", "bugs"]


@cache
def bugs() -> dict[str, Bug]:
    """Every entry by id, in the order of catalogue families."""
    found: list[Bug] = []
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            loaded = import_module(f"{__name__}.{module.name}")
            entry: Bug = loaded.bug
            found.append(_in_every_framework(entry.documented(loaded.__doc__ or "")))
    families = ("range", "gradient", "training", "precision", "difference")
    return {b.id: b for b in sorted(found, key=lambda b: (families.index(b.family), b.id))}


def _in_every_framework(bug: Bug) -> Bug:
    """With the programs of the frameworks whose examples have files of their own."""
    more = {name: programs[bug.id] for name, programs in (("jax", JAX), ("keras", KERAS), ("numpy", NUMPY)) if bug.id in programs}
    broken = {**bug.broken, **{name: pair[0] for name, pair in more.items()}}
    return replace(bug, broken=broken, fixed={**bug.fixed, **{name: pair[1] for name, pair in more.items()}})
