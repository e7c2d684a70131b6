"""A recorded step as it would be in a narrower format: every number rounded to it, forward and backward, sums taken in float32.

That is what PyTorch's half-precision kernels on a CPU do: operands and results are in the format, each operation computes in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numdebug.emulation import Overflow
from numdebug.formats import FORMATS
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.observer import all_finite
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import CannotReplay, Outcome, Replay

# Results that are operands moved about, or chosen from: in the format already.
_MOVES = frozenset({
    "copy", "_unsafe_view", "cat", "stack", "index", "gather", "index_select", "embedding", "relu", "threshold_backward", "where",
    "masked_fill", "neg", "abs", "max", "min", "amax", "amin", "maximum", "minimum", "sign", "flip", "roll", "repeat", "tril", "triu",
    "sort", "topk", "zeros", "ones", "zeros_like", "ones_like", "new_zeros", "new_ones", "empty", "max_pool2d_with_indices",
    "masked_select", "_local_scalar_dense", "bernoulli", "isfinite", "isnan", "eq", "ne", "lt", "le", "gt", "ge",
})  # fmt: skip

# Losses that PyTorch computes in two steps, with what comes between them in the operands' format: (position of `reduction`, of what is
# reduced first: 0 the elements, 2 their sum).
_REDUCED = {
    "mse_loss": (2, 0), "smooth_l1_loss": (2, 0), "huber_loss": (2, 0), "soft_margin_loss": (2, 0), "binary_cross_entropy": (3, 0),
    "nll_loss_forward": (3, 2), "nll_loss2d_forward": (3, 2),
}  # fmt: skip
_MEAN = 1

_node = torch._C._current_autograd_node
_sequence = torch._C._autograd._get_sequence_nr


@cache
def kind_of(func: Any) -> tuple[bool, tuple[tuple[int, str, bool], ...]]:
    """(results are in the format already, arguments that are written)."""
    schema = func._schema
    writes = tuple((i, a.name, a.kwarg_only) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write)
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    return views or (canonical(func) in _MOVES and schema.name != "aten::copy_"), writes


class _Rounding(TorchDispatchMode):
    """Rounds what every operation returns or writes, those of the backward pass included."""

    def __init__(self, replay: Emulated) -> None:
        super().__init__()
        self.replay = replay

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        replay = self.replay
        exact, writes = kind_of(func)
        if exact or replay.busy:
            return out
        node = _node()
        place = replay.place if node is None else replay.places.get(node._sequence_nr())
        if place in replay.high:
            return out
        if writes:
            for position, name, keyword in writes:
                target = kwargs.get(name) if keyword or position >= len(args) else args[position]
                for tensor in target if isinstance(target, (list, tuple)) else (target,):
                    if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                        replay.round_(tensor, place)
            return out
        out = self._reduced(func, args, kwargs, out, place)
        if isinstance(out, torch.Tensor):
            result: Any = replay.round_(out, place)
        elif isinstance(out, (list, tuple)):
            result = type(out)([replay.round_(t, place) if isinstance(t, torch.Tensor) else t for t in out])
        else:
            return out
        if replay.watching and node is not None:
            replay.note(place, result, (*cells(args), *cells(kwargs)))
        return result

    def _reduced(self, func: Any, args: Any, kwargs: Any, out: Any, place: int | None) -> Any:
        """A loss whose elements, or their sum, do not fit although their mean would."""
        position, first = _REDUCED.get(func._schema.name.rpartition("::")[2], (0, 0))
        if not position:
            return out
        mean = args[position] if position < len(args) else kwargs.get("reduction", _MEAN)
        if mean == first or kwargs.get("out") is not None:
            return out
        inner = func(*args[:position], first, *args[position + 1 :], **{k: v for k, v in kwargs.items() if k != "reduction"})
        near = self.replay.rounded(inner if isinstance(inner, torch.Tensor) else inner[0], place)
        if all_finite(near):
            return out
        return near.sum() if isinstance(out, torch.Tensor) else (near.sum(), *out[1:])


def cells(tree: Any) -> Iterable[torch.Tensor]:
    """Every tensor of nested tuples, lists and dicts."""
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from cells(item)
    elif isinstance(tree, dict):
        yield from cells(list(tree.values()))


class _Crossing(torch.autograd.Function):
    """Between a part that is kept in float32 and the rest, as a cast is: the value on the way in, its gradient on the way back."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, replay: Emulated, into_high: bool) -> torch.Tensor:
        ctx.replay, ctx.into_high, ctx.place = replay, into_high, replay.place
        return replay.rounded(tensor, replay.place, True) if not into_high else tensor.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        return (ctx.replay.rounded(grad, ctx.place, True) if ctx.into_high else grad), None, None


