"""The bugs of the catalogue as JAX programs: plain JAX, Equinox, Flax and optax."""

from __future__ import annotations

from numdebug.catalogue._pairs import Pair, pair

PROGRAMS: dict[str, Pair] = {
    "softmax-overflow": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
keys = jax.random.normal(k1, (10, 32))
values = jax.random.normal(k2, (10, 4))
queries = jax.random.normal(k3, (5, 32)) * 20


def attend(keys, q):
    weight = jnp.exp(q @ keys.T)  # here
    return weight / weight.sum(axis=1, keepdims=True) @ values


@jax.jit
def step(keys):
    loss, grad = jax.value_and_grad(lambda k: jnp.mean(attend(k, queries) ** 2))(keys)
    return keys - 0.01 * grad, loss


for _ in range(3):
    keys, loss = step(keys)
print(float(loss))
""",
        ("weight = jnp.exp(q @ keys.T)", "weight = jax.nn.softmax(q @ keys.T, axis=1)"),
        ("return weight / weight.sum(axis=1, keepdims=True) @ values", "return weight @ values"),
    ),
    "logsumexp-overflow": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
data = jax.random.normal(k1, (64, 2))
noise = jax.random.uniform(k2, (64, 2)) * 8 - 4
params = {"w": jax.random.normal(k3, (2, 32)), "out": jnp.ones(32) / 8}
temperature = 2e-3


def energy(params, x):
    return jnp.tanh(x @ params["w"]) @ params["out"]


def loss_fn(params):
    free = jnp.log(jnp.exp(-energy(params, noise) / temperature).sum())  # here
    return energy(params, data).mean() / temperature + free


for step in range(3):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    params = jax.tree.map(lambda p, g: p - 1e-6 * g, params, grads)
    print(step, float(loss))
""",
        ("jnp.log(jnp.exp(-energy(params, noise) / temperature).sum())", "jax.nn.logsumexp(-energy(params, noise) / temperature)"),
    ),
    "log-of-softmax": pair(
        """\
import jax
import jax.numpy as jnp
import optax

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
words = jax.random.normal(k1, (48, 10)) * 300
topic = jax.random.randint(k2, (48,), 0, 5)
params = {"w": jax.random.normal(k3, (10, 5)), "b": jnp.zeros(5)}
optimizer = optax.adam(0.1)
state = optimizer.init(params)


def nll(params):
    p = jax.nn.softmax(words @ params["w"] + params["b"], axis=1)
    return -jnp.log(p[jnp.arange(len(topic)), topic]).mean()  # here


for epoch in range(8):
    loss, grads = jax.value_and_grad(nll)(params)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
print(float(loss))
""",
        ("p = jax.nn.softmax(", "log_p = jax.nn.log_softmax("),
        ("-jnp.log(p[jnp.arange(len(topic)), topic])", "-log_p[jnp.arange(len(topic)), topic]"),
    ),
    "log-of-sigmoid": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2 = jax.random.split(jax.random.PRNGKey(0))
x = jax.random.normal(k1, (100, 6)) * 30
y = (x[:, 0] > 0).astype(jnp.float32)
y = y.at[:5].set(1 - y[:5])
params = jax.random.normal(k2, (6,)) * 0.3


def cross_entropy(w):
    p = jax.nn.sigmoid(x @ w)
    return -(y * jnp.log(p) + (1 - y) * jnp.log(1 - p)).mean()  # here


@jax.jit
def step(w):
    loss, grad = jax.value_and_grad(cross_entropy)(w)
    return w - 0.1 * grad, loss


for epoch in range(6):
    params, loss = step(params)
    print(epoch, float(loss))
""",
        ("p = jax.nn.sigmoid(x @ w)", "z = x @ w"),
        ("y * jnp.log(p) + (1 - y) * jnp.log(1 - p)", "y * jax.nn.log_sigmoid(z) + (1 - y) * jax.nn.log_sigmoid(-z)"),
    ),
    "softplus-overflow": pair(
        """\
import jax
import jax.numpy as jnp
import optax

x = jnp.linspace(-3, 3, 50)[:, None]
y = 40 * jnp.abs(x) + jax.random.normal(jax.random.PRNGKey(0), (50, 1))
params = {"w": jnp.array([[0.5, -0.5]]), "b": jnp.zeros(2)}
optimizer = optax.adam(2.0)
state = optimizer.init(params)


