"""The explanation without a model: true to the report, in whole sentences, the same in both languages."""

from __future__ import annotations

import re
import string
from dataclasses import replace
from pathlib import Path

import pytest

import numdebug
from numdebug.catalogue import bugs
from numdebug.evidence import Evidence, Number
from numdebug.explain import offline
from numdebug.explain.claims import KINDS, LONGEST
from numdebug.explain.items import Items
from numdebug.explain.offline import TOPICS
from numdebug.explain.phrases import LANGUAGES, Say, en, hi
from numdebug.explain.proofs import proof
from numdebug.recording import Site
from numdebug.report.model import (
    Apart,
    Comparison,
    Consequence,
    Diagnosis,
    Excerpt,
    Fix,
    Observed,
    ProbeRun,
    Program,
    Report,
    RuledOut,
    Tolerance,
)
from numdebug.report.verdict import Fate, nothing_seen

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
DIFF = "--- a/model.py\n+++ b/model.py\n@@ -12 +12 @@\n-    w = torch.exp(x)\n+    w = torch.softmax(x, 1)\n"


def at(line: int, function: str = "<module>", step: int | None = None) -> Site:
    return Site(file="model.py", line=line, column=1, function=function, step=step)


SOFTMAX = Diagnosis(
    bug="softmax-overflow", title="softmax by hand, without subtracting the maximum", severity="error", confidence=0.99,
    because="exp of scores up to 189.7 is inf (float32 overflows above 88.7), inf / inf is NaN, and it reaches the loss",
    site=at(12, "attend", 3), op="exp", phase="forward", confirmed="yes",
    confirmed_why="control re-run reproduces loss nan bit for bit; with line 12 repaired and nothing else changed, loss and all 2 gradients"
    " are finite (loss 1.632); in float64 the repair agrees with the line as written to 1.1e-16",
    fix=Fix("use torch.softmax of the scores", DIFF),
    consequences=(Consequence("loss", "nan", at(17)), Consequence("gradient of keys", "nan in 4 of 4 elements")),
    ruled_out=(RuledOut("log-of-zero", "with softmax-overflow repaired and nothing else changed, the symptom is gone"),), evidence=("E1",),
)  # fmt: skip
RATE = Diagnosis(
    bug="learning-rate-divergence", title="a learning rate that is too high", severity="error", confidence=0.99,
    because="the loss rose from 1.63 to 298 and ended at 1.6, no lower than it began at learning rate 0.5",
    site=at(26), confirmed="yes",
    confirmed_why="the program as it is shows the harm; run again with the learning rate times 0.1, it is gone, and the loss goes from"
    " 1.628 to 3.338e-07",
    fix=Fix("lower the learning rate, or put the inputs on a common scale"), evidence=("E1",),
)  # fmt: skip
EVIDENCE = Evidence(
    "naive-form", "stable_ops", "E1", site=at(12, "attend"),
    numbers={"smallest_argument": Number(-175.98965, None), "largest_argument": Number(189.68019, None)},
)  # fmt: skip
PROBES = [ProbeRun(name, True) for names in TOPICS.values() for name in names.split()]


def report(*diagnoses, verdict="1 error", **seen) -> Report:
    observed = Observed(**{"ops": 36, "steps": 4, "backward": True, **seen})
    excerpt = Excerpt("model.py", 11, "def attend(x):\n    w = torch.exp(x)")
    program = Program("model.py", ["torch"], observed)
    return Report(program, {}, verdict, list(diagnoses), [EVIDENCE], probes=list(PROBES), excerpts=[excerpt])


def compared(**changes) -> Report:
    old = replace(at(8, "net"), file="old.py")
    one = Comparison(
        axis="sides", a="old.py:net", b="new.py:net", explanation="real-difference", explained=False, predicted=False, because="too much",
        output="out", size=128, differing=64, largest=0.00073, ulps=3061.5, format="float32", envelope=3.3e-7, ratio=2236.0,
        apart=Apart("argument", "layer_norm", "eps of layer_norm is 1e-05 on one side and 0.001 on the other", old),
    )  # fmt: skip
    return replace(report(verdict="differs"), comparisons=[replace(one, **changes)])


