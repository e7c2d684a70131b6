"""The same PyTorch computation another way: in another format or layout, compiled, in another mode, with other settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from numdebug.load.calls import Call


def _mapped(change: Callable[[torch.Tensor], torch.Tensor], held: Any) -> Any:
    """A copy of nested arguments with each tensor changed; modules and plain values stay."""
    if isinstance(held, torch.Tensor):
        return change(held)
    if isinstance(held, tuple) and hasattr(held, "_fields"):
        return type(held)(*(_mapped(change, h) for h in held))
    if isinstance(held, (tuple, list)):
        return type(held)(_mapped(change, h) for h in held)
    if isinstance(held, dict):
        return {k: _mapped(change, h) for k, h in held.items()}
    return held


def changed(call: Call, tensors: Callable[[torch.Tensor], torch.Tensor], module: Callable[[torch.nn.Module], Any]) -> Call:
    """The call on a copy of its model, and of models among its arguments. Models that a function finds elsewhere stay as they are."""

    def whole(held: Any) -> Any:
        if isinstance(held, torch.nn.Module):
            return module(copy.deepcopy(held))
        return _mapped(tensors, held)

    args, kwargs = tuple(whole(a) for a in call.args), {k: whole(a) for k, a in call.kwargs.items()}
    model = module(copy.deepcopy(call.model)) if isinstance(call.model, torch.nn.Module) else call.model
    return replace(call, args=args, kwargs=kwargs, model=model, function=model if model is not None else call.function)


def own_copy(call: Call) -> Call:
    """The call on copies of its tensors, so that what it writes into them reaches nobody else."""

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if tensor.requires_grad else tensor.clone()

    return call.with_arguments(
        tuple(_mapped(copied, a) for a in call.args), {k: _mapped(copied, a) for k, a in call.kwargs.items()}
    )


def owns_its_models(call: Call) -> bool:
    """The model is called itself, or handed in: what is changed about a copy takes effect."""
    return isinstance(call.model, torch.nn.Module) or any(isinstance(a, torch.nn.Module) for a in (*call.args, *call.kwargs.values()))


def in_format(call: Call, name: str) -> Call:
    """Parameters, buffers and inputs in this number format."""
    dtype: torch.dtype = getattr(torch, name)
    return changed(call, lambda t: t.to(dtype) if t.is_floating_point() else t, lambda m: m.to(dtype))


def on_device(call: Call, name: str) -> Call:
    """Everything on this device."""
    return changed(call, lambda t: t.to(name), lambda m: m.to(name))


def channels_last(call: Call) -> Call:
    """Images with the channels innermost in memory."""
    return changed(
        call,
        lambda t: t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t,
        lambda m: m.to(memory_format=torch.channels_last),
    )


def has_images(call: Call) -> bool:
    """Whether a layout makes a difference."""
    return any(isinstance(a, torch.Tensor) and a.dim() == 4 for a in (*call.args, *call.kwargs.values()))


def in_mode(call: Call, training: bool) -> Call:
    """Dropout and batch normalisation as in training, or not."""
    return changed(call, lambda t: t, lambda m: m.train(training))


def trains(call: Call) -> bool:
    """The model is in training mode and has layers that compute something else there."""
    return isinstance(call.model, torch.nn.Module) and any(
        m.training and isinstance(m, torch.nn.modules.dropout._DropoutNd | torch.nn.modules.batchnorm._BatchNorm)
        for m in call.model.modules()
    )


def compiled(call: Call) -> Call:
    """By torch.compile."""
    function = torch.compile(copy.deepcopy(call.model) if isinstance(call.model, torch.nn.Module) else call.function)
    return replace(call, function=function, model=None)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside of operations."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def without_onednn() -> Iterator[None]:
    """PyTorch's own kernels and the BLAS library alone."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@contextmanager
def deterministic() -> Iterator[None]:
    """Deterministic algorithms where there are some."""
    before, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


def thread_count() -> int:
    """Threads inside of operations now."""
    return torch.get_num_threads()


def has_onednn() -> bool:
    """Whether there is oneDNN to switch off."""
    return bool(torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled())


def has_gpu() -> bool:
    """Whether there is a GPU to compare with."""
    return bool(torch.cuda.is_available())


@contextmanager
def repeatable() -> Iterator[None]:
    """The program's random numbers come back as they were."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)
