"""Harm without a NaN in programs of JAX: each is named at its line, and what differs from it only by being right stays silent."""

from __future__ import annotations

import pytest
from forked import loud

COUNTER = """\
import jax
import jax.numpy as jnp

@jax.jit
def tally(pages):
    start = jnp.zeros(3, jnp.float16)
    def visit(counts, page):
        return counts + jax.nn.one_hot(page, 3, dtype=counts.dtype), None  # here
    return jax.lax.scan(visit, start, pages)[0]

pages = jax.random.randint(jax.random.key(0), (9000,), 0, 3)
print("views", tally(pages))
"""

EVENTS = """\
import jax
import jax.numpy as jnp

MARKS = jnp.array([0.3, 0.8, 1.9])

@jax.jit
def ring():
    def tick(state, _):
        clock, rung = state
        hit = jnp.any(clock == MARKS)  # here
        rung = jax.lax.cond(hit, lambda n: n + 1.0, lambda n: n, rung)
        return (clock + 0.1, rung), rung
    return jax.lax.scan(tick, (jnp.float32(0.0), jnp.float32(0.0)), length=25)

(clock, rung), history = ring()
print("rung", rung, "times, on average", history.mean())
"""

ENCODER = """\
import jax
import jax.numpy as jnp
import optax

k = jax.random.split(jax.random.key(1), 3)
x = jax.random.normal(k[0], (128, 5))
y = jnp.sin(x[:, 0]) * x[:, 1]
params = {"features": 0.5 * jax.random.normal(k[1], (5, 16)), "head": 0.3 * jax.random.normal(k[2], (16,))}
tx = optax.adam(1e-2)
state = tx.init(params)

def loss_fn(p):
    hidden = jax.lax.stop_gradient(jnp.tanh(x @ p["features"]))  # here
    return jnp.mean((hidden @ p["head"] - y) ** 2)

@jax.jit
def step(p, s):
    loss, g = jax.value_and_grad(loss_fn)(p)
    u, s = tx.update(g, s)
    return optax.apply_updates(p, u), s, loss

for i in range(60):
    params, state, loss = step(params, state)
print("loss", float(loss))
"""

CLIPPED = """\
import jax
import jax.numpy as jnp
import optax

k = jax.random.split(jax.random.key(4), 2)
x = jax.random.normal(k[0], (200, 5)) * jnp.array([4.0, 2.0, 1.0, 0.5, 0.25])
y = x @ jnp.array([1.0, -3.0, 2.0, 5.0, -4.0])
tx = optax.chain(
    optax.clip(0.002),  # here
    optax.sgd(0.02),
)
w = jnp.zeros(5)
state = tx.init(w)

@jax.jit
def step(w, state):
    loss, g = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    u, state = tx.update(g, state)
    return optax.apply_updates(w, u), state, loss

for i in range(150):
    w, state, loss = step(w, state)
print("loss", float(loss))
"""

ROD = """\
import jax
import jax.numpy as jnp

H = 0.7

def change(u):
    return jnp.roll(u, 1) + jnp.roll(u, -1) - 2 * u - 0.1 * (u - 20.0)

@jax.jit
def relax(u):
    def body(i, u):
        return u + H * change(u)  # here
    return jax.lax.fori_loop(0, 60, body, u)

rod = relax(20.0 + jnp.array([0.0, 5.0, 1.0, -2.0, 0.0, 3.0, 0.5, 0.0]))
print("mean", rod.mean(), "hottest", rod.max())
"""

WIDE = """\
import jax
import jax.numpy as jnp

k = jax.random.split(jax.random.key(2), 4)
x = jax.random.normal(k[0], (256, 8))
y = jnp.tanh(x[:, 0] - x[:, 1])
params = [
    4.0 * jax.random.normal(k[1], (8, 32)),
    4.0 * jax.random.normal(k[2], (32, 32)),
    0.1 * jax.random.normal(k[3], (32,)),
]

def loss_fn(p):
    h = jnp.tanh(x @ p[0])  # here
    h = jnp.tanh(h @ p[1])
    return jnp.mean((h @ p[2] - y) ** 2)

@jax.jit
def step(p):
    loss, g = jax.value_and_grad(loss_fn)(p)
    return [w - 0.01 * d for w, d in zip(p, g)], loss

for i in range(40):
    params, loss = step(params)
print("loss", float(loss))
"""

