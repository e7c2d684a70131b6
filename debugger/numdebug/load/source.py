"""Find and check the user's file before anything of it runs. Every complaint is one sentence and says what to do."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

from numdebug.errors import UserError


@dataclass(frozen=True)
class Source:
    """The file as it was before the program ran."""

    given: str  # as the user wrote it
    path: Path  # absolute
    text: str
    name: str | None = None  # what to call: PATH:NAME

    @property
    def folder(self) -> Path:
        """The program's folder: sites are relative to it, and diffs apply in it."""
        return self.path.parent


def locate(argument: str) -> tuple[str, str | None]:
    """Split PATH[:NAME]; a file whose name holds a colon wins over the split."""
    head, colon, tail = argument.rpartition(":")
    if colon and head and tail.replace(".", "_").isidentifier() and not Path(argument).exists():
        return head, tail
    return argument, None


def read(argument: str) -> Source:
    """The checked source behind a command line argument, or a UserError with one sentence."""
    given, name = locate(argument)
    path = Path(given)
    try:
        if path.is_dir():
            raise UserError(f"{given} is a directory; name the Python file in it that builds or trains the model{_example(path)}.")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"there is no file {given}; check the path (the current folder is {Path.cwd()}).") from None
    except PermissionError:
        raise UserError(f"{given} cannot be read: permission denied; make it readable first.") from None
    except (OSError, ValueError) as why:
        raise UserError(f"{given} cannot be read: {why}.") from None
    if path.suffix == ".ipynb":
        raise UserError(f"{given} is a notebook; export it first: jupyter nbconvert --to script {given}")
    text = _decode(given, raw)
    _parse(given, text)
    if name is not None:
        _check_name(given, text, name)
    return Source(given, path.resolve(), text, name)


def _decode(given: str, raw: bytes) -> str:
    if b"\0" in raw:
        raise UserError(f"{given} is not a Python file: it holds binary data; name the program's source.")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
        return raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")
    except (SyntaxError, UnicodeDecodeError, LookupError) as why:
        raise UserError(f"{given} is not a Python file: {why}; name the program's source.") from None


def _parse(given: str, text: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, given, "exec", dont_inherit=True)
    except SyntaxError as why:
        shown = f": {why.text.strip()}" if why.text else ""
        raise UserError(f"{given}:{why.lineno}:{why.offset or 1} is not valid Python, {why.msg}{shown}; mend that line first.") from None
    except (ValueError, RecursionError, MemoryError) as why:
        raise UserError(f"{given} cannot be compiled: {why}.") from None


def _check_name(given: str, text: str, name: str) -> None:
    """Complain about PATH:NAME where nothing in the file could ever bind NAME."""
    bound: dict[str, None] = {}
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[node.id] = None
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return
            bound[(node.asname or node.name).split(".")[0]] = None
    if name.split(".")[0] not in bound and "globals()" not in text:
        named = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
        raise UserError(f"{given} defines no {name}; it defines {', '.join(named) or 'no function or class'}.")


def _example(folder: Path) -> str:
    likely = ["train.py", "main.py", "model.py", "run.py"]
    names = sorted(p.name for p in folder.glob("*.py"))
    first = next((n for n in likely if n in names), names[0] if names else None)
    return f", for instance {folder / first}" if first else ""


def deepest_relative_import(text: str) -> int:
    """How many dots the deepest relative import at any depth of the file has; 0 where there is none."""
    return max((n.level for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)), default=0)


def read_somewhere(name: str) -> bool:
    """Whether the program's main file reads a name (of `a.b[0]` the first part) that it binds."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    root = name.split(".")[0].split("[")[0]
    if file is None or not Path(file).is_file():
        return True
    names = (n for n in ast.walk(ast.parse(Path(file).read_bytes())) if isinstance(n, ast.Name))
    return any(n.id == root and isinstance(n.ctx, ast.Load) for n in names)


def never_mentioned_outside_functions(text: str, name: str) -> bool:
    """Whether module-level code (guards included, function and class bodies not) never mentions the function `name`."""
    todo: list[ast.AST] = list(ast.parse(text).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            todo.extend(node.decorator_list)
            continue
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            return False
        todo.extend(ast.iter_child_nodes(node))
    return True
