"""Each writer in the words of the file's own framework: the text, and that the program computes the same where it was finite."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_fixes_support import Case

JAX = "import jax\nimport jax.numpy as jnp\nz = jnp.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])\nmask = jnp.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])\n"
FLAX = "import jax\nimport jax.numpy as jnp\nfrom flax import linen as nn\nz = jnp.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])\n"
NUMPY = "import numpy as np\nz = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])\nmask = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])\n"
SCIPY = "import numpy as np\nfrom scipy import special\nz = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])\n"
KERAS = "import keras\nfrom keras import ops\nz = ops.convert_to_tensor([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])\nmask = ops.convert_to_tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])\n"

# form, head, body, {role: source text}, numbers, body after
SAME: dict[str, tuple[str, str, str, dict[str, str], dict[str, Any], str]] = {
    "jax softmax": ("softmax", JAX, "e = jnp.exp(z)\nout = e / e.sum(axis=-1, keepdims=True)\n", {"target": "e / e.sum(axis=-1, keepdims=True)"}, {}, "out = jax.nn.softmax(z, axis=-1)\n"),
    "jax softmax inline": ("softmax", JAX, "out = jnp.exp(z) / jnp.sum(jnp.exp(z), axis=1, keepdims=True)\n", {"target": "jnp.exp(z) / jnp.sum(jnp.exp(z), axis=1, keepdims=True)"}, {}, "out = jax.nn.softmax(z, axis=1)\n"),
    "jax softmax of all": ("softmax", JAX, "out = jnp.exp(z) / jnp.exp(z).sum()\n", {"target": "jnp.exp(z) / jnp.exp(z).sum()"}, {}, "out = jax.nn.softmax(z, axis=None)\n"),
    "jax masked softmax": ("softmax", JAX, "w = jnp.exp(z) * mask\nout = w / w.sum(1, keepdims=True)\n", {"target": "w / w.sum(1, keepdims=True)", "exp": "jnp.exp(z)"}, {}, "w = jnp.exp(z - z.max(axis=1, keepdims=True)) * mask\nout = w / w.sum(1, keepdims=True)\n"),
    "numpy softmax": ("softmax", NUMPY, "e = np.exp(z)\nout = e / e.sum(axis=1, keepdims=True)\n", {"target": "e / e.sum(axis=1, keepdims=True)", "exp": "np.exp(z)"}, {}, "e = np.exp(z - z.max(axis=1, keepdims=True))\nout = e / e.sum(axis=1, keepdims=True)\n"),
    "scipy softmax": ("softmax", SCIPY, "e = np.exp(z)\nout = e / e.sum(axis=1, keepdims=True)\n", {"target": "e / e.sum(axis=1, keepdims=True)", "exp": "np.exp(z)"}, {}, "out = special.softmax(z, axis=1)\n"),
    "keras softmax": ("softmax", KERAS, "e = ops.exp(z)\nout = e / ops.sum(e, axis=1, keepdims=True)\n", {"target": "e / ops.sum(e, axis=1, keepdims=True)"}, {}, "out = ops.softmax(z, axis=1)\n"),
    "jax log_softmax": ("log_softmax", JAX, "p = jax.nn.softmax(z)\nout = jnp.log(p[0, 1] + 1e-9)\n", {"target": "jnp.log(p[0, 1] + 1e-9)"}, {}, "out = jax.nn.log_softmax(z)[0, 1]\n"),
    "jax log_softmax by hand": ("log_softmax", JAX, "e = jnp.exp(z)\np = e / e.sum(-1, keepdims=True)\nout = jnp.log(p)\n", {"target": "jnp.log(p)"}, {}, "out = jax.nn.log_softmax(z, axis=-1)\n"),
    "jax log_softmax in a helper": ("log_softmax", JAX, "def softmax(x):\n    e = jnp.exp(x)\n    return e / e.sum(axis=-1, keepdims=True)\np = softmax(z)\nout = jnp.log(jnp.maximum(p, 1e-9))\n", {"target": "jnp.log(jnp.maximum(p, 1e-9))"}, {}, "def softmax(x):\n    e = jnp.exp(x)\n    return e / e.sum(axis=-1, keepdims=True)\nout = jax.nn.log_softmax(z, axis=-1)\n"),
    "flax log_softmax": ("log_softmax", FLAX, "out = jnp.log(nn.softmax(z, axis=-1))\n", {"target": "jnp.log(nn.softmax(z, axis=-1))"}, {}, "out = nn.log_softmax(z, axis=-1)\n"),
    "keras log_softmax": ("log_softmax", KERAS, "out = ops.log(ops.clip(ops.softmax(z, axis=-1), 1e-7, 1.0))\n", {"target": "ops.log(ops.clip(ops.softmax(z, axis=-1), 1e-7, 1.0))"}, {}, "out = ops.log_softmax(z, axis=-1)\n"),
    "numpy log_softmax": ("log_softmax", NUMPY, "e = np.exp(z)\np = e / e.sum(axis=1, keepdims=True)\nout = np.log(p)\n", {"target": "np.log(p)"}, {}, "out = z - np.logaddexp.reduce(z, axis=1, keepdims=True)\n"),
    "jax logsumexp": ("logsumexp", JAX, "out = jnp.log(jnp.sum(jnp.exp(z), axis=1, keepdims=True))\n", {"target": "jnp.log(jnp.sum(jnp.exp(z), axis=1, keepdims=True))"}, {}, "out = jax.nn.logsumexp(z, axis=1, keepdims=True)\n"),
    "jax logsumexp of all": ("logsumexp", JAX, "out = jnp.log(jnp.exp(z).sum())\n", {"target": "jnp.log(jnp.exp(z).sum())"}, {}, "out = jax.nn.logsumexp(z, axis=None)\n"),
    "numpy logsumexp": ("logsumexp", NUMPY, "out = np.log(np.exp(z).sum(axis=1))\n", {"target": "np.log(np.exp(z).sum(axis=1))"}, {}, "out = np.logaddexp.reduce(z, axis=1)\n"),
    "keras logsumexp": ("logsumexp", KERAS, "out = ops.log(ops.sum(ops.exp(z), axis=1))\n", {"target": "ops.log(ops.sum(ops.exp(z), axis=1))"}, {}, "out = ops.logsumexp(z, axis=1)\n"),
    "jax logaddexp": ("logsumexp", JAX, "out = jnp.log(jnp.exp(z) + jnp.exp(mask))\n", {"target": "jnp.log(jnp.exp(z) + jnp.exp(mask))"}, {}, "out = jnp.logaddexp(z, mask)\n"),
    "jax softplus": ("softplus", JAX, "out = jnp.log(1.0 + jnp.exp(z))\n", {"target": "jnp.log(1.0 + jnp.exp(z))"}, {}, "out = jax.nn.softplus(z)\n"),
    "numpy softplus": ("softplus", NUMPY, "out = np.log1p(np.exp(z))\n", {"target": "np.log1p(np.exp(z))"}, {}, "out = np.logaddexp(0, z)\n"),
    "keras softplus": ("softplus", KERAS, "out = ops.log(1 + ops.exp(z))\n", {"target": "ops.log(1 + ops.exp(z))"}, {}, "out = ops.softplus(z)\n"),
    "jax log_sigmoid": ("log_sigmoid", JAX, "p = jax.nn.sigmoid(z)\nout = jnp.log(p) + jnp.log(1 - p)\n", {"target": "jnp.log(p)", "target2": "jnp.log(1 - p)"}, {}, "out = jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)\n"),
    "jax log_sigmoid by hand": ("log_sigmoid", JAX, "out = jnp.log(1 / (1 + jnp.exp(-z)))\n", {"target": "jnp.log(1 / (1 + jnp.exp(-z)))"}, {}, "out = jax.nn.log_sigmoid(z)\n"),
    "numpy log_sigmoid": ("log_sigmoid", NUMPY, "p = 1 / (1 + np.exp(-z))\nout = np.log(1 - p)\n", {"target": "np.log(1 - p)"}, {}, "out = -np.logaddexp(0, z)\n"),
    "keras log_sigmoid": ("log_sigmoid", KERAS, "out = ops.log(ops.sigmoid(z))\n", {"target": "ops.log(ops.sigmoid(z))"}, {}, "out = ops.log_sigmoid(z)\n"),
    "jax clip": ("clamp_argument", JAX, "out = jnp.arcsin(z / 4)\n", {"target": "jnp.arcsin(z / 4)"}, {"lo": -1.0, "hi": 1.0}, "out = jnp.arcsin(jnp.clip(z / 4, -1.0, 1.0))\n"),
    "jax maximum": ("clamp_argument", JAX, "p = mask + 1\nout = jnp.log(p)\n", {"target": "jnp.log(p)"}, {"lo": "tiny", "lo_value": 1e-38}, "p = mask + 1\nout = jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))\n"),
    "jax maximum of an expression": ("clamp_argument", JAX, "p = mask / 2\nout = jnp.log(1 - p)\n", {"target": "jnp.log(1 - p)"}, {"lo": "eps", "lo_value": 1e-7}, "p = mask / 2\nout = jnp.log(jnp.maximum(1 - p, 1e-7))\n"),
    "numpy minimum": ("clamp_argument", NUMPY, "out = np.exp(z)\n", {"target": "np.exp(z)"}, {"hi": 80.0}, "out = np.exp(np.minimum(z, 80.0))\n"),
    "keras maximum": ("clamp_argument", KERAS, "out = ops.log(mask + 1)\n", {"target": "ops.log(mask + 1)"}, {"lo": "tiny", "lo_value": 1e-38}, "out = ops.log(ops.maximum(mask + 1, 1e-38))\n"),
    "jax bounds that are there": ("clamp_argument", JAX, "out = jnp.log(jnp.clip(mask + 1, 0.0, 5.0))\n", {"target": "jnp.log(jnp.clip(mask + 1, 0.0, 5.0))"}, {"lo": 1e-6}, "out = jnp.log(jnp.clip(mask + 1, 1e-6, 5.0))\n"),
    "jax divisor": ("guard_divisor", JAX, "out = z / (mask + 1)\n", {"target": "z / (mask + 1)"}, {"mode": "clamp", "eps": 1e-8}, "out = z / jnp.maximum(mask + 1, 1e-8)\n"),
    "numpy divisor": ("guard_divisor", NUMPY, "out = mask / z\n", {"target": "mask / z"}, {"mode": "where", "eps": 1e-8}, "out = mask / np.where(z == 0, 1.0, z)\n"),
    "jax eps": ("add_epsilon", JAX, "out = jnp.sqrt(mask + z * z)\n", {"target": "jnp.sqrt(mask + z * z)"}, {"eps": 1e-12}, "out = jnp.sqrt(mask + z * z + 1e-12)\n"),
    "jax norm with eps": ("add_epsilon", JAX, "out = jnp.linalg.norm(z, axis=-1)\n", {"target": "jnp.linalg.norm(z, axis=-1)"}, {"eps": 1e-12}, "out = jnp.sqrt(jnp.sum(jnp.square(z), axis=-1) + 1e-12)\n"),
    "jax double where": ("safe_where", JAX, "out = jnp.where(z > 0, jnp.sqrt(z), 0.0)\n", {"target": "jnp.sqrt(z)", "where": "jnp.where(z > 0, jnp.sqrt(z), 0.0)"}, {"branch": "a", "safe": 1.0}, "out = jnp.where(z > 0, jnp.sqrt(jnp.where(z > 0, z, 1.0)), 0.0)\n"),
    "jax norm behind a where": ("safe_where", JAX, "r = jnp.linalg.norm(z, axis=-1)\nother = mask[:, 0] > 2\nout = jnp.where(other, r, 0.0)\n", {"target": "jnp.linalg.norm(z, axis=-1)", "where": "jnp.where(other, r, 0.0)"}, {"branch": "a", "safe": 1.0}, "r = jnp.linalg.norm(jnp.where((mask[:, 0] > 2)[..., None], z, 1.0), axis=-1)\nother = mask[:, 0] > 2\nout = jnp.where(other, r, 0.0)\n"),
    "numpy double where": ("safe_where", NUMPY, "out = np.where(z > 0, np.log(z), 0.0)\n", {"target": "np.log(z)", "where": "np.where(z > 0, np.log(z), 0.0)"}, {"branch": "a", "safe": 1.0}, "out = np.where(z > 0, np.log(np.where(z > 0, z, 1.0)), 0.0)\n"),
    "jax mask": ("masked_fill", JAX, "out = (mask * jnp.exp(z)).sum()\n", {"target": "mask * jnp.exp(z)"}, {"mask_side": "left"}, "out = jnp.where(mask != 0, jnp.exp(z), 0.0).sum()\n"),
    "numpy mask": ("masked_fill", NUMPY, "out = np.exp(z) * (mask > 0)\n", {"target": "np.exp(z) * (mask > 0)"}, {"mask_side": "right"}, "out = np.where(mask > 0, np.exp(z), 0.0)\n"),
    "jax rows without a score": ("guard_masked_rows", JAX, "out = jax.nn.softmax(z, axis=-1)\n", {"target": "jax.nn.softmax(z, axis=-1)"}, {}, "out = jax.nn.softmax(jnp.where(jnp.isneginf(z).all(axis=-1, keepdims=True), 0.0, z), axis=-1)\n"),
    "jax hypot": ("hypot", JAX, "out = jnp.sqrt(z**2 + mask**2)\n", {"target": "jnp.sqrt(z**2 + mask**2)"}, {}, "out = jnp.hypot(z, mask)\n"),
    "jax scaled norm": ("scaled_norm", JAX, "out = jnp.sqrt(jnp.sum(z**2, axis=-1))\n", {"target": "jnp.sqrt(jnp.sum(z**2, axis=-1))"}, {}, "scale = jnp.maximum(jnp.abs(jax.lax.stop_gradient(z)).max(axis=-1, keepdims=True), jnp.finfo(z.dtype).tiny)\nout = jnp.sqrt(jnp.square(z / scale).sum(axis=-1)) * scale.squeeze(-1)\n"),
    "numpy scaled norm": ("scaled_norm", NUMPY, "out = np.sqrt((z**2).sum())\n", {"target": "np.sqrt((z**2).sum())"}, {}, "scale = np.maximum(np.abs(z).max(), np.finfo(z.dtype).tiny)\nout = np.sqrt(np.square(z / scale).sum()) * scale\n"),
    "numpy expm1": ("expm1", NUMPY, "out = 1.0 - np.exp(-z)\n", {"target": "1.0 - np.exp(-z)"}, {}, "out = -np.expm1(-z)\n"),
    "jax expm1": ("expm1", JAX, "out = jnp.exp(z) - 1\n", {"target": "jnp.exp(z) - 1"}, {}, "out = jnp.expm1(z)\n"),
    "jax log1p": ("log1p", JAX, "out = jnp.log(1 + mask)\n", {"target": "jnp.log(1 + mask)"}, {}, "out = jnp.log1p(mask)\n"),
    "keras log1p": ("log1p", KERAS, "out = ops.log(1 + mask)\n", {"target": "ops.log(1 + mask)"}, {}, "out = ops.log1p(mask)\n"),
    "jax variance": ("two_pass_variance", JAX, "mean = z.mean(axis=0)\nout = (z * z).mean(axis=0) - mean * mean\n", {"target": "(z * z).mean(axis=0) - mean * mean"}, {}, "mean = z.mean(axis=0)\nout = jnp.var(z, axis=0)\n"),
    "numpy variance": ("two_pass_variance", NUMPY, "out = np.mean(z**2) - np.mean(z) ** 2\n", {"target": "np.mean(z**2) - np.mean(z) ** 2"}, {}, "out = np.var(z)\n"),
    "jax half angle": ("half_angle", JAX, "out = 1 - jnp.cos(z)\n", {"target": "1 - jnp.cos(z)"}, {}, "out = 2 * jnp.sin(z / 2) ** 2\n"),
    "jax product of probabilities": ("log_space_product", JAX, "p = mask + 1\nout = jnp.log(jnp.prod(p, axis=-1))\n", {"target": "jnp.log(jnp.prod(p, axis=-1))"}, {}, "p = mask + 1\nout = jnp.sum(jnp.log(p), axis=-1)\n"),
    "jax xlogy": ("xlogy", JAX, "p = mask + 1\nout = p * jnp.log(p)\n", {"target": "p * jnp.log(p)"}, {}, "p = mask + 1\nout = jax.scipy.special.xlogy(p, p)\n"),
    "jax float32": ("float32", JAX, "h = z.astype(jnp.float16)\nout = h @ h.T\n", {"target": "h @ h.T"}, {}, "h = z.astype(jnp.float16)\nout = h.astype(jnp.float32) @ h.T.astype(jnp.float32)\n"),
    "keras float32": ("float32", KERAS, "h = ops.cast(z, 'float16')\nout = ops.sum(h)\n", {"target": "ops.sum(h)"}, {}, "h = ops.cast(z, 'float16')\nout = ops.sum(ops.cast(h, \"float32\"))\n"),
}  # fmt: skip

# what changes the numbers, or cannot run alone
TEXTS: dict[str, tuple[str, str, str, dict[str, str], dict[str, Any], str]] = {
    "uint8 difference": ("widen_integer", "import numpy as np\n", "def f(cur, prev):\n    return cur - prev\n", {"target": "cur - prev"}, {"narrow": "uint8", "op": "sub"}, "def f(cur, prev):\n    return cur.astype(np.int16) - prev.astype(np.int16)\n"),
    "int32 product": ("widen_integer", "import numpy as np\n", "def f(a, b):\n    return a * b\n", {"target": "a * b"}, {"narrow": "int32", "op": "mul"}, "def f(a, b):\n    return a.astype(np.int64) * b.astype(np.int64)\n"),
    "uint8 in jax": ("widen_integer", "import jax.numpy as jnp\n", "def f(a, b):\n    return a - b\n", {"target": "a - b"}, {"narrow": "uint8", "op": "sub"}, "def f(a, b):\n    return a.astype(jnp.int16) - b.astype(jnp.int16)\n"),
    "optax position": ("learning_rate", "import optax\n", "tx = optax.adam(1e-2)\n", {"target": "optax.adam(1e-2)"}, {"factor": 0.1}, "tx = optax.adam(1e-3)\n"),
    "optax keyword": ("learning_rate", "import optax\n", "tx = optax.sgd(learning_rate=0.5, momentum=0.9)\n", {"target": "optax.sgd(learning_rate=0.5, momentum=0.9)"}, {"factor": 0.1}, "tx = optax.sgd(learning_rate=0.05, momentum=0.9)\n"),
    "optax where it is applied": ("learning_rate", "import optax\n", "RATE = 0.5\ntx = optax.sgd(RATE)\ndef step(p, u):\n    return optax.apply_updates(p, u)\n", {"target": "optax.apply_updates(p, u)"}, {"factor": 0.1}, "RATE = 0.05\ntx = optax.sgd(RATE)\ndef step(p, u):\n    return optax.apply_updates(p, u)\n"),
    "optax schedule": ("learning_rate", "import optax\n", "plan = optax.exponential_decay(0.5, 100, 0.9)\ntx = optax.sgd(plan)\n", {"target": "optax.sgd(plan)"}, {"factor": 0.1}, "plan = optax.exponential_decay(0.05, 100, 0.9)\ntx = optax.sgd(plan)\n"),
    "a default": ("learning_rate", "import jax\n", "def update(p, g, lr=0.4):\n    return jax.tree.map(lambda p, g: p - lr * g, p, g)\n", {"target": "p - lr * g"}, {"factor": 0.1}, "def update(p, g, lr=0.04):\n    return jax.tree.map(lambda p, g: p - lr * g, p, g)\n"),
    "the whole map": ("learning_rate", "import jax\n", "LR = 0.4\ndef update(p, g):\n    return jax.tree.map(lambda p, g: p - LR * g, p, g)\n", {"target": "jax.tree.map(lambda p, g: p - LR * g, p, g)"}, {"factor": 0.1}, "LR = 0.04\ndef update(p, g):\n    return jax.tree.map(lambda p, g: p - LR * g, p, g)\n"),
    "keras optimizer": ("learning_rate", "import keras\n", "def f(model, x):\n    model.compile(optimizer=keras.optimizers.SGD(0.05), loss='mse')\n    model.fit(x, x)\n", {"target": "model.fit(x, x)"}, {"factor": 0.1}, "def f(model, x):\n    model.compile(optimizer=keras.optimizers.SGD(0.005), loss='mse')\n    model.fit(x, x)\n"),
    "keras activation": ("no_activation", "import keras\nfrom keras import layers\n", "def f(h):\n    return layers.Dense(3, activation='softmax')(h)\n", {"target": "layers.Dense(3, activation='softmax')(h)"}, {}, "def f(h):\n    return layers.Dense(3)(h)\n"),
    "keras softmax layer": ("no_activation", "import keras\nfrom keras import layers\n", "model = keras.Sequential([layers.Dense(3), layers.Softmax()])\n", {"target": "keras.Sequential([layers.Dense(3), layers.Softmax()])"}, {}, "model = keras.Sequential([layers.Dense(3)])\n"),
    "jax softmax before the loss": ("no_activation", "import jax\n", "def f(x):\n    return jax.nn.softmax(x, axis=-1)\n", {"target": "jax.nn.softmax(x, axis=-1)"}, {}, "def f(x):\n    return x\n"),
    "optax clipping": ("clip_gradients", "import optax\n", "tx = optax.adam(1e-3)\n", {"target": "tx = optax.adam(1e-3)"}, {}, "tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))\n"),
    "keras clipping": ("clip_gradients", "import keras\n", "opt = keras.optimizers.Adam(1e-3)\n", {"target": "opt = keras.optimizers.Adam(1e-3)"}, {}, "opt = keras.optimizers.Adam(1e-3, clipnorm=1.0)\n"),
    "optax clip by value": ("clip_by_norm", "import optax\n", "tx = optax.chain(optax.clip(0.1), optax.sgd(0.1))\n", {"target": "optax.clip(0.1)"}, {"limit": 1.0}, "tx = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))\n"),
    "jax float16": ("bfloat16_autocast", "import jax.numpy as jnp\nfrom flax import linen as nn\n", "layer = nn.Dense(4, dtype=jnp.float16, param_dtype=jnp.float16)\n", {"target": "nn.Dense(4, dtype=jnp.float16, param_dtype=jnp.float16)"}, {}, "layer = nn.Dense(4, dtype=jnp.bfloat16, param_dtype=jnp.bfloat16)\n"),
    "keras policy": ("bfloat16_autocast", "import keras\n", "keras.config.set_dtype_policy('mixed_float16')\n", {"target": "keras.config.set_dtype_policy('mixed_float16')"}, {}, 'keras.config.set_dtype_policy("mixed_bfloat16")\n'),
    "jax initial weights": ("initial_scale", "import jax\n", "w = jax.random.normal(k, (4, 4))\n", {"target": "jax.random.normal(k, (4, 4))"}, {"gain": 4.0}, "w = 0.25 * jax.random.normal(k, (4, 4))\n"),
    "numpy rows": ("drop_rows", "import numpy as np\n", "x = np.loadtxt('table')\n", {"target": "x = np.loadtxt('table')"}, {}, "x = np.loadtxt('table')\nx = x[np.isfinite(x).all(axis=1)]\n"),
    "jax rows": ("drop_rows", "import jax.numpy as jnp\n", "x = jnp.array(table)\n", {"target": "x = jnp.array(table)"}, {}, "x = jnp.array(table)\nx = x[jnp.isfinite(x).all(axis=1)]\n"),
    "numpy memory": ("zeros", "import numpy as np\n", "x = np.empty(3)\n", {"target": "np.empty(3)"}, {}, "x = np.zeros(3)\n"),
}  # fmt: skip


def spoken(folder: Path, case: tuple[str, str, str, dict[str, str], dict[str, Any], str]) -> str:
    form, head, body, roles, numbers, _ = case
    made = Case(folder, head + body)
    return made.fixed(made.repair(form, numbers, **roles)).removeprefix(head)


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_the_same_numbers_in_the_files_own_words(case, tmp_path: Path):
    text = spoken(tmp_path, case)
    assert text == case[-1]
    assert np.allclose(value(case[1] + case[2]), value(case[1] + text), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("case", TEXTS.values(), ids=TEXTS)
def test_settings_and_types_in_the_files_own_words(case, tmp_path: Path):
    text = spoken(tmp_path, case)
    assert text == case[-1]


def test_a_repair_that_numpy_cannot_say_is_refused(tmp_path: Path):
    case = Case(tmp_path, "import numpy as np\nz = np.ones((2, 3))\nout = np.log(np.exp(z @ z.T) / np.exp(z @ z.T).sum(1, keepdims=True))\n")
    assert case.refused(case.repair("log_softmax", {}, target="np.log(np.exp(z @ z.T) / np.exp(z @ z.T).sum(1, keepdims=True))"))


def value(code: str) -> np.ndarray:
    os.environ.setdefault("KERAS_BACKEND", "jax")
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "model.py", "exec"), space)
    return np.asarray(space["out"])
