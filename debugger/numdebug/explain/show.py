"""An explanation on the terminal: claims in order under short headings, each with what it rests on."""

from __future__ import annotations

from collections.abc import Callable

from numdebug.explain.claims import KINDS, Claim
from numdebug.report.terminal import page

INDENT = 2
HEADINGS = {
    "en": ("what happened", "what the numbers show", "in which order", "what to change", "how to check it", "what else was looked at"),
    "hi": ("क्या हुआ", "संख्याएँ क्या दिखाती हैं", "किस क्रम में", "क्या बदलें", "जाँच कैसे करें", "और क्या देखा गया"),
}


def heading(kind: str, language: str) -> str:
    """What stands above claims of a kind; English where the language has none of its own."""
    return HEADINGS.get(language, HEADINGS["en"])[KINDS.index(kind)]


class Shown:
    """Writes claims as they come. `write` takes finished text."""

    def __init__(self, write: Callable[[str], None], width: int = 100, colour: bool = False, language: str = "en") -> None:
        self.write, self.width, self.colour, self.language = write, width, colour, language
        self.kind = ""

    def claim(self, claim: Claim) -> None:
        """One sentence with its citations, and the diff of a fix."""
        out, lines = page(self.width, self.colour)
        if claim.kind != self.kind:
            lines.gap()
            lines.line("", heading(claim.kind, self.language), style="bold")
            self.kind = claim.kind
        lines.line("", f"{claim.text} [{', '.join(claim.cites)}]", indent=INDENT)
        for line in (claim.patch or "").rstrip("\n").split("\n"):
            if line:
                lines.raw(line, style="green" if line.startswith("+") else "red" if line.startswith("-") else "dim", indent=2 * INDENT)
        self.write(out.getvalue())

    def line(self, text: str, style: str = "") -> None:
        """A line that is no claim."""
        out, lines = page(self.width, self.colour)
        lines.gap()
        lines.line("", text, style=style)
        self.kind = ""
        self.write(out.getvalue())
