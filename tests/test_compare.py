"""`numdebug compare`: rounding or a bug, where two ways part, what a test should allow, and what bad input gets."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

Numdebug = Callable[..., Any]

EQUINOX = """
import equinox as eqx
import jax

model = eqx.nn.MLP(2, 2, 10, 2, key=jax.random.PRNGKey(0))
x = jax.random.normal(jax.random.PRNGKey(1), (10000, 2))


def batched(x):
    return eqx.filter_vmap(model)(x)


@eqx.filter_jit
def compiled(x):
    return eqx.filter_vmap(model)(x)
"""

NETWORK = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.inputs(self.norm1(x)).chunk(3, -1)
        q, k, v = (a.reshape(b, t, self.heads, -1).transpose(1, 2) for a in (q, k, v))
        scores = q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        mixed = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        x = x + self.output(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


blocks = nn.Sequential(Block(32, 4), Block(32, 4), Block(32, 4)).eval()
positions = nn.Embedding(16, 32)
x = torch.randn(4, 12, 32)
with torch.no_grad():
    out = blocks(x + positions(torch.arange(12)))
print(out.mean())
"""


def compared(numdebug: Numdebug, *args: str) -> tuple[Any, list[dict[str, Any]]]:
    said = numdebug("compare", *args, "--format", "json")
    assert said.code in (0, 1), said.out + said.err
    return said, said.report["comparisons"]


@pytest.mark.skipif(find_spec("equinox") is None, reason="Equinox is not installed")
def test_ten_rows_against_the_first_ten_of_ten_thousand(numdebug: Numdebug, tmp_path: Path) -> None:
    """A report from users, whose answer is: rounding, op by op; under jit there is no difference."""
    (tmp_path / "model.py").write_text(EQUINOX)
    said, (found,) = compared(numdebug, "model.py:batched", "--vary", "rows", "--rows", "10")
    assert said.code == 0
    assert found["explanation"] == "rounding-difference" and found["size"] == 20
    assert 0 < found["largest"] < 1e-7 and 0 < found["ratio"] < 3
    assert found["first"].startswith("matmul at model.py:10")
    assert any(text.startswith("float64") for text in found["removed_by"])
    assert "jax.jit around the whole call" in found["removed_by"]
    assert found["tolerance"]["assertion"].startswith("numpy.testing.assert_allclose(actual, expected, rtol=")
    said, (found,) = compared(numdebug, "model.py:compiled", "--vary", "rows")
    assert (said.code, found["explanation"]) == (0, "identical")


FAULTS = [
    ("norm2 = nn.LayerNorm(width),", "norm2 = nn.LayerNorm(width, eps=1e-4),", "argument", "layer_norm", "norm1(x)"),
    ("F.gelu(self.up(self.norm2(x)))", 'F.gelu(self.up(self.norm2(x)), approximate="tanh")', "argument", "gelu", "F.gelu"),
    (" / (d // self.heads) ** 0.5", "", "missing", "div", "scores = q"),
    ("torch.arange(12))", "torch.arange(1, 13))", "argument", "arange", "positions("),
    (".tril()", ".tril(1)", "argument", "tril", "mask = "),
    (".reshape(b, t, self.heads, -1).transpose(1, 2) for", ".reshape(b, self.heads, t, -1) for", "replaced", None, "for a in (q, k, v)"),
    ("self.output(mixed.transpose(1, 2)", "self.output(mixed.bfloat16().float().transpose(1, 2)", "dtype", "cast", "self.output(mixed"),
    ("x = torch.randn(4, 12, 32)", "blocks[1].output.weight.data[3] *= 1.01\nx = torch.randn(4, 12, 32)", "extra", "mul", "weight.data[3]"),
]  # fmt: skip


@pytest.mark.parametrize(("was", "now", "kind", "op", "line"), FAULTS, ids=[f[2] + "-" + str(f[3]) for f in FAULTS])
def test_a_fault_in_the_middle_is_named_at_its_operation(
    numdebug: Numdebug, tmp_path: Path, schema: Any, was: str, now: str, kind: str, op: str | None, line: str
) -> None:
    (tmp_path / "a.py").write_text(NETWORK)
    changed = NETWORK.replace(was, now)
    assert changed != NETWORK
    (tmp_path / "b.py").write_text(changed)
    said, (found,) = compared(numdebug, "a.py", "b.py")
    assert said.code == 1
    assert not found["explained"] and found["ratio"] > 3
    apart = found["apart"]
    assert apart["kind"] == kind
    assert op is None or apart["op"] == op
    text = changed if kind != "missing" else NETWORK
    site = apart["site_b"] if kind != "missing" else apart["site_a"]
    assert line in text.splitlines()[site["line"] - 1]
    if kind in ("argument", "missing") and op != "arange":
        assert apart["confirmed"] and "taken from the other side, the outputs agree" in apart["proof"]
    schema.validate(said.report)
    (diagnosis,) = said.report["diagnoses"]
    assert diagnosis["severity"] == "error" and diagnosis["site"]["file"] == ("b.py")


