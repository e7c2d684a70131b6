"""Finding the probes: every file in probes/, by discovery."""

from __future__ import annotations

import pkgutil
import traceback
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from numdebug.evidence import Evidence
from numdebug.run import Run


@cache
def probes() -> dict[str, ModuleType]:
    """Every probe module by name. Each has a docstring, QUESTION and measure(run)."""
    folder = import_module("numdebug.probes")
    names = sorted(m.name for m in pkgutil.iter_modules(folder.__path__))
    return {name: import_module(f"numdebug.probes.{name}") for name in names}


def asked(name: str, probe: ModuleType, run: Run, journal: Any) -> Iterator[Evidence]:
    """What a probe measures. Where it fails, the report says so, and the other questions are asked all the same."""
    try:
        yield from probe.measure(run)
    except Exception:
        journal.add("failure", where=f"asking the probe {name}", traceback=traceback.format_exc())
