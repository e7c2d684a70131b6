"""How this file spells the modules of its framework, NumPy and math; an import is added where it has no name for one."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from numdebug.fixes import scope
from numdebug.fixes.job import Job
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.vocabulary import IMPORTS, NUMPY, TORCH, VOCABULARIES, Vocabulary

_OTHERS = {"jax", "flax", "equinox", "tensorflow", "keras", "mxnet", "paddle", "mlx"}


@dataclass(frozen=True)
class Imported:
    """One imported name: `name` stands for the dotted `what`."""

    name: str
    what: str


def imports(source: Source) -> list[Imported]:
    """Names that the module's top level imports."""
    found = []
    for node in scope.within(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append(Imported(alias.asname or alias.name.split(".")[0], alias.name if alias.asname else alias.name.split(".")[0]))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [Imported(a.asname or a.name, f"{node.module}.{a.name}") for a in node.names]
    return found


def name_of(source: Source, what: str) -> str | None:
    """The name that the file has for a module or function, imported at its top."""
    return next((i.name for i in imports(source) if i.what == what), None)


def module(job: Job, source: Source, what: str, at: ast.AST, alias: str | None = None) -> str:
    """How to write a module here: its name in the file, which is imported where it is missing."""
    name = name_of(source, what)
    if name is None:
        roots = {i.what.split(".")[0] for i in imports(source)}
        if what == "torch" and roots & _OTHERS and "torch" not in roots:
            raise Refused("not a torch program")
        name = alias or what
        if scope.bindings(source.tree, name):
            raise Refused(f"{name} means something else in {source.name}")
        _add_import(job, source, f"import {what} as {alias}" if alias else f"import {what}")
    home = scope.home(source, at, name)
    if home is not None and not isinstance(home, ast.Module):
        raise Refused(f"{name} means something else here")
    return name


def imported(source: Source, package: str) -> bool:
    """Whether the file imports a package, or a part of it, at its top."""
    return any(i.what.split(".")[0] == package for i in imports(source))


def framework(source: Source) -> Vocabulary:
    """The framework that the file is a program of; PyTorch where it imports none."""
    roots = {i.what.split(".")[0] for i in imports(source)}
    found = next((v for v in VOCABULARIES if v is not NUMPY and roots & set(v.packages)), None)
    if found is None and roots & _OTHERS:
        raise Refused("a framework that is not known")
    return found or (NUMPY if roots & set(NUMPY.packages) else TORCH)


def reached(job: Job, source: Source, what: str, at: ast.AST) -> str:
    """How to write a module here, by its own name or through a package that the file has a name for."""
    if what == "torch.nn.functional":
        return functional(job, source, at)
    parts = what.split(".")
    for length in range(len(parts), 0, -1):
        name = name_of(source, ".".join(parts[:length]))
        if name is not None:
            home = scope.home(source, at, name)
            if home is None or isinstance(home, ast.Module):
                return ".".join([name, *parts[length:]])
    if what in IMPORTS or len(parts) == 1:
        return module(job, source, what, at, IMPORTS.get(what))
    return ".".join([module(job, source, parts[0], at), *parts[1:]])


def torch(job: Job, source: Source, at: ast.AST) -> str:
    """How to write `torch` here."""
    return module(job, source, "torch", at)


def functional(job: Job, source: Source, at: ast.AST) -> str:
    """How to write `torch.nn.functional` here."""
    for what, suffix in (("torch.nn.functional", ""), ("torch.nn", ".functional")):
        name = name_of(source, what)
        if name is not None:
            home = scope.home(source, at, name)
            if home is None or isinstance(home, ast.Module):
                return name + suffix
    return f"{torch(job, source, at)}.nn.functional"


def means(source: Source, node: ast.AST) -> str | None:
    """A dotted name with its imported root spelled out: `F.softmax` is torch.nn.functional.softmax."""
    path = scope.dotted(node)
    if path is None:
        return None
    root, dot, rest = path.partition(".")
    for imported in imports(source):
        if imported.name == root:
            return imported.what + dot + rest
    return path


def _add_import(job: Job, source: Source, line: str) -> None:
    body = source.tree.body
    tops = [s for s in body if isinstance(s, ast.Import | ast.ImportFrom)]
    if tops:
        _, end = source.lines_of(tops[-1])
        if not source.data[:end].endswith((b"\n", b"\r")):
            raise Refused("no line to put an import after")
        job.put(source, end, end, f"{line}\n")
        return
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        _, end = source.lines_of(first)
        if not source.data[:end].endswith((b"\n", b"\r")):
            raise Refused("no line to put an import after")
        job.put(source, end, end, f"\n{line}\n")
        return
    if first is None:
        raise Refused("an empty file")
    start = source.span(first)[0]
    if getattr(first, "decorator_list", None):
        start = source.span(first.decorator_list[0])[0] - 1  # type: ignore[attr-defined]
    if source.offset(source.data[:start].count(b"\n") + 1, 0) != start:
        raise Refused("no line to put an import before")
    job.put(source, start, start, f"{line}\n\n")
