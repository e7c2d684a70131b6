"""Keras 3 on both of its backends: what is seen, which line is named, and that watching changes nothing."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from numdebug.diagnosing import Request, diagnose

MISSING = [name for name in ("keras", "jax", "torch") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}")  # not imported here: the program chooses the backend

both = pytest.mark.parametrize("backend", ["jax", "torch"])
HEAD = """
import os
os.environ["KERAS_BACKEND"] = "{backend}"
import keras
import numpy as np
from keras import layers, ops
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
y = rng.integers(0, 3, 120)
x = (rng.normal(0, 2, (3, 4))[y] + rng.normal(0, 0.5, (120, 4))).astype("float32")
"""

CLASSIFIER = """
model = keras.Sequential([
    keras.Input((4,)),
    layers.Dense(16, activation="relu"),
    layers.Dense(3, activation="softmax"),  # softmax
])
model.compile(
    optimizer=keras.optimizers.Adam(5e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),  # loss
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=30, epochs=8, verbose=0).history
print(history["loss"], model.get_layer("dense").name)  # a second run gives the same names
"""

DIVERGES = """
inputs = keras.Input((4,))
model = keras.Model(inputs, layers.Dense(1)(layers.Dense(8)(inputs)))
model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")  # rate
model.fit(x * 10, y.astype("float32"), epochs=6, batch_size=30, verbose=0)
"""

OWN_LAYER = """
class Ratio(layers.Layer):
    def call(self, values):
        spread = ops.max(ops.abs(values - values[:, :1]), axis=-1, keepdims=True)
        return values / spread  # here

