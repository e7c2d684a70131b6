"""What a report says of a JAX program: lines with columns, loop iterations, steps, what is kept, and what could not be looked into."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from forked import loud

HEAD = "import jax\nimport jax.numpy as jnp\nfrom jax import lax\n"


@pytest.fixture
def said(diagnose_arrays, tmp_path: Path):
    """The outcome for a program, given without its imports."""

    def run(text: str):
        file = tmp_path / "program.py"
        file.write_text(HEAD + dedent(text))
        return diagnose_arrays(file)

    return run


def _first(outcome):
    return outcome.report.diagnoses[0]


def test_columns_and_iteration(said) -> None:
    d = _first(said("""
        @jax.jit
        def decay(x):
            def body(c, t):
                return c - 1.0, (c + 2.0) * jnp.log(c)
            return lax.scan(body, 5.0, x)[1].sum()
        print(decay(jnp.zeros(6)))
    """))
    assert d.site is not None
    assert (d.bug, d.site.line, d.site.column) == ("log-of-zero", 8, 37)
    assert d.site.loop == ("scan#5",)


def test_a_helper_traced_earlier_is_blamed_at_the_line_that_calls_it(said) -> None:
    found = loud(said("""
        @jax.jit
        def f(x):
            a = jnp.linalg.norm(x + 1.0)
            b = jnp.linalg.norm(x)
            return a + (x / b).sum()
        print(f(jnp.ones(3)), f(jnp.zeros(3)))
    """))
    assert found == [("division-by-zero", 9)]


def test_the_callers_of_a_jitted_helper_are_in_the_frames(said) -> None:
    d = _first(said("""
        @jax.jit
        def ratio(a, b):
            return a / b
        def outer(x):
            return ratio(x, x - x).sum()
        print(jax.jit(outer)(jnp.ones(2)))
    """))
    assert [f.function for f in d.frames] == ["<module>", "outer", "ratio"]


def test_a_training_run_in_one_scan_has_its_steps(said) -> None:
    outcome = said("""
        x = jnp.linspace(-2.0, 2.0, 32)
        def loss_fn(w):
            return jnp.mean((w * x - 3.0 * x) ** 2)
        @jax.jit
        def train(w):
            def step(w, _):
                loss, g = jax.value_and_grad(loss_fn)(w)
                return w - 2.5 * g, loss  # here
            return lax.scan(step, w, None, length=120)
        w, losses = train(1.0)
        print(losses[-1])
    """)
    d = _first(outcome)
    assert d.bug == "learning-rate-divergence" and d.confirmed == "yes"
    assert outcome.report.program.observed.steps > 20


def test_of_a_long_loop_the_failing_iteration_is_opened(said) -> None:
    d = _first(said("""
        @jax.jit
        def run(x):
            def body(c, t):
                c = c - 1.0
                return c, jnp.sqrt(c)  # fails once c is below 0
            return lax.scan(body, x, None, length=30_000)[1].sum()
        print(run(jnp.float32(20_000.5)))
    """))
    assert d.site is not None
    assert (d.bug, d.site.line, d.site.loop) == ("domain-error", 9, ("scan#20000",))


def test_donated_arguments_and_functions_jitted_before(said) -> None:
    found = loud(said("""
        from functools import partial
        def loss_fn(p):
            return jnp.log(p["w"] - p["w"]).sum()
        step = jax.jit(lambda p: (jax.tree.map(lambda a, g: a - g, p, jax.grad(loss_fn)(p)), loss_fn(p)), donate_argnums=0)
        params, loss = step({"w": jnp.ones(3)})
        print(loss)
    """))
    assert found[0] == ("log-of-zero", 7)


def test_a_scope_of_the_programs_own_is_no_derivative(said) -> None:
    d = _first(said("""
        def loss_fn(w):
            with jax.named_scope("transpose_head"):
                return jnp.log(w - w).sum()
        print(jax.jit(jax.value_and_grad(loss_fn))(jnp.ones(3)))
    """))
    assert d.site is not None
    assert (d.bug, d.site.line, d.phase) == ("log-of-zero", 7, "forward")


def test_callbacks_are_not_called_again(said, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    outcome = said(f"""
        from jax.experimental import io_callback
        def write(x):
            with open({str(log)!r}, "a") as f:
                f.write("called\\n")
            return x
        @jax.jit
        def f(x):
            y = io_callback(write, x, x)
            return (x * 2).sum() + 0 * y.sum()
        print(f(jnp.ones(3)))
    """)
    assert log.read_text() == "called\n"
    assert any("callback into Python" in note for note in outcome.report.notes)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("(-g * jnp.cos(x),)", "wrong sign"),
        ("(2.0 * g * jnp.cos(x),)", "2 times"),
        ("(g * jnp.sin(x),)", "varies"),
        ("(g * jnp.cos(x),)", None),
    ],
)
def test_hand_written_derivatives(said, rule: str, kind: str | None) -> None:
    outcome = said(f"""
        @jax.custom_vjp
        def wave(x):
            return jnp.sin(x)
        def forward(x):
            return jnp.sin(x), x
        def backward(x, g):
            return {rule}
        wave.defvjp(forward, backward)
        x = jnp.linspace(0.1, 1.0, 8)
        w = jnp.ones(8)
        for _ in range(3):
            loss, g = jax.value_and_grad(lambda w: jnp.mean((wave(w * x) - 0.3) ** 2))(w)
            w = w - 0.1 * g
        print(loss)
    """)
    if kind is None:
        assert not loud(outcome)
        return
    d = _first(outcome)
    assert d.site is not None
    assert (d.bug, d.site.line, d.confirmed) == ("wrong-gradient", 11, "yes")
    assert kind in d.because


def test_straight_through_estimators_are_meant(said) -> None:
    assert not loud(said("""
        @jax.custom_vjp
        def quantise(x):
            return jnp.round(x * 4) / 4
        quantise.defvjp(lambda x: (quantise(x), None), lambda _, g: (g,))
        w = jnp.linspace(-1.0, 1.0, 9)
        for _ in range(3):
            loss, g = jax.value_and_grad(lambda w: jnp.mean((quantise(w) - 0.2) ** 2))(w)
            w = w - 0.1 * g
        print(loss)
    """))


def test_failures_within_reach_are_warnings_with_what_moved(said) -> None:
    d = _first(said("""
        x = jax.random.normal(jax.random.key(0), (64, 8)) * 4
        y = jnp.argmax(x[:, :3], axis=1)
        def loss_fn(w):
            p = jax.nn.softmax(x @ w, axis=1)
            return -jnp.log(p[jnp.arange(64), y]).mean()
        w = jax.random.normal(jax.random.key(1), (8, 3)) * 0.3
        step = jax.jit(jax.value_and_grad(loss_fn))
        for _ in range(4):
            loss, g = step(w)
            w = w - 0.1 * g
        print(loss)
    """))
    assert (d.bug, d.severity, d.confirmed) == ("log-of-softmax", "warning", "yes")
    assert "the run stays healthy, but with" in d.because and "sigma" in d.because
