"""A recorded step computed again in another arithmetic: how far rounding, narrower products and another order of sums move it."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from arrays import Written
from scipy import special

from numdebug.arithmetic import Arithmetic, ulps
from numdebug.observe.arrays.arrayrun import ArrayRun
from numdebug.observe.arrays.graph import Piece
from numdebug.observe.arrays.recomputed import narrowed
from numdebug.recording import Value
from numdebug.run import CannotAsk

SEEDS = range(8)


def network(rows: int = 32, inner: int = 512, positive: bool = False) -> tuple[Written, dict[str, Value]]:
    """Two layers and a ReLU in float32."""
    g = np.random.default_rng(3)

    def drawn(*shape: int) -> np.ndarray:
        numbers = g.normal(size=shape) / np.sqrt(shape[0])
        return np.abs(numbers) if positive else numbers

    w = Written()
    x, first, second = w.data(drawn(rows, inner)), w.data(drawn(inner, 64)), w.data(drawn(64, 10))
    hidden = w.op("matmul", np.matmul, x, first)
    active = w.op("relu", lambda a: np.maximum(a, 0), hidden)
    out = w.op("matmul", np.matmul, active, second)
    return w, {"x": x, "first": first, "hidden": hidden, "active": active, "out": out}


def spread(run: ArrayRun, value: Value, **how: object) -> np.ndarray:
    """By element, the largest deviation of eight noisy passes from float64."""
    exact = run.recompute([value], Arithmetic(wide=True))[value.id]
    passes = [run.recompute([value], Arithmetic(noise=seed, **how))[value.id] for seed in SEEDS]
    return np.max([np.abs(p - exact) for p in passes], axis=0)


def off(run: ArrayRun, value: Value, array: np.ndarray) -> np.ndarray:
    return np.abs(array - run.recompute([value], Arithmetic(wide=True))[value.id])


def size(array: np.ndarray) -> float:
    return float(np.linalg.norm(array))


@pytest.mark.parametrize("positive", [False, True])
def test_what_ran_and_any_other_order_stay_inside_the_spread(positive: bool) -> None:
    w, v = network(positive=positive)
    run = w.run()
    room = spread(run, v["out"])
    for found in (run.array(v["out"]), *(run.recompute([v["out"]], Arithmetic(order=s))[v["out"].id] for s in range(5))):
        error = off(run, v["out"], found)
        assert size(error) < size(room)
        assert (error > room).mean() < 0.05
        assert (error < 3 * room + 1e-12).all()
        assert size(error) > size(room) / 20


def test_another_order_gives_other_digits_in_the_program_s_own_format() -> None:
    w, v = network()
    run = w.run()
    one, same, other = (run.recompute([v["out"]], Arithmetic(order=s))[v["out"].id] for s in (1, 1, 2))
    assert one.dtype == np.float32
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_nothing_asked_gives_what_was_recorded() -> None:
    w, v = network()
    run = w.run()
    assert np.array_equal(run.recompute([v["out"]], Arithmetic())[v["out"].id], run.array(v["out"]))


@pytest.mark.parametrize(("products", "wider"), [("tf32", 1000), ("tf32-truncated", 2000), ("bfloat16", 8000), ("float16", 1000)])
def test_narrower_products_have_a_spread_of_their_own(products: str, wider: float) -> None:
    """2^13 between float32 and TF32, less by what float32's long sums lose."""
    w, v = network(inner=256)
    run = w.run()
    narrow, room = spread(run, v["out"], products=products), spread(run, v["out"])
    assert wider / 10 < size(narrow) / size(room) < wider * 10
    error = off(run, v["out"], run.recompute([v["out"]], Arithmetic(products=products))[v["out"].id])
    assert size(error) < size(narrow)
    assert (error > narrow).mean() < 0.25
    assert (error < 5 * narrow).all()
    assert size(error) > 50 * size(room)


def test_truncation_pulls_towards_zero() -> None:
    w, v = network(positive=True)
    run = w.run()
    exact = run.recompute([v["out"]], Arithmetic(wide=True))[v["out"].id]
    assert (run.recompute([v["out"]], Arithmetic(products="tf32-truncated"))[v["out"].id] < exact).all()
    noisy = [run.recompute([v["out"]], Arithmetic(products="tf32-truncated", noise=s))[v["out"].id] for s in SEEDS]
    assert all((n < exact).all() for n in noisy)


