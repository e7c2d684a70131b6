"""The command line: what it imports, what it lists, where it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from numdebug import config, languages, listing
from numdebug.errors import UserError

HEAVY = ("numpy", "torch", "jax", "jinja2", "openai", "rich", "keras")

CLEAN = "import torch\nmodel = torch.nn.Linear(3, 1)\nmodel(torch.ones(4, 3)).mean().backward()\nprint('chatter')\n"


def modules_after(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_help_imports_nothing_heavy():
    code = "import sys\nfrom numdebug.cli import main\nsys.argv = ['numdebug', '--help']\ntry:\n    main()\nexcept SystemExit:\n    pass"
    assert not set(HEAVY) & set(modules_after(code))


def test_that_test_would_notice():
    assert "jinja2" in modules_after("import numdebug.prompting")


def test_the_parents_side_and_all_rules_import_no_framework():
    code = (
        "import numdebug.diagnosing, numdebug.report.terminal, numdebug.match, numdebug.catalogue, importlib\n"
        "numdebug.catalogue.bugs()\nfrom numdebug.diagnosing import probe_names\n"
        "[importlib.import_module('numdebug.probes.' + n) for n in probe_names()]"
    )
    assert not {"torch", "jax", "keras", "openai"} & set(modules_after(code))


def test_help_of_every_command(numdebug):
    for command in ("diagnose", "compare", "explain", "ask", "demo", "bugs", "bug", "probes", "probe", "prompt"):
        said = numdebug(command, "--help")
        assert said.code == 0
        assert "Usage: numdebug" in said.out
    assert numdebug("--version").out.startswith("numdebug, version")
    assert numdebug("nonsense").code == 2


def test_json_to_a_file_leaves_stdout_empty(numdebug, tmp_path, schema):
    (tmp_path / "model.py").write_text(CLEAN)
    said = numdebug("diagnose", "model.py", "--format", "json", "-o", "out.json")
    assert (said.code, said.out) == (0, "")
    assert "chatter" in said.err
    report = json.loads((tmp_path / "out.json").read_text())
    schema.validate(report)
    assert report["program"]["observed"]["ops"] > 0
    assert report["verdict"].startswith("nothing found in 1 step (")
    rendered = numdebug("prompt", "render", "out.json")
    assert rendered.code == 0
    assert "no diagnosis was made" in rendered.out


def test_a_clean_program_as_text_and_concise(numdebug, tmp_path):
    (tmp_path / "model.py").write_text(CLEAN)
    said = numdebug("diagnose", "model.py", "--format", "concise", NO_COLOR="1")
    assert said.code == 0
    assert said.out.startswith("model.py: nothing found in 1 step (")
    assert said.out.count("\n") == 1


def test_one_probe_alone(numdebug, tmp_path):
    (tmp_path / "model.py").write_text("import torch\nx = torch.zeros(3, requires_grad=True)\nx.log().sum().backward()\n")
    said = numdebug("probe", "nonfinite", "model.py")
    assert "nonfinite" in said.out
    assert "model.py:3" in said.out


def test_listings(numdebug):
    every = numdebug("bugs").out
    assert "log-of-softmax" in every
    assert "range" in every.splitlines()
    assert "log-of-softmax" in numdebug("bugs", "--symptom", "loss is nan").out
    assert "no bug of the catalogue" in numdebug("bugs", "--symptom", "purple elephants").out
    page = numdebug("bug", "log-of-softmax").out
    for heading in ("What happens", "Why it matters", "How we know", "Not this", "Fix", "Read on"):
        assert heading in page
    assert "nonfinite" in numdebug("probes").out


def test_sections_of_a_page_are_found():
    page = "Title.\n\nWhat happens\n    In one\n    line.\nHow we know\n    By\n\n    looking.\nFix\n    It."
    assert languages.section(page, "How we know") == "By looking."
    assert languages.section(page, "Nothing") == ""


def test_an_error_of_our_own_is_one_sentence(monkeypatch, capsys):
    from numdebug import cli

    monkeypatch.setattr(listing, "bugs", lambda symptom, language: 1 / 0)
    with pytest.raises(SystemExit) as stop:
        cli.main(["bugs"])
    assert stop.value.code == 3
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said
    assert "please report it" in said
    assert "Traceback" not in said


def test_a_reader_that_leaves_early_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m numdebug bugs | true; exit ${{PIPESTATUS[0]}}",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_output_that_the_terminal_cannot_encode(numdebug):
    assert numdebug("bug", "log-of-softmax", PYTHONIOENCODING="ascii").code == 0


def test_configuration_is_found_upwards_and_the_command_line_wins(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text("[tool.numdebug]\nmax-steps = 3\nignore = ['dead-relu']\nrerun = false\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert config.load(tmp_path / "a" / "b") == config.Config(ignore=("dead-relu",), max_steps=3, rerun=False)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert config.load(tmp_path / "a" / "b") == config.Config()
    (tmp_path / "a" / "pyproject.toml").write_text("[tool]\nnumdebug = 3\n")
    with pytest.raises(UserError, match="must be a table"):
        config.load(tmp_path / "a" / "b")


def test_nothing_is_left_in_the_temporary_folder(numdebug, tmp_path):
    (tmp_path / "model.py").write_text("print(1)\n")
    (tmp_path / "tmp").mkdir()
    numdebug("diagnose", "model.py", TMPDIR=str(tmp_path / "tmp"))
    assert list((tmp_path / "tmp").iterdir()) == []