def positive(x):
    return jnp.log(1 + jnp.exp(x))  # here


def loss_fn(params):
    left, right = jnp.split(x @ params["w"] + params["b"], 2, axis=1)
    return jnp.mean((positive(left) + positive(right) - y) ** 2)


for epoch in range(60):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
print(float(loss))
""",
        ("jnp.log(1 + jnp.exp(x))", "jax.nn.softplus(x)"),
    ),
    "exp-overflow": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
x = jax.random.normal(k1, (64, 4)) * 40
counts = jax.random.poisson(k2, 3.0, (64,)).astype(jnp.float32)
rate = jax.random.normal(k3, (4,))


def loss_fn(rate):
    score = 2 * x @ rate
    expected = jnp.exp(score)  # here
    return jnp.mean(expected - counts * score)


for epoch in range(5):
    loss, grad = jax.value_and_grad(loss_fn)(rate)
    rate = rate - 1e-4 * grad / (1 + jnp.abs(grad).max())
    print(epoch, float(loss))
""",
        ("jnp.exp(score)", "jnp.exp(jnp.minimum(score, 20.0))"),
    ),
    "log-of-zero": pair(
        """\
import jax
import jax.numpy as jnp

counts = jnp.array([[12.0, 0.0, 3.0, 5.0], [4.0, 9.0, 0.0, 7.0]])
reference = jnp.zeros(4)


def divergence(p, log_q):
    return (p * (jnp.log(p) - log_q)).sum(axis=-1).mean()  # here


def loss_fn(reference):
    p = counts / counts.sum(axis=-1, keepdims=True)
    return divergence(p, jax.nn.log_softmax(reference))


for step in range(3):
    loss, grad = jax.value_and_grad(loss_fn)(reference)
    reference = reference - 0.1 * grad
    print(step, float(loss))
""",
        ("p * (jnp.log(p) - log_q)", "jax.scipy.special.xlogy(p, p) - p * log_q"),
    ),
    "division-by-zero": pair(
        """\
import jax
import jax.numpy as jnp

table = jax.random.normal(jax.random.PRNGKey(0), (40, 5)).at[:, 3].set(7.0)
target = table[:, :2].sum(axis=1)
w = jnp.zeros(5)


def standardise(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)  # here


def loss_fn(w):
    return jnp.mean((standardise(table) @ w - target) ** 2)


for epoch in range(3):
    loss, grad = jax.value_and_grad(loss_fn)(w)
    w = w - 0.05 * grad
    print(epoch, float(loss))
""",
        ("x.std(axis=0)", "jnp.maximum(x.std(axis=0), 1e-6)"),
    ),
    "domain-error": pair(
        """\
import jax
import jax.numpy as jnp

place = jax.random.normal(jax.random.PRNGKey(0), (40, 3))
visited = jnp.repeat(place, 2, axis=0)
scale = jnp.array(1.0)


def arc(a, b):
    cosine = (a * b).sum(axis=-1) / (jnp.linalg.norm(a, axis=-1) * jnp.linalg.norm(b, axis=-1))
    return jnp.arccos(cosine)  # here


def loss_fn(scale):
    return jnp.mean((scale * arc(visited[1:], visited[:-1]) - 2.0) ** 2)


for step in range(3):
    loss, grad = jax.value_and_grad(loss_fn)(scale)
    scale = scale - 0.05 * grad
    print(step, float(loss))
""",
        ("jnp.arccos(cosine)", "jnp.arccos(jnp.clip(cosine, -1.0, 1.0))"),
    ),
    "square-overflow": pair(
        """\
import jax
import jax.numpy as jnp

mass = jnp.array([2.0, 1.0, 3.0])
place = jnp.array([[1.5e20, 0.0], [-2.0e20, 4.0e19], [3.0e19, -1.0e20]])


def separation(points):
    gap = points[:, None] - points[None, :]
    return jnp.sqrt((gap**2).sum(axis=-1))  # here


def reach(mass):
    return separation(place).max() * mass.mean()


value, grad = jax.value_and_grad(reach)(mass)
print(float(value), grad)
""",
        ("jnp.sqrt((gap**2).sum(axis=-1))", "jnp.hypot(gap[..., 0], gap[..., 1])"),
    ),
    "where-gradient-trap": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2 = jax.random.split(jax.random.PRNGKey(0))
