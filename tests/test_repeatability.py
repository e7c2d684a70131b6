"""Programs that fix a seed: what in their source may break that promise, and which of it is proven to."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from forked import apply, loud, silent

from numdebug.fixes import write_diff
from numdebug.repeat.files import loaded
from numdebug.repeat.results import Result, first_difference
from numdebug.repeat.suspects import suspects

HEAD = "import os, random, time, uuid\nimport numpy as np\nimport torch\n"


def places(tmp_path: Path, text: str) -> list[tuple[str, int]]:
    """(cause, line), counted from the first line after the head."""
    file = tmp_path / "model.py"
    file.write_text(HEAD + text)
    return [(s.cause, s.site.line - HEAD.count("\n")) for s in suspects(loaded(file))[1]]


SEEDED = "torch.manual_seed(0)\n"

SETS = [
    ("v = {w: i for i, w in enumerate(set(t))}\n", 1),
    ("v = set(t)\nfor w in v:\n    print(w)\n", 2),
    ("v = set()\nfor s in t:\n    v |= set(s)\nids = [w for w in v]\n", 4),
    ("a, b = set(t), set(u)\nprint(' '.join(a - b))\n", None),
    ("v = set(t) | set(u)\nprint(' '.join(v - {'x'}))\n", 2),
    ("def words(s):\n    return {w for w in s}\nv = list(words(t))\n", 3),
    ("def number(v: set[str]):\n    return dict(zip(v, range(9)))\n", 2),
    ("def number(v):\n    return list(v)\nnumber(set(t))\n", 2),
    ("class A:\n    def __init__(self):\n        self.v = set()\n    def ids(self):\n        return list(self.v)\n", 5),
    ("from collections import defaultdict\ng = defaultdict(set)\nx = [tuple(g[k]) for k in t]\n", 3),
    ("v = list(a.keys() & b.keys())\n", 1),
    ("first = next(iter({'a', 'b'}))\n", 1),
    ("print(*{'a', 'b'})\n", 1),
]


@pytest.mark.parametrize(("text", "line"), SETS)
def test_a_set_that_is_gone_through_is_seen(tmp_path: Path, text: str, line: int | None):
    assert places(tmp_path, SEEDED + text) == ([("set-order", line + 1)] if line else [])


HARMLESS = [
    "v = sorted(set(t))\n",
    "for w in sorted(set(t)):\n    print(w)\n",
    "v = set(t)\nn = len(v) + max(len(w) for w in v)\nprint('a' in v)\n",
    "v = set(t)\nv = sorted(v)\nids = list(v)\n",
    "v = sorted(list({w.lower() for w in set(t)}))\n",
    "for n in {1, 2, 3}:\n    print(n)\n",
    "v = list(dict.fromkeys(t))\n",
    "import json\nfor w in {'a': 1, 'b': 2}:\n    print(w)\n",
    "class A:\n    def __hash__(self):\n        return hash(self.name)\n",
    "start = time.time()\nprint(time.time() - start)\n",
    "random.seed(0)\nnp.random.seed(0)\nrandom.random()\nnp.random.rand(3)\n",
    "rng = np.random.default_rng(0)\nrng.random(3)\n",
    "def main():\n    random.seed(0)\n    shuffle()\ndef shuffle():\n    random.shuffle([1, 2])\nmain()\n",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_repeats_is_no_suspect(tmp_path: Path, text: str):
    assert places(tmp_path, SEEDED + text) == []


@pytest.mark.parametrize(
    "text",
    [
        "ids = list(set(t))\nrandom.shuffle(ids)\n",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--seed', type=int)\nargs = p.parse_args()\n"
        "if args.seed is not None:\n    torch.manual_seed(args.seed)\nids = list(set(t))\n",
        "def main(seed=None):\n    np.random.seed(seed)\n    print(hash('a'))\nmain()\n",
        "seed = int(time.time())\nprint('seed', seed)\ntorch.manual_seed(seed)\nids = list(set(t))\n",
        "torch.manual_seed(random.randrange(99))\n",
    ],
)
def test_without_a_fixed_seed_nothing_is_promised(tmp_path: Path, text: str):
    assert places(tmp_path, text) == []


OTHERS = [
    ("h = hash(word) % 64\n", "salted-hash", 1, "h = zlib.crc32(str(word).encode()) % 64"),
    ("h = hash(f'{a}')\n", "salted-hash", 1, "h = zlib.crc32(f'{a}'.encode())"),
    ("def f():\n    return random.random()\n", "unseeded", 2, "random.seed(0)"),
    ("x = np.random.permutation(9)\n", "unseeded", 1, "np.random.seed(0)"),
    ("x = random.random()\nrandom.seed(1)\n", "unseeded", 1, "random.seed(0)"),
    ("g = np.random.default_rng()\n", "unseeded", 1, "g = np.random.default_rng(0)"),
    ("def f(seed=None):\n    return np.random.default_rng(seed)\nf()\n", "unseeded", 2, "default_rng(0 if seed is None else seed)"),
    ("g = torch.Generator()\ng.seed()\n", "unseeded", 2, "g.manual_seed(0)"),
    ("random.seed(1234 + os.getpid())\n", "entropy", 1, "random.seed(1234)"),
    ("s = int(time.time() * 1000) % 2**31\nnp.random.seed(s)\n", "entropy", 1, "s = 0"),
    ("n = uuid.uuid4().int % 4\n", "entropy", 1, "n = uuid.UUID(int=0).int % 4"),
    ("d = {id(p): p for p in ps}\nps = [d[k] for k in sorted(d)]\n", "hash-order", 2, "ps = [d[k] for k in list(d)]"),
    ("from concurrent.futures import as_completed\nfor f in as_completed(fs):\n    pass\n", "arrival", 2, "for f in fs:"),
    ("r = list(pool.imap_unordered(work, xs, 2))\n", "arrival", 1, "r = list(pool.imap(work, xs, 2))"),
]


@pytest.mark.parametrize(("text", "cause", "line", "repaired"), OTHERS)
def test_other_causes_and_their_repairs(tmp_path: Path, text: str, cause: str, line: int, repaired: str):
    file = tmp_path / "model.py"
    file.write_text(HEAD + SEEDED + text)
    (suspect,) = suspects(loaded(file))[1]
    assert (suspect.cause, suspect.site.line) == (cause, line + 4)
    apply(write_diff(suspect.repairs[0], tmp_path), tmp_path)
    changed = file.read_text()
    ast.parse(changed)
    assert repaired in changed


def test_layers_in_a_set_are_kept_in_the_order_in_which_they_are_written(tmp_path: Path):
    file = tmp_path / "model.py"
    file.write_text(HEAD + SEEDED + "layers = {a, b}\nfor layer in layers:\n    layer.reset()\n")
    (suspect,) = suspects(loaded(file))[1]
    assert suspect.site.line == 6
    apply(write_diff(suspect.repairs[1], tmp_path), tmp_path)
    assert "layers = dict.fromkeys([a, b])\n" in file.read_text()


def test_results_part_at_the_first_number_that_differs():
    a = [Result("the loss of step 0", "1.0", 1.0), Result("the loss of step 1", "2.0", 2.0)]
    b = [a[0], Result("the loss of step 1", "2.5", 2.5)]
    assert first_difference(a, a) is None
    assert first_difference(a, b) == (a[1], b[1])
    assert [r.digest for r in first_difference(a, a[:1])] == ["2", "1"]


# -- whole programs --------------------------------------------------------------------------------------------------------

TRAINED = """\
import random
import torch
from torch import nn
torch.manual_seed(0)
{made}
x = torch.tensor([[float(n)] for n in range(8)])
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(3):
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""


