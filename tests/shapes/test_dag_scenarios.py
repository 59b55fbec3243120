"""The table of the forerunner's scenarios names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_test_that_the_table_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", (ROOT / "tests/shapes/README.md").read_text())
    assert len(named) > 30
    for file, test in named:
        assert (ROOT / file).exists(), file
        assert not test or re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{test}"
