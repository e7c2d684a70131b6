"""Repairs tried in the whole program: its source is changed, it runs once more, and what it did is compared with the first run.

This is how settings are tried, which take effect over steps, and every repair of a run whose recorded step cannot be computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from numdebug.evidence import FAILURE, Evidence
from numdebug.report.model import Diagnosis, Fix, Repair
from numdebug.siblings import with_siblings

SUSPECTS = 4  # tried one by one, first suspects first
RUNS = 8  # of the program, in all: each costs the user as much as the first one
EXACT = frozenset({"log_softmax", "softmax", "logsumexp", "softplus", "log_sigmoid", "scaled_norm", "log_space_product"})
"""Forms that compute what they replace, wherever that is finite. The others change the argument: a clamp, an epsilon, a mask."""
APART = 1e-3
"""Of the first loss: a sum of a million float32 terms in another order stays below (sqrt(1e6) half ulps are 6e-5)."""
BETTER = frozenset({"clip-by-value"})  # a choice that harms only if the run ends with a lower loss without it
PUT_BEFORE = {"evaluation_mode": 1}  # lines that a repair puts before the one that it is about
_BEHIND_A_LOG = ("log_softmax", "log_sigmoid")


@dataclass(frozen=True)
class Trial:
    """A run of the whole program with a repair in its source: whether it failed, what its loss did, which silent facts it still shows."""

    finite: bool
    steps: int
    first_loss: float | None
    last_loss: float | None
    change: str
    repair: Repair
    silent: frozenset[tuple[str, int]] = frozenset()  # (kind, line)
    losses: tuple[tuple[int, float], ...] = ()  # (step, loss)

    @property
    def falls(self) -> bool:
        """The loss ends below where it began."""
        return self.first_loss is not None and self.last_loss is not None and self.last_loss < self.first_loss

    @property
    def learns(self) -> bool:
        """The loss ends at less than half of where it began."""
        return self.first_loss is not None and self.last_loss is not None and abs(self.last_loss) < 0.5 * abs(self.first_loss)


Try = Callable[[Repair | tuple[Repair, ...]], Trial | None]


def as_trial(watcher: Any, change: str, repair: Repair, silent: Iterable[Evidence], fails: bool) -> Trial:
    """What a second run of the program showed."""
    observers = list(watcher.observers.values())
    steps = [s for o in observers for s in o.steps]
    losses = [(s.index, s.loss) for s in steps if s.loss is not None]
    finite = bool(steps or watcher.ops) and not fails
    seen = frozenset((e.kind, e.site.line) for e in silent if e.kind not in FAILURE and e.site is not None)
    values = [loss for _, loss in losses]
    return Trial(finite, len(steps), values[0] if values else None, late(values), change, repair, seen, tuple(losses))


def late(losses: Sequence[float]) -> float | None:
    """The loss at the end of a run: the median of the last ten steps."""
    return median(losses[-10:]) if losses else None


def untried(d: Diagnosis, why: str) -> Diagnosis:
    """Not tried, and why; what is confirmed stays so."""
    return d if d.confirmed == "yes" else replace(d, confirmed="not-tried", confirmed_why=why)


def _failed(d: Diagnosis, why: str) -> Diagnosis:
    return replace(d, confirmed="no", confirmed_why=why)


# -- one repair --------------------------------------------------------------------------------------------------


def in_program(d: Diagnosis, trial: Try | None, failed: bool, was: float | None = None) -> Diagnosis:
    """The repair in the source, and the program once more. `was`: the loss at the end of the program as it is."""
    if d.repair is None or d.repair.kind == "none":
        return untried(d, "there is no repair that could be tried")
    if trial is None:
        return untried(d, "it needs a second run of the program, which --no-rerun forbids")
    outcome = trial(d.repair)
    if outcome is None:
        return untried(d, "the change could not be written into the program")
    if not outcome.finite:
        return _failed(d, f"run again {outcome.change}, the program fails")
    line = d.site.line if d.site is not None else 0
    moved = line + PUT_BEFORE.get(d.repair.form, 0)
    if not failed and any(at in (line, moved) for _, at in outcome.silent):
        return _failed(d, f"run again {outcome.change}, the same line shows the same harm")
    if d.repair.form == "learning_rate" and not (outcome.falls if failed else outcome.learns):
        return _failed(d, f"run again {outcome.change}, the loss does not fall either")
    if d.bug in BETTER and (was is None or outcome.last_loss is None or outcome.last_loss >= was):
        return _failed(d, f"run again {outcome.change}, the loss does not end lower")
    return _cured(d, outcome, failed)


def _cured(d: Diagnosis, outcome: Trial, failed: bool, agreement: str = "") -> Diagnosis:
    before = "the program as it is fails" if failed else "the program as it is shows the harm"
    finite = f"all {outcome.steps} steps are finite" if outcome.steps > 1 else "all of it is finite"
    after = finite if failed else "it is gone"
    losses = ""
    if outcome.first_loss is not None and outcome.last_loss is not None:
        losses = f", and the loss goes from {outcome.first_loss:.4g} to {outcome.last_loss:.4g}"
    why = f"{before}; run again {outcome.change}, {after}{losses}{agreement}"
    return replace(d, confirmed="yes", confirmed_why=why, repair=outcome.repair)


# -- every suspect -----------------------------------------------------------------------------------------------


class _Runs:
    """The trial, so many times at most."""

    def __init__(self, trial: Try) -> None:
        self.trial = trial
        self.left = RUNS

    def __call__(self, repair: Repair | tuple[Repair, ...]) -> Trial | None:
        outcome = self.trial(repair) if self.left > 0 else None
        self.left -= outcome is not None
        return outcome


def by_program(
    diagnoses: Sequence[Diagnosis], evidence: Sequence[Evidence], trial: Try | None, failed: bool, before: Sequence[tuple[int, float]]
) -> list[Diagnosis]:
    """Each suspect's repair in the source, lines before settings, until one cures; else the smallest set of lines that does.

    `before`: the losses of the program as it is, by step.
    """
    if trial is None:
        return [in_program(d, None, failed) for d in diagnoses]
    runs = _Runs(trial)
    done = list(diagnoses)
    kinds = [d.repair.kind if d.repair is not None else "none" for d in diagnoses]
    lines = [n for n, kind in enumerate(kinds) if kind in ("rewrite", "data")][:SUSPECTS]
    settings = [n for n, kind in enumerate(kinds) if kind == "setting"][:SUSPECTS]
    rising = any(d.repair is not None and d.repair.form == "learning_rate" for d in diagnoses)
    for n in (*lines, *settings):
        done[n] = in_program(done[n], runs, failed) if n in settings else _line(done[n], evidence, runs, failed, before, rising)
        if done[n].confirmed == "yes":
            break
    else:
        for n, d in _together({n: done[n] for n in lines}, evidence, runs).items():
            done[n] = d
    cured = any(d.confirmed == "yes" for d in done)
    tried = {n for n in (*lines, *settings) if done[n] is not diagnoses[n]}
    why = "the program was run again with another suspect repaired, which cures it" if cured else "too many suspects"
    return [d if n in tried else _left_out(d, why) for n, d in enumerate(done)]


def _left_out(d: Diagnosis, why: str) -> Diagnosis:
    if d.repair is None or d.repair.kind == "none":
        return untried(d, "there is no repair that could be tried")
    return untried(d, why)


def _line(
    d: Diagnosis, evidence: Sequence[Evidence], trial: Try, failed: bool, before: Sequence[tuple[int, float]], rising: bool
) -> Diagnosis:
    """`rising`: a learning rate is under suspicion, so that a repair has to let the loss fall as well."""
    assert d.repair is not None
    written = False
    for repair, spare in _choices(d.repair, evidence):
        outcome = trial(repair) if not (spare and written) else None
        if outcome is None:
            d = d if written else untried(d, "the change could not be written into the program")
            continue
        written = True
        if not outcome.finite:
            d = _failed(d, f"run again {outcome.change}, the program fails")
            continue
        if rising and outcome.first_loss is not None and not outcome.falls:
            d = _failed(d, f"run again {outcome.change}, the loss does not fall either")
            continue
        agreement, apart = _agreement(repair, before, outcome)
        if apart is not None:
            d = _failed(d, apart)
            continue
        return _cured(_renamed(d, repair), outcome, failed, agreement)
    return d


def _choices(repair: Repair, evidence: Sequence[Evidence]) -> list[tuple[Repair, bool]]:
    """The repair with its siblings, and other forms of it; True where it is for the case that none before it could be written."""
    whole = with_siblings(repair, evidence)
    everywhere = with_siblings(repair, evidence, everywhere=True)
    clamp = Repair("clamp_argument", "rewrite", repair.summary, whole.sites, whole.ops, {"lo": "eps", "lo_value": 1e-7})
    return [
        (whole, False),
        *([(repair, True)] if whole is not repair else []),
        *([(everywhere, False)] if everywhere.sites != whole.sites else []),
        *((other, False) for other in alternatives(repair)[1:]),
        *([(clamp, True)] if repair.form in _BEHIND_A_LOG else []),
    ]


def _renamed(d: Diagnosis, repair: Repair) -> Diagnosis:
    if d.repair is None or d.repair.form not in _BEHIND_A_LOG or repair.form == d.repair.form:
        return d
    summary = d.fix.summary if d.fix is not None else d.repair.summary
    return replace(d, fix=Fix(f"{summary}; {GUARDED}"))


GUARDED = "the diff keeps the probability above 0, because its function serves other callers too"


def _agreement(repair: Repair, before: Sequence[tuple[int, float]], outcome: Trial) -> tuple[str, str | None]:
    """The first loss of both runs, where the repair is another form of the same function: how far apart, and whether that is too far."""
    if repair.form not in EXACT or any(v for k, v in repair.numbers.items() if k.startswith("guards")):
        return "", None
    now = dict(outcome.losses)
    both = [(loss, now[step]) for step, loss in before if step in now and math.isfinite(loss) and math.isfinite(now[step])]
    if not both:
        return "", None
    was, is_ = both[0]
    apart = abs(was - is_) / max(abs(was), 1.0)
    if apart > APART:
        return "", f"the repair computes something else: the first loss is {is_:.6g} with it, and {was:.6g} as written"
    return f"; the first loss agrees with the program as written to {apart:.1e}", None


def _together(tried: dict[int, Diagnosis], evidence: Sequence[Evidence], trial: Try) -> dict[int, Diagnosis]:
    """No single line cures the program: the smallest set of lines that does, found by taking lines away again."""
    chosen = {n: with_siblings(d.repair, evidence) for n, d in tried.items() if d.repair is not None and d.confirmed == "no"}
    if len(chosen) < 2 or not _finite(trial(tuple(chosen.values()))):
        return {}
    for n in list(chosen):
        fewer = {m: repair for m, repair in chosen.items() if m != n}
        if len(fewer) > 1 and _finite(trial(tuple(fewer.values()))):
            chosen = fewer
    lines = sorted({site.line for repair in chosen.values() for role, site in repair.sites.items() if role.startswith("target")})
    words = " and ".join(map(str, lines))
    why = f"the program as it is fails; run again with lines {words} repaired together it does not, with one of them alone it does"
    return {n: replace(tried[n], confirmed="yes", confirmed_why=why, repair=repair) for n, repair in chosen.items()}


def _finite(outcome: Trial | None) -> bool:
    return outcome is not None and outcome.finite


def alternatives(repair: Repair) -> list[Repair]:
    """The repair, and other forms of it where the first may not be the one that fits."""
    numbers = repair.numbers
    if repair.form == "guard_divisor":
        other = "where" if numbers.get("mode") == "clamp" else "clamp"
        return [repair, *(replace(repair, numbers={**numbers, "mode": mode}) for mode in (other, "both"))]
    if repair.form == "clamp_argument" and "hi" in numbers and "lo" not in numbers:
        return [repair, *(replace(repair, numbers={**numbers, "hi": numbers["hi"] / part}) for part in (2, 4))]
    if repair.form == "clamp_argument" and numbers.get("lo") == "tiny":
        return [repair, replace(repair, numbers={**numbers, "lo": "eps"})]
    if repair.form == "add_epsilon":
        return [repair, replace(repair, numbers={**numbers, "eps": 1e-8})]
    if repair.form == "masked_fill":
        other = "right" if numbers.get("mask_side") == "left" else "left"
        return [repair, replace(repair, numbers={**numbers, "mask_side": other})]
    return [repair]
