"""The same bug in another framework: the same name, the same reason, and a fix in that framework's own words."""

from __future__ import annotations

import re

import pytest
from forked import loud

from numdebug.catalogue import bugs

BUGS = [b.id for b in bugs().values() if len(b.broken) > 1]
OWN = {
    "torch": re.compile(r"torch\.|\bF\.|nn\.|\.clamp\(|\.amax\(|\.float\(\)|\.int\(\)|\.to\(|dim="),
    "jax": re.compile(r"jnp\.|jax\.|optax\."),
    "keras": re.compile(r"keras\.|ops\."),
    "numpy": re.compile(r"np\.|scipy\.|special\."),
}
# What makes the loss has another name in each framework: cross_entropy, logsumexp, log_softmax. So have the numbers that differ.
DIFFERENT = ("double-softmax", "nondeterminism")


def reason(text: str) -> str:
    """Without numbers, brackets and what it reaches: a program of NumPy has no loss, one of JAX no rate that could be read."""
    text = re.sub(r" \([^()]*\)", "", text)
    text = re.sub(r"-?\d[\d.]*(e[+-]?\d+)?", "#", text)
    return re.sub(r"( this)? reaches .*$| at learning rate #$", "", text).strip()


@pytest.fixture(scope="session")
def said(diagnose_in, tmp_path_factory):
    """What is said about a bug's broken program in a framework, asked once."""
    known: dict[tuple[str, str], object] = {}

    def ask(bug: str, framework: str):
        if (bug, framework) not in known:
            file = tmp_path_factory.mktemp("same") / "model.py"
            file.write_text(bugs()[bug].broken[framework])
            known[bug, framework] = diagnose_in(framework)(file)
        return known[bug, framework]

    return ask


PAIRS = [(bug, framework) for bug in BUGS for framework in bugs()[bug].broken if framework != "torch"]


def test_there_are_enough_of_them():
    assert len(BUGS) >= 12
    assert len({b for b, framework in PAIRS if framework == "jax"}) >= 14


@pytest.mark.parametrize(("bug", "framework"), PAIRS, ids=[f"{b}-{f}" for b, f in PAIRS])
def test_the_same_name_and_reason(bug: str, framework: str, said):
    here, there = said(bug, framework), said(bug, "torch")
    assert loud(here)[0][0] == loud(there)[0][0] == bug
    if bug not in DIFFERENT:
        assert reason(here.report.diagnoses[0].because) == reason(there.report.diagnoses[0].because)


@pytest.mark.parametrize(("bug", "framework"), PAIRS, ids=[f"{b}-{f}" for b, f in PAIRS])
def test_the_fix_speaks_the_programs_own_words(bug: str, framework: str, said):
    fix = said(bug, framework).report.diagnoses[0].fix
    lines = [line for line in (fix.diff or "").splitlines() if line.startswith("+") and not line.startswith("+++")]
    foreign = {name: words for name, words in OWN.items() if name != framework and (framework, name) != ("keras", "jax")}
    for line in lines:
        for name in ("torch", "jax", "numpy"):
            if name in foreign and not re.search(OWN[framework], line):
                assert not re.search(OWN[name], line), f"{name} in a {framework} program: {line}"
    assert "torch" not in fix.summary
    assert lines, fix.summary
