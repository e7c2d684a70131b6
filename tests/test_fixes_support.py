"""What the tests of the fixes share: spans as a real run has them, and a diff applied by git."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numdebug.fixes import build, write_diff
from numdebug.recording import Site
from numdebug.report.model import Repair

ALIASES = {"_softmax": "softmax", "_log_softmax": "log_softmax", "mm": "matmul", "bmm": "matmul"}


class _Spans(TorchDispatchMode):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.seen: list[tuple[str, Site]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != str(self.path):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None:
            positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
            name = func.overloadpacket.__name__.rstrip("_")
            line, end_line, column, end_column = positions
            assert line and end_line and column is not None and end_column is not None
            site = Site(self.path.name, line, column + 1, end_line, end_column + 1, frame.f_code.co_name)
            self.seen.append((ALIASES.get(name, name), site))
        return func(*args, **(kwargs or {}))


def run(path: Path) -> dict[str, Any]:
    """The module's names after running it."""
    space: dict[str, Any] = {"__name__": "__main__"}
    torch.manual_seed(0)
    exec(compile(path.read_bytes(), str(path), "exec"), space)
    return space


def spans(path: Path) -> list[tuple[str, Site]]:
    """Each recorded operation of a run with the span of its expression, each once."""
    with _Spans(path) as mode:
        run(path)
    return list(dict.fromkeys(mode.seen))


def span_of(code: str, text: str, nth: int = 0, file: str = "model.py") -> Site:
    """The span of the nth expression or statement that reads like this."""
    tree = ast.parse(code)
    found = [
        n for n in ast.walk(tree)
        if isinstance(n, ast.expr | ast.stmt) and ast.get_source_segment(code, n) == text
    ]
    found.sort(key=lambda n: (n.lineno, n.col_offset))
    n = found[nth]
    return Site(file, n.lineno, n.col_offset + 1, n.end_lineno, (n.end_col_offset or 0) + 1)


def apply(diff: str, folder: Path) -> None:
    """Apply a diff as a user would."""
    patch = folder / "fix.patch"
    patch.write_bytes(diff.encode())
    done = subprocess.run(["git", "apply", "--whitespace=nowarn", patch.name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + diff
    patch.unlink()


class Case:
    """A snippet in a folder of its own, and the repair of it."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = folder
        self.path = folder / "model.py"
        self.path.write_bytes(code.encode())
        self.code = code

    def op(self, name: str, nth: int = 0) -> Site:
        """The span of the nth distinct recorded span of an operation."""
        return [site for op, site in spans(self.path) if op == name][nth]

    def repair(self, form: str, numbers: dict[str, Any] | None = None, **roles: str | Site | tuple[str, int]) -> Repair:
        """Roles name an operation ("log", or ("log", 1) for the second), or are spans, or quote the source."""
        sites = {}
        for role, what in roles.items():
            if isinstance(what, Site):
                sites[role] = what
            elif isinstance(what, tuple):
                sites[role] = self.op(*what)
            elif what.isidentifier() and what not in self.code.replace("(", " ( ").split("\n"):
                sites[role] = self.op(what)
            else:
                sites[role] = span_of(self.code, what)
        return Repair(form, "rewrite", form, sites, numbers=numbers or {})

    def refused(self, repair: Repair) -> bool:
        """Whether no diff is written."""
        return write_diff(repair, self.folder) is None

    def fixed(self, repair: Repair) -> str:
        """The source after the diff; checks that git applies it and that what `write_diff` says is the same."""
        diff = build(repair, self.folder)
        assert diff == write_diff(repair, self.folder)
        apply(diff, self.folder)
        new = self.path.read_bytes().decode()
        compile(new, "model.py", "exec")
        self.path.write_bytes(self.code.encode())
        return new

    def both(self, repair: Repair, name: str = "out") -> tuple[torch.Tensor, torch.Tensor]:
        """The value of a module-level name before and after."""
        before = run(self.path)[name]
        new = self.fixed(repair)
        (self.folder / "fixed.py").write_bytes(new.encode())
        return before, run(self.folder / "fixed.py")[name]


Make = Callable[[str], Case]
