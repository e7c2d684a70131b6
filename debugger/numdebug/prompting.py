"""Report -> prompt for a language model, or another text about it, offline. What the report quotes from the program stays data.

Variables of a template: `items` (empty without a report; each has id, kind, says), `report` (as in the published JSON; None without one),
`path` (the program), `answer` ("claims" where numdebug reads the answer, "prose" where a person does), `question`, `tools` (whether
probes may be asked for), `bugs` (the catalogue: id, title, symptoms, fix), `with_source`. Filters: `line` (a value on one line), `code`
(a line of code), `fenced` (code in a fence), `markdown` (a value as plain text in Markdown), `place` (a site as file:line:column). A
template with the blocks `rules` and `report` is sent as two messages; any other as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from numdebug.errors import UserError
from numdebug.explain.items import Item, Items
from numdebug.report.escape import one_line, visible
from numdebug.report.json import place
from numdebug.report.model import Report

TEMPLATE = "prompt-numerical-debugger"
LONGEST = 2000  # characters of one quoted value
SPECIAL = "\\`*_{}[]()#+-!|<>@&~"  # of Markdown, HTML and mentions


@dataclass(frozen=True)
class Prompt:
    """A template: its name (for messages) and its text."""

    name: str
    text: str


def names() -> list[str]:
    """The templates that come with numdebug."""
    return sorted(entry.name.removesuffix(".md") for entry in files("numdebug.prompts").iterdir() if entry.name.endswith(".md"))


def template(name: str = TEMPLATE) -> str:
    """The text of a template that comes with numdebug. Raises UserError where there is none of that name."""
    if name not in names():
        raise UserError(f"there is no template {name!r}; there are: {', '.join(names())}")
    return (files("numdebug.prompts") / f"{name}.md").read_text(encoding="utf-8")


def prompt(name: str = TEMPLATE, file: Path | None = None) -> Prompt:
    """A template by name, or the user's own. Raises UserError where it cannot be read."""
    if file is None:
        return Prompt(name, template(name))
    try:
        return Prompt(str(file), file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as why:
        reason = getattr(why, "strerror", None) or why
        raise UserError(f"the template {file} cannot be read: {reason}; see one with: numdebug prompt show") from None


def render(report: Report | None, with_source: bool = True, which: Prompt | None = None) -> str:
    """The text for a person: of `report`, or without one the guide. Without source it holds no line of the user's program."""
    which = which or prompt()
    loaded, variables = _prepared(which, report, with_source, "prose")
    return str(_rendered(which, lambda: loaded.render(variables)))


def messages(items: Items, which: Prompt | None = None, question: str = "", tools: bool = False) -> list[dict[str, Any]]:
    """The messages that a model is asked with: rules first, then the report as data."""
    which = which or prompt()
    loaded, variables = _prepared(which, items.report, items.with_source, "claims", items=list(items), question=question, tools=tools)
    if not {"rules", "report"} <= set(loaded.blocks):
        return [{"role": "user", "content": _rendered(which, lambda: loaded.render(variables))}]
    roles = (("system", "rules"), ("user", "report"))
    return [
        {"role": role, "content": _rendered(which, lambda block=block: _block(loaded, block, variables)).strip()} for role, block in roles
    ]


def _block(loaded: jinja2.Template, name: str, variables: dict[str, Any]) -> str:
    return "".join(loaded.blocks[name](loaded.new_context(variables)))


def _prepared(
    which: Prompt, report: Report | None, with_source: bool, answer: str, items: Sequence[Item] | None = None, **more: Any
) -> tuple[jinja2.Template, dict[str, Any]]:
    from numdebug.report import json

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False, keep_trailing_newline=True
    )
    environment.filters.update(line=quoted, code=code, fenced=fenced, markdown=markdown, place=lambda site: quoted(_place(site)))
    if items is None:
        items = list(Items(report, with_source)) if report is not None else []
    known = import_module("numdebug.catalogue").bugs().values()
    variables = {
        "items": items,
        "report": json.publish(report) if report is not None else None,
        "path": report.program.path if report is not None else "",
        "answer": answer,
        "question": "",
        "tools": False,
        "with_source": with_source,
        "bugs": [{"id": b.id, "title": b.title, "symptoms": b.symptoms, "fix": b.fix} for b in known],
        **more,
    }
    return _rendered(which, lambda: environment.from_string(which.text)), variables


def _rendered(which: Prompt, make: Any) -> Any:
    """What a template gives, or a UserError that says what is wrong with it."""
    try:
        return make()
    except jinja2.TemplateSyntaxError as why:
        raise UserError(f"the template {which.name}, line {why.lineno}: {why.message}; see one with: numdebug prompt show") from None
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as why:
        raise UserError(f"the template {which.name} cannot be rendered: {one_line(str(why))}; see one with: numdebug prompt show") from None


def quoted(value: object) -> str:
    """A value on one line, control characters shown, so that it cannot end the report or start a heading or a fence."""
    text = one_line(str(value)).replace("```", "`\u200b``".encode("unicode_escape").decode("ascii"))
    text = _harmless(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def code(line: object) -> str:
    """A line of code as it stands, on one line, control characters shown."""
    return _harmless(visible(str(line)).replace("\n", " "))[:LONGEST]


def fenced(text: str, language: str) -> str:
    """Code in a fence that is longer than any run of backticks in it."""
    longest = max((len(list(run)) for char, run in groupby(text) if char == "`"), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{visible(text).rstrip()}\n{fence}"


def markdown(value: object) -> str:
    """A value as plain text in Markdown: no markup, link, mention or HTML of its own."""
    return "".join(f"\\{c}" if c in SPECIAL else c for c in one_line(str(value)))


def _harmless(text: str) -> str:
    return text.replace("END REPORT", "END-REPORT").replace("BEGIN REPORT", "BEGIN-REPORT")


def _place(site: Any) -> str:
    """A site of the report, or the same as published."""
    if not isinstance(site, dict):
        return place(site)
    return f"{site['file']}:{site['line']}" + (f":{site['column']}" if site.get("column") else "")
