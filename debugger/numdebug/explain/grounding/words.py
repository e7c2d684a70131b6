"""Sentences as words: what is a number, a name of code, an id, a place, an everyday word or a term."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

PHRASES = (  # several words that are one term, and words that look like names of code
    (r"NaNs?", "nan"),
    (r"-?Infs?", "inf"),
    (r"(Leaky)?Re[Ll][Uu]s?", r"\1relu"),
    (r"grew|grown", "grow"),
    (r"fell|fallen", "fall"),
    (r"rose|risen", "rise"),
    (r"gave|given", "give"),
    (r"lost|loses", "lose"),
    (r"kept", "keep"),
    (r"held", "hold"),
    (r"made", "make"),
    (r"led", "lead"),
    (r"brought about", "cause"),
    ("from there", "therefore"),
    (r"re-(run|reads?|tried)", r"re\1"),
    ("not a number", "nan"),
    ("half precision", "float16"),
    ("half-precision", "float16"),
    ("single precision", "float32"),
    ("double precision", "float64"),
    ("learning rate", "learning-rate"),
    ("square root", "sqrt"),
    ("unit in the last place", "ulp"),
    ("units in the last place", "ulp"),
    ("matrix product", "matmul"),
    ("matrix multiplication", "matmul"),
    ("matrix multiply", "matmul"),
    ("back propagation", "backward"),
    ("flushed to zero", "underflow zero"),
    ("flushes to zero", "underflow zero"),
    ("divide by zero", "div zero"),
    ("no longer", "not longer"),
    ("not finite", "non-finite"),
    ("point of no return", "point"),
)
SIGNS = {
    "∞": " inf ",
    "−": "-",
    "–": "-",
    "—": " - ",
    "×": "x",
    "≈": "about ",
    "≤": "at most ",
    "≥": "at least ",
    "→": " to ",
    "½": "0.5",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
}

NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?%?"
TOKEN = re.compile(
    r"(?P<id>\b(?:[DEFX]\d+(?:\.(?:fix|page|code|[cr]\d+))?|N\d+|RUN|PROBES)\b)"
    r"|(?P<place>[\w./-]+\.py(?::\d+(?::\d+)?)?)"
    r"|(?P<flag>(?<![\w`-])--[a-z][\w-]*)"
    r"|(?P<call>[A-Za-z_][\w.]*\((?:[^()\n]{0,60})\))"
    rf"|(?P<number>(?<![\w.]){NUMBER}(?![\w]))"
    r"|(?P<name>[A-Za-z_]\w*(?:\.\w+)+|\d+\.\w+(?:\.\w+)*|[A-Za-z]*_\w*|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z]+\d\w*)"
    r"|(?P<word>[^\W\d_](?:[^\W\d_]|['-](?=[^\W\d_]))*)"
    r"|(?P<mark>[,.;:!?()\-])"
    r"|(?P<odd>[^\s\w\"'`*/=<>+\[\]{}~&|%$#@^\\])"
)


@dataclass(frozen=True)
class Token:
    """One piece of a sentence. `kind`: id, place, flag, call, number, name, word, mark or odd."""

    kind: str
    text: str
    at: int


def plain(text: str) -> str:
    """One spelling for signs that have several, and no characters that hide."""
    text = unicodedata.normalize("NFKC", "".join(SIGNS.get(c, c) for c in text))
    return "".join(c for c in text if unicodedata.category(c) not in ("Cf", "Cc") or c in "\n\t ")


def tokens(text: str) -> list[Token]:
    """The pieces of a sentence, in order."""
    text = plain(text)
    for phrase, term in PHRASES:
        text = re.sub(rf"\b(?:{phrase})\b", term, text, flags=0 if phrase[0] in "NR-(" else re.IGNORECASE)
    found = []
    for match in TOKEN.finditer(text.replace("`", " ")):
        kind = str(match.lastgroup)
        found.append(Token(kind, match[0], match.start()))
    return found


ENDINGS = (
    ("ically", "ic"),
    ("ical", "ic"),
    ("ies", "y"),
    ("sses", "ss"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("xes", "x"),
    ("zes", "z"),
    ("ously", "ous"),
    ("ively", "ive"),
    ("ally", "al"),
    ("ly", ""),
)


@cache
def _lists() -> dict[str, Any]:
    return tomllib.loads((files("numdebug.explain.grounding") / "lists.toml").read_text(encoding="utf-8"))


def listed(name: str) -> list[str]:
    """The words of a list in lists.toml."""
    return str(_lists()[name]).split()


def also() -> dict[str, str]:
    """What each kind of claim may say besides."""
    return dict(_lists()["also"])


@cache
def stem(word: str) -> str:
    """A word without its ending, spelled the American way: `normalises` and `normalizing` meet."""
    w = word.lower().removesuffix("'s").removesuffix("'")
    w = re.sub(r"(?<=[a-z]{3})is(e|es|ed|ing|ation)$", r"iz\1", w)
    w = re.sub(r"our$", "or", w) if len(w) > 5 else w
    for ending, other in ENDINGS:
        if w.endswith(ending) and len(w) - len(ending) >= 3 and not w.endswith("ply"):
            w = w.removesuffix(ending) + other
            break
    else:
        if w.endswith("s") and not w.endswith(("ss", "us", "is")) and len(w) > 3:
            w = w[:-1]
    for ending in ("ing", "ed", "er", "est"):
        if w.endswith(ending) and len(w) - len(ending) >= 3 and re.search("[aeiouy]", w.removesuffix(ending)):
            w = w.removesuffix(ending)
            if len(w) > 3 and w[-1] == w[-2] and w[-1] not in "lsz":
                w = w[:-1]
            break
    return w.removesuffix("e") if len(w) > 3 else w


@cache
def _same() -> dict[str, str]:
    return {stem(word): stem(group.split()[0]) for group in _lists()["same"]["words"].strip().split("\n") for word in group.split()}


def term(word: str) -> str:
    """What a word is looked up as: its stem, or that of the first of its synonyms."""
    low = word.lower()
    return _same().get(stem(low), stem(low))


def is_everyday(word: str) -> bool:
    """Whether an explanation may use the word freely."""
    return stem(word) in _everyday() or all(stem(part) in _everyday() for part in word.split("-"))


@cache
def _everyday() -> frozenset[str]:
    text = (files("numdebug.explain.grounding") / "everyday.txt").read_text(encoding="utf-8")
    listed = (word for line in text.split("\n") if not line.startswith("#") for word in line.split())
    return frozenset(stem(word) for word in listed)


def terms(text: str) -> set[str]:
    """Every word and name of a text as it is looked up; parts of names too (`log_softmax`: log, softmax)."""
    found = set()
    for token in tokens(text):
        if token.kind in ("word", "name", "call", "place"):
            found |= parts(token.text)
    return found


def parts(name: str) -> set[str]:
    """A name, and what it is put together from."""
    name = re.sub(r"['’]s?$|'s\b", "", name)
    pieces: Iterable[str] = re.findall(r"[A-Za-z]+\d*|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    if name.lower().startswith("non-"):  # the opposite of its part
        return {term(name)}
    return {term(name), *(term(piece) for piece in pieces), *(term(p) for p in name.split("-") if p)}
