"""What may be varied between two runs of the same thing, in the words of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Axis:
    """`scope`: a call is made with other arguments, or the process has another setting. `usual`: varied where nothing was asked for."""

    name: str
    scope: Literal["call", "setting", "predicted"]
    usual: bool = True


AXES = {
    axis.name: axis
    for axis in (
        Axis("rows", "call"),
        Axis("order", "call"),
        Axis("runs", "call"),
        Axis("compiled", "call", usual=False),
        Axis("memory", "call", usual=False),
        Axis("mode", "call", usual=False),
        Axis("float64", "call", usual=False),
        Axis("bfloat16", "call", usual=False),
        Axis("float16", "call", usual=False),
        Axis("cuda", "call", usual=False),
        Axis("threads", "setting"),
        Axis("onednn", "setting"),
        Axis("deterministic", "setting", usual=False),
        Axis("sums", "predicted"),
        Axis("tf32", "predicted"),
        Axis("tf32-truncated", "predicted", usual=False),
    )
}
