"""What a recorded step would do in a narrower format: asked of emulated steps, with modules kept in float32 and losses scaled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import torch

from numdebug.emulation import Emulation, Overflow
from numdebug.formats import FORMATS
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.emulated import Emulated, group, kind_of
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.observer import TorchObserver, all_finite
from numdebug.observe.torch.records import Cell, cells_in
from numdebug.observe.torch.replay import CannotReplay, Outcome, Replay

KEEP = 0.999  # share of the gradient entries that a loss scale has to keep: what is lost then is within 0.1 % of the entries
PATIENCE = 8.0  # seconds for both searches; the whole analysis has 15 beyond the program's own time limit
MODULES = 8  # kept in float32 at most, before the search is given up: each costs a step or two


def largest(converter: Converter) -> dict[int, float]:
    """By position of an operation of the last recorded step: the largest finite magnitude of its results."""
    found: dict[int, float] = {}
    last = converter.raws[-1].step if converter.raws else 0
    steps = {raw.step for raw in converter.raws if raw.phase == "backward"}
    last = max(steps) if steps else last
    for place, raw in enumerate(converter.raws):
        if raw.step != last or raw.phase == "optimizer" or (hasattr(raw.func, "_schema") and kind_of(raw.func)[0]):
            continue
        for cell in raw.results():
            held = cell.tensor
            if held is not None and held.is_floating_point() and held.numel() and held.layout is torch.strided and held.dtype.itemsize > 1:
                low, high = torch.aminmax(held.detach())
                top = max(abs(float(low)), abs(float(high)))
                if not math.isfinite(top):
                    top = float(held.detach().abs().nan_to_num(0.0, 0.0, 0.0).max())
                found[place] = max(found.get(place, 0.0), top)
    return found


class Emulator:
    """Asks one format everything."""

    def __init__(self, observer: TorchObserver, converter: Converter, consumed: list[Cell], form: str) -> None:
        self.observer = observer
        self.converter = converter
        self.form = form
        self.limit = FORMATS[form]
        losses = [_unscaled(converter, cell) for cell in observer.losses or observer.last_losses]
        self.roots = losses or [c for c in consumed if c.tensor is not None and c.tensor.is_floating_point()]
        self.backward = bool(losses) or (len(self.roots) == 1 and _scalar(self.roots[0]))  # a loss that nobody differentiated
        if not self.roots:
            raise CannotReplay("the program computes neither a loss nor an output that could be computed again")

    def ask(self) -> Emulation:
        """The step in float32, the step in the format, and what follows from the two."""
        self.until = time.monotonic() + PATIENCE
        replay = Replay(self.converter, self.roots, self.backward)
        replay.dtype = torch.float32
        wide = replay.run()
        if not wide.finite:
            raise CannotReplay("the recorded step is not finite as it ran")
        step, low = self.run()
        entries, zeros, flushed, worst = self._zeros(wide.grads, low.grads)
        first = keep = scale = best = None
        if not low.finite:
            first, keep = self._modules()
        elif flushed > (1 - KEEP) * entries:
            scale, best = self._scales(wide.grads)
        eps = [(type(o).__name__, g["eps"]) for o in self.observer.optimizers for g in o.param_groups if isinstance(g.get("eps"), float)]
        gone = tuple(dict.fromkeys((name, e) for name, e in eps if 0 < e <= self.limit.flush))
        return Emulation(
            self.form, low.loss, wide.loss, low.outputs_finite, low.gradients, low.bad_gradients,
            first, keep, entries, zeros, flushed, worst, scale, best, gone, step.mixed,
        )  # fmt: skip

    def run(self, kept: Iterable[str] = (), watching: bool = False) -> tuple[Emulated, Outcome]:
        """The step in the format; `kept` names what stays in float32."""
        step = Emulated(self.converter, self.roots, self.backward, self.form, frozenset(kept), watching)
        with step.rounding():
            return step, step.run()

    def _zeros(self, wide: dict[int, torch.Tensor], low: dict[int, torch.Tensor]) -> tuple[int, int, int, tuple[str, float] | None]:
        entries = zeros = flushed = 0
        worst: tuple[str, float] | None = None
        for key, grad in low.items():
            exact = wide.get(key)
            if exact is None or exact.shape != grad.shape or not grad.numel():
                continue
            if grad.layout is not torch.strided:
                exact, grad = exact.to_dense(), grad.to_dense()
            lost = int(((grad == 0) & (exact != 0)).sum())
            entries += grad.numel()
            zeros += int((grad == 0).sum())
            flushed += lost
            if lost and (worst is None or lost / grad.numel() > worst[1]):
                worst = (self.converter.name_of(key), lost / grad.numel())
        return entries, zeros, flushed, worst

    def _modules(self) -> tuple[Overflow | None, tuple[str, ...] | None]:
        """Where it fails first, and modules that cure it: those that fail, one after another, less what turns out not to be needed."""
        births: dict[str, Overflow] = {}
        kept: list[str] = []
        while True:
            step, outcome = self.run(kept, watching=True)
            if outcome.finite:
                break
            born = step.birth()
            name = group(self.converter, born.op) if born is not None and born.op is not None else None
            if born is None or name is None or name in kept or len(kept) == MODULES or time.monotonic() > self.until:
                return next(iter(births.values()), born), None
            kept.append(name)
            births[name] = born
        for name in list(kept[:-1]):  # the last one was needed
            fewer = [k for k in kept if k != name]
            if time.monotonic() < self.until and self.run(fewer)[1].finite:
                kept = fewer
        return births[kept[0]], tuple(kept)

    def _scales(self, wide: dict[int, torch.Tensor]) -> tuple[float | None, tuple[float, float] | None]:
        """The smallest power of two that keeps enough, and the largest that overflows nowhere, each by backward passes of its own."""
        step, _ = self.run(watching=True)
        high = math.floor(math.log2(self.limit.max / step.peak))
        step.watching = False

        def share(exponent: int) -> float | None:
            with step.rounding():
                grads = step.differentiated(2.0**exponent)
            if not all(all_finite(g) for g in grads.values()):
                return None
            entries, _, flushed, _ = self._zeros(wide, grads)
            return 1 - flushed / entries

        kept = share(high)
        while kept is None and high > 0:
            high -= 1
            kept = share(high)
        if kept is None:
            return None, None
        enough = kept >= KEEP and time.monotonic() < self.until
        return _smallest(share, high) if enough else None, (2.0**high, kept)


def _scalar(cell: Cell) -> bool:
    return cell.tensor is not None and cell.tensor.numel() == 1


def _smallest(share: Callable[[int], float | None], high: int) -> float:
    """By halving the range of exponents; `high` is known to do."""
    low = 0
    while low < high:
        middle = (low + high) // 2
        if (share(middle) or 0.0) >= KEEP:
            high = middle
        else:
            low = middle + 1
    return 2.0**high


def _unscaled(converter: Converter, cell: Cell) -> Cell:
    """The loss before a GradScaler multiplied it: the scale is chosen here."""
    if not any(step.scaled for step in converter.observer.steps[-2:]) and not converter.observer.current.scaled:
        return cell
    raw = next((r for r in converter.raws if r.index == cell.producer), None)
    if raw is None or canonical(raw.func) != "mul":
        return cell
    return next(iter(cells_in(raw.args)), cell)
