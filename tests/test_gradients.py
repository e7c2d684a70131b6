"""Hand-written derivatives against differences: what is wrong is found and explained, what is right or meant stays silent."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from opinfo import observer
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from numdebug.observe.torch.differences import compare
from numdebug.observe.torch.gradients import functions
from numdebug.observe.torch.torchrun import TorchRun
from numdebug.run import HandWritten


def examined(function: Any, *args: Any) -> list[HandWritten]:
    """The verdicts on one recorded call."""
    torch.manual_seed(0)
    watching = observer()
    result = function.apply(*[a.clone().requires_grad_(True).clone() if isinstance(a, torch.Tensor) else a for a in args])
    first = result[0] if isinstance(result, tuple) else result
    first.sum().backward()
    watching.finish()
    return functions(TorchRun(watching, {}).converter)


def culprit(function: Any) -> int:
    """The line of a function's source that is marked."""
    lines, start = inspect.getsourcelines(function)
    return start + next(n for n, text in enumerate(lines) if text.rstrip().endswith("# here"))


X = torch.linspace(-1.7, 1.9, 24).reshape(6, 4)
Y = torch.linspace(0.3, 2.1, 24).reshape(6, 4).flip(0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("mistake", "seen"),
    [
        (lambda g: g, False),
        (lambda g: -g, True),
        (lambda g: g * (1 + 1e-2), True),
        (lambda g: g * (1 + 1e-4), True),
        (lambda g: g * (torch.arange(len(g)) > 0)[:, None], True),
        (lambda g: g.index_put((torch.tensor(2), torch.tensor(5)), torch.zeros((), dtype=g.dtype)), True),
    ],
    ids=["none", "sign", "1+1e-2", "1+1e-4", "row", "element"],
)
def test_small_mistakes_are_seen_and_none_invented(mistake: Any, seen: bool, seed: int):
    class Mistaken(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.tanh(x).square()

        @staticmethod
        def backward(ctx, grad):
            y = torch.tanh(ctx.saved_tensors[0])
            return mistake(grad * 2 * y * (1 - y * y))

    x = torch.randn(9, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert all(c.disagrees is seen for c in compare(lambda xs: [Mistaken.apply(*xs)], [x], seed=seed, rounds=3))


class LostFactor(Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x)
        ctx.beta = beta
        return torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        return grad * s * (1 - s), None  # here


class WrongSign(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.cos(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sin()  # here


class PlusForMinus(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        slope = 1 + y * y  # here
        return grad * slope


class LostOuter(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * x * y * y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gx = 2 * grad * x * y * y
        gy = 2 * grad * x * y  # here
        return gx, gy


class Inverted(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0.1 * x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        mask = x < 0  # here
        return torch.where(mask, grad, 0.1 * grad)


class PassesOn(Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad  # here


class Forgotten(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, grad):
        (w,) = ctx.saved_tensors
        return grad * w, None  # here


class MeanAsSum(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return (x - y).square().mean()

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        g = 2 * grad * (x - y)  # here
        return g, -g / x.numel()


class Normalised(Function):
    """Layer normalisation whose backward lacks the term of the variance."""

    @staticmethod
    def forward(ctx, x):
        centred = x - x.mean(-1, keepdim=True)
        scale = centred.square().mean(-1, keepdim=True).add(1e-5).rsqrt()
        ctx.save_for_backward(centred * scale, scale)
        return centred * scale

    @staticmethod
    def backward(ctx, grad):
        _, scale = ctx.saved_tensors
        return scale * (grad - grad.mean(-1, keepdim=True))  # here


class OneRow(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        keep = torch.ones_like(x)
        keep[0] = 0
        return grad * x.exp() * keep  # here


class WrongSetup(Function):
    @staticmethod
    def forward(x, p):
        return x.abs() ** p

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.p = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.p * x.abs() ** ctx.p * x.sign(), None  # here


WRONG: list[tuple[Any, tuple[Any, ...], str, str, str]] = [
    (LostFactor, (X, 4.0), "factor", "x", "multiply by ctx.beta"),
    (WrongSign, (X,), "sign", "x", "the other sign"),
    (PlusForMinus, (X,), "term", "x", "the other sign between the two terms"),
    (LostOuter, (X, Y), "term", "y", "multiply by x"),
    (Inverted, (X,), "term", "x", "invert the condition"),
    (PassesOn, (X,), "term", "x", ""),
    (Forgotten, (X, Y), "nothing", "w", ""),
    (MeanAsSum, (X, Y), "factor", "x", "divide by x.numel()"),
    (Normalised, (X,), "term", "x", ""),
    (OneRow, (X,), "part", "x", ""),
    (WrongSetup, (X, 3.0), "term", "x", "the power 2"),
]


@pytest.mark.parametrize(("function", "args", "kind", "argument", "change"), WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_backward_is_found_at_its_line_with_its_kind(function: Any, args: Any, kind: str, argument: str, change: str):
    seen = examined(function, *args)
    (wrong,) = [v for v in seen if v.verdict == "wrong"]
    assert (wrong.argument, wrong.why, wrong.change) == (argument, kind, change)
    assert wrong.site is not None and wrong.site.line == culprit(function)
    assert wrong.error > 1e-3 and wrong.uncertainty < 1e-6 * abs(wrong.numeric) and len(wrong.sweep) >= 4
    assert wrong.proof
    assert all(v.verdict == "right" for v in seen if v is not wrong)


class Right(Function):
    """Several results, one of them whole numbers, and an argument that is only a switch."""

    @staticmethod
    def forward(ctx, x, y, double):
        ctx.save_for_backward(x, y)
        where = x.argmax(-1)
        ctx.mark_non_differentiable(where)
        return x * y, where, x.exp()

    @staticmethod
    def backward(ctx, grad, _, more):
        x, y = ctx.saved_tensors
        return grad * y + more * x.exp(), grad * x, None


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.exp_()
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Rectifier(Function):
    """Right, and called on a kink: a quarter of its inputs are exactly 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x >= 0)


class Dropping(Function):
    @staticmethod
    def forward(ctx, x):
        keep = (torch.rand_like(x) > 0.5) * 2.0
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


class Single(Function):
    """Right, and in float32 inside, whatever it is given."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.float().tanh().to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh() ** 2)


class Largest(Function):
    @staticmethod
    def forward(ctx, x):
        value, where = x.max(-1)
        ctx.save_for_backward(where)
        ctx.shape = x.shape
        return value

    @staticmethod
    def backward(ctx, grad):
        (where,) = ctx.saved_tensors
        return torch.zeros(ctx.shape, dtype=grad.dtype).scatter_(-1, where[:, None], grad[:, None])


class Solved(Function):
    """The square root by iteration, differentiated at the solution."""

    @staticmethod
    def forward(ctx, a):
        y = a.clone()
        for _ in range(30):
            y = 0.5 * (y + a / y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad / (2 * ctx.saved_tensors[0])


RIGHT = [
    (Right, (X, Y, True)),
    (InPlace, (X,)),
    (Rectifier, (X.clamp(min=0),)),
    (Dropping, (X,)),
    (Single, (X,)),
    (Largest, (X,)),
    (Solved, (Y,)),
]


@pytest.mark.parametrize(("function", "args"), RIGHT, ids=lambda v: getattr(v, "__name__", None))
def test_a_right_backward_is_not_doubted(function: Any, args: Any):
    seen = examined(function, *args)
    assert seen and all(v.verdict in ("right", "undecided") for v in seen), seen


class Reversal(Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Clipping(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-0.1, 0.1)


class Stopped(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


class Rounded(Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx, grad):
        return grad


class Quantised(Function):
    """8 bits over the range of the tensor: the step depends on the largest element."""

    @staticmethod
    def forward(ctx, x):
        step = x.abs().max() / 127
        return torch.round(x / step) * step

    @staticmethod
    def backward(ctx, grad):
        return grad


class Binary(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign() * x.abs().mean()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class Learned(Function):
    """A learned step size: the gradient of the step is not the derivative either."""

    @staticmethod
    def forward(ctx, x, step):
        ctx.save_for_backward(x, step)
        return torch.round((x / step).clamp(-8, 7)) * step

    @staticmethod
    def backward(ctx, grad):
        x, step = ctx.saved_tensors
        q = x / step
        inside = (q >= -8) & (q <= 7)
        return grad * inside, (grad * torch.where(inside, q.round() - q, q.clamp(-8, 7))).sum().reshape(step.shape)


class Spike(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        return grad / (1 + 10 * ctx.saved_tensors[0].abs()) ** 2


class Window(Function):
    """A clamp that lets gradients through from outside."""

    @staticmethod
    def forward(ctx, x):
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Guided(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.relu()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(min=0) * (ctx.saved_tensors[0] > 0)


class Auxiliary(Function):
    @staticmethod
    def forward(ctx, x, loss):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, torch.ones((), dtype=grad.dtype)


DESIGNED: list[tuple[Any, tuple[Any, ...]]] = [
    *((function, (X,)) for function in (Clipping, Stopped, Rounded, Quantised, Binary, Spike, Window, Guided)),
    (Reversal, (X, 0.5)),
    (Learned, (X, torch.tensor(0.1))),
    (Auxiliary, (X, torch.tensor(0.3))),
]


@pytest.mark.parametrize(("function", "args"), DESIGNED, ids=lambda v: getattr(v, "__name__", None))
def test_a_surrogate_is_told_from_a_mistake_by_what_it_computes(function: Any, args: Any):
    seen = examined(function, *args)
    assert not any(v.verdict == "wrong" for v in seen), seen
    assert any(v.verdict == "surrogate" for v in seen), seen
