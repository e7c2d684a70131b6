"""One recorded call of a hand-written autograd function, to be called again in float64 as often as it takes.

Everything it could change is copied, and the random generators come back as they were, for every evaluation.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np
import torch

from numdebug.observe.torch.records import Cell, Raw
from numdebug.run import CannotAsk

LARGEST = 4_000_000  # elements of one call
PARTIALS = 24  # elements moved one by one, to say what kind of mistake it is


class Called:
    """One recorded call of a hand-written function, on float64 copies."""

    def __init__(self, raw: Raw) -> None:
        self.cls = raw.func
        self.args = raw.args
        self.wanted: list[int] = []  # positions of the arguments that are differentiated
        self.values: list[torch.Tensor] = []
        size = 0
        for position, arg in enumerate(raw.args):
            if isinstance(arg, Cell):
                if arg.tensor is None:
                    raise CannotAsk("an argument was not kept")
                size += arg.tensor.numel()
                if arg.requires_grad and arg.tensor.dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                    self.wanted.append(position)
                    self.values.append(arg.tensor.detach().to(torch.float64))
        if size > LARGEST:
            raise CannotAsk("too large to be called many times")
        self._states = (torch.get_rng_state(), random.getstate(), np.random.get_state())  # noqa: NPY002  # the program's own generator

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The floating-point results for these values of the differentiated arguments."""
        return [y for y in self.outputs(inputs) if isinstance(y, torch.Tensor) and y.dtype == torch.float64]

    def outputs(self, inputs: Sequence[torch.Tensor], call: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Everything that the function returns. Fresh copies each time: it may write into its arguments."""
        given = dict(zip(self.wanted, inputs, strict=True))
        args = [given[p].clone() if p in given else _copied(arg) for p, arg in enumerate(self.args)]
        self._restore()
        try:
            result = (call or self.cls.apply)(*args)
        except Exception as error:
            raise CannotAsk(f"{self.cls.__name__} cannot be called in float64: {first_line(error)}") from error
        finally:
            self._restore()
        return result if isinstance(result, tuple) else (result,)

    def _restore(self) -> None:
        torch.set_rng_state(self._states[0])
        random.setstate(self._states[1])
        np.random.set_state(self._states[2])  # noqa: NPY002

    def name(self, index: int) -> str:
        """The parameter of `forward` that the index-th differentiated argument is."""
        parameters = list(inspect.signature(self.cls.forward).parameters.values())
        if self.cls.setup_context is torch.autograd.function._SingleLevelFunction.setup_context:
            parameters = parameters[1:]
        position = self.wanted[index]
        if position < len(parameters) and parameters[position].kind is not inspect.Parameter.VAR_POSITIONAL:
            return parameters[position].name
        return f"argument {position + 1}"


def code_of(function: Any) -> CodeType | None:
    """The code of a Python function, behind its decorators."""
    return getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None


def _copied(tree: Any) -> Any:
    """A fresh float64 copy of a recorded argument."""
    if isinstance(tree, Cell):
        if tree.tensor is None:
            raise CannotAsk("an argument was not kept")
        held = tree.tensor.detach().clone()
        return held.to(torch.float64) if held.is_floating_point() else held
    if type(tree) in (tuple, list):
        return type(tree)(_copied(item) for item in tree)
    if type(tree) is dict:
        return {key: _copied(item) for key, item in tree.items()}
    return tree


def first_line(error: Exception) -> str:
    """What an exception says, in short."""
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def some_elements(x: torch.Tensor) -> list[int]:
    """Indices of elements that are moved one by one."""
    generator = torch.Generator().manual_seed(7)
    return torch.randperm(x.numel(), generator=generator)[:PARTIALS].tolist()
