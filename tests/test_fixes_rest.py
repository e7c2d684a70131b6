"""Products, magnitudes, precision and data; and what holds for every form."""

# ruff: noqa: E501  (a case a line)
from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numdebug.fixes import write_diff
from numdebug.fixes.job import FORMS
from numdebug.recording import Site
from numdebug.report.model import Repair

sys.path.insert(0, str(Path(__file__).parent))
from test_fixes_support import Case, apply

HEAD = """\
import math
import torch
from torch import nn
t = torch.rand(4, 5) + 0.1
q = torch.rand(4, 5) + 0.1
k = torch.rand(4, 5)
i = torch.tensor([3, 4], dtype=torch.int32)
j = torch.tensor([5, 6], dtype=torch.int32)
"""

CASES: list[tuple[str, dict[str, Any], str, dict[str, str], str]] = [
    ("xlogy", {}, "out = t * torch.log(t)\n", {"target": "mul"}, "out = torch.xlogy(t, t)\n"),
    ("xlogy", {}, "out = (t * t.log()).sum(1)\n", {"target": "log"}, "out = torch.xlogy(t, t).sum(1)\n"),
    ("xlogy", {}, "out = -torch.sum(t * torch.log(t + 1e-9), dim=1)\n", {"target": "mul"}, "out = -torch.sum(torch.xlogy(t, t), dim=1)\n"),
    ("xlogy", {}, "out = t * (torch.log(t) - q)\n", {"target": "mul"}, "out = torch.xlogy(t, t) - t * q\n"),
    ("xlogy", {}, "out = t * (t.log() - q.log())\n", {"target": "mul"}, "out = torch.xlogy(t, t) - torch.xlogy(t, q)\n"),
    ("xlogy", {}, "out = k - t * (t.log() - q.log())\n", {"target": "mul"}, "out = k - (torch.xlogy(t, t) - torch.xlogy(t, q))\n"),
    ("xlogy", {}, "out = t * torch.log(t / q)\n", {"target": "mul"}, "out = torch.xlogy(t, t / q)\n"),
    ("xlogy", {}, "logt = torch.log(t)\nout = t * logt\n", {"target": "mul"}, "out = torch.xlogy(t, t)\n"),
    ("xlogy", {}, "out = torch.log(t) * t * 2\n", {"target": "torch.log(t) * t"}, "out = torch.xlogy(t, t) * 2\n"),
    ("log_space_product", {}, "out = torch.log(torch.prod(t, dim=1))\n", {"target": "log"}, "out = torch.sum(torch.log(t), dim=1)\n"),
    ("log_space_product", {}, "out = t.prod(-1).log()\n", {"target": "log"}, "out = t.log().sum(-1)\n"),
    ("log_space_product", {}, "out = (1 - t / 9).prod().log()\n", {"target": "log"}, "out = (1 - t / 9).log().sum()\n"),
    ("log_space_product", {}, "c = torch.cumprod(1.0 - t / 9 + 1e-10, dim=-1)\nw = c * 2\nout = torch.log(c[:, -1])\n", {"target": "log"},
     "c = torch.cumprod(1.0 - t / 9 + 1e-10, dim=-1)\nw = c * 2\nout = torch.cumsum(torch.log(1.0 - t / 9 + 1e-10), dim=-1)[:, -1]\n"),
    ("log_space_product", {}, "p = torch.prod(t, 1)\nout = torch.log(p)\n", {"target": "log"}, "out = torch.sum(torch.log(t), 1)\n"),
    ("hypot", {}, "out = torch.sqrt(t * t + q * q)\n", {"target": "sqrt"}, "out = torch.hypot(t, q)\n"),
    ("hypot", {}, "out = (t**2 + (q - k)**2).sqrt() + 1\n", {"target": "sqrt"}, "out = torch.hypot(t, q - k) + 1\n"),
    ("hypot", {}, "out = torch.sqrt(t.square() + q.pow(2) + k**2)\n", {"target": "sqrt"}, "out = torch.hypot(torch.hypot(t, q), k)\n"),
    ("hypot", {}, "out = (t**2 + 1.0) ** 0.5\n", {"target": "(t**2 + 1.0) ** 0.5"}, "out = torch.hypot(t, torch.full_like(t, 1.0))\n"),
    ("scaled_norm", {}, "out = torch.sqrt((t**2).sum(dim=1))\n", {"target": "sqrt"},
     "scale = t.detach().abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(t.dtype).tiny)\nout = (t / scale).square().sum(dim=1).sqrt() * scale.squeeze(1)\n"),
    ("hypot", {}, "out = (t * q).pow(2).mean(-1, keepdim=True).sqrt()\n", {"target": "sqrt"},
     "vector = t * q\nscale = vector.detach().abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(vector.dtype).tiny)\n"
     "out = (vector / scale).square().mean(dim=-1, keepdim=True).sqrt() * scale\n"),
    ("scaled_norm", {}, "out = t / t.norm(dim=-1, keepdim=True)\n", {"target": "linalg_vector_norm"},
     "scale = t.detach().abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(t.dtype).tiny)\nout = t / ((t / scale).square().sum(dim=-1, keepdim=True).sqrt() * scale)\n"),
    ("float32", {}, "out = q @ k.T\n", {"target": "matmul"}, "out = q.float() @ k.T.float()\n"),
    ("float32", {"back": True}, "out = 2 * torch.matmul(q, k.T)\n", {"target": "matmul"}, "out = 2 * torch.matmul(q.float(), k.T.float()).to(q.dtype)\n"),
    ("float32", {"back": True}, "out = q @ k.T\n", {"target": "matmul"}, "out = (q.float() @ k.T.float()).to(q.dtype)\n"),
    ("float32", {}, "out = (q * 2).pow(2).sum(1)\n", {"target": "pow"}, "out = (q * 2).float().pow(2).sum(1)\n"),
    ("prescale", {}, "d = q.shape[-1]\ns = q @ k.T\ns = s / math.sqrt(d)\nout = s\n", {"target": "matmul", "div": "s / math.sqrt(d)"},
     "d = q.shape[-1]\ns = (q / math.sqrt(d)) @ k.T\nout = s\n"),
    ("prescale", {}, "out = q @ k.T / math.sqrt(5)\n", {"target": "matmul", "div": "q @ k.T / math.sqrt(5)"}, "out = (q / math.sqrt(5)) @ k.T\n"),
    ("prescale", {}, "out = torch.matmul(q, k.T) * 5 ** -0.5\n", {"target": "matmul", "div": "torch.matmul(q, k.T) * 5 ** -0.5"}, "out = torch.matmul(q * 5 ** -0.5, k.T)\n"),
    ("prescale", {}, "s = q @ k.T\nout = s / math.sqrt(5)\n", {"target": "matmul", "div": "s / math.sqrt(5)"}, "s = (q / math.sqrt(5)) @ k.T\nout = s\n"),
    ("prescale", {}, "s = q @ k.T\ns /= 2.0\nout = s\n", {"target": "matmul", "div": "s /= 2.0"}, "s = (q / 2.0) @ k.T\nout = s\n"),
    ("widen_integer", {}, "out = i * j\n", {"target": "mul"}, "out = i.to(torch.int64) * j.to(torch.int64)\n"),
    ("widen_integer", {"dtype": "float32"}, "out = (i - 1) * 3\n", {"target": "mul"}, "out = (i - 1).to(torch.float32) * 3\n"),
    ("widen_integer", {}, "i *= j\nout = i\n", {"target": "i *= j"}, "i = i.to(torch.int64) * j\nout = i\n"),
    ("widen_integer", {}, "out = (t * 2).to(torch.uint8)\n", {"target": "(t * 2).to(torch.uint8)"}, "out = (t * 2).clamp(0, 255).to(torch.uint8)\n"),
    ("correction0", {}, "out = t.std(0)\n", {"target": "std"}, "out = t.std(0, correction=0)\n"),
    ("correction0", {}, "out = torch.var(t, dim=1, unbiased=True)\n", {"target": "var"}, "out = torch.var(t, dim=1, correction=0)\n"),
    ("correction0", {"eps": 1e-6}, "out = t / t.std(0, keepdim=True)\n", {"target": "std"}, "out = t / (t.var(0, keepdim=True, correction=0) + 1e-6).sqrt()\n"),
    ("break_ties", {"eps": 1e-3}, "m = q @ q.T\nout = torch.linalg.eigh(m).eigenvalues\n", {"target": "torch.linalg.eigh(m)"},
     "m = q @ q.T\nout = torch.linalg.eigh(m + torch.diag(torch.linspace(0.0, 1e-3, m.shape[-1], dtype=m.dtype, device=m.device))).eigenvalues\n"),
    ("break_ties", {"eps": 1e-3}, "out = torch.linalg.eigh(q @ q.T).eigenvalues\n", {"target": "torch.linalg.eigh(q @ q.T)"},
     "matrix = q @ q.T\nout = torch.linalg.eigh(matrix + torch.diag(torch.linspace(0.0, 1e-3, matrix.shape[-1], dtype=matrix.dtype, device=matrix.device))).eigenvalues\n"),
    ("drop_rows", {}, "table = torch.cat([t, q])\nx, y = table[:, :2], table[:, 2:]\nout = x * 2\n", {"target": "table = torch.cat([t, q])"},
     "table = torch.cat([t, q])\ntable = table[table.isfinite().all(dim=1)]\nx, y = table[:, :2], table[:, 2:]\nout = x * 2\n"),
]


