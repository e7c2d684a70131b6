"""Roughly in which order a program makes its calls, read off its source: function bodies where they are first called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from numdebug.fixes.source import Source
from numdebug.repeat.files import calls, meaning

Call = tuple[Source, ast.Call, str]  # with the called name's imported root spelled out
_OWN_TIME = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def in_order(sources: Sequence[Source]) -> list[Call]:
    """Every call of the files once; what no call leads to (a method that the framework calls) comes last, in the order of the text."""
    reader = _Reader(sources)
    if sources:
        reader.body(sources[0], sources[0].tree.body)
    for source in sources:
        for node in calls(source):
            reader.note(source, node)
    return reader.found


class _Reader:
    def __init__(self, sources: Sequence[Source]) -> None:
        self.found: list[Call] = []
        self._seen: set[ast.AST] = set()
        self._files = {s.name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): s for s in sources}
        self._bodies: dict[str, list[tuple[Source, ast.AST]]] = {}
        for source in sources:
            for node in source.walk():
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    self._bodies.setdefault(node.name, []).append((source, node))

    def note(self, source: Source, call: ast.Call) -> None:
        if call not in self._seen:
            self._seen.add(call)
            self.found.append((source, call, meaning(source, call.func)))

    def body(self, source: Source, statements: Sequence[ast.stmt]) -> None:
        """Statements one after the other."""
        for statement in statements:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(statement)
            elif isinstance(statement, ast.ClassDef):
                self.body(source, statement.body)
            elif not isinstance(statement, _OWN_TIME):
                self._visit(source, statement)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        names = [a.name for a in statement.names]
        if isinstance(statement, ast.ImportFrom):
            base = statement.module or ""
            names = [base, *(f"{base}.{name}".strip(".") for name in names)]
        for name in names:
            file = self._files.get(name)
            if file is not None and file.tree not in self._seen:
                self._seen.add(file.tree)
                self.body(file, file.tree.body)

    def _visit(self, source: Source, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self.body(source, [child])
            elif not isinstance(child, _OWN_TIME):
                self._visit(source, child)
        if isinstance(node, ast.Call):
            self.note(source, node)
            for where, called in self._called(node):
                self._enter(where, called)

    def _called(self, call: ast.Call) -> Iterator[tuple[Source, ast.AST]]:
        name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
        several = self._bodies.get(name, [])
        yield from several[:1] if len(several) == 1 else []

    def _enter(self, source: Source, called: ast.AST) -> None:
        if isinstance(called, ast.ClassDef):
            made = next((s for s in called.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
            called = made if made is not None else called
        if called not in self._seen and isinstance(called, ast.FunctionDef | ast.AsyncFunctionDef):
            self._seen.add(called)
            self.body(source, called.body)
