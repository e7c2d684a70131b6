"""How a recorded step is computed again: with rounding noise, with narrower products, with sums in another order, or in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Products = Literal["tf32", "tf32-truncated", "bfloat16", "float16"]


@dataclass(frozen=True)
class Arithmetic:
    """In the program's own formats, but for what is said here. Decisions (comparisons, argmax, random numbers) are computed or drawn as usual.

    `noise`: a seed. Every operation's result is moved at random by what its own rounding may amount to in its format (`ulps` of it): a result
    by up to half an ulp; the operands of a sum or product by as much first, times the growth of rounding with its length.
    `products`: the operands of matrix products and convolutions are rounded to this format first (truncated: towards zero, as some tensor
    cores do), sums stay in the program's format. With `noise`, operands of products move by half an ulp of that format at random instead.
    `order`: a seed. Terms of matrix products are summed in another order, in parts.
    `wide`: all of it in float64.
    """

    noise: int | None = None
    products: Products | None = None
    order: int | None = None
    wide: bool = False
