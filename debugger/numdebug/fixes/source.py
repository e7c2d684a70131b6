"""One source file as bytes and tree: where a node stands, what stands at a span, and text that can be put elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from numdebug.recording import Site

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_UTF8 = {b"utf-8", b"utf8", b"utf_8", b"us-ascii", b"ascii", b"utf-8-sig"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module
Node = TypeVar("Node", bound=ast.AST)


class Refused(Exception):
    """The edit cannot be written safely; the message says why."""


class Source:
    """A file. Offsets are bytes into `data`, which has no byte order mark."""

    def __init__(self, path: Path, name: str) -> None:
        raw = path.read_bytes()
        self.path = path
        self.name = name  # as the diff shows it
        self.bom = _BOM if raw.startswith(_BOM) else b""
        self.data = raw[len(self.bom) :]
        for line in self.data.splitlines()[:2]:
            cookie = _COOKIE.match(line)
            if cookie and cookie.group(1).lower() not in _UTF8:
                raise Refused(f"{name} is not UTF-8")
        self.data.decode("utf-8")
        self.tree = ast.parse(self.data)
        self._starts = [0, *(m.end() for m in _LINE_END.finditer(self.data))]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def newline(self) -> str:
        """The line ending that the file uses first."""
        found = _LINE_END.search(self.data)
        return found.group().decode() if found else "\n"

    @property
    def line_count(self) -> int:
        """The number of line starts."""
        return len(self._starts)

    def offset(self, line: int, column: int) -> int:
        """Byte offset of a 1-based line and 0-based column."""
        if not 1 <= line <= len(self._starts):
            raise Refused(f"{self.name} has no line {line}")
        return self._starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end offset of a node."""
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
        end_line, end_column = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        if line is None or column is None or end_line is None or end_column is None:
            raise Refused("a node without a place")
        return self.offset(line, column), self.offset(end_line, end_column)

    def text(self, node: ast.AST) -> str:
        """The node as written."""
        start, end = self.span(node)
        return self.data[start:end].decode("utf-8")

    def lines_of(self, node: ast.stmt) -> tuple[int, int]:
        """Offsets of the whole lines of a statement that shares them with no other code; refuses otherwise."""
        start, end = self.span(node)
        first = self._starts[node.lineno - 1]
        last_line = node.end_lineno or node.lineno
        last = self._starts[last_line] if last_line < len(self._starts) else len(self.data)
        before, after = self.data[first:start], self.data[end:last].strip()
        if before.strip() or (after and not after.startswith(b"#")):
            raise Refused("the statement shares its line with other code")
        return first, last

    def indent_of(self, node: ast.stmt) -> str:
        """The white space before a statement that begins its line; refuses otherwise."""
        start, _ = self.span(node)
        before = self.data[self._starts[node.lineno - 1] : start].decode("utf-8")
        if before.strip():
            raise Refused("the statement does not begin its line")
        return before

    # -- finding -------------------------------------------------------------------------------------------------

    def at(self, site: Site) -> list[ast.AST]:
        """Nodes with exactly this span, outermost first; expressions and statements."""
        if site.column is None or site.end_line is None or site.end_column is None:
            return []
        want = (site.line, site.column - 1, site.end_line, site.end_column - 1)
        return [n for n in self.walk() if _place(n) == want]

    def on_line(self, site: Site) -> list[ast.AST]:
        """Expressions and statements that begin on the site's line."""
        return [n for n in self.walk() if getattr(n, "lineno", None) == site.line]

    def walk(self) -> Iterator[ast.AST]:
        """All nodes that have a place."""
        return (n for n in ast.walk(self.tree) if isinstance(n, ast.expr | ast.stmt | ast.keyword | ast.arg))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The parent node, None for the module."""
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents, nearest first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds a node."""
        for above in (node, *self.ancestors(node)):
            if isinstance(above, ast.stmt):
                return above
        raise Refused("not inside a statement")

    def nearest(self, node: ast.AST, kinds: type[Node] | tuple[type[Node], ...]) -> Node | None:
        """The nearest ancestor of one of these kinds."""
        for above in self.ancestors(node):
            if isinstance(above, kinds):
                return above
        return None

    def inside(self, node: ast.AST, container: ast.AST) -> bool:
        """Whether `node` is `container` or below it."""
        return node is container or any(above is container for above in self.ancestors(node))


def _place(node: ast.AST) -> tuple[int | None, int | None, int | None, int | None]:
    return (
        getattr(node, "lineno", None),
        getattr(node, "col_offset", None),
        getattr(node, "end_lineno", None),
        getattr(node, "end_col_offset", None),
    )
