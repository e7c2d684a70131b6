"""Parameters that never change although the loss depends on them: no optimizer has them, or no gradient reaches them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from numdebug.observe.torch.convert import Converter
from numdebug.observe.torch.names import canonical
from numdebug.observe.torch.records import Cell, Raw, cells_in
from numdebug.observe.torch.training import Backward, Training
from numdebug.weights import Untrained

# Numbers that stand in many programs for other reasons: that one equals what item() returned says nothing.
_COMMON = frozenset({0.0, 0.5, 1.0, 2.0, -1.0, 10.0, 100.0})


def untrained(converter: Converter, training: Training) -> list[Untrained]:
    """Those of the recorded backward passes, grouped by cause."""
    return [*_unowned(converter, training), *_cut(converter, training)]


def _name(converter: Converter, tensor: torch.Tensor) -> str:
    return converter.names.get(id(tensor), "a parameter")


# -- no optimizer has them ---------------------------------------------------------------------------------------


def _unowned(converter: Converter, training: Training) -> list[Untrained]:
    trained = [p for given in training.given for p, _, _ in given.parameters]
    if not trained:  # updates written by hand
        reached = [cell.alive for backward in training.backwards for cell, _ in backward.gradients]
        trained = [p for p in reached if p is not None and (known := training.leaf(p)) is not None and not known.unchanged]
    if not any(isinstance(p, torch.nn.Parameter) for p in trained):
        return []  # nothing is trained, or an input is (an attack, an inversion)
    found: dict[int, tuple[torch.Tensor, float]] = {}
    for backward in training.backwards:
        for cell, grad in backward.gradients:
            leaf = cell.alive
            if not isinstance(leaf, torch.nn.Parameter) or training.owns(leaf) or grad.tensor is None:
                continue
            known = training.leaf(leaf)
            norm = float(grad.tensor.double().norm()) if grad.tensor.layout is torch.strided else 0.0
            if known is not None and known.unchanged and not known.loaded and 0 < norm < float("inf"):
                found[id(leaf)] = (leaf, norm)
    out = []
    for late in (True, False):
        chosen = [(t, norm) for t, norm in found.values() if _late(training, t) is late]
        if chosen:
            known = training.leaf(chosen[0][0])
            made = converter.site(known.places) if known is not None else None
            names = tuple(_name(converter, t) for t, _ in chosen)
            size = sum(norm**2 for _, norm in chosen) ** 0.5
            out.append(Untrained("unowned", names, sum(t.numel() for t, _ in chosen), size, made=made, late=late))
    return out


def _late(training: Training, tensor: torch.Tensor) -> bool:
    known = training.leaf(tensor)
    return known is not None and known.late


# -- no gradient reaches them ------------------------------------------------------------------------------------


@dataclass
class _Trail:
    """What the recorded forward pass makes of one parameter: connected to autograd, or cut off from it at `op`."""

    connected: set[int] = field(default_factory=set)
    loose: dict[int, tuple[int, str]] = field(default_factory=dict)  # by storage: where and how it was cut off
    detached: dict[int, tuple[int, str]] = field(default_factory=dict)  # by id of the Cell: the same memory, outside of the graph
    numbers: dict[float, tuple[int, Raw]] = field(default_factory=dict)  # what item() returned, and where


def _cut(converter: Converter, training: Training) -> list[Untrained]:
    if not training.given or not training.backwards:
        return []
    without: dict[int, tuple[torch.Tensor, Cell]] = {}
    having: set[int] = set()
    for given in training.given:
        for p, cell, grad in given.parameters:
            if grad is not None:
                having.add(id(p))
            elif isinstance(p, torch.nn.Parameter) and p.requires_grad:
                without[id(p)] = (p, cell)
    groups: dict[object, tuple[int, str, list[torch.Tensor]]] = {}
    backward = training.backwards[-1]
    span = _forward(converter, training, backward)
    for key, (p, cell) in without.items():
        known = training.leaf(p)
        if key in having or known is None or not known.unchanged or known.loaded:
            continue
        where = _follow(span, cell, backward)
        if where is not None:
            groups.setdefault(converter.raws[where[0]].places[:1], (*where, []))[2].append(p)
    return [
        Untrained("cut", tuple(_name(converter, p) for p in ps), sum(p.numel() for p in ps), None, op=op, how=how)
        for op, how, ps in sorted(groups.values(), key=lambda group: group[0])
    ]


def _forward(converter: Converter, training: Training, backward: Backward) -> list[tuple[int, Raw]]:
    """The operations before a backward pass, back to the end of the step before it."""
    earlier = [g.after for g in training.given if g.after < backward.after]
    start = max(earlier, default=-1)
    return [(p, r) for p, r in enumerate(converter.raws) if start <= r.index < backward.after and r.phase == "forward" and r.region is None]


def _follow(span: list[tuple[int, Raw]], parameter: Cell, backward: Backward) -> tuple[int, str] | None:
    """Where the way from a parameter to the loss leaves autograd; None where there is no way, or it does not."""
    trail = _Trail(connected={parameter.storage})
    for position, raw in span:
        cut = _reads(trail, position, raw)
        if cut is not None and canonical(raw.func) == "_local_scalar_dense":
            value = _number(raw)
            if value is not None:
                trail.numbers[value] = (position, raw)
            continue
        storages = {c.storage for c in raw.results() if c.storage}
        if cut == (-1, ""):
            trail.connected |= storages
        elif cut is not None:
            for storage in storages - trail.connected:
                trail.loose.setdefault(storage, cut)
            trail.detached.update((id(c), cut) for c in raw.results() if c.storage in trail.connected)
    reached = [cut for c in backward.losses if (cut := _where(trail, c)) is not None]
    return min(reached, default=None)


def _where(trail: _Trail, cell: Cell) -> tuple[int, str] | None:
    return trail.detached.get(id(cell)) or trail.loose.get(cell.storage)


def _reads(trail: _Trail, position: int, raw: Raw) -> tuple[int, str] | None:
    """(-1, "") where the result is connected; a place and a word where it is cut off, here or before; None where it has nothing to do
    with the parameter."""
    cells = [c for c in raw.cells() if c.storage]
    name = canonical(raw.func)
    attached = [c for c in cells if c.storage in trail.connected and id(c) not in trail.detached]
    if attached:
        if name == "detach":
            return position, "detach"
        if name == "_local_scalar_dense":
            return position, "item"
        if not raw.grad:
            return position, "no_grad"
        if any(c.requires_grad for c in attached):
            return -1, ""
        floating = [c for c in attached if c.tensor is not None and c.tensor.is_floating_point()]
        return (position, "data") if floating and len(floating) == len(attached) else (-1, "")
    loose = [cut for c in cells if (cut := _where(trail, c)) is not None]
    if loose:
        return min(loose)
    return _number_again(trail, position, raw)


def _number(raw: Raw) -> float | None:
    cell = next(raw.cells(), None)
    if cell is None or cell.tensor is None or cell.tensor.numel() != 1 or not cell.tensor.is_floating_point():
        return None
    return float(cell.tensor)


def _number_again(trail: _Trail, position: int, raw: Raw) -> tuple[int, str] | None:
    """A number that item() took out of PyTorch comes back as a plain argument or as a new tensor."""
    if not trail.numbers:
        return None
    for value in _numbers(raw.args):
        for number, (where, read) in trail.numbers.items():
            near = read.places[:1] == raw.places[:1] or position == where + 1
            if _equal(value, number) and (near or abs(number) not in _COMMON):
                return where, "item"
    return None


def _equal(value: float, number: float) -> bool:
    return value == number or abs(value - number) <= 1e-7 * abs(number)


def _numbers(tree: object) -> Iterable[float]:
    if isinstance(tree, bool):
        return
    if isinstance(tree, (float, int)):
        yield float(tree)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _numbers(item)
    elif isinstance(tree, Cell):
        held = next(cells_in(tree)).tensor
        if held is not None and held.numel() == 1 and held.is_floating_point() and not tree.requires_grad:
            yield float(held)
