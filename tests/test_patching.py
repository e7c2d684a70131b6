"""A diff of ours, applied in memory, gives the text that it was made from; git agrees."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numdebug.patching import lines, patched

program = st.text(st.sampled_from("ab-+ @\\\t\f\r\n\n\n\u2028"), max_size=40)


def diff(old: str, new: str, file: str = "model.py") -> str:
    parts = difflib.unified_diff(lines(old), lines(new), f"a/{file}", f"b/{file}")
    return "".join(part if part.endswith("\n") else f"{part}\n\\ No newline at end of file\n" for part in parts)


@given(program, program)
def test_round_trip(tmp_path_factory, old, new):
    folder = tmp_path_factory.mktemp("program")
    (folder / "model.py").write_text(old, encoding="utf-8", newline="")
    wanted = {} if old == new else {folder / "model.py": new}
    assert patched(diff(old, new), folder) == wanted


CHANGES = {
    "at the top": ("a\nb\nc\n", "import x\na\nb\nc\n"),
    "at the end": ("a\nb\nc\n", "a\nb\nc\nd\n"),
    "far apart": ("".join(f"{n}\n" for n in range(40)), "".join(f"{n if n not in (3, 30) else -n}\n" for n in range(40))),
    "removed": ("a\nb\nc\n", "a\nc\n"),
    "like a header": ("-- a\n++ b\n", "-- a\n++ c\n"),
    "Windows lines": ("a\r\nb\r\n", "a\r\nc\r\n"),
    "form feed": ("a\n\f\nb\nc\n", "a\n\f\nb\nd\n"),
    "no newline at the end": ("a\nb", "a\nc"),
    "byte order mark": ("\ufeffa\nb\n", "\ufeffa\nc\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_git_agrees(change, tmp_path: Path):
    old, new = CHANGES[change]
    file = tmp_path / "model.py"
    file.write_text(old, encoding="utf-8", newline="")
    text = diff(old, new)
    assert patched(text, tmp_path) == {file: new}
    assert file.read_bytes() == old.encode()  # nothing was written
    subprocess.run(["git", "apply", "-"], input=text.encode(), cwd=tmp_path, check=True)
    assert file.read_bytes() == new.encode()


def test_several_files(tmp_path: Path):
    for name in ("a.py", "b c.py"):
        (tmp_path / name).write_text("x\n")
    both = patched(diff("x\n", "y\n", "a.py") + diff("x\n", "z\n", "b c.py\t"), tmp_path)
    assert both == {tmp_path / "a.py": "y\n", tmp_path / "b c.py": "z\n"}
