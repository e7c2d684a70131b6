"""`--as FORMAT`: what is foretold of a step in a narrower format, against the step itself in that format."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from forked import loud, silent

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
"""

OVERFLOW = (
    HEAD
    + """\


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(32, 64)
        self.scores = nn.Bilinear(64, 64, 4)
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        h = 300 * torch.tanh(self.body(x))
        return self.head(self.scores(h, h) / 3e5)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
for _ in range(3):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
)

UNDERFLOW = (
    HEAD
    + """\
model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
x = torch.randn(128, 32)
for _ in range(3):
    loss = 1e-4 * model(x / (x.norm(dim=1, keepdim=True) + 1e-9)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)

MIXED = (
    HEAD
    + """\
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
x = torch.randn(32, 16)
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(x)
    loss = (out.float() * 1e6).square().mean() * 1e-12
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)


def test_it_foretells_what_half_precision_does():
    from narrower import foretold, network, real

    foretold_right, apart, kinds = 0, [], set()
    seeds = range(24)
    for seed in seeds:
        net = network(seed)
        finite, zeros = real(net, torch.float16)
        said = foretold(net, "float16")
        foretold_right += said.finite == finite
        kinds.add((finite, said.flushed > 0))
        if finite and said.finite:
            apart.append(abs(said.zeros / said.entries - zeros))
    assert foretold_right == len(seeds)
    assert sum(apart) / len(apart) <= 0.01
    assert {(False, False), (True, True), (True, False)} <= kinds  # networks that overflow, that lose gradients, and that do neither


def test_modules_kept_in_float32_are_enough_and_not_too_many(diagnose, tmp_path):
    (tmp_path / "model.py").write_text(OVERFLOW)
    outcome = diagnose(tmp_path / "model.py", "float16")
    line = next(n for n, text in enumerate(OVERFLOW.splitlines(), 1) if "self.scores(h, h)" in text)
    assert loud(outcome) == [("float16-overflow", line)]
    (d,) = [d for d in outcome.report.diagnoses if d.severity != "note"]
    assert outcome.exit_code == 0 and d.severity == "warning" and d.confirmed == "yes"
    assert d.site.module == "scores" and "65504" in d.because
    whole = next(e for e in outcome.report.evidence if e.kind == "emulated-step")
    assert whole["keep"][0] == "scores" and "body" not in whole["keep"]
    assert silent(diagnose(tmp_path / "model.py"))
    assert not loud(diagnose(tmp_path / "model.py", "bfloat16"))


def test_lost_gradients_come_with_the_scale_that_keeps_them(diagnose, tmp_path):
    (tmp_path / "model.py").write_text(UNDERFLOW)
    outcome = diagnose(tmp_path / "model.py", "float16")
    assert loud(outcome) == [("float16-underflow", 12)]
    lost = next(e for e in outcome.report.evidence if e.kind == "emulated-underflow")
    assert lost["share"] > 0.1 and lost["loss_scale"] <= lost["highest_scale"] and lost["kept_there"] >= 0.999
    epsilons = [(e["epsilon"], e["optimizer"], e.site.line) for e in outcome.report.evidence if e.kind == "emulated-epsilon"]
    assert epsilons == [(1e-9, None, 10), (1e-8, "Adam", 7)]
    assert [d.severity for d in outcome.report.diagnoses if d.bug == "ineffective-epsilon"] == ["note"]


def test_what_a_program_computes_in_float32_beside_a_narrow_format_stays_there(diagnose, tmp_path):
    (tmp_path / "model.py").write_text(MIXED)
    outcome = diagnose(tmp_path / "model.py", "float16")
    whole = next(e for e in outcome.report.evidence if e.kind == "emulated-step")
    assert whole["mixed"] and whole["finite"], whole.facts
    assert not any(bug == "float16-overflow" for bug, _ in loud(outcome))


def test_the_report_says_it_in_sentences(numdebug, tmp_path):
    (tmp_path / "model.py").write_text(OVERFLOW)
    said = numdebug("diagnose", "model.py", "--as", "float8_e4m3fn")
    assert said.code == 0
    assert "nothing found in 3 steps" in said.out and "in float8_e4m3fn the loss is NaN" in said.out.replace("\n", " ")
    assert "does not fit (largest 448)" in " ".join(said.out.split())
    assert numdebug("diagnose", "model.py", "--as", "float12").code == 2


def test_headroom_is_there_without_asking(diagnose, tmp_path):
    (tmp_path / "model.py").write_text(OVERFLOW)
    rooms = {e["format"]: e for e in diagnose(tmp_path / "model.py").report.evidence if e.kind == "headroom"}
    assert set(rooms) == {"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"}
    assert rooms["float16"]["beyond"] >= 1 and rooms["bfloat16"]["beyond"] == 0
    assert rooms["float16"]["largest"] * rooms["float16"]["headroom"] == pytest.approx(65504)


def test_a_constant_that_a_real_run_refuses_is_named(diagnose, tmp_path):
    masked = HEAD + (
        "weight = nn.Parameter(torch.randn(8, 8))\n"
        "hidden = torch.ones(8, 8, dtype=torch.bool).triu(1)\n"
        "scores = weight @ weight\n"
        "a = scores.masked_fill(hidden, -1e9).softmax(-1)\n"
        "b = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)\n"
        "(a + b).square().sum().backward()\n"
    )
    with pytest.raises(RuntimeError, match="cannot be converted"):
        torch.zeros(1).half().masked_fill(torch.ones(1, dtype=torch.bool), -1e9)
    (tmp_path / "model.py").write_text(masked)
    outcome = diagnose(tmp_path / "model.py", "float16")
    refused = [(e["constant"], e.site.line) for e in outcome.report.evidence if e.kind == "emulated-refusal"]
    assert refused == [(-1e9, 9)] and silent(outcome)
    assert not any(e.kind == "emulated-refusal" for e in diagnose(tmp_path / "model.py", "bfloat16").report.evidence)
