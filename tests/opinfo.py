"""PyTorch's own operator database, run with and without the recorder and compared bit for bit."""

from __future__ import annotations

import collections
import copy
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = (torch.float32, torch.bfloat16)
SEED = 20_240
SAMPLES = 4  # inputs tried for each operator and format
PATIENCE = 20  # plain runs that must agree before a difference is put down to the recorder


TESTS_A_MODE = (
    "its backward formula asks whether any dispatch mode is on and then sums in another order; a mode that does nothing has the same effect"
)
EMPTY = "returns memory as it was found: differs from run to run without the recorder"
LAPACK = "differs from run to run without the recorder, by where its work space happens to lie"
EXCEPTIONS = {  # operators that are not bit-identical under the recorder, and why
    "empty": EMPTY,
    "empty_like": EMPTY,
    "empty_permuted": EMPTY,
    "empty_strided": EMPTY,
    "new_empty": EMPTY,
    "new_empty_strided": EMPTY,
    "linalg.lstsq": LAPACK,
    "linalg.lstsq/grad_oriented": LAPACK,
    "prod": TESTS_A_MODE,
    "masked.prod": TESTS_A_MODE,
    "masked_fill": TESTS_A_MODE,  # only the gradient of a fill value that is a tensor
}
MOST = 0.02  # share of the entries that may be listed


@dataclass(frozen=True)
class Verdict:
    """What became of one operator in one format. `kind`: identical, different, unstable, skipped."""

    name: str
    dtype: torch.dtype
    kind: str
    why: str = ""
    samples: int = 0
    differentiated: int = 0


def full_name(op: Any) -> str:
    """nn.functional.gelu, or linalg.norm/subgradients_at_zero for a variant."""
    return op.name + (f"/{op.variant_test_name}" if op.variant_test_name else "")


def entries(database: Any) -> Iterator[tuple[Any, torch.dtype]]:
    """Every operator in every format of DTYPES that it supports on the CPU."""
    for op in database:
        for dtype in DTYPES:
            if op.supports_dtype(dtype, "cpu") and not op.name.startswith("jiterator_"):  # compiles for CUDA, whatever it says
                yield op, dtype


def silent_journal() -> Any:
    """A journal that keeps nothing."""

    class Silent:
        def add(self, *_: object, **__: object) -> None: ...

    return Silent()


def observer(**options: Any) -> Any:
    """The observer as a program gets it, but one that never stops: operators may well give infinities."""
    from numdebug.observe.torch.observer import TorchObserver

    class Tolerant(TorchObserver):
        def _bad(self) -> None:
            self.sinks.clear()

    return Tolerant(Path(__file__).parent, silent_journal(), {"traced": 1 << 60, **options})


def compare(op: Any, dtype: torch.dtype, samples: int = SAMPLES, in_place: bool = False, record: Callable[[], Any] = observer) -> Verdict:
    """Outputs and gradients of `samples` inputs: twice without the recorder, then once with it. `record` starts the recorder."""
    name = full_name(op)
    function = in_place_variant(op) if in_place else op.op
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(SEED)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            inputs = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), samples))
    except Exception as error:
        return Verdict(name, dtype, "skipped", f"no sample inputs: {type(error).__name__}: {first_line(error)}")
    seen = differentiated = 0
    why = ""
    for sample in inputs:
        try:
            one, two = (evaluate(function, sample, differentiable) for _ in range(2))
        except Exception as error:
            why = why or f"does not run by itself: {type(error).__name__}: {first_line(error)}"
            continue
        if difference(one, two):
            return Verdict(name, dtype, "unstable", f"without the recorder, from run to run: {difference(one, two)}")
        watching = record()
        try:
            three = evaluate(function, sample, differentiable)
        except Exception as error:
            return Verdict(name, dtype, "different", f"raises under the recorder: {type(error).__name__}: {first_line(error)}")
        finally:
            watching.finish()
        if difference(one, three):
            plain = (difference(one, evaluate(function, sample, differentiable)) for _ in range(PATIENCE))
            unstable = next(filter(None, plain), "")
            if unstable:
                return Verdict(name, dtype, "unstable", f"without the recorder, from run to run: {unstable}")
            return Verdict(name, dtype, "different", difference(one, three))
        seen += 1
        differentiated += bool(one.gradients)
    if not seen:
        return Verdict(name, dtype, "skipped", why or "no sample inputs")
    return Verdict(name, dtype, "identical", why, seen, differentiated)


