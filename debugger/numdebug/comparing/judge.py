"""From what was measured to the explanation that fits: the smallest one that explains the difference, or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numdebug.arithmetic import PRODUCTS
from numdebug.comparing.divergence import Parting
from numdebug.comparing.envelope import Measured

Explanation = Literal[
    "identical", "rounding-difference", "reduced-precision-matmul", "dtype-mismatch", "nondeterminism", "train-eval-mismatch",
    "compiler-rewrite", "flush-to-zero", "real-difference",
]  # fmt: skip


@dataclass(frozen=True)
class Judgement:
    """`explained`: by the arithmetic of both sides; what is not is a finding."""

    explanation: Explanation
    explained: bool
    because: str


@dataclass(frozen=True)
class Facts:
    """What the judge is told. `narrow`: the output against the envelope of narrower products, by format, where there are products."""

    axis: str
    output: Measured
    formats_a: frozenset[str]
    formats_b: frozenset[str]
    parting: Parting | None = None
    narrow: tuple[tuple[str, Measured], ...] = ()
    opaque: bool = False  # of one side only the outputs are known
    emulated: str = ""  # the format that operands of one side's products are cast to


_EMULATED = ("tf32", "tf32-truncated")


def judge(facts: Facts) -> Judgement:
    """See the page of each explanation in the catalogue."""
    m, p = facts.output, facts.parting
    if m.identical and p is None:
        return Judgement("identical", True, "every element is the same, bit for bit")
    if facts.axis == "mode" and not m.identical:
        what = _mode(p)
        return Judgement("train-eval-mismatch", False, f"in training mode {what}")
    if m.non_finite:
        kind: Explanation = "compiler-rewrite" if facts.axis == "compiled" else "real-difference"
        return Judgement(kind, False, f"{m.non_finite} of {m.size} elements are finite on one side only")
    if p is not None and _random(p):
        return Judgement("nondeterminism" if facts.axis == "runs" else "real-difference", False, "random numbers were drawn that differ")
    if p is not None and _training(p):
        return Judgement("train-eval-mismatch", False, f"{p.op.name} is in training mode on one side only")
    if facts.emulated:
        what = f"operands of products go through {facts.emulated} on one side, as under autocast"
        return Judgement("reduced-precision-matmul", m.within, what)
    if _formats(facts) or (p is not None and p.kind == "dtype"):
        return _dtype(facts)
    form = facts.axis if facts.axis in _EMULATED else _narrow(facts)
    if not m.within and form is not None:
        return Judgement("reduced-precision-matmul", True, f"products with operands in {form} explain it, float32 products do not")
    if m.flushed and m.flushed == m.differing:
        return Judgement("flush-to-zero", True, "every differing element is subnormal on one side and 0 on the other")
    if m.within:
        if facts.axis == "runs":
            return Judgement("nondeterminism", True, "the runs differ by rounding: sums are taken in another order each time")
        return Judgement("rounding-difference", True, "rounding in another order explains it")
    if facts.axis == "runs":
        return Judgement("nondeterminism", False, "two runs of the same program differ by more than rounding explains")
    if facts.axis == "compiled":
        return Judgement("compiler-rewrite", False, "compiled, it differs by more than rounding in another order explains")
    return Judgement("real-difference", False, "rounding does not explain it: the two sides compute different things")


def _formats(facts: Facts) -> bool:
    if facts.axis in ("sums", *_EMULATED):  # the same operations in the same formats
        return False
    return facts.formats_a != facts.formats_b and facts.parting is None or facts.axis == "dtype"


def _dtype(facts: Facts) -> Judgement:
    words = " and ".join(sorted(facts.formats_a ^ facts.formats_b)) or "different formats"
    p = facts.parting
    if p is not None and p.kind == "dtype" and p.was and p.now:
        words = f"{p.was} and {p.now}"
    if facts.output.within:
        return Judgement("dtype-mismatch", True, f"the sides compute in {words}; the difference is what the coarser one rounds away")
    if p is not None and p.kind == "dtype" and p.cured and facts.axis in ("float64", "bfloat16", "float16"):
        return Judgement("dtype-mismatch", True, f"only {p.value or 'the data'} went through {p.now}, which explains all of it")
    if p is not None and p.kind == "dtype":
        return Judgement("dtype-mismatch", False, f"one side goes through {p.now}, the other stays in {p.was}")
    return Judgement("real-difference", False, f"the sides compute in {words}, but they differ by more than the coarser one rounds away")


def _narrow(facts: Facts) -> str | None:
    """The narrower products that explain it: only where the difference may come from the products themselves."""
    p = facts.parting
    if p is not None and (p.kind != "result" or p.op.name not in PRODUCTS):
        return None
    if p is None and not facts.opaque:
        return None
    return next((form for form, m in facts.narrow if m.within), None)


DROPS = frozenset({"bernoulli", "native_dropout", "dropout"})


def _random(p: Parting) -> bool:
    return p.op.name in DROPS | {"random", "uniform", "normal"} and p.kind == "result"


def _training(p: Parting) -> bool:
    if p.kind == "argument" and p.argument in ("training", "train"):
        return True
    names = {op.name for op in (p.a, p.b) if op is not None}
    return p.kind in ("extra", "missing", "replaced") and bool(names & DROPS)


def _mode(p: Parting | None) -> str:
    if p is not None and p.op.name in ("batch_norm",):
        return "batch normalisation uses the rows at hand"
    return "dropout or batch statistics are active"
