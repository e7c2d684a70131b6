"""The user's code, the calls that numdebug adds to it, and every way in which they can end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from numdebug.deadline import Deadline
from numdebug.errors import UserError
from numdebug.journal import Journal
from numdebug.load import arguments, guess, values
from numdebug.load.inputs import Wanted, invent
from numdebug.load.script import Script
from numdebug.load.source import never_mentioned_outside_functions

OURS = str(Path(__file__).resolve().parent.parent) + os.sep


@dataclass(frozen=True)
class Wishes:
    """What the user said about calls that the program does not make itself."""

    inputs: tuple[Wanted, ...] = ()
    call: bool = True


class Runner:
    """One run of the user's code under one watcher. Without a journal it is a repetition, of which nothing is said."""

    def __init__(
        self, script: Script, wishes: Wishes, watcher: Any, deadline: Deadline, journal: Journal | None, stop: type[BaseException]
    ) -> None:
        self.script = script
        self.wishes = wishes
        self.watcher = watcher
        self.deadline = deadline
        self.journal = journal
        self.stop = stop
        self.computed = False  # it took numbers that it had computed out of the framework, and holds no model that waits to be called

    def run(self) -> None:
        """The program itself, then its uncalled `main()`, then guessed calls: each only if nothing was seen before it."""
        module = self.script.prepare()
        try:
            self._run(module)
        finally:
            self._say("seen", forward=bool(self.watcher.saw_forward or self.computed), backward=bool(self.watcher.saw_backward))
            if not self._seen():
                self._say("unrun", models=guess.models(module))

    def _run(self, module: ModuleType) -> None:
        if not self.guarded(lambda: self.script.execute(module)):
            return
        self._took(module)
        if self.script.name is None and self._seen():
            return
        if not self.wishes.call:
            self._say("note", text="calls that the program does not make itself were refused (--no-call)")
            return
        self._say("stage", name="guess")
        if self.script.name is None and self._has_uncalled_main(module):
            self._announce("main()")
            self._say("guessed", text="main()")
            back = self.guarded(lambda: module.__dict__["main"]())
            self.watcher.called()
            self._took(module)
            if not back or self._seen():
                return
        self.guarded(lambda: self._guess(module))

    def _took(self, module: ModuleType) -> None:
        self.computed = bool(self.watcher.computed) and not any(values.is_model(v) for v in values.public_values(module).values())

    def _seen(self) -> bool:
        return bool(self.watcher.saw_forward or self.watcher.saw_backward or self.computed)

    def _has_uncalled_main(self, module: ModuleType) -> bool:
        main = values.own_functions(module).get("main")
        if main is None or arguments.required(main):
            return False
        return never_mentioned_outside_functions(self.script.path.read_text(encoding="utf-8", errors="replace"), "main")

    def _guess(self, module: ModuleType) -> None:
        for one in self.wishes.inputs:
            self._say("invented", text=str(one))
        given = {one.name: invent(one) for one in self.wishes.inputs}
        attempts = guess.Attempts()
        try:
            guess.try_calls(module, self.watcher, self._announce, given, self.script.name, attempts)
        finally:
            for text in attempts.called:
                self._say("guessed", text=text)
            for text, why in attempts.failed:
                self._say("note", text=f"tried {text}: it raised {type(why).__name__}: {_short(str(why))}")
            if attempts.failed and not attempts.called:
                text, why = attempts.failed[0]
                reason = f"{type(why).__name__}: {_short(str(why))}"
                self._say("unusable", text=f"{text} cannot be called with what there is ({reason}); describe fitting inputs with --input")

    def _say(self, record: str, **data: Any) -> None:
        if self.journal is not None:
            self.journal.add(record, **data)

    def _announce(self, text: str) -> None:
        if self.journal is not None:
            print(f"numdebug: the program runs no forward or backward pass itself; calling {text}", file=sys.stderr, flush=True)

    def guarded(self, work: Callable[[], object]) -> bool:
        """Run user code; journal how it ended. True where it came back by itself."""
        try:
            self.deadline.running = True
            work()
            self.deadline.running = False
        except self.stop as why:
            self.deadline.running = False
            self._say("ended", how="stopped", why=self.deadline.reason or str(why) or "enough was seen")
            return False
        except SystemExit as why:
            self.deadline.running = False
            status = why.code if isinstance(why.code, int) else 0 if why.code is None else 1
            message = "" if why.code is None or isinstance(why.code, int) else _short(str(why.code))
            if message and self.journal is not None:
                print(why.code, file=sys.stderr)
            self._say("ended", how="exit", status=status, message=message)
            return status == 0
        except UserError as why:
            self.deadline.running = False
            self._say("unusable", text=str(why))
        except BaseException as why:
            self.deadline.running = False
            self.watcher.failed = type(why).__name__
            self._raised(why)
            return False
        self._say("ended", how="returned")
        return True

    def _raised(self, why: BaseException) -> None:
        """Show the user's traceback as Python would, without our frames, and journal where it came from."""
        if self.journal is None:
            return
        program = str(self.script.path)
        if ours_by_mistake(why, program):
            self._say("failure", where="watching the program", traceback="".join(traceback.format_exception(why)))
            self._say("ended", how="stopped", why="numdebug met an error of its own")
            return
        shown = traceback.TracebackException.from_exception(why)
        _without_ours(shown, program)
        try:
            print("".join(shown.format()), end="", file=sys.stderr, flush=True)
            message = str(why)
        except Exception as broken:  # an exception whose own text cannot be made
            message = f"(its message cannot be shown: {type(broken).__name__})"
        folder = self.script.path.parent
        last = [f for f in shown.stack if Path(f.filename).is_relative_to(folder) and "site-packages" not in f.filename]
        site = {"file": os.path.relpath(last[-1].filename, folder), "line": last[-1].lineno} if last else None
        kind = type(why).__name__
        missing = why.name if isinstance(why, ModuleNotFoundError) else None
        self._say("raised", type=kind, message=_short(message, 500), site=site, missing=missing)
        self._say("ended", how="raised", why=f"the program raised {kind}")


def _is_ours(file: str, program: str) -> bool:
    return file.startswith(OURS) and file != program


def ours_by_mistake(why: BaseException, program: str) -> bool:
    """Whether an exception is a mistake in our own hooks. What operations raise passes through the same frames, but is of other types."""
    frames = traceback.extract_tb(why.__traceback__)
    return bool(frames) and _is_ours(frames[-1].filename, program) and isinstance(why, AttributeError | NameError | TypeError | KeyError)


def _without_ours(shown: traceback.TracebackException, program: str) -> None:
    todo, seen = [shown], set()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.stack = traceback.StackSummary.from_list([f for f in one.stack if not _is_ours(f.filename, program)])
        todo += [x for x in (one.__cause__, one.__context__) if x is not None]


def _short(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
