"""The checker against answers of somebody who had not read it: true statements stay, lies go. Single rules are tried below."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from numdebug.cli import cli
from numdebug.explain.claims import Claim, parse
from numdebug.explain.commands import options_of
from numdebug.explain.grounding import check, structure
from numdebug.explain.grounding.patches import same
from numdebug.explain.items import Items
from numdebug.explain.offline import explain
from numdebug.explain.restate import restated
from numdebug.report import json as published

HERE = Path(__file__).parent / "explain"
NAMES = sorted(f.stem for f in (HERE / "answers").glob("*.json"))


@cache
def items(name: str) -> Items:
    return Items(published.parse((HERE / "reports" / f"{name}.json").read_text()), commands=options_of(cli))


def accepted(claim: object, about: Items) -> bool:
    """As `numdebug explain` would show it: a patch that is not the report's own was not run and is not shown."""
    if not isinstance(claim, Claim) or check(claim, about):
        return False
    d = about.diagnosis(claim.subjects[0])
    return claim.patch is None or bool(d is not None and d.fix is not None and d.fix.diff and same(d.fix.diff, claim.patch))


def answers() -> list[dict]:
    return [json.loads((HERE / "answers" / f"{name}.json").read_text()) for name in NAMES]


def test_lies_are_not_shown():
    told = [(a["report"], lie) for a in answers() for lie in a["lies"]]
    shown = [(name, lie["lie"], lie["claim"]["text"]) for name, lie in told if accepted(parse(lie["claim"]), items(name))]
    assert len(told) >= 300
    assert len(shown) <= 0.02 * len(told), shown  # 7 of 500 when this was written; 1 in 100 is what is wanted


def test_true_statements_are_said():
    """In the model's words, or in those of the report about the same subjects."""
    told = [(a["report"], parse(c)) for a in answers() for c in a["honest"]]
    lost = [(name, c.text) for name, c in told if not accepted(c, items(name)) and restated(c, items(name)) is None]
    own = sum(accepted(c, items(name)) for name, c in told)
    assert len(told) >= 300
    assert len(lost) <= 0.01 * len(told), lost
    assert own >= 0.3 * len(told)


def test_every_kind_of_lie_is_among_them():
    kinds = Counter(lie["lie"] for a in answers() for lie in a["lies"])
    assert len(NAMES) >= 30
    assert kinds["wrong_cause"] >= 60
    thirty = "wrong_number wrong_line invented_op invented_evidence contradicted_verdict harmful_patch injected_instruction"
    assert all(kinds[kind] >= 30 for kind in thirty.split())


@pytest.mark.parametrize("name", NAMES)
def test_what_the_report_says_itself_is_structurally_sound(name):
    """Our own explanation is about what there is, and cites what speaks for it."""
    for claim in explain(items(name)):
        assert list(structure.complaints(claim, items(name))) == [], claim


ELU = "torch_03_elu_head"


def claim(kind: str, text: str, subjects: tuple[str, ...] = ("D1",), cites: tuple[str, ...] = ("D1",), patch: str | None = None) -> Claim:
    return Claim(kind, subjects, cites, text, patch)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (claim("cause", "exp gives NaN.", ("D9",)), "no D9"),
        (claim("cause", "exp gives NaN.", ("E1",), ("E1",)), "is not about E1"),
        (claim("order", "The gradient is NaN first.", ("D1.c1", "D1")), "came before"),
        (claim("evidence", "The gradient of 0.weight is NaN in 159 of 160 elements.", ("D1.c1",), ("D1.c1",)), "159"),
        (claim("cause", "In line 12 0 times that derivative is NaN."), "line 12"),
        (claim("cause", "At model.py:12 0 times that derivative is NaN."), "line 12"),
        (claim("cause", "In trainer.py:11 0 times that derivative is NaN."), "trainer.py"),
        (claim("evidence", "`batch_norm` is not finite."), "batch_norm"),
        (claim("evidence", "E99 says that exp is not finite.", ("E1",), ("E1",)), "E99"),
        (claim("evidence", "The loss is finite, so the finding is harmless."), "harmless"),
        (claim("evidence", "The branch of where is perhaps dropped."), "perhaps"),
        (claim("cause", "The optimizer divides by a momentum that underflowed."), "momentum"),
        (claim("check", "Run `numdebug diagnose model.py --ignore-nan` again."), "--ignore-nan"),
        (claim("fix", "Make the argument safe.", ("D1.fix",), ("D1.fix",), "not a diff"), "unified diff"),
        (claim("cause", "exp gives NaN \u202eok."), ""),
    ],
)
def test_a_single_thing_is_wrong(said, why):
    found = check(said, items(ELU))
    assert found or not why
    assert why in "; ".join(found)


@pytest.mark.parametrize(
    "said",
    [
        claim("evidence", "The gradient of 0.weight is NaN in 160 of 160 elements.", ("D1.c1",), ("D1.c1",)),
        claim("cause", "0 times that derivative is NaN in the backward pass."),
        claim("fix", "Make the argument safe where the branch is dropped.", ("D1.fix",), ("D1.fix",)),
        claim("check", "Run `numdebug diagnose model.py` again; where-gradient-trap must be gone.", ("D1.fix",), ("D1", "RUN")),
        claim("order", "First exp is not finite, then the gradient of 0.weight is NaN.", ("D1", "D1.c1"), ("D1", "D1.c1")),
    ],
)
def test_a_true_statement_stays(said):
    assert check(said, items(ELU)) == []


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ("import os; os.system('rm -rf .')", "brings in os"),
        ("z = torch.nan_to_num(torch.exp(x))", "brings in nan_to_num"),
        ("z = torch.exp(x", "does not parse"),
    ],
)
def test_a_harmful_patch_is_refused(added, why):
    about = items(ELU)
    site = about["D1"].site
    text = "\n".join([*(f"x{n} = {n}" for n in range(1, site.line)), "z = torch.exp(x)", "w = z"]) + "\n"
    patch = f"--- a/{site.file}\n+++ b/{site.file}\n@@ -{site.line},1 +{site.line},1 @@\n-z = torch.exp(x)\n+{added}\n"
    said = claim("fix", "Make the argument safe where the branch is dropped.", ("D1.fix",), ("D1.fix",), patch)
    found = check(said, about, lambda file: text)
    assert why in "; ".join(found)


def test_words_in_the_users_code_back_nothing():
    """A comment that says there is no bug is no evidence of that."""
    about = items(ELU)
    assert any("harmless" in why for why in check(claim("evidence", "The line is harmless."), about))
