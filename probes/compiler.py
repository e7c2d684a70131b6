"""Does the compiled program give what its operations as written give?

Measures  for results of compiled calls that are not finite although the operations as written are: the operation that comes out right
          when the compiler is kept from joining it with its operands, and whether switching off algebraic simplification cures it.
Costs     nothing where both agree; else some compilations of that call.
Misses    results that are finite on both sides, and rewrites of several operations at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.run import Run

QUESTION = "Does the compiled program give what its operations as written give?"


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each line whose operation was rewritten."""
    seen: set[object] = set()
    for op in run.recording.ops:
        if op.name != "compiled" or op.site is None or op.site.place in seen:
            continue
        seen.add(op.site.place)
        compiled, written = run.stats(op.outputs[0]), run.stats(op.operands[0])
        equation, simplifier = op.scalars["equation"], op.scalars["simplifier"]
        ways = [f"with its {equation} set apart by an optimization barrier"] if equation else []
        ways += ["with algebraic simplification off"] if simplifier else []
        proof = f"compiled {', and '.join(ways)}, the call gives the result of its operations as written" if ways else ""
        numbers = {
            "non_finite": Number(compiled.non_finite, "elements"),
            "written_non_finite": Number(written.non_finite, "elements"),
            "size": Number(compiled.size, "elements"),
        }
        facts = {
            "op": equation or "compiled", "equation": equation, "simplifier": simplifier, "proof": proof, "phase": op.phase,
            "step": op.step, "members": [op.index],
        }  # fmt: skip
        yield Evidence("compiled-apart", "compiler", site=op.site, op=op.index, numbers=numbers, facts=facts, sites={"target": op.site})
