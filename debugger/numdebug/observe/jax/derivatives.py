"""Hand-written derivatives (custom_vjp, custom_jvp) of the program, called again in float64 and compared with differences."""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numdebug.observe.frames import Frames, Place
from numdebug.observe.jax.structural import floating
from numdebug.recording import Site
from numdebug.run import HandWritten
from numdebug.slopes import Compared, slope, verdict

LARGEST = 1_000_000  # elements of one call
ROUNDS = 3  # random directions: a coincidence in one is not one in three
CLEAR = 3  # elements that disagree by themselves: rounding and kinks spoil one, not three
PARTIALS = 24  # elements moved one by one, to say what kind of mistake it is
SAME = 1e-5  # relative: ratios of gradients that count as one factor
_NICE = (2.0, 0.5, 3.0, 1 / 3, 4.0, 0.25)  # factors that people leave out

Arrays = list[np.ndarray]


class Use:
    """One call of a function with a derivative of its own: which, with what (as far as it was known), and where."""

    def __init__(self, function: Any, args: Sequence[Any], places: tuple[Place, ...]) -> None:
        self.function = function
        self.places = places
        leaves, self.tree = jax.tree_util.tree_flatten(tuple(args))
        leaves = [np.asarray(float(leaf)) if isinstance(leaf, float) else leaf for leaf in leaves]
        self.shapes = [getattr(leaf, "shape", ()) for leaf in leaves]
        self.fixed = [_known(leaf) for leaf in leaves]
        floats = [i for i, leaf in enumerate(leaves) if floating(getattr(leaf, "dtype", np.dtype(int)))]
        self.wanted = [i for i in floats if self._differentiable(i, args)]

    def _differentiable(self, place: int, args: Sequence[Any]) -> bool:
        """Not among the arguments that the rule takes as given."""
        ends = np.cumsum([len(jax.tree_util.tree_leaves(a)) for a in args])
        return int(np.searchsorted(ends, place, side="right")) not in set(self.function.nondiff_argnums)

    def points(self) -> list[Arrays]:
        """Values of the differentiated arguments: the program's own, and some as far away as those are large; else random, or positive."""
        random = np.random.default_rng(3)
        own = [self.fixed[i] for i in self.wanted]
        normal = [random.standard_normal(self.shapes[i]) for i in self.wanted]
        known = [o if o is not None else n for o, n in zip(own, normal, strict=True)]
        positive = [np.abs(n) + 0.1 for n in normal]
        far = [k + _move(k, random) for k in known]
        return [known, far, normal, positive]

    def call(self, function: Callable[..., Any], values: Sequence[Any]) -> list[Any]:
        """Floating-point results of `function` for these values."""
        leaves = list(self.fixed)
        for place, value in zip(self.wanted, values, strict=True):
            leaves[place] = value
        if any(leaf is None for leaf in leaves):
            raise ValueError("an argument that is not differentiated is not known")
        args = jax.tree_util.tree_unflatten(self.tree, leaves)
        return [y for y in jax.tree_util.tree_leaves(function(*args)) if floating(getattr(y, "dtype", np.dtype(int)))]


def _known(leaf: Any) -> Any:
    """Its value as float64 array, out of the tracers that stand for it; None where nothing but its shape is known."""
    while isinstance(leaf, jax.core.Tracer):
        inner = getattr(leaf, "primal", None)
        if inner is None and hasattr(leaf, "batch_dim"):
            inner = leaf.val
            if leaf.batch_dim is not None and isinstance(inner, jax.Array) and not isinstance(inner, jax.core.Tracer):
                inner = jnp.take(inner, 0, axis=leaf.batch_dim)
        if inner is None:
            return None
        leaf = inner
    plain = isinstance(leaf, float)  # JAX's own kind of float too
    array = np.asarray(float(leaf)) if plain else np.asarray(leaf) if isinstance(leaf, jax.Array | np.ndarray | np.generic) else leaf
    if isinstance(array, np.ndarray) and floating(array.dtype):
        return array.astype(np.float64)
    return array


def functions(uses: Sequence[Use], frames: Frames) -> list[HandWritten]:
    """A verdict for each differentiated argument of each function; the first use that shows something wrong, else the first."""
    found: dict[int, list[HandWritten]] = {}
    for use in uses:
        known = found.get(id(use.function))
        if known and (any(h.verdict == "wrong" for h in known) or len(found) > 20):
            continue
        with jax.enable_x64(True), np.errstate(all="ignore"):
            seen = _use(use, frames)
        if known is None or any(h.verdict == "wrong" for h in seen):
            found[id(use.function)] = seen
    return [one for several in found.values() for one in several]


