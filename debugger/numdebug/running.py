"""The parent's side of a run: start the child, pass its output on without ever blocking on it, and end it whatever it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from numdebug.child import Spec
from numdebug.deadline import STOP_SIGNAL
from numdebug.journal import Record, read

GRACE = 15.0  # seconds beyond the time limit for the analysis of what was gathered
STARTUP = 120.0  # seconds until the program must have been reached: imports of numdebug itself on a slow disk
AFTER_INTERRUPT = 10.0  # seconds that the child has to write down what it has once Ctrl-C was pressed
SHOWN = 16 * 2**20  # bytes of the program's output that are passed on; beyond that only the tail is kept
KEPT = 64 * 2**10  # bytes of the tail
LOOK = 0.05  # seconds between two looks at the child
PRIVATE = ("NUMDEBUG_API_KEY",)  # environment variables that no program under observation gets to see

# The first entry of sys.path is the current folder, which could hold a json.py of the user's; under PYTHONSAFEPATH there is none.
LAUNCH = "import sys; sys.path[:not sys.flags.safe_path] = [sys.argv[2]]; from numdebug.child import main; main(sys.argv[1])"


@dataclass
class Ending:
    """How the child ended, and what it left."""

    records: list[Record]
    status: int | None  # as subprocess gives it: negative is a signal; None: we ended it
    timed_out: bool = False
    interrupted: bool = False
    tail: str = ""  # the last of what the program printed
    seconds: float = 0.0


class Pump(threading.Thread):
    """Reads the child's output as fast as it comes, passes the first part on to our stderr, and keeps the tail."""

    def __init__(self, fd: int) -> None:
        super().__init__(name="numdebug-output", daemon=True)
        self.fd = fd
        self.total = 0
        self.tail = bytearray()
        self.quiet = False

    def run(self) -> None:
        """Until the last writer has closed the pipe."""
        while True:
            try:
                chunk = os.read(self.fd, 1 << 16)
            except OSError:
                return
            if not chunk:
                return
            self.tail += chunk
            del self.tail[:-KEPT]
            if self.total < SHOWN:
                self._pass_on(chunk[: SHOWN - self.total])
            self.total += len(chunk)
            if self.total >= SHOWN and not self.quiet:
                self.quiet = True
                self._pass_on(b"\nnumdebug: the program has printed 16 MB; its further output is not shown\n")

    def _pass_on(self, chunk: bytes) -> None:
        with suppress(OSError, ValueError):
            out = sys.__stderr__.fileno() if sys.__stderr__ else 2
            while chunk:
                chunk = chunk[os.write(out, chunk) :]


def run(spec: Spec, hide: Iterable[str] = ()) -> Ending:
    """Run `spec` in a child process group of its own and return when nothing of it is left.

    The program's environment is ours without the variables named in `hide` and PRIVATE. This keeps a key out of what a program logs or
    uploads; it is no wall against a hostile program, which may read whatever its user may read.
    """
    kept = {name: value for name, value in os.environ.items() if name not in {*PRIVATE, *hide}}
    with tempfile.TemporaryDirectory(prefix="numdebug-", ignore_cleanup_errors=True) as folder:
        journal = Path(folder) / "journal.jsonl"
        spec.journal = str(journal)
        spec_file = Path(folder) / "spec.json"
        spec_file.write_text(json.dumps(asdict(spec)))
        begin = time.monotonic()
        read_end, write_end = os.pipe()
        root = str(Path(__file__).resolve().parent.parent)
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # -W, -X, -O ...: as multiprocessing does
        child = subprocess.Popen(
            [sys.executable, *flags, "-c", LAUNCH, str(spec_file), root],
            stdout=write_end,
            stderr=write_end,
            start_new_session=True,
            env=kept,
        )
        os.close(write_end)
        pump = Pump(read_end)
        pump.start()
        ending = Ending([], None)
        with _terminated_as_interrupt():
            try:
                _wait(child, spec.timeout, journal, ending)
            except KeyboardInterrupt:
                ending.interrupted = True
                _ask_to_stop(child)
            finally:
                _end_group(child)
        pump.join(2.0)
        ending.tail = bytes(pump.tail).decode("utf-8", "replace")
        ending.records = read(journal)
        ending.seconds = time.monotonic() - begin
        return ending


def _wait(child: subprocess.Popen[bytes], timeout: float | None, journal: Path, ending: Ending) -> None:
    """Wait for the child; give up where it passes its time limit and the grace after it."""
    stages = 0
    limit = time.monotonic() + STARTUP
    size = 0
    while True:
        try:
            ending.status = child.wait(LOOK)
            return
        except subprocess.TimeoutExpired:
            pass
        grown = journal.stat().st_size if journal.exists() else 0
        if grown != size:
            size = grown
            starts = sum(1 for r in read(journal) if r.name == "stage" and r["name"] in ("run", "again"))
            if starts != stages:
                stages = starts
                limit = float("inf") if timeout is None else time.monotonic() + timeout + GRACE
        if time.monotonic() > limit:
            ending.timed_out = True
            return


def _ask_to_stop(child: subprocess.Popen[bytes]) -> None:
    """After Ctrl-C: let the child write down what it has; a second Ctrl-C ends it at once."""
    with suppress(ProcessLookupError, subprocess.TimeoutExpired, KeyboardInterrupt):
        os.kill(child.pid, STOP_SIGNAL or signal.SIGINT)
        child.wait(AFTER_INTERRUPT)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """End the child and every worker that it left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(5.0)


class _terminated_as_interrupt:
    """Inside, SIGTERM and SIGHUP count as Ctrl-C, so that the child never outlives us."""

    def __enter__(self) -> None:
        self.before = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGHUP):
                self.before[number] = signal.signal(number, self._raise)

    def __exit__(self, *exc: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    @staticmethod
    def _raise(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt
