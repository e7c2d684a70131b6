"""One diagnosis from the command line's wishes to the report: check everything, run the child, assemble what it left."""

from __future__ import annotations

import difflib
import hashlib
import os
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from numdebug import config
from numdebug.child import Spec
from numdebug.errors import UserError
from numdebug.evidence import Evidence
from numdebug.load import inputs, source
from numdebug.report.assemble import assemble, chosen
from numdebug.report.excerpts import excerpts
from numdebug.report.model import Diagnosis, Report
from numdebug.report.suppressions import Suppressions
from numdebug.running import run

TIMEOUT = 60.0  # seconds that the program may run


@dataclass(frozen=True)
class Request:
    """What the user asked for. None and empty: the configuration, then the default, decides."""

    target: str
    args: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max_steps: int | None = None
    timeout: float | None = None
    rerun: bool | None = None
    call: bool | None = None
    check_gradients: bool = False
    only_evidence: bool = False  # probe, but judge nothing
    form: str | None = None  # a narrower number format to try the step in
    patch: str | None = None  # a diff that the program runs with; its files stay as they are
    hide: tuple[str, ...] = ()  # names of environment variables that the program must not see


@dataclass(frozen=True)
class Outcome:
    """The report, the exit code, and the program's sources as they were before it ran."""

    report: Report
    exit_code: int
    source: Callable[[str], str | None]


def diagnose(request: Request) -> Outcome:
    """Run the program under observation and say what was found. Raises UserError before anything runs."""
    program = source.read(request.target)
    settings = config.load(program.folder)
    for text in request.inputs:
        inputs.parse(text)
    probes = request.probes or settings.probe
    _check("probe", probes, probe_names, "numdebug probes")
    select, ignore = request.select or settings.select, request.ignore or settings.ignore
    _check("bug", [*select, *ignore], lambda: {*families(), *families().values()}, "numdebug bugs")
    spec = Spec(
        path=str(program.path),
        given=program.given,
        journal="",
        args=list(request.args),
        name=program.name,
        inputs=list(request.inputs),
        timeout=request.timeout or settings.timeout or TIMEOUT,
        call=settings.call if request.call is None else request.call,
        options={
            "max_steps": request.max_steps or settings.max_steps,
            "probes": [*probes, *(["formats"] if request.form else [])] if probes else None,
            "as": request.form,
            "check_gradients": request.check_gradients,
            "patch": request.patch,
            "no_rerun": not (settings.rerun if request.rerun is None else request.rerun),
        },
    )
    before = Sources(program)
    ending = run(spec, request.hide)
    keep = never if request.only_evidence else chosen(select, ignore, lambda bug: families().get(bug, ""))
    report, code = assemble(program.given, ending, keep, Suppressions(before), _match)
    report.excerpts = excerpts(report, before)
    report.program.digest = digest(program.text)
    return Outcome(report, code, before)


def digest(text: str) -> str:
    """What tells one text of a file from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Sources:
    """Texts of the program's files. The main file is the one that was checked: programs may write into their own folder."""

    def __init__(self, program: source.Source) -> None:
        self._folder = program.folder
        self._texts: dict[str, str | None] = {program.path.name: program.text}

    def __call__(self, file: str) -> str | None:
        """The text of `file` (relative to the program's folder); None where it cannot be read."""
        if file not in self._texts:
            try:
                self._texts[file] = (self._folder / file).read_text(encoding="utf-8", errors="replace")
            except (OSError, ValueError):
                self._texts[file] = None
        return self._texts[file]


def never(bug: str) -> bool:
    """No diagnosis is wanted, only the evidence."""
    return False


def _match(evidence: list[Evidence]) -> list[Diagnosis]:
    match: Callable[[list[Evidence]], list[Diagnosis]] = import_module("numdebug.match").match
    return list(match(evidence))


def _check(kind: str, names: Iterable[str], known: Callable[[], Iterable[str]], listing: str) -> None:
    for name in names:
        if name not in known():
            raise unknown(kind, name, known(), listing)


def unknown(kind: str, name: str, known: Iterable[str], listing: str) -> UserError:
    """The complaint about a name that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, list(known), 1)
    hint = f"did you mean {near[0]}?" if near else f"list them with: {listing}"
    return UserError(f"there is no {kind} {name!r}; {hint}")


def probe_names() -> list[str]:
    """Names of all probes, found as files."""
    return sorted(m.name for m in pkgutil.iter_modules(import_module("numdebug.probes").__path__) if not m.name.startswith("_"))


@cache
def families() -> dict[str, str]:
    """Bug id -> family."""
    bugs = import_module("numdebug.catalogue").bugs()
    return {name: str(bug.family) for name, bug in bugs.items()}


def check_writable(file: Path, program: str | None = None) -> None:
    """Complain now about an output file that could not be written after a long run."""
    if program is not None and file.exists() and Path(program).exists() and file.samefile(program):
        raise UserError(f"-o {file} would overwrite the program itself; name another file.")
    if file.is_dir():
        raise UserError(f"-o {file} is a directory; name a file in it, for instance {file / 'report.json'}.")
    existed = file.exists()
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o666))
    except OSError as why:
        reason = why.strerror or str(why)
        raise UserError(f"-o {file} cannot be written: {reason}; name a file in an existing folder that you may write to.") from None
    if not existed:
        file.unlink(missing_ok=True)
