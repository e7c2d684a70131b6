# ruff: noqa: E501  (a program a line)
"""numdebug beside JAX's own checks on a seeded set: python benchmarks/jax_tools.py [--json FILE]

Every hazard stands once inside every transformation that it can stand in; the benign programs hold infinities and NaN that are meant.
Each tool runs each program in a process of its own. Right: it names the hazard's line (for JAX's tools the innermost line of the
program in what they raise). A tool that stops a benign program, or reports an error in it, has raised a false alarm.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n\n"
# name -> (source of `hazard(x)`, the argument, whether only its derivative fails)
HAZARDS = {
    "softmax by hand": ("def hazard(x):\n    e = jnp.exp(x)  # here\n    p = e / e.sum()  # here\n    return -jnp.sum(p * jnp.arange(4.0))\n", "[1.0, 50.0, 120.0, 3.0]", False),
    "log of a softmax": ("def hazard(x):\n    p = jax.nn.softmax(x)\n    return -jnp.log(p[0])  # here\n", "[-150.0, 2.0, 40.0, 1.0]", False),
    "zero norm": ("def hazard(x):\n    y = x - x\n    return jnp.sum(y / jnp.linalg.norm(y))  # here\n", "[1.0, 2.0, 3.0, 4.0]", False),
    "where trap": ("def hazard(x):\n    root = jnp.sqrt(x)  # here\n    return jnp.sum(jnp.where(x > 0, root, 0.0))\n", "[0.0, 1.0, 4.0, 9.0]", True),
}  # fmt: skip
# name -> (source of `step(x)`, whether it is differentiated)
TRANSFORMS = {
    "jit": ("@jax.jit\ndef step(x):\n    return hazard(x)\n", False),
    "vmap": ("def step(x):\n    return jax.vmap(hazard)(jnp.stack([x, x + 1.0 - 1.0])).sum()\n", False),
    "scan": ("@jax.jit\ndef step(x):\n    def body(c, t):\n        return c + hazard(x * t), c\n    return lax.scan(body, 0.0, jnp.ones(3))[0]\n", False),
    "while": ("@jax.jit\ndef step(x):\n    def body(c):\n        return c[0] + 1, c[1] + hazard(x)\n    return lax.while_loop(lambda c: c[0] < 2, body, (0, 0.0))[1]\n", False),
    "cond": ("@jax.jit\ndef step(x):\n    return lax.cond(x[1] > -1.0, hazard, jnp.sum, x)\n", False),
    "remat": ("@jax.jit\ndef step(x):\n    return jax.grad(jax.checkpoint(lambda y: hazard(y) * 2.0))(x).sum()\n", True),
    "grad": ("@jax.jit\ndef step(x):\n    loss, g = jax.value_and_grad(hazard)(x)\n    return loss + g.sum()\n", True),
    "custom_vjp": ("@jax.custom_vjp\ndef twice(y):\n    return 2.0 * y\n\n\ntwice.defvjp(lambda y: (2.0 * y, None), lambda _, g: (2.0 * g,))\n\n\n@jax.jit\ndef step(x):\n    return jax.grad(lambda y: twice(hazard(y)))(x).sum()\n", True),
}  # fmt: skip
BENIGN = {
    "mask of -inf": "@jax.jit\ndef step(x):\n    return jax.nn.softmax(jnp.where(jnp.arange(4) < 3, x, -jnp.inf)).max()\n",
    "minimum from inf": "@jax.jit\ndef step(x):\n    return lax.scan(lambda c, t: (jnp.minimum(c, t), c), jnp.inf, x)[0]\n",
    "double where": "@jax.jit\ndef step(x):\n    def f(y):\n        safe = jnp.where(y > 2, y - 2, 1.0)\n        return jnp.where(y > 2, jnp.log(safe), 0.0).sum()\n    return jax.grad(f)(x).sum()\n",
    "dropped branch": "@jax.jit\ndef step(x):\n    y = x - 2.0\n    return jnp.where(y == 0, 0.0, 1.0 / y).sum()\n",
    "missing data": "@jax.jit\ndef step(x):\n    return jnp.nanmean(x.at[1].set(jnp.nan))\n",
    "infinite padding": "@jax.jit\ndef step(x):\n    table = jnp.full(6, jnp.inf).at[1:5].set(x)\n    return lax.fori_loop(0, 3, lambda i, t: jnp.minimum(t, jnp.roll(t, 1) + 1.0), table)[1:5].sum()\n",
    "log of -inf weight": "@jax.jit\ndef step(x):\n    w = jnp.array([1.0, 0.0, 2.0, 1.0])\n    return jax.nn.logsumexp(x, b=w)\n",
    "nan_to_num": "@jax.jit\ndef step(x):\n    return jnp.nan_to_num(x / (x - 1.0), posinf=0.0).sum()\n",
    "argmax over -inf": "@jax.jit\ndef step(x):\n    return jnp.argmax(jnp.where(x > 1.5, x, -jnp.inf)) * 1.0\n",
    "isfinite guard": "@jax.jit\ndef step(x):\n    y = jnp.exp(100.0 * x)\n    return jnp.where(jnp.isfinite(y), y, 1.0).min()\n",
    "cond that avoids it": "@jax.jit\ndef step(x):\n    return lax.cond(x[0] > 5.0, lambda v: jnp.log(v - v).sum(), jnp.sum, x)\n",
    "clipped by tanh": "@jax.jit\ndef step(x):\n    return jnp.tanh(jnp.exp(50.0 * x)).sum()\n",
    "best so far": "@jax.jit\ndef step(x):\n    def body(c):\n        return c[0] + 1, jnp.minimum(c[1], x[c[0]])\n    return lax.while_loop(lambda c: c[0] < 4, body, (0, jnp.inf))[1]\n",
}  # fmt: skip
TAIL = "\n\nx = jnp.array({x})\nprint(step(x))\n"
CHECKIFY = """