@pytest.mark.parametrize(("form", "numbers", "code", "roles", "want"), CASES)
def test_form(tmp_path: Path, form: str, numbers: dict[str, Any], code: str, roles: dict[str, str], want: str) -> None:
    case = Case(tmp_path, HEAD + code)
    repair = case.repair(form, numbers, **roles)
    assert case.fixed(repair) == HEAD + want
    before, after = case.both(repair)
    if form not in {"correction0", "drop_rows"}:
        assert (before.double() - after.double()).abs().max() < 1e-2 if form == "break_ties" else 1e-5
    assert after.isfinite().all()


def test_numpy_rows(tmp_path: Path) -> None:
    head = "import io\nimport numpy as np\n"
    code = "table = np.genfromtxt(io.StringIO('1,2\\n3,nan'), delimiter=',')  # read\n\n\ndef f():\n    return table[:, 0]\n"
    case = Case(tmp_path, head + code)
    repair = case.repair("drop_rows", {"array": "numpy"}, target="np.genfromtxt(io.StringIO('1,2\\n3,nan'), delimiter=',')")
    assert case.fixed(repair) == head + code.replace("# read\n", "# read\ntable = table[np.isfinite(table).all(axis=1)]\n")


REFUSED: list[tuple[str, dict[str, Any], str, dict[str, str]]] = [
    ("xlogy", {}, "out = t * torch.exp(t)\n", {"target": "mul"}),
    ("log_space_product", {}, "out = torch.prod(t, 1) + torch.log(q.sum(1))\n", {"target": "log"}),
    ("hypot", {}, "out = torch.sqrt(t + q)\n", {"target": "sqrt"}),
    ("hypot", {}, "out = torch.sqrt((t**2).sum(1) + 1e-6)\n", {"target": "sqrt"}),
    ("prescale", {}, "s = q @ k.T\nout = s / math.sqrt(5) + s\n", {"target": "matmul", "div": "s / math.sqrt(5)"}),
    ("prescale", {}, "s = q @ k.T\nc = s.sum()\nout = s / c\n", {"target": "matmul", "div": "s / c"}),
    ("drop_rows", {}, "out = torch.cat([t, q])\ny = torch.ones(8)\nz = out * y[:, None]\n", {"target": "out = torch.cat([t, q])"}),
    ("drop_rows", {}, "out, y = t, q\n", {"target": "out, y = t, q"}),
    ("break_ties", {"eps": 1e-3}, "out = torch.linalg.svd(q)\n", {"target": "torch.linalg.svd(q)"}),
    ("no such form", {}, "out = t * q\n", {"target": "mul"}),
    ("xlogy", {}, "out = t\n", {}),
]


