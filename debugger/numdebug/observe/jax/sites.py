"""From JAX's tracebacks to the user's lines, and to the library functions between such a line and a primitive."""

from __future__ import annotations

from types import FrameType
from typing import Any

from jax._src.source_info_util import Scope, Transform

from numdebug.observe.frames import Called, Frames, Place

Library = tuple[tuple[str, str], ...]  # (function, file), outer to inner

_PLUMBING = (
    "traceback_util.py", "api_util.py", "source_info_util.py", "_src/core.py", "pjit.py", "linear_util.py", "profiler.py", "tree_util.py",
    "partial_eval.py", "/jax/capture.py",
)  # fmt: skip

_RANDOM = ("/jax/_src/random/", "/jax/_src/random.py", "/jax/_src/nn/initializers.py", "/flax/linen/initializers.py")


def transforms(name_stack: Any) -> set[str]:
    """What JAX made an equation by: jvp, transpose, vmap. A scope that the program names so is not among them."""
    return {e.name for e in name_stack.stack if isinstance(e, Transform)}


def scopes(name_stack: Any) -> tuple[str, ...]:
    """Names that stand in the program or in a library: layers of Flax and Keras."""
    return tuple(e.name for e in name_stack.stack if isinstance(e, Scope))


def draws(file: str) -> bool:
    """Functions of this file draw random numbers."""
    path = file.replace("\\", "/")
    return any(part in path for part in _RANDOM)


class Sites:
    """Reads tracebacks, each once."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.layers: Any = None  # of Keras, where the program uses it
        self._known: dict[int, tuple[Any, tuple[Place, ...], Library, bool]] = {}

    def of(self, traceback: Any, scope: tuple[str, ...] = ()) -> tuple[tuple[Place, ...], Library]:
        """The user's frames, inner to outer, and the library functions called by the innermost of them.

        Where a library calls a layer of Keras that it was given, the line that constructed the layer comes first.
        """
        if traceback is None:
            return (), ()
        known = self._known.get(id(traceback))
        if known is None:
            codes, offsets = traceback.raw_frames()
            known = self._known[id(traceback)] = (traceback, *self._read(list(zip(codes, offsets, strict=True))))
        _, places, library, given = known
        return self._constructed(places, scope) if given else places, library

    def here(self, frame: FrameType | None, scope: tuple[str, ...] = ()) -> tuple[tuple[Place, ...], Library]:
        """The same for the running program."""
        found: list[Place] = []
        while frame is not None:
            found.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        places, library, given = self._read(found)
        return self._constructed(places, scope) if given else places, library

    def _constructed(self, places: tuple[Place, ...], scope: tuple[str, ...]) -> tuple[Place, ...]:
        return (*self.made(scope)[:1], *places)

    def made(self, scope: tuple[str, ...]) -> tuple[Place, ...]:
        """Where the innermost layer of Keras among these scopes was constructed."""
        layer = self.layers.named(scope) if self.layers is not None and scope else None
        places: tuple[Place, ...] = self.layers.places(layer) if layer is not None else ()
        return places

    def _read(self, places: list[Place]) -> tuple[tuple[Place, ...], Library, bool]:
        user: list[Place] = []
        library: list[tuple[str, str]] = []
        called = Called()
        for code, offset in places:
            kind = self.frames.kind(code)
            if kind == 2:
                if user or library:
                    break
                continue
            if called.state or kind == 4 and not user:
                called.see(kind)
            if kind == 1:
                user.append((code, offset))
            elif not user and not code.co_filename.endswith(_PLUMBING):
                called_ = code.co_qualname if code.co_name in ("__call__", "call") else code.co_name  # of which layer
                library.append((called_, code.co_filename))
        return tuple(user), tuple(reversed(library)), called.by_library