def test_formats_of_products() -> None:
    numbers = np.array([1.0, 1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11 + 2.0**-20), np.inf, np.nan, 3e-41], np.float32)
    assert np.array_equal(narrowed(numbers, "tf32")[:5], [1, 1 + 2.0**-10, 1, 1 + 2.0**-9, -(1 + 2.0**-10)])
    assert np.array_equal(narrowed(numbers, "tf32-truncated")[:5], [1, 1 + 2.0**-10, 1, 1 + 2.0**-10, -1])
    many = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    assert np.array_equal(narrowed(many, "bfloat16"), many.astype(ml_dtypes.bfloat16).astype(np.float32))
    assert np.isinf(narrowed(numbers, "tf32")[5])
    assert np.isnan(narrowed(numbers, "bfloat16")[6])
    assert narrowed(many.astype(np.float64), "tf32").dtype == np.float64


def test_float64_products_have_no_narrow_units() -> None:
    g = np.random.default_rng(0)
    w = Written()
    out = w.op("matmul", np.matmul, w.data(g.normal(size=(4, 8)), "float64"), w.data(g.normal(size=(8, 3)), "float64"))
    run = w.run()
    assert np.array_equal(run.recompute([out], Arithmetic(products="tf32"))[out.id], run.array(out))


def test_given_values_cut_the_evaluation() -> None:
    w, v = network()
    run = w.run()
    zeros = np.zeros(v["active"].shape, np.float32)
    for how in (Arithmetic(), Arithmetic(wide=True), Arithmetic(noise=0), Arithmetic(order=0)):
        found = run.recompute([v["out"], v["active"]], how, {v["active"].id: zeros})
        assert not found[v["out"].id].any()
        assert not found[v["active"].id].any()
    alone = run.recompute([v["hidden"]], Arithmetic(wide=True), {v["x"].id: np.ones(v["x"].shape)})
    assert np.allclose(alone[v["hidden"].id], run.array(v["first"]).astype(np.float64).sum(axis=0))


def test_wide_is_exact_where_no_decision_differs() -> None:
    w, v = network()
    run = w.run()
    wide, exact = run.recompute([v["hidden"]], Arithmetic(wide=True)), run.exact([v["hidden"]])
    assert np.allclose(wide[v["hidden"].id], exact[v["hidden"].id], rtol=1e-15)


def test_decisions_are_those_of_the_pass() -> None:
    w = Written()
    x = w.data([1.0, -1.0])
    mask = w.op("gt", lambda a: a > 0, x)
    out = w.op("where", np.where, mask, w.data([10.0, 10.0]), w.data([20.0, 20.0]))
    run = w.run()
    turned = {x.id: np.array([-1.0, 1.0])}
    for how in (Arithmetic(), Arithmetic(wide=True), Arithmetic(noise=1)):
        found = run.recompute([mask, out], how, turned)
        assert found[mask.id].tolist() == [False, True]
        assert found[out.id].tolist() == [20.0, 10.0]


def test_random_numbers_are_as_recorded_and_what_was_made_of_replaced_values_is_left_out() -> None:
    w = Written()
    key = w.data([7.0])
    drawn = w.op("random", lambda k: np.random.default_rng().random(3).astype(np.float32), key, given=True)
    closed = w.op("call", lambda k: k + 1, key, given=True)
    sum_, other = w.op("neg", np.negative, drawn), w.op("neg", np.negative, closed)
    run = w.run()
    found = run.recompute([sum_, other], Arithmetic(noise=0))
    assert np.array_equal(found[sum_.id], -run.array(drawn).astype(np.float64))
    assert other.id in found
    patched = run.recompute([sum_, other], Arithmetic(), {key.id: np.array([8.0])})
    assert set(patched) == {sum_.id}


def test_what_cannot_be_computed_is_left_out() -> None:
    runs = iter([True])

    def once(a: np.ndarray) -> np.ndarray:
        if not next(runs, False):
            raise RuntimeError("it has side effects")
        return np.sqrt(a)

    w = Written()
    x = w.data([2.0])
    bad, good = w.op("custom", once, x), w.op("exp", np.exp, x)
    after = w.op("neg", np.negative, bad)
    run = w.run()
    assert set(run.recompute([bad, good, after], Arithmetic(wide=True))) == {good.id}
    with pytest.raises(CannotAsk, match="custom cannot be computed again: it has side effects"):
        run.recompute([after], Arithmetic(noise=0))


