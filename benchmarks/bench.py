"""Costs against the budgets: ratios to a plain training step, variants alternated, thread CPU time, one thread.

    python benchmarks/bench.py [--quick]

docs/benchmarks.md says what each line means and holds the last figures.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import workloads
from workloads import Workload

from numdebug.observe import Stop
from numdebug.observe.torch.foretell import Emulator
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.replay import Replay
from numdebug.observe.torch.shadow import Shadow
from numdebug.observe.torch.torchrun import TorchRun

HERE = Path(__file__).resolve().parent
CASES = HERE.parent / "tests" / "cases"
BUDGETS = {  # what: (GPT, CNN, MLP), as ratios to a plain step
    "sentinel, alone": (0.003, 0.003, 0.05),
    "replay": (1.15, 1.15, 6.0),
    "counterfactual": (1.1, 1.1, 1.1),
    "headroom, alone": (0.25, 0.25, 2.0),
    "emulated step, float16": (1.4, 1.6, 6.0),
    "float64 shadow": (4.5, 9.0, 3.0),
}
ROUNDS = {"GPT": 6, "CNN": 3, "MLP": 10}
PROGRAM = 4.0  # seconds that a diagnosis of a small program may take beyond the program itself
HELP = 0.150  # seconds


class Silent:
    """The journal costs what it costs in a real run: a file."""

    def __init__(self) -> None:
        from numdebug.journal import Journal

        self.folder = tempfile.TemporaryDirectory()
        self.add = Journal(Path(self.folder.name) / "journal").add


def observer(traced: int) -> TorchObserver:
    """As a program gets it: recording from the start (`traced` large), or the sentinel alone after the first step (0)."""
    return TorchObserver(HERE, Silent(), {"traced": traced})


@contextmanager
def plain(work: Workload) -> Iterator[Callable[[], None]]:
    """Nothing."""
    yield work.step


@contextmanager
def recording(work: Workload) -> Iterator[Callable[[], None]]:
    """The tracer records every operation."""
    watching = observer(1 << 60)
    work.step()
    try:
        yield work.step
    finally:
        watching.finish()


@contextmanager
def sentinel(work: Workload) -> Iterator[Callable[[], None]]:
    """The tracer is off; losses and gradients are looked at."""
    watching = observer(0)
    work.step()
    assert not watching.tracing
    try:
        yield work.step
    finally:
        watching.finish()


@contextmanager
def alone(work: Workload) -> Iterator[Callable[[], None]]:
    """What the sentinel does at a step, without the step."""
    watching = observer(0)
    work.step()
    loss = work.loss()
    torch.autograd.backward(loss)
    outputs = (loss,)

    def look() -> None:
        watching.before_backward(outputs, False)
        watching.after_backward(outputs, None, False, False)
        watching.before_step(work.optimizer)
        watching.after_step(work.optimizer)

    try:
        yield look
    finally:
        watching.finish()


class AtBackward(TorchObserver):
    """Stops after the backward pass of the second step, as at a bad one."""

    def _look(self, *args: Any) -> None:
        super()._look(*args)
        if self.current.index == 1:
            raise Stop


def recorded(work: Workload) -> TorchRun:
    """Two steps, up to the second's gradients."""
    watching = AtBackward(HERE, Silent(), {"traced": 1 << 60})
    try:
        work.step()
        work.step()
    except Stop:
        watching.finish()
    return TorchRun(watching, {})


@contextmanager
def shadow(work: Workload) -> Iterator[Callable[[], None]]:
    """The recorded step's forward and backward pass in float64."""
    run = recorded(work)

    def wide() -> None:
        outcome = Shadow(run.converter, [], run.observer.losses).run()
        assert outcome.gradients

    yield wide


