"""Names of code and command lines in a sentence: each must stand in the report, or be one of numdebug's own commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing
from numdebug.explain.grounding.words import parts, tokens

COMMAND = re.compile(r"numdebug ((?:[a-z]+ ?)+)((?:[^.,;`]|\.(?=\w))*)")


def complaints(backing: Backing) -> Iterator[str]:
    """Names that the report does not have."""
    text = backing.claim.text
    for token in tokens(text):
        if token.kind == "name" and not known(token.text, backing):
            yield f"{token.text} is not a name that the report has"
        elif token.kind == "call":
            inner = re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", token.text)
            yield from (f"{name} is not a name that the report has" for name in inner if not known(name, backing))
        elif token.kind == "flag" and token.text.lstrip("-") not in {o for options in backing.all.commands.values() for o in options}:
            yield f"numdebug has no option {token.text}"
        elif token.kind == "odd":
            yield f"the sentence holds the sign {token.text!r}"
    for span in re.findall(r"`([^`]+)`", text):
        if span.strip().startswith(("numdebug ", "$ numdebug ", "python")):
            continue
        for name in re.findall(r"[A-Za-z_]\w*(?:\.\w+)*", span):
            if not known(name, backing):
                yield f"{name} is not a name that the report has"
    yield from _commands(text, backing)


def known(name: str, backing: Backing) -> bool:
    """Whether the report has this name: as it stands, by its last part, or put together from terms of the report alone."""
    if name in backing.names or name.split(".")[-1] in backing.names or name.lower() in {"numdebug", "nan", "inf"}:
        return True
    pieces = [p for piece in re.split(r"[._]|(?<=[a-z])(?=[A-Z])", name) if piece for p in parts(piece)]
    return "." not in name and bool(pieces) and all(p in backing.terms for p in pieces)


def _commands(text: str, backing: Backing) -> Iterator[str]:
    """`numdebug diagnose model.py --as float16`: the command and its options exist, and what it is given is in the report."""
    for words, rest in COMMAND.findall(text):
        first = words.split()[0]
        if first not in {c.split()[0] for c in backing.all.commands}:
            if first in ("diagnose", "run") or "`numdebug " + words in text:
                yield f"numdebug has no command {first}"
            continue
        if f"`numdebug {words}" not in text and first in ("bug", "bugs", "probe", "probes", "compare", "explain", "ask", "demo", "prompt"):
            continue  # the words of a sentence: `numdebug probes the gradient`
        for flag in re.findall(r"(?<=\s)--?[a-z][\w-]*", f"{words}{rest}"):
            if flag.lstrip("-") not in backing.all.commands[first]:
                yield f"numdebug {first} has no option {flag}"
