"""Which seeds a program fixes: with one, it promises the same numbers in every run."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from numdebug.fixes import scope
from numdebug.fixes.source import Refused, Source
from numdebug.repeat.files import argument, meaning
from numdebug.repeat.order import Call

_ALL = frozenset({"random", "numpy", "torch"})
SEEDS: dict[str, frozenset[str]] = {
    "random.seed": frozenset({"random"}),
    "numpy.random.seed": frozenset({"numpy"}),
    "torch.manual_seed": frozenset({"torch"}),
    "torch.random.manual_seed": frozenset({"torch"}),
    "torch.cuda.manual_seed": frozenset({"torch"}),
    "torch.cuda.manual_seed_all": frozenset({"torch"}),
    "jax.random.PRNGKey": frozenset({"jax"}),
    "jax.random.key": frozenset({"jax"}),
    "flax.nnx.Rngs": frozenset({"jax"}),
    "keras.utils.set_random_seed": _ALL | {"keras"},
    "keras.src.utils.set_random_seed": _ALL | {"keras"},
    "tensorflow.keras.utils.set_random_seed": _ALL | {"keras"},
    "transformers.set_seed": _ALL,
    "accelerate.utils.set_seed": _ALL,
    "lightning.seed_everything": _ALL,
    "lightning.pytorch.seed_everything": _ALL,
    "pytorch_lightning.seed_everything": _ALL,
}
"""What fixes which random numbers of the whole process (a key of JAX's: all those that are made from it)."""
GENERATORS = {
    "numpy.random.default_rng": "seed",
    "numpy.random.RandomState": "seed",
    "numpy.random.SeedSequence": "entropy",
    "numpy.random.PCG64": "seed",
    "numpy.random.MT19937": "seed",
    "numpy.random.Philox": "seed",
    "random.Random": "x",
    "keras.random.SeedGenerator": "seed",
}
"""Generators of their own: the name of the argument that seeds them."""
ENTROPY = frozenset({
    "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.monotonic_ns", "os.getpid",
    "os.urandom", "uuid.uuid1", "uuid.uuid4", "secrets.randbits", "secrets.randbelow", "secrets.token_bytes", "secrets.token_hex",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.now", "datetime.utcnow", "datetime.datetime.today", "os.times",
})  # fmt: skip
"""Calls that give something else in every process."""


@dataclass(frozen=True)
class Promise:
    """One call that fixes a seed. `fixes`: the random numbers of the whole process that follow from it."""

    source: Source
    call: ast.Call
    fixes: frozenset[str]
    value: ast.expr

    @property
    def text(self) -> str:
        """The seed as written."""
        return self.source.text(self.value)


def promises(calls: Sequence[Call]) -> list[Promise]:
    """Calls with a seed that does not change from run to run, in order."""
    found = []
    for source, call, name in calls:
        value = seed_of(call, name)
        if value is not None and fixed(source, value, calls):
            found.append(Promise(source, call, SEEDS.get(name, frozenset()), value))
    return found


def seed_of(call: ast.Call, name: str) -> ast.expr | None:
    """The argument that a call seeds random numbers with."""
    if name in SEEDS:
        return argument(call, 0, "seed", "a", "x", "params", "default")
    if name in GENERATORS:
        return argument(call, 0, GENERATORS[name], "entropy")
    if isinstance(call.func, ast.Attribute) and call.func.attr == "manual_seed":
        return argument(call, 0, "seed")
    return None


def fixed(source: Source, value: ast.expr, calls: Sequence[Call]) -> bool:
    """Whether a seed is a number that was chosen: neither None nor anything that is drawn anew."""
    parts = [part for part in ast.walk(value) if isinstance(part, ast.expr)]
    if any(isinstance(part, ast.Call) and changes(meaning(source, part.func)) for part in parts):
        return False
    if isinstance(value, ast.Constant):
        return value.value is not None
    names = [part for part in parts if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Load)]
    return not any(drawn(source, name, calls) for name in names)


def changes(name: str) -> bool:
    """Whether a call gives something else in every process."""
    return name in ENTROPY or name.startswith(("random.", "numpy.random.rand", "secrets."))


def drawn(source: Source, name: ast.expr, calls: Sequence[Call], depth: int = 0, none: bool = False) -> bool:
    """Whether a name is None, or (without `none`) holds what is drawn anew in each run, as far as the source tells."""
    if depth > 4:
        return False
    values: list[tuple[Source, ast.expr]] = []
    if isinstance(name, ast.Attribute):
        option = _option(name.attr, calls)
        if option is not None:
            return option
        values = [(source, node.value) for node in source.walk() if isinstance(node, ast.Assign) and _stores(node, name.attr)]
    elif isinstance(name, ast.Name):
        try:
            home = scope.home(source, name, name.id)
        except Refused:
            return False
        for binding in scope.bindings(home, name.id) if home is not None else []:
            if isinstance(binding, ast.arg) and home is not None:
                values += _handed(source, home, binding, calls)
            else:
                statement = source.statement(binding)
                if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                    values.append((source, statement.value))
    return bool(values) and all(_drawn(where, value, calls, depth, none) for where, value in values)


def _drawn(source: Source, value: ast.expr, calls: Sequence[Call], depth: int, none: bool) -> bool:
    if isinstance(value, ast.Constant):
        return value.value is None
    if isinstance(value, ast.Name | ast.Attribute):
        return drawn(source, value, calls, depth + 1, none)
    return not none and any(isinstance(part, ast.Call) and changes(meaning(source, part.func)) for part in ast.walk(value))


def _handed(source: Source, function: ast.AST, parameter: ast.arg, calls: Sequence[Call]) -> list[tuple[Source, ast.expr]]:
    """What a parameter gets: its default, and what calls of the function's name hand over."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    found: list[tuple[Source, ast.expr]] = []
    left_out = 0
    owner = source.parent(function)
    wanted = owner.name if function.name == "__init__" and isinstance(owner, ast.ClassDef) else function.name
    for where, call, name in calls:
        if name.rpartition(".")[2] != wanted:
            continue
        shift = 1 if names[:1] == ["self"] else 0
        position = names.index(parameter.arg) - shift if parameter.arg in names else 1 << 30
        value = argument(call, position, parameter.arg)
        if value is not None:
            found.append((where, value))
        else:
            left_out += 1
    defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    defaults |= {a.arg: d for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d is not None}
    default = defaults.get(parameter.arg)
    return [*found, *([(source, default)] if default is not None and (left_out or not found) else [])]


def _option(attr: str, calls: Sequence[Call]) -> bool | None:
    """Of `args.seed`: whether the command line's own default is None; None where there is no such option."""
    for _, call, name in calls:
        if name.rpartition(".")[2] != "add_argument":
            continue
        flags = [a.value.lstrip("-").replace("-", "_") for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if attr in flags:
            default = next((k.value for k in call.keywords if k.arg == "default"), None)
            return default is None or (isinstance(default, ast.Constant) and default.value is None)
    return None


def _stores(node: ast.Assign, attr: str) -> bool:
    attributes = {t.attr for t in node.targets if isinstance(t, ast.Attribute)}
    return attr in attributes | {t.id for t in node.targets if isinstance(t, ast.Name)}
