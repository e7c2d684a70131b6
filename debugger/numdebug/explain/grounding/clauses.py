"""Sentences as clauses, from cause to effect, each with the words that carry its meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass

from numdebug.explain.grounding.words import Token, listed, parts, plain, stem, tokens

FORWARD, BACKWARD, BREAK, SILENT = (frozenset(stem(w) for w in listed(name)) for name in ("forward", "backward", "break", "silent"))
NEGATIVE = frozenset(listed("negative"))


@dataclass(frozen=True)
class Clause:
    """A piece of a sentence. `meaning`: its words as they are looked up, without those that carry none; `negated`: it denies something."""

    text: str
    words: tuple[str, ...]
    meaning: frozenset[str]
    negated: bool


def meaning(found: list[Token], counted: bool = False) -> frozenset[str]:
    """Looked-up words that say something."""
    kept = [
        t
        for t in found
        if t.kind in ("word", "name", "call") and len(t.text) > 1 and stem(t.text) not in SILENT and t.text.lower() not in NEGATIVE
    ]
    out = {f"#{float(t.text.rstrip('%').replace(',', '')):.3g}" for t in found if t.kind == "number"} if counted else set()
    for token in kept:
        pieces = parts(token.text)
        out |= pieces if token.kind == "word" else {p for p in pieces if p != stem(token.text) or len(pieces) == 1}
    return frozenset(out)


def clause(found: list[Token]) -> Clause:
    """Tokens as a clause."""
    words = tuple(t.text.lower() for t in found if t.kind == "word")
    return Clause(" ".join(t.text for t in found), words, meaning(found, True), bool(set(words) & NEGATIVE))


def split(text: str) -> list[tuple[str, list[Token]]]:
    """(what stands in front, tokens): "" at the start, "forward", "backward" or "break"."""
    out: list[tuple[str, list[Token]]] = [("", [])]
    for token in tokens(_joined(text)):
        kind = ""
        if token.kind == "mark" and token.text in ",;:()":
            kind = "colon" if token.text in ":()" else "break"
        elif token.kind == "word":
            s = stem(token.text)
            kind = "forward" if s in FORWARD else "backward" if s in BACKWARD else "break" if s in BREAK else ""
        if not kind:
            out[-1][1].append(token)
        elif not meaning(out[-1][1], True):
            if kind == "break" and out[-1][0] == "colon":
                out[-1] = (kind, out[-1][1])
            if kind == "backward" and out[-1][0] in ("", "break"):
                kind = "fronted"  # `since A, B`
            if kind not in ("break", "colon") and out[-1][0] in ("", "break") and (len(out) > 1 or kind == "fronted"):
                out[-1] = (kind, out[-1][1])
        else:
            out.append((kind, []))
    return [(kind, found) for kind, found in out if meaning(found, True)]


def _joined(text: str) -> str:
    """Turns of phrase in which a word of cause or effect is none."""
    text = re.sub(r"\b(?:after|from) (?:that|this|it|which)\b|\bafterwards?\b", "then", plain(text), flags=re.IGNORECASE)
    text = re.sub(r"\b(?:com(?:es?|ing)|came|stems?|follows?|results?|originates?|arises?) from\b", "because", text, flags=re.IGNORECASE)
    text = re.sub(r"\bas (well|written|before|it is|is|a|an|the|many|much|such|one)\b(?: as\b)?", r"\1", text, flags=re.IGNORECASE)
    return re.sub(r"\b(?:so|as) (\w+) (?:that|as)\b", r"\1", text, flags=re.IGNORECASE)


def clauses(text: str) -> list[Clause]:
    """The clauses of a sentence as they stand."""
    return [clause(found) for _, found in split(text)]


def chain(text: str) -> list[tuple[Clause, int]]:
    """The clauses of a sentence, each with its place from cause to effect. What a colon adds has the place of what it explains."""
    out: list[tuple[Clause, int]] = []
    for kind, part in split(text):
        last = out[-1][1] if out else 0
        out.append((clause(part), last - 1 if kind == "backward" else last if kind == "colon" else last + 1))
    return out


def pairs(text: str) -> list[tuple[Clause, Clause]]:
    """(cause, effect) wherever a word of the sentence says that one brings about the other."""
    found = split(text)
    out = []
    for i, (kind, part) in enumerate(found):
        if i and kind == "forward":
            out.append((clause(found[i - 1][1]), clause(part)))
        elif i and kind == "backward":
            out.append((clause(part), clause(found[i - 1][1])))
        elif kind == "fronted" and i + 1 < len(found):
            out.append((clause(part), clause(found[i + 1][1])))
    return out
