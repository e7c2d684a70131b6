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

# How many half ulps a function's result may be off, in any back end: docs/comparing.md says how they were measured.
ULPS = {
    "exp": 4.0, "exp2": 4.0, "expm1": 4.0, "log": 2.0, "log1p": 3.0, "log2": 2.0, "log10": 2.0, "sin": 2.0, "cos": 2.0, "tan": 4.0,
    "tanh": 4.0, "sigmoid": 4.0, "erf": 4.0, "erfc": 4.0, "erfinv": 6.0, "gelu": 6.0, "silu": 4.0, "softplus": 4.0, "log_sigmoid": 4.0,
    "elu": 3.0, "selu": 3.0, "mish": 8.0, "pow": 4.0, "rsqrt": 3.0, "asin": 4.0, "acos": 4.0, "atan": 4.0, "atan2": 4.0, "sinh": 4.0,
    "cosh": 4.0, "asinh": 4.0, "acosh": 4.0, "atanh": 4.0, "lgamma": 8.0, "digamma": 8.0, "cbrt": 2.0, "hypot": 2.0,
}  # fmt: skip

SEQUENTIAL = 4096  # terms of a matrix product that BLAS, Eigen and cuBLAS add one after another: 384 of many rows, all of one row
LANES = 16  # and in sums by halves, with vectors of that many lanes


def ulps(op: str) -> float:
    """By how many half ulps the result of an operation that works element by element may be off."""
    return ULPS.get(op, 1.0)


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
