"""`numdebug explain` and `numdebug ask`, and the options that they share with `diagnose --explain`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numdebug import console
from numdebug.console import complain
from numdebug.errors import UserError

if TYPE_CHECKING:
    from numdebug.diagnosing import Outcome, Request
    from numdebug.explain.claims import Claim
    from numdebug.explain.explaining import Explanation
    from numdebug.explain.session import Session, Wish
    from numdebug.report.model import Report

OWN = "the explanation above is numdebug's own"
REPORT = click.argument("report", type=click.Path(path_type=Path), metavar="REPORT.json")


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which model is asked, and what it is sent."""
    options = (
        click.option("--model", metavar="NAME", help="The model to ask (or NUMDEBUG_MODEL, or your configuration file)."),
        click.option("--base-url", metavar="URL", help="An OpenAI-compatible server, for instance http://localhost:8080/v1."),
        click.option("--api-key", metavar="KEY", help="Its key; better in NUMDEBUG_API_KEY. A server on this machine needs none."),
        click.option("--language", metavar="CODE", help="en, hi, de, zh, ...; without a model en and hi."),
        click.option(
            "--prompt",
            "prompt_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A template of your own; see numdebug prompt show.",
        ),
        click.option("--no-source", is_flag=True, help="Send no line of the program."),
        click.option("--dry-run", is_flag=True, help="Print the exact request and its size in tokens, and send nothing."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def wish(
    model: str | None,
    base_url: str | None,
    api_key: str | None,
    language: str | None,
    prompt_file: Path | None,
    no_source: bool,
    dry_run: bool,
    **more: Any,
) -> Wish:
    """The shared options as a wish. Raises UserError for a template that cannot be read."""
    from numdebug import prompting
    from numdebug.explain.session import Wish
    from numdebug.explain.settings import Flags

    prompt = prompting.prompt(file=prompt_file) if prompt_file is not None else None
    more["commands"] = options_of(click.get_current_context().find_root().command)
    return Wish(Flags(base_url, model, api_key), language, prompt, not no_source, dry_run, **more)


def options_of(command: click.Command, prefix: str = "") -> dict[str, set[str]]:
    """The commands of a command line with their options, without dashes."""
    found: dict[str, set[str]] = {}
    for name, inner in getattr(command, "commands", {}).items():
        found[f"{prefix}{name}"] = {o.lstrip("-") for p in inner.params for o in (*p.opts, *p.secondary_opts)} | {"help", "h"}
        found |= options_of(inner, f"{prefix}{name} ")
    return found


@click.command()
@REPORT
@model_options
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(report: Path, form: str, **options: Any) -> int:
    """Explain a JSON report in plain words: what happened, in which order, why, how to fix it, how to check that.

    Works offline. With a server and a model named, the model writes the explanation, and every statement of it is checked against the
    report; what the report does not back is removed. Nothing of the program is run.
    """
    from numdebug.explain.session import Session

    read, source = load(report)
    if changed(read, report):
        complain(f"{read.program.path} is not what it was when this report was made: lines and diffs may not fit it any more")
    return spoken(Session(read, source, wish(**options), complain), form)


@click.command()
@REPORT
@click.argument("question")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@model_options
@click.option("--rounds", type=click.IntRange(min=0, max=10), default=3, show_default=True, help="How often the model may ask for probes.")
@click.option("--no-rerun", is_flag=True, help="Never run the program: the model may ask for no probes.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report with the new evidence there.")
def ask(
    report: Path, question: str, args: tuple[str, ...], rounds: int, no_rerun: bool, form: str, output: Path | None, **options: Any
) -> int:
    """Ask a model about a JSON report: numdebug ask report.json "why not bfloat16?"

    The same rules hold: only what the report backs is shown. The model may ask for probes by name; they run the program here, and what
    they find is evidence of the report (-o keeps it).
    """
    from numdebug import diagnosing
    from numdebug.explain.session import Session

    if not question.strip():
        raise UserError('the question is empty; ask something, for instance: numdebug ask report.json "why not bfloat16?"')
    if output is not None:
        diagnosing.check_writable(output)
    read, source = load(report)
    program = None if no_rerun else program_of(read, report, args)
    if program is None and rounds and not no_rerun:
        complain(f"{read.program.path} is not at hand or has changed since; the model may ask for no probes")
    session = Session(read, source, wish(**options, question=question, rounds=rounds if program is not None else 0), complain, program)
    code = spoken(session, form)
    if output is not None:
        from numdebug.report import json as published

        output.write_text(published.render(session.report), encoding="utf-8")
    return code


@click.group()
def prompt() -> None:
    """Texts made of a report offline: the prompt for a language model, a summary, a comment, a commit message. Nothing is sent anywhere."""


@prompt.command("list")
def prompt_list() -> None:
    """List the templates."""
    from numdebug import prompting

    _out("".join(f"{name}\n" for name in prompting.names()))


@prompt.command("show")
@click.argument("name", required=False)
def prompt_show(name: str | None) -> None:
    """Print a template: the prompt's, or the one called NAME."""
    from numdebug import prompting

    _out(prompting.template(name or prompting.TEMPLATE))


@prompt.command("render")
@click.argument("report", type=click.Path(path_type=Path), metavar="[REPORT.json]", required=False)
@click.option("--template", metavar="NAME", help="One of numdebug prompt list; without it, the prompt.")
@click.option("--prompt", "prompt_file", type=click.Path(path_type=Path), metavar="FILE", help="A template of your own.")
@click.option("--no-source", is_flag=True, help="Leave source code out: no diffs, no lines of the program.")
def prompt_render(report: Path | None, template: str | None, prompt_file: Path | None, no_source: bool) -> None:
    """Print the text that belongs to a JSON report; without one, a guide to paste into any chat."""
    from numdebug import prompting
    from numdebug.explain.scrub import Scrubber

    which = prompting.prompt(template or prompting.TEMPLATE, prompt_file)
    text = prompting.render(load(report)[0] if report is not None else None, not no_source, which)
    _out(Scrubber.here("").scrub(text) if report is not None else text)


def load(file: Path) -> tuple[Report, Callable[[str], str | None]]:
    """A report and the sources of its program: as they lie there where they are unchanged, else unknown."""
    from numdebug.report import json as published

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise UserError(
            f"{file} cannot be read: {getattr(why, 'strerror', None) or why}; make a report with --format json -o {file}."
        ) from None
    report = published.parse(text)
    folder = _program(report, file).parent

    def source(name: str) -> str | None:
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
            return None
        found = path.read_text(encoding="utf-8", errors="replace")
        return found if _unchanged(report, name, found) else None

    return report, source


def program_of(report: Report, file: Path, args: tuple[str, ...]) -> Request | None:
    """How to run the report's program again; None where it is gone or has changed."""
    from numdebug.diagnosing import Request

    path, call = _program(report, file), report.program.path.partition(":")[2]
    if not path.is_file() or changed(report, file):
        return None
    return Request(f"{path}:{call}" if call else str(path), args)


def changed(report: Report, file: Path) -> bool:
    """Whether the report's program is there, and another than it was."""
    path = _program(report, file)
    return path.is_file() and not _unchanged(report, path.name, path.read_text(encoding="utf-8", errors="replace"))


def _program(report: Report, file: Path) -> Path:
    """Where the program lies: as the path says from here or from the report's folder, or else beside the report."""
    here = Path(report.program.path.partition(":")[0])
    return next((path for path in (here, file.parent / here) if path.is_file()), file.parent / here.name)


def _unchanged(report: Report, name: str, text: str) -> bool:
    """Whether a file is what it was: by its digest the program itself, by the lines that the report quotes any other."""
    from numdebug.diagnosing import digest

    if report.program.digest and name == Path(report.program.path.partition(":")[0]).name:
        return digest(text) == report.program.digest
    lines = text.split("\n")
    shown = [x for x in report.excerpts if x.file == name]
    return all(
        [line.rstrip() for line in lines[x.line - 1 :][: x.text.count("\n") + 1]] == [line.rstrip() for line in x.text.split("\n")]
        for x in shown
    )


def spoken(session: Session, form: str) -> int:
    """Print the explanation, or the request of a dry run."""
    if session.wish.dry_run:
        click.echo(session.dry_run(), nl=False)
        return 0
    if form == "json":
        click.echo(json.dumps(published(session.run(lambda claim: None)), indent=2, ensure_ascii=False))
        return 0
    tell(session)
    return 0


def tell(session: Session) -> Explanation:
    """The explanation as text, each statement as it comes."""
    from numdebug.explain.show import Shown

    look = console.look()
    shown = Shown(_out, look.width, look.colour, session.language)
    server = session.settings.server
    voice = ""

    def said(by: str) -> Callable[[Claim], None]:
        """Shows a claim, under a line that says whose words these are where a model was asked."""

        def show(claim: Claim) -> None:
            nonlocal voice
            if server is not None and voice != by:
                shown.line(by, "bold")
                voice = by
            shown.claim(claim)

        return show

    model = f"in the words of {server.model}, as far as the report backs them:" if server is not None else ""
    done = session.run(said(model), said("in the report's own words:"))
    if session.language != "en" and done.claims:
        shown.line("the translation is the model's; what was checked is the English in brackets.")
    if done.cut:
        shown.line(f"{done.cut}.")
    if done.problem and (server is not None or session.wanted):
        instead = "the question was not answered; above is what the report says" if session.wish.question else OWN
        complain(done.problem if done.claims else f"{done.problem.rstrip('.')}; {instead}")
    return done


class Beforehand:
    """What `diagnose --explain` settles before the program runs: a wrong template or file is not noticed an hour later."""

    def __init__(self, asked: dict[str, Any]) -> None:
        from numdebug.explain.session import spoken_in
        from numdebug.explain.settings import find

        self.wish = wish(**asked)
        self.settings = find(self.wish.flags)
        spoken_in(self.wish, self.settings)
        self.hide = self.settings.hide

    def session(self, outcome: Outcome, request: Request) -> Session:
        """The report that was made, ready to be explained."""
        from numdebug.explain.session import Session

        return Session(outcome.report, outcome.source, self.wish, complain, replace(request, hide=self.hide), self.settings)

    def tell(self, outcome: Outcome, request: Request) -> None:
        """The explanation below the report."""
        session = self.session(outcome, request)
        if self.wish.dry_run:
            _out(session.dry_run())
        else:
            tell(session)

    def published(self, outcome: Outcome, request: Request) -> dict[str, Any] | None:
        """The explanation as part of the JSON report."""
        session = self.session(outcome, request)
        if self.wish.dry_run:
            print(session.dry_run(), file=sys.stderr)
            return None
        return published(session.run(lambda claim: None))


def beforehand(explained: bool, asked: dict[str, Any]) -> Beforehand | None:
    """The wish for an explanation, checked; None without --explain. Raises UserError for options that need it."""
    given = [name for name, value in asked.items() if value]
    if not explained and given:
        raise UserError(f"--{given[0].replace('prompt_file', 'prompt').replace('_', '-')} belongs to --explain; add that.")
    return Beforehand(asked) if explained else None


def published(done: Explanation) -> dict[str, Any]:
    """An explanation as data."""
    return {
        "model": done.model or None,
        "claims": [_claim(c, "model") for c in done.claims] + [_claim(c, "numdebug") for c in done.own],
        "removed": len(done.removed),
        "problem": done.problem or None,
    }


def _claim(claim: Any, by: str) -> dict[str, Any]:
    return {
        "by": by,
        "kind": claim.kind,
        "subjects": list(claim.subjects),
        "cites": list(claim.cites),
        "text": claim.text,
        "patch": claim.patch,
    }


def _out(text: str) -> None:
    if sys.stdout is None:
        raise UserError("the explanation cannot be written: stdout is closed.")
    try:
        console.write(text)
    except OSError as why:
        raise UserError(f"the explanation cannot be written: {why.strerror or why}; name another place for it.") from None
