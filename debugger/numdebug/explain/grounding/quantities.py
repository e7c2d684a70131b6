"""Numbers, lines, steps and ids in a sentence: each must stand in the report, for what it measures there, as precisely as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from numdebug.explain.grounding.backing import Backing, Quantity, numbers, value
from numdebug.explain.grounding.words import NUMBER, Token, is_everyday, listed, parts, plain, stem, tokens

SPELLED = {w: n for n, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())}
ABOUT = {"about", "around", "roughly", "nearly", "almost", "approximately", "over", "some", "circa", "than"}
NEAR = 8  # words on either side that a number is read with: a clause of a sentence
BARE = frozenset(
    "a an the of in on at to from by for with is are was were be been it its this that and or as than into up down only about".split()
)


def complaints(backing: Backing) -> Iterator[str]:
    """Numbers that the report does not have."""
    yield from uncited(backing)
    yield from moved(backing)
    yield from unmeasured(backing)
    found = tokens(
        re.sub(r"(?<![\w.])0/0(?![\w.])", "inf/inf", backing.claim.text)
        if any("0/0" in s for s in backing.sentences)
        else backing.claim.text
    )
    for i, token in enumerate(found):
        before = [t.text.lower() for t in found[max(i - 3, 0) : i]]
        if token.kind == "id":
            if token.text not in backing.all:
                yield f"the report has no {token.text}"
        elif token.kind == "place":
            yield from _place(token.text, backing)
        elif token.kind == "number":
            yield from _number(token, before, found, i, backing)
        elif token.kind == "word" and token.text.lower() in SPELLED and token.text.lower() not in ("zero", "one"):
            n = SPELLED[token.text.lower()]
            named = len(backing.claim.cites), len(backing.claim.subjects)
            if n not in named and not any(q.value == n for q in backing.quantities) and not parts(token.text) & backing.terms:
                yield f"{token.text} does not stand in the report"


def unmeasured(backing: Backing) -> Iterator[str]:
    """A measurement that a sentence names comes with its own number: the one that stands next to its name."""
    if backing.claim.kind != "evidence":
        return
    found = tokens(backing.claim.text)
    for name in {key for key, _ in backing.facts}:
        if all(is_everyday(w) for w in name):
            continue
        values = [v for key, v in backing.facts if key == name]
        for written in _beside(name, found):
            if not any(_same(written, v, True) for v in values):
                yield f"the number of {' '.join(sorted(name))} is {values[0]:g} in the report"


def _beside(name: frozenset[str], found: list[Token]) -> Iterator[str]:
    """The number that follows the words of a name, or stands right before them."""
    reach = len(name) + 1
    for i in range(len(found)):
        words = {p for t in found[max(i - reach, 0) : i + 1] if t.kind in ("word", "name") for p in parts(t.text)}
        if not (name <= words and found[i].kind in ("word", "name") and parts(found[i].text) & name):
            continue
        after = next((t.text for t in found[i + 1 : i + 4] if t.kind == "number"), None)
        before = next((t.text for t in reversed(found[max(i - reach - 1, 0) : i]) if t.kind == "number"), None)
        if after or before:
            yield str(after or before)


def moved(backing: Backing) -> Iterator[str]:
    """`rose from A to B`: B is above A."""
    text = plain(backing.claim.text)
    for match in re.finditer(
        rf"\bfrom (?:about |roughly )?({NUMBER})(?: down| up)?(?: to| until) (?:about |roughly |only )?({NUMBER})", text
    ):
        a, b = value(match[1].lstrip("+")), value(match[2].lstrip("+"))
        words = {stem(w) for w in re.findall(r"[a-z]+", text.lower())}
        up, down = words & {stem(w) for w in listed("upwards")}, words & {stem(w) for w in listed("downwards")}
        if (up and not down and b < a) or (down and not up and b > a):
            yield f"{match[2]} is not {'above' if up else 'below'} {match[1]}"
    written = [t.text for t in tokens(backing.claim.text) if t.kind == "number"]
    for first, second in pairwise(written):
        if _turned(first, second, backing):
            yield f"the report says it the other way round: {second}, then {first}"


def _turned(first: str, second: str, backing: Backing) -> bool:
    """Whether the report has both numbers in one sentence, and only in the other order."""
    orders = set()
    for sentence in backing.sentences:
        found = numbers(sentence)
        a = next((i for i, n in enumerate(found) if _same(first, n, True)), None)
        b = next((i for i, n in enumerate(found) if _same(second, n, True)), None)
        if a is not None and b is not None and a != b:
            orders.add(a < b)
    return orders == {False}


def _place(text: str, backing: Backing) -> Iterator[str]:
    file, *rest = text.split(":")
    files = {item.site.file for item in backing.items if item.site is not None}
    files |= {m for s in backing.sentences for m in re.findall(r"[\w./-]+\.py", s)}
    if file not in files and file not in {f.rsplit("/", 1)[-1] for f in files}:
        yield f"{file} is not a file that the report speaks of here"
    elif rest and int(rest[0]) not in backing.lines:
        yield f"line {rest[0]} is not a place that the report speaks of here"


def _number(token: Token, before: list[str], found: list[Token], at: int, backing: Backing) -> Iterator[str]:
    n = value(token.text)
    label = _label(before)
    if label == "line" and n == int(n) and token.text.isdigit():
        if int(n) not in backing.lines and not _code_line(int(n), found, at, backing):
            yield f"line {token.text} is not a place that the report speaks of here"
        return
    if label == "step" and n == int(n) and token.text.isdigit():
        if int(n) not in backing.steps:
            yield f"step {token.text} is not one that the report speaks of here"
        return
    hits = [q for q in backing.quantities if _same(token.text, q.value, bool(ABOUT & set(before[-2:])))]
    if not hits:
        yield f"{token.text} does not stand in the report"
    elif not _fits(hits, found, at):
        yield f"{token.text} measures something else in the report"


def uncited(backing: Backing) -> Iterator[str]:
    """A measurement that is quoted stands in what is cited, and `a of b` elements as the report counts them."""
    written = [t.text for t in tokens(backing.claim.text) if t.kind == "number"]
    if backing.claim.kind == "evidence" and written and not any(_same(w, q.value, True) for w in written for q in backing.explicit):
        yield f"what is cited does not say {written[0]}"
    for a, b in re.findall(r"\b(\d+) (?:out )?of (?:the |all |its )?(\d+)\b", backing.claim.text):
        said = any(re.search(rf"\b{a} of {b}\b", s) for s in backing.sentences)
        apart = a != b and any({float(a), float(b)} <= {q.value for q in group} for group in backing.groups)
        whole = a == b and any(s.startswith("share: 1.0") for s in backing.sentences)
        if not (said or apart or whole):
            yield f"{a} of {b} is not what the report counts"


def _label(before: list[str]) -> str:
    """What kind of number it is by the word in front of it: `line 22`, `lines 21 and 22`, `step 8`."""
    for word in reversed(before):
        if word.isdigit() or word in ("and", "or", "to", ",", "-", "through"):
            continue
        return {"line": "line", "lines": "line", "step": "step", "steps": "step"}.get(word, "")
    return ""


def _code_line(n: int, found: list[Token], at: int, backing: Backing) -> bool:
    """A line of the quoted code counts where the sentence names something of it."""
    code = backing.code_lines.get(n)
    if code is None or backing.claim.kind == "cause":
        return False
    names = {p for name in re.findall(r"[A-Za-z_]\w*", code) for p in parts(name)}
    return bool(names & {p for t in _around(found, at) if t.kind in ("word", "name", "call") for p in parts(t.text)})


def _same(written: str, n: float, loosely: bool) -> bool:
    """Whether `written` is `n` to the precision written; after `about`, zeros at the end of a whole number need not be exact."""
    digits = written.rstrip("%").replace(",", "").lstrip("+-")
    mantissa, _, exponent = digits.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)
    if loosely and "." not in mantissa and not exponent:
        unit *= 10.0 ** (len(mantissa) - len(mantissa.rstrip("0")))
    w = value(written)
    candidates = [n, -n] if w >= 0 else [n]
    if written.endswith("%"):
        candidates += [100 * n]
    return any(abs(w - c) <= 0.5 * unit * (1 + 1e-9) for c in candidates)


def _fits(hits: list[Quantity], found: list[Token], at: int) -> bool:
    """Whether the sentence says of the number something that the report says of it."""
    words = {p for t in _around(found, at) if t.kind in ("word", "name", "call") and t.text.lower() not in BARE for p in parts(t.text)}
    return not words or any(words & q.about for q in hits)


def _around(found: list[Token], at: int) -> list[Token]:
    return found[max(at - NEAR, 0) : at + NEAR + 1]
