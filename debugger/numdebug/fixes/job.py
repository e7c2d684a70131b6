"""One repair on its way into the source: the edits by file, the names they need, and the diff at the end."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from numdebug.fixes import scope
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.wording import fit, level_in, number
from numdebug.patching import unified
from numdebug.recording import Site
from numdebug.report.model import Repair

Node = TypeVar("Node", bound=ast.AST)
Writer = Callable[["Job"], None]
FORMS: dict[str, Writer] = {}
"""Writers by `Repair.form`; each module of this package adds its own through `form`."""


def form(*names: str) -> Callable[[Writer], Writer]:
    """Register a writer for these forms."""

    def add(writer: Writer) -> Writer:
        FORMS.update(dict.fromkeys(names, writer))
        return writer

    return add


class Job:
    """What writers work with. An edit is asked for here; any doubt raises `Refused`."""

    def __init__(self, repair: Repair, folder: Path) -> None:
        self.repair = repair
        self.folder = folder.resolve()
        self.sources: dict[Path, Source] = {}
        self.edits: dict[Source, list[tuple[int, int, str]]] = {}
        self.mark = ""
        self.removed: set[ast.stmt] = set()
        self.kept: set[ast.stmt] = set()  # rewritten, so not to be removed

    def beside(self, repair: Repair) -> Job:
        """The job of another repair that goes into the same diff."""
        other = Job(repair, self.folder)
        other.sources, other.edits, other.removed, other.kept = self.sources, self.edits, self.removed, self.kept
        return other

    # -- what the repair says ------------------------------------------------------------------------------------

    def targets(self) -> list[str]:
        """The roles target, target2, ... in order."""
        found = [r for r in self.repair.sites if re.fullmatch(r"target\d*", r)]
        if not found:
            raise Refused("no target")
        return sorted(found, key=lambda r: int(r[6:] or 1))

    def each(self) -> Iterator[str]:
        """The target roles in turn; meanwhile `get` prefers the numbers of that target (dim2 with target2)."""
        for role in self.targets():
            self.mark = role[6:]
            yield role
        self.mark = ""

    def role(self, name: str, target: str) -> str | None:
        """The role that belongs to a target: softmax2 with target2, else softmax."""
        for role in (name + target[6:], name):
            if role in self.repair.sites:
                return role
        return None

    def get(self, name: str, default: Any = None) -> Any:
        """A number of the repair."""
        value = self.repair.numbers.get(name + self.mark)
        value = self.repair.numbers.get(name) if value is None else value
        value = default if value is None else value
        return getattr(value, "value", value)

    def literal(self, name: str) -> str | None:
        """A number of the repair as source text; None where it has none."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{name} is not a number")
        return number(value)

    # -- where things are ----------------------------------------------------------------------------------------

    def source(self, site: Site) -> Source:
        """The file of a site, which must lie in the folder."""
        path = Path(site.file)
        path = (path if path.is_absolute() else self.folder / path).resolve()
        if path not in self.sources:
            if not path.is_relative_to(self.folder):
                raise Refused("the file lies outside of the folder")
            self.sources[path] = Source(path, path.relative_to(self.folder).as_posix())
        return self.sources[path]

    def find(
        self, role: str, kinds: type[Node] | tuple[type[Node], ...], accept: Callable[[Node], bool] = lambda _: True
    ) -> tuple[Source, Node]:
        """The node of a role: the one at its span, else the only acceptable one below it, else the only one on its line."""
        site = self.repair.sites[role]
        source = self.source(site)
        exact = source.at(site)
        below = [n for top in exact[:1] for n in ast.walk(top)]
        line = [] if site.column is not None and exact else source.on_line(site)
        for group in (exact, below, line):
            good = list(dict.fromkeys(n for n in group if isinstance(n, kinds) and accept(n)))
            if len(good) == 1:
                return source, good[0]
            if good:
                raise Refused(f"several expressions could be meant by {role}")
        raise Refused(f"what stands at {role} is not what was expected")

    def maybe(self, role: str | None, kinds: type[Node]) -> Node | None:
        """The node at exactly the span of a role, or None."""
        if role is None or role not in self.repair.sites:
            return None
        site = self.repair.sites[role]
        return next((n for n in self.source(site).at(site) if isinstance(n, kinds)), None)

    # -- edits ---------------------------------------------------------------------------------------------------

    def put(self, source: Source, start: int, end: int, text: str) -> None:
        """Replace bytes by text."""
        text = re.sub(r"\r\n|\r|\n", lambda _: source.newline, text)
        edits = self.edits.setdefault(source, [])
        if (start, end, text) not in edits:
            edits.append((start, end, text))

    def replace(self, source: Source, node: ast.expr, text: str) -> None:
        """Put an expression in the place of another, in parentheses where needed."""
        start, end = source.span(node)
        parent = source.parent(node)
        before, after = source.data[:start].rstrip(), source.data[end:].lstrip()
        enclosed = before.endswith(b"(") and after.startswith(b")")
        if enclosed and not (isinstance(parent, ast.Call) and parent.func is not node):
            plain = fit(text, level_in(parent, node))
            if plain == text and b"#" not in source.data[len(before) : start]:  # the parentheses are no longer needed
                inner_break = "\n" in text and not _single(text)
                name_before = source.data[: len(before) - 1][-1:]
                if not inner_break and not (name_before.isalnum() or name_before in (b"_", b")", b"]")):
                    self.put(source, len(before) - 1, end + len(source.data[end:]) - len(after) + 1, text)
                    return
            self.put(source, start, end, text)
            return
        self.put(source, start, end, fit(text, level_in(parent, node)))

    def before(self, source: Source, statement: ast.stmt, line: str) -> None:
        """A line of its own before a statement."""
        indent = source.indent_of(statement)
        start = source.span(statement)[0]
        self.put(source, start, start, f"{line}\n{indent}")

    def after(self, source: Source, statement: ast.stmt, line: str) -> None:
        """A line of its own after a simple statement."""
        indent = source.indent_of(statement)
        _, end = source.lines_of(statement)
        at_end = not source.data[:end].endswith((b"\n", b"\r"))
        self.put(source, end, end, f"\n{indent}{line}" if at_end else f"{indent}{line}\n")

    def drop(self, source: Source, statement: ast.stmt) -> None:
        """Take a statement's lines away; refuses where its block would be left empty."""
        _, block = scope.block_of(source, statement)
        if all(s in self.removed or s is statement for s in block):
            raise Refused("the block would be empty")
        start, end = source.lines_of(statement)
        self.removed.add(statement)
        self.put(source, start, end, "")

    def drop_unused(self, source: Source, definitions: list[scope.Definition]) -> None:
        """Take away assignments whose name nothing reads any more; keep those that cannot go."""
        for definition in sorted(definitions, key=lambda d: source.span(d.statement), reverse=True):
            if definition.statement in self.removed | self.kept or not definition.simple or self._still_used(source, definition):
                continue
            try:
                self.drop(source, definition.statement)
            except Refused:
                continue

    def _still_used(self, source: Source, definition: scope.Definition) -> bool:
        spans = [(start, end) for start, end, _ in self.edits.get(source, [])]
        for use in scope.uses(source, definition):
            at = source.span(use)
            if not any(start <= at[0] and at[1] <= end for start, end in spans):
                return True
        return any(_reads(text, definition.name.rpartition(".")[2]) for _, _, text in self.edits.get(source, []))

    # -- the result ----------------------------------------------------------------------------------------------

    def diff(self) -> str:
        """The edits as a unified diff; the new text is compiled first."""
        parts = [part for source in sorted(self.edits, key=lambda s: s.name) for part in _file_diff(source, self.edits[source])]
        if not parts:
            raise Refused("nothing to change")
        return "".join(parts)


