"""The program's own calls of networks in which dropout or batch statistics are at work, and the same network asked again."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from numdebug.answers import Answers, NetworkCall
from numdebug.observe.frames import Frames
from numdebug.observe.torch.finite import tensors_in
from numdebug.observe.torch.records import Raw
from numdebug.recording import Op
from numdebug.run import CannotAsk

MODES = frozenset({
    "aten::bernoulli_", "aten::bernoulli", "aten::native_dropout", "aten::native_batch_norm", "aten::_native_batch_norm_legit",
    "aten::cudnn_batch_norm", "aten::_batch_norm_with_update", "aten::batch_norm", "aten::dropout", "aten::dropout_",
    "aten::feature_dropout",
})  # fmt: skip
"""Operations that training mode switches on."""
TURNS = 4  # of the last optimizer steps: one after the other, two networks were trained by themselves
KEPT = 8  # calls with gradients, and as many without: each keeps its input


def training_mode(op: Op, module: Any) -> str | None:
    """See Run."""
    if op.name == "bernoulli" and op.in_place and isinstance(op.scalars.get("p"), float) and 0 < op.scalars["p"] < 1:
        return "dropout"
    if op.name == "dropout" and op.scalars.get("train"):
        return "dropout"
    if op.name == "batch_norm" and op.scalars.get("training"):
        given = len([v for v in op.operands if len(v.shape) == 1]) >= 4  # weight, bias and both running statistics
        if given or isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            return "batch statistics"
    return None


@dataclass
class Call:
    """One call of an outermost module."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    modes: list[tuple[torch.nn.Module, bool]]
    outside: int
    grad: bool
    records: set[int] = field(default_factory=set)

    def input(self) -> torch.Tensor | None:
        """The first array that it was given."""
        return next((t for t in (*self.args, *self.kwargs.values()) if isinstance(t, torch.Tensor) and t.dim() > 0), None)


class Calls:
    """The last ones of one run."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self._kept: dict[bool, deque[Call]] = {True: deque(maxlen=KEPT), False: deque(maxlen=KEPT)}

    def note(self, record: Raw) -> None:
        """An operation of MODES is about to run."""
        frame: Any = sys._getframe(2)
        outermost, outside = None, 0
        while frame is not None:
            kind = self.frames.kind(frame.f_code)
            if kind == 3:
                outermost, outside = frame, 0
            elif kind == 1:
                outside += 1
            elif kind == 2:
                break
            frame = frame.f_back
        if outermost is None:
            return
        held = outermost.f_locals
        module, args, kwargs = held.get("self"), held.get("args", ()), held.get("kwargs", {})
        kept = self._kept[record.grad]
        if kept and kept[-1].module is module and kept[-1].args is args:
            kept[-1].records.add(record.index)
        elif isinstance(module, torch.nn.Module):
            modes = [(m, m.training) for m in module.modules()]
            kept.append(Call(module, args, dict(kwargs), modes, outside, record.grad, {record.index}))

    def of(self, record: Raw) -> Call | None:
        """The call that an operation ran in."""
        return next((call for call in self._kept[record.grad] if record.index in call.records), None)

    def trained_on(self, call: Call) -> bool:
        """Whether a call of the same network with gradients had the same input."""
        given = call.input()
        for other in self._kept[True]:
            if other is call or other.module is not call.module or given is None:
                continue
            theirs = other.input()
            if theirs is not None and theirs.shape == given.shape and theirs.dtype == given.dtype and bool(torch.equal(theirs, given)):
                return True
        return False


def described(observer: Any, record: Raw) -> NetworkCall | None:
    """See Run.network_call."""
    call = observer.tracer.calls.of(record)
    if call is None:
        return None
    with observer.quietly():
        copied = [observer.training.copied(p) for p in call.module.parameters()]
        return NetworkCall(call.outside, bool(copied) and all(copied), _rivals(observer), observer.tracer.calls.trained_on(call))


def _rivals(observer: Any) -> bool:
    """Optimizers that take turns, each with parameters of its own."""
    lately = {given.optimizer for given in list(observer.training.given)[-TURNS:]}
    owned = [{id(p) for group in o.param_groups for p in group["params"]} for o in observer.optimizers if id(o) in lately]
    return any(not a & b for n, a in enumerate(owned) for b in owned[:n])


def ask_again(observer: Any, record: Raw) -> Answers:
    """See Run.ask_again. The network is left as it was: weights, statistics, modes and random numbers."""
    call = observer.tracer.calls.of(record)
    given = call.input() if call is not None else None
    if call is None or given is None:
        raise CannotAsk("the call of the network was not kept")
    rows = given.shape[0]
    part = rows // 2 if rows >= 4 else rows - 1
    with observer.quietly(), torch.no_grad(), _left_alone(call):
        try:
            first = _answer(call, rows, rows)
            repeated = _apart(first, _answer(call, rows, rows))
            fewer = _fewer(call, first, rows, part)
            call.module.eval()
            calm = _answer(call, rows, rows)
            repeated_evaluating = _apart(calm, _answer(call, rows, rows))
            fewer_evaluating = _fewer(call, calm, rows, part)
        except Exception as why:  # of the program's own network, called once more
            raise CannotAsk(f"asked again, the network raised {type(why).__name__}") from why
    return Answers(rows, part, repeated, fewer, repeated_evaluating, fewer_evaluating, float(first.abs().max()))


@contextmanager
def _left_alone(call: Call) -> Iterator[None]:
    """As it was at the time of the call, and afterwards as it is now."""
    now = [(m, m.training) for m in call.module.modules()]
    kept = [(b, b.clone()) for b in call.module.buffers()]
    numbers = torch.get_rng_state()
    try:
        for module, mode in call.modes:
            module.training = mode
        yield
    finally:
        torch.set_rng_state(numbers)
        for buffer, before in kept:
            buffer.copy_(before)
        for module, mode in now:
            module.training = mode


def _answer(call: Call, rows: int, part: int) -> torch.Tensor:
    """The first array of the answer for the first `part` rows of the input."""

    def cut(held: Any) -> Any:
        return held[:part] if part != rows and isinstance(held, torch.Tensor) and held.dim() and held.shape[0] == rows else held

    result = call.module(*(cut(a) for a in call.args), **{k: cut(a) for k, a in call.kwargs.items()})
    answer = next((t for _, t in tensors_in("", result) if t.is_floating_point() and t.numel()), None)
    if answer is None:
        raise CannotAsk("the network's answer holds no numbers")
    return answer.clone()


def _fewer(call: Call, whole: torch.Tensor, rows: int, part: int) -> float | None:
    if part < 1 or not whole.dim() or whole.shape[0] != rows:
        return None
    try:
        return _apart(whole[:part], _answer(call, rows, part))
    except (RuntimeError, ValueError):  # batch statistics need more than one value
        return None


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max()) if a.shape == b.shape else float("inf")
