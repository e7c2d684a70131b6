"""The stable forms, applied to a recorded step: for each repair, the operations to replace and what replaces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from numdebug.graph import STRUCTURAL
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Raw
from numdebug.observe.torch.replay import CannotReplay, Replay, Rewrite
from numdebug.report.model import Repair

Form = Callable[[Replay, Repair, str], dict[int, Rewrite]]
_FORMS: dict[str, Form] = {}


def form(name: str) -> Callable[[Form], Form]:
    """Register a stable form under the name that repairs use."""

    def register(function: Form) -> Form:
        _FORMS[name] = function
        return function

    return register


def rewrites_for(replay: Replay, repairs: list[Repair]) -> dict[int, Rewrite]:
    """Every replacement that the repairs ask for. Raises CannotReplay where a form has no replacement."""
    found: dict[int, Rewrite] = {}
    for repair in repairs:
        apply = _FORMS.get(repair.form)
        if apply is None:
            raise CannotReplay(f"{repair.form} cannot be tried on the recorded step")
        for mark in marks(repair):
            found.update(apply(replay, repair, mark))
    return found


def marks(repair: Repair) -> list[str]:
    """ "", "2", "3", ...: one for each target."""
    found = [""]
    while f"target{len(found) + 1}" in repair.ops:
        found.append(str(len(found) + 1))
    return found


def part(repair: Repair, role: str, mark: str) -> int:
    place = repair.ops.get(role + mark)
    if place is None:
        raise CannotReplay(f"the recording does not know the {role} of this form")
    return place


def through(replay: Replay, chain: list[int], start: torch.Tensor, source: int, skip: set[int]) -> torch.Tensor:
    """`start` in place of what `source` returned, through the operations of `chain` but for those in `skip`."""
    current = start
    previous = replay.raws[source]
    for place in chain:
        raw = replay.raws[place]
        inner = {id(cell) for cell in previous.results()}
        if place not in skip:
            swap = {id(cell): current for cell in raw.cells() if id(cell) in inner}
            if not swap:
                raise CannotReplay("the form's operations do not follow one another")
            current = replay.call(raw, swap)
            if isinstance(current, (tuple, list)):
                current = current[0]
        previous = raw
    return current


def skippable(replay: Replay, chain: list[int], guards: list[int]) -> set[int]:
    return {p for p in chain if p in guards and canonical(replay.raws[p].func) not in STRUCTURAL}


def on_argument(change: Callable[[torch.Tensor], torch.Tensor], number: int = 0) -> Rewrite:
    """The recorded operation with its `number`-th operand changed first."""

    def rewrite(replay: Replay, raw: Raw) -> Any:
        cell = list(raw.cells())[number]
        return called(replay, raw, {id(cell): change(replay.get(cell))})

    return rewrite


def called(replay: Replay, raw: Raw, swap: dict[int, torch.Tensor]) -> Any:
    """An operation that wrote in place must not write into a value that autograd needs: give it a copy to write to."""
    if raw.written:
        for cell in raw.cells():
            if any(w.previous is cell for w in raw.written):
                swap[id(cell)] = swap.get(id(cell), replay.get(cell)).clone()
    return replay.call(raw, swap)
