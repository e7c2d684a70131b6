"""Does every hand-written backward compute the derivative of its forward?

Measures  for each autograd function of the program's own, and each argument that is differentiated: the gradient that its backward gives,
          along random directions, against fourth-order differences in float64 over a sweep of steps; for a wrong one, the kind of
          mistake, the line, and the one change that makes it right.
Costs     about 20 calls of each function; 200 more of one that is wrong.
Misses    functions that cannot run in float64, whose results differ from call to call, or that no recorded step called; what is wrong
          only for other arguments than the recorded ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numdebug.evidence import Evidence, Number
from numdebug.recording import Site
from numdebug.run import HandWritten, Run

QUESTION = "Does every hand-written backward compute the derivative of its forward?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source


def measure(run: Run) -> Iterator[Evidence]:
    """Wrong ones and surrogates, one fact for each argument."""
    seen = run.functions()
    for one in seen:
        if one.verdict in ("wrong", "surrogate"):
            others = [o for o in seen if o.function == one.function and o.op == one.op and o.verdict == "wrong" and o is not one]
            yield _fact(one, others)


def _fact(one: HandWritten, others: list[HandWritten]) -> Evidence:
    """`others`: further arguments of the same call whose gradients are wrong as well; a repair has to change them together."""
    numbers = {
        "error": Number(one.error, "relative"),
        "backward": Number(one.analytic),
        "differences": Number(one.numeric),
        "uncertainty": Number(one.uncertainty),
        "wrong_share": Number(one.share, "of the elements"),
    }
    if one.factor is not None:
        numbers["factor"] = Number(one.factor)
    facts: dict[str, Any] = {
        "op": "backward", "native": f"{one.function}.backward", "phase": "backward", "function": one.function, "argument": one.argument,
        "mistake": one.why, "word": one.word, "sweep": [[h, n] for h, n in one.sweep], "change": one.change, "change_kind": one.change_kind,
        "change_factor": one.change_factor, "members": [one.op], "call": one.call.line if one.call is not None else None,
        "proof": one.proof if one.verdict == "wrong" else "",
    }  # fmt: skip
    kind = "wrong-derivative" if one.verdict == "wrong" else "surrogate-derivative"
    sites: dict[str, Site] = {}
    changes: dict[str, str] = {}
    for mistake in (one, *others):
        if mistake.expression is not None and mistake.expression.span not in {site.span for site in sites.values()}:
            mark = str(len(sites) + 1) if sites else ""
            sites["target" + mark] = mistake.expression
            changes.update({"kind" + mark: mistake.change_kind, "factor" + mark: mistake.change_factor})
    facts["changes"] = changes
    facts["whole"] = all(mistake.expression is not None for mistake in (one, *others))  # every mistake has its change
    return Evidence(kind, "gradients", site=one.site, op=one.op, numbers=numbers, facts=facts, sites=sites)
