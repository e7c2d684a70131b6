"""A tour of floating point: what goes wrong, from which number on, and what holds. Prints docs/tour.md.

    python examples/tour_of_floating_point.py > docs/tour.md
"""

import math
import textwrap

import numpy as np
import torch

from numdebug import stable
from numdebug.formats import FORMATS

naive = stable.naive
np.seterr(all="ignore")


def title(words):
    print(f"## {words}\n")


def say(words):
    print(textwrap.fill(" ".join(words.split()), 140, break_long_words=False, break_on_hyphens=False) + "\n")


def table(*rows):
    head, *rest = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    for row in (head, ["---"] * len(head), *rest):
        print("| " + " | ".join(row) + " |")
    print()


def number(x):
    x = np.asarray(x, dtype=np.float64)
    return f"{float(x):.6g}" if x.ndim == 0 else "[" + ", ".join(number(v) for v in x) + "]"


def decimal_fractions():
    title("0.1 + 0.2")
    say("0.1 has no finite binary expansion. Whether the three rounding errors of 0.1 + 0.2 == 0.3 cancel depends on the format:")
    rows = [("format", "0.1 + 0.2", "0.3", "equal")]
    for name in ("float64", "float32", "float16"):
        kind = np.dtype(name).type
        left, right = kind(0.1) + kind(0.2), kind(0.3)
        rows.append((name, f"{float(left):.17g}", f"{float(right):.17g}", "yes" if left == right else "no"))
    table(*rows)
    say("Compare with a tolerance that fits the format: `math.isclose(0.1 + 0.2, 0.3)` is " + f"{math.isclose(0.1 + 0.2, 0.3)}.")


def formats():
    title("The formats")
    rows = [("format", "bits", "largest", "smallest normal", "smallest", "eps", "exp overflows above", "0.1 becomes")]
    for name, form in FORMATS.items():
        tenth = f"{float(stable.round_to(0.1, name)):.8g}"
        rows.append((name, form.bits, form.max, form.tiny, form.subnormal, form.eps, f"{form.exp_limit:.4f}", tenth))
    table(*rows)
    half = FORMATS["float16"]
    say(
        f"Numbers round to zero at or below half of the smallest one, not below the smallest itself: float16(4e-8) is"
        f" {number(np.float16(4e-8))}, float16({half.flush:.3g}) is {number(np.float16(half.flush))}. An epsilon has to survive its format:"
        f" 1e-8 in float16 is {number(np.float16(1e-8))}, and 1 + 1e-10 in float32 is {number(np.float32(1) + np.float32(1e-10))}."
    )


def machine_epsilon():
    title("Machine epsilon")
    say("Halve x as long as 1 + x is more than 1. The last x that still counts is eps, the gap between 1 and the next number.")
    rows = [("format", "eps found", "largest x with 1 + x == 1")]
    for name in ("float64", "float32", "float16"):
        kind = np.dtype(name).type
        x = kind(1)
        while kind(1) + x / kind(2) > 1:
            x = x / kind(2)
        swallowed = x / kind(2)
        assert kind(1) + swallowed == 1 < kind(1) + np.nextafter(swallowed, kind(1))
        rows.append((name, f"{x:.3g}", f"{swallowed:.3g}"))
    table(*rows)
    say("The two are often mixed up: the largest x that 1 swallows is half of eps, because a tie rounds to the even neighbour, which is 1.")


def exponentials_and_logs():
    title("Where exp and log end")
    say("In float32:")
    rows = [("", "result")]
    rows += [(f"exp({x:g})", f"{np.exp(np.float32(x)):.3g}") for x in (88.7, 89, -87.3, -103, -104)]
    rows += [(f"log({x:g})", f"{np.log(np.float32(x)):.5g}") for x in (1e-45, 1e-46, 0, -1)]
    table(*rows)
    say("1e-46 is already 0 in float32, so its log is -inf. Python's own floats are float64, and math.exp raises where NumPy returns inf:")
    try:
        math.exp(1000)
    except OverflowError:
        say("`math.exp(1000)`: OverflowError.")


