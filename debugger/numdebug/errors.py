"""What can go wrong on the user's side, said in one sentence and with an exit code."""

from __future__ import annotations

FOUND = 1
USAGE = 2
OURS = 3
NOTHING_SEEN = 4
INTERRUPTED = 130

REPORT_AT = "please report it with the command that you ran and the file, if you may share it"


class UserError(Exception):
    """Something that the user can mend: what numdebug was doing, what it met, what to do now."""

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code
