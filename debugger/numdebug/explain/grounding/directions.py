"""What a sentence says of cause and effect: it runs the way that the report has it, and gives each operation the part that it had."""

from __future__ import annotations

from collections.abc import Iterator

from numdebug.explain.grounding.backing import Backing


def complaints(backing: Backing) -> Iterator[str]:
    """Causal statements that the report does not make."""
    return iter(())
