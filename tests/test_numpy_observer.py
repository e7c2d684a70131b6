"""NumPy programs: recorded in a second run, unchanged in what they compute; harm is named, and what is handled stays silent."""

from __future__ import annotations

import builtins
import io
import sys
import textwrap
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from numdebug.diagnosing import Request, diagnose
from numdebug.observe.arrays.arrayrun import ArrayRun
from numdebug.observe.numpy.instrument import HOOK
from numdebug.observe.numpy.recorder import Recorder
from numdebug.recording import Op


def recorded(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ArrayRun, ModuleType]:
    """Run a program recorded, in this process."""
    file = folder / "model.py"
    file.write_text("import numpy as np\n" + textwrap.dedent(text))
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    recorder = Recorder(folder)
    try:
        exec(recorder.code(file.read_text(), str(file)), module.__dict__)
    finally:
        recorder.finish()
    assert recorder.graph is not None
    return ArrayRun(recorder.graph, {}), module


def only(run: ArrayRun, name: str) -> Op:
    """The one operation of that name."""
    (found,) = [op for op in run.recording.ops if op.name == name]
    return found


def repeats(run: ArrayRun) -> None:
    """Every operation, made again on what it was given, gives what was recorded."""
    for node in run.graph.nodes:
        if not node.given:
            again = node.compute([run.graph.arrays[v.id].copy() for v in node.op.operands], False)
            for value, array in zip(node.op.outputs, again, strict=True):
                held = run.graph.arrays[value.id]
                assert array.dtype == held.dtype, node.op
                assert np.array_equal(array, held, equal_nan=held.dtype.kind in "fc"), node.op


# -- what is recorded --------------------------------------------------------------------------------------------

EXPRESSIONS = [
    ("1.0 - x", "rsub", {"other": 1.0}),
    ("x - 1.0", "sub", {"other": 1.0}),
    ("1 / x", "reciprocal", {"self": 1}),
    ("x ** 2", "pow", {"exponent": 2}),
    ("np.maximum(x, 1e-8)", "clamp", {"min": 1e-8}),
    ("np.clip(x, 0, 3)", "clamp", {"min": 0, "max": 3}),
    ("np.exp(x)", "exp", {}),
    ("x.sum(axis=0)", "sum", {"dim": 0}),
    ("np.mean(x, keepdims=True)", "mean", {"keepdim": True}),
    ("x.astype(np.float32)", "cast", {}),
    ("np.where(x > 1, x, 0.0)", "where", {"other": 0.0}),
    ("x @ x", "matmul", {}),
    ("np.add.reduce(x)", "sum", {}),
    ("x == 1.0", "eq", {"other": 1.0}),
    ("x[1:]", "slice", {}),
    ("x[x > 1]", "index", {}),
]


