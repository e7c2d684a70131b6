"""Shared fixtures: the command line in a real process, and the published schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from forked import ARRAYS, NUMPY, forking

from numdebug.diagnosing import Outcome

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Said:
    """What one call of the command line gave back."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict:
        """stdout as a report."""
        return json.loads(self.out)


@pytest.fixture
def numdebug(tmp_path: Path) -> Callable[..., Said]:
    """`numdebug ARGS` in a process of its own, in `cwd` (a fresh folder)."""

    def call(*args: str, cwd: Path = tmp_path, timeout: float = 120, **env: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "numdebug", *map(str, args)],
            cwd=cwd,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))

    return call


@pytest.fixture(scope="session")
def diagnose() -> Iterator[Callable[..., Outcome]]:
    """Diagnose one PyTorch file without importing PyTorch again for it."""
    with forking() as diagnose:
        yield diagnose


@pytest.fixture(scope="session")
def diagnose_arrays() -> Iterator[Callable[..., Outcome]]:
    """The same for a file of JAX or Keras."""
    with forking(ARRAYS) as diagnose:
        yield diagnose


@pytest.fixture(scope="session")
def diagnose_numpy() -> Iterator[Callable[..., Outcome]]:
    """The same for a file of NumPy alone."""
    with forking(NUMPY) as diagnose:
        yield diagnose


@pytest.fixture(scope="session")
def diagnose_in(request: pytest.FixtureRequest) -> Callable[[str], Callable[..., Outcome]]:
    """`diagnose` for the programs of one framework."""
    names = {"torch": "diagnose", "numpy": "diagnose_numpy"}
    return lambda framework: request.getfixturevalue(names.get(framework, "diagnose_arrays"))


@pytest.fixture(scope="session")
def schema() -> jsonschema.Draft202012Validator:
    """The published schema of reports."""
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "report.schema.json").read_text()))
