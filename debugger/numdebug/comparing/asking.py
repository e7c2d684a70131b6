"""The parent's side of `numdebug compare`: checks what is named, has it compared in a child process, and makes the report."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from pathlib import Path

from numdebug.child import Spec
from numdebug.comparing.axes import AXES
from numdebug.comparing.running import Plan
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
    ending = run(Spec(path=plan.path, given=plan.given, journal="", timeout=plan.timeout, compare=asdict(plan)))
    before = Sources(first)
    report, code = assemble(asked.target, ending, lambda bug: True, Suppressions(before))
    if report.comparisons:
        report.verdict = verdict(report.comparisons)
        if any(not c.explained and not c.predicted for c in report.comparisons):
            code = FOUND
        elif code in (0, FOUND, NOTHING_SEEN):
            code = 0 if code != NOTHING_SEEN or not ending.timed_out else NOTHING_SEEN
    return Outcome(report, code, _Both(before, Sources(second)) if second is not None and second.path != first.path else before)


class _Both:
    """Texts of files on either side."""

    def __init__(self, first: Sources, second: Sources) -> None:
        self.sources = (first, second)

    def __call__(self, file: str) -> str | None:
        return next((text for text in (s(file) for s in self.sources) if text is not None), None)


def is_arrays(path: str) -> bool:
    """Whether a path names recorded arrays rather than a program."""
    return Path(path).suffix in (".npz", ".npy", ".safetensors", ".pt", ".pth", ".ckpt", ".bin")
