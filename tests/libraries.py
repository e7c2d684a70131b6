"""The same numbers as a NumPy array and as a PyTorch tensor."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
LIBRARIES = ("numpy", "torch")
both = pytest.mark.parametrize("library", LIBRARIES)


def array(library: str, x, name: str | None = None):
    if library == "torch":
        return torch.tensor(x, dtype=getattr(torch, name or "float64"))
    return np.array(x, dtype=name or "float64")


def numbers(x) -> np.ndarray:
    return np.asarray(x.detach().double().numpy() if hasattr(x, "detach") else x, dtype=np.float64)
