"""Where a recorded step lost its digits: each value against float64, and against what the rounding of its inputs explains."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from numdebug.observe.torch.consumed import consumed
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.records import Cell
from numdebug.observe.torch.region import in_float64
from numdebug.observe.torch.replay import CannotReplay, Replay, widened
from numdebug.observe.torch.shadow import Shadow
from numdebug.run import Error

_EPS64 = torch.finfo(torch.float64).eps
# A result that is 0 but for rounding has no relative error: float64's own error there is the observed one times the formats' ratio;
# two digits above that, the exact value is known.
_KNOWN = 100.0


MOST = {"exact": 250_000, "trace": 250_000, "region": 150_000}  # operations computed in float64, by question; about 20 to the millisecond
SAMPLES = 3  # random half-ulp moves of all inputs; the largest effect counts


class Precision:
    """The questions of Run about float64."""

    def __init__(self, observer: TorchObserver, converter: Converter) -> None:
        self.converter = converter
        self.named = consumed(observer)
        self.losses = observer.losses
        self.consumed = [cell for cell, _ in self.named]
        self.spent = dict.fromkeys(MOST, 0)
        self.consumed += [cell for cell in self.losses if cell not in self.consumed and cell.producer is not None]

    def exact(self, cells: list[Cell], question: str = "exact") -> dict[int, torch.Tensor]:
        """One pass in float64 over what these values depend on; by id of the Cell."""
        shadow = Shadow(self.converter, cells, [])
        shadow.keep = {id(cell) for cell in cells}
        self._spend(shadow, question)
        shadow.run()
        for cell in cells:
            if id(cell) not in shadow.kept and cell.tensor is not None:  # data: exact as it is
                shadow.kept[id(cell)] = widened(cell.tensor.detach())
        return shadow.kept

    def errors(self, cells: list[Cell], harm: float) -> dict[int, Error]:
        """One pass in float64 over what these values depend on."""
        return self._errors(cells, self.exact(cells), [], harm, 0.0)

    def gradient_error(self) -> tuple[float, float]:
        """(error, size) of the step's gradients in its own formats against those in float64; Euclidean, over all of them."""
        wide = Shadow(self.converter, [], self.losses).run().grads
        low = Replay(self.converter, self.losses, backward=True).run().grads
        off = scale = 0.0
        for key, exact in wide.items():
            if key in low and low[key].shape == exact.shape:
                off += float((low[key].to(exact.dtype) - exact).square().sum())
                scale += float(exact.square().sum())
        return math.sqrt(off), math.sqrt(scale)

    def trace(self, cell: Cell, harm: float, beyond: float) -> dict[int, Error]:
        """The slice above one value, exact and with its inputs moved."""
        passes = []
        for noise in (None, *range(SAMPLES)):
            shadow = Shadow(self.converter, [cell], [], noise)
            cells = [c for place in shadow.needed for c in shadow.raws[place].results()]
            shadow.keep = {id(c) for c in cells}
            self._spend(shadow, "trace")
            shadow.run()
            passes.append(shadow.kept)
        return self._errors(cells, passes[0], passes[1:], harm, beyond)

    def kept_wide(self, places: frozenset[int], cell: Cell, harm: float) -> Error:
        """The step in its own formats, but for the operations at `places`."""
        exact = self.exact([cell], "region")[id(cell)]
        mixed = Replay(self.converter, [cell], backward=False)
        self._spend(mixed, "region")
        result = mixed.run(in_float64(places)).results[0]
        found = lost(result, exact, [], harm, 0.0)
        assert found is not None
        return found

    def _spend(self, replay: Replay, question: str) -> None:
        self.spent[question] += len(replay.needed)
        if self.spent[question] > MOST[question]:
            raise CannotReplay("what was recorded is too long to be computed in float64 again and again")

    def _errors(
        self, cells: list[Cell], exact: dict[int, torch.Tensor], moved: list[dict[int, torch.Tensor]], harm: float, beyond: float
    ) -> dict[int, Error]:
        found: dict[int, Error] = {}
        for cell in cells:
            if id(cell) in exact and cell.tensor is not None:
                error = lost(cell.tensor, exact[id(cell)], [m[id(cell)] for m in moved if id(cell) in m], harm, beyond)
                if error is not None:
                    found[self.converter.value(cell).id] = error
        return found


def lost(recorded: torch.Tensor, exact: torch.Tensor, moved: Iterable[torch.Tensor], harm: float, beyond: float) -> Error | None:
    """The error of one recorded value against its exact one; None where there is nothing to compare."""
    if not recorded.is_floating_point() or recorded.shape != exact.shape or not recorded.numel():
        return None
    low, high = recorded.to(torch.float64), exact.to(torch.float64)
    info = torch.finfo(recorded.dtype)
    fine = torch.isfinite(low) & torch.isfinite(high)
    error = torch.where(fine, (low - high).abs(), 0.0)
    magnitude = torch.where(fine, high.abs(), 0.0)
    known = (magnitude >= info.tiny) & (magnitude > _KNOWN * error * (_EPS64 / info.eps))
    bad = known & (error > harm * magnitude)
    wrong = int(bad.sum())
    spread = None
    for other in moved:
        off = (other.to(torch.float64) - high).abs()
        spread = off if spread is None else torch.maximum(spread, off)
    if spread is not None:
        bad &= error > beyond * spread
    relative = torch.where(known, error / magnitude.clamp(min=info.tiny), 0.0)
    worst = int(torch.where(bad, relative, -1.0).argmax()) if bool(bad.any()) else int(relative.argmax())
    scale = float(torch.linalg.vector_norm(magnitude))
    return Error(
        size=recorded.numel(),
        lost=int(bad.sum()),
        worst=float(relative.flatten()[worst]),
        recorded=float(low.flatten()[worst]),
        exact=float(high.flatten()[worst]),
        norm=float(torch.linalg.vector_norm(error)) / scale if scale else 0.0,
        inherent=None if spread is None else float(spread.flatten()[worst]),
        wrong=wrong,
        flushed=int((fine & (low == 0) & (high != 0) & (magnitude < info.tiny)).sum()),
        zeros=int((fine & (low != 0) & ~known & (magnitude <= _KNOWN * error * (_EPS64 / info.eps))).sum()),
    )
