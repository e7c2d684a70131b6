"""An assertion for test-suites that fails only beyond what rounding explains, and says what would explain the rest.

    from numdebug.testing import assert_explained

    assert_explained(layer(x), x @ w + b, terms=(x, w, b))              # a dense layer against its formula
    assert_explained(fast(x), slow(x), operations=12)                   # twelve roundings one after another
    assert_explained(conv(x, k), reference, length=27, magnitude=conv(x**2, k**2) ** 0.5)

A fixed tolerance is either too wide for small sums or too narrow for long ones. Here it follows from the computation: a sum of n terms t
is moved by rounding by about eps/2/sqrt(3) * sqrt(a * S^2 + b * Q), with S the sum, Q the sum of t^2, a and b from
numdebug.arithmetic.growth: for n terms added one after another a = 1 + n/3 and b = n/6. That is the probabilistic view of rounding
(Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019): roundings of either sign add up
like sqrt(n). The bound that always holds, n * eps/2 * sum |t| (Higham, Accuracy and Stability of Numerical Algorithms, 2002, eq. 3.5),
grows like n, and lets TF32 pass for float32.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from numdebug.arithmetic import Products, growth
from numdebug.comparing.envelope import LIMIT, Measured, measure
from numdebug.comparing.saved import Stored
from numdebug.comparing.stored import one
from numdebug.formats import FORMATS, NARROW, TF32, coarser

_CERTAIN = 1_000_000  # the spread is computed, not sampled
_NEXT: tuple[Products, ...] = ("tf32", "bfloat16")
_REMEDY = {
    "tf32": "TF32 products, which NVIDIA GPUs may use for float32: pass products='tf32' if that is meant, or ask for full float32 products",
    "float16": "products with operands in float16: pass products='float16' if that is meant",
    "bfloat16": "products with operands in bfloat16: pass products='bfloat16' if that is meant",
}


def assert_explained(
    actual: Any,
    expected: Any,
    *,
    terms: Sequence[Any] | None = None,
    length: int | None = None,
    operations: int | None = None,
    magnitude: Any = None,
    products: str | None = None,
    format: str | None = None,
    message: str = "",
) -> None:
    """Passes if rounding explains the difference between two results of the same computation; else AssertionError says how far it is off.

    Arrays of NumPy, PyTorch or JAX, or plain numbers. What was computed is said in one of three ways:

    `terms=(a, b)` or `(a, b, bias)`: a @ b + bias, as numpy.matmul has it. The tolerance of each element follows from the operands.
    `length=n`: each element is a sum of n terms; `magnitude`: the root of the sum of the squares of these terms, by element (for a
    convolution conv(x**2, k**2) ** 0.5); |expected| where it is not given.
    `operations=n`: n roundings one after another, of numbers of the size `magnitude` (|expected| where it is not given: right if nothing
    cancels).

    `products`: "tf32", "bfloat16" or "float16" where operands of products are rounded to that. `format`: in which format both were
    computed, where that is coarser than the one they come in. `message`: put in front of the reason.
    """
    given = [name for name, value in (("terms", terms), ("length", length), ("operations", operations)) if value is not None]
    if len(given) != 1:
        raise TypeError("assert_explained: say what was computed, by one of terms=(a, b), length=n or operations=n")
    if products is not None and products not in (*_REMEDY, "float32"):
        raise ValueError(f"assert_explained: products is one of tf32, bfloat16, float16, float32, not {products!r}")
    x, y = _stored(actual, "actual"), _stored(expected, "expected")
    forms = [format] * 2 if format is not None else [x.dtype, y.dtype]
    unknown = next((f for f in forms if f not in FORMATS), None)
    if unknown is not None:
        raise ValueError(f"assert_explained: only real floating-point numbers are rounded, not {unknown}")
    head = f"{message}\n" if message else ""
    if x.array.shape != y.array.shape:
        raise AssertionError(f"{head}shapes differ: {x.array.shape} and {y.array.shape}")
    computed = _Computed(terms, length, operations, magnitude, y)
    form = coarser(forms)
    narrow = None if products == "float32" else cast(Products | None, products)
    found = measure(x.array, y.array, computed.spread(forms, narrow), _CERTAIN, form)
    if not found.within:
        raise AssertionError(head + _reason(x, y, found, computed, forms, form, narrow))


class _Computed:
    """S and Q of each element, and how many terms it has."""

    def __init__(self, terms: Sequence[Any] | None, length: int | None, operations: int | None, magnitude: Any, expected: Stored) -> None:
        self.formats: list[str] = []
        self.operations = operations
        shape = expected.array.shape
        size = np.abs(_double(expected.array))
        if terms is not None:
            if len(terms) not in (2, 3):
                raise ValueError("assert_explained: terms are (a, b) or (a, b, bias)")
            held = [_stored(t, "terms") for t in terms]
            self.formats = [t.dtype for t in held[:2]]
            a, b, *bias = (_double(t.array) for t in held)
            self.length = int(a.shape[-1]) if a.ndim else 1
            total, squares = np.matmul(a, b), np.matmul(np.square(a), np.square(b))
            for extra in bias:
                total, squares = total + extra, squares + np.square(extra)
            if total.shape != shape:
                raise ValueError(f"assert_explained: terms give the shape {total.shape}, the result has {shape}")
            self.length += len(bias)
            self.total, self.squares = np.abs(total), squares
            return
        if magnitude is not None:
            size = np.abs(_double(_stored(magnitude, "magnitude").array))
            if size.shape not in ((), shape):
                raise ValueError(f"assert_explained: magnitude has the shape {size.shape}, the result {shape}")
            size = np.broadcast_to(size, shape)
        self.length = int(length or 1)
        self.total, self.squares = (np.abs(_double(expected.array)), np.square(size)) if length is not None else (size, np.square(size))

    def spread(self, forms: Sequence[str], products: Products | None) -> np.ndarray:
        """One standard deviation of actual - expected. Both are rounded, each in its format; narrow ones sum up in float32."""
        variance = np.zeros(self.total.shape)
        for form in forms:
            inner = "float32" if form in NARROW else form
            if self.operations is not None:
                variance += self.operations * np.square(FORMATS[form].eps / 2 * self.total) / 3
                continue
            a, b = growth(self.length)
            variance += np.square(FORMATS[inner].eps / 2) / 3 * (a * np.square(self.total) + b * self.squares)
            if inner != form:
                variance += np.square(FORMATS[form].eps / 2 * self.total) / 3
            variance += self._operands(form)
        if products is not None:
            variance += self._rounded(TF32.eps if products.startswith("tf32") else FORMATS[products].eps)
        return np.sqrt(variance)

    def _operands(self, form: str) -> np.ndarray | float:
        """A side in a narrower format than the operands had them rounded to it."""
        wider = any(f in FORMATS and FORMATS[f].eps < FORMATS[form].eps for f in self.formats)
        return self._rounded(FORMATS[form].eps) if wider else 0.0

    def _rounded(self, eps: float) -> np.ndarray:
        """Both operands of each term, by half a gap at most."""
        return cast(np.ndarray, 2 * self.squares * (eps / 2) ** 2 / 3)


def _reason(
    x: Stored, y: Stored, found: Measured, computed: _Computed, forms: Sequence[str], form: str, products: Products | None
) -> str:
    if found.non_finite:
        return f"{found.non_finite} of {found.size} elements are finite on one side only, or NaN or infinite in different ways"
    what = f"{computed.operations} roundings" if computed.operations is not None else f"sums of {computed.length} terms"
    names = " and ".join(dict.fromkeys(forms)) + (f", products in {products}" if products else "")
    lines = [
        f"the results differ by more than rounding explains: {found.ratio:.3g} times the expected size, {LIMIT:g} is the limit",
        f"  at {found.at}: {found.a:.9g}, expected {found.b:.9g}; rounding ({names}, {what}) explains {found.envelope:.2g}",
        f"  largest difference {found.largest:.3g} ({found.ulps:.3g} ulp of the largest element); "
        f"{found.differing} of {found.size} elements differ",
    ]
    return "\n".join([*lines, f"  {_next(x, y, computed, forms, form, products)}"])


def _next(x: Stored, y: Stored, computed: _Computed, forms: Sequence[str], form: str, products: Products | None) -> str:
    """What else would explain it."""
    pair = one("result", x, y)
    if pair.explanation == "flush-to-zero":
        return "what would explain it: subnormal numbers that one side flushes to 0"
    if pair.explanation in ("dtype-mismatch", "reduced-precision"):
        side = "actual" if pair.rounded == "first" else "expected"
        return f"what would explain it: {side} is the other side rounded to {pair.format}"
    if computed.operations is None and FORMATS[form].eps <= FORMATS["float32"].eps:
        for wider in _NEXT if products is None else ():
            if measure(x.array, y.array, computed.spread(forms, wider), _CERTAIN, form).within:
                return f"what would explain it: {_REMEDY[wider]}"
    if pair.hint:
        return f"a real difference: {pair.hint.replace('the second', 'expected').replace('the first', 'actual')}"
    return "no rounding explains it: the two sides compute different things"


def _stored(value: Any, what: str) -> Stored:
    """As a NumPy array, and the name of its format. PyTorch is not imported for this; a tensor brings it along."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        held = value.detach().cpu()
        return Stored(np.asarray((held.float() if name in NARROW else held).numpy()), name)
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"assert_explained: {what} is {type(value).__name__}, no array of numbers")
    name = "float64" if array.dtype.kind in "biu" else array.dtype.name
    return Stored(array.astype(np.float32) if name in NARROW else array, name)


def _double(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)
