"""The catalogue in Hindi: every bug has its words, they say what the English ones say, and a reader finds a bug by them."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path

import pytest

from numdebug import catalogue, languages, listing
from numdebug.catalogue import bugs
from numdebug.catalogue._dialects import FRAMEWORKS, said
from numdebug.trials import GUARDED

SHIPPED = 53  # a bug that a newcomer adds without Hindi words is allowed: it is shown in English
DEVANAGARI = re.compile("[\u0900-\u097f]")
SPOKEN = {b.id: b for b in bugs().values() if b.hindi is not None}
# names of code (log_softmax, x.var(), int64, bfloat16, lstsq), numbers and slots: the same in every language
CODE = re.compile(r"\{\}|\w+(?:\.\w+)*\(\w*(?:=\w+)?\)|\w+_\w*|\b\w+\.\w+(?:\.\w+)*|\b\w*\d\w*\b")
NAMES = re.compile(
    r"\b(?:log_softmax|logsigmoid|logsumexp|softmax|softplus|logits|logaddexp|xlogy|hypot|lstsq|QR|masked_fill|exp|log1p|expm1|epsilon"
    r"|GradScaler|autocast|ReLU|GELU|kaiming|dropout|ulp|TF32|cross_entropy|nll_loss|NaN|inf|eps)\b"
)


def code_in(text: str) -> set[str]:
    return set(CODE.findall(text)) | set(NAMES.findall(text))


def sentences(bug):
    """(English, Hindi) of the fix and of every sentence that its repair may give."""
    return {bug.fix: bug.hindi.fix, **bug.hindi.fixes}.items()


def test_every_shipped_bug_has_hindi_words():
    assert len(SPOKEN) >= SHIPPED


@pytest.mark.parametrize("bug", SPOKEN.values(), ids=SPOKEN)
def test_words_have_the_right_shape(bug):
    words = bug.hindi
    assert len(words.symptoms) == len(bug.symptoms)
    for text in (words.title, words.what, *words.symptoms, *(hindi for _, hindi in sentences(bug))):
        assert DEVANAGARI.search(text) and text == " ".join(text.split())
    assert words.what.endswith("।") and 60 < len(words.what) < 400
    assert not re.search(r"[.।]$", words.title + words.fix)


@pytest.mark.parametrize("bug", SPOKEN.values(), ids=SPOKEN)
def test_names_and_numbers_of_a_fix_are_in_its_hindi(bug):
    for english, hindi in sentences(bug):
        slots = hindi.count("{}") or len(re.findall(r"\{\d\}", hindi))
        assert slots == english.count("{}")
        missing = {name for name in code_in(english) - {"{}"} if name not in hindi}
        assert not missing, f"{hindi!r} lacks {missing} of {english!r}"
        invented = {name for name in code_in(hindi) - {"{}", "{0}", "{1}"} if name.strip("{}") and name not in english and name.isascii()}
        assert not invented - {"0", "1"}, f"{hindi!r} has {invented}, which {english!r} has not"


def test_the_same_symptom_is_said_in_the_same_words():
    said_as: dict[str, set[str]] = {}
    for bug in SPOKEN.values():
        for english, hindi in zip(bug.symptoms, bug.hindi.symptoms, strict=True):
            said_as.setdefault(english, set()).add(hindi)
    assert {english: hindi for english, hindi in said_as.items() if len(hindi) > 1} == {}


def written_summaries() -> dict[str, set[str]]:
    """The sentences that a rule's file hands to Repair, repair_ops and repair_forms, by bug; {} for what it fills in at the end."""
    found: dict[str, set[str]] = {}
    for name in SPOKEN:
        tree = ast.parse((Path(catalogue.__file__).parent / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8"))
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)):
            place = {"Repair": 2, "repair_ops": 1, "repair_forms": 1}.get(call.func.id)
            if place is not None and len(call.args) > place:
                value = call.args[place]
                if isinstance(value, ast.Constant):
                    found.setdefault(name, set()).add(str(value.value))
                elif isinstance(value, ast.JoinedStr):
                    text = "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in value.values)
                    if not text.startswith("{}"):  # half a sentence: told below
                        found.setdefault(name, set()).add(text)
    return found


@pytest.mark.parametrize(
    "summary",
    [
        "keep encoder.norm, head in float32, scale before the operation, or use bfloat16",
        "keep it in float32, scale before the operation, or use bfloat16",
        "scale the loss by 1024 or more (GradScaler), or use bfloat16",
        "scale the loss (GradScaler), or use bfloat16",
    ],
)
def test_fixes_for_a_narrower_format_are_known_in_hindi(summary):
    told = languages.fix_in("hi", "float16-underflow", summary)
    assert told is not None and "bfloat16" in told and ("1024" in told) == ("1024" in summary) and ("head" in told) == ("head" in summary)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_fix_that_a_rule_can_write_is_known_in_hindi(framework):
    for name, summaries in written_summaries().items():
        for summary in summaries:
            asked = said(summary.replace("{}", "x"), framework)
            told = languages.fix_in("hi", name, asked)
            assert told is not None, f"{name}: {asked!r}"
            assert DEVANAGARI.search(told) and "{" not in told


