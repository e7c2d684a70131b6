"""Counts and ranges of one tensor, exact, in a few passes."""

from __future__ import annotations

import numpy as np
import torch

from numdebug.recording import Stats


def stats(tensor: torch.Tensor) -> Stats:
    """See Stats. Complex tensors count by component: a number is finite when both parts are."""
    held = plain(tensor)
    size = held.numel()
    if size == 0 or held.dtype is torch.bool:
        return Stats(size, zero=int((held == 0).sum()) if size else 0)
    if held.is_complex():
        held = torch.view_as_real(held)
    floating = held.is_floating_point()
    zero = int((held == 0).sum())
    if not floating:
        wide = held.to(torch.float64)
        return Stats(size, zero=zero, max_abs=float(wide.abs().max()), lowest=float(wide.min()), highest=float(wide.max()))
    limits = torch.finfo(held.dtype)
    wide = held.to(torch.float64)
    finite = wide[torch.isfinite(wide)]
    nan = int(torch.isnan(wide).sum())
    positive, negative = int(torch.isposinf(wide).sum()), int(torch.isneginf(wide).sum())
    if finite.numel() == 0:
        return Stats(size, nan, positive, negative, zero)
    magnitude = finite.abs()
    nonzero = magnitude[magnitude > 0]
    return Stats(
        size,
        nan,
        positive,
        negative,
        zero,
        subnormal=int((nonzero < limits.smallest_normal).sum()),
        max_abs=float(magnitude.max()),
        min_abs=float(nonzero.min()) if nonzero.numel() else None,
        lowest=float(finite.min()),
        highest=float(finite.max()),
    )


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Detached, dense, on the CPU."""
    held = tensor.detach()
    if held.layout is not torch.strided:
        held = held.to_dense()
    return held.cpu().resolve_conj().resolve_neg()


def array(tensor: torch.Tensor) -> np.ndarray:
    """As NumPy; bfloat16 and 8-bit floats, which NumPy lacks, come as float32 (exact)."""
    held = plain(tensor)
    if held.dtype is torch.bfloat16 or held.dtype.itemsize == 1 and held.is_floating_point():
        held = held.float()
    return held.numpy()
