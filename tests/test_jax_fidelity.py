# ruff: noqa: E501  (a function a line)
"""The interpreted jaxpr gives what JAX gives: values and gradients, control flow, linear algebra, low precision, complex numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed")
jnp = jax.numpy
lax = jax.lax

from numdebug.observe.frames import Frames  # noqa: E402
from numdebug.observe.jax.evaluate import compute, host  # noqa: E402
from numdebug.observe.jax.interpret import Context, Interpreter, Slot  # noqa: E402
from numdebug.observe.jax.sites import Sites  # noqa: E402

KEY = jax.random.key(0)


def _normal(*shape, dtype=jnp.float32, seed=0):
    return jax.random.normal(jax.random.key(seed), shape).astype(dtype)


def _spd(n):
    a = _normal(n, n)
    return a @ a.T + n * jnp.eye(n)


X, Y, V, M = _normal(3, 4), _normal(4, 5, seed=1), _normal(6, seed=2), _normal(4, 4, seed=3)
POSITIVE = jnp.abs(X) + 0.5
IMAGE, KERNEL = _normal(2, 8, 8, 3), _normal(3, 3, 3, 4, seed=4)
IDS = jnp.array([2, 0, 1, 3])


@jax.custom_vjp
def _own(x):
    return jnp.sin(x)


_own.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))


@jax.custom_jvp
def _own_jvp(x):
    return x * jnp.exp(x)


_own_jvp.defjvps(lambda t, ans, x: t * (1 + x) * jnp.exp(x))


def _scan(x):
    def body(c, t):
        c = jnp.tanh(c + t)
        return c, c * 2

    return lax.scan(body, jnp.zeros(4), x)


def _reverse_scan(x):
    return lax.scan(lambda c, t: (0.9 * c + t, c), jnp.ones(4), x, reverse=True)


def _while(x):
    return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5 + 1.0), (0, x))[1]


def _batched_while(x):
    return jax.vmap(lambda v: lax.while_loop(lambda c: c < 2.0, lambda c: c * 1.7, jnp.abs(v) + 0.1))(x)


DIFFERENTIABLE = {
    "add": (lambda x: x + 1.5 * x - 2 / (x * x + 1), X), "exp": (jnp.exp, X), "log": (jnp.log, POSITIVE), "log1p": (jnp.log1p, POSITIVE),
    "expm1": (jnp.expm1, X), "sqrt": (jnp.sqrt, POSITIVE), "rsqrt": (lax.rsqrt, POSITIVE), "cbrt": (jnp.cbrt, POSITIVE),
    "power": (lambda x: x**2.5 + x**3 + x**-2 + 2.0**x, POSITIVE), "trig": (lambda x: jnp.sin(x) * jnp.cos(x) + jnp.tan(0.3 * x), X),
    "inverse trig": (lambda x: jnp.arcsin(0.3 * jnp.tanh(x)) + jnp.arccos(0.3 * jnp.tanh(x)) + jnp.arctan(x), X),
    "hyperbolic": (lambda x: jnp.sinh(x) + jnp.cosh(x) + jnp.tanh(x) + jnp.arcsinh(x) + jnp.arctanh(0.5 * jnp.tanh(x)), X),
    "arctan2": (lambda x: jnp.arctan2(x, POSITIVE), X), "hypot": (lambda x: jnp.hypot(x, POSITIVE), X),
    "erf": (lambda x: jax.scipy.special.erf(x) + jax.scipy.special.erfc(x), X), "erfinv": (lambda x: jax.scipy.special.erfinv(0.5 * jnp.tanh(x)), X),
    "gamma": (lambda x: jax.scipy.special.gammaln(x) + jax.scipy.special.digamma(x), POSITIVE),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), X), "softmax": (lambda x: jax.nn.softmax(x, axis=1), X),
    "log_softmax": (lambda x: jax.nn.log_softmax(x, axis=0), X), "softplus": (jax.nn.softplus, X), "sigmoid": (jax.nn.sigmoid, X),
    "log_sigmoid": (jax.nn.log_sigmoid, X), "relu": (jax.nn.relu, X), "gelu": (jax.nn.gelu, X), "silu": (jax.nn.silu, X),
    "leaky_relu": (jax.nn.leaky_relu, X), "elu": (jax.nn.elu, X), "logaddexp": (lambda x: jnp.logaddexp(x, X[::-1]), X),
    "where": (lambda x: jnp.where(x > 0, x, 0.1 * x), X), "clip": (lambda x: jnp.clip(x, -0.5, 0.5), X), "abs": (jnp.abs, X),
    "maximum": (lambda x: jnp.maximum(x, 0.2) + jnp.minimum(x, X[::-1]), X), "select": (lambda x: lax.select_n(IDS % 3, x[0], x[1], x[2]), X),
    "sum": (lambda x: x.sum() + x.sum(0) + x.sum(1, keepdims=True), X), "mean": (lambda x: x.mean(0), X), "var": (lambda x: x.var(1), X),
    "std": (lambda x: x.std(ddof=1), X), "prod": (lambda x: x.prod(1), X), "max": (lambda x: x.max(1) + x.min(), X),
    "norm": (lambda x: jnp.linalg.norm(x, axis=1), X), "cumsum": (lambda x: jnp.cumsum(x, 1), X), "cumprod": (lambda x: jnp.cumprod(x, 0), X),
    "cummax": (lambda x: lax.cummax(x, axis=1), X), "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, axis=1), X),
    "matmul": (lambda x: x @ Y, X), "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x), X),
    "batched matmul": (lambda x: jnp.einsum("bij,bjk->bik", jnp.stack([x, x]), jnp.stack([Y, Y])), X), "outer": (lambda v: jnp.outer(v, v), V),
    "convolution": (lambda k: lax.conv_general_dilated(IMAGE, k, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), KERNEL),
    "max pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), IMAGE),
    "average pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"), IMAGE),
    "take": (lambda x: x[:, IDS[:2]] * x[0, 1], X), "take_along_axis": (lambda x: jnp.take_along_axis(x, IDS[None, :3] % 4, 1), X),
    "embedding": (lambda t: t[jnp.array([[0, 2], [1, 1]])], X), "boolean": (lambda x: jnp.where(jnp.isfinite(x) & ~(x < 0), x, 0), X),
    "scatter": (lambda x: jnp.zeros((4, 4)).at[IDS[:3]].set(x).at[0].add(x[0]), X), "segment": (lambda v: jax.ops.segment_sum(v, jnp.arange(6) % 2, 2), V),
    "slice": (lambda x: x[1:, ::2] + lax.dynamic_slice(x, (1, 1), (2, 2)), X),
    "update slice": (lambda x: lax.dynamic_update_slice(x, jnp.ones((1, 2)), (2, 1)), X),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 1))), X), "interior pad": (lambda x: lax.pad(x, 0.5, ((1, 1, 2), (-1, 0, 0))), X),
    "reshape": (lambda x: x.reshape(2, 6).T[::-1], X), "concatenate": (lambda x: jnp.concatenate([x, 2 * x], 1), X),
    "stack": (lambda x: jnp.stack([x, x * x]).squeeze(), X), "split": (lambda x: jnp.split(x, 2, axis=1)[1], X), "roll": (lambda x: jnp.roll(x, 1, 0), X),
    "sort": (lambda x: jnp.sort(x, axis=1), X), "top_k": (lambda x: lax.top_k(x, 2)[0], X), "median": (lambda x: jnp.median(x, axis=1), X),
    "tril": (jnp.tril, M), "triu": (jnp.triu, M), "trace": (jnp.trace, M), "kron": (lambda x: jnp.kron(x, jnp.eye(2)), X),
    "inverse": (lambda m: jnp.linalg.inv(m), _spd(4)), "solve": (lambda m: jnp.linalg.solve(m, jnp.ones(4)), _spd(4)),
    "cholesky": (jnp.linalg.cholesky, _spd(4)), "slogdet": (lambda m: jnp.linalg.slogdet(m)[1], _spd(4)), "det": (jnp.linalg.det, _spd(3)),
    "eigvalsh": (jnp.linalg.eigvalsh, _spd(4)), "svd": (lambda m: jnp.linalg.svd(m, compute_uv=False), X), "qr": (lambda m: jnp.linalg.qr(m)[1], M),
    "triangular": (lambda m: jax.scipy.linalg.solve_triangular(jnp.tril(m), jnp.ones((4, 2)), lower=True), _spd(4)),
    "fft": (lambda v: jnp.abs(jnp.fft.fft(v)) ** 2, V), "rfft": (lambda v: jnp.fft.irfft(jnp.fft.rfft(v) * 2), V),
    "complex": (lambda v: jnp.real(jnp.exp(1j * v) * (v + 2j)), V), "scan": (_scan, X), "reverse scan": (_reverse_scan, X),
    "fori_loop": (lambda x: lax.fori_loop(0, 4, lambda i, c: c * 0.9 + i, x), X), "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), X),
    "switch": (lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.tanh], x), X), "map": (lambda x: lax.map(lambda r: jnp.cumsum(r) ** 2, x), X),
    "associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), X), "remat": (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), X),
    "custom_vjp": (_own, X), "custom_jvp": (_own_jvp, X), "vmap": (jax.vmap(lambda r: r / (1 + r @ r)), X),
    "nested jit": (lambda x: jax.jit(lambda y: jax.jit(jnp.tanh)(y) * 2)(x), X), "grad of grad": (jax.vmap(jax.grad(jax.grad(lambda v: jnp.sin(v) ** 3))), V),
    "hessian": (jax.hessian(lambda v: jnp.sum(v**4) + v[0] * v[1]), V), "jvp": (lambda x: jax.jvp(jnp.tanh, (x,), (x,))[1], X),
    "dropout": (lambda x: jnp.where(jax.random.bernoulli(KEY, 0.5, x.shape), x, 0), X), "noise": (lambda x: x + jax.random.normal(KEY, x.shape), X),
    "bfloat16": (lambda x: (jnp.exp(x) @ jnp.ones((4, 2), jnp.bfloat16)).sum(), X.astype(jnp.bfloat16)),
    "float16": (lambda x: jax.nn.softmax(x, 1) * x, X.astype(jnp.float16)), "mixed precision": (lambda x: (x.astype(jnp.bfloat16) @ Y.astype(jnp.bfloat16)).astype(jnp.float32), X),
}  # fmt: skip
PLAIN = {
    "while": (_while, X), "batched while": (_batched_while, V), "comparison": (lambda x: (x > 0) ^ (x < 1), X), "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x)), X),
    "argsort": (lambda x: jnp.argsort(x, axis=1), X), "rounding": (lambda x: (jnp.round(x), jnp.floor(x), jnp.ceil(x), jnp.sign(x), jnp.trunc(x)), 10 * X),
    "integers": (lambda i: (i // 3, i % 3, i << 2, i >> 1, -i, i & 5, i | 8, jnp.bitwise_xor(i, 3)), IDS), "unsigned": (lambda i: i.astype(jnp.uint8) - 3, IDS),
    "casts": (lambda x: (x.astype(jnp.int32), x.astype(jnp.int8), (x * 300).astype(jnp.uint8), x > 0), 10 * X), "unique": (lambda i: jnp.unique(i, size=4), IDS),
    "searchsorted": (lambda v: jnp.searchsorted(jnp.sort(v), jnp.array([0.1, -0.3])), V), "one_hot": (lambda i: jax.nn.one_hot(i, 5), IDS), "bincount": (lambda i: jnp.bincount(i, length=5), IDS),
    "histogram": (lambda v: jnp.histogram(v, bins=4)[0], V), "nan": (lambda x: (jnp.nanmean(x), jnp.isnan(x)), X.at[0, 0].set(jnp.nan)), "overflow": (lambda x: (jnp.exp(100 * x), -jnp.exp(100 * x)), jnp.array([1.0, 2.0, 0.25])),
    "subnormal": (lambda x: (x * 1e-30 * 1e-10, jnp.log(x * 1e-30 * 1e-10)), jnp.abs(X)), "float8": (lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32), X), "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int32), X),
    "complex parts": (lambda v: (jnp.conj(v * 1j), jnp.angle(v + 1j), jnp.abs(v + 2j)), V), "random": (lambda k: (jax.random.uniform(k, (3,)), jax.random.randint(k, (3,), 0, 9)), jax.random.key(3)),
    "shuffle": (lambda k: jax.random.permutation(k, 6), jax.random.key(3)), "categorical": (lambda k: jax.random.categorical(k, X), jax.random.key(3)),
}  # fmt: skip


def test_bits_are_those_of_the_program_s_format_also_in_float64() -> None:
    kind = np.dtype("int32")
    (bits,) = compute(lax.bitcast_convert_type_p, {"new_dtype": kind}, [kind], [np.array([-0.0, 1.1])], True)
    assert np.array_equal(bits, np.array([-0.0, 1.1], np.float32).view(np.int32))


def test_sums_over_leading_axes_lose_no_more_than_xla_s() -> None:
    x = np.abs(np.asarray(_normal(40_000, 3)))
    (total,) = compute(lax.reduce_sum_p, {"axes": (0,), "out_sharding": None}, [np.dtype("float32")], [x], False)
    assert np.allclose(total, x.astype(np.float64).sum(0), rtol=3e-7, atol=0)


def interpreted(function, *args):
    """The results of the jaxpr of `function`, equation by equation."""
    closed = jax.make_jaxpr(function)(*args)
    interpreter = Interpreter(Sites(Frames(Path.cwd())), lambda held: Slot(host(held)))
    slots = [Slot(host(a)) for a in jax.tree_util.tree_leaves(args)]
    context = Context((), (), "forward", (), 0, 0, True)
    return [s.array for s in interpreter._run(closed.jaxpr, interpreter._constants(closed), slots, context)]


def _coarsest(jaxpr):
    """The largest eps of the formats that are computed in: XLA may keep more digits than a format in between, never fewer."""
    names = {str(v.aval.dtype) for e in jaxpr.eqns for v in e.outvars if hasattr(v.aval, "dtype")}
    inner = [getattr(p, "jaxpr", p) for e in jaxpr.eqns for p in e.params.values() if hasattr(p, "jaxpr") or hasattr(p, "eqns")]
    return max([float(jnp.finfo(n).eps) for n in names if n in ("bfloat16", "float16")] + [_coarsest(j) for j in inner] + [2.0**-23])


def _same(function, x):
    theirs = jax.tree_util.tree_leaves(jax.jit(function)(x))
    eps = _coarsest(jax.make_jaxpr(function)(x).jaxpr)
    for mine, other in zip(interpreted(function, x), theirs, strict=True):
        other = np.asarray(other)
        assert mine.shape == other.shape and mine.dtype == other.dtype
        if mine.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, other)
            continue
        wide = np.complex128 if mine.dtype.kind == "c" else np.float64
        a, b = mine.astype(wide), other.astype(wide)
        scale = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
        np.testing.assert_allclose(a, b, rtol=100 * eps, atol=100 * eps * scale)


@pytest.mark.parametrize("name", PLAIN)
def test_values(name):
    _same(*PLAIN[name])


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_values_and_gradients(name):
    function, x = DIFFERENTIABLE[name]

    def total(x):
        leaves = jax.tree_util.tree_leaves(function(x))
        return sum(jnp.sum(jnp.sin(leaf.astype(jnp.float32))) for leaf in leaves), leaves

    _same(jax.value_and_grad(total, has_aux=True), x)
