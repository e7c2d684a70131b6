"""The child process: runs the user's program under observation and writes what it finds to the journal.

Started by `running.py` as the leader of its own process group. Everything that the parent must know is a journal record, written
as soon as it is known, because the program may end this process at any moment.
"""

from __future__ import annotations

import io
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from numdebug.deadline import Deadline
from numdebug.errors import UserError
from numdebug.journal import Journal
from numdebug.load import guess, inputs
from numdebug.load.script import Script
from numdebug.patching import patched
from numdebug.load.source import never_mentioned_outside_functions

FRAMEWORKS = ("torch", "jax", "keras", "tensorflow", "mxnet")


@dataclass
class Spec:
    """What the parent asks for, as JSON."""

    path: str
    given: str
    journal: str
    args: list[str] = field(default_factory=list)
    name: str | None = None
    inputs: list[str] = field(default_factory=list)
    timeout: float | None = 60.0
    call: bool = True
    options: dict[str, Any] = field(default_factory=dict)


def main(spec_path: str) -> None:
    """Run one spec to its end. Never lets an exception of ours reach the user as a traceback."""
    spec = Spec(**json.loads(Path(spec_path).read_text()))
    journal = Journal(Path(spec.journal))
    journal.add("started", pid=os.getpid())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    deadline: Deadline | None = None
    try:
        deadline = observe(spec, journal)
    except Exception:
        journal.add("failure", where="observing the program", traceback=traceback.format_exc())
    finally:
        journal.add("end")
        if deadline is not None:
            deadline.leave_soon()


def observe(spec: Spec, journal: Journal) -> Deadline:
    """Watch the program run, try guessed calls where it ran nothing, then analyse."""
    from numdebug import observe as observing

    script = Script(Path(spec.path), spec.given, tuple(spec.args), spec.name)
    options = spec.options
    folder = Path(spec.path).parent
    watcher = observing.watch(folder=folder, journal=journal, options=options)
    deadline = Deadline(observing.Stop)
    options["run_again"] = lambda again: run_again(script, deadline, spec.timeout, journal, {**options, **again})
    deadline.arm(spec.timeout, watcher.expire)
    journal.add("stage", name="run")
    runner = Runner(script, watcher, deadline, journal, observing.Stop)
    runner.run(spec)
    journal.add("stage", name="analyse")
    describe_environment(journal)
    try:
        watcher.finish()
        journal.add("observed", ops=watcher.ops, backward=watcher.saw_backward)
        from numdebug import pipeline

        pipeline.analyse(watcher, journal, options)
    except Exception:
        journal.add("failure", where="analysing the recorded step", traceback=traceback.format_exc())
    return deadline


