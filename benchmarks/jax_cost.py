"""What it costs to look into a JAX step: python benchmarks/jax_cost.py

Interpreted with its float64 shadow: a training step of about 1,000 equations, in a fresh process (cold), CPU seconds and as a ratio to
the jitted step. Memory: the peak of a program with 11 million parameters under Adam, watched and analysed, over its peak alone.
docs/benchmarks.md holds the last figures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP = """
import jax, jax.numpy as jnp
LAYERS = 40
def loss_fn(layers, x):
    for w, b in layers:
        h = jax.nn.gelu(x @ w + b)
        x = x + (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
    return jnp.mean(x * x)
@jax.jit
def step(layers, x):
    loss, g = jax.value_and_grad(loss_fn)(layers, x)
    return jax.tree.map(lambda p, d: p - 1e-3 * d, layers, g), loss
keys = jax.random.split(jax.random.key(0), LAYERS)
layers = [(jax.random.normal(k, (128, 128)) * 0.05, jnp.zeros(128)) for k in keys]
x = jax.random.normal(jax.random.key(1), (256, 128))
"""
MEASURED = """
import sys, time
from pathlib import Path
import jax
from numdebug.observe.jax.observer import JaxObserver
class Nothing:
    def add(self, *a, **k): pass
observer = JaxObserver(Path.cwd(), Nothing(), {})
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), globals())
layers, loss = step(layers, x)
observer.finish()
begin = time.process_time()
run = observer.run({})
interpreted = time.process_time() - begin
run.errors([s.value for s in run.consumed()], 0.1)
shadowed = time.process_time() - begin
for _ in range(3):
    jax.block_until_ready(step(layers, x))
begin = time.process_time()
for _ in range(10):
    jax.block_until_ready(step(layers, x))
jitted = (time.process_time() - begin) / 10
print(len(run.recording.ops), interpreted, shadowed, jitted)
"""
BIG = """
import jax, jax.numpy as jnp, optax
sizes = [784, 2700, 2700, 600, 10]
keys = jax.random.split(jax.random.key(0), len(sizes))
params = [jax.random.normal(k, (a, b)) * a**-0.5 for k, a, b in zip(keys, sizes, sizes[1:])]
tx = optax.adam(1e-3)
state = tx.init(params)
x = jax.random.normal(keys[0], (64, 784))
y = jax.random.randint(keys[1], (64,), 0, 10)
def loss_fn(params):
    h = x
    for w in params[:-1]:
        h = jax.nn.relu(h @ w)
    return optax.softmax_cross_entropy_with_integer_labels(h @ params[-1], y).mean()
@jax.jit
def step(params, state):
    loss, g = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(g, state)
    return optax.apply_updates(params, updates), state, loss
for i in range(6):
    params, state, loss = step(params, state)
print(sum(p.size for p in params), float(loss))
"""


def _peak(command: list[str], cwd: str) -> float:
    """MiB: of the largest process below this one."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL);"
    code += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", code, *command], cwd=cwd, capture_output=True, text=True, check=True)
    return int(done.stdout) / (1 if sys.platform == "darwin" else 1024) / (1024 if sys.platform == "darwin" else 1)


def main() -> None:
    """Print the figures."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        step, big = Path(folder) / "step.py", Path(folder) / "big.py"
        step.write_text(STEP)
        big.write_text(BIG)
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-c", MEASURED, str(step)], cwd=folder, capture_output=True, text=True, check=True)
        ops, interpreted, shadowed, jitted = map(float, done.stdout.split())
        print(f"{ops:.0f} operations: interpreted {interpreted:.2f} s, with shadow {shadowed:.2f} s CPU (goal: 3 for 1,000)")
        print(f"{shadowed / jitted:.0f} jitted steps of {jitted:.4f} s (goal 60); wall {time.monotonic() - begin:.1f} s, all in all")
        alone = _peak([sys.executable, str(big)], folder)
        watched = _peak([sys.executable, "-m", "numdebug", "diagnose", str(big)], folder)
        ratio = f"{watched / alone:.2f} x, goal 4"
        print(f"11 million parameters, Adam: {alone:.0f} MiB alone, {watched:.0f} MiB watched and analysed ({ratio})")


if __name__ == "__main__":
    main()
