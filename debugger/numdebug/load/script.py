"""Run the user's file as `python FILE` would: its own `__main__`, argv, sys.path and relative imports."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from numdebug.load.source import deepest_relative_import

Code = Callable[[str | bytes, str], CodeType]


def compiled(text: str | bytes, path: str) -> CodeType:
    """As Python does it."""
    return compile(text, path, "exec", dont_inherit=True)


class _Changed(MetaPathFinder):
    """Imports of files that a repair changes give the changed text."""

    def __init__(self, texts: Mapping[Path, str], code: Code) -> None:
        self.texts = {str(path): text for path, text in texts.items()}
        self.code = code

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if self.texts else None
        text = self.texts.get(str(Path(spec.origin).resolve())) if spec is not None and spec.origin else None
        if spec is None or spec.origin is None or text is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, text, self.code)
        return spec


class _Loader(SourceFileLoader):
    """Another text than the file's, which is never cached."""

    def __init__(self, fullname: str, path: str, text: str, code: Code) -> None:
        super().__init__(fullname, path)
        self.text = text
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return self.code(self.text, str(self.path))


@dataclass(frozen=True)
class Script:
    """The user's program, ready to run; `run` again gives a fresh `__main__`."""

    path: Path  # absolute
    given: str  # argv[0]
    args: tuple[str, ...] = ()
    code: Code = field(default=compiled)  # how the program's files are compiled
    texts: Mapping[Path, str] = field(default_factory=dict)  # by file: run this instead of what it holds (a repair that is being tried)
    name: str | None = None  # PATH:NAME was asked for: the file is loaded, its `__main__` guard is not entered

    def prepare(self) -> ModuleType:
        """A new, still empty module for the file, in place as `__main__`; argv and sys.path are set as Python sets them."""
        package = self._package()
        module = ModuleType("__main__")
        module.__file__ = str(self.path)
        module.__dict__["__builtins__"] = builtins
        module.__loader__ = SourceFileLoader("__main__", str(self.path))
        if package is None:
            module.__spec__ = None
            module.__package__ = None
            sys.path[0] = str(self.path.parent)
        else:  # as `python -m package.module` would: spawned workers find the module by this name
            parts, root = package
            spec = ModuleSpec(".".join([*parts, self.path.stem]), module.__loader__, origin=str(self.path))
            spec.has_location = True
            module.__spec__ = spec
            module.__package__ = ".".join(parts)
            sys.path[0] = str(root)
        if self.name is not None:
            module.__name__ = self.path.stem
            sys.modules.setdefault(self.path.stem, module)
        sys.modules["__main__"] = module
        sys.argv[:] = [self.given, *self.args]
        return module

    def execute(self, module: ModuleType) -> None:
        """Run the file's code in `module`; what it raises passes through."""
        code = self.code(self.texts.get(self.path) or self.path.read_bytes(), str(self.path))
        changed = _Changed(self.texts, self.code)
        sys.meta_path.insert(0, changed)
        try:
            exec(code, module.__dict__)
        finally:
            sys.meta_path.remove(changed)

    def run(self) -> ModuleType:
        """Prepare and execute once."""
        module = self.prepare()
        self.execute(module)
        return module

    def _package(self) -> tuple[list[str], Path] | None:
        """(package names, folder that holds the outermost one) for a file with relative imports, else None."""
        level = deepest_relative_import(self.path.read_text(encoding="utf-8", errors="replace"))
        if not level:
            return None
        parts: list[str] = []
        folder = self.path.parent
        while folder != folder.parent and (len(parts) < level or (folder / "__init__.py").is_file()):
            parts.insert(0, folder.name)
            folder = folder.parent
        return parts, folder
