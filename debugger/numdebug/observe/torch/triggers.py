"""Search near a healthy step for data and weights, inside a plausible range, that make it fail at one operation.

Data stay inside the range that their tensor was seen in, every weight within so many standard deviations of its tensor's mean. The
gradient of the operation's margin says which way to go; the line back to what was recorded is halved until the nearest failure is found.
Whole numbers, masks and one-hot rows, buffers, and tensors without spread (one number, or all the same) stay as recorded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.finite import all_finite
from numdebug.observe.torch.observer import TorchObserver
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import CannotReplay, Replay
from numdebug.observe.torch.retraced import Again, Retraced
from numdebug.run import Danger, Moved

STEPS = 6  # gradient steps for one operation
HALVINGS = 6  # of the line from the recorded values to the failing ones: the failure's distance is known to 2 %
SIZE = 256 << 20  # bytes of recorded values: the search holds them a second time
FEW, SECONDS, MOST_SECONDS = 24, 2.0, 8.0  # runs of the step, or this long where steps are short


@dataclass
class Leaf:
    """A tensor that the search may move."""

    cell: Cell
    value: torch.Tensor
    role: str  # "weight" or "input"
    name: str | None
    low: float
    high: float
    mean: float
    sigma: float

    def box(self, sigmas: float) -> tuple[float, float]:
        """Where its elements may go."""
        if self.role == "input":
            return self.low, self.high
        return min(self.low, self.mean - sigmas * self.sigma), max(self.high, self.mean + sigmas * self.sigma)

    @property
    def key(self) -> int:
        return id(self.cell)


class _Guided(Replay):
    """The forward pass up to one value, with gradients towards everything that may move."""

    def __init__(self, converter: Converter, cell: Cell, values: dict[int, torch.Tensor], movable: set[int]) -> None:
        super().__init__(converter, [cell], backward=False)
        self.leaf_values = values
        self.movable = movable
        self.moved: dict[int, torch.Tensor] = {}

    def _leaf(self, cell: Cell) -> torch.Tensor:
        held = super()._leaf(cell)
        if id(cell) in self.movable:
            self.moved[id(cell)] = held.requires_grad_(True)
        return held


class _Listed(Replay):
    """Keeps which tensors came from outside."""

    def __init__(self, converter: Converter, roots: list[Cell], backward: bool) -> None:
        super().__init__(converter, roots, backward)
        self.outside: dict[int, Cell] = {}

    def _leaf(self, cell: Cell) -> torch.Tensor:
        self.outside[id(cell)] = cell
        return super()._leaf(cell)


class Triggers:
    """The search, over one recorded step. Raises CannotReplay where the step cannot be run again."""

    def __init__(self, observer: TorchObserver, converter: Converter, roots: list[Cell], backward: bool) -> None:
        self.observer = observer
        self.converter = converter
        self.roots = roots
        self.backward = backward
        self.runs = 0
        self._begin = time.monotonic()
        if not roots:
            raise CannotReplay("the program computes nothing that is consumed")
        if observer.tracer.bytes > SIZE or observer.tracer.dropped:
            raise CannotReplay("the step is too large")
        control = _Listed(converter, roots, backward)
        outcome = control.run()
        self.runs += 1
        left = not observer.losses and bool(observer.last_losses)  # the tracer left before the end: the weights are those of the end
        if not outcome.finite or not (outcome.same or left):
            raise CannotReplay("the step as recorded does not repeat")
        self.needed = set(control.needed)
        fixed = _not_trained(converter.raws)
        leaves = [leaf for cell in control.outside.values() if (leaf := self._movable(cell, control, fixed)) is not None]
        self.twins: dict[int, list[tuple[int, bool]]] = {}
        self.leaves = [leaf for leaf in leaves if self._alone(leaf, list(control.outside.values()))]

    def _movable(self, cell: Cell, control: Replay, fixed: set[int]) -> Leaf | None:
        value = cell.tensor
        if value is None or not value.is_floating_point() or value.numel() < 2 or not all_finite(value):
            return None
        wide = value.detach().to(torch.float64)
        sigma, mean = float(wide.std(unbiased=False)), float(wide.mean())
        low, high = float(wide.min()), float(wide.max())
        weight = cell.requires_grad and cell.is_leaf
        if low == high or (not weight and (cell.key in fixed or cell.storage in control._written or _is_mask(wide))):
            return None
        name = self.converter.names.get(cell.key)
        return Leaf(cell, value.detach(), "weight" if weight else "input", name, low, high, mean, sigma)

    def _alone(self, leaf: Leaf, outside: list[Cell]) -> bool:
        """Whether nothing else is a view of its memory, but for the same tensor once more, or transposed: these move with the first one."""
        group = [cell for cell in outside if cell.storage == leaf.cell.storage and cell.tensor is not None]
        if leaf.cell.storage == 0 or len(group) < 2:
            return True
        if group[0] is not leaf.cell:
            return False
        twins = []
        for cell in group[1:]:
            other = cell.tensor
            if other.shape == leaf.value.shape and torch.equal(other, leaf.value):
                twins.append((id(cell), False))
            elif other.ndim == leaf.value.ndim == 2 and other.shape == leaf.value.t().shape and torch.equal(other, leaf.value.t()):
                twins.append((id(cell), True))
            else:
                return False
        self.twins[leaf.key] = twins
        return True

    def _with_twins(self, values: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        more = {twin: value.t() if turned else value for key, value in values.items() for twin, turned in self.twins.get(key, ())}
        return {**values, **more}

    # -- asking ------------------------------------------------------------------------------------------------

    @property
    def spent(self) -> bool:
        """No more runs of the step are affordable."""
        passed = time.monotonic() - self._begin
        return passed > MOST_SECONDS or (self.runs >= FEW and passed > SECONDS)

    def find(self, danger: Danger) -> tuple[dict[int, torch.Tensor], list[Moved]] | None:
        """Values for the leaves that make the step fail, and what was moved; None where none were found."""
        if danger.op not in self.needed or not self.leaves:
            return None
        far = self._climb(danger)
        if far is None:
            return None
        near = self._nearest(far)
        return near, self._moved(near)

    def retrace(self, values: dict[int, torch.Tensor]) -> Again:
        """The step with these values, recorded."""
        retraced = Retraced(self.converter, self.roots, self.backward, self._with_twins(values))
        retraced.record()
        self.runs += 1
        return Again(self.observer, retraced)

    # -- searching ---------------------------------------------------------------------------------------------

    def _climb(self, danger: Danger) -> dict[int, torch.Tensor] | None:
        cell = list(self.converter.raws[danger.op].cells())[danger.operand]
        values: dict[int, torch.Tensor] = {}
        best = None
        share = 1.0
        ahead = values
        for _ in range(STEPS):
            if self.spent:
                return None
            height, slopes = self._slopes(cell, danger, ahead)
            if height is None or not slopes:
                return None
            if best is not None and height <= best[0]:
                share /= 2
                height, slopes, values = best
            else:
                values = ahead
            best = (height, slopes, values)
            ahead = {**values, **{key: self._step(key, values, slope, share, danger.sigmas) for key, slope in slopes.items()}}
            if self._fails(ahead):
                return ahead
        return None

    def _step(self, key: int, values: dict[int, torch.Tensor], slope: torch.Tensor, share: float, sigmas: float) -> torch.Tensor:
        leaf = next(leaf for leaf in self.leaves if leaf.key == key)
        here = values.get(key, leaf.value)
        low, high = leaf.box(sigmas)
        return (here + share * (high - low) * torch.sign(slope).to(here.dtype)).clamp(low, high)

    def _slopes(self, cell: Cell, danger: Danger, values: dict[int, torch.Tensor]) -> tuple[float | None, dict[int, torch.Tensor]]:
        movable = {leaf.key for leaf in self.leaves if leaf.role == "input" or danger.sigmas > 0}
        replay = _Guided(self.converter, cell, self._with_twins(values), movable)
        replay.guided = True
        replay.run()
        self.runs += 1
        operand = replay.get(cell)
        if not operand.requires_grad or not operand.numel():
            return None, {}
        with torch.enable_grad():
            flat = operand.flatten().to(torch.float64)
            fine = flat[torch.isfinite(flat)]
            if not fine.numel():
                return None, {}
            if danger.goal == "high":
                height = fine.max()
            elif danger.goal == "low":
                height = -fine.min()
            else:
                away = fine.abs()
                away = away[away > 0]
                if not away.numel():
                    return None, {}
                height = -away.min().log()
            targets = list(replay.moved.items())
            if not targets:
                return None, {}
            grads = torch.autograd.grad(height, [leaf for _, leaf in targets], allow_unused=True)
        slopes = {key: grad for (key, _), grad in zip(targets, grads, strict=True) if grad is not None and bool(torch.isfinite(grad).all())}
        return float(height.detach()), {key: grad for key, grad in slopes.items() if bool(grad.any())}

    def _nearest(self, far: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        start = {leaf.key: leaf.value for leaf in self.leaves}
        low, high, near = 0.0, 1.0, far
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            there = {key: torch.lerp(start[key], value, middle) for key, value in far.items()}
            if self._fails(there):
                high, near = middle, there
            else:
                low = middle
        return near

    def _fails(self, values: dict[int, torch.Tensor]) -> bool:
        replay = Replay(self.converter, self.roots, self.backward)
        replay.leaf_values = self._with_twins(values)
        self.runs += 1
        return not replay.run().finite

    def _moved(self, values: dict[int, torch.Tensor]) -> list[Moved]:
        found = []
        for leaf in self.leaves:
            if leaf.key in values and not torch.equal(values[leaf.key], leaf.value):
                now = values[leaf.key]
                distance = float((now[now != leaf.value] - leaf.mean).abs().max()) / leaf.sigma if leaf.role == "weight" else None
                found.append(Moved(leaf.role, leaf.name, float(now.min()), float(now.max()), distance))
        return found


def _is_mask(wide: torch.Tensor) -> bool:
    return bool(((wide == 0) | (wide == 1)).all())


def _not_trained(raws: list[Raw]) -> set[int]:
    """Buffers, and parameters that are frozen: by identity."""
    found: set[int] = set()
    modules: dict[int, Any] = {id(raw.module): raw.module for raw in raws if isinstance(raw.module, torch.nn.Module)}
    for module in modules.values():
        found.update(id(tensor) for tensor in module.buffers(recurse=False))
        found.update(id(tensor) for tensor in module.parameters(recurse=False) if not tensor.requires_grad)
    return found
