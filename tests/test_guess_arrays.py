"""What is called in files of JAX, Equinox, Flax, Keras and NumPy that call nothing themselves."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from numdebug.load import guess
from numdebug.load.script import Script

HEAD = "import jax\nimport jax.numpy as jnp\n"


class Notes:
    """A watcher that writes down what it is given."""

    def __init__(self) -> None:
        self.saw_forward = self.saw_backward = False
        self.outputs: dict[str, np.ndarray] = {}

    def returned(self, name: str, value: object) -> None:
        self.saw_forward = True
        self.outputs[name] = np.asarray(value)

    def loss(self, value: object) -> None:
        raise AssertionError("nothing of JAX is differentiated after the fact")


@pytest.fixture
def tried(tmp_path: Path, monkeypatch):
    os.environ.setdefault("KERAS_BACKEND", "jax")

    def run(text: str, name: str | None = None):
        path = tmp_path / "model.py"
        path.write_text(textwrap.dedent(text))
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        monkeypatch.setattr(sys, "argv", [])
        monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
        watcher, attempts = Notes(), guess.Attempts()
        module = Script(path, "model.py", name=name).run()
        guess.try_calls(module, watcher, lambda text: None, {}, name, attempts)
        return attempts, watcher

    return run


FILES = {
    "a gradient function": (
        HEAD
        + """
params = {"w": jnp.ones(3)}
x = jnp.ones((4, 3))
def loss_fn(params, x, scale=2.0):
    return scale * jnp.mean((x @ params["w"]) ** 2)
grad_fn = jax.value_and_grad(loss_fn)
""",
        "grad_fn(params, x)",
        {"grad_fn[0]": 18.0, "grad_fn[1]['w']": [12.0] * 3},
    ),
    "a loss, differentiated for its parameters": (
        HEAD
        + """
params = {"w": jnp.ones(3)}
batch, targets = jnp.ones((4, 3)), jnp.zeros(4)
def loss_fn(params, batch, targets):
    return jnp.mean((batch @ params["w"] - targets) ** 2)
""",
        "loss_fn(params, batch, targets), and its gradient for params",
        {"loss_fn[0]": 9.0, "loss_fn[1][0]['w']": [6.0] * 3},
    ),
    "a jitted loss of one array": (
        HEAD
        + """
x = jnp.array([1.0, 2.0])
@jax.jit
def energy(x):
    return (x ** 2).sum()
""",
        "energy(x), and its gradient for x",
        {"energy[1][0]": [2.0, 4.0]},
    ),
    "what ran already is not called again": (
        HEAD
        + """
positions = jnp.array([1.0, 2.0])
def total_energy(positions):
    return (positions ** 2).sum()
def forces(positions):
    return -jax.grad(total_energy)(positions)
energy = total_energy(positions)
""",
        "forces(positions)",
        {"forces": [-2.0, -4.0]},
    ),
    "equinox, through its gradient": (
        "import equinox as eqx\n"
        + HEAD
        + """
class Model(eqx.Module):
    w: jax.Array
    act: object = eqx.field(static=True, default=jnp.tanh)
    def __call__(self, x):
        return self.act(x * self.w)
def loss_fn(model, x, y):
    return jnp.mean((model(x) - y) ** 2)
model = Model(jnp.array(0.0))
x, y = jnp.ones(3), jnp.ones(3)
grad_fn = eqx.filter_value_and_grad(loss_fn)
""",
        "grad_fn(model, x, y)",
        {"grad_fn[0]": 1.0},
    ),
    "equinox, a batch": (
        "import equinox as eqx\n"
        + HEAD
        + """
model = eqx.nn.MLP(3, 2, 8, 1, key=jax.random.PRNGKey(0))
x = jnp.ones((5, 3))
""",
        "jax.vmap(model)(x)",
        {},
    ),
    "flax.linen without parameters": (
        "from flax import linen as nn\n"
        + HEAD
        + """
class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(x)
model = Net()
x = jnp.ones((5, 3))
def loss_fn(logits, targets):
    return ((logits - targets) ** 2).mean()
targets = jnp.zeros((5, 2))
""",
        "model.apply(model.init(jax.random.PRNGKey(0), x), x), then loss_fn(output, targets), and its gradient for model",
        {},
    ),
    "flax.linen with parameters": (
        "from flax import linen as nn\n"
        + HEAD
        + """
model = nn.Dense(2)
x = jnp.ones((5, 3))
params = model.init(jax.random.PRNGKey(1), x)["params"]
""",
        "model.apply({'params': params}, x)",
        {},
    ),
    "nnx": (
        "from flax import nnx\n"
        + HEAD
        + """
model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
x, y = jnp.ones((5, 3)), jnp.ones((5, 2))
def loss_fn(model, x, y):
    return ((model(x) - y) ** 2).mean()
""",
        "loss_fn(model, x, y), and its gradient for model",
        {},
    ),
    "keras": (
        """
import keras
import numpy as np
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
x = np.ones((5, 3), dtype="float32")
""",
        "model(x)",
        {},
    ),
    "numpy": (
        """
import numpy as np
scores = np.array([[1.0, 2.0]])
def normalise(scores):
    e = np.exp(scores)
    return e / e.sum(axis=1, keepdims=True)
""",
        "normalise(scores)",
        {"normalise": [[0.26894142, 0.73105858]]},
    ),
    "a training step with a state": (
        "import optax\n"
        + HEAD
        + """
params = {"w": jnp.ones(3)}
tx = optax.sgd(0.1)
opt_state = tx.init(params)
x, y = jnp.ones((4, 3)), jnp.zeros(4)
def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"] - y) ** 2))(params)
    updates, opt_state = tx.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss
""",
        "train_step(params, opt_state, x, y)",
        {"train_step[0]['w']": [0.4] * 3},
    ),
}


@pytest.mark.parametrize(("text", "called", "outputs"), FILES.values(), ids=FILES)
def test_the_call_that_is_made(text, called, outputs, tried):
    attempts, watcher = tried(text)
    assert attempts.called == [called], attempts.failed
    for name, value in outputs.items():
        assert np.allclose(watcher.outputs[name], value, atol=1e-6), watcher.outputs


def test_a_key_is_no_input(tried):
    attempts, watcher = tried(HEAD + "key = jax.random.PRNGKey(0)\ndef helper(values):\n    return values * 2.0\n")
    assert attempts.called == [] and not watcher.outputs


def test_a_named_function(tried):
    attempts, _ = tried(HEAD + "x = jnp.ones(3)\n@jax.jit\ndef whatever(x):\n    return x.sum()\n", name="whatever")
    assert attempts.called == ["whatever(x), and its gradient for x"]
