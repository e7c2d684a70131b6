"""How a recorded step is computed again: with rounding noise, with narrower products, with sums in another order, or in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from numdebug.graph import STRUCTURAL

Products = Literal["tf32", "tf32-truncated", "bfloat16", "float16"]
SAMPLES = 8
"""Seeds of noise for one envelope. The standard deviation of a single element is then known to about 25 %."""

BLOCK = 512
"""Terms that a matrix product adds up one after the other, at most (MKL, oneDNN and Eigen split longer ones)."""
PRODUCTS = frozenset({"matmul", "conv", "attention"})
"""What tensor cores compute, with operands in a narrower format."""
SUMS = frozenset({
    "sum", "mean", "cumsum", "var", "std", "norm", "layer_norm", "batch_norm", "group_norm", "rms_norm", "avg_pool2d", "avg_pool1d",
    "_adaptive_avg_pool2d", "cdist", "prod", "nansum", "addcmul", "index_add", "scatter_add", "lerp", "group_sum", "reduce_window", "trace",
})  # fmt: skip
FREE = STRUCTURAL | {
    "relu", "abs", "neg", "maximum", "minimum", "clamp", "where", "masked_fill", "sign", "sgn", "floor", "ceil", "round", "trunc", "fill",
    "zeros", "ones", "full", "full_like", "zeros_like", "ones_like", "arange", "threshold", "hardtanh", "zero", "real", "imag", "conj",
    "dropout", "bernoulli", "isnan", "stop_gradient", "max_pool2d_with_indices", "leaky_relu_sign", "native_dropout", "random", "iota",
    "empty", "uniform", "normal", "randn", "rand", "eye", "one_hot", "relu6", "squeeze", "rev", "pad", "broadcast", "copysign",
}  # fmt: skip
"""Operations whose results are operands, moved, chosen or negated: they round nothing."""
FUSED = frozenset({
    "_transformer_encoder_layer_fwd", "_native_multi_head_attention", "mkldnn_rnn_layer", "lstm", "gru", "rnn_tanh", "rnn_relu", "function",
})  # fmt: skip
"""Whole layers in one operation: products with what comes before and after them."""
SHIFTED = frozenset({"softmax", "log_softmax", "logsumexp"})
"""They compute x - max(x) first: that rounds relative to the distance, not to x."""
ULPS = {"exp": 2.0, "tanh": 3.0, "sigmoid": 3.0, "gelu": 4.0, "silu": 3.0, "softplus": 3.0, "erf": 3.0, "pow": 3.0, "softmax": 4.0,
        "log_softmax": 4.0, "sin": 2.0, "cos": 2.0, "log": 2.0, "rsqrt": 2.0, "mish": 4.0, "elu": 3.0, "log_sigmoid": 3.0}  # fmt: skip
"""Half-ulps by which results of elementwise functions are off; 1 (rounded correctly) for what is not named."""


@dataclass(frozen=True)
class Arithmetic:
    """In the program's own formats, but for what is said here. Decisions (comparisons, argmax) are taken again; random numbers are as drawn.

    `noise`: a seed. Every operation's result is moved at random by what its own rounding may amount to: elementwise results by up to `ULPS`
    half-ulps of their format; the operands of a sum or product by up to half an ulp first, times the growth of rounding with its length.
    `products`: the operands of matrix products and convolutions are rounded to this format first (truncated: towards zero, as some tensor
    cores do); sums stay in the program's format. With `noise`, operands of products move at random by that format's half-ulps instead.
    `order`: a seed. Terms of matrix products are summed in another order, in parts.
    `wide`: all of it in float64.
    """

    noise: int | None = None
    products: Products | None = None
    order: int | None = None
    wide: bool = False


def growth(terms: float, product: bool) -> float:
    """By how much the rounding of a sum grows with its length, in half-ulps of its terms.

    Matrix products add terms one after the other in blocks of a few hundred: for random terms the partial sums are as large as the root of
    their number, and so is the error. Other sums are taken pairwise: log2(n) roundings lie on the way of each term, and add up as their
    root does.
    """
    if product:
        return max(1.0, math.sqrt(min(terms, BLOCK)) / 2)
    return max(1.0, math.sqrt(math.log2(max(terms, 2.0))))


def terms(operands: Sequence[Sequence[int]], output: Sequence[int], product: bool) -> float:
    """How many terms one element of the result sums up, from the shapes."""
    sizes = [math.prod(shape) for shape in operands if shape]
    out = max(1, math.prod(output))
    if product and len(sizes) >= 2:
        a, b = sorted(sizes)[-2:]
        return max(1.0, math.sqrt(a * b / out))
    return max(1.0, max(sizes, default=1) / out)
