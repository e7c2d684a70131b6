"""What one backward pass computed, operation by operation, and what it would have given with one of them changed.

A wrong formula usually has one slip: a sign, a plus for a minus, a factor left out, a mask inverted. Each is tried at each operation;
one after which every random projection agrees with the differences names the line and the change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from numdebug.graph import STRUCTURAL
from numdebug.observe.frames import Frames, Place
from numdebug.observe.torch.names import canonical

Named = dict[str, tuple[Any, int]]  # by source text: a number or tensor that the backward has at hand, and after which operation

_MADE = frozenset({"empty", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "new_zeros", "new_full"})
LONGEST = 120  # operations; a longer backward is an algorithm, not a formula


@dataclass(eq=False)
class Entry:
    """One operation. Tensors in `args` and `outs` are ids."""

    func: Any
    args: Any
    kwargs: Any
    outs: list[int]
    places: tuple[Place, ...]
    name: str


@dataclass(frozen=True)
class Change:
    """A change to one operation that makes the gradient right."""

    entry: Entry
    words: str
    kind: str  # sign, swap (first - second), swapped, factor, missing factor, mask, power, transpose
    factor: str | None = None  # source text of the factor, where it has a name or is a number


class _Id(int):
    """Stands for a tensor."""


class Tape(TorchDispatchMode):
    """Records while it is entered."""

    def __init__(self, frames: Frames) -> None:
        super().__init__()
        self.frames = frames
        self.entries: list[Entry] = []
        self.start: dict[int, torch.Tensor] = {}  # what came from outside, as it was
        self._keep: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        places, _ = self.frames.places(sys._getframe(1))
        frozen = (self._freeze(args), self._freeze(kwargs))
        out = func(*args, **kwargs)
        several = out if isinstance(out, (tuple, list)) else (out,)
        outs = []
        for tensor in several:
            if isinstance(tensor, torch.Tensor):
                self._keep[id(tensor)] = tensor
            outs.append(id(tensor))
        self.entries.append(Entry(func, *frozen, outs, places, canonical(func)))
        return out

    def _freeze(self, tree: Any) -> Any:
        if isinstance(tree, torch.Tensor):
            if id(tree) not in self._keep:
                self._keep[id(tree)] = tree
                self.start[id(tree)] = tree.detach().clone()
            return _Id(id(tree))
        if isinstance(tree, (tuple, list)):
            return type(tree)(self._freeze(item) for item in tree)
        if isinstance(tree, dict):
            return {key: self._freeze(item) for key, item in tree.items()}
        return tree

    def slice(self, result: torch.Tensor) -> list[Entry]:
        """The operations that `result` depends on, last first."""
        wanted, found = {id(result)}, []
        for entry in reversed(self.entries):
            if wanted & set(entry.outs):
                found.append(entry)
                wanted |= set(_ids(entry.args)) | set(_ids(entry.kwargs))
        return found

    def culprit(self, result: torch.Tensor) -> Entry | None:
        """The last operation in the user's own lines that computes (not merely reshapes) `result`."""
        own = [e for e in self.slice(result) if e.places]
        if any(e.func._schema.is_mutable for e in self.entries):  # written piece by piece: what was computed last
            own = [e for e in reversed(self.entries) if e.places and e.name not in _MADE]
        return next((e for e in own if e.name not in STRUCTURAL), own[0] if own else None)

    # -- changes -----------------------------------------------------------------------------------------------

    def made(self, tensor: torch.Tensor) -> int:
        """The number of the operation that made a tensor, -1 for what came from outside."""
        return next((n for n, entry in enumerate(self.entries) if id(tensor) in entry.outs), -1)

    def changes(self, result: torch.Tensor, right: Callable[[torch.Tensor], bool], named: Named) -> Iterator[Change]:
        """Every single change after which `right(result)` holds."""
        if len(self.entries) > LONGEST or any(e.func._schema.is_mutable for e in self.entries):
            return
        own = [e for e in self.slice(result) if e.places and e.name not in ("detach", "alias", "view")]
        values = self.run()
        for entry in own:
            number = self.entries.index(entry)
            at_hand = {text: value for text, (value, made) in named.items() if made < number}
            for words, kind, factor, edit in _edits(entry, values, at_hand):
                try:
                    changed = self.run({id(entry): edit}).get(id(result))
                except (RuntimeError, ValueError, TypeError, IndexError):  # shapes that do not go together
                    continue
                if changed is not None and changed.shape == result.shape and changed.dtype == result.dtype and right(changed):
                    yield Change(entry, words, kind, factor)

    def run(self, edits: dict[int, Callable[..., Any]] | None = None) -> dict[int, torch.Tensor]:
        """Every value, by id, with some operations replaced."""
        edits = edits or {}
        env = dict(self.start)
        with torch.no_grad():
            for entry in self.entries:
                args, kwargs = _thaw(entry.args, env), _thaw(entry.kwargs, env)
                out = edits[id(entry)](entry.func, args, kwargs) if id(entry) in edits else entry.func(*args, **kwargs)
                for key, tensor in zip(entry.outs, out if isinstance(out, (tuple, list)) else (out,), strict=False):
                    if isinstance(tensor, torch.Tensor):
                        env[key] = tensor
        return env


