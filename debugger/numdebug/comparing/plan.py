"""What is to be compared, as the parent tells the child."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Plan:
    """What is to be compared, as JSON. Paths are absolute; a path without a name is a script, or recorded arrays."""

    path: str
    given: str
    name: str | None = None
    other_path: str | None = None
    other_given: str | None = None
    other_name: str | None = None
    vary: list[str] = field(default_factory=list)
    rows: int | None = None
    args: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    timeout: float | None = 60.0
    arrays: bool = False  # both paths are files of saved arrays, for which these tolerances hold
    ulps: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
