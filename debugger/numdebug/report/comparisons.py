"""A comparison for a person: the verdict, a line for each way, where they part, what to allow in a test."""

from __future__ import annotations

import math
from collections.abc import Callable

from numdebug.report.json import place
from numdebug.report.model import Apart, Comparison, Report
from numdebug.report.terminal import Page, frame, page

SHORT = {
    "identical": "identical", "rounding-difference": "rounding", "reduced-precision-matmul": "narrower products",
    "dtype-mismatch": "formats", "nondeterminism": "nondeterminism", "train-eval-mismatch": "train/eval", "compiler-rewrite": "compiler",
    "flush-to-zero": "flushed to 0", "real-difference": "REAL",
}  # fmt: skip


def render(report: Report, source: Callable[[str], str | None], width: int = 100, colour: bool = False) -> str:
    """The report as text."""
    out, lines = page(width, colour)
    real = [c for c in report.comparisons if not c.explained and not c.predicted]
    lines.line(f"{report.program.path}: ", report.verdict.rstrip(".") + ".", style="bold red" if real else "bold")
    lines.gap()
    for c in report.comparisons:
        _row(lines, c)
    for c in report.comparisons:
        if c.apart is not None and not c.explained:
            lines.gap()
            _parted(lines, c, c.apart, source)
    every = [c for c in report.comparisons if c.tolerance is not None and (c.axis not in ("tf32", "tf32-truncated"))]
    told = [c for c in every if not c.predicted] or every
    if told and not real:
        widest = max(told, key=lambda c: (c.tolerance.atol, c.tolerance.rtol) if c.tolerance is not None else (0.0, 0.0))
        assert widest.tolerance is not None
        lines.gap()
        lines.line("in a test: ", widest.tolerance.assertion, label_style="bold")
        lines.line("           ", widest.tolerance.why, style="dim")
    if report.program.observed.guessed or report.notes:
        lines.gap()
    if report.program.observed.guessed:
        lines.line("called: ", "; ".join(report.program.observed.guessed))
    for note in report.notes:
        lines.line("note: ", note)
    found = next((c.explanation for c in real or report.comparisons if c.explanation != "identical"), None)
    if found:
        lines.line("more: ", f"numdebug bug {found}", style="dim", label_style="dim")
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _row(lines: Page, c: Comparison) -> None:
    ways = f"{c.a} | {c.b}"
    label = f"{SHORT.get(c.explanation, c.explanation):<18} "
    lines.line(label, ways + (" (predicted)" if c.predicted else ""), indent=2, label_style="bold")
    if c.explanation == "identical":
        lines.line(" " * 21, c.because, style="dim")
        return
    most = f"{c.largest:.3g} ({c.ulps:.2g} ulp of {c.format})"
    figures = f"{c.output}: {c.differing} of {c.size} elements differ, by up to {most}"
    if math.isfinite(c.ratio) and c.envelope:
        figures += f"; rounding explains {c.envelope:.2g}, ratio {c.ratio:.2g}"
    lines.line(" " * 21, figures)
    lines.line(" " * 21, c.because)
    if c.explained and c.first:
        lines.line(" " * 21, f"first: {c.first}")
    if c.removed_by:
        lines.line(" " * 21, f"goes with: {', '.join(c.removed_by)}")


def _parted(lines: Page, c: Comparison, apart: Apart, source: Callable[[str], str | None]) -> None:
    lines.line("they part at ", f"{apart.op}: {apart.what}", label_style="bold")
    for label, site in ((c.a, apart.site_a), (c.b, apart.site_b)):
        if site is not None:
            lines.line("at ", f"{place(site)}  in {site.function} ({label})", indent=2, label_style="cyan")
            frame(lines, site, source(site.file))
    if apart.after:
        how = f"its operands agree to {apart.before:.2g} of what rounding explains, its result to {apart.after:.3g} times that"
        lines.line("because    ", how, indent=2)
    if apart.proof:
        lines.line("confirmed  " if apart.confirmed else "tried      ", apart.proof, indent=2, style="green" if apart.confirmed else "")
