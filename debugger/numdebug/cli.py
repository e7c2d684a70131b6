"""The command line: parse, call, print. Each command imports what it needs when it runs, so that `--help` stays fast."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numdebug import __version__, console
from numdebug.console import complain
from numdebug.errors import INTERRUPTED, OURS, REPORT_AT, USAGE, UserError
from numdebug.explain import commands
from numdebug.formats import NARROW

if TYPE_CHECKING:
    from numdebug.diagnosing import Outcome

FORMATS = ("text", "json", "concise")


LANGUAGES = ("en", "hi")


def words(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """`--probe a,b --probe c` as (a, b, c)."""
    return tuple(w.strip() for text in value for w in text.split(",") if w.strip())


in_language = click.option(
    "--language",
    type=click.Choice(LANGUAGES),
    default="en",
    show_default=True,
    envvar="NUMDEBUG_LANGUAGE",
    show_envvar=True,
    help="English or Hindi (हिन्दी).",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="numdebug")
def cli() -> None:
    """Find out why a model's numbers go wrong, prove it, and say what to change.

    Start with: numdebug diagnose train.py
    """


@cli.command()
@click.argument("target", metavar="PATH[:NAME]")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@click.option("--input", "inputs", multiple=True, metavar="SPEC", help="Invent an input: 'x=float32[8,3,32,32]', 'ids=int64[4,16]<1000'.")
@click.option("--probe", "probes", multiple=True, callback=words, metavar="NAME,...", help="Run only these probes.")
@click.option("--select", multiple=True, callback=words, metavar="ID,...", help="Report only these bugs (ids or families).")
@click.option("--ignore", multiple=True, callback=words, metavar="ID,...", help="Leave these bugs out (ids or families).")
@click.option("--as", "narrow", type=click.Choice(NARROW), help="Say what would happen in this number format.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Stop the program after so many steps.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop it after so long (default 60).")
@click.option("--check-gradients", is_flag=True, help="Check every parameter's gradient against differences in float64.")
@click.option("--no-rerun", is_flag=True, help="Never run the program a second time.")
@click.option("--no-call", is_flag=True, help="Call nothing that the program does not call itself.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report there instead of to stdout.")
@click.option("--why", metavar="ID", help="Say why this bug's rule did or did not fire.")
@click.option("--notes", is_flag=True, help="Show hazards by shape only, too.")
@click.option("--explain", "explained", is_flag=True, help="Explain the report in plain words; see numdebug explain for the options below.")
@commands.model_options
def diagnose(
    target: str,
    args: tuple[str, ...],
    inputs: tuple[str, ...],
    probes: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    narrow: str | None,
    max_steps: int | None,
    timeout: float | None,
    check_gradients: bool,
    no_rerun: bool,
    no_call: bool,
    form: str,
    output: Path | None,
    why: str | None,
    notes: bool,
    explained: bool,
    **asked: Any,
) -> int:
    """Run a Python file under observation and name the line that makes its numbers go wrong.

    The file needs no changes. NAME is a function or model in it to call; arguments for the program go after `--`.
    Exit: 0 nothing found, 1 an error was found, 2 bad usage or file, 3 an error of numdebug itself, 4 nothing could be observed or the
    program failed for another reason, 130 interrupted.
    """
    from numdebug import diagnosing

    if output is not None:
        diagnosing.check_writable(output, target)
    if why is not None and why not in diagnosing.families():
        raise diagnosing.unknown("bug", why, diagnosing.families(), "numdebug bugs")
    request = diagnosing.Request(
        target,
        args,
        inputs,
        probes,
        select,
        ignore,
        max_steps,
        timeout,
        rerun=False if no_rerun else None,
        call=False if no_call else None,
        form=narrow,
        check_gradients=check_gradients,
    )
    explaining = commands.beforehand(explained, asked)
    progress(f"running {target}; the report follows when it has ended (Ctrl-C to stop it now)")
    outcome = diagnosing.diagnose(replace(request, hide=explaining.hide) if explaining else request)
    if explaining and form == "json":
        outcome.report.explanation = explaining.published(outcome, request)
    write(rendered(outcome, form, output is None, notes), output)
    if explaining and form != "json":
        explaining.tell(outcome, request)
    if why is not None:
        from numdebug import listing

        click.echo(listing.why(why, outcome.report.evidence), err=form != "text")
    return outcome.exit_code


@cli.command()
@click.argument("target", metavar="PATH[:NAME]")
@click.argument("other", metavar="[OTHER[:NAME]]", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@click.option("--vary", multiple=True, callback=words, metavar="AXIS,...", help="What to vary, of one program; see below.")
@click.option("--rows", type=click.IntRange(min=1), metavar="K", help="So many rows of the batch (default 10).")
@click.option("--input", "inputs", multiple=True, metavar="SPEC", help="Invent an input: 'x=float32[8,3,32,32]', 'ids=int64[4,16]<1000'.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="For each run of the program (default 60).")
@click.option("--ulps", type=click.FloatRange(min=0), default=16.0, show_default=True, help="Of saved arrays: ulps of the largest element.")
@click.option("--rtol", type=click.FloatRange(min=0), default=0.0, help="Of saved arrays: or so much of the first.")
@click.option("--atol", type=click.FloatRange(min=0), default=0.0, help="Of saved arrays: and so much besides.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report there instead of to stdout.")
def compare(
    target: str,
    other: str | None,
    args: tuple[str, ...],
    vary: tuple[str, ...],
    rows: int | None,
    inputs: tuple[str, ...],
    timeout: float | None,
    ulps: float,
    rtol: float,
    atol: float,
    form: str,
    output: Path | None,
) -> int:
    """Compute the same thing two ways and say whether rounding explains the difference.

    \b
    numdebug compare model.py:net                   # a batch and its rows, threads, kernels, TF32 (predicted)
    numdebug compare model.py:net --vary compiled   # op by op against compiled
    numdebug compare layer.py:dense layer.py:reference   # a layer against a function of NumPy
    numdebug compare old.py new.py                  # two programs, operation by operation
    numdebug compare before.npz after.npz           # recorded arrays; also .safetensors, .pt

    \b
    To vary: rows, order, runs, threads, onednn, compiled, memory, mode, deterministic, float64, bfloat16, float16, cuda,
    and predicted from the recorded computation: sums, tf32, tf32-truncated.

    \b
    Exit: 0 identical or explained by rounding, 1 a difference that rounding does not explain, 2 bad usage or file, 3 an error of numdebug
    itself, 4 nothing could be compared, 130 interrupted.
    """
    from numdebug import diagnosing
    from numdebug.comparing import asking

    if output is not None:
        diagnosing.check_writable(output, target)
    progress(f"running {target}; the report follows when it has ended (Ctrl-C to stop it now)")
    outcome = asking.compare(asking.Asked(target, other, vary, rows, args, inputs, timeout, ulps, rtol, atol))
    write(rendered(outcome, form, output is None), output)
    return outcome.exit_code


@cli.command()
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
def demo(form: str) -> int:
    """Diagnose a shipped training script whose loss turns NaN."""
    from numdebug import diagnosing
    from numdebug.demo import SCRIPT

    click.echo(f"$ numdebug diagnose {SCRIPT}\n", err=True)
    outcome = diagnosing.diagnose(diagnosing.Request(str(SCRIPT)))
    write(rendered(outcome, form, True), None)
    return 0 if outcome.exit_code == 1 else outcome.exit_code or 1


@cli.command()
@click.option("--symptom", metavar="TEXT", help="Only causes of this symptom, for instance 'loss is nan'.")
@in_language
def bugs(symptom: str | None, language: str) -> None:
    """List the bugs that numdebug knows."""
    from numdebug import listing

    write(listing.bugs(symptom, language), None)


@cli.command()
@click.argument("name", metavar="ID")
@in_language
def bug(name: str, language: str) -> None:
    """Show the page of one bug."""
    from numdebug import listing

    write(listing.bug(name, language), None)


@cli.command()
def probes() -> None:
    """List the probes and the question that each answers."""
    from numdebug import listing

    write(listing.probes(), None)


@cli.command()
@click.argument("name")
@click.argument("target", metavar="PATH[:NAME]")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop the program after so long (default 60)."
)
def probe(name: str, target: str, args: tuple[str, ...], form: str, timeout: float | None) -> int:
    """Run a Python file and show the evidence of one probe alone, judged by nobody."""
    from numdebug import diagnosing, listing

    outcome = diagnosing.diagnose(diagnosing.Request(target, args, probes=(name,), timeout=timeout, only_evidence=True))
    if form == "json":
        write(rendered(outcome, "json", True), None)
    else:
        write(listing.evidence(outcome.report), None)
    return outcome.exit_code


cli.add_command(commands.explain)
cli.add_command(commands.ask)
cli.add_command(commands.prompt)


def rendered(outcome: Outcome, form: str, to_terminal: bool, notes: bool = False) -> str:
    """The report in one of FORMATS."""
    from numdebug.report import concise, json

    if form == "json":
        return json.render(outcome.report)
    if form == "concise":
        return concise.render(outcome.report)
    from numdebug.report import comparisons, terminal

    look = console.look(to_terminal)
    if outcome.report.comparisons:
        return comparisons.render(outcome.report, outcome.source, look.width, look.colour)
    return terminal.render(outcome.report, outcome.source, look.width, look.colour, notes)


def write(text: str, file: Path | None) -> None:
    """To `file`, or to stdout."""
    if file is not None:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    else:
        console.write(text)


def progress(text: str) -> None:
    """Chatter, for a person who watches."""
    if sys.stderr.isatty():
        complain(text)


def main(argv: list[str] | None = None) -> Any:
    """The console script. Every failure is one sentence and an exit code of the contract."""
    try:
        code = cli.main(args=argv, prog_name="numdebug", standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as wrong:
        wrong.show()
        code = USAGE
    except UserError as wrong:
        complain(str(wrong))
        code = wrong.exit_code
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted")
        code = INTERRUPTED
    except Exception as broken:
        code = OURS
        where = broken.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f" ({Path(where.tb_frame.f_code.co_filename).name}:{where.tb_lineno})" if where else ""
        complain(f"an error of its own: {type(broken).__name__}: {broken}{place}; {REPORT_AT}.")
        if os.environ.get("NUMDEBUG_TRACEBACK"):
            raise
    sys.exit(code if isinstance(code, int) else 0)