CLEAN = report(verdict="nothing found in 4 steps (36 operations)")
REPORTS = {
    "failure": report(SOFTMAX, first_bad_step=3),
    "silent": report(RATE),
    "two": report(SOFTMAX, RATE, first_bad_step=3),
    "many": report(SOFTMAX, *[RATE] * 7, first_bad_step=3),
    "untried": report(replace(RATE, confirmed="not-tried", confirmed_why="there is no repair that could be tried")),
    "warning": report(replace(RATE, severity="warning")),
    "foretold": report(replace(SOFTMAX, severity="warning", title="foretold: softmax by hand", consequences=())),
    "latent": report(
        replace(SOFTMAX, severity="warning", consequences=(), confirmed_why=f"tried with these values: {SOFTMAX.confirmed_why}")
    ),
    "unknown": report(replace(SOFTMAX, bug="my-own-bug", fix=None, site=None, confirmed_why="looked at it for a long time")),
    "clean": CLEAN,
    "hazard": replace(CLEAN, diagnoses=[replace(SOFTMAX, severity="note")]),
    "guessed": replace(CLEAN, program=Program("model.py", ["jax"], Observed(9, 1, guessed=["net(x), and backward on its result"]))),
    "noted": replace(CLEAN, notes=["of a long loop, only some iterations were looked into", "the program's last output:\nhello"]),
    "late": replace(CLEAN, verdict="nothing found in 4 steps (36 operations), but model.py raised KeyError at line 4: 'lr'"),
    "ours": replace(CLEAN, verdict="nothing found in 4 steps (36 operations), but numdebug met an error of its own"),
    "cut": report(verdict="nothing found in 4 steps (36 operations) (max steps)", stopped_because="the limit of 4 steps was reached"),
    "unexplained": report(verdict="the loss is NaN from step 3 on, first made at model.py:9 (mul: 0*inf), but no known bug explains it"),
    "unrecorded": report(verdict="the loss is NaN from step 3 on, but that step could not be recorded: seed the program, and allow one"),
    "different": compared(),
    "rounding": compared(
        explanation="rounding-difference", explained=True, ratio=1.06, apart=None,
        tolerance=Tolerance(8e-7, 2e-6, "why", "torch.testing.assert_close(actual, expected, rtol=8e-07, atol=2e-06)"),
    ),
    "identical": compared(explanation="identical", explained=True, apart=None),
}  # fmt: skip
CASES = [(name, language) for name in REPORTS for language in LANGUAGES]


def told(one: Report, language: str = "en") -> str:
    return " ".join(c.text for c in offline.explain(Items(one), language))


def test_both_languages_have_the_same_phrases_and_slots():
    def slots(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    assert list(en.PHRASES) == list(hi.PHRASES)
    assert {key: slots(text) for key, text in en.PHRASES.items()} == {key: slots(text) for key, text in hi.PHRASES.items()}


@pytest.mark.parametrize(("name", "language"), CASES)
def test_every_claim_is_short_whole_and_cited(name, language):
    items = Items(REPORTS[name])
    found = offline.explain(items, language)
    assert found
    for c in found:
        assert c.kind in KINDS and c.cites and c.subjects
        assert all(one in items for one in (*c.cites, *c.subjects)), c
        assert c.text == " ".join(c.text.split()) and len(c.text) <= LONGEST, c.text
        assert c.kind == "cause" or c.text.endswith((".", "।", "`", "…")), c.text
        assert "  " not in c.text and "None" not in c.text and "{" not in c.text


@pytest.mark.parametrize(("name", "language"), CASES)
def test_no_number_is_told_that_the_report_does_not_hold(name, language):
    items = Items(REPORTS[name])
    held = [float(n) for item in items for text in item.says for n in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)]
    held += [float(v) for item in items for v in item.values if isinstance(v, int | float)]
    held += [float(item.site.line) for item in items if item.site is not None]
    known = bugs()
    for d in REPORTS[name].diagnoses:
        if d.bug in known and known[d.bug].hindi is not None:
            held += [float(n) for n in NUMBER.findall(known[d.bug].hindi.what)]
    for c in offline.explain(items, language):
        for n in NUMBER.findall(c.text):
            assert any(abs(float(n) - h) <= 5e-3 * abs(h) + 1e-12 for h in held), f"{n} in {c.text!r}"


