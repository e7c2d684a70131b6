"""the compiled result differs because the compiler reordered or simplified

What happens
    XLA may rewrite (a / b) / (c / d) as (a * d) / (b * c), fold 1 - p + eps into (1 + eps) - p, or join products. On paper nothing
    changes; in floating point the new intermediate values can overflow, or an epsilon can vanish.
Why it matters
    The same function is fine op by op and fails under jit, so that every look at it with jit switched off shows a healthy program.
How we know
    The compiled call gave inf or NaN where its operations, evaluated one by one, give finite numbers. The call is compiled again with
    one operation at a time set apart by an optimization barrier, and with algebraic simplification off.
Not this
    An epsilon that the rewrite let vanish (`ineffective-epsilon`); differences of a few last digits, which any compiler makes.
Fix
    Rearrange the formula so that no order of its operations leaves the range, keep the operation apart with
    jax.lax.optimization_barrier, or compile with compiler_options={'xla_disable_hlo_passes': 'algsimp'}.
Read on
    The XLA documentation on algebraic simplification; jax.lax.optimization_barrier.
"""

from __future__ import annotations

from numdebug.catalogue._bug import Bug, Words
from numdebug.catalogue._difference import because, difference
from numdebug.catalogue._words import repair_ops
from numdebug.rules import Found, seen


def _because(hit: Found) -> str:
    e = hit[0]
    if e.kind == "difference":
        return because(hit)
    what = f"its {e['equation']} was rewritten" if e["equation"] else "it was rewritten"
    return (
        f"compiled, the call gives {e['non_finite']} of {e['size']} elements that are not finite; "
        f"operation by operation {e['written_non_finite']} are: {what} by the compiler"
    )


BROKEN = """\
import jax
import jax.numpy as jnp


@jax.jit
def odds_ratio(a, b, c, d):
    return jnp.sum((a / b) / (c / d))  # here


x = jnp.array([1e30, 2e30, 3e30])
print(odds_ratio(x, x, x, x))
"""

FIXED = """\
import jax
import jax.numpy as jnp


@jax.jit
def odds_ratio(a, b, c, d):
    return jnp.sum(jnp.exp((jnp.log(a) - jnp.log(b)) - (jnp.log(c) - jnp.log(d))))


x = jnp.array([1e30, 2e30, 3e30])
print(odds_ratio(x, x, x, x))
"""


bug = Bug(
    id="compiler-rewrite",
    title="a formula that the compiler rearranged, and that does not bear it",
    family="difference",
    when=seen("compiled-apart") | difference("compiler-rewrite"),
    because=_because,
    fix="keep the operation apart with jax.lax.optimization_barrier, or rearrange it so that no order of its operations leaves the range",
    repair=lambda hits: repair_ops(
        "barrier", "keep the operation apart with jax.lax.optimization_barrier, or rearrange the formula", hits, kind="none"
    ),
    symptoms=("loss becomes NaN", "different under jit"),
    broken={"jax": BROKEN},
    fixed={"jax": FIXED},
    hindi=Words(
        title="सूत्र, जिसे compiler ने बदलकर लिखा और जो यह सह नहीं पाता",
        symptoms=("loss NaN हो जाता है", "jit में परिणाम अलग आता है"),
        fix=(
            "jax.lax.optimization_barrier से ऑपरेशन को अलग रखें, या उसे ऐसे लिखें कि ऑपरेशन किसी भी क्रम में हों, range "
            "से बाहर न जाएँ"
        ),
        what=(
            "XLA (a / b) / (c / d) को (a * d) / (b * c) लिख सकता है, या 1 - p + eps को (1 + eps) - p। काग़ज़ पर कुछ नहीं "
            "बदलता, पर floating point में बीच के नए मान overflow हो सकते हैं या epsilon मिट सकता है: वही फ़ंक्शन "
            "ऑपरेशन-दर-ऑपरेशन ठीक चलता है और jit में फ़ेल होता है।"
        ),
        fixes={
            "keep the operation apart with jax.lax.optimization_barrier, or rearrange the formula": (
                "jax.lax.optimization_barrier से ऑपरेशन को अलग रखें, या सूत्र को दूसरे रूप में लिखें"
            ),
        },
    ),
)
