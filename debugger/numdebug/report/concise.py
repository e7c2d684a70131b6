"""One line per diagnosis: `path:line:col: error bug-id message`, as compilers and editors write them."""

from __future__ import annotations

from numdebug.report.escape import one_line
from numdebug.report.model import Report


def render(report: Report) -> str:
    """The report as lines; the verdict alone where nothing was found."""
    lines = []
    for d in report.diagnoses:
        file, line, column = (d.site.file, d.site.line, d.site.column or 1) if d.site else (report.program.path, 1, 1)
        lines.append(one_line(f"{file}:{line}:{column}: {d.severity} {d.bug} {d.because or d.title}"))
    if not lines:
        lines.append(one_line(f"{report.program.path}: {report.verdict}"))
    return "\n".join(lines) + "\n"
