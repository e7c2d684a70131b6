"""Watches a NumPy program: first it runs as it is; once more, every operation of the program's own files leaves a record."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from numdebug.recording import Step
from numdebug.report.model import Observed

if TYPE_CHECKING:
    from numdebug.observe.arrays.arrayrun import ArrayRun

_FRAMEWORKS = frozenset({"torch", "jax", "keras", "tensorflow", "mxnet"})  # where one of them is used, NumPy only serves it
_NUMPY = frozenset({"numpy", "scipy", "pandas", "sklearn", "statsmodels", "skimage"})


class NumPyObserver:
    """One run. Without `record` among the options nothing is done to it. `others`: operations that other observers have seen."""

    def __init__(self, folder: Path, options: dict[str, Any], others: Callable[[], int]) -> None:
        self.others = others
        self.saw_forward = False
        self.saw_backward = False
        self.threads = False
        self.first_bad: int | None = None
        self.rerun: int | None = None
        self.steps: list[Step] = []
        self.stopped_because = "the program ended"
        self.called = False  # by numdebug: the program's main
        self.recorder: Any = None
        self.events: dict[tuple[str, int], str] = {}  # by place: what NumPy itself warned of, for nothing
        self._show = warnings.showwarning
        if not options.get("record"):
            warnings.showwarning = self._warned
        if options.get("record"):
            from numdebug.observe.numpy.recorder import Recorder

            self.recorder = Recorder(folder)

    def _warned(self, message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: str | None = None) -> None:
        """A warning, on its way to where the program wants it; those that are switched off or caught do not come by."""
        if issubclass(category, RuntimeWarning) and " encountered in " in str(message):
            self.events.setdefault((filename, lineno), str(message))
        self._show(message, category, filename, lineno, file, line)

    @property
    def unrecorded(self) -> bool:
        """A program of NumPy's, whose operations only a second run can show."""
        return self.recorder is None and self.computed

    @property
    def computed(self) -> bool:
        """It computed; of a run that is not recorded: its own text uses NumPy, and calls something when it is run."""
        if self.recorder is not None:
            return bool(self.recorder.tape.count)
        return not self.others() and _runs(sys.modules.get("__main__"), self.called)

    @property
    def ops(self) -> int:
        """Operations recorded."""
        return self.recorder.tape.count if self.recorder is not None else 0

    def code(self, text: str | bytes, path: str) -> CodeType | None:
        """The program's file, recorded; None where it runs as it is."""
        code: CodeType | None = self.recorder.code(text, path) if self.recorder is not None else None
        return code

    @property
    def unfinished(self) -> bool:
        """The time was up before the program's end."""
        return self.recorder is not None and bool(self.recorder.hooks.ending)

    def expire(self) -> None:
        """The time is up."""
        self.stopped_because = "the time limit was reached"
        if self.recorder is not None:
            self.recorder.hooks.ending = True

    def returned(self, name: str, value: Any) -> None:
        """An output of a call that numdebug made."""
        if self.recorder is not None:
            self.recorder.hooks.shown(value)

    def loss(self, value: Any) -> None:
        """Nothing is differentiated."""

    def finish(self) -> None:
        """The program is over: what it took out is looked at, and the hooks go."""
        if warnings.showwarning == self._warned:
            warnings.showwarning = self._show
        if self.recorder is not None and not self.recorder.ended:
            self.recorder.finish()
            self.first_bad = 0 if self.recorder.graph is not None and self.recorder.graph.recording.sinks else None

    def run(self, options: dict[str, Any]) -> ArrayRun | None:
        """What was recorded."""
        if self.recorder is None or self.recorder.graph is None:
            return None
        from numdebug.observe.arrays.arrayrun import ArrayRun

        return ArrayRun(self.recorder.graph, options)

    def observed(self) -> Observed:
        """For the report."""
        return Observed(ops=self.ops, steps=1, backward=False, first_bad_step=None, stopped_because=self.stopped_because)


def _runs(module: Any, called: bool) -> bool:
    """The main file imports NumPy, or what is built on it, and its own text prints, or calls something, when it is run (or was called)."""
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        return False
    tree = ast.parse(Path(file).read_bytes())
    roots = {alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    roots |= {(node.module or "").split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    parts = [node for statement in tree.body for node in _parts(statement)]
    calls = [node.func for node in parts if isinstance(node, ast.Call)]
    itself = called or any(isinstance(call, ast.Name) and call.id in own | {"print"} for call in calls)
    shown = any(isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) for node in tree.body)  # logging.info(...), plt.show()
    computes = any(isinstance(node, ast.BinOp | ast.AugAssign) for node in parts) and not own
    itself = itself or shown or computes
    return itself and bool(roots & _NUMPY) and not roots & _FRAMEWORKS


def _parts(node: ast.AST) -> list[ast.AST]:
    """A statement and what runs with it: not the insides of functions."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return []
    return [node, *(inner for child in ast.iter_child_nodes(node) for inner in _parts(child))]