class Runner:
    """The user's code, and every way in which it can end."""

    def __init__(self, script: Script, watcher: Any, deadline: Deadline, journal: Journal, stop: type[BaseException]) -> None:
        self.script = script
        self.watcher = watcher
        self.deadline = deadline
        self.journal = journal
        self.stop = stop

    def run(self, spec: Spec) -> None:
        """The program itself, then its uncalled `main()`, then guessed calls: each only if nothing was seen before it."""
        module = self.script.prepare()
        try:
            self._run(module, spec)
        finally:
            self.journal.add("seen", forward=bool(self.watcher.saw_forward), backward=bool(self.watcher.saw_backward))
            if not self._seen():
                self.journal.add("unrun", models=guess.models(module))

    def _run(self, module: ModuleType, spec: Spec) -> None:
        if not self._guarded(lambda: self.script.execute(module)):
            return
        if spec.name is None and self._seen():
            return
        if not spec.call:
            self.journal.add("note", text="calls that the program does not make itself were refused (--no-call)")
            return
        self.journal.add("stage", name="guess")
        if spec.name is None and self._has_uncalled_main(module):
            self._announce("main()")
            self.journal.add("guessed", text="main()")
            if not self._guarded(lambda: module.__dict__["main"]()) or self._seen():
                return
        self._guarded(lambda: self._guess(module, spec))

    def _seen(self) -> bool:
        return bool(self.watcher.saw_forward or self.watcher.saw_backward)

    def _has_uncalled_main(self, module: ModuleType) -> bool:
        main = guess.values.own_functions(module).get("main")
        if main is None or guess.arguments.required(main):
            return False
        return never_mentioned_outside_functions(self.script.path.read_text(encoding="utf-8", errors="replace"), "main")

    def _guess(self, module: ModuleType, spec: Spec) -> None:
        wanted = [inputs.parse(text) for text in spec.inputs]
        for one in wanted:
            self.journal.add("invented", text=str(one))
        given = {one.name: inputs.invent(one) for one in wanted}
        attempts = guess.Attempts()
        try:
            guess.try_calls(module, self.watcher, self._announce, given, spec.name, attempts)
        finally:
            for text in attempts.called:
                self.journal.add("guessed", text=text)
            for text, why in attempts.failed:
                self.journal.add("note", text=f"tried {text}: it raised {type(why).__name__}: {_short(str(why))}")
            if attempts.failed and not attempts.called:
                text, why = attempts.failed[0]
                reason = f"{type(why).__name__}: {_short(str(why))}"
                self.journal.add("unusable", text=f"{text} cannot be called with what there is ({reason}); describe fitting inputs with --input")

    def _announce(self, text: str) -> None:
        print(f"numdebug: the program runs no forward or backward pass itself; calling {text}", file=sys.stderr, flush=True)

    def _guarded(self, work: Callable[[], object]) -> bool:
        """Run user code; journal how it ended. True where it came back by itself."""
        try:
            self.deadline.running = True
            work()
            self.deadline.running = False
        except self.stop as why:
            self.deadline.running = False
            self.journal.add("ended", how="stopped", why=self.deadline.reason or str(why) or "enough was seen")
            return False
        except SystemExit as why:
            self.deadline.running = False
            status = why.code if isinstance(why.code, int) else 0 if why.code is None else 1
            message = "" if why.code is None or isinstance(why.code, int) else _short(str(why.code))
            if message:
                print(why.code, file=sys.stderr)
            self.journal.add("ended", how="exit", status=status, message=message)
            return status == 0
        except UserError as why:
            self.deadline.running = False
            self.journal.add("unusable", text=str(why))
        except BaseException as why:
            self.deadline.running = False
            self._raised(why)
            return False
        self.journal.add("ended", how="returned")
        return True

    def _raised(self, why: BaseException) -> None:
        """Show the user's traceback as Python would, without our frames, and journal where it came from."""
        frames = _users(why.__traceback__)
        try:
            traceback.print_exception(type(why), why, frames)
            message = str(why)
        except Exception as broken:  # an exception whose own text cannot be made
            message = f"(its message cannot be shown: {type(broken).__name__})"
        last = [f for f in traceback.extract_tb(frames) if Path(f.filename).is_relative_to(self.script.path.parent)]
        site = {"file": os.path.relpath(last[-1].filename, self.script.path.parent), "line": last[-1].lineno} if last else None
        module = why.name if isinstance(why, ImportError) else None
        missing = module if isinstance(why, ModuleNotFoundError) else None
        kind = type(why).__name__
        self.journal.add("raised", type=kind, message=_short(message, 500), site=site, missing=missing)
        self.journal.add("ended", how="raised", why=f"the program raised {kind}")


def _users(tb: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame that is not ours on."""
    here = str(Path(__file__).parent)
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename.startswith(here):
        tb = tb.tb_next
    return tb


def _short(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def run_again(script: Script, deadline: Deadline, timeout: float | None, journal: Journal, options: dict[str, Any]) -> Any:
    """A second run of the whole program under a new watcher, from a fresh `__main__`; returns that watcher, finished.

    The program's own modules are loaded anew. Its side effects happen again, which is why `--no-rerun` forbids it.
    """
    from numdebug import observe as observing

    folder = script.path.parent
    if "diff" in options:
        script = replace(script, text=patched(options["diff"], folder).get(script.path))
        words = "a second time with a repair applied"
    else:
        words = "a second time to record the step that went wrong"
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and Path(file).is_relative_to(folder) and not name.startswith("numdebug"):
            del sys.modules[name]
    print(f"numdebug: running the program {words}", file=sys.stderr, flush=True)
    watcher = observing.watch(folder=folder, journal=journal, options=options)
    deadline.arm(timeout, watcher.expire)
    journal.add("stage", name="again")
    try:
        deadline.running = True
        script.run()
        deadline.running = False
    except (observing.Stop, SystemExit, Exception):  # the first run has already reported how the program ends
        pass
    finally:
        deadline.running = False
        watcher.finish()
        journal.add("stage", name="analyse")
    return watcher


def describe_environment(journal: Journal) -> None:
    """Versions, platform and threads; which frameworks the program imported."""
    present = [n for n in FRAMEWORKS if n in sys.modules]
    frameworks = present or [n for n in ("numpy",) if n in sys.modules]
    facts: dict[str, Any] = {"python": platform.python_version()}
    for name in frameworks:
        facts[name] = str(getattr(sys.modules[name], "__version__", "unknown"))
    facts["platform"] = f"{sys.platform}-{platform.machine()}"
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        facts["threads"] = torch.get_num_threads()
    journal.add("frameworks", names=frameworks)
    journal.add("environment", **facts)
