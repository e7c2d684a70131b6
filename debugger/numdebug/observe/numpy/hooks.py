"""What the instrumented program calls in place of its own operations: each does what the program says, then leaves a record."""

from __future__ import annotations

import builtins
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import numpy as np

from numdebug.observe import Stop
from numdebug.observe.numpy.again import Again, Slot
from numdebug.observe.numpy.names import canonical, scalars_of
from numdebug.observe.numpy.tape import Cell, Places, Tape, is_array

_IN_PLACE = {name: getattr(operator, "i" + name.rstrip("_")) for name in (
    "add", "sub", "mul", "truediv", "pow", "matmul", "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift",
)}  # fmt: skip
_DRAWING = (np.random.Generator, np.random.RandomState)
_WRITING_METHODS = frozenset({"sort", "fill", "put", "partition", "resize", "byteswap", "itemset"})
_WRITING_FUNCTIONS = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"})
# From Python's numbers alone, so that they can be made again in any format.
_MADE = frozenset({"arange", "linspace", "logspace", "geomspace", "zeros", "ones", "full", "eye", "identity"})
_READS = frozenset({"print", "str", "repr", "format"})
_ITERATING = frozenset({"zip", "enumerate", "map", "filter", "list", "tuple", "sorted", "min", "max", "any", "all", "iter", "set"})
_OUTPUTS = frozenset({
    "save", "savez", "savez_compressed", "savetxt", "array2string", "array_str", "array_repr", "tofile", "tolist", "tobytes",
})  # fmt: skip
_MATH = {f.__name__: f for f in (
    np.sqrt, np.exp, np.log, np.log2, np.log10, np.log1p, np.expm1, np.sin, np.cos, np.tan, np.sinh, np.cosh, np.tanh, np.arcsin,
    np.arccos, np.arctan, np.arctan2, np.hypot, np.fabs, np.floor, np.ceil, np.trunc, np.exp2, np.cbrt, np.fmod, np.arcsinh,
    np.arccosh, np.arctanh, np.copysign, np.degrees, np.radians,
)} | {"pow": np.power, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "asinh": np.arcsinh,
      "acosh": np.arccosh, "atanh": np.arctanh}  # fmt: skip
_CONTAINERS = (list, dict, set, str, bytes)
_AGAIN = ("numpy", "scipy.special", "scipy.linalg", "scipy.fft", "scipy.signal")  # functions of their arguments alone


