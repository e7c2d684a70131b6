"""What a step would be in a narrower number format: the answer that probes get."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Overflow:
    """Where numbers first leave a narrower format. `op`: the forward operation; `backward`: it was its derivative."""

    op: int | None
    backward: bool
    largest: float  # magnitude before it was rounded
    name: str | None = None  # of data that does not fit, as it was given


@dataclass(frozen=True)
class Emulation:
    """The last recorded step with every number in it rounded to a narrower format: data, weights, results and gradients."""

    format: str
    loss: float | None
    recorded_loss: float | None
    outputs_finite: bool
    gradients: int  # tensors
    bad_gradients: int
    first: Overflow | None
    keep: tuple[str, ...] | None  # with these modules (or lines) in float32 the step is finite; None: not found
    entries: int  # of the gradients
    zeros: int  # 0 in the emulated step
    flushed: int  # 0 there, and not in float32
    worst: tuple[str, float] | None  # parameter that loses the largest share
    scale: float | None  # smallest power of two, as loss scale, that keeps as many gradient entries as asked for
    best: tuple[float, float] | None  # the largest power of two without overflow, and the share of entries that it keeps
    optimizers: tuple[tuple[str, float], ...]  # whose eps is 0 in the format
    mixed: bool  # the program itself uses a narrow format: only what it holds there was rounded

    @property
    def finite(self) -> bool:
        """Loss (or outputs) and every gradient."""
        return self.outputs_finite and not self.bad_gradients
