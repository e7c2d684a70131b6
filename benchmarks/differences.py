"""How often `compare` is right: healthy pairs on every axis, and seeded faults in transformers and convolutional networks.

    python benchmarks/differences.py [healthy] [faults] [torch] [jax]

Prints how large benign differences are in units of the envelope, and for each fault what was said. A fault stands above rounding where,
in float64, it moves the output by more than 4 times the largest |float32 - float64| of ten runs with products summed in other orders.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import differences_jax
import differences_torch
import numpy as np

from numdebug.arithmetic import Arithmetic
from numdebug.comparing import calling
from numdebug.comparing.calling import Caller, NotHere
from numdebug.comparing.compare import Compared, compare
from numdebug.comparing.sides import Output, Side

FOLDER = Path(__file__).resolve().parent
AXES = ("rows", "order", "runs", "threads", "onednn", "deterministic", "memory", "compiled", "float64", "bfloat16", "float16")
ORDERS = 10
STANDS = 4.0


class Quiet:
    """A journal that keeps nothing."""

    def add(self, *args: Any, **data: Any) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Fault:
    """One change of one layer, and the operations that may be named for it."""

    kind: str
    layer: int


KINDS = {
    "eps": {"layer_norm", "add", "rsqrt", "batch_norm"},
    "weight": {"matmul", "conv", "mul", "t", "permute", "transpose"},
    "gelu": {"gelu", "erf", "tanh", "mul", "pow", "div", "erfc"},
    "scale": {"mul", "div", "softmax", "masked_fill", "where"},
    "reduce": {"cast", "mean", "sum"},
    "position": {"add", "embedding", "index", "gather", "slice", "cat", "arange", "iota", "roll", "remainder", "select", "view"},
    "mask": {"tril", "masked_fill", "where", "ge", "gt", "le", "lt"},
    "head": {"view", "reshape", "permute", "transpose", "_unsafe_view", "clone", "copy", "expand", "matmul"},
    "cast": {"cast"},
}


def caller(framework: str) -> Caller:
    """Calls without a time limit."""
    return Caller(FOLDER, Quiet(), framework, lambda work, watcher: work())


def healthy(framework: str, models: Any) -> Iterator[tuple[str, Compared]]:
    """Pairs that compute the same thing."""
    caller_ = caller(framework)
    for form in ("float32", "bfloat16", "float16"):
        for name, call in models.healthy(form):
            for axis in AXES:
                if axis == "compiled" and framework == "torch" and not name.startswith("mlp"):
                    continue  # half a minute of a C++ compiler each
                if axis in ("float64", "bfloat16", "float16") and form != "float32":
                    continue
                try:
                    both = calling.varied(axis, call, framework, 3)
                except NotHere:
                    continue
                print(name, form, axis, file=sys.stderr) if "-v" in sys.argv else None
                yield f"{name} {form} {axis}", compare(*caller_.sides(both), axis)
            side = caller_.watched(call, "as it is")
            assert side.run is not None
            for seed in (1, 2):
                kept = [o for o in side.outputs if o.value is not None]
                again = side.run.recompute([o.value for o in kept if o.value is not None], Arithmetic(order=seed))
                other = Side("other order", [Output(o.name, again[o.value.id], o.dtype) for o in kept if o.value is not None])
                yield f"{name} {form} sums", compare(side, other, "sums")
    for name, one, two in models.rewritten():
        yield f"{name} rewritten", compare(caller_.watched(one, "one"), caller_.watched(two, "two"), "programs")


def stands(clean: Side, wide: Callable[[Fault | None], np.ndarray], fault: Fault) -> tuple[bool, float]:
    """Whether the fault stands above rounding, and by how much."""
    assert clean.run is not None
    value = clean.outputs[0].value
    assert value is not None
    exact = wide(None)
    rounding = 0.0
    for seed in range(ORDERS):
        again = clean.run.recompute([value], Arithmetic(order=seed))[value.id]
        rounding = max(rounding, float(np.abs(again.astype(np.float64) - exact).max()))
    size = float(np.abs(wide(fault) - exact).max())
    return size > STANDS * rounding, size / rounding


def faults(framework: str, models: Any) -> Iterator[tuple[str, Fault, bool, float, Compared]]:
    """Each fault against the healthy model."""
    caller_ = caller(framework)
    for name, call_of, wide, layers, kinds in models.faulty():
        clean = caller_.watched(call_of(None), "original")
        for kind in kinds:
            for layer in range(layers if kind != "position" else 1):
                fault = Fault(kind, layer)
                faulty = caller_.watched(call_of(fault), "port")
                above, times = stands(clean, wide, fault)
                yield name, fault, above, times, compare(clean, faulty, "programs")


def written(c: Compared, fault: Fault) -> bool:
    """The line that is named is the one that holds the fault."""
    site = c.parting.op.site if c.parting is not None else None
    return site is not None and f'"{fault.kind}"' in (FOLDER / site.file).read_text().splitlines()[site.line - 1]


def main() -> None:
    """Both tables."""
    chosen = set(sys.argv[1:])
    every = (("torch", differences_torch), ("jax", differences_jax))
    frameworks = [(n, m) for n, m in every if not chosen & {"torch", "jax"} or n in chosen]
    if "faults" not in chosen or "healthy" in chosen:
        ratios: list[float] = []
        said: Counter[str] = Counter()
        bugs: list[str] = []
        for framework, models in frameworks:
            for what, found in healthy(framework, models):
                ratios.append(0.0 if found.judgement.explanation == "identical" else found.measured.ratio)
                said[found.judgement.explanation] += 1
                if not found.judgement.explained:
                    bugs.append(f"{framework} {what}: {found.judgement.explanation}, ratio {found.measured.ratio:.2f}")
        print(f"healthy pairs {len(ratios)}: called a bug {len(bugs)}; {dict(said)}")
        apart = sorted(r for r in ratios if r)
        shares = {limit: sum(r > limit for r in ratios) for limit in (1.0, 1.5, 2.0, 2.5, 3.0)}
        largest = [round(r, 2) for r in apart[-5:]]
        print(f"of {len(apart)} that differ at all: median {apart[len(apart) // 2]:.2f}, largest {largest}; above {shares}")
        print("\n".join(bugs))
    if "healthy" not in chosen or "faults" in chosen:
        rows = [row for framework, models in frameworks for row in faults(framework, models)]
        found_, right, proved, standing, below = 0, 0, 0, 0, []
        for name, fault, above, times, c in rows:
            named = c.parting.op.name if c.parting is not None else "-"
            fits = not c.judgement.explained and (named in KINDS[fault.kind] or written(c, fault))
            what = f"{name} {fault.kind} {fault.layer} ({times:.3g} times rounding)"
            standing += above
            found_ += above and not c.judgement.explained
            right += above and fits
            proved += above and fits and c.parting is not None and c.parting.cured
            if not above:
                below.append(f"{what}: {c.judgement.explanation}, ratio {c.measured.ratio:.2f}")
            elif not fits:
                print(f"{what}: {c.judgement.explanation} {named}, ratio {c.measured.ratio:.2f}")
        print(f"faults {len(rows)}: above rounding {standing}, found {found_}, right operation {right}, proved {proved}")
        print(f"below rounding {len(below)}")
        print("\n".join(below))


if __name__ == "__main__":
    begin = time.monotonic()
    main()
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
