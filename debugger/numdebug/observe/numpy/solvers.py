"""Linear systems in formats that LAPACK does not know: Gaussian elimination with row exchanges, as LAPACK does it in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LARGEST = 200  # rows: beyond, elimination in Python takes too long


def solve(a: Any, b: Any) -> np.ndarray:
    """x of a @ x = b for one matrix."""
    matrix, right = np.array(a), np.asarray(b)
    n = len(matrix)
    if matrix.ndim != 2 or matrix.shape != (n, n) or n > LARGEST or matrix.dtype.kind not in "fc":
        raise ValueError("only one small square matrix")
    x = np.array(right, dtype=np.result_type(matrix, right))
    for k in range(n):
        pivot = k + int(np.abs(matrix[k:, k]).argmax())
        if matrix[pivot, k] == 0:
            raise np.linalg.LinAlgError("Singular matrix")
        if pivot != k:
            matrix[[k, pivot]] = matrix[[pivot, k]]
            x[[k, pivot]] = x[[pivot, k]]
        factors = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :, k:] -= np.multiply.outer(factors, matrix[k, k:])
        x[k + 1 :] -= np.multiply.outer(factors, x[k])
    for k in reversed(range(n)):
        x[k] = (x[k] - matrix[k, k + 1 :] @ x[k + 1 :]) / matrix[k, k]
    return x


def inv(a: Any) -> np.ndarray:
    """The inverse of one matrix."""
    return solve(a, np.eye(len(a), dtype=np.asarray(a).dtype))


def norm(x: Any) -> np.ndarray:
    """Euclidean, of all elements."""
    return np.asarray(np.sqrt(np.sum(np.square(np.abs(x)))))


OWN: dict[str, Callable[..., Any]] = {"solve": solve, "inv": inv, "norm": norm}
