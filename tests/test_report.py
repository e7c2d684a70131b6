"""Reports: the published schema, the way back, escaping, exit codes, and what a person sees."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from numdebug.errors import UserError
from numdebug.evidence import Evidence, Number
from numdebug.journal import Record
from numdebug.plain import to_plain
from numdebug.recording import Frame, Site
from numdebug.report import concise, terminal
from numdebug.report import json as published
from numdebug.report.assemble import assemble, chosen
from numdebug.report.escape import visible
from numdebug.report.model import Consequence, Diagnosis, Fix, Observed, ProbeRun, Program, Report, RuledOut
from numdebug.report.suppressions import Suppressions, ignored
from numdebug.running import Ending

SOURCE = """import torch


def loss_fn(logits, y):
    p = torch.softmax(logits, dim=1)
    logp = torch.log(
        p
    )
    return -logp[y].mean()
"""
SITE = Site("model.py", 6, 12, 8, 6, "loss_fn", step=2)
DIAGNOSIS = Diagnosis(
    bug="log-of-softmax",
    title="log of a softmax probability that underflowed to 0",
    severity="error",
    confidence=0.99,
    because="softmax gave 0.0 for 14 of 640 entries, and log(0) is -inf",
    site=SITE,
    op="log",
    native_op="aten.log.default",
    phase="forward",
    confirmed="yes",
    confirmed_why="with line 6 rewritten, loss and all 6 gradients are finite",
    frames=(Frame("model.py", 31, "<module>"), Frame("model.py", 6, "loss_fn")),
    fix=Fix(
        "take log_softmax of the logits",
        "--- a/model.py\n+++ b/model.py\n@@ -6 +6 @@\n-    logp = torch.log(\n+    logp = torch.log_softmax(\n",
    ),
    consequences=(Consequence("loss", "nan", Site("model.py", 9, 12)),),
    ruled_out=(RuledOut("learning-rate-divergence", "update norm 0.8 of the median"),),
    evidence=("E1",),
)
EVIDENCE = Evidence(
    "naive-form",
    "stable_ops",
    "E1",
    SITE,
    7,
    {"naive_error": Number(float("inf"), "relative"), "zeros": Number(14, "elements")},
    {"born": "domain", "trail": [1, 2]},
)
REPORT = Report(
    Program("model.py", ["torch"], Observed(412, 3, True, 2, "first bad step", [])),
    {"python": "3.11.7", "threads": 2},
    "1 error: the loss is NaN",
    [DIAGNOSIS],
    [EVIDENCE],
    ["a note"],
    [ProbeRun("stable_ops", True, 0.05, 0)],
)

PAGE = """\
model.py: 1 error: the loss is NaN.

