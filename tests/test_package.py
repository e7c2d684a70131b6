"""The package: a wheel holds what the checkout shows, and the README says what is run."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def names_in(folder: Path, suffix: str) -> set[str]:
    return {p.name for p in folder.glob(f"*{suffix}") if p.name != "__init__.py"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel's content, unpacked."""
    built = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)], cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        archive.extractall(built / "content")
    return built / "content"


def test_the_wheel_lists_the_same_probes_bugs_and_prompts(wheel):
    assert names_in(wheel / "numdebug" / "probes", ".py") == names_in(ROOT / "probes", ".py")
    assert names_in(wheel / "numdebug" / "prompts", ".md") == names_in(ROOT / "prompts", ".md")
    code = (
        "import numdebug, sys\nfrom numdebug.diagnosing import probe_names, families\nfrom numdebug.prompting import template\n"
        "print(numdebug.__file__); print(*probe_names()); print(*sorted(families())); print(len(template()))"
    )

    def say(place: Path) -> list[str]:
        start = f"import sys; sys.path.insert(0, {str(place)!r})\n"
        return subprocess.run(
            [sys.executable, "-c", start + code], capture_output=True, text=True, check=True, cwd=wheel
        ).stdout.splitlines()

    installed, checkout = say(wheel), say(ROOT / "debugger")
    assert installed[0].startswith(str(wheel))
    assert installed[1:] == checkout[1:]
    assert (wheel / "numdebug" / "py.typed").exists()
    assert (wheel / "numdebug" / "demo" / "train_classifier.py").exists()


def test_the_two_commands_of_the_readme():
    commands = re.findall(r"^\$ (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install -c tests/constraints.txt -e '.[torch]' && .venv/bin/numdebug demo",
        "python3 -m venv .venv && .venv/bin/pip install -c tests/constraints.txt -e '.[all,test]' && .venv/bin/pytest",
    ]


def test_constraints_pin_everything():
    lines = [line for line in (ROOT / "tests" / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[^ ]+", line) for line in lines)
    assert "torch==2.13.0" in lines