from jax.experimental import checkify
err, _ = checkify.checkify(step, errors=checkify.float_checks)(x)
err.throw()
"""
TOOLS = ("numdebug", "debug_nans", "debug_nans + debug_infs", "checkify")


def programs() -> dict[str, tuple[str, set[int]]]:
    """By name: the source, and the lines that are right answers (none: benign)."""
    found: dict[str, tuple[str, set[int]]] = {}
    for hazard, (body, x, derivative) in HAZARDS.items():
        for name, (wrapper, differentiates) in TRANSFORMS.items():
            if derivative and not differentiates:
                continue
            text = f"{HEAD}\n{body}\n\n{wrapper}{TAIL.format(x=x)}"
            lines = {n for n, line in enumerate(text.splitlines(), 1) if "# here" in line}
            found[f"{hazard} in {name}"] = (text.replace("  # here", ""), lines)
    for name, wrapper in BENIGN.items():
        found[name] = (f"{HEAD}\n{wrapper}{TAIL.format(x='[1.0, 2.0, 3.0, 4.0]')}", set())
    return found


def ask(tool: str, text: str) -> tuple[int | None, bool, float]:
    """(line that the tool names, whether it complained at all, seconds)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.py"
        file.write_text(text + (CHECKIFY if tool == "checkify" else ""))
        begin = time.monotonic()
        if tool == "numdebug":
            report = Path(folder) / "report.json"
            command = [sys.executable, "-m", "numdebug", "diagnose", str(file), "--format", "json", "-o", str(report), "--no-rerun"]
            subprocess.run(command, capture_output=True, text=True, check=False)
            errors = [d for d in json.loads(report.read_text())["diagnoses"] if d["severity"] == "error"]
            line = errors[0]["site"]["line"] if errors and errors[0]["site"] else None
            return line, bool(errors), time.monotonic() - begin
        env = dict(os.environ)
        if "nans" in tool:
            env["JAX_DEBUG_NANS"] = "True"
        if "infs" in tool:
            env["JAX_DEBUG_INFS"] = "True"
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, env=env)
        if done.returncode == 0:
            return None, False, time.monotonic() - begin
        own = len(text.splitlines())
        named = [int(n) for n in re.findall(rf"{re.escape(str(file))}\"?[:,](?: line )?(\d+)", done.stderr) if int(n) <= own]
        return (named[-1] if named else None), True, time.monotonic() - begin


STEP = """
import sys, time
from pathlib import Path
import jax
mode = sys.argv[1]
if "nans" in mode:
    jax.config.update("jax_debug_nans", True)
if "infs" in mode:
    jax.config.update("jax_debug_infs", True)
if mode == "numdebug":
    from numdebug.observe.jax.observer import JaxObserver
    class Nothing:
        def add(self, *a, **k): pass
    observer = JaxObserver(Path.cwd(), Nothing(), {})
exec(compile(open(sys.argv[2]).read(), sys.argv[2], "exec"), globals())
call = step
if mode == "checkify":
    from jax.experimental import checkify
    checked = jax.jit(checkify.checkify(step.__wrapped__, errors=checkify.float_checks))
    def call(*args):
        error, out = checked(*args)
        error.throw()
        return out
begin = time.perf_counter()
jax.block_until_ready(call(layers, x))
first = time.perf_counter() - begin
times = []
for _ in range(12):
    begin = time.perf_counter()
    jax.block_until_ready(call(layers, x))
    times.append(time.perf_counter() - begin)
print(first, min(times))
"""


def cost() -> None:
    """Of a training step of 2,768 equations: seconds to compile it (the first call), and to run it."""
    from jax_cost import STEP as program

    print("\n| | first call, s | a step, ms |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "step.py"
        file.write_text(program)
        for mode in ("alone", *TOOLS):
            done = subprocess.run([sys.executable, "-c", STEP, mode, str(file)], capture_output=True, text=True, check=True)
            first, step = map(float, done.stdout.split())
            print(f"| {mode} | {first:.2f} | {1000 * step:.1f} |", flush=True)


def main() -> None:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seeded = programs()
    buggy = {name: p for name, p in seeded.items() if p[1]}
    benign = {name: p for name, p in seeded.items() if not p[1]}
    print(f"{len(buggy)} buggy, {len(benign)} benign\n\n| tool | right line | wrong line | missed | false alarms | seconds a program |\n|---|---|---|---|---|---|")
    rows = {}
    for tool in TOOLS:
        answers = {name: ask(tool, text) for name, (text, _) in seeded.items()}
        right = sum(answers[n][0] in lines for n, (_, lines) in buggy.items())
        missed = sum(not answers[n][1] for n in buggy)
        alarms = sum(answers[n][1] for n in benign)
        seconds = sorted(a[2] for a in answers.values())[len(answers) // 2]
        rows[tool] = {n: a[0] for n, a in answers.items()}
        print(f"| {tool} | {right} | {len(buggy) - right - missed} | {missed} | {alarms} | {seconds:.1f} |", flush=True)
    cost()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