class Emulated(Replay):
    """One pass in the format. `kept`: groups (see `group`) whose operations stay in float32. `watching`: note where numbers go bad.

    Where the program itself holds numbers in 16 or 8 bits, only these are rounded; what it computes in float32 beside them stays there.
    """

    def __init__(
        self, converter: Converter, roots: list[Cell], backward: bool, form: str, kept: frozenset[str] = frozenset(), watching: bool = False
    ) -> None:
        super().__init__(converter, roots, backward)
        self.dtype = torch.float32
        self.low: torch.dtype = getattr(torch, form)
        limit = FORMATS[form]
        self.own = _own_limits(self.low)
        # The 8-bit format without infinities: what rounds beyond its largest number is NaN, though PyTorch's cast stays at it.
        self.saturates = limit.max + limit.eps * 2.0 ** (math.frexp(limit.max)[1] - 2) if form == "float8_e4m3fn" else None
        self.watching = watching
        self.busy = False
        self._spare = torch.empty(0, dtype=self.low)
        self.place: int | None = None
        self.places: dict[int, int] = {}  # sequence number of a backward node -> position of the forward operation
        self.mixed = any(_narrow(c) for p in self.needed for c in (*self.raws[p].cells(), *self.raws[p].results()))
        self.high = {p for p in self.needed if group(converter, p) in kept or (self.mixed and _wide(self.raws[p]))}
        self.bad: set[int] = set()  # by id of Cell: more that is not finite than was recorded
        self.top: dict[int | None, float] = {}  # by position: the largest magnitude that did not fit
        self.first_backward: tuple[int | None, bool] | None = None
        self.peak = 1.0  # largest magnitude of the backward pass
        self._position = {raw.index: p for p, raw in enumerate(self.raws)}
        self._inside = set(self.needed)
        self._crossed: dict[tuple[int, bool, bool], torch.Tensor] = {}
        leaves = [(p, c) for p in self.needed for c in self.raws[p].cells() if self.home(c) is None]
        self._leaf_high = {id(c) for p, c in leaves if p in self.high or (self.mixed and not _narrow(c))}
        self._held: tuple[list[torch.Tensor], list[tuple[Cell, torch.Tensor]]] = ([], [])

    def rounded(self, tensor: torch.Tensor, place: int | None, own: bool = False) -> torch.Tensor:
        """To the format and back."""
        if not tensor.is_floating_point() or tensor.layout is not torch.strided:
            return tensor
        busy, self.busy = self.busy, True
        try:
            near = tensor.to(self.low).to(tensor.dtype)
            if self.saturates is not None:
                near = torch.where(tensor.abs() <= self.saturates, near, math.nan)
            if self.watching and near.numel() and not all_finite(near):
                lost = torch.isfinite(tensor) & ~torch.isfinite(near)
                top = float(tensor[lost].abs().max()) if bool(lost.any()) else math.inf
                self.top.setdefault(place, top)
            return near
        finally:
            self.busy = busy

    def round_(self, tensor: torch.Tensor, place: int | None) -> torch.Tensor:
        """The same in place, for what an operation has just made: half the time, as no fresh memory is touched."""
        if not tensor.is_floating_point() or tensor.layout is not torch.strided:
            return tensor
        if self.watching or self.saturates is not None:
            near = self.rounded(tensor, place)
        else:
            size = tensor.numel()
            if self._spare.numel() < size:
                self._spare = torch.empty(size, dtype=self.low)
            near = self._spare[:size].view(tensor.shape)
            near.copy_(tensor)
        return tensor.copy_(near)

    def _own_extremes(self, tensor: torch.Tensor) -> torch.Tensor:
        """A mask filled with the lowest number of the program's format holds the lowest of this one."""
        if tensor.layout is not torch.strided:
            return tensor
        top = tensor.abs() == torch.finfo(tensor.dtype).max
        return torch.where(top, tensor.sign() * torch.finfo(self.low).max, tensor) if bool(top.any()) else tensor

    def home(self, cell: Cell) -> int | None:
        """Position of the operation in this replay that makes it; None for data and parameters."""
        place = self._position.get(cell.producer) if cell.producer is not None else None
        if place is None or (cell.is_leaf and cell.requires_grad):
            return None
        region = self.raws[place].region
        if region is not None:
            place = self._position.get(region.index)
        return place if place in self._inside else None

    # -- what the replay does differently -----------------------------------------------------------------------

    def get(self, cell: Cell) -> torch.Tensor:
        """Across the border of a part in float32 by a cast."""
        tensor = super().get(cell)
        if self.place is None or not self.high or not tensor.is_floating_point():
            return tensor
        home = self.home(cell)
        source = home in self.high if home is not None else id(cell) in self._leaf_high
        here = self.place in self.high
        if source == here:
            return tensor
        key = (id(cell), here, torch.is_grad_enabled())
        if key not in self._crossed:
            self._crossed[key] = _Crossing.apply(tensor, self, here)
        return self._crossed[key]

    def thaw(self, tree: Any, swap: dict[int, torch.Tensor]) -> Any:
        """Limits that the program asked its own format for, finfo(x.dtype).tiny, are those of this format here."""
        if type(tree) is float and tree in self.own and self.place not in self.high:
            return self.own[tree]
        return super().thaw(tree, swap)

    def call(self, raw: Raw, swap: dict[int, torch.Tensor] | None = None) -> Any:
        """The operation, remembering which backward nodes belong to it."""
        self.place = self._position[raw.index]
        before = _sequence()
        result = super().call(raw, swap)
        for number in range(before, _sequence()):
            self.places[number] = self.place
        return result

    def _bind(self, raw: Raw, result: Any) -> None:
        super()._bind(raw, result)
        if self.watching:
            self.bad.update(id(c) for c in raw.results() if id(c) in self.env and _worse(self.env[id(c)], c.tensor))

    def _leaf(self, cell: Cell) -> torch.Tensor:
        value = self.leaf_values.get(id(cell), cell.tensor)
        if value is not None and value.is_floating_point() and id(cell) not in self._leaf_high:
            wide = value.detach().to(torch.float32) if value.dtype.itemsize < 4 else value.detach()
            near = self.leaf_values[id(cell)] = self.rounded(self._own_extremes(wide), self.place)
            if self.watching and _worse(near, value):
                self.bad.add(id(cell))
        return super()._leaf(cell)

    def _outcome(self) -> Outcome:
        self.place = None
        return super()._outcome()

    def _differentiate(self, roots: list[torch.Tensor], outcome: Outcome) -> None:
        targets = [(cell, leaf) for cell, leaf in self.leaves.values() if leaf.requires_grad and leaf.is_leaf]
        self._held = ([t for t in roots if t.requires_grad], targets)
        if self._held[0] and targets:
            outcome.grads = self.differentiated(1.0)
            outcome.gradients = len(outcome.grads)
            outcome.bad_gradients = sum(not all_finite(g) for g in outcome.grads.values())

    # -- more than one backward pass ----------------------------------------------------------------------------

    def differentiated(self, scale: float) -> dict[int, torch.Tensor]:
        """The gradients of the loss times `scale`, by Cell key. Call it inside `rounding`."""
        outputs, targets = self._held
        seeds = [torch.full_like(t, scale) for t in outputs]
        try:
            grads = torch.autograd.grad(outputs, [leaf for _, leaf in targets], seeds, retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            raise CannotReplay(f"the gradients cannot be computed again: {str(error).splitlines()[0]}") from error
        return {cell.key: g.detach() for (cell, _), g in zip(targets, grads, strict=True) if g is not None}

    def rounding(self) -> _Rounding:
        """Inside, every operation's results are rounded."""
        return _Rounding(self)

    def note(self, place: int | None, result: Any, operands: Iterable[torch.Tensor]) -> None:
        """One operation of the backward pass."""
        self.busy = True
        try:
            for tensor in cells(result):
                if tensor.is_floating_point() and tensor.numel() and tensor.layout is torch.strided:
                    low, high = torch.aminmax(tensor.detach())
                    top = max(abs(float(low)), abs(float(high)))
                    if math.isfinite(top):
                        self.peak = max(self.peak, top)
                    elif self.first_backward is None:
                        self.first_backward = (place, all(all_finite(t) for t in operands if t.is_floating_point()))
        finally:
            self.busy = False

    # -- where it went wrong -------------------------------------------------------------------------------------

    def birth(self) -> Overflow | None:
        """The first operation whose result does not fit, among those that what went bad depends on."""
        born = self._births(self.roots)
        if born is None and self.first_backward is not None:
            place, fresh = self.first_backward
            if place is not None and not fresh:
                born = self._births([*self.raws[place].cells(), *self.raws[place].results()])
            if born is None and place is not None:
                return Overflow(place, True, self.top.get(place, math.inf))
        return born

    def _births(self, start: Iterable[Cell]) -> Overflow | None:
        todo, seen, found = [c for c in start if id(c) in self.bad], set(), []
        while todo:
            cell = todo.pop()
            home = self.home(cell)
            if home is None or home in seen:
                continue
            seen.add(home)
            worse = [c for c in self.raws[home].cells() if id(c) in self.bad]
            data = next((c for c in worse if self.home(c) is None), None)
            if data is not None or not worse:
                found.append((home, data))
            todo.extend(c for c in worse if c is not data)
        if not found:
            return None
        place, data = min(found, key=lambda pair: pair[0])
        if data is None:
            return Overflow(place, False, self.top.get(place, math.inf))
        top = float(data.tensor.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()) if data.tensor is not None else math.inf
        value = self.converter.value(data)
        return Overflow(place, False, top, value.name or ("a parameter" if value.role == "parameter" else "the data"))


def _own_limits(low: torch.dtype) -> dict[float, float]:
    """Limits of the formats that programs are written in -> of `low`."""
    to = torch.finfo(low)
    known = {torch.finfo(d).max: to.max for d in (torch.float32, torch.float16, torch.bfloat16)}
    known.update({-top: -to.max for top in list(known)})
    wide = torch.finfo(torch.float32)
    return {**known, wide.tiny: to.tiny, wide.eps: to.eps}


def _worse(now: torch.Tensor, recorded: torch.Tensor | None) -> bool:
    """More that is not finite than in the step as it ran."""
    if not now.is_floating_point() or all_finite(now):
        return False
    before = 0 if recorded is None or recorded.shape != now.shape else int((~torch.isfinite(recorded)).sum())
    return int((~torch.isfinite(now.detach())).sum()) > before


def _narrow(cell: Cell) -> bool:
    """Held in 16 or 8 bits by the program itself."""
    return cell.tensor is not None and cell.tensor.is_floating_point() and cell.tensor.dtype.itemsize < 4


def _wide(raw: Raw) -> bool:
    """In a program of mixed formats: what it computes in float32 on purpose."""
    floats = [c for c in raw.results() if c.tensor is not None and c.tensor.is_floating_point()]
    return bool(floats) and not any(_narrow(c) for c in floats)


def group(converter: Converter, place: int) -> str:
    """The module in which an operation ran, or its line where there is none with a name."""
    raw = converter.raws[place]
    site = converter.site(raw.places, raw.module, raw.step)
    if site is None:
        return "outside of the program"
    return site.module or f"{site.file}:{site.line}"
