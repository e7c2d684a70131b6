"""Follow-up questions: a model may ask for probes of the program; they run here, and what they find enters the report as evidence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numdebug.diagnosing import Request, diagnose, probe_names
from numdebug.evidence import Evidence
from numdebug.explain.items import Item, Items, question
from numdebug.explain.scrub import Scrubber
from numdebug.explain.server import Call, NoAnswer, ask
from numdebug.explain.settings import Server
from numdebug.formats import NARROW
from numdebug.report.model import Report

CALLS = 4  # probes in one round
MOST_STEPS = 1000  # that a model may ask to watch
ARGUMENTS = ("name", "as", "max_steps")


def tools() -> list[dict[str, Any]]:
    """What the model may call."""
    described = "; ".join(f"{name}: {question(name)}" for name in probe_names())
    parameters = {
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "enum": probe_names()},
            "as": {"type": "string", "enum": list(NARROW), "description": "a number format to try the step in (probe formats)"},
            "max_steps": {"type": "integer", "minimum": 1, "maximum": MOST_STEPS},
        },
    }
    text = f"Runs the program again under observation and measures. {described}"
    return [{"type": "function", "function": {"name": "run_probe", "description": text, "parameters": parameters}}]


class Prober:
    """Runs probes for a model, on one program. `request` None: the program is not at hand, and nothing is run."""

    def __init__(self, report: Report, request: Request | None, rounds: int, say: Callable[[str], None], scrubber: Scrubber) -> None:
        self.report, self.request, self.rounds, self.say, self.scrubber = report, request, rounds, say, scrubber

    def tools(self) -> list[dict[str, Any]]:
        """What the model may call; nothing where nothing may be run."""
        return tools() if self.rounds and self.request is not None else []

    def answered(self, messages: list[dict[str, Any]], server: Server) -> list[dict[str, Any]]:
        """The conversation with every probe answered that the model asks for. What they find is in the report afterwards."""
        messages = list(messages)
        for _ in range(self.rounds if self.tools() else 0):
            try:
                answer = ask(server, messages, None, self.tools(), None, self.scrubber)
            except NoAnswer as why:
                self.say(f"no probes were asked for: {why}")
                return messages
            if not answer.calls:
                return messages
            calls = answer.calls[:CALLS]
            messages.append({"role": "assistant", "content": answer.text or None, "tool_calls": [_published(c) for c in calls]})
            messages += [{"role": "tool", "tool_call_id": call.id, "content": self.run(call)} for call in calls]
        return messages

    def run(self, call: Call) -> str:
        """What one probe found, as the model is told it; the facts are in the report from now on."""
        wanted = wish(call)
        if isinstance(wanted, str):
            return wanted
        if self.request is None:
            return "the program is not at hand"
        name, changes = wanted
        self.say(f"running the program once more to ask the probe {name}, as the model wishes")
        outcome = diagnose(replace(self.request, probes=(name,), only_evidence=True, **changes))
        fresh = added(self.report, outcome.report.evidence)
        if not fresh:
            return f"{name} found nothing ({outcome.report.verdict})"
        items = Items(self.report)
        return "\n".join(told(items[e.id]) for e in fresh)


def _published(call: Call) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def wish(call: Call) -> tuple[str, dict[str, Any]] | str:
    """(probe, settings of the run), or why the call is not carried out."""
    try:
        given = json.loads(call.arguments or "{}")
    except ValueError:
        return "the arguments are not JSON"
    if call.name != "run_probe" or not isinstance(given, dict):
        return f"there is no tool {call.name}"
    if unknown := sorted(set(given) - set(ARGUMENTS)):
        return f"run_probe has no argument {', '.join(map(str, unknown))}"
    name, narrow, steps = given.get("name"), given.get("as"), given.get("max_steps")
    if name not in probe_names():
        return f"there is no probe {name}"
    if narrow is not None and narrow not in NARROW:
        return f"as must be one of {', '.join(NARROW)}"
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS):
        return f"max_steps must be a whole number from 1 to {MOST_STEPS}"
    return name, {"form": narrow, "max_steps": steps}


def added(report: Report, found: list[Evidence]) -> list[Evidence]:
    """Facts that the report did not have, under new ids, now in it."""
    known = {_content(e) for e in report.evidence}
    ids = {e.id for e in report.evidence}
    number = 1
    fresh = []
    for fact in found:
        if _content(fact) in known:
            continue
        while f"E{number}" in ids:
            number += 1
        ids.add(f"E{number}")
        fresh.append(replace(fact, id=f"E{number}"))
    report.evidence.extend(fresh)
    return fresh


def _content(e: Evidence) -> tuple[Any, ...]:
    where = (e.site.file, e.site.line, e.site.column, e.site.step) if e.site is not None else None
    values = sorted(
        (k, str(v)) for k, v in [*((k, n.value) for k, n in e.numbers.items()), *e.facts.items()] if isinstance(v, str | bool | int | float)
    )
    return e.kind, where, tuple(values)


def told(item: Item) -> str:
    """An item as a model reads it."""
    return "\n".join([f"{item.id} ({item.kind})", *(f"- {s}" for s in item.says)])