def softmax_and_friends():
    title("Softmax")
    say("exp(x) / Σ exp(x) overflows where one exp does. Subtracting the maximum first changes nothing but that.")
    rows = [("x", "format", "naive", "stable")]
    for x, name in (([1000, 999], "float64"), ([100, 101, 102], "float64"), ([100, 101, 102], "float32"), ([-1000, -1000], "float64")):
        given = np.array(x, dtype=name)
        rows.append((str(x), name, naive.softmax(given), stable.softmax(given)))
    table(*rows)
    say("[100, 101, 102] is harmless in float64 and fatal in float32: what matters is the format that the program really uses.")

    title("Log-sum-exp")
    rows = [("x", "format", "naive", "stable")]
    for x, name in (
        ([1000, 1001], "float64"),
        ([500, 501, 502], "float64"),
        ([500, 501, 502], "float32"),
        ([-1000, -1000], "float32"),
        ([3, 3, 3, 3], "float32"),
    ):
        given = np.array(x, dtype=name)
        rows.append((str(x), name, f"{naive.logsumexp(given):.4f}", f"{stable.logsumexp(given):.4f}"))
    table(*rows)
    x = torch.tensor([-math.inf, -math.inf], requires_grad=True)
    y = stable.logsumexp(x)
    y.backward()
    say(f"A row that is all -inf stays {y.item()}, and its gradient is {x.grad.tolist()}.")

    title("Cross-entropy")
    logits, label = torch.tensor([[0.0, 120.0]]), torch.tensor([0])
    say(
        f"The logits 0 and 120 with the first class as target, in float32: -log(softmax) gives {naive.cross_entropy(logits, label).item()},"
        f" from logits it is {stable.cross_entropy(logits, label).item()}. The sigmoid's losses are alike: with the logit 17.5 and target 0,"
        f" -log(1 - σ) is {naive.bce_with_logits(torch.tensor(17.5), 0.0).item()}, from the logit"
        f" {stable.bce_with_logits(torch.tensor(17.5), 0.0).item():.6g}."
    )


def variance():
    title("Variance")
    x = [1e6, 1e6 + 1, 1e6 + 2]
    say("Of [1e6, 1e6 + 1, 1e6 + 2]; it is 2/3. E[x²] - E[x]² takes the difference of two numbers of 1e12:")
    running = stable.Welford()
    for v in x:
        running.update(v)
    rows = [("format", "E[x²] - E[x]²", "two passes")]
    for name in ("float32", "float64"):
        given = np.array(x, dtype=name)
        rows.append((name, f"{naive.variance(given):.8f}", f"{stable.variance(given):.8f}"))
    table(*rows)
    say(f"Welford's running form, one number at a time in float64: {running.variance():.8f}.")


def sums():
    title("Long sums")
    rows = [("sum", "format", "running", "pairwise", "compensated")]
    for words, x in (
        ("10,000 times 0.1", torch.full((10_000,), 0.1)),
        ("10,000 times 0.1", torch.full((10_000,), 0.1, dtype=torch.float16)),
        ("5,000 ones", torch.ones(5_000, dtype=torch.float16)),
        ("300 ones", torch.ones(300, dtype=torch.bfloat16)),
        ("2²⁴ and four ones", torch.tensor([2.0**24, 1, 1, 1, 1])),
    ):
        found = (f"{f(x).item():.9g}" for f in (naive.kahan_sum, stable.pairwise_sum, stable.kahan_sum))
        rows.append((words, str(x.dtype).removeprefix("torch."), *found))
    table(*rows)
    say(
        """A running sum stops where a term is at most half the gap to the next number: a counter at 256 in bfloat16, 2048 in float16, 2²⁴ in
        float32."""
    )


def cancellation():
    title("Cancellation")
    x = np.float32(1.0000001) - np.float32(1)
    say(
        f"1.0000001 - 1 in float32 is {x:.4g}: {abs(x - 1e-7) / 1e-7:.1%} off. The subtraction is exact; it shows what the rounding of"
        " 1.0000001 had lost."
    )
    rows = [("float32", "naive", "stable")]
    for words, name, v in (
        ("log(1 + x) at 1e-8", "log1p", 1e-8),
        ("exp(x) - 1 at 1e-8", "expm1", 1e-8),
        ("1 - cos(x) at 1e-4", "one_minus_cos", 1e-4),
    ):
        rows.append((words, getattr(naive, name)(np.float32(v)), f"{getattr(stable, name)(np.float32(v)):.6g}"))
    table(*rows)


