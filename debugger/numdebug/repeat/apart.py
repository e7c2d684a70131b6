"""The program once more in a process of its own: strings hash differently there, and everything that nobody seeded is drawn anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from numdebug.deadline import Deadline
from numdebug.load import inputs
from numdebug.load.runner import Runner, Wishes
from numdebug.load.script import Script
from numdebug.patching import patched
from numdebug.plain import from_plain, to_plain
from numdebug.repeat.results import Result, Results, results

LONG = 20.0  # seconds of the first run beyond which nobody waits for several more
START = 20.0  # seconds that a new process may take to import its framework
TOGETHER = 1.5  # of the time limit: five runs of a program that takes as long as those that are run again at all
KEPT = ("max_steps", "record")  # options that change what a run does

LAUNCH = "import sys; sys.path[:not sys.flags.safe_path] = [sys.argv[2]]; from numdebug.repeat.apart import main; main(sys.argv[1])"


@dataclass
class Apart:
    """Runs the program apart. `seconds` and `whole` speak of the first run; both are known once it has ended."""

    path: str
    given: str
    args: list[str]
    name: str | None
    inputs: list[str]
    call: bool
    timeout: float | None
    options: dict[str, Any]
    journal: Any
    seconds: float = 0.0
    whole: bool = True
    spent: float = 0.0
    asked: bool = False  # once for each program, whatever frameworks it uses
    folder: str = field(default_factory=os.getcwd)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def ended(self, seconds: float, whole: bool) -> None:
        """The first run is over."""
        self.seconds, self.whole = seconds, whole

    def note(self, text: str) -> None:
        """For the report."""
        self.journal.add("note", text=text)

    def why_not(self) -> str | None:
        """Why the program is not run again."""
        if self.options.get("no_rerun"):
            return "--no-rerun forbids it"
        if not self.whole:
            return "the first run did not come to its end"
        if self.seconds > LONG:
            return f"one run takes {self.seconds:.0f} s"
        return None

    @property
    def left(self) -> bool:
        """Whether there is time for one more run: each has the time limit, and all together half as much again."""
        return self.timeout is None or self.spent + self.seconds < TOGETHER * self.timeout

    @property
    def salted(self) -> bool:
        """Whether strings hash differently in every process, as they do unless the user has switched that off."""
        return self.environment.get("PYTHONHASHSEED", "random") == "random" and not sys.flags.ignore_environment

    def __call__(self, hash_seed: int, diff: str | None = None) -> Results | None:
        """What one run computes, with a repair in its source where there is a diff. None where it did not come back."""
        if not self.spent:
            print("numdebug: running the program in processes of their own, to see whether its numbers repeat", file=sys.stderr, flush=True)
        begin = time.monotonic()
        limit = min(self.timeout or START + 3 * self.seconds, START + 3 * self.seconds)
        self.journal.add("stage", name="again")  # the parent gives it time
        with tempfile.TemporaryDirectory(prefix="numdebug-", ignore_cleanup_errors=True) as scratch:
            out = Path(scratch) / "results.json"
            kept = {k: self.options[k] for k in KEPT if self.options.get(k)}
            told = {"diff": diff, "out": str(out), "limit": limit, "options": kept}
            names = ("path", "given", "args", "name", "inputs", "call")
            spec = Path(scratch) / "spec.json"
            spec.write_text(json.dumps({**told, **{name: getattr(self, name) for name in names}}))
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
            salt = {"PYTHONHASHSEED": str(hash_seed)} if self.salted else {}
            child = subprocess.Popen(
                [sys.executable, *flags, "-c", LAUNCH, str(spec), str(Path(__file__).resolve().parent.parent.parent)],
                cwd=self.folder,
                env={**self.environment, **salt},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                child.wait(limit + START)
            except subprocess.TimeoutExpired:
                return None
            finally:
                child.kill()
                child.wait()
                self.spent += time.monotonic() - begin
            return from_plain(Results, json.loads(out.read_text())) if out.exists() else None


class _Mute:
    """The journal of a run of which nothing is said."""

    def add(self, record: str, value: object = None, /, **data: Any) -> None:
        """Nothing."""


def main(spec_path: str) -> None:
    """In the new process: run the program under observation and write down what it computed."""
    from numdebug import observe

    spec = json.loads(Path(spec_path).read_text())
    path = Path(spec["path"])
    script = Script(path, spec["given"], tuple(spec["args"]), name=spec["name"])
    if spec["diff"]:
        script = replace(script, texts=patched(spec["diff"], path.parent))
    watcher = observe.watch(folder=path.parent, journal=_Mute(), options=spec["options"])
    deadline = Deadline(observe.Stop)
    deadline.arm(spec["limit"], watcher.expire)
    wishes = Wishes(tuple(inputs.parse(text) for text in spec["inputs"]), spec["call"])
    Runner(replace(script, code=watcher.code), wishes, watcher, deadline, None, observe.Stop).run()
    watcher.finish()
    bad = any(getattr(o, "first_bad", None) is not None for o in watcher.observers.values())
    found: list[Result] = [] if bad else results(watcher)
    out = Path(spec["out"])
    scratch = out.with_suffix(".part")
    scratch.write_text(json.dumps(to_plain(asdict(Results(not deadline.passed, watcher.failed, tuple(found))))))
    scratch.replace(out)
    deadline.leave_soon()
