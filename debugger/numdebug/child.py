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
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numdebug.deadline import Deadline
from numdebug.journal import Journal
from numdebug.load import inputs
from numdebug.load.runner import Runner, Wishes
from numdebug.load.script import Script
from numdebug.load.state import State
from numdebug.patching import patched
from numdebug.repeat.apart import Apart

FRAMEWORKS = ("torch", "jax", "keras", "tensorflow", "mxnet")
AGAIN = (10.0, 3.0)  # a second run may take so many seconds plus so many times the first run, and never more than the time limit


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
    compare: dict[str, Any] | None = None  # a comparison instead of a diagnosis: the fields of comparing.plan.Plan


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
        deadline = observe(spec, journal) if spec.compare is None else compare(spec.compare, journal)
    except Exception:
        journal.add("failure", where="observing the program", traceback=traceback.format_exc())
    finally:
        journal.add("end")
        if deadline is not None:
            deadline.leave_soon()


def observe(spec: Spec, journal: Journal) -> Deadline:
    """Watch the program run, try guessed calls where it ran nothing, then analyse."""
    from numdebug import observe as observing

    script = Script(Path(spec.path), spec.given, tuple(spec.args), name=spec.name)
    wishes = Wishes(tuple(inputs.parse(text) for text in spec.inputs), spec.call)
    options = spec.options
    folder = Path(spec.path).parent
    if options.get("patch"):
        script = replace(script, texts=patched(options["patch"], folder))
    state = State()
    watcher = observing.watch(folder=folder, journal=journal, options=options)
    deadline = Deadline(observing.Stop)

    def run_again(more: dict[str, Any]) -> Any:
        """A second run under a new watcher, which is returned, finished. `more` changes options; `diff` applies a repair first."""
        what = "its operations" if options.get("record") else "the step that went wrong"
        why = "with a repair applied" if "diff" in more else f"to record {what}"
        changed = replace(script, texts=patched(more["diff"], folder)) if "diff" in more else script
        print(f"numdebug: running the program once more {why}", file=sys.stderr, flush=True)
        state.restore(folder)
        second = observing.watch(folder=folder, journal=journal, options={**options, **more})
        deadline.arm(min(spec.timeout or again, again), second.expire)
        journal.add("stage", name="again")
        with _silenced(bool(options.get("record"))):
            Runner(replace(changed, code=second.code), wishes, second, deadline, None, observing.Stop).run()
        second.finish()
        journal.add("stage", name="analyse")
        return second

    apart = Apart(spec.path, spec.given, spec.args, spec.name, spec.inputs, spec.call, spec.timeout, options, journal)
    options["run_again"] = run_again
    options["run_apart"] = apart
    deadline.arm(spec.timeout, watcher.expire)
    journal.add("stage", name="run")
    begin = time.monotonic()
    Runner(script, wishes, watcher, deadline, journal, observing.Stop).run()
    apart.ended(time.monotonic() - begin, not deadline.passed and not watcher.failed)
    again = AGAIN[0] + AGAIN[1] * apart.seconds
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


def compare(plan: dict[str, Any], journal: Journal) -> Deadline:
    """Two ways to compute the same thing."""
    from numdebug.comparing import running

    deadline: Deadline = running.observe(plan, journal)
    return deadline


@contextmanager
def _silenced(on: bool) -> Iterator[None]:
    """What the program prints was printed before, also by what holds on to the streams (a logging handler, a child process)."""
    if not on:
        yield
        return
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        stream.flush()
    kept = [os.dup(number) for number in (1, 2)]
    with open(os.devnull, "w") as nowhere:
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
        try:
            yield
        finally:
            for stream in streams:
                stream.flush()
            for number, before in zip((1, 2), kept, strict=True):
                os.dup2(before, number)
                os.close(before)


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