@contextmanager
def replay(work: Workload, rewritten: bool = False) -> Iterator[Callable[[], None]]:
    """The recorded step once more, with its gradients."""
    run = recorded(work)

    def again() -> None:
        once = Replay(run.converter, *run._roots())
        rewrites = {}
        if rewritten:  # the last log-softmax in float64
            place = max(p for p in once.needed if "log_softmax" in str(once.raws[p].func))
            rewrites[place] = lambda r, raw: torch.log_softmax(r.operand(place, 0).double(), -1).float()
        outcome = once.run(rewrites)
        assert outcome.gradients and (rewritten or outcome.same)

    yield again


@contextmanager
def counterfactual(work: Workload) -> Iterator[Callable[[], None]]:
    """The recorded step with one operation rewritten."""
    with replay(work, True) as again:
        yield again


@contextmanager
def headroom(work: Workload) -> Iterator[Callable[[], None]]:
    """The largest magnitude of every result of the recorded step."""
    run = recorded(work)
    yield lambda: None if run.largest() else sys.exit("nothing recorded")


@contextmanager
def emulated(work: Workload) -> Iterator[Callable[[], None]]:
    """The recorded step again with every number rounded to float16."""
    run = recorded(work)
    asked = Emulator(run.observer, run.converter, [], "float16")

    def again() -> None:
        outcome = asked.run()[1]
        assert outcome.gradients and outcome.finite

    yield again


@contextmanager
def anomaly(work: Workload) -> Iterator[Callable[[], None]]:
    """torch.autograd.detect_anomaly."""
    with torch.autograd.set_detect_anomaly(True):
        yield work.step


@contextmanager
def hooks(work: Workload) -> Iterator[Callable[[], None]]:
    """A forward hook on every module that asks isfinite().all()."""

    def look(module: Any, inputs: Any, output: torch.Tensor) -> None:
        if not torch.isfinite(output).all():
            raise FloatingPointError(type(module).__name__)

    handles = [m.register_forward_hook(look) for m in work.model.modules()]
    yield work.step
    for handle in handles:
        handle.remove()


@contextmanager
def debug_mode(work: Workload) -> Iterator[Callable[[], None]]:
    """torch.utils._debug_mode.DebugMode, a fresh one for each step, as it keeps every call."""
    from torch.utils._debug_mode import DebugMode

    def step() -> None:
        with DebugMode():
            work.step()

    yield step


VARIANTS: dict[str, Callable[[Workload], Any]] = {
    "plain step": plain,
    "plain step again (A/A)": plain,
    "sentinel, alone": alone,
    "sentinel, end to end": sentinel,
    "recording": recording,
    "replay": replay,
    "counterfactual": counterfactual,
    "headroom, alone": headroom,
    "emulated step, float16": emulated,
    "float64 shadow": shadow,
    "peer: anomaly mode": anomaly,
    "peer: forward hooks, isfinite": hooks,
    "peer: DebugMode": debug_mode,
}


def costs(work: Workload, rounds: int) -> dict[str, float]:
    """Seconds of thread CPU time per step, the fastest of the rounds: other programs can only make a round slower."""
    found: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(rounds + 1):  # the first one warms up
        for name, variant in VARIANTS.items():
            with variant(work) as step:
                step()
                count = work.steps * (10 if variant is alone else 1)
                begin = time.thread_time()
                for _ in range(count):
                    step()
                spent = (time.thread_time() - begin) / count
            if number:
                found[name].append(spent)
            work.optimizer.zero_grad()
    return {name: min(spent) for name, spent in found.items()}


