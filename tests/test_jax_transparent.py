# ruff: noqa: E501  (a line of a program a line)
"""JAX programs give bit for bit what they give alone while numdebug watches, and find their settings as they left them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="JAX is not installed")

HEAD = "import os\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\nresult = []\n"
TAIL = "\nnp.savez(os.environ['RESULT'], *[np.asarray(r) for r in jax.tree_util.tree_leaves(result)])\n"
MLP = """
def init(key):
    a, b = jax.random.split(key)
    return {"w": jax.random.normal(a, (6, 16)) * 0.3, "v": jax.random.normal(b, (16, 1)) * 0.3}
def loss_fn(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)
x = jax.random.normal(jax.random.key(1), (32, 6))
y = jnp.sin(x.sum(1, keepdims=True))
params = init(jax.random.key(0))
"""
PROGRAMS = {
    "jitted steps": MLP + """
@jax.jit
def step(p):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss
for _ in range(5):
    params, loss = step(params)
    result.append(loss)
result.append(params)
""",
    "eager steps": MLP + """
for _ in range(3):
    loss, g = jax.value_and_grad(loss_fn)(params, x, y)
    params = jax.tree.map(lambda a, b: a - 0.1 * b, params, g)
    result.append(float(loss))
result.append(params)
""",
    "donated buffers": MLP + """
from functools import partial
@partial(jax.jit, donate_argnums=0)
def step(p):
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss_fn)(p, x, y))
for _ in range(4):
    old, params = params, step(params)
result += [params, old["w"].is_deleted()]
""",
    "one scan": MLP + """
def body(p, _):
    loss, g = jax.value_and_grad(loss_fn)(p, x, y)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss
result += [jax.jit(lambda p: jax.lax.scan(body, p, None, length=20))(params)]
""",
    "own derivatives": """
@jax.custom_vjp
def f(v):
    return jnp.sin(v)
f.defvjp(lambda v: (jnp.sin(v), v), lambda v, g: (g * jnp.cos(v),))
v = jnp.linspace(-1.0, 1.0, 7)
result += [jax.grad(lambda v: f(v).sum())(v), jax.jit(jax.vmap(f))(v), f(v)]
""",
    "randomness and settings": """
jax.config.update("jax_enable_x64", True)
k = jax.random.key(3)
result += [jax.random.normal(k, (4,)), jax.random.permutation(k, 9), jnp.linspace(0, 1, 5), jax.config.jax_enable_x64]
jnp.set_printoptions(precision=3)
result += [np.get_printoptions()["precision"], jax.vmap(lambda v: v @ v)(jnp.ones((3, 4))), jnp.float32(1.5) * 2]
""",
    "callbacks and control flow": """
seen = []
@jax.jit
def f(v):
    jax.debug.callback(lambda a: seen.append(float(a)), v.sum())
    v = jax.lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 1.5, v)
    return jax.lax.cond(v[0] > 1, jnp.cos, jnp.sin, v)
result += [f(jnp.arange(1.0, 5.0)), f(jnp.ones(4))]
jax.effects_barrier()
result += [np.array(seen)]
""",
    "equinox and optax": """
import equinox as eqx
import optax
net = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(0))
opt = optax.adam(1e-2)
state = opt.init(eqx.filter(net, eqx.is_array))
x = jax.random.normal(jax.random.key(1), (16, 3))
@eqx.filter_jit
def step(net, state):
    loss, g = eqx.filter_value_and_grad(lambda n: jnp.mean(jax.vmap(n)(x) ** 2))(net)
    updates, state = opt.update(g, state)
    return eqx.apply_updates(net, updates), state, loss
for _ in range(4):
    net, state, loss = step(net, state)
    result.append(loss)
result.append(eqx.filter(net, eqx.is_array))
""",
    "flax nnx": """
from flax import nnx
import optax
model = nnx.Sequential(nnx.Linear(3, 8, rngs=nnx.Rngs(0)), nnx.BatchNorm(8, rngs=nnx.Rngs(1)), nnx.relu, nnx.Dropout(0.2, rngs=nnx.Rngs(2)), nnx.Linear(8, 1, rngs=nnx.Rngs(3)))
optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
x = jax.random.normal(jax.random.key(1), (16, 3))
@nnx.jit
def step(model, optimizer):
    loss, g = nnx.value_and_grad(lambda m: jnp.mean(m(x) ** 2))(model)
    optimizer.update(model, g)
    return loss
for _ in range(4):
    result.append(step(model, optimizer))
result.append(jax.tree_util.tree_leaves(nnx.state(model, nnx.Param)))
""",
    "flax linen": """
import flax.linen as nn
import optax
from flax.training.train_state import TrainState
class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.LayerNorm()(nn.relu(nn.Dense(8)(x))))
x = jax.random.normal(jax.random.key(1), (16, 3))
net = Net()
state = TrainState.create(apply_fn=net.apply, params=net.init(jax.random.key(0), x), tx=optax.sgd(0.1))
@jax.jit
def step(state):
    loss, g = jax.value_and_grad(lambda p: jnp.mean(state.apply_fn(p, x) ** 2))(state.params)
    return state.apply_gradients(grads=g), loss
for _ in range(4):
    state, loss = step(state)
    result.append(loss)
result.append(state.params)
""",
}  # fmt: skip


# One file each: starting a process costs more than what runs in it. The settings come last, because they stay.
FILES = {
    "jax": ["jitted steps", "eager steps", "donated buffers", "one scan", "own derivatives", "callbacks and control flow", "randomness and settings"],
    "equinox": ["equinox and optax"],
    "flax": ["flax nnx", "flax linen"],
}  # fmt: skip


def test_every_program_is_in_a_file() -> None:
    assert sorted(PROGRAMS) == sorted(name for names in FILES.values() for name in names)


@pytest.mark.parametrize("file", FILES)
def test_results_are_the_same(file: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(HEAD + "".join(PROGRAMS[name] for name in FILES[file]) + TAIL)
    kept = []
    for kind, command in {"alone": [str(program)], "watched": ["-m", "numdebug", "diagnose", str(program), "--no-rerun"]}.items():
        env = {**os.environ, "RESULT": str(tmp_path / f"{kind}.npz")}
        done = subprocess.run([sys.executable, *command], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        with np.load(env["RESULT"]) as held:
            kept.append([held[key] for key in held.files])
    alone, watched = kept
    assert len(alone) == len(watched)
    for a, b in zip(alone, watched, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
