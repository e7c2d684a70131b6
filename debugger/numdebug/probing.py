"""Finding the probes: every file in probes/, by discovery."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def probes() -> dict[str, ModuleType]:
    """Every probe module by name. Each has a docstring, QUESTION and measure(run)."""
    folder = import_module("numdebug.probes")
    names = sorted(m.name for m in pkgutil.iter_modules(folder.__path__))
    return {name: import_module(f"numdebug.probes.{name}") for name in names}
