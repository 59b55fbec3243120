"""What `make .venv` installs is pinned, one version each, with no addresses."""

from pathlib import Path

import pytest

from tests.house.planted import REPOSITORY
from tools.pins import pins

PROJECT = """
[build-system]
requires = ["hatchling"]
[project]
dependencies = ["click"]
[project.optional-dependencies]
dev = ["pytest"]
"""
NEEDED = ["click", "editables", "hatchling", "iniconfig", "packaging", "pluggy", "pygments", "pytest"]
BUILD = ["pathspec", "tomlkit", "trove-classifiers"]
PINNED = [f"{name}==1.0" for name in sorted([*NEEDED, *BUILD])]


def findings(root: Path, lines: list[str]) -> list[str]:
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "constraints.txt").write_text("# pins\n" + "\n".join(lines) + "\n")
    return [str(finding) for finding in pins(root)]


def test_a_complete_list_in_order_is_quiet(tmp_path: Path) -> None:
    assert findings(tmp_path, PINNED) == []


@pytest.mark.parametrize("missing", ["click", "editables", "iniconfig"])
def test_a_distribution_that_nobody_pinned_is_found_even_if_only_another_one_asks_for_it(
    missing: str, tmp_path: Path
) -> None:
    found = findings(tmp_path, [pin for pin in PINNED if not pin.startswith(missing)])
    assert found == [f"constraints.txt:1: {missing} is installed by make .venv and not pinned"]


@pytest.mark.parametrize(
    "line",
    [
        "zope>=1.0",
        "zope",
        "zope==1.0 --hash=sha256:00",
        "zope @ https://host/zope.whl",
        "-r other.txt",
        "zope==1.*",
    ],
)
def test_a_line_that_is_not_one_exact_version_is_found(line: str, tmp_path: Path) -> None:
    found = findings(tmp_path, [*PINNED, line])
    assert len(found) == 1
    assert "is not name==version" in found[0]


def test_a_pin_out_of_order_is_found(tmp_path: Path) -> None:
    assert any("out of order" in found for found in findings(tmp_path, [PINNED[1], PINNED[0], *PINNED[2:]]))


def test_a_second_pin_of_the_same_distribution_is_found(tmp_path: Path) -> None:
    assert any("twice" in found for found in findings(tmp_path, [*PINNED, PINNED[-1]]))


def test_everything_this_environment_needs_is_pinned() -> None:
    assert [str(finding) for finding in pins(REPOSITORY)] == []
