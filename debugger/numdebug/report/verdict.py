"""The one sentence on top of every report."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from numdebug.report import formats
from numdebug.report.model import Diagnosis, Observed, Report

PACKAGES = {  # module name -> what to install, where the two differ
    "sklearn": "scikit-learn",
    "cv2": "opencv-python",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "skimage": "scikit-image",
    "bs4": "beautifulsoup4",
    "torch_geometric": "torch-geometric",
    "pytorch_lightning": "lightning",
    "dateutil": "python-dateutil",
    "Bio": "biopython",
}


@dataclass(frozen=True)
class Fate:
    """How the program ended: returned, stopped, exit, raised, hung, killed, left or interrupted."""

    how: str
    why: str = ""
    raised: dict[str, Any] | None = None
    ours: bool = False  # numdebug itself failed
    seen: bool = True  # a forward or backward pass, or, in a program without a model, any operation
    models: tuple[str, ...] = ()  # what could have been called, had there been inputs
    unusable: str = ""  # why what the user named cannot be run
    notes: tuple[str, ...] = ()


def sentence(report: Report, fate: Fate) -> str:
    """What was found, or what was seen without a finding, or why nothing could be seen and what to do."""
    found = [d for d in report.diagnoses if d.severity != "note"]
    if found:
        return f"{counts(found)}: {headline(found[0], report.program.observed.first_bad_step)}."
    observed = report.program.observed
    name = report.program.path
    if not fate.seen:
        return nothing_seen(name, fate)
    if failed(report):
        return unexplained(report)
    text = f"nothing found in {seen(observed)}{formats.headline(report.evidence)}"
    if fate.ours:
        return f"{text}, but numdebug met an error of its own"
    if fate.how == "raised" and fate.raised:
        return f"{text}, but {raised_words(name, fate.raised)}"
    if fate.how in ("hung", "killed", "left", "exit"):
        return f"{text}, but {fate.why}"
    if fate.how in ("stopped", "interrupted") and fate.why:
        return f"{text} ({observed.stopped_because})"
    return text


def failed(report: Report) -> bool:
    """A loss, gradient or parameter was not finite, whether or not a finding explains it."""
    symptoms = [str(e["what"]) for e in report.evidence if e.kind == "symptom"]
    harmful = not symptoms or any(not what.startswith("output") for what in symptoms)
    return harmful and report.program.observed.first_bad_step is not None


def unexplained(report: Report) -> str:
    """The numbers went wrong and there is no finding to show: say what is known."""
    step = report.program.observed.first_bad_step
    seen_as = [f"the {e['what']} is {_spelled(str(e['value']))}" for e in report.evidence if e.kind == "symptom"]
    since = f"{seen_as[0] if seen_as else 'a loss or gradient is not finite'} from step {step} on"
    left_out = [note for note in report.notes if "left out" in note or "ignored" in note]
    if left_out:
        return f"{since}; the findings were left out as asked"
    born = next((e for e in report.evidence if e.kind == "nonfinite-birth" and e.site is not None), None)
    if born is None or born.site is None:
        return f"{since}, but that step could not be recorded: seed the program so that a second run repeats it, and allow one"
    return f"{since}, first made at {born.site.file}:{born.site.line} ({born['op']}: {born['born']}), but no known bug explains it"


def counts(found: list[Diagnosis]) -> str:
    """`1 error`, `2 errors and 1 warning`."""
    parts = []
    for severity in ("error", "warning"):
        number = sum(d.severity == severity for d in found)
        if number:
            parts.append(f"{number} {severity}{'s' if number > 1 else ''}")
    return " and ".join(parts)


def headline(diagnosis: Diagnosis, step: int | None) -> str:
    """Symptom, cause and line of the first diagnosis."""
    site = diagnosis.site
    where = f" ({site.file}:{site.line})" if site else ""
    symptom = next((f"the {c.what} is {_spelled(c.value)}" for c in diagnosis.consequences), "")
    step = step if step is not None or site is None else site.step
    if symptom and step:
        symptom += f" from step {step} on"
    return f"{symptom}, because of {_article(diagnosis.title)}{where}" if symptom else f"{diagnosis.title}{where}"


def _spelled(value: str) -> str:
    return "NaN" if value.lower() == "nan" else value


def _article(title: str) -> str:
    return title.rstrip(".")


def seen(observed: Observed) -> str:
    """`3 steps (412 operations)`."""
    steps = max(observed.steps, 1)
    return f"{steps} step{'s' if steps > 1 else ''} ({observed.ops} operation{'s' if observed.ops != 1 else ''})"


def nothing_seen(name: str, fate: Fate) -> str:
    """Exit 4: why nothing could be observed, and what to do now."""
    if fate.how == "raised" and fate.raised:
        missing = fate.raised.get("missing")
        if missing:
            top = str(missing).split(".")[0]
            return f"{name} needs the module {missing}, which is not installed here; install it with: pip install {PACKAGES.get(top, top)}"
        return raised_words(name, fate.raised, " before a forward or backward pass was seen; mend that first")
    if fate.ours:
        return f"{name} could not be observed, because numdebug met an error of its own"
    if fate.how == "stopped":
        return f"{name} was stopped before a forward or backward pass was seen: {fate.why}; give it more time with --timeout"
    if fate.how == "hung":
        return f"{name} ran into the time limit before a forward or backward pass was seen: {fate.why}; give it more time with --timeout"
    if fate.how == "interrupted":
        return f"{name} was interrupted before a forward or backward pass was seen"
    if fate.how == "exit":
        hint = "; arguments for it go after `--`" if fate.why.endswith("(2)") else ""
        return f"{name} ended before a forward or backward pass was seen: {fate.why}{hint}"
    if fate.how in ("killed", "left"):
        return f"{name} ended before a forward or backward pass was seen: {fate.why}"
    if fate.unusable:
        return f"{name} ran, but {fate.unusable}"
    if fate.models:
        model = fate.models[0]
        return (
            f"{name} ran to its end without a forward or a backward pass: it defines {model} but nothing that {model} can be called with; "
            f"describe an input: numdebug diagnose {name}:{model} --input 'x=float32[8,3,32,32]'"
        )
    return (
        f"{name} ran to its end without a forward or a backward pass, and no function in it can be called with what the file defines; "
        f"say what to run: numdebug diagnose {name}:NAME --input 'x=float32[8,3,32,32]'"
    )


def raised_words(name: str, raised: dict[str, Any], more: str = "") -> str:
    """`model.py raised ValueError at line 12: bad shape`; `more` stands before the program's own words."""
    site = raised.get("site")
    where = ""
    if site:
        where = f" at line {site['line']}" if name.endswith(site["file"]) else f" at {site['file']}:{site['line']}"
    message = f": {raised['message']}" if raised.get("message") else ""
    return f"{name} raised {raised['type']}{where}{more}{message}"


def signal_words(number: int) -> str:
    """What a fatal signal usually means."""
    names = {
        signal.SIGKILL: "it was killed (SIGKILL; often the system ran out of memory)",
        signal.SIGSEGV: "it crashed with a segmentation fault (SIGSEGV) in native code",
        signal.SIGABRT: "it was aborted by native code (SIGABRT)",
    }
    try:
        return names.get(signal.Signals(number), f"it was ended by {signal.Signals(number).name}")
    except ValueError:
        return f"it was ended by signal {number}"


def status_words(status: int) -> str:
    """An exit status as subprocess gives it."""
    return signal_words(-status) if status < 0 else f"exit status {status}"
