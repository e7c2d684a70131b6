"""How accurate the functions of NumPy, PyTorch and JAX are, in ulp, against mpmath with 40 digits.

    python benchmarks/functions_ulp.py [--points 1000] [--formats float32,float64,bfloat16,float16]

Each function runs on random numbers of its range, half of them even in size and half even in magnitude, rounded to the format. An error is
the distance of the result from the exact one; one ulp is the gap between numbers of the format at the exact result. Results below the
smallest normal number are left out, because XLA flushes them. A correctly rounded function has 0.5. The last column is what
numdebug.arithmetic.ULPS is made of, in half ulps of the size of the result, for the worst back end: rounding noise drawn evenly between
minus and plus that number has the root mean square of the errors that were measured, and its standard deviation is no less than the
largest of them over 3.5, which is the least that a comparison allows for.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import mpmath
import numpy as np
import torch
from scipy import special

from numdebug.formats import FORMATS

mpmath.mp.dps = 40
mp = mpmath.mp

KINDS = {"float32": np.float32, "float64": np.float64, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
Function = Callable[[Any], Any]


def _tanh_gelu(x: Any) -> Any:
    return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3)))


# name: (exact, lowest, highest, NumPy or SciPy, PyTorch, JAX)
TABLE: dict[str, tuple[Function, float, float, Function | None, Function | None, Function | None]] = {
    "exp": (mp.exp, -80, 80, np.exp, torch.exp, jnp.exp),
    "exp2": (lambda x: mp.mpf(2) ** x, -30, 30, np.exp2, torch.exp2, jnp.exp2),
    "expm1": (mp.expm1, -20, 80, np.expm1, torch.expm1, jnp.expm1),
    "log": (mp.log, 1e-30, 1e30, np.log, torch.log, jnp.log),
    "log near 1": (mp.log, 0.5, 2, np.log, torch.log, jnp.log),
    "log1p": (mp.log1p, -0.99, 1e10, np.log1p, torch.log1p, jnp.log1p),
    "log2": (lambda x: mp.log(x, 2), 1e-30, 1e30, np.log2, torch.log2, jnp.log2),
    "log10": (lambda x: mp.log(x, 10), 1e-30, 1e30, np.log10, torch.log10, jnp.log10),
    "sin": (mp.sin, -100, 100, np.sin, torch.sin, jnp.sin),
    "cos": (mp.cos, -100, 100, np.cos, torch.cos, jnp.cos),
    "tan": (mp.tan, -100, 100, np.tan, torch.tan, jnp.tan),
    "asin": (mp.asin, -1, 1, np.arcsin, torch.asin, jnp.arcsin),
    "acos": (mp.acos, -1, 1, np.arccos, torch.acos, jnp.arccos),
    "atan": (mp.atan, -100, 100, np.arctan, torch.atan, jnp.arctan),
    "sinh": (mp.sinh, -20, 20, np.sinh, torch.sinh, jnp.sinh),
    "cosh": (mp.cosh, -20, 20, np.cosh, torch.cosh, jnp.cosh),
    "tanh": (mp.tanh, -10, 10, np.tanh, torch.tanh, jnp.tanh),
    "asinh": (mp.asinh, -1e10, 1e10, np.arcsinh, torch.asinh, jnp.arcsinh),
    "acosh": (mp.acosh, 1, 1e10, np.arccosh, torch.acosh, jnp.arccosh),
    "atanh": (mp.atanh, -0.999, 0.999, np.arctanh, torch.atanh, jnp.arctanh),
    "sqrt": (mp.sqrt, 1e-30, 1e30, np.sqrt, torch.sqrt, jnp.sqrt),
    "rsqrt": (lambda x: 1 / mp.sqrt(x), 1e-30, 1e30, None, torch.rsqrt, jax.lax.rsqrt),
    "cbrt": (mp.cbrt, 1e-30, 1e30, np.cbrt, None, jnp.cbrt),
    "pow 2.75": (lambda x: mp.exp(mp.mpf(2.75) * mp.log(x)), 1e-10, 1e10, lambda x: np.power(x, x.dtype.type(2.75)), lambda x: x**2.75,
                 lambda x: jnp.power(x, jnp.asarray(2.75, x.dtype))),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), -60, 60, special.expit, torch.sigmoid, jax.nn.sigmoid),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), -60, 20, lambda x: np.logaddexp(x, x.dtype.type(0)), torch.nn.functional.softplus,
                 jax.nn.softplus),
    "log_sigmoid": (lambda x: -mp.log1p(mp.exp(-x)), -60, 60, special.log_expit, torch.nn.functional.logsigmoid, jax.nn.log_sigmoid),
    "silu": (lambda x: x / (1 + mp.exp(-x)), -8, 20, None, torch.nn.functional.silu, jax.nn.silu),
    "elu": (lambda x: x if x > 0 else mp.expm1(x), -20, 20, None, torch.nn.functional.elu, jax.nn.elu),
    "gelu": (lambda x: x / 2 * mp.erfc(-x / mp.sqrt(2)), -4, 4, None, torch.nn.functional.gelu,
             lambda x: jax.nn.gelu(x, approximate=False)),
    "gelu tanh": (_tanh_gelu, -3, 3, None, lambda x: torch.nn.functional.gelu(x, approximate="tanh"), jax.nn.gelu),
    "erf": (mp.erf, -4, 4, special.erf, torch.erf, jax.scipy.special.erf),
    "erfc": (mp.erfc, -4, 5, special.erfc, torch.erfc, jax.scipy.special.erfc),
    "erfinv": (mp.erfinv, -0.99, 0.99, special.erfinv, torch.erfinv, jax.scipy.special.erfinv),
    "lgamma": (mp.loggamma, 2.5, 100, special.gammaln, torch.lgamma, jax.scipy.special.gammaln),
    "digamma": (mp.digamma, 2, 100, special.digamma, torch.digamma, jax.scipy.special.digamma),
}  # fmt: skip


ALLOWED = 3.5
# They end in a product with a difference that cancels for negative x; their errors are told in ulp of x.
OF_X = frozenset({"gelu", "gelu tanh"})


def points(lowest: float, highest: float, count: int, kind: Any, form: str) -> np.ndarray:
    """Random numbers of the range and the format."""
    g = np.random.default_rng(0)
    limit = FORMATS[form]
    even = g.uniform(max(lowest, -limit.max), min(highest, limit.max), count // 2)
    smallest, top = max(1e-6, lowest, limit.tiny), min(max(abs(lowest), abs(highest)), limit.max)
    spread = np.exp(g.uniform(math.log(smallest), math.log(top), count - count // 2))
    if lowest < 0:
        spread *= g.choice([-1, 1], spread.size)
    numbers = np.concatenate([even, spread]).astype(kind)
    wide = numbers.astype(np.float64)
    return np.unique(numbers[(wide >= lowest) & (wide <= highest) & np.isfinite(wide)])


def errors(results: np.ndarray, exact: list[Any], x: np.ndarray | None, form: str) -> tuple[float, float]:
    """(largest in ulp, the constant in half ulps relative to the size of the result), or to that of `x` where that is given."""
    limit = FORMATS[form]
    worst, largest, squares, count = 0.0, 0.0, 0.0, 0
    for number, (result, truth) in enumerate(zip(results.astype(np.float64), exact, strict=True)):
        size = abs(truth)
        if not limit.tiny <= size <= limit.max:
            continue
        size = size if x is None else abs(mp.mpf(float(x[number])))
        off = abs(mp.mpf(float(result)) - truth)
        gap = limit.eps * mp.mpf(2) ** mp.floor(mp.log(size, 2))
        worst = max(worst, float(off / gap))
        relative = float(off / (size * limit.eps / 2))
        largest = max(largest, relative)
        squares += relative**2
        count += 1
    return worst, math.sqrt(3) * max(math.sqrt(squares / max(1, count)), largest / ALLOWED)


def back_ends(
    form: str, numpy: Function | None, torched: Function | None, jaxed: Function | None, x: np.ndarray
) -> dict[str, np.ndarray]:
    """By name, the results."""
    found: dict[str, np.ndarray] = {}
    with np.errstate(all="ignore"):
        if numpy is not None and np.asarray(numpy(x[:1])).dtype == x.dtype:  # SciPy answers in float32 for the narrow formats
            found["NumPy"] = np.asarray(numpy(x))
    if torched is not None:
        given = torch.from_numpy(x.astype(np.float64)).to(getattr(torch, form))
        found["PyTorch"] = torched(given).double().numpy()
    if jaxed is not None:
        for name, function in (("XLA op by op", jaxed), ("XLA jitted", jax.jit(jaxed))):
            found[name] = np.asarray(function(jnp.asarray(x))).astype(np.float64)
    return found


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--formats", default="float32,float64,bfloat16,float16")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    jax.config.update("jax_enable_x64", True)
    columns = ("NumPy", "PyTorch", "XLA op by op", "XLA jitted")
    print("| function | range | format | " + " | ".join(columns) + " | constant |")
    print("|---" * (len(columns) + 4) + "|")
    for name, (exact, lowest, highest, numpy, torched, jaxed) in TABLE.items():
        if args.only and args.only not in name:
            continue
        for form in args.formats.split(","):
            x = points(lowest, highest, args.points, KINDS[form], form)
            truth = [exact(mp.mpf(float(v))) for v in x]
            results = back_ends(form, numpy, torched, jaxed, x)
            measured = {who: errors(r, truth, x if name in OF_X else None, form) for who, r in results.items()}
            cells = [f"{measured[c][0]:.2f}" if c in measured else "" for c in columns]
            constant = max(c for _, c in measured.values())
            label = f"{name} (ulp of x)" if name in OF_X else name
            print(f"| {label} | {lowest:g} to {highest:g} | {form} | " + " | ".join(cells) + f" | {constant:.2f} |", flush=True)


if __name__ == "__main__":
    main()