def test_the_same_formula_written_otherwise_is_rounding(numdebug: Numdebug, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(NETWORK)
    by_hand = NETWORK.replace("q @ k.transpose(-1, -2)", 'torch.einsum("bhid,bhjd->bhij", q, k)').replace(
        "self.norm2(x)", "((x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt())"
    )
    (tmp_path / "b.py").write_text(by_hand)
    said, (found,) = compared(numdebug, "a.py", "b.py")
    assert (said.code, found["explanation"]) == (0, "rounding-difference")
    assert found["ratio"] < 3


def test_a_call_is_varied_along_every_usual_axis(numdebug: Numdebug, tmp_path: Path, schema: Any) -> None:
    (tmp_path / "a.py").write_text(NETWORK)
    said, found = compared(numdebug, "a.py:blocks")
    assert said.code == 0
    schema.validate(said.report)
    by_axis = {c["axis"]: c for c in found}
    assert {"rows", "order", "runs", "onednn", "sums", "tf32"} <= by_axis.keys()
    assert by_axis["runs"]["explanation"] == "identical"
    assert by_axis["tf32"]["predicted"] and by_axis["tf32"]["explanation"] == "reduced-precision-matmul"
    assert by_axis["tf32"]["largest"] > 100 * by_axis["sums"]["largest"]
    assert all(c["explained"] for c in found)


def test_training_mode_is_no_rounding(numdebug: Numdebug, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 3))\nx = torch.randn(32, 8)\n"
    )
    said, (found,) = compared(numdebug, "m.py:net", "--vary", "mode")
    assert (said.code, found["explanation"]) == (1, "train-eval-mismatch")
    said, found = compared(numdebug, "m.py:net", "--vary", "float64,bfloat16")
    assert said.code == 0
    assert [c["explanation"] for c in found] == ["dtype-mismatch", "dtype-mismatch"]
    assert [c["format"] for c in found] == ["float32", "bfloat16"]


def test_saved_arrays(numdebug: Numdebug, tmp_path: Path) -> None:
    import numpy as np

    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    np.savez(tmp_path / "a.npz", w=x, b=x[0])
    np.savez(tmp_path / "b.npz", w=x, b=x[0])
    np.savez(tmp_path / "c.npz", w=x * np.float32(1.01), b=x[0])
    np.savez(tmp_path / "d.npz", w=x.astype(np.float16), b=x[0])
    said, (found,) = compared(numdebug, "a.npz", "b.npz")
    assert (said.code, found["explanation"]) == (0, "identical")
    said, (found,) = compared(numdebug, "a.npz", "c.npz")
    assert (said.code, found["explanation"], found["output"]) == (1, "real-difference", "w")
    assert "1.01 times the first" in found["because"]
    said, (found,) = compared(numdebug, "a.npz", "d.npz")
    assert (said.code, found["explanation"]) == (0, "dtype-mismatch")


def test_the_text_says_what_a_person_needs(numdebug: Numdebug, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(NETWORK)
    (tmp_path / "b.py").write_text(NETWORK.replace(".tril()", ".tril(1)"))
    said = numdebug("compare", "a.py", "b.py")
    assert said.code == 1
    assert said.out.startswith("a.py: b.py differs from a.py by more than rounding: diagonal of tril is 0 on one side")
    assert "|         mask = torch" in said.out and "confirmed" in said.out
    assert "tensor(" not in said.out  # what the program prints goes to stderr


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["missing.py", "a.py"], 2, "there is no file missing.py"),
        (["a.py", "a.py"], 2, "both sides are a.py"),
        (["a.py:blocks", "a.py"], 2, "name what to call on both sides"),
        (["a.py:blocks", "--vary", "thread"], 2, "did you mean threads?"),
        (["a.py", "b.npz"], 2, "compare like with like"),
        (["a.npz"], 2, "name a second file"),
        (["a.py:nothing", "--vary", "rows"], 2, "defines no nothing"),
        (["crash.py", "a.py"], 4, "raised ValueError at"),
        (["crash.py:f", "--vary", "runs"], 4, "raised ValueError at"),
        (["slow.py:f", "--vary", "runs", "--timeout", "2"], 4, "time limit"),
        (["picky.py:f", "--vary", "rows"], 4, "describe inputs with --input"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(numdebug: Numdebug, tmp_path: Path, args: list[str], code: int, words: str) -> None:
    (tmp_path / "a.py").write_text(NETWORK)
    (tmp_path / "crash.py").write_text("import numpy as np\nraise ValueError('no')\ndef f(x):\n    return x\n")
    (tmp_path / "slow.py").write_text("import time, torch\nx = torch.ones(3)\ndef f(x):\n    time.sleep(60)\n    return x\n")
    (tmp_path / "picky.py").write_text("import torch\nx = torch.ones(3)\ndef f(strange):\n    return strange + 1\n")
    (tmp_path / "b.npz").write_bytes(b"")
    said = numdebug("compare", *args)
    assert said.code == code, said.out + said.err
    assert words in said.out + said.err
    assert "numdebug met an error of its own" not in said.out
