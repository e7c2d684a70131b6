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

from numdebug.evidence import Evidence, Number
from numdebug.run import HandWritten, Run

QUESTION = "Does every hand-written backward compute the derivative of its forward?"
SILENT = True  # harm without a NaN: asked again of a run with the repair in its source


def measure(run: Run) -> Iterator[Evidence]:
    """Wrong ones and surrogates, one fact for each argument."""
    for one in run.functions():
        if one.verdict in ("wrong", "surrogate"):
            yield _fact(one)


def _fact(one: HandWritten) -> Evidence:
    numbers = {
        "error": Number(one.error, "relative"),
        "backward": Number(one.analytic),
        "differences": Number(one.numeric),
        "uncertainty": Number(one.uncertainty),
        "wrong_share": Number(one.share, "of the elements"),
    }
    if one.factor is not None:
        numbers["factor"] = Number(one.factor)
    facts = {
        "op": "backward", "native": f"{one.function}.backward", "phase": "backward", "function": one.function, "argument": one.argument,
        "mistake": one.why, "word": one.word, "sweep": [[h, n] for h, n in one.sweep], "change": one.change, "change_kind": one.change_kind,
        "change_factor": one.change_factor, "members": [one.op], "call": one.call.line if one.call is not None else None,
        "proof": one.proof if one.verdict == "wrong" else "",
    }  # fmt: skip
    kind = "wrong-derivative" if one.verdict == "wrong" else "surrogate-derivative"
    sites = {"target": one.expression} if one.expression is not None else {}
    return Evidence(kind, "gradients", site=one.site, op=one.op, numbers=numbers, facts=facts, sites=sites)