def _reads(text: str, name: str) -> bool:
    """Whether text that is put into the file may read a name."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return re.search(rf"\b{re.escape(name)}\b", text) is not None
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) or isinstance(n, ast.Attribute) and n.attr == name
        for n in ast.walk(tree)
    )


def _single(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _joined(source: Source, edits: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """A dropped statement takes the edits inside it along, but for a line that was put before it."""
    dropped = [e for e in edits if not e[2] and e[0] < e[1]]
    joined = list(edits)
    for drop in dropped:
        inside = [e for e in edits if e is not drop and drop[0] <= e[0] and e[1] <= drop[1]]
        if not inside:
            continue
        kept = "".join(text for start, end, text in inside if start == end and text.rstrip(" ").endswith("\n"))
        indent = source.data[drop[0] : min(e[0] for e in inside)].decode("utf-8", "surrogateescape") if kept else ""
        joined = [e for e in joined if e is not drop and e not in inside]
        joined.append((drop[0], drop[1], indent + kept.rstrip(" ")))
    return joined


def changed(source: Source, edits: list[tuple[int, int, str]]) -> bytes:
    """The file with its edits; refuses edits that overlap."""
    out: list[bytes] = []
    at = 0
    for start, end, text in sorted(_joined(source, edits), key=lambda e: (e[0], e[1])):
        if start < at:
            raise Refused("edits overlap")
        out += [source.data[at:start], text.encode("utf-8")]
        at = end
    return b"".join([*out, source.data[at:]])


def _file_diff(source: Source, edits: list[tuple[int, int, str]]) -> Iterator[str]:
    new = changed(source, edits)
    if new == source.data:
        return
    tree = ast.parse(new)
    compile(new, source.name, "exec", dont_inherit=True)
    if ast.dump(tree) == ast.dump(source.tree):
        raise Refused("the program would stay as it is")
    if any(c in source.name for c in '\n\r\t"\\'):
        raise Refused("the file's name cannot stand in a diff")
    yield unified(source.name, (source.bom + source.data).decode("utf-8"), (source.bom + new).decode("utf-8"))
