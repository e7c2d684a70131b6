"""Which operations of a healthy step could fail, and how far is each from its edge?

Measures  where nothing failed: every naive form, and every exp, in what the loss depends on, unless algebra makes it safe (x - max x is
          never positive, tanh stays within [-1, 1], a negated square is never positive, ...), with its operand's nearest value.
Costs     nothing beyond the recorded step; the search for a trigger that follows (at most eight operations) costs 24 steps or 2 s.
Misses    quotients, roots and logs by themselves: whether their operand can reach the edge depends on how data hang together, which a
          box around them does not say.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.dangers import FORMS, Edge, edges
from numdebug.evidence import Evidence, Number
from numdebug.run import Run

QUESTION = "Which operations of a healthy step could fail, and how far is each from its edge?"


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each operation and source line (its last call), forms first, then by how near the edge is."""
    if run.recording.sinks or not run.recording.complete:
        return
    found: dict[object, Edge] = {}
    for edge in edges(run):
        if edge.op.site is not None:
            found[edge.op.site.span, edge.op.name, edge.goal] = edge
    for edge in sorted(found.values(), key=lambda e: (_rank(e), e.goal != "high", abs(e.nearest - e.limit), e.op.index)):
        yield _fact(edge)


def _rank(edge: Edge) -> int:
    """The larger formula first: a log of a softmax is more than the softmax in it."""
    return list(FORMS).index(edge.form) if edge.form else len(FORMS)


def _fact(edge: Edge) -> Evidence:
    facts = {"op": edge.op.name, "form": edge.form, "members": sorted(edge.members), "operand": edge.operand, "goal": edge.goal}
    numbers = {"nearest": Number(edge.nearest), "edge": Number(edge.limit)}
    return Evidence("risky-op", "latent", site=edge.op.site, op=edge.op.index, numbers=numbers, facts=facts)
