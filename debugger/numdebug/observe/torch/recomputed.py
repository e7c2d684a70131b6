"""A recorded step computed again in another arithmetic: with noise, narrower products, other orders of sums, float64, patched values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from numdebug.arithmetic import EXACT, OF_OPERAND, PRODUCTS, SUMS, Arithmetic, growth, ulps
from numdebug.formats import FORMATS, TF32
from numdebug.graph import STRUCTURAL
from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw
from numdebug.observe.torch.replay import Outcome, Replay, Rewrite, float64_by_default

AMPLIFIED = 16.0
"""Noise is made larger by this and what it does smaller again, so that it is not itself lost in the rounding of the format at hand."""
_FREE = (EXACT | STRUCTURAL | {
    "zeros_like", "ones_like", "full_like", "zero", "bernoulli", "native_dropout", "random", "uniform", "normal", "randn", "rand",
    "max_pool2d_with_indices", "isnan", "copysign", "empty_like",
}) - {"cast"}  # fmt: skip
_GATHERED = SUMS | {
    "cumsum", "var", "std", "norm", "layer_norm", "batch_norm", "group_norm", "rms_norm", "avg_pool2d", "avg_pool1d", "cdist", "prod",
    "_adaptive_avg_pool2d", "index_add", "scatter_add", "trace",
}  # fmt: skip
_NORMS = frozenset({"layer_norm", "batch_norm", "group_norm", "rms_norm"})
_SOFT = frozenset({"softmax", "log_softmax", "logsumexp"})  # what is rounded is the distance to the maximum
# Whole layers in one operation: products with what comes before and after them.
_FUSED = frozenset({
    "_transformer_encoder_layer_fwd", "_native_multi_head_attention", "mkldnn_rnn_layer", "lstm", "gru", "rnn_tanh", "rnn_relu", "function",
})  # fmt: skip
_FEWEST = 1 << 16
_POOL = torch.empty(0)


class Recomputed(Replay):
    """One pass. `given`: as float64 where it is wide, else in the format of the value that they stand for."""

    def __init__(self, converter: Converter, roots: list[Cell], how: Arithmetic, given: Mapping[int, torch.Tensor] | None = None) -> None:
        super().__init__(converter, roots, backward=False, given=given)
        self.how = how
        self.wide = how.wide
        self.keep: set[int] = {id(cell) for cell in roots}
        self.kept: dict[int, torch.Tensor] = {}
        self.generator = torch.Generator().manual_seed(how.noise if how.noise is not None else how.order or 0)
        self.narrow = any(_narrow(c) for p in self.needed for c in self.raws[p].results())
        self.amplified = AMPLIFIED if how.noise is not None and how.products is None and not self.narrow else 1.0
        if how.noise is not None:
            self.dtype = torch.float32  # what is narrower is computed there, so that noise of its size is not lost

    def run(self, rewrites: dict[int, Rewrite] | None = None, watch: Any = ()) -> Outcome:
        """As Replay.run, without gradients."""
        if not self.wide:
            return super().run(rewrites, watch)
        with float64_by_default():
            return super().run(rewrites, watch)

    def _leaf(self, cell: Cell) -> torch.Tensor:
        return super()._leaf(cell).detach()

    def _outcome(self) -> Outcome:
        for cell in self.roots:
            if id(cell) not in self.kept:
                self.kept[id(cell)] = self.get(cell).detach()
        return Outcome(None, True)

    # -- one operation -------------------------------------------------------------------------------------------

    def call(self, raw: Raw, swap: dict[int, torch.Tensor] | None = None) -> Any:
        """The operation, its operands and results moved as asked for."""
        name = canonical(raw.func)
        if raw.rng is not None and raw.region is None and not raw.written and not any(_floats(c) for c in raw.cells()):
            return [self._leaf(c).clone() if c is not None else None for c in raw.outs]  # random numbers, as they were drawn
        how = self.how
        if how.products is not None and how.noise is None and name in PRODUCTS | _FUSED:
            swap = {**(swap or {}), **self._narrowed(raw, how.products)}
        if how.order is not None and name in PRODUCTS:
            reordered = self._reordered(raw)
            if reordered is not None:
                return reordered
        if how.noise is None or name in _FREE or not any(c is not None and _floats(c) for c in raw.results()):
            return super().call(raw, swap)
        with torch.no_grad():
            narrow = any(_narrow(c) for c in raw.results())  # summed up in float32
            if name in PRODUCTS | _GATHERED | _SOFT | _FUSED and not narrow:
                swap = {**(swap or {}), **self._moved_operands(raw, name)}
            result = super().call(raw, swap)
            for cell, tensor in zip(raw.outs, result if isinstance(result, (tuple, list)) else [result], strict=False):
                if cell is not None and isinstance(tensor, torch.Tensor) and tensor.is_floating_point() and _floats(cell):
                    of = self.get(next(raw.cells())) if name in OF_OPERAND and not narrow else None
                    self._move_(tensor, self._half_ulp(cell) * (1.0 if narrow else self._result(raw, name)), of)
        return result

    def _bind(self, raw: Raw, result: Any) -> None:
        super()._bind(raw, result)
        for cell in raw.results():
            if id(cell) in self.keep:
                held = self.get(cell).detach()
                self.kept[id(cell)] = held.clone() if cell.storage in self._written else held
            if id(cell) in self.given:
                self.env[id(cell)] = self.given[id(cell)].to(self.get(cell).dtype)

    def _half_ulp(self, cell: Cell) -> float:
        """Relative, times what noise is amplified by where the pass computes in that very format."""
        assert cell.tensor is not None
        return torch.finfo(cell.tensor.dtype).eps / 2 * self.amplified

    def _noise(self, size: int) -> torch.Tensor:
        """Uniform in [-1, 1]; a slice of a pool, so that drawing it costs next to nothing."""
        global _POOL
        if _POOL.numel() < 2 * size:
            _POOL = torch.rand(max(2 * size, _FEWEST), generator=torch.Generator().manual_seed(0)).mul_(2).sub_(1)
        start = int(torch.randint(_POOL.numel() - size + 1, (1,), generator=self.generator))
        return _POOL[start : start + size]

    def _move_(self, tensor: torch.Tensor, size: float, of: torch.Tensor | None = None) -> torch.Tensor:
        """By that much of its own elements, or of those of another tensor."""
        noise = self._noise(tensor.numel()).view(tensor.shape)
        return tensor.addcmul_(tensor if of is None else of.to(tensor.dtype), noise.to(tensor.dtype), value=size)

    def _moved_operands(self, raw: Raw, name: str) -> dict[int, torch.Tensor]:
        """The terms of a sum or product, moved by what adding them up rounds away."""
        cells = [c for c in raw.cells() if _floats(c)]
        out = next(c for c in raw.results() if _floats(c))
        assert out.tensor is not None
        product = name in PRODUCTS | _FUSED
        _, several = growth(*self._terms(raw, name))
        grown = math.sqrt(max(1.0, several / 2 if product else several))
        moved = {}
        narrow = self.how.products if product else None
        for cell in cells[:2] if name in _NORMS else cells:
            value = self.get(cell)
            if not value.is_floating_point() or value.numel() < 2:
                continue
            if name in _SOFT:
                top = value.amax(dim=-1, keepdim=True)
                shifted = torch.where(torch.isfinite(value) & torch.isfinite(top), value - top, 0.0)
                step = self._noise(value.numel()).view(value.shape).to(value.dtype) * shifted
                moved[id(cell)] = value + step * self._half_ulp(out)
                continue
            size = self._half_ulp(out) * grown
            if narrow is not None and value.dtype is torch.float32:
                half = FORMATS[narrow].eps / 2 if narrow in FORMATS else TF32.eps / 2
                if narrow == "tf32-truncated":  # towards zero, by up to a whole ulp: it does not average out
                    moved[id(cell)] = torch.addcmul(value, value, self._noise(value.numel()).view(value.shape).sub(1.0), value=half)
                    continue
                size = max(size, half)
            moved[id(cell)] = torch.addcmul(value, value, self._noise(value.numel()).view(value.shape).to(value.dtype), value=size)
        return moved

    def _terms(self, raw: Raw, name: str) -> tuple[int, bool]:
        """How many terms an element of the result sums up, by the sizes of operands and result; whether they are summed by halves."""
        sizes = sorted(c.tensor.numel() for c in raw.cells() if c.tensor is not None and _floats(c))
        out = max(1, next(c.tensor.numel() for c in raw.results() if c.tensor is not None and _floats(c)))
        if name in PRODUCTS | _FUSED and len(sizes) >= 2:
            return max(1, int(math.sqrt(sizes[-1] * sizes[-2] / out))), False
        if name in _NORMS:
            return max(1, sizes[-1] // max(1, raw.results()[-1].tensor.numel())), True  # type: ignore[union-attr]
        return max(1, sizes[-1] // out if sizes else 1), True

    def _result(self, raw: Raw, name: str) -> float:
        """By how many half ulps the result itself is off."""
        if name in PRODUCTS | _FUSED | _GATHERED:
            return math.sqrt(growth(*self._terms(raw, name))[0])
        return 4.0 if name in _SOFT else ulps(name)

    # -- products ------------------------------------------------------------------------------------------------

    def _factors(self, raw: Raw) -> list[Cell]:
        """The operands that are multiplied; a bias is not."""
        cells = [c for c in raw.cells() if _floats(c)]
        name = canonical(raw.func) if not hasattr(raw.func, "_schema") else raw.func._schema.name.rpartition("::")[2]
        if name in ("addmm", "baddbmm", "addbmm", "addmv", "addr", "_addmm_activation"):
            return cells[1:3]
        if canonical(raw.func) in _FUSED:
            return cells
        return cells[:3] if canonical(raw.func) == "attention" else cells[:2]

    def _narrowed(self, raw: Raw, form: str) -> dict[int, torch.Tensor]:
        return {id(c): narrowed(self.get(c), form) for c in self._factors(raw) if self.get(c).dtype is torch.float32}

    def _reordered(self, raw: Raw) -> torch.Tensor | None:
        """The same product with its terms permuted, and summed in two parts."""
        name = raw.func._schema.name.rpartition("::")[2] if hasattr(raw.func, "_schema") else ""
        if name not in ("mm", "bmm", "addmm", "baddbmm", "mv", "dot") or raw.kwargs:
            return None
        a, b = (self.get(c) for c in self._factors(raw))
        order = torch.randperm(a.shape[-1], generator=self.generator)
        half = max(1, len(order) // 2)
        parts = [a[..., p] @ (b[p] if b.dim() == 1 else b[..., p, :]) for p in (order[:half], order[half:]) if len(p)]
        product = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        return product if name in ("mm", "bmm", "mv", "dot") else product + self.get(next(c for c in raw.cells() if _floats(c)))


def narrowed(tensor: torch.Tensor, form: str) -> torch.Tensor:
    """What a tensor core reads of a float32 operand, as float32. TF32 rounds ties away from zero, as the hardware's conversion does."""
    if form not in ("tf32", "tf32-truncated"):
        low: torch.dtype = getattr(torch, form)
        return tensor.to(low).to(tensor.dtype)
    bits = tensor.view(torch.int32)
    bits = bits + 0x1000 if form == "tf32" else bits.clone()
    return bits.bitwise_and_(~0x1FFF).view(torch.float32)  # infinities stay: their fraction is 0


