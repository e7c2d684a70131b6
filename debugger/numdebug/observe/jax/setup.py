"""What a program sets up, read off its source: the line of its optimizer's constructor, and of what each module-level name holds."""

from __future__ import annotations

import ast
from pathlib import Path

from numdebug.optimizers import OPTAX
from numdebug.recording import Site

_MADE = OPTAX | {"ftrl", "muon"}  # and, in capitals, those of Keras
CLIPS = frozenset({"clip"})  # by value, of optax
_HOMES = ("optax", "keras")


def made_in(file: Path, name: str, names: frozenset[str] = _MADE) -> Site | None:
    """The only call in a file that makes an optimizer (or one of the transformations in `names`), else None."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    roots = dict(_imports(tree))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and _makes(n.func, roots, names)]
    if len(calls) != 1:
        return None
    call = calls[0]
    end = call.end_col_offset
    return Site(name, call.lineno, call.col_offset + 1, call.end_lineno, None if end is None else end + 1)


def _imports(tree: ast.Module) -> list[tuple[str, str]]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(a.asname or a.name.split(".")[0], a.name if a.asname else a.name.split(".")[0]) for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(a.asname or a.name, f"{node.module}.{a.name}") for a in node.names]
    return [(name, what) for name, what in found if what.split(".")[0] in _HOMES]


def _makes(func: ast.expr, roots: dict[str, str], names: frozenset[str]) -> bool:
    last = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    while isinstance(func, ast.Attribute):
        func = func.value
    known = isinstance(func, ast.Name) and func.id in roots
    real = roots[func.id].rpartition(".")[2] if isinstance(func, ast.Name) and func.id in roots and func.id == last else last
    return known and real.lower() in names


def bindings(file: Path, name: str) -> dict[str, Site]:
    """By module-level name: the (last) statement that gives it a value."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, Site] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        value = getattr(node, "value", None)
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and value is not None:
                    end = value.end_col_offset
                    found[part.id] = Site(name, value.lineno, value.col_offset + 1, value.end_lineno, None if end is None else end + 1)
    return found