def _use(use: Use, frames: Frames) -> list[HandWritten]:
    name = getattr(use.function.fun, "__name__", "function")
    site = frames.site(use.places)
    if sum(int(np.prod(use.shapes[i])) for i in use.wanted) > LARGEST or not use.wanted:
        return []
    why = "it gives nothing finite in float64"
    first: list[HandWritten] = []
    for values in use.points():
        try:
            with np.errstate(all="ignore"):
                outputs = _outputs(use, use.function.fun, values)
                if not outputs or not all(np.isfinite(y).all() for y in outputs):
                    continue
                seen = [_argument(use, frames, values, outputs, index, name, site) for index in range(len(use.wanted))]
                if first or any(h.verdict == "wrong" for h in seen):
                    return seen if any(h.verdict == "wrong" for h in seen) else first
                first = seen
        except Exception as error:  # a rule or function that only works as the program calls it
            why = f"it cannot be called in float64: {(str(error).splitlines() or [type(error).__name__])[0][:120]}"
    return first or [HandWritten(name, "", 0, None, site, "undecided", why)]


def _outputs(use: Use, function: Callable[..., Any], values: Arrays) -> Arrays:
    return [np.asarray(y, dtype=np.float64) for y in use.call(function, [jnp.asarray(v) for v in values])]


def _gradients(use: Use, function: Callable[..., Any], values: Arrays, weights: Arrays) -> Arrays:
    """Of the weighted sum of the results, by the function's own rule."""

    def total(*given: Any) -> Any:
        return sum(jnp.sum(y * w) for y, w in zip(use.call(function, given), weights, strict=True))

    grads = jax.grad(total, argnums=tuple(range(len(values))))(*[jnp.asarray(v) for v in values])
    return [np.asarray(g, dtype=np.float64) for g in grads]


def _argument(use: Use, frames: Frames, values: Arrays, outputs: Arrays, index: int, name: str, call: Site | None) -> HandWritten:
    random = np.random.default_rng(5 + index)
    weights = [random.standard_normal(y.shape) for y in outputs]
    gradient = _gradients(use, use.function, values, weights)[index]
    compared = [c for _ in range(ROUNDS) if (c := _compared(use, values, weights, gradient, index, random)) is not None]
    argument = _argument_name(use, index)
    if not compared:
        return HandWritten(name, argument, 0, None, call, "undecided", "differences give nothing finite")
    worst = max(compared, key=lambda c: c.error)
    plain: dict[str, Any] = {
        "error": worst.error, "analytic": worst.analytic, "numeric": worst.numeric.value, "uncertainty": worst.numeric.uncertainty,
        "word": verdict(worst.error), "size": values[index].size,
    }  # fmt: skip
    if any(c.numeric.kink for c in compared):  # some element lies at a kink: one by one, the others tell
        single = [c for c in _one_by_one(use, values, weights, gradient, index) if not c.numeric.kink]
        if sum(c.disagrees for c in single) < CLEAR:
            return HandWritten(name, argument, 0, None, call, "undecided", "a kink lies at this point", **plain)
    elif sum(c.disagrees for c in compared) * 2 <= len(compared):
        return HandWritten(name, argument, 0, None, call, "right" if worst.error < SAME else "undecided", "", **plain)
    if any(c.numeric.flat for c in compared):
        return HandWritten(name, argument, 0, None, call, "surrogate", "its forward is constant almost everywhere", **plain)
    if any(y.shape == values[index].shape and np.array_equal(y, values[index]) for y in outputs):
        return HandWritten(name, argument, 0, None, call, "surrogate", "its forward hands the input on unchanged", **plain)
    if not _linear(use, values, weights, gradient, index):
        return HandWritten(name, argument, 0, None, call, "surrogate", "it is not linear in the gradient it is given", **plain)
    kind, factor, share = _kind(use, values, weights, gradient, index)
    where = _return(frames, use, index)
    change = ("", "", "")
    if kind == "sign":
        change = ("the other sign", "sign", "")
    elif kind == "factor" and factor is not None and (nice := next((f for f in _NICE if abs(factor / f - 1) < SAME), None)) is not None:
        text = f"{nice:g}" if nice >= 1 else f"1 / {1 / nice:g}"
        change = (f"a factor of {text}", "missing factor", text)
    numeric = slope(_along(use, values, index, _move(values[index], random)), weights, whole=True)
    sweep = numeric.sweep if numeric is not None else ()
    return HandWritten(
        name, argument, 0, where, call, "wrong", kind, **plain, factor=factor, share=share, sweep=sweep,
        proof=_control(use, values, weights, index), change=change[0], change_kind=change[1], change_factor=change[2],
        expression=where if change[1] else None,
    )  # fmt: skip


def _compared(use: Use, values: Arrays, weights: Arrays, gradient: np.ndarray, index: int, random: Any) -> Compared | None:
    move = _move(values[index], random)
    numeric = slope(_along(use, values, index, move), weights)
    return None if numeric is None else Compared(index, float((gradient * move).sum()), numeric)


