"""Watching changes nothing: operators, whole training runs and the process's global state are as they would be without us."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import opinfo  # noqa: E402
from programs import PROGRAMS  # noqa: E402
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack  # noqa: E402

from numdebug.observe import Stop  # noqa: E402
from numdebug.observe.torch.observer import TorchObserver  # noqa: E402
from numdebug.observe.torch.torchrun import TorchRun  # noqa: E402

SAMPLE = 60  # operators that every test run tries; `make optest` tries all
ALWAYS = ("add", "log", "softmax", "nn.functional.dropout", "index_put", "linalg.svd", "nn.functional.batch_norm")


@cache
def database() -> dict[str, Any]:
    """By name; importing it takes seconds, which collecting the tests need not wait for."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {opinfo.full_name(op): op for op, _ in opinfo.entries(op_db)}


@cache
def chosen() -> list[str]:
    """A sample that stays the same as long as the database does."""
    rest = sorted(set(database()) - set(ALWAYS) - set(opinfo.EXCEPTIONS))
    return [*ALWAYS, *random.Random(0).sample(rest, SAMPLE - len(ALWAYS))]


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in a fixed order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- operators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(SAMPLE))
def test_operator(number):
    op = database()[chosen()[number]]
    for _, dtype in opinfo.entries([op]):
        for in_place in (False, True) if op.inplace_variant is not None else (False,):
            verdict = opinfo.compare(op, dtype, 3, in_place)
            assert verdict.kind in ("identical", "skipped"), verdict


@pytest.mark.parametrize("name", [name for name, why in opinfo.EXCEPTIONS.items() if why is opinfo.TESTS_A_MODE])
def test_an_exception_is_not_the_recorders_doing(name):
    assert opinfo.compare(database()[name], torch.float32, 40, record=opinfo.Nothing).kind == "different"


def test_few_exceptions():
    assert len(opinfo.EXCEPTIONS) <= opinfo.MOST * len(database())
    assert set(opinfo.EXCEPTIONS) <= set(database())


# -- training runs -----------------------------------------------------------------------------------------------


class Silent:
    def add(self, *_: object, **__: object) -> None: ...


class UpTo(TorchObserver):
    """Stops between backward and update of one step, as if the step had gone wrong."""

    last: int | None = None

    def _look(self, *args: Any) -> None:
        super()._look(*args)
        if self.last is not None and self.current.index == self.last and not args[3]:
            raise Stop


NO_REPLAY = {  # programs whose recorded .grad is not what one backward pass of one loss gives
    "lbfgs": "a step has several losses",
    "transforms": "gradients come from torch.func",
    "accumulated": "two losses share the gradients",
    "checkpoint": "reentrant checkpoints refuse a backward pass of ours",
}


def run(name: str, folder: Path) -> dict[str, Any]:
    """The program's variables after a run in this process."""
    path = folder / f"{name}.py"
    path.write_text(PROGRAMS[name])
    module = ModuleType(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(PROGRAMS[name], str(path), "exec"), module.__dict__)
        except Stop:
            module.__dict__["stopped"] = True
    return module.__dict__


def watched(name: str, folder: Path, last: int | None = None, **options: Any) -> tuple[TorchObserver, dict[str, Any]]:
    """The same under the observer, which is finished."""
    observer = UpTo(folder, Silent(), options)
    observer.last = last
    try:
        variables = run(name, folder)
    finally:
        observer.finish()
    return observer, variables


def outcome(variables: dict[str, Any]) -> list[Any]:
    """What the program put into `result`."""
    found: list[Any] = variables["result"]
    assert found, "the program has no result"
    return found


@pytest.mark.parametrize("traced", [1 << 40, 0], ids=["recorded", "sentinel"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_training_run(name, traced, tmp_path):
    plain = outcome(run(name, tmp_path))
    observer, variables = watched(name, tmp_path, traced=traced)
    assert "stopped" not in variables
    assert observer.saw_backward and observer.ops
    seen = outcome(variables)
    assert len(plain) == len(seen)
    different = [number for number, (x, y) in enumerate(zip(plain, seen, strict=True)) if not opinfo.same(x, y)]
    assert not different


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NO_REPLAY])
def test_replay(name, tmp_path):
    observer, variables = watched(name, tmp_path, last=1)
    assert variables.get("stopped"), "the program has no second step"
    module = variables.get("model")
    held = {k: v.clone() for k, v in module.state_dict().items()} if module is not None else {}
    recorded = [(leaf, leaf.grad.clone()) for leaf in observer._leaves() if leaf.grad is not None]
    generator = torch.get_rng_state()
    replay = TorchRun(observer, {})
    assert replay.again().same
    gradients = replay._outcome([]).grads
    for leaf, grad in recorded:
        if grad.is_sparse:
            continue
        again = gradients[id(leaf)]
        assert torch.equal(opinfo.bits(again), opinfo.bits(grad)), f"gradient of shape {tuple(grad.shape)}"
        assert torch.equal(opinfo.bits(leaf.grad), opinfo.bits(grad))
    assert recorded
    assert torch.equal(torch.get_rng_state(), generator)
    for key, value in held.items():  # running statistics above all
        assert torch.equal(opinfo.bits(module.state_dict()[key]), opinfo.bits(value)), key


def test_from_the_command_line(tmp_path, numdebug):
    """Files that the program writes, bit for bit; the workers are forked."""
    (tmp_path / "train.py").write_text(PROGRAMS["workers"] + "\ntorch.save(result, sys.argv[1])\n")
    subprocess.run([sys.executable, "train.py", "plain.pt"], cwd=tmp_path, check=True)
    said = numdebug("diagnose", "train.py", "--", "watched.pt")
    assert said.code == 0, said
    plain, seen = (torch.load(tmp_path / file) for file in ("plain.pt", "watched.pt"))
    assert all(opinfo.same(x, y) for x, y in zip(plain, seen, strict=True))


