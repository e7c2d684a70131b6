"""What a verdict costs, in forward passes of a 4-layer GPT, and what one replay with emulated products costs.

    python benchmarks/compare_cost.py

One thread, thread CPU time; each figure is the median of several, beside plain forwards of the same run.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import workloads
from differences import caller

from numdebug.arithmetic import Arithmetic
from numdebug.comparing.compare import compare
from numdebug.load.calls import Call

PASSES = 5


def seconds(work: Callable[[], Any], passes: int = PASSES) -> float:
    """Median of thread CPU time."""
    spent = []
    for _ in range(passes):
        begin = time.thread_time()
        work()
        spent.append(time.thread_time() - begin)
    return statistics.median(spent)


def main() -> None:
    """The table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = workloads.GPT().eval()
    ids = torch.randint(0, 256, (8, 128))
    caller_ = caller("torch")

    def forward() -> Any:
        with torch.no_grad():
            return model(ids)

    call = Call("model(ids)", forward)
    plain = seconds(forward)
    recorded = seconds(lambda: caller_.watched(call, "a"), 3)
    side = caller_.watched(call, "a")
    run = side.run
    assert run is not None
    value = side.outputs[0].value
    assert value is not None
    still = seconds(lambda: run.recompute([value], Arithmetic()), 3)
    tf32 = seconds(lambda: run.recompute([value], Arithmetic(products="tf32")), 3)
    noise = seconds(lambda: run.deviations(side.values, Arithmetic(noise=0)), 3)
    print(f"plain forward {plain * 1000:.0f} ms; {len(side.ops)} operations")
    print(f"recorded forward {recorded / plain:.2f}; replay {still / plain:.2f}")
    print(f"replay with TF32 products {tf32 / plain:.2f}, {tf32 / still:.2f} of a plain replay")
    print(f"one pass with noise, every value kept: {noise / plain:.2f}")

    def other() -> Any:
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
            return model(ids)

    def verdict() -> Any:
        return compare(caller_.watched(call, "a"), caller_.watched(Call("", other), "b"), "onednn")

    print(f"verdict, benign: {seconds(verdict, 3) / plain:.1f} forwards ({verdict().judgement.explanation})")
    wrong = workloads.GPT().eval()
    wrong.load_state_dict(model.state_dict())
    last = [m for m in wrong.modules() if isinstance(m, torch.nn.LayerNorm)][3]
    last.eps = 1e-4

    def fault() -> Any:
        with torch.no_grad():
            return wrong(ids)

    def found() -> Any:
        return compare(caller_.watched(call, "a"), caller_.watched(Call("", fault), "b"), "programs")

    said = found()
    named = said.parting.op.name if said.parting is not None else "nothing"
    print(f"verdict, fault: {seconds(found, 3) / plain:.1f} forwards ({said.judgement.explanation} at {named})")


if __name__ == "__main__":
    main()
