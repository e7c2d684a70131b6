"""The explanation of a report without a finding: a clean run, or one of which nothing could be said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from numdebug.explain.claims import Claim
from numdebug.explain.items import PROBES, RUN, Items
from numdebug.explain.phrases import Say

_BEFORE = r" before a forward or backward pass was seen"
_ENDINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "missing",
        re.compile(r"(?P<path>.+?) needs the module (?P<module>\S+), which is not installed here; install it with: (?P<install>.+)"),
    ),
    (
        "raised",
        re.compile(
            rf"(?P<path>.+?) raised (?P<error>\S+)(?: at (?P<at>line \d+|\S+:\d+))?{_BEFORE}; mend that first(?:: (?P<text>.*))?",
            re.DOTALL,
        ),
    ),
    ("slow", re.compile(rf"(?P<path>.+?) (?:was stopped|ran into the time limit){_BEFORE}: (?P<why>.+); give it more time with --timeout")),
    ("interrupted", re.compile(rf"(?P<path>.+?) was interrupted{_BEFORE}")),
    ("ended", re.compile(rf"(?P<path>.+?) ended{_BEFORE}: (?P<why>.+?)(?:; arguments for it go after `--`)?")),
    (
        "uncalled",
        re.compile(
            r"(?P<path>.+?) ran to its end without a forward or a backward pass.+; (?:describe an input|say what to run): (?P<call>.+)"
        ),
    ),
    (
        "unexplained",
        re.compile(
            r"(?P<symptom>.+) from step (?P<step>\d+) on, first made at (?P<place>\S+) \((?P<op>.+): (?P<how>.+)\), "
            r"but no known bug explains it"
        ),
    ),
    ("unrecorded", re.compile(r"(?P<symptom>.+) from step (?P<step>\d+) on, but that step could not be recorded: .+")),
    ("left_out", re.compile(r"(?P<symptom>.+) from step (?P<step>\d+) on; the findings were left out as asked")),
)  # fmt: skip
_LATE = re.compile(r"nothing found in .+?, but .+? raised (?P<error>\w+)(?: at (?P<at>line \d+|\S+:\d+))?(?:: (?P<text>.*))?", re.DOTALL)
LONG = 160  # characters of the program's own words that are worth repeating


def claims(items: Items, say: Say, looked: str) -> Iterator[Claim]:
    """What was seen, what it is worth, and what to do next."""
    verdict = items.report.verdict
    command = f"numdebug diagnose {items.report.program.path}"
    if verdict.startswith("nothing found"):
        yield from _clean(items, say, looked, command)
        return
    for key, pattern in _ENDINGS:
        if found := pattern.fullmatch(verdict):
            yield Claim("evidence", (RUN,), (RUN,), say(key, **_slots(found, say)))
            slots = {**{k: v or "" for k, v in found.groupdict().items()}, "command": command}
            yield Claim("check", (RUN,), (RUN,), say(f"{key}_do", **slots))
            return
    yield Claim("evidence", (RUN,), (RUN,), say("other", text=say.quoted(verdict)))


def _slots(found: re.Match[str], say: Say) -> dict[str, str]:
    slots = {key: text or "" for key, text in found.groupdict().items()}
    at = slots.pop("at", "")
    text = " ".join(slots.pop("text", "").split())
    slots["where"] = say.part("at_line", place=_line(at, say)) if at else ""
    slots["message"] = say.part("message", text=text) if text and len(text) <= LONG else ""
    if "symptom" in slots:
        slots["symptom"] = _symptom(slots["symptom"], say)
    if "why" in slots:
        slots["why"] = say.quoted(slots["why"])
    return slots


def _line(at: str, say: Say) -> str:
    return say.part("proof_step_line", lines=at.removeprefix("line ")) if at.startswith("line ") else at


def _symptom(text: str, say: Say) -> str:
    found = re.fullmatch(r"the loss is (NaN|inf|-inf)", text)
    return say.part("symptom", what=say.part("loss"), value=found[1]) if found else say.quoted(text)


def _clean(items: Items, say: Say, looked: str, command: str) -> Iterator[Claim]:
    report, seen = items.report, items.report.program.observed
    one = "_one" if seen.steps <= 1 else ""
    what = say.part(f"seen_{'backward' if seen.backward else 'forward'}{one}", steps=seen.steps, ops=seen.ops)
    yield Claim("evidence", (RUN,), (RUN,), say("clean", path=report.program.path, seen=what))
    if looked:
        yield Claim("ruled_out", (PROBES,), (PROBES,), say("looked_clean", topics=looked))
    yield from _ended(report.verdict, seen.stopped_because, say)
    yield Claim("evidence", (RUN,), (RUN,), say("no_proof"))
    nexts: list[tuple[bool, Callable[[], str]]] = [
        (seen.backward and "torch" in report.program.frameworks, lambda: say("next_gradients", command=command)),
        (bool({"torch", "jax"} & set(report.program.frameworks)), lambda: say("next_float16", command=command)),
        (True, lambda: say("next_longer")),
    ]
    yield from (Claim("check", (RUN,), (RUN,), tell()) for _, tell in [n for n in nexts if n[0]][:1])


def _ended(verdict: str, stopped: str, say: Say) -> Iterator[Claim]:
    if found := _LATE.fullmatch(verdict):
        yield Claim("evidence", (RUN,), (RUN,), say("ended_raised", error=found["error"], **_tail(found, say)))
    elif ", but " in verdict:
        yield Claim("evidence", (RUN,), (RUN,), say("ended_badly", why=say.quoted(verdict.split(", but ", 1)[1])))
    elif stopped != "the program ended":
        yield Claim("evidence", (RUN,), (RUN,), say("short", why=say.quoted(stopped)))


def _tail(found: re.Match[str], say: Say) -> dict[str, str]:
    slots = _slots(found, say)
    return {"where": slots["where"], "message": slots["message"]}
