"""Apply a unified diff to text in memory: a fix is tried before it is shown, and the user's files stay as they are."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def patched(diff: str, folder: Path) -> dict[Path, str]:
    """New text by file. The diff is one of ours: whole files with exact line numbers, no renames."""
    texts: dict[Path, str] = {}
    path: Path | None = None
    source: list[str] = []
    out: list[str] = []
    at = 0
    old = new = 0  # lines that the hunk still has: a removed "-- x" looks like the header of a file
    added = False
    for line in lines(diff):
        if not old and not new and line.startswith("--- "):
            _keep(texts, path, out, source, at)
            path = folder / line[4:].rstrip("\r\n\t").removeprefix("a/")
            with path.open(encoding="utf-8", newline="") as file:
                source = lines(file.read())
            out, at = [], 0
        elif (hunk := _HUNK.match(line)) is not None:
            start = int(hunk[1]) - (0 if hunk[2] == "0" else 1)
            out.extend(source[at:start])
            at, old, new = start, int(hunk[2] or 1), int(hunk[3] or 1)
        elif new and line.startswith("+"):
            out.append(line[1:])
            new -= 1
            added = True
        elif old and line.startswith("-"):
            at, old, added = at + 1, old - 1, False
        elif line.startswith(" "):
            out.append(source[at])
            at, old, new, added = at + 1, old - 1, new - 1, False
        elif line.startswith("\\") and added:  # No newline at end of file
            out[-1] = out[-1].removesuffix("\n")
    _keep(texts, path, out, source, at)
    return texts


def lines(text: str) -> list[str]:
    """As git counts them: only a line feed ends one."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def unified(name: str, before: str, after: str) -> str:
    """What changes a file's text into another one, with exact line numbers; empty where nothing changes."""
    tab = "\t" if " " in name else ""
    found = difflib.unified_diff(lines(before), lines(after), f"a/{name}{tab}", f"b/{name}{tab}", lineterm="\n")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in found)


def _keep(texts: dict[Path, str], path: Path | None, out: list[str], source: list[str], at: int) -> None:
    if path is not None:
        texts[path] = "".join([*out, *source[at:]])
