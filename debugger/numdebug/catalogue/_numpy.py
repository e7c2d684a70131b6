"""The bugs of the catalogue as NumPy programs, where they exist without a gradient."""

from __future__ import annotations

from numdebug.catalogue._pairs import Pair, pair

PROGRAMS: dict[str, Pair] = {
    "softmax-overflow": pair(
        """\
import numpy as np

rng = np.random.default_rng(0)
keys = rng.normal(size=(10, 32))
values = rng.normal(size=(10, 4))
queries = rng.normal(size=(5, 32)) * 60


def attend(q):
    weight = np.exp(q @ keys.T)  # here
    return weight / weight.sum(axis=1, keepdims=True) @ values


print(attend(queries).mean())
""",
        ("np.exp(q @ keys.T)", "np.exp(q @ keys.T - (q @ keys.T).max(axis=1, keepdims=True))"),
    ),
    "logsumexp-overflow": pair(
        """\
import numpy as np

rng = np.random.default_rng(0)
energy = rng.normal(size=64)
temperature = 2e-3


def free_energy(energy):
    return np.log(np.exp(-energy / temperature).sum())  # here


print(temperature * free_energy(energy))
""",
        ("np.log(np.exp(-energy / temperature).sum())", "np.logaddexp.reduce(-energy / temperature)"),
    ),
    "softplus-overflow": pair(
        """\
import numpy as np

x = np.linspace(-800, 800, 50)


def positive(x):
    return np.log(1 + np.exp(x))  # here


print(positive(x).mean())
""",
        ("np.log(1 + np.exp(x))", "np.logaddexp(0, x)"),
    ),
    "log-of-zero": pair(
        """\
import numpy as np

counts = np.array([[12.0, 0.0, 3.0, 5.0], [4.0, 9.0, 0.0, 7.0]])


def entropy(counts):
    p = counts / counts.sum(axis=-1, keepdims=True)
    return -(p * np.log(p)).sum(axis=-1)  # here


print(entropy(counts).mean())
""",
        ("np.log(p)", "np.log(np.where(p > 0, p, 1.0))"),
    ),
    "division-by-zero": pair(
        """\
import numpy as np

table = np.random.default_rng(0).normal(size=(40, 5))
table[:, 3] = 7.0


def standardise(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)  # here


print(np.abs(standardise(table)).max(axis=0))
""",
        ("x.std(axis=0)", "np.maximum(x.std(axis=0), 1e-9)"),
    ),
    "domain-error": pair(
        """\
import numpy as np

place = np.random.default_rng(0).normal(size=(40, 3))
visited = np.repeat(place, 2, axis=0)


def arc(a, b):
    cosine = (a * b).sum(axis=-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    return np.arccos(cosine)  # here


print(arc(visited[1:], visited[:-1]).sum())
""",
        ("np.arccos(cosine)", "np.arccos(np.clip(cosine, -1.0, 1.0))"),
    ),
    "variance-cancellation": pair(
        """\
import numpy as np

pressure = (101325 + 5 * np.random.default_rng(0).normal(size=(512, 3))).astype(np.float32)


def standardise(x):
    mean = x.mean(axis=0)
    variance = (x * x).mean(axis=0) - mean * mean  # here
    return (x - mean) / np.sqrt(np.maximum(variance, np.float32(1e-6)))


z = standardise(pressure)
print(z.std(axis=0))
""",
        ("(x * x).mean(axis=0) - mean * mean", "((x - mean) ** 2).mean(axis=0)"),
    ),
    "cancellation": pair(
        """\
import numpy as np

rates = (10.0 ** -np.linspace(8, 10, 64)).astype(np.float32)


def continuous(rate):
    return np.log(1 + rate)  # here


yearly = 365 * continuous(rates)
print(yearly.sum())
""",
        ("np.log(1 + rate)", "np.log1p(rate)"),
    ),
    "integer-overflow": pair(
        """\
import numpy as np

rng = np.random.default_rng(0)
before = rng.integers(0, 256, size=(8, 16, 16), dtype=np.uint8)
after = rng.integers(0, 256, size=(8, 16, 16), dtype=np.uint8)


def motion(a, b):
    change = b - a  # here
    return change.astype(np.float64) / 255


print(motion(before, after).mean(axis=(1, 2)))
""",
        ("b - a", "b.astype(np.int16) - a.astype(np.int16)"),
    ),
    "nondeterminism": pair(
        """\
import numpy as np

WEIGHTS = np.random.default_rng(0).normal(size=64)


def score(text):
    features = np.zeros(64)
    for word in text.split():
        features[hash(word) % 64] += 1  # here
    return float(features @ WEIGHTS)


print(score("the quick brown fox jumps over the lazy dog"))
""",
        ("hash(word)", "zlib.crc32(word.encode())"),
        ("import numpy as np", "import zlib\n\nimport numpy as np"),
    ),
}
