"""How a diagnosis was checked, read out of the sentence that the report holds, and said in plain words of the reader's language."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from numdebug.explain.phrases import Say
from numdebug.languages import fix_in
from numdebug.report.model import Diagnosis


@dataclass(frozen=True)
class Proof:
    """The sentences, and the loss at the start and the end of the trial, where it has one."""

    said: tuple[str, ...]
    losses: tuple[str, str] | None = None


Found = re.Match[str]
_NUMBER = r"[-+.\deE]+|nan|inf|-inf"
_REPLAYED = re.compile(
    r"control re-run reproduces .+?; with (?:line (?P<lines>\d+)|(?P<data>data)|the cause) repaired and nothing else changed, "
    rf"(?P<what>the output is finite|loss and all \d+ gradients are finite)(?: \(loss (?P<loss>{_NUMBER})\))?"
    r"(?:; in float64 the repair agrees with the line as written to (?P<error>\S+))?"
)
_TRIED = re.compile(
    r"the program as it is (?P<before>fails|shows the harm); run again "
    r"(?:with the repair \((?P<repair>.+?)\)|with the learning rate times (?P<factor>[^,]+)), "
    r"(?:all (?P<steps>\d+) steps are finite|all of it is finite|it is gone)"
    rf"(?:, and the loss goes from (?P<first>{_NUMBER}) to (?P<last>{_NUMBER}))?"
    r"(?:; the first loss agrees with the program as written to \S+)?"
)
_SEVERAL = re.compile(r"control re-run reproduces the symptom; with lines (?P<lines>.+?) repaired together it is gone, .+")
_WIDER = re.compile(
    r"the step run again in its own formats gives the same wrong result; with only lines? (?P<lines>[\d, ]+?) kept in float64 and rounded "
    r"to \S+ afterwards, (?P<what>.+) agrees with float64 to (?P<error>\S+)"
)
_SEEDS = re.compile(
    r"run in processes of their own.*?, the program gives different numbers; with the repair \((?P<repair>.+)\) they agree bit for bit "
    r"in all (?P<count>\d+) numbers that were compared"
)
_DERIVATIVE = re.compile(
    r"(?P<framework>\w+)'s own derivative of the same forward agrees with the differences, and not with this (?:backward|rule)"
    r"(?:; with that one change \((?P<change>.+)\) every one of (?P<count>\d+) random projections agrees)?"
)
_UNCHANGED = re.compile(
    r"they are bit for bit what they were before the first of (?P<steps>\d+) steps"
    r"(?: and never got a gradient, .+|, while the backward pass gives them a gradient of norm (?P<norm>\S+), and nothing updates them)"
)
_UPDATE = re.compile(
    r"the update run again .+; in float64 it moves all (?P<all>\d+) elements, and rounded to (?P<format>\w+) (?P<lost>\d+) of them .+"
)
_OVERWRITTEN = re.compile(r".+ run again on what it read .+, the gradient differs by (?P<share>[\d.]+)% of its norm")
_MEMORY = re.compile(r"the recorded operations run again with two other fillings of this memory .+")
_UNSCALED = re.compile(
    r"computed from the recorded gradients: with the scale of (?P<scale>\S+) taken off first, .+ a norm (?P<times>\S+) times .+"
)
_SUM = re.compile(r"the recorded updates once more in float64 move the sum, by (?P<share>\S+) of it each")
_EQUAL = re.compile(r"computed again in float64, with the same decisions, both sides of all (?P<missed>\d+) agree .+")
_APART = re.compile(r"before this operation the same numbers are different, and float64 holds them all")
_QUOTIENT = re.compile(
    r"the same operations in float64, at the same points, "
    r"give (?P<exact>\S+) where (?P<format>\S+) gives (?P<seen>\S+) .+"
)
_SAME_MEMORY = re.compile(r"the (?P<times>\d+) arrays are one memory, which \S+ wrote (?P<writes>\d+) times; .+")
_WHOLE = re.compile(r"differences of the loss in float64 give (?P<numeric>\S+) along a random direction, backward (?P<analytic>\S+)")
_STILL = re.compile(r"with this line repaired, (?:the loss|(?P<bad>\d+) of (?P<all>\d+) gradients) would still not be finite")
_UNTRIED = {
    "there is no repair that could be tried": "untried_norepair",
    "there is no repair that could be tried on the recorded step": "untried_norepair",
    "not run again yet": "untried_norepair",
    "a setting takes effect over steps, not in the recorded one": "untried_norepair",
    "the program was run again with another suspect repaired, which cures it": "untried_other",
    "the change could not be written into the program": "untried_written",
    "it needs a second run of the program, which --no-rerun forbids": "untried_rerun",
}


def proof(d: Diagnosis, say: Say) -> Proof:
    """What was done to be sure of a diagnosis, or why nothing was."""
    text = d.confirmed_why.removeprefix("tried with these values: ")
    if d.confirmed == "not-tried":
        known = _UNTRIED.get(text)
        return Proof((say(known) if known else say("untried", text=say.quoted(text)),))
    for pattern, tell in _TELL:
        if found := pattern.fullmatch(text):
            return tell(found, d, say)
    return Proof((say("proof_other" if d.confirmed == "yes" else "failed_other", text=say.quoted(text)),))


def _replayed(m: Found, d: Diagnosis, say: Say) -> Proof:
    what = say.part("proof_step_line", lines=m["lines"]) if m["lines"] else say.part("proof_step_data")
    if "gradients" in m["what"]:
        result = say.part("all_finite_loss", loss=m["loss"]) if m["loss"] else say.part("all_finite")
    else:
        result = say.part("output_finite")
    first = say("proof_step", what=what, result=result)
    if not m["error"]:
        return Proof((first,))
    exactly = float(m["error"]) == 0
    return Proof((first, say("proof_agrees_exactly") if exactly else say("proof_agrees", error=m["error"])))


def _tried(m: Found, d: Diagnosis, say: Say) -> Proof:
    change = say.part("with_rate", factor=m["factor"]) if m["factor"] else say.part("with_repair", repair=_repair(m["repair"], d, say))
    if m["before"] == "shows the harm":
        result = say.part("harm_gone")
    else:
        result = say.part("fails_finite_steps", steps=m["steps"]) if m["steps"] else say.part("fails_finite")
    if m["first"] is None or m["first"] == m["last"]:
        return Proof((say("proof_program", change=change, result=result),))
    said = say("proof_program_losses", change=change, result=result, first=m["first"], last=m["last"])
    return Proof((said,), (m["first"], m["last"]))


def _several(m: Found, d: Diagnosis, say: Say) -> Proof:
    if " and " not in m["lines"]:  # several places on one line
        what = say.part("proof_step_line", lines=m["lines"])
        return Proof((say("proof_step", what=what, result=say.part("failure_gone")),))
    return Proof((say("proof_lines", lines=say.each(m["lines"].split(" and "), 9)),))


def _wider(m: Found, d: Diagnosis, say: Say) -> Proof:
    what = say.part("consumed") if m["what"] == "the consumed number" else m["what"]
    numbers = m["lines"].split(", ")
    lines = say.part("proof_step_lines" if len(numbers) > 1 else "proof_step_line", lines=say.each(numbers, 9))
    return Proof((say("proof_wider", lines=lines, what=what, error=m["error"]),))


def _seeds(m: Found, d: Diagnosis, say: Say) -> Proof:
    return Proof((say("proof_seeds", repair=_repair(m["repair"], d, say), count=m["count"]),))


def _derivative(m: Found, d: Diagnosis, say: Say) -> Proof:
    first = say("proof_derivative", framework=m["framework"])
    if not m["change"]:
        return Proof((first,))
    change = _repair(f"{m['change']} on this line", d, say).removesuffix(" on this line")
    return Proof((first, say("proof_change", change=change, count=m["count"])))


def _unchanged(m: Found, d: Diagnosis, say: Say) -> Proof:
    return Proof((say("proof_unread", steps=m["steps"], norm=m["norm"]) if m["norm"] else say("proof_unchanged", steps=m["steps"]),))


def _still(m: Found, d: Diagnosis, say: Say) -> Proof:
    what = say.part("some_gradients", bad=m["bad"], all=m["all"]) if m["bad"] else say.part("the_loss")
    return Proof((say("proof_still", what=what),))


def _plain(key: str) -> Callable[[Found, Diagnosis, Say], Proof]:
    return lambda m, d, say: Proof((say(key, **m.groupdict()),))


_TELL: tuple[tuple[re.Pattern[str], Callable[[Found, Diagnosis, Say], Proof]], ...] = (
    (_REPLAYED, _replayed),
    (_TRIED, _tried),
    (_SEVERAL, _several),
    (_WIDER, _wider),
    (_SEEDS, _seeds),
    (_DERIVATIVE, _derivative),
    (_UNCHANGED, _unchanged),
    (_UPDATE, _plain("proof_update")),
    (_OVERWRITTEN, _plain("proof_overwritten")),
    (_MEMORY, _plain("proof_memory")),
    (_UNSCALED, _plain("proof_unscaled")),
    (_SUM, _plain("proof_sum")),
    (_EQUAL, _plain("proof_equal")),
    (_APART, _plain("proof_apart")),
    (_QUOTIENT, _plain("proof_quotient")),
    (_SAME_MEMORY, _plain("proof_same_memory")),
    (_WHOLE, _plain("proof_whole")),
    (_STILL, _still),
)


def _repair(text: str, d: Diagnosis, say: Say) -> str:
    told = fix_in(say.language, d.bug, text)
    return told if told is not None else say.quoted(text)