@pytest.mark.parametrize(("form", "numbers", "code", "roles"), REFUSED)
def test_refused(tmp_path: Path, form: str, numbers: dict[str, Any], code: str, roles: dict[str, str]) -> None:
    case = Case(tmp_path, HEAD + code)
    assert case.refused(case.repair(form, numbers, **roles))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    site = Site("model.py", 1, 1, 1, 5)
    repair = Repair("epsilon", "rewrite", "", {"target": site}, numbers={"eps": 1.0})
    assert write_diff(repair, tmp_path) is None
    for content in (b"", b"\xff\xfe", b"x = (", b"# -*- coding: latin-1 -*-\nx = '\xe9'\n"):
        (tmp_path / "model.py").write_bytes(content)
        assert write_diff(repair, tmp_path) is None
    (tmp_path / "inner").mkdir()
    outside = Repair("epsilon", "rewrite", "", {"target": Site("../model.py", 1, 1, 1, 5)}, numbers={"eps": 1.0})
    assert write_diff(outside, tmp_path / "inner") is None


def test_names_marks_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "my models" / "ü"
    folder.mkdir(parents=True)
    code = b"\xef\xbb\xbfimport torch\nout = torch.ones(3) + 1e-30"
    (folder / "my net.py").write_bytes(code)
    site = Site("ü/my net.py", 2, 7, 2, 29)
    diff = write_diff(Repair("epsilon", "rewrite", "", {"target": site}, numbers={"eps": 1e-6}), folder.parent)
    assert diff is not None
    apply(diff, folder.parent)
    assert (folder / "my net.py").read_bytes() == code.replace(b"1e-30", b"1e-6")
    absolute = Repair("epsilon", "rewrite", "", {"target": Site(str(folder / "my net.py"), 2, 7, 2, 28)}, numbers={"eps": 1e-5})
    assert write_diff(absolute, folder.parent) is not None