error log-of-softmax: log of a softmax probability that underflowed to 0
  at model.py:6:12  in loss_fn
    4 | def loss_fn(logits, y):
    5 |     p = torch.softmax(logits, dim=1)
  > 6 |     logp = torch.log(
      |            ^^^^^^^^^^
  > 7 |         p
      |         ^
  > 8 |     )
      |     ^
    9 |     return -logp[y].mean()
  because    softmax gave 0.0 for 14 of 640 entries, and log(0) is -inf
             E1 naive-form: naive error inf relative, zeros 14 elements
  confirmed  yes: with line 6 rewritten, loss and all 6 gradients are finite
  fix        take log_softmax of the logits
    --- a/model.py
    +++ b/model.py
    @@ -6 +6 @@
    -    logp = torch.log(
    +    logp = torch.log_softmax(
  explains   loss: nan at model.py:9:12
  ruled out  learning-rate-divergence: update norm 0.8 of the median

seen: 3 steps, 412 operations; stopped because: first bad step
note: a note
more: numdebug bug log-of-softmax
"""


def test_what_a_person_sees():
    assert terminal.render(REPORT, lambda file: SOURCE) == PAGE


def test_colour_changes_nothing_but_colour():
    coloured = terminal.render(REPORT, lambda file: SOURCE, colour=True)
    assert "\x1b[" in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == PAGE


@pytest.mark.parametrize("source", [None, "", "one line\n"])
def test_a_source_that_is_gone_or_shorter_is_no_matter(source):
    assert "at model.py:6:12" in terminal.render(REPORT, lambda file: source)


def test_narrow_terminals_keep_every_word():
    narrow = terminal.render(REPORT, lambda file: SOURCE, width=40)
    assert " ".join(DIAGNOSIS.because.split()) in " ".join(narrow.split())


def test_concise_is_what_editors_read():
    assert concise.render(REPORT) == ("model.py:6:12: error log-of-softmax softmax gave 0.0 for 14 of 640 entries, and log(0) is -inf\n")
    assert concise.render(replace(REPORT, diagnoses=[], verdict="nothing found")) == "model.py: nothing found\n"


def test_json_fits_the_schema_and_comes_back(schema):
    text = published.render(REPORT)
    schema.validate(json.loads(text))
    back = published.parse(text)
    assert back.diagnoses == REPORT.diagnoses
    assert back.program == REPORT.program
    assert back.probes == REPORT.probes
    assert back.evidence[0].numbers["naive_error"] == EVIDENCE.numbers["naive_error"]
    assert back.evidence[0]["born"] == "domain"
    assert published.render(back) == text


def test_json_without_repair_and_strict():
    data = json.loads(published.render(REPORT), parse_constant=lambda c: pytest.fail(c))
    assert "repair" not in data["diagnoses"][0]
    assert data["evidence"][0]["numbers"]["naive_error"]["value"] == "inf"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": "2"}', '{"schema_version": "1"}', '{"schema_version": NaN}'])
def test_a_file_that_is_no_report(text):
    with pytest.raises(UserError, match="report"):
        published.parse(text)


EVIL = "\x1b]8;;http://evil\x07x\x1b[2J [red]no[/red] :smile: \u202eback\r\x9b"


def test_text_of_the_program_is_data_on_every_surface():
    evil = replace(
        DIAGNOSIS, because=EVIL, title=EVIL, confirmed_why=EVIL, fix=Fix(EVIL, EVIL), site=replace(SITE, function=EVIL, module=EVIL)
    )
    report = replace(REPORT, diagnoses=[evil], notes=[EVIL], verdict=EVIL)
    for page in (terminal.render(report, lambda file: EVIL * 10), concise.render(report), published.render(report)):
        for char in ("\x1b", "\x07", "\u202e", "\x9b", "\r"):
            assert char not in page
        assert "[red]no[/red]" in page
        assert ":smile:" in page
    assert concise.render(report).count("\n") == 1


def test_visible_keeps_ordinary_text():
    assert visible("naïve σ² – ok\n\tx") == "naïve σ² – ok\n\tx"


def journal(*records: tuple[str, dict]) -> list[Record]:
    return [Record(name, data) for name, data in records]


def put_together(*records: tuple[str, dict], status: int | None = 0, source: str = SOURCE, match=None, keep=lambda bug: True, **ending):
    return assemble("model.py", Ending(journal(*records), status, **ending), keep, Suppressions(lambda file: source), match)


FOUND = ("diagnosis", to_plain(DIAGNOSIS))
SEEN = ("observed", {"ops": 10, "steps": 2, "backward": True})
PASSES = ("seen", {"forward": True, "backward": True})
END = ("end", {})


@pytest.mark.parametrize(
    ("records", "ending", "code", "words"),
    [
        ([SEEN, PASSES, ("ended", {"how": "returned"}), END], {}, 0, "nothing found in 2 steps (10 operations)"),
        ([SEEN, PASSES, FOUND, ("ended", {"how": "raised"}), END], {}, 1, "1 error: the loss is NaN from step 2 on, because of log of a"),
        ([SEEN, PASSES, ("ended", {"how": "raised"}), ("raised", {"type": "E", "message": "m"}), END], {}, 4, "but model.py raised E: m"),
        (
            [SEEN, PASSES, ("ended", {"how": "returned"}), ("failure", {"where": "x", "traceback": "E: y"}), END],
            {},
            3,
            "an error of its own",
        ),
        ([SEEN, FOUND], {"status": -9}, 1, "1 error"),
        ([SEEN], {"status": -11}, 4, "SIGSEGV"),
        (
            [SEEN, PASSES, ("ended", {"how": "stopped", "why": "the time limit of 3 s was reached"}), END],
            {},
            0,
            "(the time limit of 3 s was reached)",
        ),
        ([SEEN], {"status": None, "timed_out": True}, 4, "did not react"),
        ([SEEN, FOUND], {"status": None, "interrupted": True}, 130, "1 error"),
        ([], {"status": 1}, 4, "status 1"),
    ],
)
def test_every_ending_has_a_verdict_and_an_exit_code(schema, records, ending, code, words):
    report, got = put_together(*records, **ending)
    assert got == code
    assert words in report.verdict
    schema.validate(json.loads(published.render(report)))


def test_evidence_that_the_child_did_not_judge_is_judged_here():
    report, code = put_together(
        ("evidence", to_plain(EVIDENCE)), SEEN, status=-9, match=lambda facts: [DIAGNOSIS] if facts == [EVIDENCE] else []
    )
    assert (code, report.diagnoses) == (1, [DIAGNOSIS])
    report, code = put_together(("evidence", to_plain(EVIDENCE)), ("matched", {}), SEEN, END, match=lambda facts: [DIAGNOSIS])
    assert report.diagnoses == []


def test_invented_inputs_give_warnings_that_show_them():
    report, code = put_together(FOUND, SEEN, PASSES, ("invented", {"text": "x=float32[3]"}), ("ended", {"how": "returned"}), END)
    assert code == 0
    assert report.diagnoses[0].severity == "warning"
    assert "x=float32[3]" in report.diagnoses[0].because


def test_an_excused_line_is_left_out_and_counted():
    source = SOURCE.replace("        p\n", "        p  # numdebug: ignore[log-of-softmax, exp-overflow] bounded\n")
    report, code = put_together(FOUND, SEEN, PASSES, ("ended", {"how": "returned"}), END, source=source)
    assert (code, report.diagnoses) == (0, [])
    assert "suppressed in the source: log-of-softmax at model.py:6: bounded" in report.notes
    other = source.replace("log-of-softmax", "log-of-zero")
    assert put_together(FOUND, SEEN, PASSES, END, source=other)[1] == 1


def test_only_real_comments_excuse():
    assert ignored('x = "# numdebug: ignore[a] b"\n') == {}
    assert ignored("x = 1  # numdebug: ignore[a]\n") == {1: ({"a"}, "")}
    assert ignored("x = (\n") == {}


def test_selection_by_id_and_family():
    family = {"exp-overflow": "range", "dead-relu": "gradient"}.get
    assert [b for b in ("exp-overflow", "dead-relu") if chosen(["range"], [], lambda b: family(b, ""))(b)] == ["exp-overflow"]
    assert [b for b in ("exp-overflow", "dead-relu") if chosen([], ["dead-relu"], lambda b: family(b, ""))(b)] == ["exp-overflow"]
