"""What can be asked of a graph of arrays: how it was, how it is in float64, in a region, in another format; what it did to weights."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from arrays import Written

from numdebug.observe.arrays.numbers import shown, stats
from numdebug.probing import probes
from numdebug.run import CannotAsk, Danger

HARM, BEYOND = 0.1, 100.0


def _variance(numbers: object, dtype: str = "float32") -> tuple[Written, dict[str, object]]:
    """mean(x^2) - mean(x)^2, as no one should write it."""
    w = Written()
    x = w.data(numbers, dtype)
    square = w.op("square", np.square, x)
    mean_square = w.op("mean", lambda a: np.mean(a, dtype=a.dtype), square)
    mean = w.op("mean", lambda a: np.mean(a, dtype=a.dtype), x)
    squared = w.op("square", np.square, mean)
    variance = w.shows(w.op("sub", np.subtract, mean_square, squared), "variance")
    return w, {"x": x, "mean": mean, "variance": variance, "ops": {square.producer, mean_square.producer, mean.producer, squared.producer,
                                                                variance.producer}}  # fmt: skip


FAR = 1e4 + np.random.default_rng(0).normal(0, 1, 1000)


def test_counts_and_ranges_of_every_format() -> None:
    held = stats(np.array([0.0, -0.0, 1e-40, 3.0, -5.0, np.nan, np.inf, -np.inf], np.float32))
    assert (held.size, held.nan, held.posinf, held.neginf, held.zero, held.subnormal) == (8, 1, 1, 1, 2, 1)
    assert (held.max_abs, held.lowest, held.highest) == (5.0, -5.0, 3.0)
    small = stats(np.array([1e-40, 2.0], ml_dtypes.bfloat16))
    assert small.subnormal == 1
    assert small.max_abs == 2.0
    whole = stats(np.array([-3, 0, 2], np.int64))
    assert (whole.zero, whole.max_abs, whole.lowest, whole.min_abs) == (1, 3.0, -3.0, None)
    assert stats(np.array([1 + np.nan * 1j, 2j], np.complex64)).size == 4
    assert stats(np.array([], np.float32)).size == 0


def test_formats_that_numpy_lacks_come_as_float32() -> None:
    assert shown(np.array([1.5], ml_dtypes.bfloat16)).dtype == np.float32
    assert shown(np.array([1.5], ml_dtypes.float8_e4m3fn)).dtype == np.float32
    assert shown(np.array([1.5], np.float16)).dtype == np.float16


def test_a_naive_variance_is_wrong_and_its_inputs_are_not_to_blame() -> None:
    w, v = _variance(FAR)
    run = w.run()
    exact = run.exact([v["variance"]])[v["variance"].id]
    assert exact == pytest.approx(np.var(FAR.astype(np.float32).astype(np.float64)), rel=1e-6)
    error = run.errors([v["variance"], v["mean"]], HARM)
    assert error[v["variance"].id].lost == 1
    assert error[v["mean"].id].lost == 0
    traced = run.trace_errors(v["variance"], HARM, BEYOND)[v["variance"].id]
    assert traced.lost == 1
    assert abs(traced.recorded - traced.exact) > BEYOND * traced.inherent


def test_kept_in_float64_the_whole_formula_is_right_and_the_last_difference_alone_is_not() -> None:
    w, v = _variance(FAR)
    run = w.run()
    assert run.kept_wide(frozenset(v["ops"]), v["variance"], HARM).lost == 0
    assert run.kept_wide(frozenset({v["variance"].producer}), v["variance"], HARM).lost == 1


def test_what_the_rounding_of_inputs_explains_is_not_lost() -> None:
    w = Written()
    a, b = w.data(1.2345678), w.data(1.2345677)
    c = w.op("sub", np.subtract, w.op("exp", np.exp, a), w.op("exp", np.exp, b))
    assert w.run().trace_errors(c, HARM, BEYOND)[c.id].lost == 0


def test_the_precision_probe_finds_the_line() -> None:
    w, _ = _variance(FAR)
    (fact,) = probes()["precision"].measure(w.run())
    assert fact.kind == "digits-lost"
    assert fact.site.line == 5
    w, _ = _variance(FAR - 1e4)
    assert list(probes()["precision"].measure(w.run())) == []


def test_decisions_stay_as_the_program_took_them() -> None:
    w = Written()
    x = w.data([0.1, 0.3], "float32")
    near = w.op("sub", np.subtract, w.op("mul", lambda a: a * type(a[0])(3), x), w.data([0.3, 0.9]))  # about 1e-8, of either sign
    mask = w.op("gt", lambda a: a > 0, near)
    chosen = w.op("where", np.where, mask, w.data([1.0, 1.0]), w.data([-1.0, -1.0]))
    floor = w.op("floor", np.floor, w.op("div", np.divide, w.data([0.3]), w.data([0.1])))
    run = w.run()
    exact = run.exact([mask, chosen, floor])
    assert np.array_equal(exact[mask.id], run.array(mask))
    assert np.array_equal(exact[chosen.id], run.array(chosen))
    assert np.array_equal(exact[floor.id], run.array(floor))
    relu = w.op("relu", lambda a: np.maximum(a, 0), near)
    assert np.array_equal(run.exact([relu])[relu.id] != 0, run.array(relu) != 0)


def test_random_numbers_and_what_cannot_be_computed_wide_are_data() -> None:
    w = Written()
    drawn = w.op("random", lambda: np.random.default_rng().random(3).astype("float32"), given=True)

    def only_float32(a: np.ndarray) -> np.ndarray:
        if a.dtype != np.float32:
            raise TypeError("float32 only")
        return np.sqrt(a)

    root = w.op("custom", only_float32, drawn)
    run = w.run()
    assert np.array_equal(run.exact([root])[root.id], run.array(root).astype(np.float64))
    assert run.errors([root], HARM)[root.id].worst == 0.0


def test_a_constant_is_as_exact_as_the_numbers_it_was_made_of() -> None:
    w = Written()
    step = w.op("linspace", lambda: np.linspace(0, 1, 11), dtype="float32")
    assert np.array_equal(w.run().exact([step])[step.id], np.linspace(0, 1, 11))


def _trained(rate: float = 0.1, scale: float = 1.0, dtype: str = "float32", clip: str = "") -> tuple[Written, dict[str, object]]:
    """loss = mean((x w - y)^2), its gradient (times `scale`, which makes it wrong) and a step of gradient descent."""
    g = np.random.default_rng(1)
    w = Written()
    x, y = w.data(g.normal(size=(20, 4)), dtype), w.data(g.normal(size=20), dtype)
    weight = w.data(g.normal(size=4), dtype, role="parameter", name="w")
    out = w.op("matmul", lambda a, b: a @ b, x, weight, dtype=dtype)
    off = w.op("sub", np.subtract, out, y)
    loss = w.op("mean", lambda a: np.mean(np.square(a)), off, dtype=dtype)
    back = w.op("mul", lambda a: a * (2 * scale / 20), off, dtype=dtype, phase="backward", forward=loss.producer, other=2 / 20)
    gradient = w.op("matmul", lambda a, b: a.T @ b, x, back, dtype=dtype, phase="backward", forward=out.producer)
    used = gradient
    if clip == "value":
        used = w.op("clamp", lambda a: np.clip(a, -0.01, 0.01), gradient, phase="optimizer", min=-0.01, max=0.01)
    if clip == "norm":
        norm = w.op("norm", np.linalg.norm, gradient, dtype=dtype, phase="optimizer")
        scaled = w.op("div", lambda n: np.minimum(1.0, 0.01 / n), norm, dtype=dtype, phase="optimizer")
        used = w.op("mul", np.multiply, gradient, scaled, dtype=dtype, phase="optimizer")
    step = w.op("mul", lambda a: a * np.asarray(rate, a.dtype), used, dtype=dtype, phase="optimizer", other=rate)
    after = w.op("sub", np.subtract, weight, step, dtype=dtype, phase="optimizer")
    w.graph.losses.append(loss)
    w.trains("w", weight, gradient, after)
    return w, {"loss": loss, "gradient": gradient, "w": weight, "after": after, "out": out}


def test_gradients_name_their_weight_and_where_it_is_used() -> None:
    w, v = _trained()
    (gradient,) = w.run().gradients()
    assert (gradient.name, gradient.size, gradient.dims, gradient.zeros) == ("w", 4, 1, 0)
    assert gradient.used == (v["out"].producer,)
    assert gradient.norm == pytest.approx(np.linalg.norm(w.run().array(v["gradient"])))


def test_a_right_gradient_agrees_with_differences_and_a_wrong_one_does_not() -> None:
    (right,) = _trained()[0].run().check_gradients()
    assert right.verdict == "right"
    (wrong,) = _trained(scale=0.5)[0].run().check_gradients()
    assert wrong.verdict in ("suspicious", "wrong")
    assert wrong.analytic / wrong.numeric == pytest.approx(0.5)
    with pytest.raises(CannotAsk):
        _variance(FAR)[0].run().check_gradients()


def test_gradients_against_float64() -> None:
    error, size = _trained()[0].run().gradient_error()
    assert 0 < error < 1e-5 * size


def test_updates_below_half_an_ulp_are_absorbed() -> None:
    (healthy,) = _trained()[0].run().updates()
    assert (healthy.moving, healthy.absorbed, healthy.repeats) == (4, 0, True)
    assert healthy.taken > 0
    (stuck,) = _trained(rate=1e-9)[0].run().updates()
    assert (stuck.moving, stuck.absorbed) == (4, 4)
    assert stuck.lost == pytest.approx(stuck.taken)


@pytest.mark.parametrize("kind", ["value", "norm"])
def test_clipping_is_seen(kind: str) -> None:
    w, _ = _trained(clip=kind)
    (clipping,) = w.run().clippings()
    assert clipping.kind == kind
    assert clipping.changed == 4
    assert clipping.limit == pytest.approx(0.01)
    assert (clipping.cosine > 0.9999) is (kind == "norm")
    assert _trained()[0].run().clippings() == []


def test_a_weight_behind_a_stop_gradient_never_moves() -> None:
    w = Written()
    weight = w.data([1.0, 2.0], role="parameter", name="w")
    hidden = w.op("mul", lambda a: a * 2, weight)
    cut = w.op("detach", lambda a: a, hidden)  # of the weight itself it would be freezing, on purpose
    loss = w.op("sum", np.sum, cut)
    zero = w.op("zeros", lambda: np.zeros(2, np.float32), phase="backward")
    after = w.op("sub", np.subtract, weight, zero, phase="optimizer")
    w.graph.losses.append(loss)
    w.trains("w", weight, zero, after)
    (found,) = w.run().untrained()
    assert (found.why, found.names, found.op, found.how) == ("cut", ("w",), cut.producer, "detach")
    assert _trained()[0].run().untrained() == []


def test_a_step_in_a_narrower_format() -> None:
    w, _ = _trained()
    low = w.run().emulate("bfloat16")
    assert low.finite
    assert low.gradients == 1
    assert low.loss != low.recorded_loss
    assert low.loss == pytest.approx(low.recorded_loss, rel=0.05)
    w = Written()
    x = w.data([300.0, 400.0])
    loss = w.op("sqrt", np.sqrt, w.op("sum", np.sum, w.op("square", np.square, x)))
    w.graph.losses.append(loss)
    high = w.run().emulate("float16")
    assert math.isinf(high.loss)
    assert not high.outputs_finite
    assert high.first.op == 0
    assert high.first.largest == 160000.0
    assert high.keep == ("model.py:1", "model.py:2")
    assert w.run().largest() == {0: 160000.0, 1: 250000.0, 2: 500.0}


def test_what_needs_the_program_says_so() -> None:
    run = _variance(FAR)[0].run()
    for question in (run.again, lambda: run.rewrite([])):
        with pytest.raises(CannotAsk, match="program itself is run again"):
            question()
    assert run.provoke(Danger(0, 0, "high")) is None
    assert run.functions() == run.checks() == run.overwritten() == run.unwritten() == []


def test_only_computed_floats_are_consumed_and_losses_are_too() -> None:
    w, v = _trained()
    w.shows(v["w"], "start")
    w.shows(w.op("argmax", np.argmax, v["w"]), "index")
    w.shows(v["out"], "prediction")
    assert [(s.name, s.value.id) for s in w.run().consumed()] == [("prediction", v["out"].id), (None, v["loss"].id)]
