"""Calls made under observation, as they are and varied along an axis: what becomes a side of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from numdebug import observe as observing
from numdebug.comparing.sides import Rows, Side, located
from numdebug.load import frameworks, values
from numdebug.load.calls import Call
from numdebug.load.state import same_numbers

ROWS = 10
"""Of a batch, where nothing else was asked for; half of it where it is no longer than that."""


WEIGHTS = frozenset({"w", "weight", "weights", "kernel", "b", "bias", "theta", "params", "matrix", "table", *values.PARAMETERS})
"""Arguments of functions that hold no rows of a batch, whatever their length."""


class NotHere(Exception):
    """An axis that this call does not have; the message says why."""


@dataclass(frozen=True)
class Varied:
    """Both ways of a call. `opaque`: of the second only what it returns is of interest, or can be seen."""

    a: Call
    b: Call
    label_a: str
    label_b: str
    rows: Rows | None = None
    opaque: bool = False
    setting_a: Callable[[], AbstractContextManager[None]] = nullcontext
    setting_b: Callable[[], AbstractContextManager[None]] = nullcontext


def varying(framework: str) -> Any:
    """How that framework computes something another way."""
    return import_module(f"numdebug.observe.{framework}.varying")


def framework_of(result: Any, call: Call) -> str:
    """torch, jax or numpy: whose arrays a call gives."""
    held = [a for _, a in values.arrays(result)] + [a for _, a in values.arrays(list(call.args))]
    for array in held:
        if frameworks.is_a(array, "torch.Tensor"):
            return "torch"
        if frameworks.is_jax(array):
            return "jax"
    return "numpy"


def as_numpy(array: Any) -> tuple[np.ndarray, str]:
    """The elements (bfloat16 and narrower as float32, exact) and the name of their format."""
    name = str(array.dtype).removeprefix("torch.")
    if frameworks.is_a(array, "torch.Tensor"):
        held = array.detach().cpu()
        held = held.float() if name == "bfloat16" or (held.dtype.itemsize == 1 and held.is_floating_point()) else held
        return held.numpy(), name
    plain = np.asarray(array)
    return (plain.astype(np.float32) if name.startswith(("bfloat16", "float8")) else plain), name


def returned(result: Any) -> list[tuple[str, np.ndarray, str]]:
    """The floating-point arrays that a call returned, by name."""
    if isinstance(result, float):
        result = np.float64(result)
    return floats(values.arrays(result, "out"))


def floats(named: Iterable[tuple[str, Any]]) -> list[tuple[str, np.ndarray, str]]:
    """Of these arrays the floating-point ones; random keys, for one, have no elements."""
    formats = ("float", "bfloat", "torch.float", "torch.bfloat")
    return [(name, *as_numpy(array)) for name, array in named if str(array.dtype).startswith(formats)]


class Caller:
    """Makes calls with the same random numbers each time, watched or not."""

    def __init__(self, folder: Path, journal: Any, framework: str, guarded: Callable[[Callable[[], Any], Any], Any]) -> None:
        self.folder = folder
        self.journal = journal
        self.framework = framework
        self.guarded = guarded  # (work, watcher): runs user code; raises what the time limit raises

    def watched(self, call: Call, label: str, setting: Callable[[], AbstractContextManager[None]] = nullcontext) -> Side:
        """The call with its operations recorded."""
        watcher = observing.watch(folder=self.folder, journal=self.journal, options={})
        try:
            own = self._own(call)
            with self._alike(), setting():
                result = self.guarded(own, watcher)
        finally:
            watcher.finish()
        run = watcher.run(self.framework) if self.framework in watcher.observers else None
        return Side(label, located(run, returned(result)), run)

    def plain(self, call: Call, label: str, setting: Callable[[], AbstractContextManager[None]] = nullcontext) -> Side:
        """What the call returns."""
        own = self._own(call)
        with self._alike(), setting():
            result = self.guarded(own, None)
        return Side(label, located(None, returned(result)))

    def sides(self, varied: Varied) -> tuple[Side, Side]:
        """Both ways."""
        a = self.watched(varied.a, varied.label_a, varied.setting_a)
        b = (self.plain if varied.opaque else self.watched)(varied.b, varied.label_b, varied.setting_b)
        b.rows = varied.rows
        if varied.rows is not None:
            _with_rows(a, b)
        return a, b

    def _own(self, call: Call) -> Call:
        return varying("torch").own_copy(call) if self.framework == "torch" else call

    def _alike(self) -> AbstractContextManager[None]:
        return _alike(self.framework)


def _with_rows(a: Side, b: Side) -> None:
    """Leaves out results that have no axis for the rows. Raises NotHere where none is left."""
    assert b.rows is not None
    kept = [n for n, (one, two) in enumerate(zip(a.outputs, b.outputs, strict=False)) if _has_rows(one.array, two.array, b.rows)]
    if not kept:
        raise NotHere("what is returned has no rows")
    a.outputs, b.outputs = [a.outputs[n] for n in kept], [b.outputs[n] for n in kept]


def _has_rows(few: np.ndarray, many: np.ndarray, rows: Rows) -> bool:
    if len(rows.index) == rows.n:
        return any(length and length % rows.n == 0 for length in many.shape)
    return few.shape != many.shape


@contextmanager
def _alike(framework: str) -> Iterator[None]:
    """Random numbers of Python, NumPy and the framework come back as they were: each call draws the same."""
    with same_numbers(), varying(framework).repeatable() if framework != "numpy" else nullcontext():
        yield


# -- axes ------------------------------------------------------------------------------------------------------------


def varied(axis: str, call: Call, framework: str, wanted_rows: int | None = None) -> Varied:
    """Both ways of a call along an axis. Raises NotHere."""
    made = _VARIED.get(axis)
    if made is None:
        raise NotHere(f"there is no way to vary {axis} here")
    return made(call, framework, wanted_rows)


def _rows(call: Call, framework: str, wanted: int | None) -> Varied:
    places, n = _batch(call)
    k = min(wanted or (ROWS if n > ROWS else max(1, n // 2)), n)
    if k == n:
        raise NotHere(f"the batch has {n} rows only")
    index = tuple(range(k))
    few = _taken(call, places, lambda array: array[:k])
    return Varied(few, call, f"{k} rows", f"the first {k} of {n} rows", Rows(n, index))


def _order(call: Call, framework: str, wanted: int | None) -> Varied:
    places, n = _batch(call)
    shuffled = np.random.default_rng(0).permutation(n)
    mixed = _taken(call, places, lambda array: array[shuffled])
    return Varied(call, mixed, "the rows in order", "the same rows in another order", Rows(n, tuple(int(i) for i in np.argsort(shuffled))))


def _batch(call: Call) -> tuple[list[int | str], int]:
    """Arguments that hold the batch, and its length: the input, and what has as many rows."""
    named: list[tuple[int | str, str, Any]] = [
        (i, call.names[i] if i < len(call.names) else "", a) for i, a in enumerate(call.args)
    ] + [(k, k, a) for k, a in call.kwargs.items()]
    arrays = [(place, name, a) for place, name, a in named if values.is_array(a) and len(a.shape) > 0 and not values.is_parameter(a)]
    if not arrays:
        raise NotHere("no argument is an array with rows")
    inputs = [one for one in arrays if one[1] in values.INPUT or one[1] in values.TARGET]
    first = inputs[0] if inputs else arrays[0]
    n = int(first[2].shape[0])
    if n < 2:
        raise NotHere("the batch has one row only")
    return [place for place, name, a in arrays if int(a.shape[0]) == n and name.lower() not in WEIGHTS], n


def _taken(call: Call, places: list[int | str], take: Callable[[Any], Any]) -> Call:
    args = tuple(take(a) if i in places else a for i, a in enumerate(call.args))
    return call.with_arguments(args, {k: take(a) if k in places else a for k, a in call.kwargs.items()})


def _runs(call: Call, framework: str, wanted: int | None) -> Varied:
    return Varied(call, call, "the first time", "the second time")


def _compiled(call: Call, framework: str, wanted: int | None) -> Varied:
    if framework == "torch":
        return Varied(call, varying("torch").compiled(call), "eager", "under torch.compile", opaque=True)
    if framework == "jax":
        how = varying("jax")
        return Varied(how.op_by_op(call), how.compiled(call), "op by op", "under jax.jit", opaque=True)
    raise NotHere("there is nothing to compile in NumPy")


def _format(name: str) -> Callable[[Call, str, int | None], Varied]:
    def made(call: Call, framework: str, wanted: int | None) -> Varied:
        _owned(call, framework)
        return Varied(call, varying(framework).in_format(call, name), "as it is", f"in {name}")

    return made


def _owned(call: Call, framework: str) -> None:
    if framework == "numpy":
        raise NotHere("this axis needs a model of PyTorch or JAX")
    if not varying(framework).owns_its_models(call):
        raise NotHere("the function finds its model by itself: name the model, or hand it in as an argument")


def _memory(call: Call, framework: str, wanted: int | None) -> Varied:
    if framework != "torch" or not varying("torch").has_images(call):
        raise NotHere("no argument is a batch of images (4 axes) of PyTorch")
    _owned(call, framework)
    return Varied(call, varying("torch").channels_last(call), "contiguous", "channels_last")


def _mode(call: Call, framework: str, wanted: int | None) -> Varied:
    _owned(call, framework)
    if framework == "jax" and frameworks.model_kind(call.model) != "equinox":
        raise NotHere("of JAX's models only Equinox's say by themselves whether they train")
    how = varying(framework)
    return Varied(how.in_mode(call, False), how.in_mode(call, True), "in evaluation mode", "in training mode")


def _cuda(call: Call, framework: str, wanted: int | None) -> Varied:
    if framework != "torch" or not varying("torch").has_gpu():
        raise NotHere("there is no GPU that PyTorch can use; --vary sums,tf32 predicts what one would give")
    _owned(call, framework)
    return Varied(call, varying("torch").on_device(call, "cuda"), "on the CPU", "on the GPU", opaque=True)


def _threads(call: Call, framework: str, wanted: int | None) -> Varied:
    if framework != "torch" or varying("torch").thread_count() < 2:
        raise NotHere("there is one thread only" if framework == "torch" else "threads can be chosen in PyTorch only")
    how = varying("torch")
    return Varied(call, call, f"{how.thread_count()} threads", "1 thread", setting_b=lambda: how.threads(1))


def _onednn(call: Call, framework: str, wanted: int | None) -> Varied:
    if framework != "torch" or not varying("torch").has_onednn():
        raise NotHere("oneDNN is not in use")
    return Varied(call, call, "with oneDNN", "without oneDNN", setting_b=varying("torch").without_onednn)


def _deterministic(call: Call, framework: str, wanted: int | None) -> Varied:
    if framework != "torch":
        raise NotHere("deterministic algorithms can be asked for in PyTorch only")
    return Varied(call, call, "usual algorithms", "deterministic algorithms", setting_b=varying("torch").deterministic)


_VARIED: dict[str, Callable[[Call, str, int | None], Varied]] = {
    "rows": _rows, "order": _order, "runs": _runs, "compiled": _compiled, "memory": _memory, "mode": _mode, "cuda": _cuda,
    "float64": _format("float64"), "bfloat16": _format("bfloat16"), "float16": _format("float16"), "threads": _threads,
    "onednn": _onednn, "deterministic": _deterministic,
}  # fmt: skip
