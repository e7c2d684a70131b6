"""What the command line prints with: stdout in its own encoding, one line on stderr, and what the terminal can show."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

from numdebug.report.escape import one_line


@dataclass(frozen=True)
class Look:
    """How text is laid out: columns, and whether with colours."""

    width: int = 100
    colour: bool = False


def look(to_stdout: bool = True) -> Look:
    """As the terminal behind stdout has it; the default where there is none, or where the text goes elsewhere."""
    if not to_stdout or sys.stdout is None or not sys.stdout.isatty():
        return Look()
    width = min(shutil.get_terminal_size((100, 24)).columns, 140)
    return Look(width, not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def write(text: str) -> None:
    """To stdout, in UTF-8 where it can be and escaped where it cannot."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"numdebug: {one_line(text)}", file=sys.stderr, flush=True)
