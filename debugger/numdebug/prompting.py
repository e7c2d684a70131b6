"""Report -> prompt for a language model, offline. What the report quotes from the user's program stays data in it."""

from __future__ import annotations

from importlib.resources import files
from itertools import groupby

import jinja2

from numdebug.report.escape import one_line, visible
from numdebug.report.json import place
from numdebug.report.model import Report

TEMPLATE = "prompt-numerical-debugger.md"
LONGEST = 2000  # characters of one quoted value


def template() -> str:
    """The template's text."""
    return (files("numdebug.prompts") / TEMPLATE).read_text(encoding="utf-8")


def render(report: Report, with_source: bool = True) -> str:
    """The prompt for `report`; without source it holds no line of the user's program."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False, keep_trailing_newline=True
    )
    environment.filters.update(line=quoted, fenced=fenced, place=lambda site: quoted(place(site)))
    return environment.from_string(template()).render(report=report, with_source=with_source)


def quoted(value: object) -> str:
    """A value on one line, control characters shown, so that it cannot end the report or start a heading or a fence."""
    text = one_line(str(value)).replace("```", "`\u200b``".encode("unicode_escape").decode("ascii"))
    text = text.replace("END REPORT", "END-REPORT").replace("BEGIN REPORT", "BEGIN-REPORT")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def fenced(code: str, language: str) -> str:
    """Code in a fence that is longer than any run of backticks in it."""
    longest = max((len(list(run)) for char, run in groupby(code) if char == "`"), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(code).rstrip()}\n{fence}"
