"""Calls of torch.autograd.gradcheck that the program itself makes: in which format, with which step, on values of which size."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any

import torch

from numdebug.observe.frames import Place


@dataclass
class Check:
    """One call. `largest` is the largest result that its function gave."""

    places: tuple[Place, ...]
    dtype: torch.dtype
    eps: float
    atol: float
    rtol: float
    largest: float = 0.0


def watched(original: Any, tracer: Any, seen: list[Check]) -> Any:
    """In place of gradcheck: the same call, with a note of what it was given."""

    @functools.wraps(original)
    def gradcheck(func: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        several = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        formats = [t.dtype for t in several if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point()]
        if not formats:
            return original(func, inputs, *args, **kwargs)
        lowest = max(formats, key=lambda dtype: torch.finfo(dtype).eps)
        given = dict(zip(("eps", "atol", "rtol"), args, strict=False)) | kwargs
        places, _ = tracer.frames.places(sys._getframe(1))
        check = Check(places, lowest, given.get("eps", 1e-6), given.get("atol", 1e-5), given.get("rtol", 1e-3))
        seen.append(check)

        def noted(*values: Any, **named: Any) -> Any:
            result = func(*values, **named)
            before, tracer.off = tracer.off, True
            for t in result if isinstance(result, (tuple, list)) else (result,):
                if type(t) is torch.Tensor and t.is_floating_point() and t.numel() and torch._C._functorch.peek_interpreter_stack() is None:
                    check.largest = max(check.largest, float(t.detach().abs().max()))
            tracer.off = before
            return result

        return original(noted, inputs, *args, **kwargs)

    return gradcheck
