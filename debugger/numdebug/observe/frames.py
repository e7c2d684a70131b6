"""From the interpreter's stack to the user's line and column."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from numdebug.recording import Frame, Site

Place = tuple[CodeType, int]  # a code object and the offset of the instruction that is running in it


class Frames:
    """Tells the user's frames from a library's, and turns a Place into a Frame. Built once for one program."""

    made: Callable[[Any], tuple[Place, ...]] | None = None  # where a layer or loss of Keras was constructed

    def __init__(self, folder: Path, module_call: CodeType | None = None) -> None:
        self.folder = folder.resolve()
        self.module_call = module_call  # code of the framework's "call a module": its `self` names the module path
        self._user: dict[CodeType, int] = {}
        roots = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        roots.update(site.getsitepackages() if hasattr(site, "getsitepackages") else ())
        self._libraries = tuple(os.path.realpath(r) + os.sep for r in roots if r)
        self._own = str(Path(__file__).resolve().parents[1]) + os.sep

    def _classify(self, code: CodeType) -> int:
        """0 library, 1 the user's, 2 ours (the walk ends there), 3 a module call; `mark` gives the others."""
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

    def mark(self, code: CodeType, kind: int) -> None:
        """4: calls a layer, loss or optimizer of Keras, its `self`. 5: runs operations for their shapes alone. 6: stands in between."""
        self._user[code] = kind

    def kind(self, code: CodeType) -> int:
        """See _classify and mark."""
        known = self._user.get(code)
        if known is None:
            known = self._user[code] = self._classify(code)
        return known

    def places(self, frame: FrameType | None) -> tuple[tuple[Place, ...], Any]:
        """The user's frames, inner to outer, and the innermost framework module that is being called.

        Where a library calls a layer that it was given, no line of the program calls that layer: the line that constructed it comes first.
        """
        found: list[Place] = []
        module = None
        called = Called()
        user = self._user
        while frame is not None:
            code = frame.f_code
            kind = user.get(code)
            if kind is None:
                kind = user[code] = self._classify(code)
            if kind:
                if kind == 1:
                    found.append((code, frame.f_lasti))
                elif kind in (3, 4) and module is None:
                    module = frame.f_locals.get("self")
                elif kind == 2:
                    break
                elif kind == 5:
                    return (), SHAPES
            if called.state or kind == 4 and not found:
                called.see(kind)
            frame = frame.f_back
        if called.by_library and self.made is not None:
            return (*self.made(module)[:1], *found), module
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


SHAPES = object()  # in place of a module: what runs tells Keras the shape of a result, and is no part of the program's work


class Called:
    """Read frame by frame from an operation outwards: did the program call the innermost layer of Keras, or did a library?"""

    __slots__ = ("own", "state")

    def __init__(self) -> None:
        self.state = 0  # 0 before the call, 1 in it, 2 a library made it, 3 the program's line counts
        self.own = False

    def see(self, kind: int) -> None:
        """The next frame; the first one is the innermost call of a layer. Not to be asked before that."""
        if self.state == 0:
            self.state = 1
        elif self.state == 1 and kind not in (4, 6):
            self.state = 3 if kind == 1 else 2
        elif self.state == 2 and kind == 4 and self.own:
            self.state = 3  # inside a layer that the program wrote
        self.own = self.own or kind == 1

    @property
    def by_library(self) -> bool:
        """A library made the call."""
        return self.state == 2


def _position(code: CodeType, lasti: int) -> tuple[int, int | None, int | None, int | None]:
    for index, (line, end_line, column, end_column) in enumerate(code.co_positions()):
        if index == lasti // 2 and line is not None:
            return line, end_line, column, end_column
    return code.co_firstlineno, None, None, None