def _floats(cell: Cell) -> bool:
    return cell.tensor is not None and cell.tensor.is_floating_point()


def _narrow(cell: Cell) -> bool:
    return _floats(cell) and cell.tensor is not None and cell.tensor.dtype.itemsize < 4


def recompute(
    converter: Converter, cells: Sequence[Cell], how: Arithmetic, given: Mapping[Cell, torch.Tensor] | None = None
) -> dict[int, torch.Tensor]:
    """By id of Cell. Raises CannotReplay."""
    held = {}
    for cell, tensor in (given or {}).items():
        own = cell.tensor.dtype if cell.tensor is not None else tensor.dtype
        held[id(cell)] = tensor.to(torch.float64 if how.wide and own.is_floating_point else own)
    replay = Recomputed(converter, list(cells), how, held)
    replay.run()
    return replay.kept


def deviations(converter: Converter, cells: Sequence[Cell], how: Arithmetic) -> dict[int, torch.Tensor]:
    """How far noise moves these values, to the scale of the program's own rounding."""
    moved = Recomputed(converter, list(cells), how)
    moved.run()
    still = None
    if moved.narrow:  # computed in float32: so is what it is compared with
        rest = Recomputed(converter, list(cells), Arithmetic())
        rest.dtype = torch.float32
        rest.run()
        still = rest.kept
    found = {}
    for cell in cells:
        key = id(cell)
        base = still[key] if still is not None else cell.tensor
        if key in moved.kept and base is not None and _floats(cell):
            found[key] = (moved.kept[key] - base) / moved.amplified
    return found
