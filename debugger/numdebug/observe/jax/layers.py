"""Layers of Keras: the user's line that made each, for operations that no line of the program calls by name."""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

from numdebug.observe.frames import Frames, Place
from numdebug.observe.imports import when_imported
from numdebug.recording import Site

_PARTS = ("keras", "keras.src.ops.operation", "keras.src.layers.layer", "keras.src.models.model")


class Constructions:
    """Remembers where layers are made while Keras is in use. Their names are those of JAX's name scopes."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._made: list[tuple[weakref.ref[Any], tuple[Place, ...]]] = []
        self._original: Any = None
        self.ended = False
        when_imported("keras", self.attach)

    def attach(self) -> None:
        """From now on. Every layer passes through `Operation.__new__`, which takes whatever it is given."""
        if self.ended or self._original is not None:
            return
        operation = getattr(sys.modules.get("keras.src.ops.operation"), "Operation", None)
        if operation is None:  # Keras imports JAX while it is being imported itself: a later part of it
            later = next((name for name in _PARTS if name not in sys.modules), None)
            if later is not None:
                when_imported(later, self.attach)
            return
        original = self._original = operation.__new__

        @functools.wraps(original)
        def new(kind: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(kind, *args, **kwargs)
            if kind.__module__.startswith("keras."):
                self._made.append((weakref.ref(made), self.frames.places(sys._getframe(1))[0]))
            return made

        operation.__new__ = new

    def detach(self) -> None:
        """The program is over."""
        self.ended = True
        if self._original is not None:
            sys.modules["keras.src.ops.operation"].Operation.__new__ = self._original
            self._original = None

    def sites(self) -> dict[str, Site]:
        """By the name of a layer."""
        found: dict[str, Site] = {}
        for ref, places in self._made:
            site = self.frames.site(places)
            name = getattr(ref(), "name", None)
            if site is not None and isinstance(name, str):
                found[name] = site
        return found