x[5] = 1.0
model = keras.Sequential([keras.Input((4,)), Ratio(), layers.Dense(3)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
for start in range(0, 120, 30):
    model.train_on_batch(x[start : start + 30], y[start : start + 30])
"""

HEALTHY = {
    "fit": CLASSIFIER.replace('activation="softmax"', "name='head'").replace("# softmax", ""),
    "predicts": """
model = keras.Sequential([keras.Input((4,)), layers.Dense(16, activation="tanh"), layers.Dense(3, activation="softmax")])
print(model.predict(x, verbose=0).sum())
""",
    "scales its loss": """
keras.mixed_precision.set_dtype_policy("mixed_float16")
model = keras.Sequential([keras.Input((4,)), layers.Dense(16, activation="relu"), layers.BatchNormalization(),
                          layers.Dense(3, dtype="float32")])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=3, batch_size=30, verbose=0)
print(model.evaluate(x, y, verbose=0))
""",
}
TRAIN_STEP = {
    "torch": """
class Own(keras.Model):
    def train_step(self, data):
        given, wanted = data
        self.zero_grad()
        loss = self.compute_loss(y=wanted, y_pred=self(given, training=True))
        loss.backward()
        variables = self.trainable_weights
        self.optimizer.apply([v.value.grad for v in variables], variables)
        return {"loss": loss}
""",
    "jax": """
class Own(keras.Model):
    pass
""",
}


def program(tmp_path: Path, backend: str, body: str) -> Path:
    file = tmp_path / "model.py"
    file.write_text(HEAD.format(backend=backend) + dedent(body))
    return file


def line(file: Path, mark: str) -> int:
    return next(n for n, text in enumerate(file.read_text().splitlines(), 1) if text.endswith("# " + mark))


def said(file: Path):
    out = diagnose(Request(str(file)))
    return out, {d.bug: d for d in out.report.diagnoses if d.severity != "note"}


@both
def test_probabilities_in_a_loss_on_logits(tmp_path, backend):
    file = program(tmp_path, backend, CLASSIFIER)
    out, found = said(file)
    bug = found["double-softmax"]
    assert list(found) == ["double-softmax"]
    assert bug.site.line in (line(file, "softmax"), line(file, "loss"))
    assert bug.confirmed == "yes" and bug.fix.diff
    assert out.report.program.observed.steps == 32


@both
def test_rate_of_the_optimizer(tmp_path, backend):
    file = program(tmp_path, backend, DIVERGES)
    _, found = said(file)
    bug = found["learning-rate-divergence"]
    assert bug.site.line == line(file, "rate") and bug.confirmed == "yes"


@both
def test_line_of_the_programs_own_layer(tmp_path, backend):
    file = program(tmp_path, backend, OWN_LAYER)
    _, found = said(file)
    assert found["division-by-zero"].site.line == line(file, "here")
    assert found["division-by-zero"].site.module.endswith("ratio")


@both
@pytest.mark.parametrize("name", list(HEALTHY))
def test_healthy(tmp_path, backend, name):
    out, found = said(program(tmp_path, backend, HEALTHY[name]))
    assert not found and out.exit_code == 0, out.report.verdict
    assert out.report.program.observed.ops > 0
    assert not [n for n in out.report.notes if "other threads" in n or "error of its own" in n]


def test_a_training_step_of_ones_own(tmp_path):
    body = TRAIN_STEP["torch"] + """
inputs = keras.Input((4,))
model = Own(inputs, layers.Dense(3, activation="softmax")(inputs))  # softmax
model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))  # loss
model.fit(x, y, epochs=6, batch_size=30, verbose=0)
"""
    file = program(tmp_path, "torch", body)
    out, found = said(file)
    assert found["double-softmax"].site.line in (line(file, "softmax"), line(file, "loss"))
    assert out.report.program.observed.steps == 24


# -- the observer's own records ------------------------------------------------------------------------------------

WATCHED = """
import sys
sys.path.insert(0, {debugger!r})
from pathlib import Path
from numdebug.observe import watch
from numdebug.journal import Journal
watcher = watch(Path({folder!r}), Journal(Path({folder!r}) / "journal"), {{}})
"""

TRAINED = """
inner = keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu", name="deep"), layers.Dropout(0.2)], name="block")
model = keras.Sequential([keras.Input((4,)), inner, layers.BatchNormalization(), layers.Dense(3, name="head")])
model.compile(keras.optimizers.Adam(0.01, clipnorm=1.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
losses = [float(model.train_on_batch(x[s : s + 30], y[s : s + 30])[0]) for s in range(0, 30, 30)]
history = model.fit(x, y, epochs=2, batch_size=30, verbose=0).history
config = [layer.get_config() for layer in model.layers], model.optimizer.get_config(), keras.losses.get("mse")
arrays = [*model.get_weights(), model.predict(x, verbose=0), np.array(history["loss"])]
print("LOSSES", losses)
print("DIGEST", __import__("hashlib").sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest(), config)
"""


@cache
def ran(backend: str, folder: str, watched: bool, more: str = "") -> str:
    before = WATCHED.format(debugger=str(Path(__file__).parents[1] / "debugger"), folder=folder) if watched else ""
    file = Path(folder) / f"{'watched' if watched else 'plain'}.py"
    file.write_text(before + HEAD.format(backend=backend) + TRAINED + more)
    result = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@both
def test_watching_changes_nothing(tmp_path, backend):
    plain = [text for text in ran(backend, str(tmp_path), False).splitlines() if text.startswith(("LOSSES", "DIGEST"))]
    watched = [text for text in ran(backend, str(tmp_path), True).splitlines() if text.startswith(("LOSSES", "DIGEST"))]
    assert [t.split(" at 0x")[0] for t in plain] == [t.split(" at 0x")[0] for t in watched]


ASKED = """
watcher.finish()
run = watcher.run(keras.backend.backend())
recording = run.recording
print("FRAMEWORKS", sorted(watcher.observers))
print("STEPS", len(recording.steps), recording.steps[0].loss - losses[0] < 1e-6)
print("WEIGHTS", sorted({g.name for g in run.gradients()}))
print("MODULES", sorted({op.site.module for op in recording.ops if op.site and op.site.module and op.name in ("relu", "matmul")}))
dot = next(op for op in recording.ops if op.name == "relu" and op.phase == "forward")
print("SITE", dot.site.line, [f.line for f in run.frames(dot)], run.made(dot).line)
(loss,) = run.losses()
print("LOSS", abs(float(run.array(loss)) - recording.steps[-1].loss) < 1e-5, loss.shape)
print("OPTIMIZER", recording.places["optimizer"].line)
"""


@both
def test_what_is_recorded(tmp_path, backend):
    out = dict(text.split(" ", 1) for text in ran(backend, str(tmp_path), True, ASKED).splitlines() if text.split(" ")[0].isupper())
    source = (tmp_path / "watched.py").read_text().splitlines()
    made = next(n for n, text in enumerate(source, 1) if text.startswith("inner ="))
    called = next(n for n, text in enumerate(source, 1) if text.startswith("history ="))
    assert out["FRAMEWORKS"] == f"['{backend}']"
    assert out["STEPS"] == "9 True"
    assert all(name in out["WEIGHTS"] for name in ("head/kernel", "deep/bias", "batch_normalization/gamma"))
    assert "deep" in out["MODULES"] and "head" in out["MODULES"]
    assert out["SITE"] == f"{made} [{called}, {made}] {made}"
    assert out["LOSS"] == "True ()"
    assert int(out["OPTIMIZER"]) == next(n for n, text in enumerate(source, 1) if text.startswith("model.compile"))
