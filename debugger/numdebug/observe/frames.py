"""From the interpreter's stack to the user's line and column."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from numdebug.recording import Frame, Site

Place = tuple[CodeType, int]  # a code object and the offset of the instruction that is running in it


class Frames:
    """Tells the user's frames from a library's, and turns a Place into a Frame. Built once for one program."""

    def __init__(self, folder: Path, module_call: CodeType | None = None) -> None:
        self.folder = folder.resolve()
        self.module_call = module_call  # code of the framework's "call a module": its `self` names the module path
        self._user: dict[CodeType, int] = {}
        roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        roots.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
        self._libraries = tuple(os.path.realpath(r) + os.sep for r in roots if r)
        self._own = str(Path(__file__).resolve().parents[1]) + os.sep

    def _classify(self, code: CodeType) -> int:
        """0 library, 1 the user's, 2 ours (the walk ends there), 3 a module call."""
        if code is self.module_call:
            return 3
        name = code.co_filename
        if name.startswith("<"):
            return 0
        path = os.path.realpath(name)
        if path.startswith(self._own) and os.sep + "demo" + os.sep not in path:
            return 2 if os.sep + "observe" + os.sep not in path else 0
        if path.startswith(self._libraries) or f"{os.sep}site-packages{os.sep}" in path:
            return 0
        return 1 if path.startswith(str(self.folder) + os.sep) or not self._is_system(path) else 0

    @staticmethod
    def _is_system(path: str) -> bool:
        here = os.getcwd() + os.sep  # noqa: PTH109  # called for every new frame: a string is enough
        return path.startswith(os.path.realpath(sys.base_prefix) + os.sep) and not path.startswith(here)

    def places(self, frame: FrameType | None) -> tuple[tuple[Place, ...], Any]:
        """The user's frames, inner to outer, and the innermost framework module that is being called."""
        found: list[Place] = []
        module = None
        user = self._user
        while frame is not None:
            code = frame.f_code
            kind = user.get(code)
            if kind is None:
                kind = user[code] = self._classify(code)
            if kind == 1:
                found.append((code, frame.f_lasti))
            elif kind == 3 and module is None:
                module = frame.f_locals.get("self")
            elif kind == 2:
                break
            frame = frame.f_back
        return tuple(found), module

    def name(self, filename: str) -> str:
        """The file as reports show it: relative to the program's folder where it lies below it."""
        path = Path(filename).resolve()
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)

    def frame(self, place: Place) -> Frame:
        """Line, column and function of a Place; columns are 1-based UTF-8 byte offsets, as Python reports them."""
        code, lasti = place
        line, end_line, column, end_column = _position(code, lasti)
        return Frame(
            file=self.name(code.co_filename),
            line=line,
            function=code.co_name,
            column=None if column is None else column + 1,
            end_line=end_line,
            end_column=None if end_column is None else end_column + 1,
        )

    def site(self, places: tuple[Place, ...], module: str | None = None, step: int | None = None) -> Site | None:
        """The innermost user frame as a Site."""
        if not places:
            return None
        f = self.frame(places[0])
        return Site(f.file, f.line, f.column, f.end_line, f.end_column, f.function, module, step)


def _position(code: CodeType, lasti: int) -> tuple[int, int | None, int | None, int | None]:
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if index == lasti // 2 and line is not None:
            return line, end_line, column, end_column
    return code.co_firstlineno, None, None, None