PROGRAM = HEAD + """\
def forward(x, y, mask=None, eps=1e-8):
    e = torch.exp(x - x.max(dim=1, keepdim=True).values)
    p = e / (e.sum(dim=1, keepdim=True) + eps)
    h = 1 / (1 + torch.exp(-x)); h = h.clamp(1e-7, 1 - 1e-7)
    for step in range(3):
        p = torch.softmax(x @ y.T, dim=-1) if step else p
        loss = -(y * torch.log(p)).sum(1) + torch.where(y > 0, torch.log(h), torch.log(1 - h)).mean()
        x /= x.norm(dim=1, keepdim=True)
    s = (x * x + y * y).sqrt(); w = lambda v: torch.log(torch.sigmoid(v))
    with torch.no_grad(): a = x.std(0) ** 0.5
    return [torch.sqrt(v) for v in (loss, s, a)], torch.log(torch.prod(p, 1)), w(
        x * mask if mask is not None else torch.logsumexp(x, 1)
    )
opt = torch.optim.Adam([t], lr=1e-3, eps=1e-8)
"""


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_no_span_raises_or_breaks_the_program(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    (folder / "model.py").write_text(PROGRAM)
    nodes = [n for n in ast.walk(ast.parse(PROGRAM)) if isinstance(n, ast.expr | ast.stmt)]
    places = st.builds(lambda n: Site("model.py", n.lineno, n.col_offset + 1, n.end_lineno, n.end_col_offset + 1), st.sampled_from(nodes))
    odd = st.builds(Site, st.just("model.py"), st.integers(0, 40), st.integers(0, 50) | st.none(), st.integers(0, 40) | st.none(), st.integers(0, 50) | st.none())
    sites = {
        role: data.draw(st.one_of(places, places, places, odd), label=role)
        for role in ("target", *data.draw(st.sets(st.sampled_from(["target2", "softmax", "sigmoid", "exp", "sum", "where", "mul", "div"]))))
    }
    numbers = {
        "eps": data.draw(st.sampled_from([1e-6, 1, "x", None])), "lo": 0.0, "hi": data.draw(st.sampled_from([None, 1.0, float("inf"), "tiny"])),
        "only_feeds_log": data.draw(st.booleans()), "branch": data.draw(st.sampled_from(["a", "b"])), "mask_side": "left", "factor": 0.1,
        "back": data.draw(st.booleans()), "mode": data.draw(st.sampled_from(["clamp", "where", "add"])), "dim": data.draw(st.sampled_from([1, None])),
    }
    form = data.draw(st.sampled_from(sorted(FORMS)))
    diff = write_diff(Repair(form, "rewrite", "", sites, numbers=numbers), folder)
    if diff is not None:
        apply(diff, folder)
        compile((folder / "model.py").read_text(), "model.py", "exec")


BACK = [
    ("def norm(x):\n    ms = x.pow(2).mean(-1, keepdim=True)\n    return x * torch.rsqrt(ms + 1e-6)\nout = norm(t)\n", "x.pow(2)",
     "def norm(x):\n    ms = x.float().pow(2).mean(-1, keepdim=True)\n    return x * torch.rsqrt(ms + 1e-6).to(x.dtype)\nout = norm(t)\n"),
    ("out = torch.sqrt(t * t + q * q)\n", "t * t", "out = torch.sqrt(t.float() * t.float() + q * q).to(t.dtype)\n"),
]


@pytest.mark.parametrize(("code", "target", "want"), BACK)
def test_cast_back_where_it_is_in_range_again(tmp_path: Path, code: str, target: str, want: str) -> None:
    case = Case(tmp_path, HEAD + code)
    repair = case.repair("float32", {"back": True}, target=target)
    assert case.fixed(repair) == HEAD + want
    lost = Case(tmp_path, HEAD + "out = t * t\n")
    assert lost.refused(lost.repair("float32", {"back": True}, target="t * t"))
