"""The tour of floating point: docs/tour.md is what its script prints today, and says what the bug catalogue's facts say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def page() -> str:
    script = ROOT / "examples" / "tour_of_floating_point.py"
    return subprocess.run([sys.executable, "-X", "utf8", str(script)], capture_output=True, encoding="utf-8", check=True).stdout


def test_the_page_is_what_the_script_prints(page):
    assert page == (ROOT / "docs" / "tour.md").read_text(encoding="utf-8"), "python examples/tour_of_floating_point.py > docs/tour.md"


@pytest.mark.parametrize(
    "row",
    [
        "float32 | 0.30000001192092896 | 0.30000001192092896 | yes",
        "float32 | 1.19e-07 | 5.96e-08",
        "[1000, 999] | float64 | [nan, nan] | [0.731059, 0.268941]",
        "[100, 101, 102] | float64 | [0.0900306, 0.244728, 0.665241] | [0.0900306, 0.244728, 0.665241]",
        "[500, 501, 502] | float64 | 502.4076 | 502.4076",
        "[1000, 1001] | float64 | inf | 1001.3133",
        "float32 | -65536.00000000 | 0.66666669",
        "float16 | 24.6%",
        "float16, loss times 1024 | 0.0%",
        "by norm | [0.998752, 0.0499376] | 1.0000 | 0.0°",
    ],
)
def test_facts(page, row):
    assert re.search(rf"^\| {re.escape(row)} \|$", page, re.MULTILINE)
