"""Code that a fix suggests: it applies to the program, parses, touches what the finding is about, and does nothing besides."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator

from numdebug.explain.grounding.backing import Backing, changed_lines
from numdebug.explain.grounding.words import listed
from numdebug.report.model import Diagnosis

REACH = 3  # lines between a change and a line of the finding: the context of a diff
FOREIGN, HIDING = frozenset(listed("foreign")), frozenset(listed("hiding"))


def complaints(backing: Backing, source: Callable[[str], str | None]) -> Iterator[str]:
    """What is wrong with the patch of a claim."""
    patch = backing.claim.patch
    if patch is None:
        return
    if backing.claim.kind != "fix":
        yield "only a fix has a patch"
        return
    found = backing.diagnoses
    if any(d.fix is not None and d.fix.diff and same(d.fix.diff, patch) for d in found):
        return
    if not found:
        yield "the patch belongs to no finding"
        return
    yield from _shape(patch, found, backing, source)


def same(one: str, other: str) -> bool:
    """Whether two diffs change the same lines in the same way."""
    return _body(one) == _body(other) != []


def _body(diff: str) -> list[str]:
    kept = [line.rstrip() for line in diff.split("\n") if re.match(r"[-+](?!--|\+\+)", line)]
    return [line for line in kept if line.strip("+- \t")]


def _shape(patch: str, found: list[Diagnosis], backing: Backing, source: Callable[[str], str | None]) -> Iterator[str]:
    files = files_of(patch)
    if len(files) != 1 or not re.search(r"^@@ -\d+", patch, re.MULTILINE):
        yield "the patch is not a unified diff of one file"
        return
    own = {d.site.file for d in found if d.site is not None} | {
        f for d in found if d.fix and d.fix.diff for f in files_of(d.fix.diff)
    }
    if files[0] not in own:
        yield f"the patch changes {files[0]}, which the finding is not about"
        return
    added = [line[1:] for line in patch.split("\n") if line.startswith("+") and not line.startswith("+++")]
    removed = [line[1:] for line in patch.split("\n") if line.startswith("-") and not line.startswith("---")]
    if not any(line.strip() for line in added):
        yield "the patch only removes lines"
    allowed = " ".join(
        [*(d.fix.diff or "" for d in found if d.fix is not None), *(s for item in backing.items if item.kind == "page" for s in item.says)]
    )
    for word in dict.fromkeys(w for line in added for w in re.findall(r"[A-Za-z_]\w*", line)):
        if word in FOREIGN | HIDING and word not in re.findall(r"[A-Za-z_]\w*", allowed + " ".join(removed)):
            yield f"the patch brings in {word}"
    about = [item for item in backing.all if set(backing.all.owners(item.id)) & set(backing.owners)]
    places = {item.site.line for item in about if item.site is not None}
    yield from _applied(patch, files[0], found, source(files[0]), places)
    before = {w for line in removed for w in re.findall(r"[A-Za-z_]\w*", line)}
    kept = {w for line in added for w in re.findall(r"[A-Za-z_]\w*", line)} | {
        w
        for d in found
        if d.fix and d.fix.diff
        for line in d.fix.diff.split("\n")
        if line.startswith("-")
        for w in re.findall(r"[A-Za-z_]\w*", line)
    }
    if len(before - kept) > len(before) // 2:
        yield f"the patch drops {', '.join(sorted(before - kept)[:4])} from the computation"


def _applied(patch: str, file: str, found: list[Diagnosis], text: str | None, places: set[int]) -> Iterator[str]:
    if text is not None:
        try:
            after = applied(patch, text)
        except ValueError as why:
            yield f"the patch does not apply: {why}"
            return
        try:
            ast.parse(after)
        except SyntaxError as why:
            yield f"with the patch, line {why.lineno} of {file} does not parse"
        patch = "\n".join(difflib.unified_diff(text.split("\n"), after.split("\n"), lineterm=""))
    near = {n for d in found if d.fix is not None and d.fix.diff for n in changed_lines(tuple(d.fix.diff.split("\n")))}
    near |= places | {n for d in found if d.site is not None for n in range(d.site.line, (d.site.end_line or d.site.line) + 1)}
    touched = changed_lines(tuple(patch.split("\n")))
    if not touched or not all(any(abs(n - m) <= REACH for m in near) for n in touched):
        yield "the patch changes lines that the finding is not about"


def files_of(patch: str) -> list[str]:
    """The files that a diff changes."""
    return re.findall(r"^--- (?:a/)?(\S+)", patch, re.MULTILINE)


def applied(patch: str, text: str) -> str:
    """The text with a one-file diff applied; a hunk whose line number is off goes to the only place where its lines stand.

    Raises ValueError where the lines that it names are not there, or in several places.
    """
    lines = text.split("\n")
    shift = 0
    for start, old, new in _hunks(patch):
        at = _place(start + shift, old, lines)
        lines[at : at + len(old)] = new
        shift += len(new) - len(old)
    return "\n".join(lines)


def _hunks(patch: str) -> Iterator[tuple[int, list[str], list[str]]]:
    """(index of the first line, lines before, lines after) of each hunk."""
    for hunk in re.split(r"^(?=@@ -\d)", patch, flags=re.MULTILINE)[1:]:
        head, *body = hunk.rstrip("\n").split("\n")
        body = [line for line in body if not line.startswith("\\")]
        start = re.match(r"@@ -(\d+)", head)
        old = [line[1:] for line in body if not line.startswith("+")]
        new = [line[1:] for line in body if not line.startswith("-")]
        yield int(start[1]) - 1 if start else 0, old, new


def _place(start: int, old: list[str], lines: list[str]) -> int:
    def fits(at: int) -> bool:
        return [line.rstrip() for line in lines[at : at + len(old)]] == [line.rstrip() for line in old]

    if 0 <= start <= len(lines) and fits(start):
        return start
    places = [at for at in range(len(lines) - len(old) + 1) if fits(at)] if any(line.strip() for line in old) else []
    if len(places) != 1:
        raise ValueError(f"its lines stand in {len(places)} places of the file")
    return places[0]
