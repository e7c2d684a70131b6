"""From JAX's tracebacks to the user's lines, and to the library functions between such a line and a primitive."""

from __future__ import annotations

from types import CodeType, FrameType
from typing import Any

from numdebug.observe.frames import Frames, Place

Library = tuple[tuple[str, str], ...]  # (function, file), outer to inner

_PLUMBING = (
    "traceback_util.py", "api_util.py", "source_info_util.py", "_src/core.py", "pjit.py", "linear_util.py", "profiler.py", "tree_util.py",
    "partial_eval.py", "/jax/capture.py",
)  # fmt: skip

_RANDOM = ("/jax/_src/random/", "/jax/_src/random.py", "/jax/_src/nn/initializers.py", "/flax/linen/initializers.py")


def draws(file: str) -> bool:
    """Functions of this file draw random numbers."""
    path = file.replace("\\", "/")
    return any(part in path for part in _RANDOM)


class Sites:
    """Reads tracebacks, each once."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._known: dict[int, tuple[Any, tuple[Place, ...], Library]] = {}

    def of(self, traceback: Any) -> tuple[tuple[Place, ...], Library]:
        """The user's frames, inner to outer, and the library functions called by the innermost of them."""
        if traceback is None:
            return (), ()
        known = self._known.get(id(traceback))
        if known is None:
            codes, offsets = traceback.raw_frames()
            known = self._known[id(traceback)] = (traceback, *self._read(list(zip(codes, offsets, strict=True))))
        return known[1], known[2]

    def here(self, frame: FrameType | None) -> tuple[tuple[Place, ...], Library]:
        """The same for the running program."""
        found: list[Place] = []
        while frame is not None:
            found.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return self._read(found)

    def _read(self, places: list[Place]) -> tuple[tuple[Place, ...], Library]:
        user: list[Place] = []
        library: list[tuple[str, str]] = []
        for code, offset in places:
            kind = self._kind(code)
            if kind == 2:
                if user or library:
                    break
                continue
            if kind == 1:
                user.append((code, offset))
            elif not user and not code.co_filename.endswith(_PLUMBING):
                library.append((code.co_name, code.co_filename))
        return tuple(user), tuple(reversed(library))

    def _kind(self, code: CodeType) -> int:
        known = self.frames._user
        if code not in known:
            known[code] = self.frames._classify(code)
        return known[code]
