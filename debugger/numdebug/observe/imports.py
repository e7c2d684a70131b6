"""Run something right after the user's program has imported a module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _After(Loader):
    """The module's own loader, followed by a callback."""

    def __init__(self, loader: Any, done: Callable[[], None]) -> None:
        self.loader = loader
        self.done = done

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self.loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.done()


class _Finder(MetaPathFinder):
    """Stands first in sys.meta_path until its module is imported, then leaves."""

    def __init__(self, name: str, done: Callable[[], None]) -> None:
        self.name = name
        self.done = done

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        found = (finder.find_spec(fullname, path, target) for finder in sys.meta_path)  # others may wait for the same module
        spec = next((s for s in found if s is not None), None)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        spec.loader = _After(spec.loader, self.done)
        return spec


def when_imported(name: str, done: Callable[[], None]) -> None:
    """Call `done` after `import name` has run the module, or now if it is there already."""
    if name in sys.modules:
        done()
    else:
        sys.meta_path.insert(0, _Finder(name, done))
