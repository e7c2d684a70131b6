"""Numerically stable forms for NumPy arrays and PyTorch tensors alike; `numdebug.stable.naive` has each in its naive form, to compare with.

    >>> from numdebug import stable
    >>> [round(float(p), 6) for p in stable.softmax([1000.0, 999.0])]
    [0.731059, 0.268941]
    >>> float(stable.naive.softmax([1000.0, 999.0])[0])
    nan

An array comes back in its own format; 16-bit formats are computed in float32, but for the sums. Whole numbers are taken as floating point,
lists as NumPy arrays. Gradients flow through all of it but `clip_by_norm`, `round_to` and the differences. Wrong shapes and unknown formats
raise ValueError.
"""

from numdebug.stable import naive
from numdebug.stable.differences import numerical_gradient, relative_error, sweep, verdict
from numdebug.stable.exponentials import (
    bce_with_logits,
    cross_entropy,
    expm1,
    log1mexp,
    log1p,
    log_sigmoid,
    log_softmax,
    logaddexp,
    logsumexp,
    one_minus_cos,
    sigmoid,
    softmax,
    softplus,
)
from numdebug.stable.guards import clip_by_norm, guarded, safe_divide, safe_norm, safe_sqrt
from numdebug.stable.rounding import round_to
from numdebug.stable.sums import Welford, kahan_sum, pairwise_sum, variance

__all__ = [
    "Welford",
    "bce_with_logits",
    "clip_by_norm",
    "cross_entropy",
    "expm1",
    "guarded",
    "kahan_sum",
    "log1mexp",
    "log1p",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "naive",
    "numerical_gradient",
    "one_minus_cos",
    "pairwise_sum",
    "relative_error",
    "round_to",
    "safe_divide",
    "safe_norm",
    "safe_sqrt",
    "sigmoid",
    "softmax",
    "softplus",
    "sweep",
    "variance",
    "verdict",
]
