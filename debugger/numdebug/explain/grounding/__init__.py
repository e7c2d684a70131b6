"""Does the report back what a model says? One claim at a time, without the model and without the network."""

from __future__ import annotations

from collections.abc import Callable

from numdebug.explain.claims import Claim
from numdebug.explain.grounding import directions, names, patches, quantities, statements, structure, wording
from numdebug.explain.grounding.backing import Backing
from numdebug.explain.items import Items


def check(claim: Claim, items: Items, source: Callable[[str], str | None] = lambda file: None) -> list[str]:
    """Why a claim is not shown; empty where the report backs it. `source` gives the text of a file of the program."""
    wrong = list(structure.complaints(claim, items))
    if wrong:
        return wrong
    backing = Backing(claim, items)
    parts = (quantities.complaints, names.complaints, wording.complaints, statements.complaints, directions.complaints)
    return list(dict.fromkeys([*(why for part in parts for why in part(backing)), *patches.complaints(backing, source)]))
