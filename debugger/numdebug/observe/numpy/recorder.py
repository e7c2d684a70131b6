"""The recorded run of a NumPy program: hooks in its source, a tape of what they saw, and the graph made of it."""

from __future__ import annotations

import builtins
import gc
import sys
from pathlib import Path
from types import CodeType

import numpy as np

from numdebug.births import births
from numdebug.observe.arrays.arrayrun import ArrayRun
from numdebug.observe.arrays.graph import Graph
from numdebug.observe.arrays.numbers import stats
from numdebug.observe.frames import Frames
from numdebug.observe.numpy.convert import graph_of, main_names
from numdebug.observe.numpy.hooks import Hooks
from numdebug.observe.numpy.instrument import HOOK, Finder, instrumented
from numdebug.observe.numpy.tape import Tape
from numdebug.recording import Sink

# Trouble in the words of np.errstate, by how a non-finite number was born.
_TROUBLE = {"overflow": "over", "x/0": "divide", "log of zero": "divide"}


class Recorder:
    """In place from its construction to `finish`."""

    def __init__(self, folder: Path) -> None:
        np.seterr(divide="warn", over="warn", under="ignore", invalid="warn")  # as a program finds it
        self.tape = Tape(Frames(folder))
        self.hooks = Hooks(self.tape)
        self.finder = Finder(folder, self.hooks.program.add)
        self.graph: Graph | None = None
        self.ended = False
        self.collecting = gc.get_threshold()
        gc.set_threshold(100_000, 50, 100)  # what is recorded stays alive: looking through it again and again would take half of the time
        sys.meta_path.insert(0, self.finder)
        builtins.__dict__[HOOK] = self.hooks

    def code(self, text: str | bytes, path: str) -> CodeType:
        """The main file's."""
        self.hooks.program.add(path)
        return instrumented(text, path)

    def finish(self) -> None:
        """Take the hooks away; then see what the program took out, and which of it is not finite."""
        self.ended = True
        self.hooks.off = True
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        builtins.__dict__.pop(HOOK, None)
        gc.set_threshold(*self.collecting)
        if not self.tape.count:
            return
        self.graph = graph_of(self.tape, self.hooks, main_names())
        run = ArrayRun(self.graph, {})
        bad = [sink for sink in self.graph.consumed if stats(self.graph.arrays[sink.value.id]).non_finite]
        self.graph.recording.sinks = [sink for sink in bad if not self._expected(run, sink)]

    def _expected(self, run: ArrayRun, sink: Sink) -> bool:
        """All of it was made where the program had asked not to be warned, by a `with np.errstate` around those lines."""
        always = {kind for kind, way in np.geterr().items() if way == "ignore"}
        found = list(births(run, sink))
        quiet = [self.tape.records[b.op.index].ignored - always for b in found if b.op is not None]
        if not found or len(quiet) < len(found):
            return False
        return all(_TROUBLE.get(b.born, "invalid") in kinds for b, kinds in zip(found, quiet, strict=True))
