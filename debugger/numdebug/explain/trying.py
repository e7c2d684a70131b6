"""A patch that a model suggests is run before it is called working: the program with it, under observation, against the run without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from numdebug.diagnosing import Request, diagnose
from numdebug.explain.grounding.patches import applied, files_of
from numdebug.patching import unified
from numdebug.report.model import Diagnosis, Report
from numdebug.trials import APART

FINDINGS = ("error", "warning")


def try_patch(
    patch: str, found: Diagnosis, before: Report, request: Request, source: Callable[[str], str | None]
) -> tuple[str | None, str]:
    """(the diff as it was tried, what the run showed) where it cures `found` and breaks nothing; else (None, why not).

    Cured means: run again with the patch, the program gets at least as far, shows no finding that it did not show before, and not this
    one any more; and where the report has a change that was proved, the first loss is the one that it gives, too.
    """
    (file,) = files_of(patch)  # one, as the checker saw to
    text = source(file)
    if text is None:
        return None, f"{file} is not at hand to try it"
    exact = unified(file, text, applied(patch, text))
    if not exact:
        return None, "the patch changes nothing"
    after = diagnose(replace(request, patch=exact)).report
    new = [d for d in after.diagnoses if d.severity in FINDINGS and d.bug not in {b.bug for b in before.diagnoses}]
    seen, was = after.program.observed, before.program.observed
    if any(d.bug == found.bug and _here(d, found) for d in after.diagnoses):
        return None, f"run again with it, the program still shows {found.bug}"
    if new:
        return None, f"run again with it, the program shows {new[0].bug} instead"
    if seen.first_bad_step is not None and (was.first_bad_step is None or seen.first_bad_step <= was.first_bad_step):
        return None, f"run again with it, step {seen.first_bad_step} is not finite"
    if seen.steps < was.steps or not seen.ops:
        return None, f"run again with it, the program gets through {seen.steps} steps of {was.steps}: {seen.stopped_because}"
    if "raised" in after.verdict:
        return None, after.verdict
    if found.confirmed == "yes" and found.fix is not None and found.fix.diff:
        wrong = _otherwise(after, diagnose(replace(request, patch=found.fix.diff)).report)
        if wrong:
            return None, wrong
    return exact, f"run again with this change, the program does not show {found.bug} any more in {seen.steps} steps"


def _otherwise(after: Report, proved: Report) -> str:
    """Where the program computes something else than with the report's own change, which was proved to."""
    ours, theirs = (_first_loss(report) for report in (proved, after))
    if ours is None or theirs is None:
        return "there is no loss to hold it against the report's own change by"
    if abs(ours - theirs) > APART * abs(ours):
        return f"with it the first loss is {theirs:.4g}, with the report's own change {ours:.4g}"
    return ""


def _first_loss(report: Report) -> float | None:
    found = next((e["first_loss"] for e in report.evidence if e.kind == "loss-history" and e["first_loss"] is not None), None)
    return float(found) if found is not None else None


def _here(d: Diagnosis, found: Diagnosis) -> bool:
    return d.site is None or found.site is None or (d.site.file == found.site.file and d.site.function == found.site.function)
