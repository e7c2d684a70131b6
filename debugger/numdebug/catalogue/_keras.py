"""The bugs of the catalogue as Keras programs."""

from __future__ import annotations

from numdebug.catalogue._pairs import Pair, pair

_HEAD = """\
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np
from keras import ops

keras.utils.set_random_seed(0)
"""

PROGRAMS: dict[str, Pair] = {
    "train-eval-mismatch": pair(
        _HEAD
        + """\
x = np.random.normal(size=(200, 8)).astype("float32")
y = (x[:, 0] > 0).astype(int)
layers = [keras.layers.Dense(32, activation="tanh"), keras.layers.Dropout(0.5), keras.layers.Dense(2)]
model = keras.Sequential([keras.Input((8,)), *layers])
model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x[:150], y[:150], batch_size=50, epochs=5, verbose=0)
guess = ops.argmax(model(x[150:], training=True), axis=1)  # here
print((np.asarray(guess) == y[150:]).mean())
""",
        ("training=True", "training=False"),
    ),
    "double-softmax": pair(
        _HEAD
        + """\
x = np.random.normal(size=(200, 6)).astype("float32")
y = x[:, :4].argmax(axis=1)
inputs = keras.Input((6,))
outputs = keras.layers.Dense(4, activation="softmax")(inputs)  # here
model = keras.Model(inputs, outputs)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.SGD(0.5), loss=loss)
model.fit(x, y, batch_size=200, epochs=40, verbose=0)
""",
        (', activation="softmax"', ""),
    ),
    "learning-rate-divergence": pair(
        _HEAD
        + """\
area = np.random.uniform(size=(200, 1)).astype("float32") * 100
price = 3 * area + 20 + np.random.normal(size=(200, 1)).astype("float32")
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")  # here
model.fit(area, price, batch_size=200, epochs=60, verbose=0)
""",
        ("SGD(0.01)", "SGD(1e-4)"),
    ),
    "log-of-softmax": pair(
        _HEAD
        + """\
words = np.random.normal(size=(48, 10)).astype("float32") * 300
topic = np.eye(5, dtype="float32")[np.random.randint(0, 5, 48)]


def nll(target, logits):
    p = ops.softmax(logits, axis=-1)
    return -ops.sum(ops.log(p) * target, axis=-1)  # here


model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(5)])
model.compile(optimizer=keras.optimizers.SGD(0.01), loss=nll)
model.fit(words, topic, batch_size=48, epochs=4, verbose=0)
""",
        ("p = ops.softmax(", "log_p = ops.log_softmax("),
        ("ops.log(p)", "log_p"),
    ),
}
