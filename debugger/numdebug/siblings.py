"""A repair's other targets: every call of the same line, and the same naive form beside it.

A fix that leaves the second log of a cross-entropy as it was would fail one step later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numdebug.evidence import Evidence
from numdebug.recording import Recording
from numdebug.report.model import Repair

_FORMS = {
    "log_softmax": "log-of-softmax",
    "log_sigmoid": "log-of-sigmoid",
    "softmax": "softmax",
    "logsumexp": "logsumexp",
    "softplus": "softplus",
}


def with_siblings(repair: Repair, evidence: Sequence[Evidence], everywhere: bool = False) -> Repair:
    """The repair with every further target of the same form in the same function, or on the same inner result (or `everywhere`)."""
    form = _FORMS.get(repair.form)
    target = repair.sites.get("target")
    if form is None or target is None:
        return repair
    inner = "softmax" if repair.form == "log_softmax" else "sigmoid"
    known = {site.span for role, site in repair.sites.items() if role.startswith("target")}
    sites, ops, numbers = dict(repair.sites), dict(repair.ops), dict(repair.numbers)
    count = sum(1 for role in repair.sites if role.startswith("target"))
    for e in evidence:
        if e.kind != "naive-form" or e["form"] != form or e.site is None or e.site.span in known:
            continue
        same_inner = inner in e.ops and e.ops[inner] == repair.ops.get(inner)
        same_function = e.site.file == target.file and e.site.function == target.function
        if not (same_inner or same_function or everywhere):
            continue
        known.add(e.site.span)
        count += 1
        mark = str(count)
        sites.update({role + mark: site for role, site in e.sites.items()})
        ops.update({role + mark: op for role, op in e.ops.items()})
        numbers.update({name + mark: value for name, value in e.facts.get("numbers", {}).items()})
        numbers["only_feeds_log"] = bool(numbers.get("only_feeds_log")) and bool(e.facts.get("only_feeds_log"))
    return replace(repair, sites=sites, ops=ops, numbers=numbers)


def distinct(repair: Repair) -> Repair:
    """The repair with each target's source expression once: many calls of one line are one edit."""
    seen: set[object] = set()
    kept: list[str] = []
    for role, site in repair.sites.items():
        if role.startswith("target") and site.span not in seen:
            seen.add(site.span)
            kept.append(role.removeprefix("target"))
    sites, numbers = {}, {}
    for count, mark in enumerate(kept):
        new = "" if count == 0 else str(count + 1)
        sites.update({role.removesuffix(mark) + new: site for role, site in repair.sites.items() if _marked(role, mark)})
        numbers.update({name.removesuffix(mark) + new: value for name, value in repair.numbers.items() if _marked(name, mark)})
    return replace(repair, sites=sites, numbers={**{k: v for k, v in repair.numbers.items() if k in ("only_feeds_log",)}, **numbers})


def every_call(recording: Recording, repair: Repair) -> Repair:
    """The repair on all nodes of its source line: a function that is called five times is repaired in all five calls."""
    ops, numbers = dict(repair.ops), dict(repair.numbers)
    marks = [role.removeprefix("target") for role in repair.ops if role.startswith("target")]
    taken = {repair.ops["target" + mark] for mark in marks}
    count = len(marks)
    for mark in marks:
        target = recording.ops[repair.ops["target" + mark]]
        if target.site is None:
            continue
        parts = {role.removesuffix(mark): place for role, place in repair.ops.items() if role != "target" + mark and _marked(role, mark)}
        for other in recording.ops:
            same = (
                other.site is not None and other.site.span == target.site.span and other.name == target.name and other.phase == target.phase
            )
            if not same or other.index in taken:
                continue
            shift = other.index - target.index
            moved = {role: _same_op(recording, place, shift) for role, place in parts.items()}
            chains = {
                name: [_same_op(recording, place, shift) for place in repair.numbers.get(name + mark, [])] for name in ("chain", "guards")
            }
            if None in moved.values() or any(None in places for places in chains.values()):
                continue
            taken.add(other.index)
            count += 1
            ops["target" + str(count)] = other.index
            ops.update({role + str(count): place for role, place in moved.items() if place is not None})
            numbers.update({name + str(count): places for name, places in chains.items()})
            for name, value in repair.numbers.items():
                if name.removesuffix(mark) + mark == name and name.removesuffix(mark) not in ("chain", "guards"):
                    numbers.setdefault(name.removesuffix(mark) + str(count), value)
    return replace(repair, ops=ops, numbers=numbers)


def _marked(name: str, mark: str) -> bool:
    """Whether a role or number belongs to the target with this mark: "", "2", ... "12"."""
    digits = len(name) - len(name.rstrip("0123456789"))
    return name[len(name) - digits :] == mark


def _same_op(recording: Recording, place: int, shift: int) -> int | None:
    """The operation that stands to another call as `place` stands to the first one."""
    one = recording.ops[place]
    for step in (0, 1, -1, 2, -2, 3, -3, 4, -4):
        at = place + shift + step
        if 0 <= at < len(recording.ops):
            other = recording.ops[at]
            if other.name == one.name and other.site is not None and one.site is not None and other.site.span == one.site.span:
                return at
    return None
