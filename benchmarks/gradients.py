"""How good and how dear the gradient check is: what it detects, what it says of PyTorch's own operators, and its budget.

    python benchmarks/gradients.py [detect] [operators] [budget]

docs/benchmarks.md holds the last figures.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_flatten, tree_unflatten

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from opinfo import full_name
from torch.testing._internal.common_methods_invocations import op_db

from numdebug.observe.torch.differences import compare, moved

TRIALS = 50  # for each mistake
FORWARDS, ERROR, FASTER = 10, 1e-8, 100  # the budget for 1e5 parameters, against gradcheck(fast_mode=True)
MOST = 0.02  # share of the operators that may be listed below
LISTED = {
    "native_layer_norm": "the gradients of its saved mean and scale are not propagated",
    "native_batch_norm": "as native_layer_norm",
    "_native_batch_norm_legit": "as native_layer_norm",
    "_batch_norm_with_update": "as native_layer_norm",
    "as_strided_scatter": "its base is not differentiated where the strides overlap",
    "nn.functional.max_unpool1d": "indices that occur twice: which of the two is written is not defined",
    "nn.functional.max_unpool2d": "as max_unpool1d",
    "nn.functional.max_unpool3d": "as max_unpool1d",
    "normal": "declared not to be differentiable in its mean and standard deviation",
    "normal/number_mean": "as normal",
}

FORMULAS: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]]]] = {
    "softmax": (lambda x: torch.softmax(x, -1), [(8, 12)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (16,), w, b), [(10, 16), (16,), (16,)]),
    "linear, tanh": (lambda x, w: torch.tanh(x @ w), [(16, 8), (8, 12)]),
    "convolution": (lambda x, w: F.conv2d(x, w), [(2, 3, 8, 8), (4, 3, 3, 3)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 6, 4), (2, 6, 4), (2, 6, 4)]),
}


def zeroed_row(g: torch.Tensor, n: int) -> torch.Tensor:
    return g.reshape(g.shape[0], -1).index_fill(0, torch.tensor([n % g.shape[0]]), 0.0).reshape(g.shape)


def one_element(g: torch.Tensor, n: int) -> torch.Tensor:
    return g.reshape(-1).index_fill(0, torch.tensor([n % g.numel()]), 0.0).reshape(g.shape)


MISTAKES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "none": lambda g, n: g,
    "sign flip": lambda g, n: -g,
    "zeroed row": zeroed_row,
    "one element zero": one_element,
    "scale 1+1e-2": lambda g, n: g * (1 + 1e-2),
    "scale 1+1e-4": lambda g, n: g * (1 + 1e-4),
}


def with_mistake(formula: Callable[..., torch.Tensor], which: int, mistake: Callable[[torch.Tensor, int], torch.Tensor], trial: int) -> Any:
    """An autograd function for the formula whose gradient for one argument has the mistake."""

    class Mistaken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(*inputs)
            return formula(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            with torch.enable_grad():
                leaves = [x.detach().requires_grad_(True) for x in ctx.saved_tensors]
                found = torch.autograd.grad(formula(*leaves), leaves, grad)
            return tuple(mistake(g, trial) if i == which else g for i, g in enumerate(found))

    return Mistaken.apply


def detect(trials: int = TRIALS) -> dict[str, tuple[int, int, int]]:
    """By mistake: (trials in which the guilty argument was named and no other, detected at all, trials)."""
    table: dict[str, tuple[int, int, int]] = {}
    for name, mistake in MISTAKES.items():
        exact = any_ = 0
        for trial, (formula, shapes) in zip(range(trials), itertools.cycle(FORMULAS.values()), strict=False):
            generator = torch.Generator().manual_seed(trial)
            inputs = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
            which = trial % len(inputs)
            function = with_mistake(formula, which, mistake, 7 * trial + 3)
            seen = list(compare(lambda xs, f=function: [f(*xs)], inputs, seed=trial, rounds=3))
            guilty = {c.index for c in seen if c.disagrees}
            exact += guilty == ({which} if name != "none" else set())
            any_ += bool(guilty)
        table[name] = (exact, any_, trials)
    return table


def operators() -> tuple[int, dict[str, float], dict[str, str]]:
    """(operators checked in float64, relative error of those that disagree at the sample and near it, those that take no copies)."""
    wrong: dict[str, float] = {}
    refused: dict[str, str] = {}
    checked = 0
    for op in op_db:
        if not op.supports_autograd or torch.float64 not in op.supported_backward_dtypes("cpu") or op.name.startswith("jiterator_"):
            continue
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            samples = list(itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), 6))
            try:
                seen = [error for sample in samples if (error := _sample(op, sample)) is not None]
            except RuntimeError as error:
                refused[full_name(op)] = str(error).splitlines()[0]
                continue
        checked += bool(seen)
        if any(seen):
            wrong[full_name(op)] = max(seen)
    return checked, wrong, refused


def _sample(op: Any, sample: Any) -> float | None:
    """The largest relative error of one sample that also disagrees nearby; None where there is nothing to differentiate."""
    flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, t in enumerate(flat) if isinstance(t, torch.Tensor) and t.requires_grad and _plain(t)]
    if not places:
        return None
    state = torch.get_rng_state()

    def call(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        torch.set_rng_state(state)
        given = list(flat)
        for i, x in zip(places, xs, strict=True):
            given[i] = x.clone()
        first, args, kwargs = tree_unflatten(given, spec)
        out = sample.output_process_fn_grad(op.gradcheck_wrapper(op.op, first, *args, **kwargs))
        return [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and _plain(t)]

    inputs = [flat[i].detach() for i in places]
    here = {c.index: c.error for c in compare(call, inputs) if c.disagrees}
    near = {c.index for c in compare(call, moved(inputs, 1)) if c.disagrees} if here else set()
    return max((error for index, error in here.items() if index in near), default=0.0)


def _plain(t: torch.Tensor) -> bool:
    return t.dtype == torch.float64 and t.layout == torch.strided


def budget() -> tuple[int, float, float, float]:
    """(forwards, relative error, seconds, seconds of gradcheck in its fast mode) for a network of 1e5 parameters."""
    torch.manual_seed(0)
    shapes = [(64, 256), (256,), (256, 256), (256,), (256, 64), (64,)]
    parameters = [torch.randn(shape, dtype=torch.float64) / 16 for shape in shapes]
    x, y = torch.randn(16, 64, dtype=torch.float64), torch.randn(16, 64, dtype=torch.float64)
    count = 0

    def loss(ps: list[torch.Tensor]) -> list[torch.Tensor]:
        nonlocal count
        count += 1
        h = x
        for w, b in zip(ps[:-2:2], ps[1:-2:2], strict=True):
            h = torch.tanh(h @ w + b)
        return [F.mse_loss(h @ ps[-2] + ps[-1], y)]

    (found,) = compare(loss, parameters, together=True)
    forwards = count
    ours = min(_seconds(lambda: list(compare(loss, parameters, together=True))) for _ in range(5))
    leaves = [p.clone().requires_grad_(True) for p in parameters]
    peer = min(_seconds(lambda: torch.autograd.gradcheck(lambda *ps: loss(list(ps))[0], leaves, fast_mode=True)) for _ in range(3))
    return forwards, found.error, ours, peer


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> int:
    """What was asked for, or everything; 0 where all bounds are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["detect", "operators", "budget", []], default=[])
    chosen = parser.parse_args().what or ["detect", "operators", "budget"]
    torch.set_num_threads(1)
    kept = True
    if "detect" in chosen:
        for name, (exact, any_, trials) in detect().items():
            print(f"{name:18} detected {any_:3} of {trials}, the guilty argument and no other named {exact:3} of {trials}")
    if "operators" in chosen:
        checked, wrong, refused = operators()
        fresh = {name: error for name, error in wrong.items() if name not in LISTED}
        kept &= not fresh and len(wrong) <= MOST * checked
        print(
            f"{checked} operators in float64: {len(wrong)} disagree ({len(wrong) / checked:.1%}), not listed: {fresh or 'none'};"
            f" cannot be called on a copy of their sample: {refused or 'none'}"
        )
    if "budget" in chosen:
        forwards, error, ours, peer = budget()
        kept &= forwards <= FORWARDS and error <= ERROR
        print(
            f"1e5 parameters: {forwards} forwards (≤ {FORWARDS}), error {error:.1e} (≤ {ERROR:.0e}), {ours * 1e3:.1f} ms;"
            f" gradcheck(fast_mode=True) {peer * 1e3:.0f} ms, {peer / ours:.0f}x (≥ {FASTER}x)"
        )
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