class Hooks:
    """`program`: the files whose functions are instrumented: what they do records itself."""

    slice = staticmethod(builtins.slice)

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.program: set[str] = set()
        self.ending = False
        self.off = False
        self.consumed: dict[int, tuple[Cell, Places]] = {}

    # -- operators ---------------------------------------------------------------------------------------------

    def binary(self, name: str, a: Any, b: Any, /) -> Any:
        """`a + b` and the like, `a < b` and the like."""
        result = getattr(operator, name)(a, b)
        if name == "mod" and isinstance(a, str):
            self._consume(b, self._places())
        elif self.tape.tracked(a) or self.tape.tracked(b):
            self._pair(name, a, b, result, self._places())
        return result

    def _pair(self, name: str, a: Any, b: Any, result: Any, places: Places) -> None:
        if not _numeric(result) or self.off:
            return
        word = canonical(name)
        scalars: dict[str, Any] = {}
        operands, args = [], []
        for side, thing in (("self", a), ("other", b)):
            plain = self._plain(thing)
            if plain is not None:
                scalars[side] = plain
                args.append(thing)
            else:
                args.append(Slot(len(operands)))
                operands.append(self.tape.cell(_array(thing)))
        if not operands:  # two constants, of which one is NumPy's
            first = isinstance(a, np.generic)
            operands, args = [self.tape.cell(a if first else b)], [Slot(0), b] if first else [a, Slot(0)]
            del scalars["self" if first else "other"]
        if "self" in scalars and word in ("sub", "add", "mul"):
            word = "rsub" if word == "sub" else word
            scalars["other"] = scalars.pop("self")
        if "self" in scalars and word == "div" and scalars["self"] == 1:
            word = "reciprocal"
        if word == "pow" and "other" in scalars:
            scalars["exponent"] = scalars.pop("other")
        self.tape.record(word, f"numpy.{name}", operands, [result], Again(getattr(operator, name), tuple(args), {}), scalars, places)

    def unary(self, name: str, a: Any, /) -> Any:
        """`-a`, `~a`."""
        result = getattr(operator, name)(a)
        if self.tape.tracked(a) and not self.off and _numeric(result):
            again = Again(getattr(operator, name), (), {})
            self.tape.record(canonical(name), f"numpy.{name}", [self.tape.cell(a)], [result], again, {}, self._places())
        return result

    def in_place(self, name: str, a: Any, b: Any, /) -> Any:
        """`a += b` for a plain name."""
        if not is_array(a) or self.off:
            result = _IN_PLACE[name](a, b)
            if self.tape.tracked(a) or self.tape.tracked(b):
                self._pair(name, a, b, result, self._places())
            return result
        return self._into(name, a, b)

    def _into(self, name: str, a: np.ndarray, b: Any) -> Any:
        places = self._places()
        mine = self.tape.cell(a)
        plain = self._plain(b)
        others = [] if plain is not None else [self.tape.cell(_array(b))]
        before = self.tape.before_write(a)
        result = _IN_PLACE[name](a, b)
        word, dtype = canonical(name), a.dtype
        key = "exponent" if word == "pow" else "other"
        function = getattr(operator, name)

        def again(to: Any, old: np.ndarray, *rest: Any) -> np.ndarray:
            return np.asarray(function(old, *rest)).astype(to, copy=False)

        call = Again(again, (dtype, Slot(0), Slot(1) if plain is None else b), {})
        scalars = {} if plain is None else {key: plain}
        if before.value.id == mine.value.id:
            self.tape.written(word, f"numpy.{name}", before, a, others, call, scalars, places)
        else:  # through a view
            self._through_view(word, f"numpy.{name}", before, mine, a, others, call, scalars, places)
        return result

    def _through_view(
        self, word: str, native: str, before: Cell, mine: Cell, a: np.ndarray, others: list[Cell], call: Again, scalars: dict[str, Any],
        places: Places,
    ) -> None:  # fmt: skip
        part = a.copy()
        (cell,) = self.tape.record(word, native, [mine, *others], [part], call, scalars, places, in_place=True)
        self.tape.about_to_set(a)
        self.tape.was_set(a, Ellipsis, cell, places)

    def in_place_item(self, name: str, a: Any, key: Any, b: Any, /) -> None:
        """`a[key] += b`."""
        old = self._get(a, key, self._places())
        if is_array(old) and is_array(a) and not self.off:
            if old.base is not None and np.shares_memory(old, a):
                new = self._into(name, old, b)
                a[key] = new
                return
        new = self.in_place(name, old, b)
        self.set(new, a, key)

    def in_place_attribute(self, name: str, a: Any, attribute: str, b: Any, /) -> None:
        """`a.attribute += b`."""
        setattr(a, attribute, self.in_place(name, getattr(a, attribute), b))

    # -- items -------------------------------------------------------------------------------------------------

    def get(self, a: Any, key: Any, /) -> Any:
        """`a[key]`."""
        return self._get(a, key, None)

    def _get(self, a: Any, key: Any, places: Places | None) -> Any:
        result = a[key]
        if self.off or not is_array(a) or not _numeric(result):
            return result
        places = places if places is not None else self._places()
        single = _whole_key(key, a)
        if single is not None:
            written = self.tape.element(a, single)
            if written is not None:
                self._alias(result, written, places)
                return result
        memory = self.tape._memory(a)
        before = memory.whole if single is not None and memory.pending and memory.scattered and a is memory.owner else None
        operands, args = [before or self.tape.cell(a)], []
        parts = key if type(key) is tuple else (key,)
        for part in parts:
            if is_array(part) and part.ndim:
                args.append(Slot(len(operands)))
                operands.append(self.tape.cell(part))
            else:
                args.append(part)
        advanced = len(operands) > 1 or any(isinstance(part, list) for part in parts)
        name = "index" if advanced else "select" if single is not None else "slice"
        index = tuple(args) if type(key) is tuple else args[0]
        again = Again(operator.getitem, (Slot(0), index), {})
        self.tape.record(name, "numpy.ndarray.__getitem__", operands, [result], again, {}, places)
        return result

    def _alias(self, thing: Any, written: Any, places: Places) -> None:
        """A single element is what was written to it, rounded to the array's format."""
        if isinstance(written, Cell):
            if written.value.dtype == thing.dtype.name:
                self.tape.known[id(thing)] = (thing, written)
            else:
                again = Again(_cast, (Slot(0), thing.dtype), {})
                self.tape.record("cast", "numpy.ndarray.__setitem__", [written], [thing], again, {}, places)

    def set(self, value: Any, a: Any, key: Any, /) -> None:
        """`a[key] = value`."""
        if self.off or not is_array(a):
            if isinstance(a, np.flatiter) and not self.off:
                self._opaque_write(a.base, lambda: operator.setitem(a, key, value), "index_put", "numpy.flatiter.__setitem__")
                return
            a[key] = value
            return
        self._look()
        held: Any = value
        if self.tape.tracked(value):
            held = self.tape.cell(value)
        elif isinstance(value, (list, tuple)):
            held = np.asarray(value)
        if is_array(held):
            held = self.tape.cell(held)
        self.tape.about_to_set(a)
        a[key] = value
        single = _whole_key(key, a)
        self.tape.was_set(a, key if single is None else single, held, self._places())

    def attribute(self, a: Any, name: str, /) -> Any:
        """`a.T` and the like."""
        result = getattr(a, name)
        if isinstance(a, (np.ndarray, np.generic)) and not self.off and self.tape.tracked(a) and _numeric(result) and result is not a:
            word = "permute" if name in ("T", "mT") else name
            again = Again(getattr, (Slot(0), name), {})
            self.tape.record(word, f"numpy.ndarray.{name}", [self.tape.cell(a)], [result], again, {}, self._places())
        return result

    def items(self, a: Any, /) -> Any:
        """What a loop goes through."""
        return self._each(a, self._places()) if is_array(a) and a.ndim and not self.off else a

    def _each(self, a: np.ndarray, places: Places) -> Iterator[Any]:
        for index in range(len(a)):
            yield self._get(a, index, places)

    def unpacked(self, a: Any, /) -> Any:
        """What several names are given at once."""
        return list(self.items(a)) if is_array(a) else a

    def shown(self, a: Any, /) -> Any:
        """A number on its way into text."""
        self._consume(a, self._places())
        return a

    # -- calls -------------------------------------------------------------------------------------------------

    def call(self, f: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`f(...)`."""
        if self.off or (type(f) is FunctionType and f.__code__.co_filename in self.program):
            return f(*args, **kwargs)
        if type(f) is MethodType and getattr(f.__func__, "__code__", None) is not None and f.__func__.__code__.co_filename in self.program:
            return f(*args, **kwargs)
        self._look()
        if isinstance(f, np.ufunc):
            return self._numpy(f, f.__name__, "", args, kwargs)
        if isinstance(getattr(f, "__self__", None), _DRAWING):
            if f.__name__ == "shuffle" and args and isinstance(args[0], np.ndarray):
                return self._opaque_write(args[0], lambda: f(*args, **kwargs), "shuffle", "numpy.random.shuffle")
            return self._given(f(*args, **kwargs))
        if type(f) is BuiltinMethodType:
            return self._builtin(f, args, kwargs)
        if isinstance(f, type):
            return self._type(f, args, kwargs)
        module = str(getattr(f, "__module__", None) or "")
        if module.split(".")[0] == "numpy" and hasattr(f, "__name__") and not isinstance(f, np.vectorize):
            return self._numpy(f, f.__name__, "", args, kwargs)
        return self._other(f, module, args, kwargs)

    def _builtin(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        owner, name = f.__self__, f.__name__
        if isinstance(owner, (np.ndarray, np.generic)):
            return self._method(f, owner, name, args, kwargs)
        if isinstance(owner, np.ufunc):
            return self._ufunc_method(f, owner, name, args, kwargs)
        if isinstance(owner, _CONTAINERS):
            if isinstance(owner, str) and name == "format":
                self._consume((args, kwargs), self._places())
            return f(*args, **kwargs)
        if owner is builtins:
            return self._python(f, name, args, kwargs)
        if owner is math:
            return self._math(f, name, args, kwargs)
        module = str(getattr(f, "__module__", None) or "")
        if module.split(".")[0] == "numpy":
            return self._numpy(f, name, "", args, kwargs)
        return self._other(f, module, args, kwargs)

    def _python(self, f: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in _READS:
            self._consume((args, kwargs), self._places())
            return f(*args, **kwargs)
        if name == "sum" and args:
            return self._sum(*args, **kwargs)
        if name in _ITERATING:
            return f(*(self.items(a) for a in args), **kwargs)
        if name in ("abs", "round", "pow") and args and any(self.tape.tracked(a) for a in args):
            result = f(*args, **kwargs)
            if name == "round":
                self._consume(args[0], self._places())
            if _numeric(result) and result is not args[0]:
                function = {"abs": np.abs, "round": np.round, "pow": np.power}[name]
                self._recorded(function, name, f"builtins.{name}", args, kwargs, result)
            return result
        return f(*args, **kwargs)

    def _sum(self, items: Iterable[Any], *start: Any, **kwargs: Any) -> Any:
        """Python's sum adds one after another; for its own floats it keeps what they lose."""
        listed = list(self.items(items))
        begin = start[0] if start else kwargs.get("start", 0)
        if not all(isinstance(x, (np.ndarray, np.generic)) for x in listed):
            result = sum(listed, *start, **kwargs)
            if any(self.tape.tracked(x) for x in listed) and _numeric(result) and all(_numeric(x) for x in listed):
                total = Again(_added, (begin, [Slot(n) for n in range(len(listed))]), {})
                self.tape.record("sum", "builtins.sum", [self.tape.cell(x) for x in listed], [result], total, {}, self._places())
            return result
        places, total = self._places(), begin
        for x in listed:
            before, total = total, total + x
            self._pair("add", before, x, total, places)
        return total

    def _math(self, f: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = f(*args, **kwargs)
        if type(result) is float and any(self.tape.tracked(a) for a in args):
            if name in _MATH:
                self._recorded(_MATH[name], name, f"math.{name}", args, {}, result)
            else:
                self._recorded(None, name, f"math.{name}", args, {}, result)
        elif name in ("fsum", "prod", "dist") and type(result) is float:
            self._recorded(None, name, f"math.{name}", tuple(_listed(a) for a in args), {}, result)
        return result

    def _type(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """float(x), np.float32(x), list(x), a class of the program's or of a library."""
        if kind in (zip, enumerate, map, filter, list, tuple, set, reversed):
            args = tuple(self.items(a) for a in args)
            return kind(*(list(a) if kind is reversed and not isinstance(a, (list, tuple, str, range)) else a for a in args), **kwargs)
        if kind is str:
            self._consume(args, self._places())
        result = kind(*args, **kwargs)
        if kind in (float, complex) or issubclass(kind, np.generic):
            source = args[0] if args else None
            if self.tape.tracked(source) and _numeric(result) and result is not source:
                self._recorded(kind, "cast", kind.__name__, (source,), {}, result)
        elif type(result).__module__.split(".")[0] not in ("builtins", "__main__", "numpy"):
            self._handed_on(args, kwargs, result)
        return result

    def _method(self, f: Any, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not _numeric(owner):
            return f(*args, **kwargs)
        if name in _WRITING_METHODS and isinstance(owner, np.ndarray):
            return self._write(f, name, f"numpy.ndarray.{name}", owner, args, kwargs)
        if name in _OUTPUTS:
            self._consume(owner, self._places())
            return f(*args, **kwargs)
        if not self.tape.tracked(owner):
            return f(*args, **kwargs)
        return self._numpy(_Method(name), name, "", (owner, *args), kwargs)

    def _ufunc_method(self, f: Any, owner: np.ufunc, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "at" and args and isinstance(args[0], np.ndarray):
            word = "index_add" if owner is np.add else f"index_{canonical(owner.__name__)}"
            return self._write(f, word, f"numpy.{owner.__name__}.at", args[0], args[1:], kwargs)
        return self._numpy(f, owner.__name__, name, args, kwargs)

    def _numpy(self, f: Any, name: str, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of NumPy's, a ufunc or a method of an array."""
        native = f"numpy.{name}" + (f".{method}" if method else "")
        if name in _OUTPUTS or name in ("set_printoptions",):
            self._consume((args, kwargs), self._places())
            return f(*args, **kwargs)
        out = kwargs.get("out")
        if name in _WRITING_FUNCTIONS and args and isinstance(args[0], np.ndarray):
            return self._write(f, name, native, args[0], args[1:], kwargs, function=f)
        if name == "nan_to_num" and kwargs.get("copy") is False and isinstance(args[0], np.ndarray):
            return self._write(f, name, native, args[0], args[1:], kwargs, function=f)
        if isinstance(out, tuple) and len(out) == 1:
            out = out[0]
        if isinstance(out, np.ndarray):
            return self._out(f, name, method, native, args, kwargs, out)
        result = f(*args, **kwargs)
        self._recorded(f, canonical(name, method), native, args, kwargs, result, scalars_of(name, args, kwargs))
        return result

    def _out(self, f: Any, name: str, method: str, native: str, args: Any, kwargs: Any, out: np.ndarray) -> Any:
        rest = {key: value for key, value in kwargs.items() if key != "out"}
        operands: list[Cell] = []
        tree = tuple(self._slotted(a, operands) for a in args)
        named = {key: self._slotted(value, operands) for key, value in rest.items()}
        before = self.tape.before_write(out)
        result = f(*args, **kwargs)
        again = None if "where" in rest else Again(_Out(f, out.dtype), (out.dtype, *tree), named)
        if again is not None and out.base is None:
            self.tape.record(canonical(name, method), native, operands, [out], again, scalars_of(name, args, rest), self._places())
        else:
            self.tape.written(canonical(name, method), native, before, out, operands, None, {}, self._places())
        return result

    def _write(
        self, f: Any, name: str, native: str, target: np.ndarray, args: tuple[Any, ...], kwargs: dict[str, Any], function: Any = None
    ) -> Any:
        """In place by anything but an operator: made again on a copy."""
        if not is_array(target):
            return f(*args, **kwargs) if function is None else f(target, *args, **kwargs)
        operands: list[Cell] = []
        tree = tuple(self._slotted(a, operands, 1) for a in args)
        before = self.tape.before_write(target)
        at = name if function is None and native.endswith(".at") else ""
        if at:
            result = f(target, *args, **kwargs)
            again = Again(_OnCopy(getattr(np, native.split(".")[1]).at), (Slot(0), *tree), {})
        elif function is None:
            result = f(*args, **kwargs)
            again = Again(_OnCopy(_Method(name)), (Slot(0), *tree), dict(kwargs))
        else:
            result = f(target, *args, **kwargs)
            again = Again(_OnCopy(f), (Slot(0), *tree), dict(kwargs))
        owner = target.base is None
        self.tape.written(canonical(name), native, before, target, operands, again if owner else None, {}, self._places())
        return result

    def _opaque_write(self, target: Any, work: Callable[[], Any], name: str, native: str) -> Any:
        before = self.tape.before_write(target)
        result = work()
        self.tape.written(name, native, before, target, [], None, {}, self._places())
        return result

    def _other(self, f: Any, module: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function of another library, or an object that can be called."""
        if module in ("__main__", "numdebug.observe.numpy.hooks") or getattr(type(f), "__module__", "") == "__main__":
            return f(*args, **kwargs)
        held = [(a, a.copy()) for a in args if is_array(a) and a.size <= 1_000_000]
        result = f(*args, **kwargs)
        for array, was in held:
            if not np.array_equal(array, was, equal_nan=array.dtype.kind in "fc"):
                now = array.copy()
                array[...] = was
                self._opaque_write(array, lambda array=array, now=now: operator.setitem(array, Ellipsis, now), "copy", f"{module}")  # type: ignore[misc]
        self._handed_on(args, kwargs, result)
        if any(_numeric(r) and isinstance(r, (np.ndarray, np.generic)) for r in _several(result)):
            again = f if module.startswith(_AGAIN) else None
            name = str(getattr(f, "__name__", type(f).__name__))
            self._recorded(again, canonical(name), f"{module}.{name}", args, kwargs, result)
        return result

    def _handed_on(self, args: Any, kwargs: Any, result: Any) -> None:
        """To something that keeps it to itself: a plot, a file, a table."""
        if result is None or not any(_numeric(r) for r in _several(result)):
            self._consume((args, kwargs), self._places())

    # -- records -----------------------------------------------------------------------------------------------

    def _recorded(
        self, f: Any, name: str, native: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any,
        scalars: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        several = _several(result)
        if not several or not all(_numeric(r) for r in several) or self.off:
            return
        if any(isinstance(r, np.ndarray) and any(r is a for a in args) for r in several):
            return  # what it was given
        operands: list[Cell] = []
        tree = tuple(self._slotted(a, operands) for a in args)
        named = {key: self._slotted(value, operands) for key, value in kwargs.items()}
        places = self._places()
        if not operands and isinstance(f, np.ufunc):  # of a constant
            operands = [self.tape.cell(a) for a in args]
            tree = tuple(Slot(n) for n in range(len(operands)))
        if not operands and canonical(name) not in _MADE and name != "empty":
            for r in several:
                self.tape.cell(r, places).value.made_by = name
            return
        name, scalars = _said(name, args, operands, scalars or {})
        given = f is None or name == "empty" or any(callable(a) and not isinstance(a, type) for a in args)
        again = None if given else Again(f, tree, named)
        self.tape.record(name, native, operands, several, again, scalars, places, given=given)

    def _given(self, result: Any) -> Any:
        """Data: random numbers and the like."""
        places = self._places()
        for r in _several(result):
            if _numeric(r) and isinstance(r, (np.ndarray, np.generic)):
                self.tape.cell(r, places).value.made_by = "random"
        return result

    def _slotted(self, tree: Any, operands: list[Cell], first: int = 0, depth: int = 4) -> Any:
        """The arguments with operands taken out; plain numbers stay."""
        if is_array(tree):
            operands.append(self.tape.cell(tree))
            return Slot(first + len(operands) - 1)
        if self.tape.tracked(tree) and self._plain(tree) is None:
            operands.append(self.tape.cell(tree))
            return Slot(first + len(operands) - 1)
        if type(tree) in (list, tuple) and depth:
            return type(tree)(self._slotted(item, operands, first, depth - 1) for item in tree)
        return tree

    def _plain(self, thing: Any) -> bool | int | float | None:
        """A number of the program's text, as Python's or NumPy's; None for what was computed, and for arrays."""
        if isinstance(thing, (bool, int)):
            return thing
        entry = self.tape.known.get(id(thing))
        if entry is not None and entry[1].value.producer is not None:
            return None
        if isinstance(thing, np.generic) and thing.dtype.kind in "biuf":
            return thing.item()  # type: ignore[no-any-return]
        return thing if type(thing) is float else None

    def _consume(self, tree: Any, places: Places, depth: int = 4) -> None:
        """Numbers that leave: printed, written into a file, handed to another library."""
        if isinstance(tree, (np.ndarray, np.generic, float)):
            if self.tape.tracked(tree):
                cell = self.tape.cell(tree)
                self.consumed.setdefault(id(cell), (cell, places))
        elif depth and type(tree) in (list, tuple, set):
            for item in tree:
                self._consume(item, places, depth - 1)
        elif depth and type(tree) is dict:
            for item in tree.values():
                self._consume(item, places, depth - 1)

    def _places(self) -> Places:
        return self.tape.frames.places(sys._getframe(2))[0]

    def _look(self) -> None:
        if self.ending:
            raise Stop


class _Method:
    """A method of arrays, of whatever array comes first."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, owner: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(owner, self.__name__)(*args, **kwargs)


class _OnCopy:
    """A function that writes into its first argument."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "")

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        held = np.array(target, copy=True)
        self.function(held, *args, **kwargs)
        return held


class _Out:
    """A function whose result is written into an array of a format."""

    def __init__(self, function: Any, dtype: np.dtype) -> None:
        self.function = function
        self.__name__ = getattr(function, "__name__", "")

    def __call__(self, dtype: Any, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.asarray(self.function(*args, **kwargs)).astype(dtype)


def _said(name: str, args: tuple[Any, ...], operands: list[Cell], scalars: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Plain numbers among the operands, in the words of PyTorch."""
    plain = [a for a in args if isinstance(a, (int, float)) and not isinstance(a, bool)]
    if name in ("maximum", "minimum") and len(operands) == 1 and len(plain) == 1:
        return "clamp", {("min" if name == "maximum" else "max"): plain[0]}
    if name in ("add", "sub", "mul", "div", "pow", "atan2", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge") and len(args) == 2:
        if len(operands) == 1 and len(plain) == 1:
            second = args[1] is plain[0]
            if name == "sub" and not second:
                return "rsub", {"other": plain[0]}
            if name == "div" and not second and plain[0] == 1:
                return "reciprocal", {"self": 1}
            key = "exponent" if name == "pow" and second else "other" if second or name in ("add", "mul") else "self"
            return name, {key: plain[0]}
    if name == "where" and len(args) == 1:
        return "nonzero", {}
    if name == "where" and len(args) == 3:
        sides = (("self", args[1]), ("other", args[2]))
        return name, {key: float(a) for key, a in sides if isinstance(a, (int, float)) and any(a is p for p in plain)}
    return name, scalars


def _numeric(thing: Any) -> bool:
    if isinstance(thing, (np.ndarray, np.generic)):
        return is_array(thing) or (isinstance(thing, np.generic) and thing.dtype.kind in "biufc")
    return isinstance(thing, (bool, int, float, complex))


def _array(thing: Any) -> Any:
    return thing if isinstance(thing, (np.ndarray, np.generic, float, complex, int)) else np.asarray(thing)


def _several(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _listed(thing: Any) -> Any:
    return list(thing) if isinstance(thing, np.ndarray) else thing


def _added(start: Any, terms: list[Any]) -> Any:
    total = start
    for term in terms:
        total = total + term
    return total


def _cast(array: Any, dtype: Any) -> np.ndarray:
    return np.asarray(array).astype(dtype)


def _whole_key(key: Any, array: np.ndarray) -> tuple[int, ...] | None:
    """The place of a single element, counted from the front; None for any other key."""
    parts = key if type(key) is tuple else (key,)
    if len(parts) != array.ndim or not parts:
        return None
    if not all(isinstance(p, (int, np.integer)) and not isinstance(p, (bool, np.bool_)) for p in parts):
        return None
    return tuple(int(p) % n for p, n in zip(parts, array.shape, strict=True)) if all(array.shape) else None
