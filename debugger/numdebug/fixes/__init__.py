"""A repair, written into the user's source as a unified diff.

`write_diff` reads the files that the repair's sites name and nothing else: no user code runs, no framework is
imported. Each form of repair has its writer in one of this package's modules; whatever a writer is not sure of it
refuses, because no diff is better than a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from numdebug.fixes import (  # noqa: F401  (each adds its writers to FORMS)
    arguments,
    branches,
    clipping,
    data,
    derivatives,
    evaluation,
    exponentials,
    formats,
    log_of_sigmoid,
    log_of_softmax,
    magnitudes,
    precision,
    products,
    rearranged,
    repeatable,
    settings,
    spelling,
    training,
)
from numdebug.fixes.job import FORMS, Job
from numdebug.fixes.source import Refused, Source
from numdebug.report.model import Repair

__all__ = ["framework_of", "write_diff", "write_together"]


def write_diff(repair: Repair, folder: Path) -> str | None:
    """The repair as a diff that `git apply` takes in `folder`; None where it cannot be written safely.

    The text keeps the file's own line ends: write it with `newline=""`.
    """
    try:
        return build(repair, folder)
    except Refused:
        return None
    except Exception:  # a source that no writer foresaw: still no reason to lose the report
        return None


def write_together(repairs: Sequence[Repair], folder: Path) -> str | None:
    """Several repairs as one diff; None where one of them cannot be written, or where two change the same text."""
    try:
        first = Job(repairs[0], folder)
        for repair in repairs:
            FORMS[repair.form](first.beside(repair))
        return first.diff()
    except Exception:  # as in write_diff
        return None


def framework_of(path: Path) -> str | None:
    """torch, jax, keras or numpy: whose words a file is written in; None where it cannot be told."""
    try:
        return spelling.framework(Source(path, path.name)).framework
    except (Refused, OSError, SyntaxError, ValueError):
        return None


def build(repair: Repair, folder: Path) -> str:
    """As `write_diff`, but says why not."""
    writer = FORMS.get(repair.form)
    if writer is None:
        raise Refused(f"no way to write {repair.form}")
    job = Job(repair, folder)
    writer(job)
    return job.diff()