@pytest.mark.parametrize(("name", "language"), CASES)
def test_no_word_of_ours_is_in_the_running_text(name, language):
    for c in offline.explain(Items(REPORTS[name]), language):
        text = re.sub(r"`[^`]*`", "", c.text)
        assert not re.search(r"\b(?:[DEXNF]\d+|RUN|PROBES|evidence|diagnosis|probe)\b", text), text


def test_a_failure_is_told_in_the_order_in_which_it_is_read():
    kinds = [c.kind for c in offline.explain(Items(REPORTS["failure"]))]
    assert kinds[0] == "cause" and kinds.index("cause") < kinds.index("order") < kinds.index("fix") < kinds.index("check") < len(kinds) - 1
    assert kinds[-1] == "ruled_out"
    text = told(REPORTS["failure"])
    assert text.startswith("The loss is NaN from step 3 on. The cause is at model.py:12, in attend(): softmax by hand")
    assert "w = torch.exp(x)" in text and "189.7" in text and "gradient of keys" in text and "torch.softmax" in text
    assert "numdebug diagnose model.py" in text and "past step 3" in text and "log of a quantity that can be 0" in text


def test_the_patch_is_on_the_fix_and_the_line_stays_home_without_source():
    (fix,) = [c for c in offline.explain(Items(REPORTS["failure"])) if c.kind == "fix"]
    assert fix.patch == DIFF and fix.cites == ("D1.fix",)
    without = [c.text for c in offline.explain(Items(REPORTS["failure"], with_source=False))]
    assert not any("torch.exp" in text for text in without)


def test_it_is_not_said_that_nothing_is_nan_where_a_step_failed():
    assert "Nothing that the program uses is NaN or inf" in told(REPORTS["silent"])
    assert "Nothing that the program uses is NaN or inf" not in told(report(RATE, first_bad_step=2))


def test_a_trial_says_where_the_loss_should_go():
    text = told(REPORTS["silent"])
    assert "the learning rate times 0.1" in text and "from 1.628 to 3.338e-07" in text and "by hand" in text


def test_findings_beyond_the_first_are_shorter_and_no_more_than_a_few():
    by = {name: [c for c in offline.explain(Items(REPORTS["many"])) if name in c.subjects] for name in ("D1", "D2", "D5", "D6")}
    assert len(by["D1"]) > len(by["D2"]) > 0 and by["D5"] and not by["D6"]
    assert "more findings" in told(REPORTS["many"])


def test_what_was_not_tried_is_not_said_to_be_proven():
    text = told(REPORTS["untried"])
    assert "no repair" in text and "To be sure" not in text


def test_a_clean_run_proves_nothing_beyond_itself():
    text = told(CLEAN)
    assert "Nothing wrong was found in model.py: 4 training steps (36 operations)" in text
    assert "no proof" in text and "--check-gradients" in text and "overflow" in text


def test_topics_that_were_found_are_not_listed_as_not_found():
    last = offline.explain(Items(REPORTS["failure"]))[-1].text
    assert "overflow" not in last and "lost digits" in last


def test_notes_are_told_but_not_what_the_program_printed():
    text = told(REPORTS["noted"])
    assert "only some iterations" in text and "hello" not in text


