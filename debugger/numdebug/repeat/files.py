"""The program's own files, as far as they were loaded, and places in them."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

from numdebug.fixes import scope, spelling
from numdebug.fixes.source import Refused, Source
from numdebug.recording import Site

OURS = Path(__file__).resolve().parent.parent


def loaded(main: Path) -> list[Source]:
    """The main file and what it imported from its folder, in this order."""
    folder = main.parent
    found = [main]
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or not file or not str(file).endswith(".py"):
            continue
        path = Path(file).resolve()
        elsewhere = any(part in ("site-packages", "dist-packages") for part in path.parts)
        installed = path.is_relative_to(sys.prefix) or path.is_relative_to(sys.base_prefix)
        if path.is_relative_to(folder) and path not in found and not (elsewhere or installed or path.is_relative_to(OURS)):
            found.append(path)
    sources = []
    for path in found:
        try:
            sources.append(Source(path, path.relative_to(folder).as_posix()))
        except (OSError, SyntaxError, ValueError, Refused):
            continue
    return sources


def site(source: Source, node: ast.expr | ast.stmt) -> Site:
    """Where a node stands."""
    end = node.end_col_offset + 1 if node.end_col_offset is not None else None
    return Site(source.name, node.lineno, node.col_offset + 1, node.end_lineno, end, function(source, node) or "<module>")


def function(source: Source, node: ast.AST) -> str | None:
    """The name of the function that a node stands in."""
    above = source.nearest(node, ast.FunctionDef) or source.nearest(node, ast.AsyncFunctionDef)
    return above.name if above is not None else None


def calls(source: Source) -> list[ast.Call]:
    """Every call, in the order of the text."""
    return sorted((n for n in source.walk() if isinstance(n, ast.Call)), key=lambda c: (c.lineno, c.col_offset))


def meaning(source: Source, node: ast.AST) -> str:
    """`np.random.rand` is numpy.random.rand, also where a function imports it; empty for what is no dotted name."""
    path = scope.dotted(node)
    if path is None:
        return ""
    root, dot, rest = path.partition(".")
    return _imported(source).get(root, root) + dot + rest


@cache
def _imported(source: Source) -> dict[str, str]:
    """What the names stand for that a file imports, at its top or inside its functions."""
    found: dict[str, str] = {}
    for node in source.walk():
        if isinstance(node, ast.Import):
            found.update({a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
    return found


def argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    """The argument at a position, or by one of these names."""
    if len(call.args) > position and not any(isinstance(a, ast.Starred) for a in call.args[: position + 1]):
        return call.args[position]
    return next((k.value for k in call.keywords if k.arg in names), None)


def after_imports(source: Source) -> ast.stmt | None:
    """The last import at the top of a file."""
    tops = [s for s in source.tree.body if isinstance(s, ast.Import | ast.ImportFrom)]
    return tops[-1] if tops else None


def builtin(source: Source, name: ast.AST, *wanted: str) -> bool:
    """Whether a name is a builtin function that the file has not given another meaning."""
    if not isinstance(name, ast.Name) or name.id not in wanted:
        return False
    return scope.home(source, name, name.id) is None and not any(i.name == name.id for i in spelling.imports(source))
