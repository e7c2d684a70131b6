"""Apply a unified diff to text in memory: a fix is tried before it is shown, and the user's files stay as they are."""

from __future__ import annotations

import re
from pathlib import Path

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


def patched(diff: str, folder: Path) -> dict[Path, str]:
    """New text by file. The diff is one of ours: whole files with exact line numbers, no renames."""
    texts: dict[Path, str] = {}
    path: Path | None = None
    source: list[str] = []
    out: list[str] = []
    at = 0
    for line in diff.splitlines(keepends=True):
        if line.startswith("--- "):
            _keep(texts, path, out, source, at)
            path = folder / line[4:].rstrip("\r\n").removeprefix("a/")
            with path.open(encoding="utf-8", newline="") as file:
                source = file.read().splitlines(keepends=True)
            out, at = [], 0
        elif (hunk := _HUNK.match(line)) is not None:
            start = int(hunk[1]) - (0 if hunk[2] == "0" else 1)
            out.extend(source[at:start])
            at = start
        elif line.startswith("+") and not line.startswith("+++ "):
            out.append(line[1:])
        elif line.startswith("-"):
            at += 1
        elif line.startswith(" "):
            out.append(source[at])
            at += 1
    _keep(texts, path, out, source, at)
    return texts


def _keep(texts: dict[Path, str], path: Path | None, out: list[str], source: list[str], at: int) -> None:
    if path is not None:
        texts[path] = "".join([*out, *source[at:]])
