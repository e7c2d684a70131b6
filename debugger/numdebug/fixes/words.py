"""Saying an operation in the words of the framework that the file, or the expression at hand, is written in."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from numdebug.fixes import scope, spelling
from numdebug.fixes.job import Job
from numdebug.fixes.source import Refused, Source
from numdebug.fixes.vocabulary import SCIPY, Vocabulary, speaking
from numdebug.fixes.wording import ATOM, LOOSE, PRODUCT, SUM, UNARY, fit


def words(job: Job, source: Source, at: ast.AST) -> Words:
    """The words to use at a place: those of the call that stands there, else of what it is made of, else of the file."""
    return Words(job, source, at, vocabulary(source, at))


def vocabulary(source: Source, at: ast.AST) -> Vocabulary:
    """The framework of a place."""
    if isinstance(at, ast.Call):
        own = speaking(spelling.means(source, at.func))
        if own is not None:
            return own
    inside = {v.framework: v for n in ast.walk(at) if isinstance(n, ast.Attribute) and (v := speaking(spelling.means(source, n)))}
    if len(inside) == 1 and not isinstance(at, ast.stmt):
        return next(iter(inside.values()))
    return spelling.framework(source)


@dataclass(frozen=True)
class Words:
    """Texts in, text out. Where a framework has no way to say something in one expression, `Refused`."""

    job: Job
    source: Source
    at: ast.AST
    vocabulary: Vocabulary

    @property
    def framework(self) -> str:
        """torch, jax, keras or numpy."""
        return self.vocabulary.framework

    @property
    def torch(self) -> bool:
        """PyTorch has methods where others have functions."""
        return self.framework == "torch"

    def name(self, name: str) -> str:
        """How a function is called here; its module is imported where the file has no name for it."""
        full = self.vocabulary.says.get(name)
        if full is None and self.framework == "numpy" and spelling.imported(self.source, "scipy"):
            full = SCIPY.get(name)
        if full is None:
            raise Refused(f"{self.framework} has no {name}")
        home, _, last = full.rpartition(".")
        return f"{spelling.reached(self.job, self.source, home, self.at)}.{last}"

    def call(self, name: str, *args: str, dim: str | None = None, keepdim: str | None = None) -> str:
        """A function of arrays."""
        if self.framework == "numpy" and not self._known(name):
            return self._written_out(name, args, dim, keepdim)
        tail = [f"{self.vocabulary.dim}={dim}"] if dim is not None else []
        tail += [f"{self.vocabulary.keepdim}={keepdim}"] if keepdim is not None else []
        return f"{self.name(name)}({', '.join([*(fit(a, LOOSE) for a in args), *tail])})"

    def _known(self, name: str) -> bool:
        return name in self.vocabulary.says or name in SCIPY and spelling.imported(self.source, "scipy")

    def _written_out(self, name: str, args: tuple[str, ...], dim: str | None, keepdim: str | None) -> str:
        """NumPy has logaddexp, from which the rest can be said."""
        x = args[0]
        add = self.name("logaddexp")
        if name == "logsumexp":
            keep = f", keepdims={keepdim}" if keepdim is not None else ""
            return f"{add}.reduce({fit(x, LOOSE)}, axis={dim}{keep})"
        if name == "softplus":
            return f"{add}(0, {fit(x, LOOSE)})"
        if name == "logsigmoid":
            return f"-{add}(0, {self.minus(x)})"
        if name == "sigmoid":
            return f"{self.name('exp')}(-{add}(0, {self.minus(x)}))"
        if name == "log_softmax" and x.isidentifier() and dim is not None:
            return f"{x} - {add}.reduce({x}, axis={dim}, keepdims=True)"
        if name == "xlogy" and x.isidentifier():
            where = self.name("where")
            return f"{where}({x} == 0, 0.0, {x} * {self.name('log')}({where}({x} == 0, 1.0, {fit(args[1], LOOSE)})))"
        raise Refused(f"NumPy has no {name}")

    def minus(self, x: str) -> str:
        """-x, and x of -x."""
        node = ast.parse(f"({x})", mode="eval").body
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and x.startswith("-"):
            return x[1:].lstrip()
        return f"-{fit(x, UNARY)}"

    # -- what PyTorch says by a method ----------------------------------------------------------------------------

    def clamp(self, x: str, low: str | None, high: str | None, changes: bool = False) -> str:
        """x kept between bounds."""
        if self.torch:
            parts = [f"{word}={bound}" for word, bound in (("min", low), ("max", high)) if bound is not None]
            return f"{fit(x, ATOM)}.{'clamp_' if changes else 'clamp'}({', '.join(parts)})"
        if low is not None and high is not None:
            home = spelling.reached(self.job, self.source, {"jax": "jax.numpy", "keras": "keras.ops"}.get(self.framework, "numpy"), self.at)
            return f"{home}.clip({fit(x, LOOSE)}, {low}, {high})"
        return self.call("maximum", x, str(low)) if low is not None else self.call("minimum", x, str(high))

    def method(self, name: str, x: str, dim: str | None = None, keepdim: bool = False) -> str:
        """A function of one array: x.square() in PyTorch, jnp.square(x) in JAX; x.max(axis=1) wherever arrays have the method."""
        keep = "True" if keepdim else None
        if self.torch or name in ("max", "sum", "mean", "min", "all") and self.framework in ("jax", "numpy"):
            name = {"max": "amax", "min": "amin"}.get(name, name) if self.torch and dim is not None else name
            v = self.vocabulary
            parts = [f"{v.dim}={dim}"] if dim is not None else []
            parts += [f"{v.keepdim}={keep}"] if keep is not None else []
            return f"{fit(x, ATOM)}.{name}({', '.join(parts)})"
        return self.call(name, x, dim=dim, keepdim=keep)

    def cast(self, x: str, dtype: str) -> str:
        """x as numbers of another type."""
        if self.torch:
            return f"{fit(x, ATOM)}.float()" if dtype == "float32" else f"{fit(x, ATOM)}.to({self.dtype(dtype)})"
        if self.framework == "keras":
            return f'{spelling.reached(self.job, self.source, "keras.ops", self.at)}.cast({fit(x, LOOSE)}, "{dtype}")'
        return f"{fit(x, ATOM)}.astype({self.dtype(dtype)})"

    def cast_like(self, x: str, other: str) -> str:
        """x as numbers of the type that another array has."""
        if self.framework == "keras":
            return f"{spelling.reached(self.job, self.source, 'keras.ops', self.at)}.cast({fit(x, LOOSE)}, {other}.dtype)"
        return f"{fit(x, ATOM)}.{'to' if self.torch else 'astype'}({other}.dtype)"

    def dtype(self, name: str) -> str:
        """A number type by its name."""
        if self.framework == "keras":
            return f'"{name}"'
        if self.framework == "numpy" and name == "bfloat16":
            raise Refused("NumPy has no bfloat16")
        home = {"torch": "torch", "jax": "jax.numpy", "numpy": "numpy"}[self.framework]
        return f"{spelling.reached(self.job, self.source, home, self.at)}.{name}"

    def finfo(self, x: str, what: str) -> str | None:
        """A property of x's number type as text; None where it can only be said as a number."""
        if self.framework == "keras":
            return None
        home = {"torch": "torch", "jax": "jax.numpy", "numpy": "numpy"}[self.framework]
        return f"{spelling.reached(self.job, self.source, home, self.at)}.finfo({x}.dtype).{what}"

    def detached(self, x: str) -> str:
        """x without its part in the gradient."""
        if self.torch:
            return f"{fit(x, ATOM)}.detach()"
        return x if self.framework == "numpy" else self.call("detach", x)

    def flat(self, x: str) -> str:
        """x as one row."""
        if self.framework == "keras":
            return f"{spelling.reached(self.job, self.source, 'keras.ops', self.at)}.ravel({fit(x, LOOSE)})"
        return f"{fit(x, ATOM)}.{'flatten' if self.torch else 'ravel'}()"

    def shaped_as(self, x: str, other: str) -> str:
        """x in the shape of another array."""
        if self.framework == "keras":
            return f"{spelling.reached(self.job, self.source, 'keras.ops', self.at)}.reshape({fit(x, LOOSE)}, {other}.shape)"
        return f"{x}.view_as({other})" if self.torch else f"{fit(x, ATOM)}.reshape({fit(other, ATOM)}.shape)"

    def count(self, x: str) -> str:
        """The number of elements."""
        return f"{x}.numel()" if self.torch else f"{fit(x, ATOM)}.size"

    def nonzero(self, mask: str) -> str:
        """A mask of numbers as a condition."""
        return f"{fit(mask, ATOM)}.bool()" if self.torch else f"{fit(mask, SUM)} != 0"

    def all_over(self, name: str, x: str) -> str:
        """A reduction of everything, by logsumexp and softmax, which PyTorch gives a dim only."""
        return self.call(name, self.flat(x), dim="0") if self.torch or self.framework == "keras" else self.call(name, x, dim="None")

    def product(self, a: str, b: str) -> str:
        """a * b"""
        return f"{fit(a, PRODUCT)} * {fit(b, PRODUCT + 1)}"

    def named(self, text: str) -> bool:
        """Whether a text is a name, or an attribute of one."""
        try:
            return scope.dotted(ast.parse(text, mode="eval").body) is not None
        except SyntaxError:
            return False