def test_a_program_that_ended_badly_is_not_told_as_clean():
    assert "raised KeyError at line 4 ('lr')" in told(REPORTS["late"])
    assert "error of its own" in told(REPORTS["ours"]) and "cut short" in told(REPORTS["cut"])


RAISED = {"type": "ValueError", "message": "bad shape", "site": {"file": "model.py", "line": 3}}
FATES = {
    "raised": Fate("raised", raised=RAISED, seen=False),
    "missing": Fate("raised", raised={**RAISED, "missing": "cv2.dnn"}, seen=False),
    "stopped": Fate("stopped", "the limit of 2 steps was reached", seen=False),
    "hung": Fate("hung", "the time limit of 6 s was reached", seen=False),
    "interrupted": Fate("interrupted", seen=False),
    "exit": Fate("exit", "the program called sys.exit(2)", seen=False),
    "killed": Fate("killed", "it was killed (SIGKILL; often the system ran out of memory)", seen=False),
    "model": Fate("returned", seen=False, models=("Net",)),
    "nothing": Fate("returned", seen=False),
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("fate", FATES.values(), ids=FATES)
def test_where_nothing_was_seen_it_says_what_happened_and_what_to_do(fate, language):
    verdict = nothing_seen("model.py", fate)
    found = offline.explain(Items(report(verdict=verdict, ops=0, steps=0, backward=False)), language)
    assert [c.kind for c in found] == ["evidence", "check"]
    assert "model.py" in found[0].text
    if fate.raised and not fate.raised.get("missing"):
        assert "ValueError" in found[0].text and "bad shape" in found[0].text and "3" in found[0].text
    if fate.raised and fate.raised.get("missing"):
        assert "pip install opencv-python" in found[1].text
    assert fate.why in found[0].text


def test_what_nobody_can_explain_is_told_as_that():
    assert "no bug that numdebug knows" in told(REPORTS["unexplained"]) and "model.py:9" in told(REPORTS["unexplained"])
    assert "could not be recorded" in told(REPORTS["unrecorded"])


def test_comparisons():
    text = told(REPORTS["different"])
    assert "compute different things" in text and "64 of 128" in text and "old.py:8" in text and "numdebug compare" in text
    text = told(REPORTS["rounding"])
    assert "no bug" in text and "rtol=8e-07" in text and "1.06" in text
    assert "bit for bit" in told(REPORTS["identical"]) and "differ" not in told(REPORTS["identical"])


PROOFS = {
    "the program as it is fails; run again with the repair (use torch.softmax of the scores), all 30 steps are finite, and the loss goes"
    " from 11.71 to 0.000272; the first loss agrees with the program as written to 8.1e-08": "all 30 steps are finite",
    "control re-run reproduces the failure bit for bit; with line 19 repaired and nothing else changed, the output is finite": "output is",
    "control re-run reproduces loss inf; with data repaired and nothing else changed, loss and all 1 gradients are finite": "the data",
    "control re-run reproduces the symptom; with lines 9 and 10 repaired together it is gone, with one of them alone it is not": "9 and 10",
    "the step run again in its own formats gives the same wrong result; with only lines 4, 8, 9 kept in float64 and rounded to float32"
    " afterwards, the consumed number agrees with float64 to 1.3e-05": "lines 4, 8 and 9",
    "run in processes of their own with PYTHONHASHSEED=1 and 2, the program gives different numbers; with the repair (seed this generator)"
    " they agree bit for bit in all 27 numbers that were compared": "all 27 compared",
    "PyTorch's own derivative of the same forward agrees with the differences, and not with this backward; with that one change"
    " (multiply by ctx.beta) every one of 4 random projections agrees": "multiply by ctx.beta",
    "JAX's own derivative of the same forward agrees with the differences, and not with this rule": "JAX's own",
    "they are bit for bit what they were before the first of 60 steps and never got a gradient, while the recorded loss is computed from"
    " them through this operation": "60 steps",
    "the update run again on the recorded numbers gives the weights bit for bit; in float64 it moves all 772 elements, and rounded to"
    " bfloat16 650 of them are what they were": "650",
    "computed again in float64, with the same decisions, both sides of all 3 agree to twelve digits": "all 3 places",
    "before this operation the same numbers are different, and float64 holds them all": "still different",
    "the same operations in float64, at the same points, give 4.195 where float32 gives 7.629 (81.9% off)": "4.195",
    "the 20 arrays are one memory, which aten.copy_ wrote 20 times; they are equal bit for bit": "20 arrays",
    "differences of the loss in float64 give -1.25 along a random direction, backward 2.5": "-1.25",
    "with this line repaired, 3 of 4 gradients would still not be finite": "3 of 4 gradients",
}


@pytest.mark.parametrize("why", PROOFS)
def test_every_kind_of_proof_is_said_in_both_languages(why):
    d = replace(SOFTMAX, confirmed="no" if "would still" in why else "yes", confirmed_why=why)
    english = proof(d, Say("en")).said
    assert PROOFS[why] in " ".join(english)
    hindi = " ".join(proof(d, Say("hi")).said)
    assert hi.PHRASES["quoted"].format(text=why) not in hindi
    assert set(NUMBER.findall(hindi)) == set(NUMBER.findall(" ".join(english)))


def test_the_program_still_writes_its_proofs_in_these_words():
    folder = Path(numdebug.__file__).parent
    probes = folder.parents[1] / "probes" if (folder.parents[1] / "probes").is_dir() else folder / "probes"
    source = " ".join(p.read_text(encoding="utf-8") for p in (*folder.rglob("*.py"), *probes.glob("*.py")) if "explain" not in p.parts)
    for words in (
        "control re-run reproduces", "repaired and nothing else changed", "the program as it is shows the harm", "; run again ",
        "and the loss goes",
        "repaired together it is gone", "gives the same wrong result; with only", "run in processes of their own",
        "s own derivative of the same",
        "bit for bit what they were before the first of", "the update run again on the recorded numbers", "would still not be finite",
        "there is no repair that could be tried", "the change could not be written into the program", "comes later in the dataflow",
        "tried with these values", "both sides of all", "arrays are one memory, which", "at the same points, ",
        "along a random direction, backward",
        "but no known bug explains it", "but that step could not be recorded", "on one side and",
    ):  # fmt: skip
        assert words in source, words


def test_what_has_no_hindi_is_quoted_and_marked():
    text = told(report(replace(RATE, because="something new", confirmed_why="somebody looked")), "hi")
    assert "“somebody looked” (English में)" in text


@pytest.mark.parametrize("name", REPORTS)
def test_no_english_sentence_stands_unmarked_in_hindi(name):
    for c in offline.explain(Items(REPORTS[name]), "hi"):
        text = re.sub(r"“[^”]*”|`[^`]*`|\([^)]*\)", "", c.text)
        assert not re.search(r"(?:\b[a-z]+ ){5}", text) or c.cites[0].endswith(".code"), text


def test_the_same_numbers_are_told_in_hindi_as_the_evidence_holds():
    text = told(REPORTS["failure"], "hi")
    assert "-176" in text and "189.7" in text and "model.py:12" in text and "torch.softmax" in text


def test_a_real_diagnosis_is_explained(diagnose, tmp_path):
    file = tmp_path / "model.py"
    file.write_text(bugs()["softmax-overflow"].broken["torch"])
    found = diagnose(file).report
    for language in LANGUAGES:
        items = Items(found)
        assert [c.kind for c in offline.explain(items, language)][:2] == ["cause", "cause"]
        assert all(one in items for c in offline.explain(items, language) for one in c.cites)
    assert "weight = torch.exp(q @ keys.T)" in told(found) and "numdebug repeated the failing step" in told(found)
