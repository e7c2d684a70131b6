"""The words of each framework: how it spells an operation that the writers know, for reading and for writing."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Vocabulary:
    """One framework. `reads`: where its functions live, longest first; `renamed`: names where ours differ; `says`: full names of ours."""

    framework: str
    packages: tuple[str, ...]  # the packages whose import marks a file as its program
    reads: tuple[str, ...]
    renamed: dict[str, str]
    says: dict[str, str]
    dim: str = "axis"
    keepdim: str = "keepdims"
    keep_at: dict[str, int] = field(default_factory=dict)  # keepdim's position after the array; missing: by name only
    operand: tuple[str, ...] = ("x", "a", "array", "operand")
    last_axis: tuple[str, ...] = ("softmax", "log_softmax")  # of these the last axis is the default


def _under(prefix: str, names: str) -> dict[str, str]:
    return {name: f"{prefix}.{name}" for name in names.split()}


_NUMERIC = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arctan": "atan",
    "arctanh": "atanh",
    "asarray": "tensor",
    "astype": "to",
    "cast": "to",
    "clip": "clamp",
    "concatenate": "cat",
    "conj": "clone",
    "copy": "clone",
    "divide": "div",
    "expand_dims": "unsqueeze",
    "expit": "sigmoid",
    "float_power": "pow",
    "inv": "inverse",
    "log_sigmoid": "logsigmoid",
    "logistic": "sigmoid",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "power": "pow",
    "stop_gradient": "detach",
    "subtract": "sub",
    "take_along_axis": "take_along_dim",
    "true_divide": "div",
}
_PLAIN = """abs arange cos exp expm1 eye full_like hypot isfinite isneginf linspace log log1p logaddexp max maximum mean min minimum
    ones_like var sin sqrt square sum tanh where zeros zeros_like all diag cumsum prod"""

TORCH = Vocabulary(
    "torch",
    ("torch",),
    ("torch.nn.functional.", "torch.special.", "torch.linalg.", "torch.Tensor.", "torch."),
    {"clip": "clamp", "arccos": "acos", "arcsin": "asin", "arctanh": "atanh", "negative": "neg", "true_divide": "div", "divide": "div"},
    {
        **_under("torch", f"{_PLAIN} softmax log_softmax logsumexp sigmoid xlogy"),
        **_under("torch.nn.functional", "logsigmoid softplus relu leaky_relu"),
    },
    dim="dim",
    keepdim="keepdim",
    keep_at=dict.fromkeys("sum mean max amax min amin logsumexp".split(), 1) | {"norm": 2, "vector_norm": 2},
    operand=("input", "self"),
    last_axis=(),
)
JAX = Vocabulary(
    "jax",
    ("jax", "flax", "equinox", "optax", "haiku"),
    ("jax.numpy.linalg.", "jax.numpy.", "jax.nn.", "jax.scipy.special.", "jax.lax.", "flax.linen.", "flax.nnx."),
    {**_NUMERIC, "max": "max"},
    {
        **_under("jax.numpy", _PLAIN),
        **_under("jax.nn", "softmax log_softmax logsumexp sigmoid softplus relu leaky_relu"),
        "logsigmoid": "jax.nn.log_sigmoid",
        "xlogy": "jax.scipy.special.xlogy",
        "detach": "jax.lax.stop_gradient",
    },
    keep_at={"norm": 2},
)
KERAS = Vocabulary(
    "keras",
    ("keras",),
    ("keras.ops.linalg.", "keras.ops.nn.", "keras.ops.", "keras.activations."),
    _NUMERIC,
    {
        **_under("keras.ops", f"{_PLAIN} softmax log_softmax logsumexp sigmoid softplus relu leaky_relu"),
        "logsigmoid": "keras.ops.log_sigmoid",
        "detach": "keras.ops.stop_gradient",
    },
    keep_at=dict.fromkeys("sum mean max amax min amin logsumexp".split(), 1) | {"norm": 2},
)
NUMPY = Vocabulary(
    "numpy",
    ("numpy", "scipy"),
    ("numpy.linalg.", "numpy.", "scipy.special.", "scipy.linalg."),
    _NUMERIC,
    _under("numpy", _PLAIN),
    keep_at={"norm": 2},
)
VOCABULARIES = (TORCH, JAX, KERAS, NUMPY)
"""In the order in which a file that imports several is taken to be a program of one."""

SCIPY = _under("scipy.special", "softmax log_softmax logsumexp xlogy") | {"sigmoid": "scipy.special.expit"}
"""What NumPy lacks; said only where the file has SciPy at hand."""

IMPORTS = {"jax.numpy": "jnp", "numpy": "np"}
"""The alias under which a module is imported where the file has no name for it."""


def speaking(full: str | None) -> Vocabulary | None:
    """The framework that a full dotted name belongs to."""
    root = (full or "").split(".")[0]
    return next((v for v in VOCABULARIES if root in v.packages), None)
