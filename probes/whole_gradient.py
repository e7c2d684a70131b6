"""Is the gradient of the whole step the derivative of its loss? Asked on request (--check-gradients).

Measures  for every parameter of the last recorded step: the gradient along one random direction against fourth-order differences of the
          loss in float64, over a sweep of steps h.
Costs     one gradient in float64, and about eight forward passes for each parameter.
Misses    what is wrong in float32 only; functions that PyTorch cannot compute in float64; more than 64 parameters.
"""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.evidence import Evidence, Number
from numdebug.run import CannotAsk, CheckedGradient, Run

QUESTION = "Is the gradient of the whole step the derivative of its loss? (--check-gradients)"

_TOLD = ("right", "acceptable")


def measure(run: Run) -> Iterator[Evidence]:
    """One fact for each parameter whose gradient disagrees, and one that sums up the rest."""
    if not run.options.get("check_gradients") or run.recording.sinks:
        return
    try:
        checked = run.check_gradients()
    except CannotAsk as why:
        yield Evidence("gradients-checked", "whole_gradient", facts={"why_not": str(why)})
        return
    surrogates = any(f.verdict == "surrogate" for f in run.functions())
    for one in checked:
        if one.verdict in ("inexact", "suspicious", "wrong"):
            yield _fact(run, one, surrogates)
    right = [c for c in checked if c.verdict in _TOLD]
    numbers = {
        "parameters": Number(len(checked), "parameters"),
        "right": Number(len(right), "of them agree"),
        "undecided": Number(sum(c.verdict in ("kink", "undecided") for c in checked), "on a kink, or lost in rounding"),
        "largest_error": Number(max([c.error for c in right] or [0.0]), "relative, of those that agree"),
    }
    yield Evidence("gradients-checked", "whole_gradient", numbers=numbers)


def _fact(run: Run, one: CheckedGradient, surrogates: bool) -> Evidence:
    numbers = {
        "error": Number(one.error, "relative"),
        "backward": Number(one.analytic),
        "differences": Number(one.numeric),
        "uncertainty": Number(one.uncertainty),
    }
    mistake = "zero" if one.analytic == 0 else "ratio"
    loss = run.losses()[-1]
    op = run.recording.producer(loss)
    facts = {
        "op": "backward", "phase": "backward", "parameter": one.name, "verdict": one.verdict, "mistake": mistake, "members": [],
        "sweep": [[h, n] for h, n in one.sweep], "surrogates": surrogates,
        "proof": f"differences of the loss in float64 give {one.numeric:.6g} along a random direction, backward {one.analytic:.6g}",
    }  # fmt: skip
    site = op.site if op is not None else one.made_at
    return Evidence("whole-gradient", "whole_gradient", site=site, op=op.index if op is not None else None, numbers=numbers, facts=facts)
