"""What a comparison found, in the sentences and figures of a report."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from numdebug.comparing.compare import Compared
from numdebug.comparing.divergence import Parting
from numdebug.comparing.envelope import LIMIT, expected, usual
from numdebug.evidence import Evidence, Number
from numdebug.recording import Op
from numdebug.report.model import Apart, Comparison, Tolerance


def published(c: Compared, predicted: bool, removed_by: tuple[str, ...], framework: str) -> Comparison:
    """The comparison as a report holds it."""
    m, j = c.measured, c.judgement
    return Comparison(
        axis=c.axis, a=c.a.label, b=c.b.label, explanation=j.explanation, explained=j.explained, predicted=predicted, because=j.because,
        output=c.output, size=m.size, differing=m.differing + m.non_finite, largest=m.largest, ulps=m.ulps, format=c.form,
        envelope=m.envelope, ratio=m.ratio, apart=_apart(c.parting) if c.parting is not None else None, first=_first(c),
        removed_by=removed_by, tolerance=tolerance(c, framework) if j.explained and not m.identical else None,
    )  # fmt: skip


def _apart(p: Parting) -> Apart:
    return Apart(
        kind=p.kind, op=p.op.name, what=told(p), site_a=p.a.site if p.a is not None else None, site_b=p.b.site if p.b is not None else None,
        before=p.before, after=p.after.ratio if p.after is not None else 0.0, proof=p.proof, confirmed=p.cured,
    )  # fmt: skip


def told(p: Parting) -> str:
    """What is different there."""
    if p.kind == "data":
        name = p.value or "an operand"
        off = f" by up to {p.now:.3g}" if isinstance(p.now, float) else ""
        return f"{name}, which goes into {_op(p.b)}, differs{off} between the two sides"
    if p.kind == "argument":
        return f"{p.argument} of {_op(p.b)} is {p.was} on one side and {p.now} on the other"
    if p.kind == "dtype":
        subject = p.value or f"what {_op(p.b)} gives"
        return f"{subject} is {p.was} on one side and {p.now} on the other"
    if p.kind == "missing":
        return f"{_op(p.a)} is computed on the first side only"
    if p.kind == "extra":
        return f"{_op(p.b)} is computed on the second side only"
    if p.kind == "replaced":
        return f"the first side computes {_op(p.a)}, the second {_op(p.b)}"
    return f"the same {_op(p.b)}, on operands that agree, gives something else"


def _op(op: Op | None) -> str:
    return op.name if op is not None else "nothing"


def _first(c: Compared) -> str:
    if c.first is None or c.b.run is None:
        return ""
    _, value, measured = c.first
    op = c.b.run.recording.producer(value)
    if op is None:
        return ""
    where = f" at {op.site.file}:{op.site.line}" if op.site is not None else ""
    return f"{op.name}{where}: {measured.differing} of {measured.size} elements, by up to {measured.largest:.2g} ({measured.ulps:.2g} ulp)"


def tolerance(c: Compared, framework: str) -> Tolerance | None:
    """The smallest tolerances, as a test writes them, that let the whole envelope through."""
    spread = c.allowed
    if spread is None or not spread.size:
        return None
    one = next((o for o in (*c.a.outputs, *c.b.outputs) if o.name == c.output), None)
    if one is None or one.array.shape != spread.shape:
        return None
    values = np.abs(one.array.astype(np.float64)).ravel()
    bound = LIMIT * expected(spread.size) * usual(spread.astype(np.float64).ravel(), c.samples)
    large = values >= np.median(values)
    with np.errstate(all="ignore"):
        relative = bound[large] / values[large]
    relative = relative[np.isfinite(relative)]
    rtol = _rounded_up(float(np.median(relative))) if relative.size else 0.0
    atol = _rounded_up(float(np.max(np.maximum(bound - rtol * values, 0.0))))
    why = (
        f"{LIMIT:g} times what rounding moves each element by: rtol for elements of the usual size, atol for those near 0"
    )
    if framework == "torch":
        return Tolerance(rtol, atol, why, f"torch.testing.assert_close(actual, expected, rtol={rtol:g}, atol={atol:g})")
    return Tolerance(rtol, atol, why, f"numpy.testing.assert_allclose(actual, expected, rtol={rtol:g}, atol={atol:g})")


def _rounded_up(number: float) -> float:
    """To one significant digit."""
    if number <= 0 or not math.isfinite(number):
        return 0.0
    power = 10.0 ** math.floor(math.log10(number))
    return float(f"{math.ceil(number / power - 1e-9) * power:.0e}")


def verdict(found: list[Comparison]) -> str:
    """One sentence over all of them."""
    actual = [c for c in found if not c.predicted] or found
    bad = [c for c in actual if not c.explained]
    if bad:
        worst = max(bad, key=lambda c: c.ratio)
        site = worst.apart.site_b or worst.apart.site_a if worst.apart is not None else None
        where = f" at {site.file}:{site.line} ({worst.apart.op})" if site is not None and worst.apart is not None else ""
        what = f": {worst.apart.what}{where}" if worst.apart is not None else f": {worst.because}"
        return f"{worst.b} differs from {worst.a} by more than rounding{what}"
    apart = [c for c in actual if c.explanation != "identical"]
    if not apart:
        return "identical, bit for bit" + (f" ({_ways(actual)})" if len(actual) > 1 else "")
    kinds: dict[str, Any] = {}
    for c in apart:
        kinds.setdefault(c.explanation, c)
    words = {
        "rounding-difference": "rounding explains the difference",
        "dtype-mismatch": "the sides compute in different formats, which explains the difference",
        "reduced-precision-matmul": "products with narrower operands explain the difference; float32 products do not",
        "flush-to-zero": "subnormal numbers that one side flushes to 0 explain the difference",
        "nondeterminism": "sums in another order from run to run explain the difference",
    }  # fmt: skip
    worst = max(apart, key=lambda c: c.ratio)
    first = "; ".join(words.get(kind, kind) for kind in kinds)
    times = f", {worst.ratio:.2g} times the expected size" if math.isfinite(worst.ratio) and worst.envelope else ""
    return f"{first} ({worst.largest:.2g} at most{times})"


def _ways(found: list[Comparison]) -> str:
    return ", ".join(c.axis for c in found)


def evidence(c: Comparison, number: str, tried: bool) -> Evidence:
    """The fact that rules read."""
    sites = {}
    if c.apart is not None:
        sites = {role: site for role, site in (("target", c.apart.site_b), ("other", c.apart.site_a)) if site is not None}
    return Evidence(
        "difference", "compare", number, site=sites.get("target") or sites.get("other"),
        numbers={
            "largest": Number(c.largest, None), "ulps": Number(c.ulps, "ulp"), "differing": Number(c.differing, "elements"),
            "size": Number(c.size, "elements"), "envelope": Number(c.envelope, None), "ratio": Number(c.ratio, None),
        },
        facts={
            "explanation": c.explanation, "explained": c.explained, "axis": c.axis, "a": c.a, "b": c.b, "format": c.format,
            "because": c.because, "op": c.apart.op if c.apart is not None else None, "what": c.apart.what if c.apart is not None else "",
            "proof": c.apart.proof if c.apart is not None else "", "cured": bool(c.apart is not None and c.apart.confirmed),
            "tried": tried, "output": c.output,
        },
        sites=sites,
    )  # fmt: skip
