"""Everything that a user can get wrong, and every way in which a program can end: one sentence and the right exit code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

BAD = Path(__file__).parent / "bad"

# program and arguments, exit code, what the sentence must say
BEFORE_RUNNING = [
    (["nope.py"], ["no file nope.py", "check the path"]),
    (["."], ["is a directory", "name the Python file"]),
    (["syntax_error.py"], ["syntax_error.py:1:12", "never closed"]),
    (["binary.py"], ["not a Python file", "binary"]),
    (["latin.py"], ["not a Python file"]),
    (["notebook.ipynb"], ["notebook", "nbconvert"]),
    (["no_model.py:forward"], ["defines no forward", "area"]),
    (["no_model.py", "--input", "x=float32"], ["'x=float32'", "NAME=DTYPE[SHAPE]"]),
    (["no_model.py", "--input", "x=floot[3]"], ["no dtype", "float32"]),
    (["no_model.py", "--input", "x=float32[3]<5"], ["only integers"]),
    (["no_model.py", "--input", "x=float32[99999,99999]"], ["elements"]),
    (["no_model.py", "--probe", "nonfinit"], ["no probe 'nonfinit'", "nonfinite"]),
    (["no_model.py", "--select", "log-of-softmin"], ["no bug 'log-of-softmin'", "log-of-softmax"]),
    (["no_model.py", "--timeout", "0"], ["--timeout"]),
    (["no_model.py", "--format", "pdf"], ["pdf"]),
    (["no_model.py", "-o", "nowhere/report.json"], ["nowhere/report.json", "cannot be written", "existing folder"]),
    (["no_model.py", "-o", "."], ["is a directory", "report.json"]),
    (["no_model.py", "-o", "no_model.py"], ["overwrite the program"]),
]

AFTER_RUNNING = [
    (["no_model.py"], ["without a forward or a backward pass", "no_model.py:NAME", "--input"]),
    (["no_inputs.py"], ["defines model but nothing", "no_inputs.py:model --input"]),
    (["no_inputs.py:model", "--input", "x=float32[2,5]"], ["model(x) cannot be called", "shapes", "--input"]),
    (["missing_dependency.py"], ["needs the module a_package_that_nobody_has", "pip install a_package_that_nobody_has"]),
    (["raises.py"], ["raised ValueError at line 4", "is empty"]),
    (["exits.py"], ["sys.exit", "no checkpoint found"]),
    (["leaves.py"], ["ended its own process with status 7"]),
    (["killed.py"], ["SIGKILL", "memory"]),
    (["segfaults.py"], ["SIGSEGV"]),
    (["sleeps.py", "--timeout", "0.5"], ["time limit of 0.5 s", "--timeout"]),
    (["spins.py", "--timeout", "0.5"], ["time limit", "--timeout"]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the bad programs, and a few that cannot lie in a repository."""
    there = tmp_path / "programs"
    shutil.copytree(BAD, there)
    (there / "binary.py").write_bytes(b"\x7fELF\0\0\1")
    (there / "latin.py").write_bytes(b'name = "M\xfcller"\n')
    (there / "notebook.ipynb").write_text("{}")
    return there


def named(case: object) -> str:
    return " ".join(case) if isinstance(case, list) and case and ("." in case[0]) else ""


@pytest.mark.parametrize(("args", "parts"), BEFORE_RUNNING, ids=named)
def test_wrong_usage_is_one_sentence_before_anything_runs(numdebug, folder, args, parts):
    said = numdebug("diagnose", *args, cwd=folder)
    assert said.code == 2
    assert said.out == ""
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err
    assert "nothing to see" not in said.err  # what the program would have printed


@pytest.mark.parametrize(("args", "parts"), AFTER_RUNNING, ids=named)
def test_a_program_that_shows_nothing_is_exit_4_with_a_report(numdebug, folder, schema, args, parts):
    said = numdebug("diagnose", *args, "--format", "json", cwd=folder)
    assert said.code == 4, said.err
    schema.validate(said.report)
    for part in parts:
        assert part in said.report["verdict"]
    assert said.report["program"]["path"] == args[0].split(":")[0]


def test_an_unreadable_file(numdebug, folder):
    if os.geteuid() == 0:
        (folder / "link.py").symlink_to("link.py")  # root may read everything but a loop
    else:
        (folder / "link.py").write_text("")
        (folder / "link.py").chmod(0)
    said = numdebug("diagnose", "link.py", cwd=folder)
    assert said.code == 2
    assert "link.py cannot be read" in said.err


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[tool.numdebug]\ntimout = 3\n", "did you mean timeout?"),
        ("[tool.numdebug]\ntimeout = 'long'\n", "positive number"),
        ("[tool.numdebug]\nselect = 'range'\n", "list of strings"),
        ("[tool.numdebug\n", "cannot be read as configuration"),
        ("[tool.numdebug]\nignore = ['no-such-bug']\n", "no bug 'no-such-bug'"),
    ],
)
def test_a_bad_configuration(numdebug, folder, text, part):
    (folder / "pyproject.toml").write_text(text)
    said = numdebug("diagnose", "no_model.py", cwd=folder)
    assert said.code == 2
    assert part in said.err


def test_unknown_names_in_the_other_commands(numdebug):
    assert numdebug("bug", "log-of-softmux").code == 2
    assert "did you mean log-of-softmax?" in numdebug("bug", "log-of-softmux").err
    assert numdebug("probe", "nothing", "x.py").code == 2
    assert numdebug("prompt", "render", "nope.json").code == 2


def test_a_program_that_only_the_grace_period_ends(numdebug, folder, monkeypatch):
    said = numdebug("diagnose", "ignores_interrupts.py", "--timeout", "0.5", cwd=folder)
    assert said.code == 4
    assert "did not react to the time limit" in said.out.replace("\n", " ")


def test_what_was_seen_before_a_hang_is_reported(numdebug, folder, schema):
    said = numdebug("diagnose", "trains_then_sleeps.py", "--timeout", "8", "--format", "json", cwd=folder)
    schema.validate(said.report)
    assert said.report["program"]["observed"]["steps"] == 3
    assert "time limit" in said.report["program"]["observed"]["stopped_because"]
    assert said.code == 0


def test_output_without_end_is_cut_and_stdout_holds_the_report_alone(numdebug, folder):
    said = numdebug("diagnose", "prints_gigabytes.py", "--format", "json", cwd=folder)
    assert said.code == 0
    assert said.report["diagnoses"] == []
    assert 16 * 2**20 <= len(said.err) < 18 * 2**20
    assert "further output is not shown" in said.err


def test_a_program_may_write_into_its_folder_and_over_itself(numdebug, folder):
    said = numdebug("diagnose", "writes_own_folder.py", cwd=folder)
    assert said.code == 0
    assert (folder / "log.txt").read_text() == "trained\n"


def test_workers_end_with_the_program(numdebug, folder):
    said = numdebug("diagnose", "leaves_a_worker.py", cwd=folder)
    worker = int(said.err.split("worker ")[1].split()[0])
    assert said.code == 0
    assert gone(worker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_still_gives_a_report(folder, number):
    (folder / "announces.py").write_text("import os, time\nprint('pid', os.getpid(), flush=True)\ntime.sleep(3600)\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "numdebug", "diagnose", "announces.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        child = int(run.stderr.readline().split()[1])
        run.send_signal(number)
        out, err = run.communicate(timeout=30)
    finally:
        run.kill()
    assert run.returncode == 130, err
    assert "announces.py was interrupted" in out
    assert gone(child)


def gone(pid: int) -> bool:
    """Whether the process has ended, within a second."""
    for _ in range(20):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
