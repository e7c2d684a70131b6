"""The recorded step in float64 beside what the program computed: where digits were lost, and whether its inputs' rounding explains it.

Every operation runs in float64 on float64 operands, all the way from data and parameters. Decisions stay those of the program: what is
not floating point, the result of a rounding, a ReLU's mask and random numbers are as recorded, or one flipped branch would look like
an error of 100 %.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import Outcome, Replay, Rewrite, float64_by_default, widened

# Results that are decisions, or come from outside: taken as recorded.
_DECIDED = frozenset({
    "round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "empty", "bernoulli",
})  # fmt: skip
_UP_TO_A_SIGN = frozenset({"eigh", "svd", "eig", "linalg_qr"})
MADE = frozenset({"arange", "linspace", "logspace", "full", "scalar_tensor"})  # from Python's numbers, which are float64
_LOW = (torch.float32, torch.float16, torch.bfloat16)


class Shadow(Replay):
    """One float64 pass. `noise`: the seed by which inputs are moved at random, by up to half an ulp; None leaves them."""

    def __init__(self, converter: Converter, roots: list[Cell], losses: list[Cell], noise: int | None = None) -> None:
        super().__init__(converter, [*roots, *losses], backward=bool(losses))
        self.wide = True
        self.losses = losses
        self.generator = None if noise is None else torch.Generator().manual_seed(noise)
        self.kept: dict[int, torch.Tensor] = {}  # float64 results of the cells asked for, by id
        self.keep: set[int] = set()
        self._random = {r.region.index for r in self.raws if r.region is not None and r.rng is not None}  # functions that draw numbers

    def run(self, rewrites: dict[int, Rewrite] | None = None, watch: Iterable[int] = ()) -> Outcome:
        """As Replay.run; whole numbers that meet a Python float become float64 too."""
        with float64_by_default():
            return super().run(rewrites, watch)

    def call(self, raw: Raw, swap: dict[int, torch.Tensor] | None = None) -> object:
        """The operation in float64; what it decided stays decided."""
        name = canonical(raw.func)
        if name in _UP_TO_A_SIGN or raw.index in self._random:
            return self._given(raw)
        if name in _DECIDED and not raw.written:
            return self._recorded(raw)
        if name in MADE and not any(True for _ in raw.cells()):
            made = exactly_made(raw)
            whole = not made.is_floating_point() or bool((made == made.round()).all())
            return made if self.generator is None or whole else self._moved(made, raw.outs[0].tensor.dtype)  # type: ignore[union-attr]
        try:
            result = super().call(raw, swap)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return self._given(raw)
        if name == "relu" and raw.outs and raw.outs[0] is not None and raw.outs[0].tensor is not None and isinstance(result, torch.Tensor):
            return torch.where(raw.outs[0].tensor != 0, self.get(next(raw.cells())), 0.0) if not raw.written else result
        if name == "cast" and self.generator is not None and isinstance(result, torch.Tensor) and result.is_floating_point():
            source = next(raw.cells())
            target = raw.outs[0].tensor if raw.outs and raw.outs[0] is not None else None
            if target is not None and source.tensor is not None and target.dtype.itemsize < source.tensor.dtype.itemsize:
                return self._moved(result, target.dtype)
        return result

    def _given(self, raw: Raw) -> object:
        """The recorded result, as if it were data: another one would be as right, or float64 cannot run the operation."""
        result = self._recorded(raw)
        several = result if isinstance(result, list) else [result]
        moved = [
            self._moved(t, c.tensor.dtype) if self.generator is not None and c is not None and c.tensor is not None and _is_float(t) else t
            for c, t in zip(raw.outs, several, strict=True)
        ]
        return moved if isinstance(result, list) else moved[0]

    def _recorded(self, raw: Raw) -> object:
        outs = [None if c is None or c.tensor is None else _wide(c.tensor) for c in raw.outs]
        return outs if len(outs) != 1 else outs[0]

    def _bind(self, raw: Raw, result: object) -> None:
        several = list(result) if isinstance(result, (tuple, list)) else [result]
        if len(raw.outs) == len(several) and not raw.written and not _shares(raw):
            several = [
                c.tensor.clone() if c is not None and c.tensor is not None and isinstance(t, torch.Tensor) and not _is_float(t) else t
                for c, t in zip(raw.outs, several, strict=True)
            ]
        super()._bind(raw, several)
        for cell in raw.results():
            if id(cell) in self.keep:
                self.kept[id(cell)] = self.get(cell).detach().clone()

    def _leaf(self, cell: Cell) -> torch.Tensor:
        held = super()._leaf(cell)
        if self.generator is None or cell.tensor is None or cell.tensor.dtype not in _LOW:
            return held
        if held.numel() == 1 and held.item().is_integer():
            return held  # 1.0, 2.0: a number of the formula
        moved = self._moved(held.detach(), cell.tensor.dtype)
        if held.requires_grad:
            moved.requires_grad_(True)
            self.leaves[id(cell)] = (cell, moved)
        return moved

    def _moved(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """By up to half an ulp of the program's format, each element by itself."""
        step = torch.rand(tensor.shape, generator=self.generator, dtype=torch.float64).sub_(0.5)
        return tensor * (1 + step * torch.finfo(dtype).eps)

    def _outcome(self) -> Outcome:
        outcome = Outcome(None, True)
        if self.losses:
            self._differentiate([self.get(cell) for cell in self.losses], outcome)
        return outcome


def exactly_made(raw: Raw) -> torch.Tensor:
    """A range or constant, as exact as the Python numbers that it was made from."""
    cell = raw.outs[0]
    assert cell is not None and cell.tensor is not None
    if not cell.tensor.is_floating_point():
        return cell.tensor.clone()
    made: torch.Tensor = raw.func(*raw.args, **{**raw.kwargs, "dtype": torch.float64})
    return made


def _is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _shares(raw: Raw) -> bool:
    """The results are views: what is written into them must reach what they are views of."""
    schema = getattr(raw.func, "_schema", None)
    return schema is not None and any(r.alias_info is not None for r in schema.returns)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return widened(tensor.detach()).clone()