@pytest.mark.parametrize(
    ("made", "loss"),
    [
        ("table = {n: i for i, n in enumerate({7, 300, 12})}", "(model(x) - table[12]).square().mean()"),  # whole numbers
        ("names = list({'a', 'b', 'c', 'd', 'e'})\nprint(names)", "(model(x) - len(names)).square().mean()"),  # order not used
        ("name = f'run-{random.randint(0, 9999)}'", "(model(x) - x).square().mean()"),  # random, but in no number
    ],
)
def test_a_harmless_suspect_stays_silent(diagnose, tmp_path: Path, made: str, loss: str):
    (tmp_path / "model.py").write_text(TRAINED.format(made=made, loss=loss))
    outcome = diagnose(tmp_path / "model.py")
    assert silent(outcome), outcome.report.verdict


def test_of_two_suspects_the_one_that_cures_is_named(diagnose, tmp_path: Path):
    made = "names = list({'a', 'b', 'c', 'd', 'e'})\nflips = [random.random() for _ in range(3)]"
    (tmp_path / "model.py").write_text(TRAINED.format(made=made, loss="(flips[step] * model(x) - len(names)).square().mean()"))
    outcome = diagnose(tmp_path / "model.py")
    assert loud(outcome) == [("nondeterminism", 6)], outcome.report.verdict
    (d,) = outcome.report.diagnoses
    assert d.confirmed == "yes" and "agree bit for bit" in d.confirmed_why
    apply(d.fix.diff, tmp_path)
    assert silent(diagnose(tmp_path / "model.py"))


def test_the_sources_of_imported_files_count(diagnose, tmp_path: Path):
    (tmp_path / "words.py").write_text("def number(text):\n    return {w: n for n, w in enumerate(set(text.split()))}\n")
    made = "from words import number\ntable = number('a quick brown fox jumps over it')"
    (tmp_path / "model.py").write_text(TRAINED.format(made=made, loss="(model(x) - table['fox']).square().mean()"))
    outcome = diagnose(tmp_path / "model.py")
    (d,) = outcome.report.diagnoses
    assert (d.bug, d.site.file, d.site.line) == ("nondeterminism", "words.py", 2)


def test_no_rerun_says_what_was_not_tried(numdebug, tmp_path: Path):
    made = "table = {w: n for n, w in enumerate(set('a b c d'.split()))}"
    (tmp_path / "model.py").write_text(TRAINED.format(made=made, loss="(model(x) - table['c']).square().mean()"))
    said = numdebug("diagnose", "model.py", "--no-rerun", "--format", "json")
    assert said.code == 0 and not said.report["diagnoses"]
    assert any("model.py:5" in note and "--no-rerun" in note for note in said.report["notes"])
