"""The user's and the model's text is data: control, OSC and direction codes are shown, never sent to a terminal."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """`text` with every character that could steer a terminal or hide itself written as an escape; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in "\n\t" or not _steers(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(text: str) -> str:
    """`text` on a single line."""
    return " ".join(visible(text).split())


def _steers(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
