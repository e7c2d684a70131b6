"""Hand-written derivatives of the recorded program, called again in float64 and compared with differences.

What cannot run in float64, or gives something else each time, has no verdict.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch

from numdebug.observe.torch.called import Called, code_of, first_line
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.differences import compare, moved
from numdebug.observe.torch.mistakes import explained, return_site
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.surrogates import designed
from numdebug.recording import Site
from numdebug.run import CannotAsk, HandWritten
from numdebug.slopes import Compared, verdict

PATIENCE = 0.1  # seconds for one call: about 300 may be needed
ROUNDS = 3  # random directions: a coincidence in one is not one in three


def functions(converter: Converter) -> list[HandWritten]:
    """A verdict for each hand-written function of the user's own in the window, and each of its differentiated arguments."""
    found: list[HandWritten] = []
    calls: dict[Any, dict[Any, tuple[int, Raw]]] = {}
    for position, raw in enumerate(converter.raws):
        if isinstance(raw.func, type) and raw.grad and issubclass(raw.func, torch.autograd.Function) and _own(converter, raw.func):
            shapes = tuple(tuple(a.tensor.shape) if isinstance(a, Cell) and a.tensor is not None else repr(a)[:80] for a in raw.args)
            calls.setdefault(raw.func, {})[shapes] = (position, raw)
    for several in calls.values():
        found.extend(_function(converter, list(several.values())[:2]))
    return found


def _function(converter: Converter, calls: list[tuple[int, Raw]]) -> list[HandWritten]:
    """The first call that shows something wrong, else what was seen of the first."""
    verdicts: list[HandWritten] = []
    for position, raw in calls:
        call_site = converter.site(raw.places, raw.module, raw.step)
        try:
            seen = list(_call(converter, Called(raw), position, call_site))
        except CannotAsk as why:
            seen = [HandWritten(raw.func.__name__, "", position, None, call_site, "undecided", str(why))]
        if any(v.verdict == "wrong" for v in seen):
            return seen
        verdicts = verdicts or seen
    return verdicts


def _own(converter: Converter, cls: Any) -> bool:
    """Both directions are Python code of the user's own."""
    codes = [code_of(getattr(cls, name, None)) for name in ("forward", "backward")]
    return all(code is not None and converter.frames._classify(code) == 1 for code in codes)


def _call(converter: Converter, called: Called, position: int, call_site: Site | None) -> Iterator[HandWritten]:
    if not called.wanted:
        return
    begin = time.monotonic()
    called(called.values)
    if time.monotonic() - begin > PATIENCE:
        raise CannotAsk(f"{called.cls.__name__} takes too long to be called many times")
    once, twice = called(called.values), called(called.values)
    if any(not torch.equal(a, b) for a, b in zip(once, twice, strict=True)):
        raise CannotAsk(f"{called.cls.__name__} gives something else each time it is called")
    if not once or not all(bool(torch.isfinite(y).all()) for y in once):
        raise CannotAsk(f"{called.cls.__name__} gave nothing finite to compare")
    at = _compared(called, called.values)
    wrong = [i for i in range(len(called.wanted)) if _disagrees(at, i)]
    suspects = []
    for index in wrong:
        near = [_compared(called, moved(called.values, seed)) for seed in (1, 2)]
        if all(_disagrees(one, index) or not any(c.index == index for c in one) for one in near):
            suspects.append(index)
    meant = designed(called, suspects) if suspects else ""
    for index in range(len(called.wanted)):
        mine = max((c for c in at if c.index == index), key=lambda c: c.error, default=None)
        if mine is None:
            continue
        plain: dict[str, Any] = {
            "error": mine.error, "analytic": mine.analytic, "numeric": mine.numeric.value, "uncertainty": mine.numeric.uncertainty,
            "word": verdict(mine.error), "size": called.values[index].numel(),
        }  # fmt: skip
        head = (called.cls.__name__, called.name(index), position)
        if index in suspects and meant:
            yield HandWritten(*head, return_site(converter, called.cls), call_site, "surrogate", meant, **plain)
        elif index in suspects:
            yield explained(converter, called, index, head, call_site, plain)
        elif index in wrong:
            yield HandWritten(*head, None, call_site, "undecided", "a kink lies at this point", **plain)
        else:
            yield HandWritten(*head, None, call_site, "right" if mine.error < 1e-5 else "undecided", "", **plain)


def _compared(called: Called, values: list[torch.Tensor]) -> list[Compared]:
    try:
        return list(compare(called, values, seed=20, rounds=ROUNDS))
    except CannotAsk:
        raise
    except Exception as error:
        raise CannotAsk(f"the backward of {called.cls.__name__} cannot be called in float64: {first_line(error)}") from error


def _disagrees(seen: list[Compared], index: int) -> bool:
    mine = [c for c in seen if c.index == index]
    return bool(mine) and sum(c.disagrees for c in mine) * 2 > len(mine) and not any(c.numeric.kink for c in mine)
