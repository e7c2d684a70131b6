"""What training did to parameters, in numbers: updates, clipping, ownership, memory that was never written. No framework in here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numdebug.recording import Site


@dataclass(frozen=True)
class Update:
    """What one source line did to weights of one format in one step. `op` is the index of one of its operations.

    `moving`: elements whose exact new value (the same operation in float64) is not the old one; `absorbed`: those that stayed bit for bit
    the same. `lost`: by how much the absorbed part of the exact update would have lowered the loss (first order: -gradient * update), with
    the gradient of this step and with that of the other recorded steps, which has another batch's noise; `taken`: the whole exact update.
    """

    op: int
    step: int
    dtype: str
    moving: int
    absorbed: int
    lost: float
    lost_elsewhere: float | None
    taken: float
    repeats: bool  # the operation in its own format gives bit for bit what was recorded


@dataclass(frozen=True)
class Change:
    """One exact update: `delta` in float64, where it left the weight as it was (`stuck`), and the gradients by step, in float64.

    Arrays of any one framework; gradients of another shape are left out.
    """

    delta: Any
    stuck: Any
    gradients: dict[int, Any]


def tallied(op: int, step: int, dtype: str, repeats: bool, changes: Iterable[Change], others: int) -> Update:
    """What these changes come to; `others`: how many further steps have gradients."""
    moving = absorbed = 0
    lost = taken = 0.0
    elsewhere: float | None = None
    for change in changes:
        moving += int((change.delta != 0).sum())
        absorbed += int(change.stuck.sum())
        for at, gradient in change.gradients.items():
            down = -gradient * change.delta
            if at == step:
                lost += float(down[change.stuck].sum())
                taken += float(down.sum())
            else:
                elsewhere = (elsewhere or 0.0) + float(down[change.stuck].sum())
    if elsewhere is not None:
        elsewhere /= others
    return Update(op, step, dtype, moving, absorbed, lost, elsewhere, taken, repeats)


@dataclass(frozen=True)
class Clipping:
    """Gradients changed in place after a backward pass and before the optimizer. `kind`: norm (all by one factor) or value.

    `scale`: the loss scale that was still on them; `unscale` the operation that took it off afterwards. `meant`: norm of what clipping
    after that would have left, over the norm of what the optimizer got.
    """

    op: int
    step: int
    kind: str
    elements: int
    changed: int
    cosine: float
    factor: float  # norm after / norm before
    limit: float
    scale: float | None = None
    unscale: int | None = None
    meant: float = 1.0


@dataclass(frozen=True)
class Untrained:
    """Parameters that never change although the loss depends on them. `why`: unowned (a gradient, but no optimizer has them) or cut."""

    why: str
    names: tuple[str, ...]
    elements: int
    gradient: float | None  # norm, of those that no optimizer has
    op: int | None = None  # where the graph is cut
    how: str = ""  # detach, no_grad, data, item
    made: Site | None = None
    late: bool = False  # made after the optimizer


@dataclass(frozen=True)
class Unwritten:
    """Memory from empty() whose content changes what the program consumes."""

    op: int
    name: str | None
    size: int
    reaches: str
    changed: int  # consumed values that two different fillings make different
    parameter: bool
    cures: bool  # with both fillings, everything that is consumed is finite
