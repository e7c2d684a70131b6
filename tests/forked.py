"""Diagnose many programs fast: a process that has imported their framework once forks a child for each of them.

Everything else is as in a real run: the child's code, its journal, the time limit, and a parent that knows no framework.
The process that forks never computes anything itself, because threads do not survive a fork.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from unittest import mock

from numdebug.child import Spec
from numdebug.diagnosing import Outcome, Request, diagnose
from numdebug.journal import read
from numdebug.patching import patched
from numdebug.running import Ending

LIMIT = 90.0  # seconds for one program and its analysis; real runs have limits of their own, which tests/test_cli.py tries


# dynamo: the first optimizer would import it. JAX starts its threads with the first array, which is made in the child.
TORCH = ("torch._dynamo", "numdebug.observe.torch.observer")
ARRAYS = ("jax", "optax", "equinox", "keras", "numdebug.observe.jax.observer")
NUMPY = ("numdebug.observe.arrays.arrayrun",)  # its observer stands back where another framework is imported


@contextmanager
def forking(modules: tuple[str, ...] = TORCH) -> Iterator[Callable[..., Outcome]]:
    """A function that diagnoses one file."""
    server = subprocess.Popen(
        [sys.executable, __file__, *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )

    def run(spec: Spec, hide: tuple[str, ...] = ()) -> Ending:
        with tempfile.TemporaryDirectory(prefix="numdebug-", ignore_cleanup_errors=True) as folder:
            spec.journal = f"{folder}/journal.jsonl"
            (Path(folder) / "spec.json").write_text(json.dumps(asdict(spec)))
            begin = time.monotonic()
            print(f"{folder}/spec.json", file=server.stdin, flush=True)
            status = json.loads(server.stdout.readline())
            return Ending(read(Path(spec.journal)), status, timed_out=status is None, seconds=time.monotonic() - begin)

    def diagnose_forked(path: Path, form: str | None = None) -> Outcome:
        with mock.patch("numdebug.diagnosing.run", run):
            return diagnose(Request(str(path), form=form))

    try:
        yield diagnose_forked
    finally:
        server.stdin.close()
        server.wait()


def loud(outcome: Outcome) -> list[tuple[str, int | None]]:
    """(bug, line) of every error and warning, errors first."""
    found = sorted((d for d in outcome.report.diagnoses if d.severity != "note"), key=lambda d: d.severity != "error")
    return [(d.bug, d.site.line if d.site is not None else None) for d in found]


def silent(outcome: Outcome) -> bool:
    """Nothing found, in a program that was really watched."""
    return outcome.exit_code == 0 and not loud(outcome) and outcome.report.program.observed.ops > 0


def apply(diff: str, folder: Path) -> None:
    """Write a diff into the program's folder."""
    for path, text in patched(diff, folder).items():
        path.write_text(text, newline="")


def _serve() -> None:
    """Fork a child for each spec that stdin names, and answer with its exit status."""
    for name in ("numpy", *sys.argv[1:], "numdebug.pipeline"):
        import_module(name)
    import_module("numdebug.catalogue").bugs()
    import_module("numdebug.probing").probes()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                _child(line.strip())
            finally:
                os._exit(1)
        print(json.dumps(_wait(pid)), flush=True)


def _child(spec: str) -> None:
    from numdebug.child import main

    os.setpgid(0, 0)
    os.chdir(Path(json.loads(Path(spec).read_text())["path"]).parent)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    main(spec)
    os._exit(0)


def _wait(pid: int) -> int | None:
    """The exit status; None where the limit passed. Workers that the program left behind end with it."""
    limit = time.monotonic() + LIMIT
    status: int | None = None
    while time.monotonic() < limit:
        done, raw = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(raw)
            break
        time.sleep(0.01)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
    return status


if __name__ == "__main__":
    _serve()
