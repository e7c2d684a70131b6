"""What a network answers when it is asked again, and what is known of one call of it. No framework in here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkCall:
    """One call of a whole network by the program. `outside`: how many of the operation's frames lie outside of it, outermost first.

    `loaded`: its weights were copied into it. `rivals`: several optimizers train networks of their own. `trained_on`: the same input was
    differentiated.
    """

    outside: int
    loaded: bool = False
    rivals: bool = False
    trained_on: bool = False


@dataclass(frozen=True)
class Answers:
    """Largest differences between answers. `repeated`: the same input twice. `fewer`: its first `part` rows alone; None: it cannot be cut.

    The same in evaluation mode: `repeated_evaluating`, `fewer_evaluating`. `size`: the largest answer.
    """

    rows: int
    part: int
    repeated: float
    fewer: float | None
    repeated_evaluating: float
    fewer_evaluating: float | None
    size: float
