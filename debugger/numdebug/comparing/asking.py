"""The parent's side of `numdebug compare`: checks what is named, has it compared in a child process, and makes the report."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from numdebug.child import Spec
from numdebug.comparing.axes import AXES
from numdebug.comparing.envelope import ULPS
from numdebug.comparing.plan import Plan
from numdebug.comparing.saved import KNOWN
from numdebug.comparing.words import verdict
from numdebug.diagnosing import TIMEOUT, Outcome, Sources
from numdebug.errors import FOUND, NOTHING_SEEN, UserError
from numdebug.load import inputs, source
from numdebug.report.assemble import assemble
from numdebug.report.suppressions import Suppressions
from numdebug.running import run


@dataclass(frozen=True)
class Asked:
    """What the user wants compared."""

    target: str
    other: str | None = None
    vary: tuple[str, ...] = ()
    rows: int | None = None
    args: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    timeout: float | None = None
    ulps: float = ULPS
    rtol: float = 0.0
    atol: float = 0.0


def compare(asked: Asked) -> Outcome:
    """Run both sides and say whether rounding explains their difference. Raises UserError before anything runs."""
    for text in asked.inputs:
        inputs.parse(text)
    for axis in asked.vary:
        if axis not in AXES:
            near = difflib.get_close_matches(axis, list(AXES), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(AXES)}"
            raise UserError(f"there is no axis {axis!r} to vary; {hint}")
    if asked.other is not None and asked.vary:
        raise UserError("--vary makes two sides out of one program; leave out the second file, or --vary.")
    if is_arrays(asked.target) or (asked.other is not None and is_arrays(asked.other)):
        return _of_arrays(asked)
    first = source.read(asked.target)
    second = source.read(asked.other) if asked.other is not None else None
    if second is not None and second.path == first.path and second.name == first.name:
        raise UserError(f"both sides are {asked.target}; name another one, or vary something: numdebug compare {asked.target} --vary rows")
    if second is not None and (second.name is None) != (first.name is None):
        raise UserError(f"name what to call on both sides, or on neither: {first.given}:NAME {second.given}:NAME")
    plan = Plan(
        path=str(first.path), given=first.given, name=first.name,
        other_path=str(second.path) if second is not None else None, other_given=second.given if second is not None else None,
        other_name=second.name if second is not None else None, vary=list(asked.vary), rows=asked.rows, args=list(asked.args),
        inputs=list(asked.inputs), timeout=asked.timeout or TIMEOUT,
    )  # fmt: skip
    before = Sources(first)
    both = _Both(before, Sources(second)) if second is not None and second.path != first.path else before
    return _outcome(asked.target, plan, both)


def _of_arrays(asked: Asked) -> Outcome:
    """Two files of saved arrays. They are read in the child as well: a checkpoint needs PyTorch."""
    if asked.other is None:
        raise UserError(f"name a second file to compare {asked.target} with.")
    paths = [Path(asked.target), Path(asked.other)]
    for path in paths:
        if not is_arrays(str(path)):
            raise UserError(f"{path} is no file of saved arrays ({', '.join(KNOWN)}), which the other one is; compare like with like.")
        if not path.is_file():
            raise UserError(f"there is no file {path}; check the path (the current folder is {Path.cwd()}).")
    plan = Plan(
        path=str(paths[0].resolve()), given=asked.target, other_path=str(paths[1].resolve()), other_given=asked.other,
        timeout=asked.timeout or TIMEOUT, arrays=True, ulps=asked.ulps, rtol=asked.rtol, atol=asked.atol,
    )  # fmt: skip
    return _outcome(f"{asked.target} and {asked.other}", plan, lambda file: None)


def _outcome(title: str, plan: Plan, source_of: Callable[[str], str | None]) -> Outcome:
    ending = run(Spec(path=plan.path, given=plan.given, journal="", timeout=plan.timeout, compare=asdict(plan)))
    report, code = assemble(title, ending, lambda bug: True, Suppressions(source_of))
    if report.comparisons:
        report.verdict = verdict(report.comparisons)
        if any(not c.explained and not c.predicted for c in report.comparisons):
            code = FOUND
        elif code == FOUND or (code == NOTHING_SEEN and not ending.timed_out):
            code = 0
    elif code == 0:
        code = NOTHING_SEEN
        report.verdict = f"nothing could be compared: {report.notes[0] if report.notes else 'no output was seen'}"
    return Outcome(report, code, source_of)


class _Both:
    """Texts of files on either side."""

    def __init__(self, first: Sources, second: Sources) -> None:
        self.sources = (first, second)

    def __call__(self, file: str) -> str | None:
        return next((text for text in (s(file) for s in self.sources) if text is not None), None)


def is_arrays(path: str) -> bool:
    """Whether a path names recorded arrays rather than a program."""
    return Path(path).suffix.lower() in KNOWN
