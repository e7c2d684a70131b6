"""The Report: what every renderer, and nothing else, reads. Mirrors the published JSON schema field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from numdebug.evidence import Evidence
from numdebug.recording import Frame, Site

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Edit:
    """Replace the text at `site`'s exact span by `text`; an empty span (end == start) inserts."""

    site: Site
    text: str


@dataclass(frozen=True)
class Repair:
    """What to change, said once: confirm applies `form` to the recorded ops, fixes write it into the source.

    `form` is a name both know ("log_softmax", "clamp_argument", "learning_rate", ...). `sites` are spans by role
    ("target" is the expression to change); several targets are "target", "target2", ... `numbers` holds its
    constants (dim, lo, hi, eps, factor).
    """

    form: str
    kind: Literal["rewrite", "setting", "data", "none"]
    summary: str
    sites: dict[str, Site] = field(default_factory=dict)
    ops: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fix:
    """The fix in words, and as a unified diff that applies with `git apply` in the program's folder, where it can be one."""

    summary: str
    diff: str | None = None


@dataclass(frozen=True)
class Consequence:
    """A symptom that the root cause explains."""

    what: str
    value: str
    site: Site | None = None


@dataclass(frozen=True)
class RuledOut:
    """Another bug that was considered, and the evidence against it."""

    bug: str
    why: str


@dataclass(frozen=True)
class Diagnosis:
    """One root cause."""

    bug: str
    title: str
    severity: Severity
    confidence: float
    because: str
    site: Site | None
    op: str | None = None
    native_op: str | None = None
    phase: str | None = None
    confirmed: Literal["yes", "no", "not-tried"] = "not-tried"
    confirmed_why: str = ""
    frames: tuple[Frame, ...] = ()
    fix: Fix | None = None
    consequences: tuple[Consequence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    evidence: tuple[str, ...] = ()  # evidence ids
    repair: Repair | None = None  # not part of the published JSON


@dataclass(frozen=True)
class Apart:
    """The first operation at which two sides part although what goes into it agrees.

    `kind`: data, argument, dtype, missing (from the second side), extra (on it), replaced, or result (of the same operation). `before` and
    `after`: the difference of its operands and of its result, as a multiple of what rounding explains.
    """

    kind: str
    op: str
    what: str
    site_a: Site | None = None
    site_b: Site | None = None
    before: float = 0.0
    after: float = 0.0
    proof: str = ""
    confirmed: bool = False


@dataclass(frozen=True)
class Tolerance:
    """What a test of this comparison should allow, and why."""

    rtol: float
    atol: float
    why: str
    assertion: str


@dataclass(frozen=True)
class Comparison:
    """Two ways to compute the same thing. `explanation` is a bug id or "identical"; `explained`: arithmetic alone accounts for it.

    Of the output that stands out most: `differing` of `size` elements, the `largest` absolute difference, in `ulps` of `format` at the
    output's largest magnitude; `envelope`: what rounding explains at the element that stands out most; `ratio`: the difference over that.
    """

    axis: str
    a: str
    b: str
    explanation: str
    explained: bool
    predicted: bool
    because: str
    output: str
    size: int
    differing: int
    largest: float
    ulps: float
    format: str
    envelope: float
    ratio: float
    apart: Apart | None = None
    first: str = ""  # the first operation whose results are not the same bit for bit, in words
    removed_by: tuple[str, ...] = ()
    tolerance: Tolerance | None = None
    evidence: str | None = None


@dataclass
class Observed:
    """What was run and seen."""

    ops: int = 0
    steps: int = 0
    backward: bool = False
    first_bad_step: int | None = None
    stopped_because: str = "the program ended"
    guessed: list[str] = field(default_factory=list)


@dataclass
class Program:
    """The user's program."""

    path: str
    frameworks: list[str] = field(default_factory=list)
    observed: Observed = field(default_factory=Observed)
    digest: str = ""  # SHA-256 of the file as it was run, in hexadecimal


@dataclass(frozen=True)
class Excerpt:
    """Lines of the program around a finding, from `line` on, as they were before it ran."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class ProbeRun:
    """That a probe ran, and what it cost (seconds; re-runs of the recorded step)."""

    name: str
    ran: bool
    seconds: float = 0.0
    steps: int = 0


@dataclass
class Report:
    """Everything there is to say about one run."""

    program: Program
    environment: dict[str, Any] = field(default_factory=dict)
    verdict: str = ""
    diagnoses: list[Diagnosis] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    probes: list[ProbeRun] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    excerpts: list[Excerpt] = field(default_factory=list)
    explanation: dict[str, Any] | None = None  # as published: who says what, resting on which ids