def in_place_variant(op: Any) -> Callable[..., Any]:
    """log_ for log, on a tensor that was computed, so that it may be overwritten, and whose new value is then used."""

    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        made = first * 1.5 if first.is_floating_point() else first.clone()
        return op.inplace_variant(made, *args, **kwargs) + made

    return call


class Nothing(TorchDispatchMode):
    """A dispatch mode that does nothing: what it changes is PyTorch's doing, not the recorder's."""

    def __init__(self) -> None:
        super().__init__()
        self.__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))

    def finish(self) -> None:
        """Off again."""
        self.__exit__(None, None, None)


@dataclass(frozen=True)
class Result:
    """What one call gave: everything it returned, what it left in its arguments, and the gradients."""

    outputs: list[Any]
    arguments: list[Any]
    gradients: list[torch.Tensor | None]
    generator: torch.Tensor


def evaluate(function: Callable[..., Any], sample: Any, differentiable: bool) -> Result:
    """One call on fresh copies of the sample's tensors, differentiated with random weights on the outputs."""
    arguments = fresh((sample.input, sample.args, sample.kwargs))
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        returned = function(arguments[0], *arguments[1], **arguments[2])
        if sample.output_process_fn_grad is not None and differentiable:
            processed = sample.output_process_fn_grad(returned)
        else:
            processed = returned
        leaves = [t for t in tree_flatten(arguments)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        roots = [t for t in tree_flatten(processed)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        gradients: list[torch.Tensor | None] = []
        if differentiable and leaves and roots:
            total = sum(weighted(root) for root in roots)
            if total.requires_grad:
                total.backward()
            gradients = [leaf.grad for leaf in leaves]
    return Result(tree_flatten(returned)[0], tree_flatten(arguments)[0], gradients, torch.get_rng_state())


def weighted(root: torch.Tensor) -> torch.Tensor:
    """A real scalar that every element of `root` enters with a weight of its own (plain sums have trivial gradients)."""
    if root.layout is not torch.strided:
        root = root.to_dense()
    if root.is_complex():
        root = torch.view_as_real(root.resolve_conj())
    weights = torch.linspace(0.5, 1.5, max(root.numel(), 1), dtype=torch.float64).to(root.dtype)
    return (root * weights[: root.numel()].reshape(root.shape)).sum()


def fresh(tree: Any) -> Any:
    """The same structure with tensors copied: same strides, fresh leaves."""

    def copied(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        held = item.detach()
        made = copy.deepcopy(held) if held.layout is torch.strided else held.clone()
        return made.requires_grad_(item.requires_grad)

    return tree_map(copied, tree)


def difference(a: Result, b: Result) -> str:
    """Where two results are not the same, bit for bit; empty where they are."""
    pairs = (
        ("output", a.outputs, b.outputs),
        ("argument", a.arguments, b.arguments),
        ("gradient", a.gradients, b.gradients),
        ("random generator", [a.generator], [b.generator]),
    )
    for what, left, right in pairs:
        if len(left) != len(right):
            return f"{len(left)} against {len(right)} {what}s"
        for number, (x, y) in enumerate(zip(left, right, strict=True)):
            if not same(x, y):
                return f"{what} {number}: {distance(x, y)}"
    return ""


def same(x: Any, y: Any) -> bool:
    """Type, shape, strides' meaning and every bit."""
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        if (x.dtype, x.shape, x.layout, x.requires_grad) != (y.dtype, y.shape, y.layout, y.requires_grad):
            return False
        if x.layout is not torch.strided:
            return all(same(p, q) for p, q in zip(parts(x), parts(y), strict=True))
        if x.stride() != y.stride():
            return False
        return torch.equal(bits(x), bits(y))
    return type(x) is type(y) and bool(x == y or (x != x and y != y))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as bytes."""
    held = tensor.detach().resolve_conj().resolve_neg()
    if held.is_quantized:
        held = held.int_repr()
    return torch.empty(held.numel(), dtype=held.dtype).copy_(held.reshape(-1)).view(torch.uint8)


def parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Indices and values of a sparse tensor, as they are stored."""
    held = tensor.detach()
    if held.layout is torch.sparse_coo:
        return held._indices(), held._values()
    if held.layout in (torch.sparse_csr, torch.sparse_bsr):
        return held.crow_indices(), held.col_indices(), held.values()
    if held.layout in (torch.sparse_csc, torch.sparse_bsc):
        return held.ccol_indices(), held.row_indices(), held.values()
    return tuple(held.unbind())  # jagged


def distance(x: Any, y: Any) -> str:
    """In words, for the table of what differs."""
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return f"{x!r:.40} against {y!r:.40}"
    if (x.dtype, x.shape, x.layout) != (y.dtype, y.shape, y.layout):
        return f"{x.dtype}{list(x.shape)} {x.layout} against {y.dtype}{list(y.shape)} {y.layout}"
    if x.requires_grad != y.requires_grad:
        return "only one requires grad"
    if x.layout is torch.strided and x.stride() != y.stride():
        return f"strides {x.stride()} against {y.stride()}"
    if x.layout is torch.strided and x.is_floating_point():
        p, q = x.detach().double(), y.detach().double()
        return f"largest difference {float((p - q).abs().max()):.3g} of {float(p.abs().max()):.3g}"
    return "other values"


def first_line(error: BaseException) -> str:
    """The first line of a message, shortened."""
    return (str(error).splitlines() or [""])[0][:120]


def main(samples: int) -> int:
    """Every operator, out of place and in place, in every format; prints what is not identical, then counts."""
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    begin = time.monotonic()
    verdicts = []
    for op, dtype in entries(op_db):
        for in_place in (False, True):
            if in_place and op.inplace_variant is None:
                continue
            verdict = compare(op, dtype, samples, in_place)
            verdicts.append((verdict, in_place))
            if verdict.kind == "different":
                also = compare(op, dtype, samples, in_place, Nothing).kind == "different"
                print(f"{verdict.name} {dtype} different: {verdict.why}{'; so under a mode that does nothing' if also else ''}", flush=True)
            elif verdict.kind != "identical":
                print(f"{verdict.name}{'_' * in_place} {dtype} {verdict.kind}: {verdict.why}", flush=True)
    for in_place in (False, True):
        chosen = [v for v, variant in verdicts if variant is in_place]
        kinds = collections.Counter(v.kind for v in chosen)
        counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ("identical", "different", "unstable", "skipped"))
        print(
            f"{'in-place variants' if in_place else 'operators'}: {len({v.name for v in chosen})} entries, {len(chosen)} with formats:"
            f" {counts}; {sum(v.samples for v in chosen)} inputs, {sum(v.differentiated for v in chosen)} differentiated"
        )
    names = {v.name for v, _ in verdicts}
    unlisted = {v.name for v, _ in verdicts if v.kind in ("different", "unstable")} - set(EXCEPTIONS)
    share = len(EXCEPTIONS) / len(names)
    print(f"listed as exceptions: {len(EXCEPTIONS)} of {len(names)} entries ({share:.1%}); not listed: {sorted(unlisted) or 'none'}")
    print(f"{time.monotonic() - begin:.0f} s")
    return int(bool(unlisted) or share > MOST)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 40))