@pytest.mark.parametrize(("expression", "name", "scalars"), EXPRESSIONS, ids=[e for e, _, _ in EXPRESSIONS])
def test_operations_have_the_names_and_numbers_that_probes_know(
    expression: str, name: str, scalars: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = recorded(f"x = np.array([0.5, 1.0, 2.0])\ny = {expression}\n", tmp_path, monkeypatch)
    op = only(run, name)
    assert op.scalars == scalars
    assert (op.site.line, op.site.column, op.site.end_column) == (3, 5, 5 + len(expression))
    repeats(run)


def test_a_value_is_followed_through_scalars_lists_loops_and_floats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        x = np.exp(np.array([1.0, 2.0, 3.0], np.float32))
        total = np.float32(0)
        for value in x:
            total += value
        parts = [float(v) / 2 for v in x]
        a, b, c = x
        out = {"sum": sum(parts), "total": total, "ab": max(a, b) * c}
    """
    run, module = recorded(text, tmp_path, monkeypatch)
    names = {s.name for s in run.consumed()}
    assert {"out['sum']", "total", "out['ab']"} <= names
    exact = run.exact([s.value for s in run.consumed() if s.name == "out['ab']"])
    assert next(iter(exact.values())) == pytest.approx(np.exp(5.0), rel=1e-15)
    assert module.out["sum"] == sum(module.parts)
    repeats(run)


def test_writes_make_new_values_and_old_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        a = np.arange(12.0).reshape(3, 4)
        before = a.sum()
        row = a[1]
        row[2] = 50.0
        a[0, 0] += 1
        a[:, 3] *= 2.0
        middle = a.sum()
        a.T[1] = -1.0
        np.add(row, 1.0, out=row)
        a.sort(axis=1)
        u = np.zeros(5)
        for i in range(1, 5):
            u[i] = u[i - 1] + 0.1 * i
        u[0], u[1] = u[1], u[0]
        after = a.sum() + u.sum()
    """
    run, module = recorded(text, tmp_path, monkeypatch)
    repeats(run)
    sums = [float(run.array(op.outputs[0])) for op in run.recording.ops if op.name == "sum"]
    assert sums[:2] == [module.before, module.middle]
    (last,) = (s.value for s in run.consumed() if s.name == "after")
    assert float(run.array(last)) == module.after
    assert float(run.exact([last])[last.id]) == pytest.approx(module.after)


def test_recurrences_go_from_element_to_element(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "u = np.zeros(200)\nfor i in range(1, 200):\n    u[i] = u[i - 1] * 0.9 + 1.0\nlast = u[-1] * 1.5\n"
    run, _ = recorded(text, tmp_path, monkeypatch)
    assert sum(op.name == "index_put" for op in run.recording.ops) == 1  # all that was written, once the array is looked at
    assert len(run.recording.ops) < 3 * 200


# -- what is not changed -----------------------------------------------------------------------------------------

TRICKY = '''
from __future__ import annotations
import math
from dataclasses import dataclass, field
from functools import reduce

@dataclass
class Base:
    """Has a docstring."""
    scale: float = 2.0
    seen: list[float] = field(default_factory=list)
    def apply(self, x):
        self.scale *= 1.5
        self.seen += [float(x.sum())]
        return x * self.scale

class Child(Base):
    def apply(self, x, *more, sign=-1, **rest):
        return sign * super().apply(x) + len(more) + len(rest)

def halves(x):
    while x.size > 1:
        x = x[: x.size // 2]
        yield x.copy()

x = np.linspace(-1, 1, 9)
c = Child()
print(c.apply(x, 1, 2, sign=1, other=3), c, Child.__doc__)
print([h.sum() for h in halves(x)], {k: v for k, v in zip("abc", x)}, *x[:2], sep="|")
m = np.eye(3); m[0], m[1] = m[1].copy(), m[0].copy(); m[1, 1] -= 3; m[..., 2] /= 4
print(m, m[np.ix_([0, 2], [1, 2])], m[m > 0], -m[::2, ::-1], ~(m > 0))
print(reduce(lambda a, b: a * b + 1, x), sorted(x, key=abs)[:3], min(x), max(x, key=lambda v: -v), sum(x), sum(v * v for v in x))
print(f"{x.mean():.3f} {x!r:.20} {math.sqrt(x[-1]):>8} %s" % x.std(), "{:.2f}".format(x[0]), round(x[3], 2), abs(x[0]), divmod(x[8], 0.3))
n = np.uint8(200); n += np.uint8(100); print(n, type(n), 0.1 <= x[5] < 0.9, x[2] is None, isinstance(x[0], float), hash(x[1]))
print(np.vectorize(lambda v: v + 1)(x), np.apply_along_axis(np.sum, 0, m), np.geterr(), np.ma.masked_less(x, 0).sum())
with np.errstate(invalid="raise"):
    try:
        np.sqrt(x)
    except FloatingPointError as why:
        print("raised", why)
match m.shape:
    case (3, k):
        print("three by", k)
z: float = x[3] + 1j; print(z.real, (x + 1j).imag, x.T.shape)
r = np.random.default_rng(0); y = r.permutation(10); r.shuffle(y); print(y, r.normal(), np.array([[1, 2], [3, 4]], dtype=object) * 2)
def counter():
    total = 0
    def add(v):
        nonlocal total
        total += v
        return total
    return add
add = counter(); print(add(x[0]), add(x[1]), [a for a, *_ in [(1, 2), (3, 4)]])
'''


def test_a_recorded_program_computes_what_it_computes_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = TRICKY.strip().splitlines()
    text = "\n".join([first, "import numpy as np", *rest])
    file = tmp_path / "model.py"
    file.write_text(text)
    plain, seen = io.StringIO(), io.StringIO()
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    with redirect_stdout(plain):
        exec(compile(text, str(file), "exec", dont_inherit=True), module.__dict__)
    again = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", again)
    recorder = Recorder(tmp_path)
    with redirect_stdout(seen):
        exec(recorder.code(text, str(file)), again.__dict__)
    recorder.finish()
    assert seen.getvalue() == plain.getvalue()
    assert not hasattr(builtins, HOOK)


def test_the_first_run_is_left_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "model.py"
    text = "print(np.geterr(), np.seterr(divide='raise'))\nprint(np.array([1.0, 2.0]).mean())\nnp.log(-np.ones(1))\n"
    file.write_text("import numpy as np\n" + text)
    report = diagnose(Request(str(file), rerun=False)).report
    shown = capfd.readouterr().err
    assert "{'divide': 'warn', 'over': 'warn', 'under': 'ignore', 'invalid': 'warn'}" in shown
    assert "model.py:4: RuntimeWarning: invalid value encountered in log" in shown
    assert report.program.observed.ops == 0
    assert "second run" in report.verdict
    assert any("model.py:4: invalid value encountered in log" in note for note in report.notes)


# -- what is found, and what is not ------------------------------------------------------------------------------

PAIRS = {
    "integer-overflow": (
        "a = np.array([200, 180], np.uint8)\nb = np.array([100, 120], np.uint8)\nprint((a + b) / 2)\n",
        "a = np.array([200, 180], np.uint8)\nb = np.array([100, 120], np.uint8)\nprint((a.astype(int) + b) / 2)\n",
        4,
    ),
    "cancellation": (
        "x = np.array([1e-8, 2e-8])\nprint((1 - np.cos(x)) / x**2)\n",
        "x = np.array([1e-8, 2e-8])\nprint(2 * np.sin(x / 2) ** 2 / x**2)\n",
        3,
    ),
    "absorbed-addition": (
        "total = np.float32(1e6)\nfor _ in range(2000):\n    total += np.float32(0.01)\nprint(total)\n",
        "total = np.float64(1e6)\nfor _ in range(2000):\n    total += np.float32(0.01)\nprint(total)\n",
        4,
    ),
    "ill-conditioned": (
        "n = np.arange(14)\nh = 1.0 / (n[:, None] + n + 1)\nprint(np.linalg.solve(h, h.sum(1)))\n",
        "n = np.arange(14)\nh = 1.0 / (n[:, None] + n + 1) + np.eye(14)\nprint(np.linalg.solve(h, h.sum(1)))\n",
        4,
    ),
    "float-equality": (
        "grid = np.arange(0, 1.0001, 0.1)\nprint(np.where(grid == 0.3)[0])\n",
        "grid = np.arange(0, 1.0001, 0.1)\nprint(np.where(np.abs(grid - 0.3) < 1e-9)[0])\n",
        3,
    ),
    "division-by-zero": (
        "x = np.ones((5, 2))\nx[:, 0] = np.arange(5)\nz = (x - x.mean(0)) / x.std(0)\nprint(z.sum())\n",
        "x = np.ones((5, 2))\nx[:, 0] = np.arange(5)\nz = (x - x.mean(0)) / np.maximum(x.std(0), 1e-9)\nprint(z.sum())\n",
        4,
    ),
    "logsumexp-overflow": (
        "s = np.array([900.0, 10.0])\nprint(np.log(np.sum(np.exp(s))))\n",
        "s = np.array([900.0, 10.0])\nprint(s.max() + np.log(np.sum(np.exp(s - s.max()))))\n",
        3,
    ),
}


@pytest.mark.parametrize("bug", PAIRS)
def test_harm_is_named_at_its_line_and_its_repair_is_silent(bug: str, tmp_path: Path) -> None:
    broken, fixed, line = PAIRS[bug]
    file = tmp_path / "model.py"
    file.write_text("import numpy as np\n" + broken)
    outcome = diagnose(Request(str(file)))
    assert [(d.bug, d.site.line if d.site else None) for d in outcome.report.diagnoses] == [(bug, line)]
    assert outcome.exit_code == 1
    file.write_text("import numpy as np\n" + fixed)
    outcome = diagnose(Request(str(file)))
    assert outcome.report.diagnoses == []
    assert outcome.exit_code == 0
    assert outcome.report.program.observed.ops > 0


HANDLED = """
temps = np.array([21.0, np.nan, 19.5])
print(np.nanmean(temps), temps)
counts, total = np.array([3, 0]), np.array([10, 0])
with np.errstate(divide="ignore", invalid="ignore"):
    rate = counts / total
    print(rate)
clean = np.where(total > 0, rate, 0.0)
print(clean, np.nan_to_num(np.log(np.zeros(2) + (counts > 5))))
best = np.inf
for value in np.sqrt(counts):
    best = min(best, value)
print(best, np.full(2, np.inf), np.linalg.norm(np.linalg.inv(np.eye(2) * 3) @ (np.eye(2) * 3) - np.eye(2)))
h = np.uint32(2166136261)
for b in b"hash":
    h = (h ^ np.uint32(b)) * np.uint32(16777619)
print(int(h))
"""


def test_what_the_program_handles_stays_silent(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import numpy as np\n" + HANDLED)
    outcome = diagnose(Request(str(file)))
    assert [(d.bug, d.site) for d in outcome.report.diagnoses] == []
    assert outcome.exit_code == 0


def test_a_program_of_several_files_is_recorded_in_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import numpy as np\n\n\ndef score(s):\n    return np.log(np.sum(np.exp(s)))\n")
    file = tmp_path / "model.py"
    file.write_text("import numpy as np\nfrom helper import score\n\nprint(score(np.array([900.0, 1.0])))\n")
    (found,) = diagnose(Request(str(file))).report.diagnoses
    assert (found.site.file, found.site.line) == ("helper.py", 5)


def test_a_main_that_nobody_calls_is_called(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import numpy as np\n\n\ndef main():\n    print(np.log(np.sum(np.exp(np.array([900.0, 1.0])))))\n")
    report = diagnose(Request(str(file))).report
    assert report.program.observed.guessed == ["main()"]
    assert [d.site.line for d in report.diagnoses] == [5]
