"""What entries about two runs of the same thing have in common: the fact that a comparison hands over, and its sentence."""

from __future__ import annotations

from numdebug.rules import Condition, Found, seen


def difference(explanation: str) -> Condition:
    """Two ways that differ, with this explanation."""
    return seen("difference", explanation=explanation)


def because(hit: Found) -> str:
    """How far apart, what rounding would do, and what was found where they part."""
    e = hit[0]
    apart = f"{e['what']}; " if e["what"] else ""
    how = f"{e['differing']} of {e['size']} elements of {e['output']} differ by up to {e['largest']:.3g} ({e['ulps']:.2g} ulp)"
    ratio = e["ratio"]
    times = f", {ratio:.3g} times what rounding explains" if isinstance(ratio, float) and ratio < float("inf") else ""
    return f"{apart}{how} between {e['a']} and {e['b']}{times}: {e['because']}"