def gradient_check():
    title("Checking a gradient")
    say(
        """A linear layer with a cross-entropy loss; its gradient by hand is xᵀ (softmax - one-hot) / n. Centred differences in float64, with
        the step swept: for large steps the Taylor series is cut off (the error falls with h²), for small ones the difference of two nearly
        equal losses cancels (it grows with 1/h). A wrong gradient, here without the / n, is as wrong for every step."""
    )
    rng = np.random.default_rng(0)
    x, w, labels = rng.standard_normal((8, 3)), rng.standard_normal((3, 4)), rng.integers(0, 4, 8)

    def loss(weights):
        return stable.cross_entropy(x @ weights, labels).mean()

    by_hand = x.T @ (stable.softmax(x @ w) - np.eye(4)[labels]) / 8
    steps = (1e-1, 1e-2, 1e-3, 1e-5, 1e-13)
    rows = [("h", "relative error", "verdict", "without / n", "verdict")]
    for (h, right), (_, wrong) in zip(stable.sweep(loss, w, by_hand, steps), stable.sweep(loss, w, by_hand * 8, steps)):
        # How large rounding noise is differs from machine to machine; what it means does not.
        shown = f"{right:.1e}" if h > 1e-4 else "rounding"
        rows.append((f"{h:g}", shown, stable.verdict(right), f"{wrong:.2f}" if h > 1e-9 else "rounding", stable.verdict(wrong)))
    table(*rows)
    fourth = stable.relative_error(by_hand, stable.numerical_gradient(loss, w)).max()
    say(f"Fourth order with the step where both errors balance, `stable.numerical_gradient(loss, w)`: {stable.verdict(fourth)}.")
    found = naive.numerical_gradient(lambda v: (v * v).sum(), np.float32([3.0]))
    say(f"One-sided in float32 with a step of 1e-8, the derivative of w² at 3 comes out as {number(found[0])}: the step changes nothing.")


def loss_scaling():
    title("Loss scaling")
    gradients = 10 ** np.random.default_rng(0).uniform(-9, -3, 1_000_000)
    say("A million gradients, log-uniform between 1e-9 and 1e-3: the share that becomes 0.")
    rows = [("stored as", "zeros")]
    for words, scale, name in (("float16", 1, "float16"), ("float16, loss times 1024", 1024, "float16"), ("bfloat16", 1, "bfloat16")):
        rows.append((words, f"{np.mean(stable.round_to(gradients * scale, name) == 0):.1%}"))
    table(*rows)


def clipping():
    title("Clipping")
    g = np.array([10.0, 0.5])
    say("The gradient [10, 0.5], clipped to 1:")
    rows = [("how", "result", "norm", "turned by")]
    for words, clipped in (("by value", naive.clip_by_norm(g, 1.0)), ("by norm", stable.clip_by_norm(g, 1.0))):
        turned = abs(math.degrees(math.atan2(clipped[1], clipped[0]) - math.atan2(g[1], g[0])))
        rows.append((words, clipped, f"{stable.safe_norm(clipped):.4f}", f"{turned:.1f}°"))
    table(*rows)


def births():
    title("Where NaN is born")
    inf, zero, one = np.float64("inf"), np.float64(0), np.float64(1)
    table(
        ("", "result"),
        ("0 / 0", zero / zero),
        ("inf - inf", inf - inf),
        ("inf · 0", inf * zero),
        ("sqrt(-1)", np.sqrt(-one)),
        ("log(-1)", np.log(-one)),
        ("acos(1 + eps)", np.arccos(one + np.finfo(np.float64).eps)),
    )
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    (bad,) = torch.autograd.grad(torch.where(x > 0, 1 / x, 0.0).sum(), x)
    (good,) = torch.autograd.grad(stable.guarded(lambda v: 1 / v, x, x > 0).sum(), x)
    say(
        f"Guard the argument, not the result: `torch.where(x > 0, 1 / x, 0)` at x = [0, 4] is finite, and its gradient is {bad.tolist()}."
        f" With the argument made safe first, as `stable.guarded` does, it is {good.tolist()}."
    )


if __name__ == "__main__":
    print("# A tour of floating point\n")
    say(
        """What goes wrong in a model's numbers, from which number on, and what holds. `examples/tour_of_floating_point.py` computes this page;
        the stable forms are those of `numdebug.stable`, the naive ones those of `numdebug.stable.naive`."""
    )
    for part in (
        decimal_fractions,
        formats,
        machine_epsilon,
        exponentials_and_logs,
        softmax_and_friends,
        variance,
        sums,
        cancellation,
        gradient_check,
        loss_scaling,
        clipping,
        births,
    ):
        part()
