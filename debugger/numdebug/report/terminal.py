"""The report for a person in a hurry: verdict, then for each cause the line, why, the fix, what it explains, what was ruled out."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from numdebug.evidence import Evidence, Number
from numdebug.recording import Site
from numdebug.report import formats
from numdebug.report.escape import one_line, visible
from numdebug.report.json import place
from numdebug.report.model import Diagnosis, Report

COLOURS = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}
MARGIN = 4  # spaces before everything that belongs to a diagnosis
AROUND = 2  # source lines shown before and after
LONGEST_SPAN = 6  # lines of a multi-line expression that are shown
MOST_NUMBERS = 6
LAST_OUTPUT = 8  # lines of what a failed program printed last
WIDEST_LABEL = 24  # longer labels get a line of their own

Source = Callable[[str], str | None]


def render(report: Report, source: Source, width: int = 100, colour: bool = False, notes: bool = False) -> str:
    """The report as text. `source` gives the text of a file of the program; `notes` shows hazards of severity note too."""
    out, page_ = page(width, colour)
    shown = [d for d in report.diagnoses if notes or d.severity != "note"]
    label = "" if report.verdict.startswith(report.program.path) else f"{report.program.path}: "
    page_.line(label, report.verdict.rstrip(".") + ".", style=COLOURS[shown[0].severity] if shown else "bold")
    for number, diagnosis in enumerate(shown, 1):
        page_.gap()
        _diagnosis(page_, diagnosis, f"{number}/{len(shown)} " if len(shown) > 1 else "", report.evidence, source)
    _format(page_, report)
    _footer(page_, report, len(report.diagnoses) - len(shown))
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def page(width: int, colour: bool) -> tuple[io.StringIO, Page]:
    """Where the text gathers, and what writes it."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(width, 40),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    return out, Page(console)