def _move(x: np.ndarray, random: Any) -> np.ndarray:
    """Random, of the size of the array's own elements."""
    size = float(np.sqrt(np.square(x).mean())) if x.size else 1.0
    return np.asarray(random.standard_normal(x.shape) * (size if size > 0 else 1.0))


def _along(use: Use, values: Arrays, index: int, move: np.ndarray) -> Callable[[float], Arrays]:
    return lambda t: _outputs(use, use.function.fun, [v + t * move if i == index else v for i, v in enumerate(values)])


def _linear(use: Use, values: Arrays, weights: Arrays, gradient: np.ndarray, index: int) -> bool:
    """Three times the incoming gradient gives three times the outgoing one; clipping, for one, does not."""
    tripled = _gradients(use, use.function, values, [3.0 * w for w in weights])[index]
    return bool(np.allclose(tripled, 3.0 * gradient, rtol=1e-9, atol=1e-300))


def _kind(use: Use, values: Arrays, weights: Arrays, gradient: np.ndarray, index: int) -> tuple[str, float | None, float]:
    """(kind of mistake, what the gradient has to be multiplied by, share of the elements that are wrong)."""
    clear = [c for c in _one_by_one(use, values, weights, gradient, index) if not c.numeric.kink]
    clear = [c for c in clear if abs(c.numeric.value) > max(100 * c.numeric.uncertainty, 1e-12)]
    pairs = [(c.analytic, c.numeric.value) for c in clear]
    off = [(a, n) for a, n in pairs if abs(a - n) > SAME * max(abs(a), abs(n))]
    share = len(off) / len(pairs) if pairs else 1.0
    if not gradient.any():
        return "zero", None, share
    ratios = [n / a for a, n in pairs if a != 0]
    if ratios and len(ratios) == len(pairs) and max(ratios) - min(ratios) <= SAME * max(map(abs, ratios)):
        factor = sum(ratios) / len(ratios)
        return ("sign" if abs(factor + 1) < SAME else "factor"), factor, share
    return ("part" if 0 < len(off) < len(pairs) else "term"), None, share


def _one_by_one(use: Use, values: Arrays, weights: Arrays, gradient: np.ndarray, index: int) -> Iterator[Compared]:
    """Some elements, moved alone."""
    x = values[index]
    for element in np.random.default_rng(7).permutation(x.size)[:PARTIALS]:
        move = np.zeros(x.size)
        move[element] = max(abs(float(x.reshape(-1)[element])), 1e-2)
        s = slope(_along(use, values, index, move.reshape(x.shape)), weights)
        if s is not None:
            yield Compared(index, float(gradient.reshape(-1)[element] * move[element]), s)


def _control(use: Use, values: Arrays, weights: Arrays, index: int) -> str:
    """JAX's own derivative of the same forward: independent of the differences."""
    try:
        own = _gradients(use, use.function.fun, values, weights)[index]
    except Exception:  # the forward cannot be differentiated by itself: no control of this kind
        return ""
    random = np.random.default_rng(11)
    seen = [_compared(use, values, weights, own, index, random) for _ in range(ROUNDS)]
    if not all(c is not None and not c.disagrees for c in seen):
        return ""
    return "JAX's own derivative of the same forward agrees with the differences, and not with this rule"


def _argument_name(use: Use, index: int) -> str:
    place = use.wanted[index]
    sizes = [len(jax.tree_util.tree_leaves(a)) for a in jax.tree_util.tree_unflatten(use.tree, list(range(len(use.fixed))))]
    position = int(np.searchsorted(np.cumsum(sizes), place, side="right"))
    names = list(inspect.signature(use.function.fun).parameters)
    return names[position] if position < len(names) else f"argument {position + 1}"


def _return(frames: Frames, use: Use, index: int) -> Site | None:
    """What the rule returns for this argument: the element of its last return, else that line."""
    rule = getattr(use.function, "bwd", None) or getattr(use.function, "jvp", None)
    code = getattr(inspect.unwrap(rule), "__code__", None) if rule is not None else None
    if code is None:
        return None
    returns = [i for i in dis.get_instructions(code) if i.opname.startswith("RETURN") and i.positions is not None]
    whole = frames.site(((code, returns[-1].offset),)) if returns else None
    if whole is None:
        return None
    vjp = getattr(use.function, "bwd", None) is not None
    return _element(Path(code.co_filename), whole, index if vjp else 1) or whole


def _element(file: Path, whole: Site, element: int) -> Site | None:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.lineno == whole.line and isinstance(node.value, ast.Tuple):
            several = node.value.elts
            if element < len(several):
                e = several[element]
                return Site(whole.file, e.lineno, e.col_offset + 1, e.end_lineno, (e.end_col_offset or 0) + 1, whole.function)
    return None