def test_the_fixes_that_a_repeated_run_suggests_are_known_in_hindi():
    source = (Path(catalogue.__file__).parents[1] / "repeat" / "suspects.py").read_text(encoding="utf-8")
    calls = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "_put"]
    summaries = {c.args[3].value for c in calls if isinstance(c.args[3], ast.Constant)}
    assert len(summaries) > 5
    for summary in summaries:
        assert languages.fix_in("hi", "nondeterminism", summary), summary
    assert "numpy" in (languages.fix_in("hi", "nondeterminism", "seed numpy as well") or "")


def test_a_fix_is_said_in_the_words_of_the_framework():
    assert "jax.nn.softmax" in (languages.fix_in("hi", "softmax-overflow", "use jax.nn.softmax of the scores") or "")
    assert "np.logaddexp(0, x)" in (languages.fix_in("hi", "softplus-overflow", "use np.logaddexp(0, x)") or "")
    assert "ctx.beta" in (languages.fix_in("hi", "wrong-gradient", "multiply by ctx.beta on this line") or "")


def test_what_is_added_to_a_fix_is_translated_too():
    told = languages.fix_in("hi", "log-of-softmax", f"take log_softmax of the logits; {GUARDED}")
    assert told is not None and told.count("probability") == 1 and "diff" in told
    tried = languages.fix_in("hi", "exp-overflow", "bound the argument of exp (tried: by itself it does not cure the step)")
    assert tried is not None and "tried" not in tried


def test_a_fix_that_nobody_translated_is_not_guessed():
    assert languages.fix_in("hi", "exp-overflow", "turn it off and on again") is None
    assert languages.fix_in("en", "exp-overflow", "turn it off and on again") == "turn it off and on again"


@pytest.mark.parametrize("bug", SPOKEN.values(), ids=SPOKEN)
def test_each_hindi_symptom_finds_its_bug(bug):
    for symptom in bug.hindi.symptoms:
        assert bug.id in listing.bugs(symptom, "hi")


@pytest.mark.parametrize(
    ("asked", "bug"),
    [
        ("लॉस नैन हो रहा है", "log-of-softmax"),
        ("मेरा loss NaN हो गया", "softmax-overflow"),
        ("शुरुआती परतें नहीं सीख रहीं", "vanishing-gradient"),
        ("variance ऋणात्मक आ रहा है", "variance-cancellation"),
        ("gpu और cpu के परिणाम अलग", "reduced-precision-matmul"),
        ("हर रन में अलग परिणाम", "nondeterminism"),
    ],
)
def test_a_symptom_in_a_readers_own_hindi_finds_the_bug(asked, bug):
    assert bug in listing.bugs(asked, "hi")


def test_a_symptom_without_a_bug_says_so_in_hindi():
    told = listing.bugs("बैंगनी हाथी", "hi")
    assert "numdebug bugs --language hi" in told and DEVANAGARI.search(told)


def test_pages_and_lists_in_hindi(numdebug):
    told = numdebug("bugs", "--language", "hi").out
    assert all(f"  {name}" in told and bug.hindi.title in told for name, bug in SPOKEN.items())
    page = numdebug("bug", "dead-relu", "--language", "hi").out
    assert SPOKEN["dead-relu"].hindi.fix in " ".join(page.split()) and "numdebug bug dead-relu" in page
    assert "What happens" in numdebug("bug", "dead-relu").out


def test_the_language_may_come_from_the_environment(monkeypatch, numdebug):
    monkeypatch.setenv("NUMDEBUG_LANGUAGE", "hi")
    assert SPOKEN["dead-relu"].hindi.title in numdebug("bug", "dead-relu").out
    assert "What happens" in numdebug("bug", "dead-relu", "--language", "en").out
    monkeypatch.setenv("NUMDEBUG_LANGUAGE", "klingon")
    assert numdebug("bug", "dead-relu").code == 2


def test_a_bug_without_hindi_words_is_shown_in_english(monkeypatch):
    from dataclasses import replace

    known = {**bugs(), "dead-relu": replace(bugs()["dead-relu"], hindi=None)}
    monkeypatch.setattr(catalogue, "bugs", lambda: known)
    assert "What happens" in listing.bug("dead-relu", "hi")
    assert known["dead-relu"].title in listing.bugs(None, "hi")
    assert languages.spoken(known["dead-relu"], "hi").what.startswith("A ReLU")


@pytest.mark.parametrize("bug", SPOKEN.values(), ids=SPOKEN)
def test_what_was_measured_is_said_with_slots_of_names(bug):
    for sentence in bug.hindi.measured:
        slots = [name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None]
        assert DEVANAGARI.search(sentence) and all(name.isidentifier() for name in slots) and not sentence.endswith("।")