class Page:
    """Lines on a console: wrapped with a hanging indent, and never read as markup."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def gap(self) -> None:
        """An empty line."""
        self.console.print()

    def line(self, label: str, text: str, style: str = "", indent: int = 0, label_style: str = "") -> None:
        """`label` and wrapped `text`, continued under the start of the text."""
        first = Text(" " * indent + visible(label), style=label_style)
        if len(label) > WIDEST_LABEL:
            self.console.print(first, soft_wrap=True)
            first = Text(" " * (indent + MARGIN))
        hang = Text(" " * len(first))
        room = max(self.console.width - len(first), 20)
        for number, part in enumerate(Text(visible(text), style=style).wrap(self.console, room) or [Text()]):
            self.console.print(Text.assemble(first if number == 0 else hang, part), soft_wrap=True)

    def raw(self, text: str, style: str = "", indent: int = 0) -> None:
        """One line as it is, never wrapped: code."""
        self.console.print(Text(" " * indent + visible(text).replace("\t", "    ")), style=style, soft_wrap=True)


def _diagnosis(page: Page, d: Diagnosis, number: str, evidence: Sequence[Evidence], source: Source) -> None:
    module = f", in {d.site.module}" if d.site and d.site.module else ""
    where = f"{place(d.site)}  in {d.site.function}{module}" if d.site else "no single line"
    page.line(f"{number}{d.severity} ", f"{d.bug}: {d.title}", label_style=COLOURS[d.severity], style="bold")
    page.line("at ", where, indent=2, label_style="cyan")
    if d.site is not None:
        frame(page, d.site, source(d.site.file))
    page.line("because    ", d.because, indent=2, label_style="bold")
    for text in _numbers(d, evidence):
        page.line("           ", text, indent=2)
    page.line("confirmed  ", _confirmed(d), indent=2, label_style="bold", style="green" if d.confirmed == "yes" else "")
    if d.fix is not None:
        page.line("fix        ", d.fix.summary, indent=2, label_style="bold")
        _diff(page, d.fix.diff)
    for i, c in enumerate(d.consequences):
        at = f" at {place(c.site)}" if c.site else ""
        page.line("explains   " if i == 0 else "           ", f"{c.what}: {c.value}{at}", indent=2, label_style="bold")
    for i, r in enumerate(d.ruled_out):
        page.line("ruled out  " if i == 0 else "           ", f"{r.bug}: {r.why}", indent=2, label_style="bold")


def _format(page: Page, report: Report) -> None:
    """What `--as` asked for."""
    whole = formats.asked(report.evidence)
    if whole is None:
        return
    page.gap()
    page.line("", f"in {whole['format']}", style="bold")
    for text in formats.sentences(report.evidence):
        page.line("- ", text, indent=2)


def _confirmed(d: Diagnosis) -> str:
    word = {"yes": "yes", "no": "no", "not-tried": "not tried"}[d.confirmed]
    return f"{word}: {d.confirmed_why}" if d.confirmed_why else word


def frame(page: Page, site: Site, text: str | None) -> None:
    """The source around the site, its expression underlined at file:line:column."""
    lines = text.split("\n") if text else []
    if not 1 <= site.line <= len(lines):
        return
    last = min(site.end_line or site.line, site.line + LONGEST_SPAN - 1, len(lines))
    first = max(1, site.line - AROUND)
    end = min(len(lines), last + AROUND)
    while end > last and not lines[end - 1].strip():
        end -= 1
    gutter = len(str(end))
    for number in range(first, end + 1):
        line = lines[number - 1]
        inside = site.line <= number <= last
        page.raw(f"{'>' if inside else ' '} {number:>{gutter}} | {line}".rstrip(), style="" if inside else "dim", indent=MARGIN - 2)
        if inside and (mark := _underline(site, number, line)):
            page.raw(f"  {'':>{gutter}} | {mark}", style="bold red", indent=MARGIN - 2)


def _underline(site: Site, number: int, line: str) -> str:
    """Carets under the part of `line` that belongs to the expression; columns count characters from 1."""
    if site.column is None:
        return ""
    start = site.column - 1 if number == site.line else len(line) - len(line.lstrip())
    stop = site.end_column - 1 if site.end_column and number == (site.end_line or site.line) else len(line.rstrip())
    if not 0 <= start < len(line):
        return ""
    lead = "".join("    " if c == "\t" else " " * len(visible(c)) for c in line[:start])
    return lead + "^" * max(len(visible(line[start:stop])), 1)


def _numbers(d: Diagnosis, evidence: Sequence[Evidence]) -> list[str]:
    """The measured numbers behind the diagnosis, one line per fact, each figure once."""
    lines = []
    for fact in (e for e in evidence if e.id in d.evidence):
        numbers = [f"{k.replace('_', ' ')} {_number(n)}" for k, n in list(fact.numbers.items())[:MOST_NUMBERS]]
        if numbers:
            lines.append(f"{fact.id} {fact.kind}: " + ", ".join(numbers))
    return lines


def _number(number: Number) -> str:
    value = f"{number.value:.4g}" if isinstance(number.value, float) else str(number.value)
    return f"{value} {number.unit}" if number.unit else value


def _diff(page: Page, diff: str | None) -> None:
    if not diff:
        return
    for line in diff.rstrip("\n").split("\n"):
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        page.raw(line, style=style, indent=MARGIN)


def _footer(page: Page, report: Report, hidden: int) -> None:
    observed = report.program.observed
    page.gap()
    if observed.guessed:
        page.line("called by numdebug: ", "; ".join(observed.guessed))
    if observed.ops and report.diagnoses:
        steps = f"{observed.steps} step{'s' if observed.steps != 1 else ''}"
        page.line(
            "seen: ", f"{steps}, {observed.ops} operations; stopped because: {observed.stopped_because}", style="dim", label_style="dim"
        )
    for note in report.notes:
        if "\n" in note:
            head, *rest = visible(note).split("\n")
            page.line("note: ", head)
            for line in rest[-LAST_OUTPUT:]:
                page.raw(line, indent=2, style="dim")
        else:
            page.line("note: ", one_line(note))
    if hidden:
        page.line("note: ", f"{hidden} hazard{'s' if hidden > 1 else ''} by shape only; show with --notes")
    if report.diagnoses:
        bug = report.diagnoses[0].bug
        page.line("more: ", f"numdebug bug {bug}", style="dim", label_style="dim")