def test_what_knows_one_format_only_is_computed_in_it() -> None:
    def only_float32(a: np.ndarray) -> np.ndarray:
        if a.dtype != np.float32:
            raise TypeError("float32 only")
        return np.sqrt(a)

    w = Written()
    root = w.op("custom", only_float32, w.data([2.0]))
    run = w.run()
    assert run.recompute([root], Arithmetic(wide=True))[root.id] == run.array(root)
    assert 0 < spread(run, root) < 1e-6


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("relu", lambda a: np.maximum(a, 0)), ("neg", np.negative), ("abs", np.abs), ("view", np.ravel), ("amax", np.max),
        ("clamp", lambda a: np.clip(a, -1, 1)), ("floor", np.floor), ("argmax", np.argmax), ("permute", np.transpose),
    ],
)  # fmt: skip
def test_what_moves_selects_or_decides_has_no_rounding(name: str, how: Callable[..., object]) -> None:
    w = Written()
    x = w.data(np.random.default_rng(0).normal(size=(5, 7)))
    value = w.op(name, how, x)
    run = w.run()
    assert not spread(run, value).any()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "how", "half_ulps"), [("mul", np.multiply, 1), ("div", np.divide, 1), ("exp", lambda a, b: np.exp(a), ulps("exp"))]
)
def test_an_operation_moves_by_half_an_ulp_of_its_format(
    dtype: str, name: str, how: Callable[..., np.ndarray], half_ulps: float
) -> None:
    eps = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    g = np.random.default_rng(0)
    w = Written()
    value = w.op(name, how, w.data(g.uniform(1, 2, 200), dtype), w.data(g.uniform(1, 2, 200), dtype), dtype=dtype)
    run = w.run()
    relative = spread(run, value) / np.abs(run.recompute([value], Arithmetic(wide=True))[value.id])
    assert 0.3 * half_ulps * eps / 2 < np.median(relative) < 1.5 * half_ulps * eps / 2
    most = 1.0001 if half_ulps == 1 else 3.5 / np.sqrt(3)  # of a function, what was measured is the root mean square
    bound = most * eps / 2 * np.abs(run.array(value)).astype(np.float64) * half_ulps
    assert (off(run, value, run.array(value)) <= bound).all()


def test_a_function_that_cancels_is_off_by_ulps_of_its_operand() -> None:
    w = Written()
    x = w.data([-4.0, -3.0, 3.0])
    out = w.op("gelu", lambda a: a / 2 * (1 + special.erf(a / np.sqrt(2))), x, dtype="float32")
    run = w.run()
    room = spread(run, out)
    assert (room > 0.5 * 2.0**-24 * np.abs(run.array(x))).all()
    assert room[0] > 1000 * 2.0**-24 * abs(run.array(out)[0])


def test_counts_masks_and_exact_results_have_no_rounding() -> None:
    w = Written()
    mask = w.data([[1, 0, 1, 1], [0, 0, 1, 0]])
    count = w.op("sum", lambda a: np.sum(a, axis=1, dtype=a.dtype), mask)
    half = w.op("div", lambda a: a / a.dtype.type(2), count, other=2.0)
    same = w.op("eq", np.equal, half, w.data([1.5, 0.5]))
    third = w.op("div", lambda a: a / a.dtype.type(3), w.data([1.0]), other=3.0)
    hits = w.op("matmul", np.matmul, mask, w.data(np.eye(4)))
    run = w.run()
    assert run.recompute([same], Arithmetic(noise=5))[same.id].tolist() == [True, True]
    assert not spread(run, half).any()
    assert not spread(run, hits).any()
    assert spread(run, third).any()


def test_whole_numbers_stay_whole_in_float64() -> None:
    w = Written()
    labels = w.op("cast", lambda a: a.astype(np.float64), w.data([0, 1, 1, 0], "bool"), dtype="float64")
    doubled = w.op("mul", lambda a: a * 2.0, labels, dtype="float64", other=2.0)
    thirds = w.op("div", lambda a: a / 3.0, labels, dtype="float64", other=3.0)
    run = w.run()
    assert not spread(run, doubled).any()
    room = spread(run, thirds)
    assert room[1:3].any()
    assert not room[[0, 3]].any()


def test_a_constant_column_of_whole_numbers_has_no_spread() -> None:
    w = Written()
    g = np.random.default_rng(0)
    x = w.data(np.column_stack([g.normal(size=60), np.full(60, 3.0), np.full(60, 0.1)]))
    mean = w.op("mean", lambda a: np.mean(a, axis=0), x, dim=0)
    deviation = w.op("std", lambda a: np.std(a, axis=0), x, dim=0)
    run = w.run()
    for value in (mean, deviation):
        assert [bool(e) for e in spread(run, value)] == [True, False, True]


