"""From the tape to the graph that probes can ask."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from numdebug.observe.arrays.graph import Graph, Node
from numdebug.observe.numpy.hooks import Hooks
from numdebug.observe.numpy.tape import Cell, Record, Tape
from numdebug.recording import Op, Recording, Sink, Site

MOST = 400  # values that the program takes out: of a long list the last ones


def graph_of(tape: Tape, hooks: Hooks, names: dict[str, Any]) -> Graph:
    """The recorded window. `names`: what the program's main module holds."""
    first = tape.records[0].index if tape.records else 0
    recording = Recording(framework="numpy", complete=first == 0)
    if first:
        recording.why_incomplete = f"the last {len(tape.records)} of {tape.count} operations are kept"
    graph = Graph(recording, [], {}, frames=lambda op: tuple(tape.frames.frame(p) for p in reversed(tape.records[op.index].places)))
    named = list(_named(tape, names))
    formats = {v.dtype for r in tape.records for c in r.outputs for v in (c.value,)}
    if formats & {"float64", "complex128"}:
        graph.wide = np.dtype(np.longdouble)
    sites: dict[Any, Site | None] = {}
    for record in tape.records:
        for cell in (*record.operands, *record.outputs):
            _keep(graph, tape, cell, first)
        places = record.places[:1]
        if places not in sites:
            sites[places] = tape.frames.site(record.places, None, 0)
        op = Op(
            record.index - first, record.name, record.native, "forward", 0, tuple(c.value for c in record.operands),
            tuple(c.value for c in record.outputs), record.scalars, sites[places], in_place=record.in_place,
        )  # fmt: skip
        recording.ops.append(op)
        graph.nodes.append(_node(graph, op, record))
    for name, cell in named:
        cell.value.name = cell.value.name or name
    out = [(cell, None, tape.frames.site(places, None, 0)) for cell, places in hooks.consumed.values()]
    results = [(cell, name, None) for name, cell in named if not cell.read]
    graph.consumed = list(_sinks(graph, [*out, *results], {}))[-MOST:]
    return graph


def _keep(graph: Graph, tape: Tape, cell: Cell, first: int) -> None:
    value = cell.value
    if value.id in graph.arrays:
        return
    graph.arrays[value.id] = cell.array()
    if value.producer is not None:
        value.producer = value.producer - first if value.producer >= first else None
    if cell.made:
        value.made_at = tape.frames.site(cell.made, None, 0)


def _node(graph: Graph, op: Op, record: Record) -> Node:
    again = record.again

    def compute(arrays: Sequence[np.ndarray], wide: bool) -> Sequence[np.ndarray]:
        if again is None:
            raise TypeError(f"{op.native} is not called again")
        return again(arrays, graph.wide if wide else None)

    def moved(arrays: Sequence[np.ndarray], generator: np.random.Generator) -> Sequence[np.ndarray]:
        if again is None:
            raise TypeError(f"{op.native} is not called again")
        return again(arrays, graph.wide, generator)

    return Node(op, compute, record.given or again is None, moved)


def _named(tape: Tape, names: dict[str, Any]) -> Iterator[tuple[str, Cell]]:
    """What the program's names hold in the end, as far as it was recorded."""
    for name, thing in names.items():
        if not name.startswith("_"):
            for path, item in _inside(name, thing):
                if tape.tracked(item) and (id(item) in tape.known or isinstance(item, np.ndarray)):
                    yield path, tape.cell(item)


def _inside(name: str, thing: Any, depth: int = 4) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, (np.ndarray, np.generic, float)):
        yield name, thing
    elif depth and type(thing) is dict:
        for key, item in list(thing.items()):
            yield from _inside(f"{name}[{key!r}]", item, depth - 1)
    elif depth and type(thing) in (list, tuple):
        for index, item in enumerate(thing):
            yield from _inside(f"{name}[{index}]", item, depth - 1)


def _sinks(graph: Graph, found: Sequence[tuple[Cell, str | None, Site | None]], seen: dict[int, None]) -> Iterator[Sink]:
    for cell, name, site in found:
        value = cell.value
        if value.producer is not None and value.id in graph.arrays and value.id not in seen:
            seen[value.id] = None
            yield Sink("output", value, name or value.name, site)


def main_names() -> dict[str, Any]:
    """What the main module holds."""
    return dict(getattr(sys.modules.get("__main__"), "__dict__", {}))