Edit = Callable[[Any, Any, Any], Any]
_SWAPS = {"sin": torch.cos, "cos": torch.sin, "sinh": torch.cosh, "cosh": torch.sinh}


def _edits(entry: Entry, values: dict[int, torch.Tensor], named: dict[str, Any]) -> Iterator[tuple[str, str, str | None, Edit]]:
    """(words, kind, factor as source text, edit) for one operation."""
    result = values.get(entry.outs[0]) if entry.outs else None
    if result is None or len(entry.outs) != 1:
        return
    if result.dtype == torch.bool:
        yield "invert the condition", "mask", None, lambda f, a, k: ~f(*a, **k)
        return
    if not result.is_floating_point():
        return
    if entry.name in ("add", "sub", "rsub"):
        for kind, first, second in (("swap", 1, -1), ("swapped", -1, 1)):
            yield "the other sign between the two terms", kind, None, lambda f, a, k, i=first, j=second: f(i * a[0], j * a[1], *a[2:], **k)  # type: ignore[misc]
    if entry.name in _SWAPS:
        other = _SWAPS[entry.name]
        yield f"{other.__name__} in place of {entry.name}", "swap", None, lambda f, a, k: other(*a, **k)
    if entry.name in ("pow",) and len(entry.args) == 2 and isinstance(entry.args[1], (int, float)):
        for more in (1, -1):
            yield f"the power {entry.args[1] + more:g}", "power", None, lambda f, a, k, more=more: f(a[0], a[1] + more, **k)  # type: ignore[misc]
    yield "the other sign", "sign", "-1", lambda f, a, k: -f(*a, **k)
    for text, value in named.items():
        if isinstance(value, torch.Tensor) and value.shape not in (result.shape, torch.Size([])) and not _fits(value, result):
            continue
        kind = "missing factor" if isinstance(value, torch.Tensor) else "factor"
        yield f"multiply by {text}", kind, text, lambda f, a, k, value=value: f(*a, **k) * value  # type: ignore[misc]
        yield f"divide by {text}", kind, f"1 / {text}", lambda f, a, k, value=value: f(*a, **k) / value  # type: ignore[misc]
    if entry.name == "matmul" and len(entry.args) == 2:
        for which in (0, 1):
            yield (
                f"transpose operand {which + 1}",
                "transpose",
                None,
                lambda f, a, k, which=which: f(  # type: ignore[misc]
                    *(x.mT if i == which else x for i, x in enumerate(a)), **k
                ),
            )


def _fits(value: torch.Tensor, result: torch.Tensor) -> bool:
    """Broadcasts to the result without making it larger."""
    try:
        return torch.broadcast_shapes(value.shape, result.shape) == result.shape
    except RuntimeError:
        return False


def _ids(tree: Any) -> Iterator[int]:
    if isinstance(tree, _Id):
        yield int(tree)
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _ids(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _ids(item)


def _thaw(tree: Any, env: dict[int, torch.Tensor]) -> Any:
    if isinstance(tree, _Id):
        return env[int(tree)]
    if isinstance(tree, (tuple, list)):
        return type(tree)(_thaw(item, env) for item in tree)
    if isinstance(tree, dict):
        return {key: _thaw(item, env) for key, item in tree.items()}
    return tree