# -- global state ------------------------------------------------------------------------------------------------


def state() -> dict[str, Any]:
    """What a program could notice of us afterwards."""
    from torch.optim import optimizer

    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "print options": dict(vars(torch._tensor_str.PRINT_OPTS)),
        "Function.apply": torch.autograd.Function.__dict__["apply"],
        "engine": torch.autograd._engine_run_backward,
        "GradScaler": (torch.amp.GradScaler.scale, torch.amp.GradScaler.update),
        "Optimizer.__init__": torch.optim.Optimizer.__init__,
        "Optimizer": dict(vars(torch.optim.Optimizer)),
        "optimizer hooks": (dict(optimizer._global_optimizer_pre_hooks), dict(optimizer._global_optimizer_post_hooks)),
        "module hooks": {k: dict(v) for k, v in vars(torch.nn.modules.module).items() if k.startswith("_global_") and isinstance(v, dict)},
        "dispatch modes": _get_current_dispatch_mode_stack(),
        "function modes": torch.overrides._get_current_function_mode_stack(),
        "saved tensor hooks": torch._C._autograd._top_saved_tensors_default_hooks(True),
        "signals": {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGSEGV)},
        "imports": list(sys.meta_path),
        "hooks of the interpreter": (sys.gettrace(), sys.getprofile(), sys.excepthook, sys.unraisablehook, sys.displayhook),
        "Tensor": dict(vars(torch.Tensor)),
    }


@pytest.mark.parametrize("name", ["mlp", "scaler", "function", "workers"])
def test_global_state(name, tmp_path):
    before = state()
    watched(name, tmp_path)
    after = state()
    assert {key for key in before if before[key] != after[key]} == set()


def test_state_after_a_stop_and_a_raise(tmp_path):
    before = state()
    watched("mlp", tmp_path, last=1)
    with pytest.raises(ZeroDivisionError):
        observer = TorchObserver(tmp_path, Silent(), {})
        try:
            x = torch.ones(3, requires_grad=True)
            x.register_hook(lambda g: 1 // 0)
            x.sum().backward()
        finally:
            observer.finish()
    after = state()
    assert {key for key in before if before[key] != after[key]} == set()


def test_finishing_draws_no_random_number(tmp_path):
    observer = TorchObserver(tmp_path, Silent(), {})
    torch.rand(3)
    before = torch.get_rng_state()
    observer.finish()
    observer.finish()
    assert torch.equal(torch.get_rng_state(), before)


def test_an_observer_is_not_kept_alive(tmp_path):
    import gc
    import weakref

    observer, _ = watched("mlp", tmp_path)
    ref = weakref.ref(observer)
    del observer
    gc.collect()
    assert ref() is None, "a finished run holds on to all it recorded"


# -- the sentinel ------------------------------------------------------------------------------------------------


def one_step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def test_the_sentinel_leaves_the_stack_of_modes(tmp_path):
    """Alone, and with modes of the program's own around and above it, which stay in their order."""
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    observer = TorchObserver(tmp_path, Silent(), {"traced": 0})
    with Counting() as outer, Counting() as inner:
        one_step(model, optimizer, torch.ones(2, 3))
        assert not observer.tracing
        assert _get_current_dispatch_mode_stack() == [outer, inner]
        before = outer.count, inner.count
        observer._trace(True)
        assert _get_current_dispatch_mode_stack() == [observer.tracer, outer, inner]
        torch.ones(3) + 1
        assert (outer.count, inner.count) == (before[0] + 2, before[1] + 2)
    assert _get_current_dispatch_mode_stack() == [observer.tracer]
    observer.finish()
    assert _get_current_dispatch_mode_stack() == []


class Counting(torch.utils._python_dispatch.TorchDispatchMode):
    """A mode of the program's own."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_the_sentinel_sees_the_step_that_fails(where, tmp_path):
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    observer = TorchObserver(tmp_path, Silent(), {"traced": 0})
    with pytest.raises(Stop):
        for step in range(9):
            x = torch.ones(2, 3)
            out = model(x).square()
            if step == 5 and where == "loss":
                out = out * float("nan")
            if step == 5 and where == "gradient":
                out = out + (model.weight * 0).sum().sqrt()
            optimizer.zero_grad()
            out.mean().backward()
            optimizer.step()
    observer.finish()
    assert observer.first_bad == observer.rerun == 5
    assert next(what for what, _, _ in observer.sinks) == where


def test_the_quick_norm_is_the_norm():
    from numdebug.observe.torch.finite import quick_norm, total_norm

    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for count in (1, 5, 40):
            tensors = [torch.randn(50).to(dtype) * 100 for _ in range(count)]
            assert quick_norm(tensors) == pytest.approx(total_norm(tensors), rel=0.01)
    assert quick_norm([]) is None
    assert quick_norm([torch.eye(3).to_sparse()]) is None


def test_a_leaf_with_the_identity_of_a_dead_one_is_watched(tmp_path):
    import weakref

    observer = TorchObserver(tmp_path, Silent(), {})
    leaf = torch.ones(3, requires_grad=True)
    gone = weakref.ref(torch.ones(1))
    assert gone() is None
    observer.tracer.leaves[id(leaf)] = gone
    with pytest.raises(Stop):
        (leaf * 0).sqrt().sum().backward()
    observer.finish()
    assert [what for what, _, _ in observer.sinks] == ["gradient"]
