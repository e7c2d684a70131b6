"""The walls between the rooms: who may import whom, and what starting up may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "debugger" / "numdebug"
FRAMEWORKS = {"torch", "jax", "keras", "tensorflow", "openai"}
MODULES = [p for p in ENGINE.rglob("*.py") if "demo" not in p.parts]
PROBES = [p for p in (ROOT / "probes").glob("*.py") if p.name != "__init__.py"]
# The flow, in order: no later step is imported by an earlier one.
STEPS = [
    ["recording", "evidence", "formats"],
    ["graph", "births", "forms"],
    ["rules"],
    ["match"],
    ["confirm"],
    ["pipeline"],
    ["child"],
    ["cli"],
]


def imported(file: Path, anywhere: bool = True) -> Iterator[str]:
    """Names of modules that a file imports; not `anywhere`: at its top, where they load with it. Type checkers' imports do not count."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree) if anywhere else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("file", [f for f in [*MODULES, *PROBES] if "observe" not in f.parts], ids=names)
def test_frameworks_are_imported_by_the_observers_alone(file):
    assert not {name.split(".")[0] for name in imported(file, anywhere=False)} & FRAMEWORKS


@pytest.mark.parametrize("file", PROBES, ids=names)
def test_probes_know_no_framework_and_no_catalogue(file):
    ours = {name for name in imported(file) if name.startswith("numdebug.")}
    assert not {name.split(".")[0] for name in imported(file)} & FRAMEWORKS
    assert not [n for n in ours if n.startswith(("numdebug.observe", "numdebug.catalogue", "numdebug.rules", "numdebug.match"))]


@pytest.mark.parametrize("file", [f for f in MODULES if f.name not in ("probing.py", "diagnosing.py", "listing.py")], ids=names)
def test_probes_are_discovered_and_never_named(file):
    assert "numdebug.probes" not in file.read_text()


@pytest.mark.parametrize("file", list((ENGINE / "catalogue").glob("*.py")), ids=names)
def test_the_catalogue_knows_evidence_and_never_a_probe(file):
    ours = {name for name in imported(file) if name.startswith("numdebug.")}
    allowed = ("catalogue", "rules", "evidence", "formats", "recording", "report.model", "graph")
    assert all(name.startswith(tuple(f"numdebug.{room}" for room in allowed)) for name in ours), ours


@pytest.mark.parametrize("file", [f for f in (ENGINE / "report").glob("*.py") if f.name != "assemble.py"], ids=names)
def test_reports_know_the_report_alone(file):
    ours = {name for name in imported(file) if name.startswith("numdebug.")}
    allowed = ("report", "recording", "evidence", "plain", "errors", "__version__")
    assert all(name.startswith(tuple(f"numdebug.{room}" for room in allowed)) for name in ours), ours


def test_no_step_imports_a_later_one():
    order = {name: place for place, step in enumerate(STEPS) for name in step}
    for name, place in order.items():
        ours = {n.split(".")[1] for n in imported(ENGINE / f"{name}.py") if n.startswith("numdebug.")}
        assert not [other for other in ours if order.get(other, -1) > place], name


LIGHT = ["numdebug.cli", "numdebug.catalogue", "numdebug.match", "numdebug.fixes", "numdebug.probing", "numdebug.child", "numdebug.stable"]


@pytest.mark.parametrize("module", LIGHT)
def test_loading_imports_no_framework(module):
    code = f"import sys, {module}, numdebug.catalogue as c, numdebug.probing as p; c.bugs(); p.probes(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert not FRAMEWORKS & set(loaded)