x = jax.random.normal(k1, (40, 3))
depth = jax.nn.relu(x[:, 0])
w = jax.random.normal(k2, (3,))


def compress(flow):
    return jnp.where(flow > 0, jnp.sqrt(flow), 0.0)  # here


@jax.jit
def step(w):
    loss, grad = jax.value_and_grad(lambda w: jnp.mean((compress(x @ w) - depth) ** 2))(w)
    return w - 0.1 * grad, loss


for epoch in range(3):
    w, loss = step(w)
    print(epoch, float(loss))
""",
        ("jnp.sqrt(flow)", "jnp.sqrt(jnp.where(flow > 0, flow, 1.0))"),
    ),
    "singular-gradient": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
encoder = jax.random.normal(k1, (6, 3)) * 0.4
anchor = jax.random.normal(k2, (16, 6))
positive = anchor + 0.1 * jax.random.normal(k3, (16, 6))
positive = positive.at[4].set(anchor[4])


def distance(a, b):
    return jnp.sqrt(((a - b) ** 2).sum(axis=1))  # here


def loss_fn(encoder):
    return distance(anchor @ encoder, positive @ encoder).mean()


for step in range(3):
    loss, grad = jax.value_and_grad(loss_fn)(encoder)
    encoder = encoder - 0.01 * grad
    print(step, float(loss))
""",
        (".sum(axis=1))", ".sum(axis=1) + 1e-12)"),
    ),
    "masked-by-multiplication": pair(
        """\
import jax
import jax.numpy as jnp

hops = jnp.array([[0.0, 1.0, 2.0, 9.0], [1.0, 0.0, 1.0, 9.0], [2.0, 1.0, 0.0, 9.0], [9.0, 9.0, 9.0, 0.0]])
hops = jnp.where(hops == 9, jnp.inf, hops)
reachable = jnp.isfinite(hops).astype(jnp.float32)
position = jax.random.normal(jax.random.PRNGKey(0), (4, 2))


def loss_fn(position):
    gap = position[:, None] - position[None]
    length = jnp.sqrt((gap**2).sum(axis=-1) + 1e-6)
    stress = (length - hops) * reachable  # here
    return (stress**2).sum() / reachable.sum()


for step in range(3):
    loss, grad = jax.value_and_grad(loss_fn)(position)
    position = position - 0.1 * grad
    print(step, float(loss))
""",
        ("(length - hops) * reachable", "jnp.where(reachable > 0, length - jnp.where(reachable > 0, hops, 0.0), 0.0)"),
    ),
    "fully-masked-softmax": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
params = {"embed": jax.random.normal(k1, (20, 16)), "score": jax.random.normal(k2, (16,))}
tokens = jax.random.randint(k3, (4, 6), 0, 20)
length = jnp.array([6, 3, 0, 2])


def loss_fn(params):
    hidden = params["embed"][tokens]
    empty = jnp.arange(hidden.shape[1]) >= length[:, None]
    scores = jnp.where(empty, -jnp.inf, hidden @ params["score"])
    weights = jax.nn.softmax(scores, axis=1)  # here
    return jnp.mean((weights[..., None] * hidden).sum(axis=1) ** 2)


for epoch in range(2):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    print(epoch, float(loss))
""",
        ("-jnp.inf, hidden", "-1e9, hidden"),
    ),
    "variance-cancellation": pair(
        """\
import jax
import jax.numpy as jnp

pressure = 101325 + 5 * jax.random.normal(jax.random.PRNGKey(0), (512, 3))


def standardise(x):
    mean = x.mean(axis=0)
    variance = (x * x).mean(axis=0) - mean * mean  # here
    return (x - mean) / jnp.sqrt(jnp.maximum(variance, 1e-6))


z = standardise(pressure)
print(z.std(axis=0))
""",
        ("(x * x).mean(axis=0) - mean * mean", "((x - mean) ** 2).mean(axis=0)"),
    ),
    "cancellation": pair(
        """\
