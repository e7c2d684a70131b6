"""The sentences of the explanation without a model, one file for each language. All have the same keys and the same slots."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

LANGUAGES = ("en", "hi")


class Say:
    """`say("cause", place=...)`: the sentence of that name in one language."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.phrases: dict[str, str] = import_module(f"{__name__}.{language}").PHRASES

    def __call__(self, key: str, **slots: Any) -> str:
        text = self.phrases[key].format(**slots)
        return _opened(text) if self.language == "en" else text  # other scripts have no capitals, and a code name is none either

    def part(self, key: str, **slots: Any) -> str:
        """A piece of a sentence: as it stands, no capital letter."""
        return self.phrases[key].format(**slots)

    def each(self, names: Sequence[str], most: int = 4) -> str:
        """a, b and c; of many the first ones, "and others"."""
        if len(names) > most:
            return self.part("and_others", names=", ".join(names[:most]))
        if len(names) < 2:
            return "".join(names)
        return self.part("and", names=", ".join(names[:-1]), last=names[-1])

    def quoted(self, english: str) -> str:
        """A sentence that exists in English only: as it is, or marked as such."""
        return self.part("quoted", text=english.rstrip("."))


def _opened(text: str) -> str:
    """With a capital letter, unless it starts with a name of code."""
    first = text.split(" ", 1)[0]
    return text if first == "numdebug" or any(c in first for c in "_.`(:") else text[:1].upper() + text[1:]