def table(rounds: dict[str, int]) -> bool:
    """Print the ratios; whether every budget is kept."""
    made = {"GPT": workloads.gpt, "CNN": workloads.cnn, "MLP": workloads.mlp}
    columns: dict[str, dict[str, float]] = {}
    for name, count in rounds.items():
        torch.manual_seed(0)
        columns[name] = costs(made[name](), count)
    kept = True
    print(f"{'':32}" + "".join(f"{name:>26}" for name in columns))
    for variant in VARIANTS:
        line = f"{variant:32}"
        for workload, spent in columns.items():
            ratio = spent[variant] / spent["plain step"]
            budget = BUDGETS[variant][list(ROUNDS).index(workload)] if variant in BUDGETS else None
            if variant == "plain step":
                text = f"{spent[variant] * 1e3:.2f} ms"
            elif variant == "sentinel, alone":
                text = f"{ratio:.2%}"
            else:
                text = f"{ratio:.3f}x"
            if budget is not None:
                good = ratio <= budget
                kept &= good
                text += f" ({'≤' if good else 'MISSED:'} {f'{budget:.1%}' if variant == 'sentinel, alone' else f'{budget:g}x'})"
            line += f"{text:>26}"
        print(line, flush=True)
    return kept


def seconds(command: list[str], folder: Path) -> tuple[float, float]:
    """(wall, CPU of the whole process tree) of one call."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_up(tries: int) -> bool:
    """`numdebug --help`: time and what it imports."""
    command = [sys.executable, "-m", "numdebug", "--help"]
    wall, cpu = (min(s) for s in zip(*(seconds(command, HERE) for _ in range(tries)), strict=True))
    bare, _ = (min(s) for s in zip(*(seconds([sys.executable, "-c", ""], HERE) for _ in range(tries)), strict=True))
    code = "import sys\nfrom numdebug.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint(*sys.modules, file=sys.stderr)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
    heavy = sorted({"torch", "jax", "keras", "tensorflow", "numpy", "rich", "jinja2"} & set(modules))
    good = wall <= HELP and not {"torch", "jax", "keras"} & set(heavy)
    print(
        f"\nnumdebug --help: {wall * 1e3:.0f} ms, {cpu * 1e3:.0f} ms of CPU (≤ {HELP * 1e3:.0f} ms; python alone {bare * 1e3:.0f} ms);"
        f" {len(modules)} modules, of the heavy ones: {', '.join(heavy) or 'none'}"
    )
    return good


def programs(count: int) -> bool:
    """A whole diagnosis against the program alone."""
    folders = sorted(f for f in CASES.iterdir() if (f / "model.py").is_file())
    folders = folders[:: max(1, len(folders) // count)][:count]
    beyond: list[tuple[float, float]] = []
    for folder in folders:
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "model.py"
            path.write_bytes((folder / "model.py").read_bytes())
            alone_wall, alone_cpu = seconds([sys.executable, "model.py"], Path(scratch))
            wall, cpu = seconds([sys.executable, "-m", "numdebug", "diagnose", "model.py"], Path(scratch))
            beyond.append((wall - alone_wall, cpu - alone_cpu))
    walls, cpus = zip(*beyond, strict=True)
    median = statistics.median(walls)
    print(
        f"diagnose beyond the plain run, {len(beyond)} small programs: median {median:.2f} s, largest {max(walls):.2f} s (≤ {PROGRAM:g} s);"
        f" CPU median {statistics.median(cpus):.2f} s, largest {max(cpus):.2f} s"
    )
    return median <= PROGRAM


def main() -> int:
    """Everything; 0 where all budgets are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, about a minute")
    parser.add_argument("--only", choices=["steps", "programs"], help="one half alone")
    parser.add_argument("--workload", choices=["GPT", "CNN", "MLP"], action="append", help="these alone")
    arguments = parser.parse_args()
    begin = time.monotonic()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    rounds = dict(zip(ROUNDS, (2, 1, 4), strict=True)) if arguments.quick else ROUNDS
    if arguments.workload:
        rounds = {name: rounds[name] for name in rounds if name in arguments.workload}
    kept = [True]
    if arguments.only != "programs":
        kept.append(table(rounds))
    if arguments.only != "steps":
        kept += [start_up(3 if arguments.quick else 9), programs(3 if arguments.quick else 8)]
    print(f"\n{time.monotonic() - begin:.0f} s; {'all budgets kept' if all(kept) else 'a budget was missed'}")
    return int(not all(kept))


if __name__ == "__main__":
    sys.exit(main())