MARKED = """\
import jax
import jax.numpy as jnp

reading = 10 + jax.random.normal(jax.random.key(3), (50, 4))
reading = jnp.where(jax.random.bernoulli(jax.random.key(5), 0.1, reading.shape), jnp.nan, reading)
print("gaps", int(jnp.isnan(reading).sum()), "mean", jnp.nanmean(reading, axis=0))
"""

SETTLED = """\
import jax
import jax.numpy as jnp

@jax.jit
def smooth(values):
    def body(average, value):
        average = average + 0.02 * (value - average)
        return average, average
    return jax.lax.scan(body, values[0], values)

last, averages = smooth(jnp.full(2000, 3.3).at[0].set(1.0))
print("average", last, "of", averages.mean())
"""

BROKEN = {
    "absorbed-addition": COUNTER,
    "float-equality": EVENTS,
    "detached-parameter": ENCODER,
    "clip-by-value": CLIPPED,
    "unstable-integration": ROD,
    "saturated-init": WIDE,
}
RIGHT = {
    "a wide counter": COUNTER.replace("float16", "float32"),
    "times within half a tick": EVENTS.replace("clock == MARKS", "jnp.abs(clock - MARKS) < 0.05"),
    "a trained encoder": ENCODER.replace('jax.lax.stop_gradient(jnp.tanh(x @ p["features"]))', 'jnp.tanh(x @ p["features"])'),
    "an encoder frozen on purpose": ENCODER.replace(
        'jax.lax.stop_gradient(jnp.tanh(x @ p["features"]))', 'jnp.tanh(x @ jax.lax.stop_gradient(p["features"]))'
    ),
    "clipping by norm": CLIPPED.replace("optax.clip(0.002)", "optax.clip_by_global_norm(20.0)"),
    "a stable time step": ROD.replace("H = 0.7", "H = 0.2"),
    "scaled weights": WIDE.replace("4.0 * jax.random.normal(k[1]", "0.35 * jax.random.normal(k[1]").replace(
        "4.0 * jax.random.normal(k[2]", "0.2 * jax.random.normal(k[2]"
    ),
    "missing values marked as NaN": MARKED,
    "an average that has settled": SETTLED,
}


@pytest.mark.parametrize("bug", BROKEN)
def test_harm_is_named_at_its_line(bug, diagnose_arrays, tmp_path):
    file = tmp_path / "model.py"
    file.write_text(BROKEN[bug])
    line = next(n for n, text in enumerate(BROKEN[bug].splitlines(), 1) if "# here" in text)
    outcome = diagnose_arrays(file)
    assert loud(outcome) == [(bug, line)]


@pytest.mark.parametrize("what", RIGHT)
def test_what_is_right_stays_silent(what, diagnose_arrays, tmp_path):
    file = tmp_path / "model.py"
    file.write_text(RIGHT[what])
    outcome = diagnose_arrays(file)
    assert loud(outcome) == []
    assert outcome.exit_code == 0


SCALED = """\
import jax
import jax.numpy as jnp

x = jax.random.normal(jax.random.key(0), (64, 3))
y = jnp.sin(x @ jnp.array([1.0, 0.5, -0.5]))
w = {"a": 0.5 * jax.random.normal(jax.random.key(1), (3, 8)), "b": jnp.ones(8)}

@jax.jit
def step(w):
    loss, g = jax.value_and_grad(lambda w: 1024.0 * jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2))(w)
    return jax.tree.map(lambda p, d: p - 0.05 * d / 1024.0, w, g), loss / 1024.0

for i in range(20):
    w, loss = step(w)
print(loss)
"""


def test_the_gradients_of_a_scaled_loss_are_right(numdebug, tmp_path):
    (tmp_path / "model.py").write_text(SCALED)
    said = numdebug("diagnose", "--check-gradients", "model.py")
    assert said.code == 0
    assert "gradients of 2 of 2 parameters agree" in said.out
