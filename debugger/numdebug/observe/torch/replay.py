"""Run a recorded step again, as it was or with some operations rewritten, under autograd.

Only what the loss (or the consumed output) depends on is run. Data and parameters come from the recording; random operations
get their generator's state back; a hand-written autograd function is called itself, so that its own backward is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.finite import all_finite
from numdebug.observe.torch.records import Cell, Raw

Rewrite = Callable[["Replay", Raw], Any]
_RUNNING_STATISTICS = ("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "cudnn_batch_norm", "miopen_batch_norm")


class CannotReplay(Exception):
    """The recorded step cannot be run again; the message says why."""


@dataclass
class Outcome:
    """What a replay gave. `same`: bit for bit what the recording holds."""

    loss: float | None
    outputs_finite: bool
    gradients: int = 0
    bad_gradients: int = 0
    same: bool = True
    results: list[torch.Tensor] = field(default_factory=list)
    grads: dict[int, torch.Tensor] = field(default_factory=dict)  # by Cell key

    @property
    def finite(self) -> bool:
        """Loss and every gradient."""
        return self.outputs_finite and self.bad_gradients == 0


class Replay:
    """One pass over the recorded step. `given`: tensors by id of Cell; nothing above them is computed."""

    def __init__(self, converter: Converter, roots: list[Cell], backward: bool, given: Mapping[int, torch.Tensor] | None = None) -> None:
        self.converter = converter
        self.roots = roots
        self.backward = backward
        self.raws = converter.raws
        self.given = dict(given or {})
        self.env: dict[int, torch.Tensor] = dict(self.given)
        self.leaves: dict[int, tuple[Cell, torch.Tensor]] = {}
        self.leaf_values: dict[int, torch.Tensor] = {}  # by id of Cell: data to use instead of what was recorded
        self.dtype: torch.dtype | None = None  # compute low precision in this format instead
        self.wide = False  # compute everything in float64
        self.guided = False  # differentiate also what the program computed without gradients
        self.watched: dict[int, torch.Tensor] = {}  # first result of the rewritten operations
        self._keep: list[Any] = []
        self.needed, self._written = self._closure()

    def _closure(self) -> tuple[list[int], set[int]]:
        """Positions of the records that the roots depend on, in order, and the storages they write."""
        position = {raw.index: p for p, raw in enumerate(self.raws)}
        needed: set[int] = set()
        todo = list(self.roots)
        seen: set[int] = set()
        while todo:
            cell = todo.pop()
            if id(cell) in seen or id(cell) in self.given:
                continue
            seen.add(id(cell))
            place = position.get(cell.producer) if cell.producer is not None else None
            if place is None or (cell.is_leaf and cell.requires_grad):
                continue
            raw = self.raws[place]
            if raw.phase == "optimizer":
                continue
            if raw.region is not None:
                raw = raw.region
                place = position.get(raw.index)
                if place is None:
                    continue
            if place not in needed:
                needed.add(place)
                todo.extend(raw.cells())
            if cell.previous is not None and cell not in raw.results():
                todo.append(cell.previous)
        written = {cell.storage for place in needed for cell in self.raws[place].written}
        return sorted(needed), written

    # -- what forms use ----------------------------------------------------------------------------------------

    def get(self, cell: Cell) -> torch.Tensor:
        """The tensor that stands for `cell` in this replay."""
        found = self.env.get(id(cell))
        if found is None:
            state = cell.is_leaf and cell.requires_grad  # a parameter is as recorded, whatever an earlier step of the window makes of it
            if not state and cell.previous is not None and id(cell.previous) in self.env and cell.storage == cell.previous.storage:
                found = self.env[id(cell.previous)]
            else:
                found = self._leaf(cell)
            self.env[id(cell)] = found
            self._keep.append(cell)
        return found

    def operand(self, position: int, number: int) -> torch.Tensor:
        """The `number`-th tensor operand of the operation at `position`."""
        return self.get(list(self.raws[position].cells())[number])

    def call(self, raw: Raw, swap: dict[int, torch.Tensor] | None = None) -> Any:
        """The recorded operation on this replay's operands; `swap` replaces operands by id of their Cell."""
        args, kwargs = self.thaw(raw.args, swap or {}), self.thaw(raw.kwargs, swap or {})
        if not hasattr(raw.func, "_schema"):
            return raw.func.apply(*args, **kwargs)
        name = raw.func._schema.name.rpartition("::")[2]
        if name in _RUNNING_STATISTICS:
            args = tuple(a.clone() if i in (3, 4) and isinstance(a, torch.Tensor) else a for i, a in enumerate(args))
        if self.dtype is not None and kwargs.get("dtype") in (torch.float16, torch.bfloat16):
            kwargs = {**kwargs, "dtype": self.dtype}
        if self.wide:
            if raw.rng is not None or not any(True for _ in raw.cells()):
                return [widened(c.tensor).clone() if c is not None and c.tensor is not None else None for c in raw.outs]
            if isinstance(kwargs.get("dtype"), torch.dtype) and kwargs["dtype"].is_floating_point:
                kwargs = {**kwargs, "dtype": torch.float64}
        return raw.func(*args, **kwargs)

    def thaw(self, tree: Any, swap: dict[int, torch.Tensor]) -> Any:
        """Recorded arguments with tensors of this replay in place of Cells."""
        if isinstance(tree, Cell):
            return swap.get(id(tree)) if id(tree) in swap else self.get(tree)
        if type(tree) is tuple:
            return tuple(self.thaw(item, swap) for item in tree)
        if type(tree) is list:
            return [self.thaw(item, swap) for item in tree]
        if type(tree) is dict:
            return {key: self.thaw(item, swap) for key, item in tree.items()}
        return tree

    def _leaf(self, cell: Cell) -> torch.Tensor:
        value = self.leaf_values.get(id(cell), cell.tensor)
        if value is None:
            raise CannotReplay("a value that the step needs was not kept")
        if self.dtype is not None and value.dtype in (torch.float16, torch.bfloat16):
            value = value.to(self.dtype)
        if self.wide:
            value = widened(value)
        if cell.storage in self._written and not (cell.is_leaf and cell.requires_grad):
            value = value.clone()
        held = value.detach()
        if cell.requires_grad and (held.is_floating_point() or held.is_complex()):
            held.requires_grad_(True)
            self.leaves[id(cell)] = (cell, held)
        return held

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self, rewrites: dict[int, Rewrite] | None = None, watch: Iterable[int] = ()) -> Outcome:
        """All needed operations in order, then the gradients. Raises CannotReplay where the recording does not suffice."""
        rewrites = rewrites or {}
        watched = set(watch)
        with _generators_restored(self.raws, self.needed), torch.autocast("cpu", enabled=False):
            for place in self.needed:
                raw = self.raws[place]
                with torch.set_grad_enabled(raw.grad or self.guided):
                    if raw.rng is not None:
                        raw.rng[0].set_state(raw.rng[1])
                    try:
                        result = rewrites[place](self, raw) if place in rewrites else self.call(raw)
                    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
                        raise CannotReplay(f"{raw.func} cannot be run again: {str(error).splitlines()[0]}") from error
                self._bind(raw, result)
                if place in watched:
                    self.watched[place] = (result[0] if isinstance(result, (tuple, list)) else result).detach()
            return self._outcome()

    def _bind(self, raw: Raw, result: Any) -> None:
        several = list(result) if isinstance(result, (tuple, list)) else [result]
        for cell, tensor in zip(raw.outs, several, strict=False):
            if cell is not None and isinstance(tensor, torch.Tensor):
                self.env[id(cell)] = tensor
        if raw.written:
            targets = [c for c in raw.cells() if c.storage and any(w.previous is c for w in raw.written)]
            for cell in raw.written:
                if id(cell) not in self.env:
                    source = next((c for c in targets if cell.previous is c), None)
                    if source is not None:
                        self.env[id(cell)] = self.get(source)

    def _outcome(self) -> Outcome:
        roots = [self.get(cell) for cell in self.roots]
        same = all(_identical(cell.tensor, tensor) for cell, tensor in zip(self.roots, roots, strict=True) if cell.tensor is not None)
        finite = all(all_finite(t) for t in roots)
        loss = float(roots[0].detach()) if roots and roots[0].numel() == 1 and not roots[0].is_complex() else None
        outcome = Outcome(loss, finite, same=same, results=[t.detach() for t in roots])
        if self.backward:
            self._differentiate(roots, outcome)
        return outcome

    def _differentiate(self, roots: list[torch.Tensor], outcome: Outcome) -> None:
        targets = [(cell, leaf) for cell, leaf in self.leaves.values() if leaf.requires_grad and leaf.is_leaf]
        outputs = [t for t in roots if t.requires_grad]
        if not outputs or not targets:
            return
        try:
            grads = torch.autograd.grad(outputs, [leaf for _, leaf in targets], [torch.ones_like(t) for t in outputs], allow_unused=True)
        except RuntimeError as error:
            raise CannotReplay(f"the gradients cannot be computed again: {str(error).splitlines()[0]}") from error
        for (cell, _), grad in zip(targets, grads, strict=True):
            if grad is None:
                continue
            outcome.gradients += 1
            outcome.grads[cell.key] = grad.detach()
            if not all_finite(grad):
                outcome.bad_gradients += 1


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit for bit, a NaN being equal to a NaN."""
    x, y = a.detach(), b.detach()
    return x.dtype == y.dtype and x.shape == y.shape and bool(((x == y) | ((x != x) & (y != y))).all())


@contextmanager
def float64_by_default() -> Iterator[None]:
    """Whole numbers that meet a Python float become float64 too."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """In float64 (complex128); whole numbers and booleans as they are."""
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.to(torch.float64) if tensor.is_floating_point() else tensor


class _generators_restored:
    """The program's random generators come back as they were."""

    def __init__(self, raws: list[Raw], needed: list[int]) -> None:
        generators = {id(raws[p].rng[0]): raws[p].rng[0] for p in needed if raws[p].rng is not None}  # type: ignore[index]
        generators[id(torch.default_generator)] = torch.default_generator
        self.states = [(g, g.get_state()) for g in generators.values()]

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        for generator, state in self.states:
            generator.set_state(state)