import jax.numpy as jnp

rates = 10.0 ** -jnp.linspace(8, 10, 64)


def continuous(rate):
    return jnp.log(1 + rate)  # here


yearly = 365 * continuous(rates)
print(yearly.sum())
""",
        ("jnp.log(1 + rate)", "jnp.log1p(rate)"),
    ),
    "integer-overflow": pair(
        """\
import jax
import jax.numpy as jnp

k1, k2, k3 = jax.random.split(jax.random.PRNGKey(0), 3)
before = jax.random.randint(k1, (8, 16, 16), 0, 256, dtype=jnp.uint8)
after = jax.random.randint(k2, (8, 16, 16), 0, 256, dtype=jnp.uint8)
weights = jax.random.normal(k3, (256,))


def motion(a, b):
    change = b - a  # here
    return change.astype(jnp.float32) / 255


alarm = motion(before, after).reshape(8, -1) @ weights
print(alarm)
""",
        ("b - a", "b.astype(jnp.int16) - a.astype(jnp.int16)"),
    ),
    "learning-rate-divergence": pair(
        """\
import jax
import jax.numpy as jnp
import optax

k1, k2 = jax.random.split(jax.random.PRNGKey(0))
area = jax.random.uniform(k1, (200,)) * 100
price = 3 * area + 20 + jax.random.normal(k2, (200,))
params = {"slope": jnp.array(0.0), "base": jnp.array(0.0)}
optimizer = optax.sgd(0.01)  # here
state = optimizer.init(params)


def loss_fn(params):
    return jnp.mean((params["slope"] * area + params["base"] - price) ** 2)


for epoch in range(60):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
print(float(loss))
""",
        ("optax.sgd(0.01)", "optax.sgd(1e-4)"),
    ),
    "double-softmax": pair(
        """\
import jax
import jax.numpy as jnp
import optax

k1, k2 = jax.random.split(jax.random.PRNGKey(0))
x = jax.random.normal(k1, (200, 6))
y = x[:, :4].argmax(axis=1)
params = {"w": jax.random.normal(k2, (6, 4)) * 0.4, "b": jnp.zeros(4)}
optimizer = optax.sgd(0.5)
state = optimizer.init(params)


def loss_fn(params):
    p = jax.nn.softmax(x @ params["w"] + params["b"])  # here
    return optax.softmax_cross_entropy_with_integer_labels(p, y).mean()


for step in range(60):
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
print(float(loss))
""",
        ('p = jax.nn.softmax(x @ params["w"] + params["b"])', 'p = x @ params["w"] + params["b"]'),
    ),
    "train-eval-mismatch": pair(
        """\
import jax
import jax.numpy as jnp
import optax
from flax import nnx

rngs = nnx.Rngs(0)
x = rngs.normal((200, 8))
y = (x[:, 0] > 0).astype(int)
model = nnx.Sequential(nnx.Linear(8, 32, rngs=rngs), jnp.tanh, nnx.Dropout(0.5, rngs=rngs), nnx.Linear(32, 2, rngs=rngs))
optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)


@nnx.jit
def step(model, optimizer):
    def loss_fn(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x[:150]), y[:150]).mean()

    optimizer.update(model, nnx.grad(loss_fn)(model))


for n in range(20):
    step(model, optimizer)
guess = model(x[150:]).argmax(1)  # here
print((guess == y[150:]).mean())
""",
        ("guess = model", "model.eval()\nguess = model"),
    ),
    "nondeterminism": pair(
        """\
import jax
import jax.numpy as jnp

words = "the quick brown fox jumps over the lazy dog and the dog sleeps".split()
vocabulary = {word: n for n, word in enumerate(set(words))}  # here
ids = jnp.array([vocabulary[word] for word in words])
table = jax.random.normal(jax.random.PRNGKey(0), (len(vocabulary), len(vocabulary)))


def loss_fn(table):
    return -jax.nn.log_softmax(table[ids[:-1]])[jnp.arange(len(ids) - 1), ids[1:]].mean()


for step in range(10):
    loss, grad = jax.value_and_grad(loss_fn)(table)
    table = table - grad
print(float(loss))
""",
        ("enumerate(set(words))", "enumerate(sorted(set(words)))"),
    ),
}
