"""How a recorded step is computed again: with rounding noise, with narrower products, with sums in another order, or in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Products = Literal["tf32", "tf32-truncated", "bfloat16", "float16"]
SAMPLES = 8  # seeds of noise for one envelope: a single element's standard deviation is then known to about 25 %


@dataclass(frozen=True)
class Arithmetic:
    """In the program's own formats, but for what follows. Comparisons and argmax are decided anew, random numbers are as recorded.

    `noise`: a seed. Every operation's result is moved at random by what its own rounding may amount to in its format: by half an ulp at
    most, times `ulps`; a sum or product by `growth`. Run.deviations hands out by how much.
    `products`: the operands of matrix products and convolutions are rounded to this format first (truncated: towards zero, as some tensor
    cores do), sums stay in the program's format. With `noise`, operands of products move by half an ulp of that format at random instead.
    `order`: a seed. Terms of matrix products and sums are added in another order, in parts.
    `wide`: all of it in float64.
    """

    noise: int | None = None
    products: Products | None = None
    order: int | None = None
    wide: bool = False


# Operations that hand elements on, pick some or decide: what they give is exact. Beside graph.STRUCTURAL.
EXACT = frozenset({
    "relu", "relu6", "neg", "abs", "maximum", "minimum", "clamp", "where", "masked_fill", "sign", "sgn", "floor", "ceil", "round", "trunc",
    "hardtanh", "threshold", "nan_to_num", "zeros", "ones", "full", "empty", "fill", "arange", "eye", "argmax", "argmin", "one_hot",
    "real", "imag", "conj", "max_pool", "cummax", "cummin", "dropout", "heaviside", "masked_scatter", "fmod", "remainder",
})  # fmt: skip
# Correctly rounded by every back end: exact where the result is a number of the format.
CORRECT = frozenset({"add", "sub", "rsub", "mul", "div", "reciprocal", "square", "sqrt", "cast"})
# Their operands are what TF32 and the like round.
PRODUCTS = frozenset({"matmul", "conv", "conv_transpose", "convolution_backward", "einsum", "tensordot", "inner", "attention", "linear"})
SUMS = frozenset({"sum", "mean", "nansum", "nanmean", "avg_pool", "average", "trace", "trapezoid"})

# How many half ulps of its size a function's result is off, in the back end that is worst at it: rounding noise drawn evenly between minus
# and plus that much has the root mean square of the errors against mpmath that benchmarks/functions_ulp.py measures, with 2000 numbers for
# each function and format (NumPy 2.4, PyTorch 2.13, XLA of JAX 0.10, on a CPU; the table is in docs/comparing.md). Not measured, and taken
# from functions made in the same way: mish, selu, atan2, hypot.
ULPS = {
    "exp": 1.5, "exp2": 15.0, "expm1": 2.5, "log": 1.6, "log1p": 1.2, "log2": 1.6, "log10": 1.6, "sin": 1.0, "cos": 1.0, "tan": 1.3,
    "tanh": 2.1, "sigmoid": 1.2, "erf": 3.2, "erfc": 9.2, "erfinv": 14.0, "gelu": 2.4, "silu": 1.4, "softplus": 1.3, "log_sigmoid": 1.3,
    "elu": 2.5, "selu": 2.5, "mish": 2.5, "pow": 1.1, "rsqrt": 1.1, "asin": 1.6, "acos": 1.2, "atan": 1.0, "atan2": 1.5, "sinh": 8.3,
    "cosh": 8.3, "asinh": 1.6, "acosh": 1.3, "atanh": 1.4, "lgamma": 34.0, "digamma": 14.0, "cbrt": 1.9, "hypot": 1.5,
}  # fmt: skip
_IN_FLOAT64 = {"log1p": 111.0, "atanh": 71.0}  # XLA's
# x times a difference that cancels: half ulps of x, not of the result.
OF_OPERAND = frozenset({"gelu"})

SEQUENTIAL = 4096  # terms of a matrix product that BLAS, Eigen and cuBLAS add one after another: 384 of many rows, all of one row
LANES = 16  # and in sums by halves, with vectors of that many lanes


def ulps(op: str, form: str = "float32", xla: bool = False) -> float:
    """By how many half ulps the result of an operation that works element by element may be off."""
    known = ULPS.get(op, 1.0)
    return max(known, _IN_FLOAT64.get(op, known)) if xla and form == "float64" else known


def growth(terms: int, tree: bool = False, block: int = SEQUENTIAL) -> tuple[float, float]:
    """(a, b): rounding moves a sum S of terms t by up to eps/2 * sqrt(a * S^2 + b * Q), with Q the sum of t^2, as random numbers add up.

    Each partial sum s is rounded, which moves it by eps/2 * s at most, evenly; over all orders of the terms a partial sum of k of n has a
    mean square of (k/n)^2 S^2 + (k/n)(1 - k/n) Q, n of them together n * (S^2 / 3 + Q / 6). Sequential within a block, then block by
    block; `tree`: by halves, as JAX and PyTorch sum up.
    """
    if terms <= 1:
        return 1.0, 0.0
    if tree:
        depth = min(float(terms), LANES + 2 * math.log2(terms))
        return min(4.0, 1 + terms / 3), depth / 2
    depth = float(min(terms, block))
    blocks = terms / depth
    return 1 + depth / (3 * blocks) + (blocks - 1) / 3, depth / 6 + depth / 3 * (1 - 1 / blocks) + (blocks - 1) / 6