@pytest.mark.parametrize("kind", ["random", "positive", "cancelling"])
@pytest.mark.parametrize("length", [8, 100, 1000, 16384])
def test_the_spread_of_sums_fits_their_error(kind: str, length: int) -> None:
    """float32 against float64 for BLAS, NumPy's sums by halves and its columns, one row after another."""
    g = np.random.default_rng(length)
    a, b = g.normal(size=(32, length)), g.normal(size=(length, 32))
    if kind == "positive":
        a, b = np.abs(a), np.abs(b)
    if kind == "cancelling":
        a[:, length // 2 :] = -a[:, : length // 2] + 1e-3 * a[:, length // 2 :]
        b[length // 2 :] = b[: length // 2]
    w = Written()
    w.graph.recording.framework = "numpy"
    left, right = w.data(a), w.data(b)
    product = w.op("matmul", np.matmul, left, right)
    rows = w.op("sum", lambda x: np.sum(x, axis=1), left, dim=1)
    columns = w.op("sum", lambda x: np.sum(x, axis=0), right, dim=0)
    running = w.op("cumsum", lambda x: np.cumsum(x, axis=1), left, dim=1)
    run = w.run()
    long = length / 384 if length > 384 else 1.0  # BLAS adds up blocks of 384; a single row, or a GPU, all terms one after another
    for value, most in ((product, 4 * long if kind == "positive" else 4 * min(long, 2.5)), (rows, 6.0), (columns, 6.0), (running, 6.0)):
        error, room = off(run, value, run.array(value)), spread(run, value)
        assert size(error) < size(room) < most * size(error), value.producer
        assert (error > room).mean() < 0.25


def test_narrow_formats_are_summed_up_in_float32() -> None:
    g = np.random.default_rng(0)
    w = Written()
    a, b = w.data(g.normal(size=(20, 4000)), "bfloat16"), w.data(g.normal(size=(4000, 20)), "bfloat16")
    product = w.op("matmul", lambda x, y: np.matmul(x.astype(np.float32), y.astype(np.float32)) if x.dtype != np.float64 else x @ y, a, b,
                   dtype="bfloat16")  # fmt: skip
    run = w.run()
    exact = run.recompute([product], Arithmetic(wide=True))[product.id]
    assert (spread(run, product) <= 1.01 * 2.0**-8 * np.abs(exact) + 1e-3).all()
    for how in (Arithmetic(), Arithmetic(order=0)):
        found = run.recompute([product], how)[product.id]
        assert found.dtype == np.float32
        assert np.array_equal(found, found.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_terms_scattered_onto_the_same_place_are_a_sum() -> None:
    g = np.random.default_rng(0)

    def add(base: np.ndarray, where: np.ndarray, terms: np.ndarray) -> np.ndarray:
        out = base.copy()
        np.add.at(out, where, terms)
        return out

    w = Written()
    base, where, terms = w.data(np.zeros(4)), w.data([0, 1, *[2] * 300], "int64"), w.data(g.normal(size=302))
    out = w.op("index_put", add, base, where, terms, accumulate=True)
    run = w.run()
    room = spread(run, out)
    assert room[[0, 1, 3]].tolist() == [0, 0, 0]
    assert 0 < off(run, out, run.array(out))[2] < room[2] < 1e-4


def test_a_composite_is_computed_piece_by_piece() -> None:
    """Softmax of large numbers: what is rounded is the difference to the maximum, so that the result stays good."""
    w = Written()
    x = w.data(1e4 + np.arange(5.0))

    def softmax(a: np.ndarray) -> np.ndarray:
        e = np.exp(a - a.max())
        return e / e.sum()

    out = w.op("softmax", softmax, x, dim=-1)
    run = w.run()
    assert (spread(run, out) < 1e-5 * run.array(out)).all()
    names: list[str] = []

    def inside(arrays, step):
        def one(name, function, *given):
            names.append(name)
            return step(Piece(name, lambda a, wide: [function(*a)], ("float32",)), given)[0]

        top = one("amax", np.max, arrays[0])
        e = one("exp", np.exp, one("sub", np.subtract, arrays[0], top))
        return [one("div", np.divide, e, one("sum", np.sum, e))]

    w.graph.nodes[-1].inside = inside
    assert (spread(run, out) < 1e-5 * run.array(out)).all()
    assert spread(run, out).any()
    assert names[:5] == ["amax", "sub", "exp", "sum", "div"]


def test_a_longer_budget_than_four_hundred_thousand_operations_is_not_granted() -> None:
    w, v = network()
    run = w.run()
    run.graph.recomputed = 400_000
    with pytest.raises(CannotAsk, match="too long"):
        run.recompute([v["out"]], Arithmetic())
