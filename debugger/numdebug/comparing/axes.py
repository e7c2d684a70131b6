"""What may be varied between two runs of the same thing, in the words of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Axis:
    """`scope`: a call is made with other arguments, or the process has another setting. `usual`: varied where nothing was asked for."""

    name: str
    what: str
    scope: Literal["call", "setting", "predicted"]
    usual: bool = True


AXES = {
    axis.name: axis
    for axis in (
        Axis("rows", "a few rows against the same rows of the whole batch", "call"),
        Axis("order", "the rows of the batch in another order", "call"),
        Axis("runs", "the same call twice", "call"),
        Axis("compiled", "op by op against compiled (torch.compile, jax.jit)", "call", usual=False),
        Axis("memory", "channels_last against contiguous", "call", usual=False),
        Axis("mode", "evaluation against training mode", "call", usual=False),
        Axis("float64", "as it is against float64", "call", usual=False),
        Axis("bfloat16", "as it is against bfloat16", "call", usual=False),
        Axis("float16", "as it is against float16", "call", usual=False),
        Axis("cuda", "the CPU against the GPU", "call", usual=False),
        Axis("threads", "one thread against all", "setting"),
        Axis("onednn", "with oneDNN against without", "setting"),
        Axis("deterministic", "usual against deterministic algorithms", "setting", usual=False),
        Axis("sums", "products summed in another order, as on another device", "predicted"),
        Axis("tf32", "products with TF32 operands, as on a GPU that rounds them", "predicted"),
        Axis("tf32-truncated", "products with TF32 operands, cut off instead of rounded", "predicted", usual=False),
    )
}
