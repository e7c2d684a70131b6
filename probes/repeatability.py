"""Does a program that fixes a seed compute the same numbers in every process?

Measures  for programs that fix a seed and whose source holds something that may differ all the same (a set that is gone through, hash(),
          random numbers that nobody seeded, clocks and process ids in seeds): the losses and the numbers taken out, bit for bit, in
          separate processes; and which of these places has to be repaired for them to agree.
Costs     nothing for other programs; for these two or three more runs, and where they disagree about three for each place that is tried.
Misses    what differs only on other machines; differences that the program prints without its framework; programs that take long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numdebug.evidence import Evidence, Number
from numdebug.fixes import write_together
from numdebug.repeat.files import loaded
from numdebug.repeat.results import Result, Results, first_difference
from numdebug.repeat.seeds import Promise
from numdebug.repeat.suspects import Suspect, suspects
from numdebug.report.model import Repair
from numdebug.run import Run

QUESTION = "Does a program that fixes a seed compute the same numbers in every process?"

SUSPECTS = 4  # tried one by one
CHANCE = frozenset({"arrival", "hash-order"})  # orders that PYTHONHASHSEED does not settle
CONTROL = 4  # for one more run with the repair, where two could agree by chance
SEEDS = (1, 2, 3)  # values of PYTHONHASHSEED; two strings come in the same order in all three one time in four


def measure(run: Run) -> Iterator[Evidence]:
    """One fact: of the first place whose repair makes the runs agree."""
    apart: Any = run.options.get("run_apart")
    if apart is None or run.recording.sinks or apart.asked:
        return
    apart.asked = True
    sources = loaded(Path(apart.path))
    promised, found = suspects(sources)
    found = [s for s in found if apart.salted or not s.hashed]
    if not found:
        return
    why_not = apart.why_not()
    if why_not is not None:
        apart.note(f"{_place(promised[0])} fixes a seed; whether {_place(found[0])} breaks it was not tried: {why_not}")
        return
    yield from _compared(_Tries(apart, Path(apart.path).parent), promised[0], found)


def _place(one: Promise | Suspect) -> str:
    if isinstance(one, Suspect):
        return f"{one.site.file}:{one.site.line}"
    return f"{one.source.name}:{one.call.lineno}"


@dataclass
class _Pair:
    """Two runs that differ, by their PYTHONHASHSEED, and the first number in which they do."""

    seeds: tuple[int, int]
    runs: tuple[Results, Results]
    first: tuple[Result, Result]


class _Tries:
    """Runs apart, each judged: came it to its end, and with numbers?"""

    def __init__(self, apart: Any, folder: Path) -> None:
        self.apart = apart
        self.folder = folder
        self.count = 0
        self._known: dict[tuple[int, str | None], Results | None] = {}

    def run(self, seed: int, diff: str | None = None) -> Results | None:
        """One run; None where it tells nothing, or where there is no more time."""
        if (seed, diff) not in self._known:
            if not self.apart.left:
                self.apart.note("whether its numbers repeat from process to process: no time for more runs (--timeout)")
                return None
            self.count += 1
            back: Results | None = self.apart(seed, diff)
            self._known[seed, diff] = back if back is not None and back.whole and not back.failed and back.found else None
        return self._known[seed, diff]

    def pair(self, chance: bool) -> _Pair | None:
        """Two plain runs that differ. Orders can agree by chance, so that for them a third is asked."""
        runs: list[tuple[int, Results]] = []
        for seed in SEEDS[: 3 if chance else 2]:
            result = self.run(seed)
            if result is None:
                return None
            for other, before in runs:
                parted = first_difference(before.found, result.found)
                if parted is not None:
                    return _Pair((other, seed), (before, result), parted)
            runs.append((seed, result))
        return None

    def agree(self, diff: str, seeds: tuple[int, int]) -> bool | None:
        """With a repair, under the same PYTHONHASHSEEDs: whether every bit agrees. None where the repaired program does not run."""
        one = self.run(seeds[0], diff)
        if one is None:
            return None
        other = self.run(seeds[1], diff)
        return other is not None and first_difference(one.found, other.found) is None


def _compared(tries: _Tries, promise: Promise, found: Sequence[Suspect]) -> Iterator[Evidence]:
    pair = tries.pair(any(s.hashed or s.cause in CHANCE for s in found))
    if pair is None:
        return
    cured = next((hit for s in found[:SUSPECTS] if (hit := _alone(tries, s, pair)) is not None), None)
    chosen = [cured] if cured is not None else _together(tries, found, pair)
    if not chosen:
        return
    suspect, repair = chosen[0]
    diff = write_together([r for _, r in chosen], tries.folder)
    if diff is None or (suspect.cause in CHANCE and not tries.agree(diff, (pair.seeds[0], CONTROL))):
        return
    yield _evidence(promise, suspect, repair, chosen, pair, tries)


def _alone(tries: _Tries, suspect: Suspect, pair: _Pair) -> tuple[Suspect, Repair] | None:
    for repair in suspect.repairs:
        diff = write_together([repair], tries.folder)
        outcome = tries.agree(diff, pair.seeds) if diff is not None else None
        if outcome:
            return suspect, repair
        if outcome is False and repair is suspect.repairs[0]:
            return None  # it runs, and does not help: another spelling would not either
    return None


def _together(tries: _Tries, found: Sequence[Suspect], pair: _Pair) -> list[tuple[Suspect, Repair]]:
    """No place alone is to blame: all repaired, then fewer, as long as the runs agree."""
    chosen = [(s, s.repairs[0]) for s in found if s.repairs and write_together([s.repairs[0]], tries.folder) is not None]

    def cures(some: Sequence[tuple[Suspect, Repair]]) -> bool:
        diff = write_together([r for _, r in some], tries.folder)
        return diff is not None and bool(tries.agree(diff, pair.seeds))

    if len(chosen) < 2 or not cures(chosen):
        return []
    for one in list(chosen):
        fewer = [other for other in chosen if other is not one]
        if len(fewer) > 1 and cures(fewer):
            chosen = fewer
    return chosen


def _evidence(
    promise: Promise, suspect: Suspect, repair: Repair, chosen: Sequence[tuple[Suspect, Repair]], pair: _Pair, tries: _Tries
) -> Evidence:
    a, b = pair.first
    with_ = repair.summary if len(chosen) == 1 else f"lines {' and '.join(str(s.site.line) for s, _ in chosen)} repaired together"
    seeds = f" with PYTHONHASHSEED={pair.seeds[0]} and {pair.seeds[1]}" if suspect.hashed else ""
    proof = (
        f"run in processes of their own{seeds}, the program gives different numbers; with the repair ({with_}) they agree bit for bit "
        f"in all {len(pair.runs[0].found)} numbers that were compared"
    )
    numbers = {"compared": Number(len(pair.runs[0].found), "numbers"), "runs": Number(tries.count, "runs")}
    if a.shown is not None and b.shown is not None:
        numbers |= {"first": Number(a.shown), "second": Number(b.shown)}
    facts = {
        "cause": suspect.cause, "what": a.what, "seed_at": _place(promise), "proof": proof, "form": repair.form,
        "summary": repair.summary, "change": repair.numbers, "hash_seeds": list(pair.seeds) if suspect.hashed else [],
        "lines": [s.site.line for s, _ in chosen],
    }  # fmt: skip
    return Evidence("runs-apart", "repeatability", site=suspect.site, numbers=numbers, facts=facts, sites=repair.sites)
