"""The pictures of the documentation are those that the code draws, and load nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from tools.pictures import FOLDER, PICTURES, TERMINALS, main
from tools.terminal import plain, screen

NAMES = sorted(path.name for path in FOLDER.glob("*.svg"))


def test_every_picture_is_drawn_by_the_code() -> None:
    assert set(NAMES) == set(PICTURES)
    assert set(PICTURES) >= TERMINALS


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_well_formed_and_loads_nothing(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.find("{http://www.w3.org/2000/svg}title") is not None, "readers who cannot see it are told"
    outside = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "://" not in outside
    assert not re.search(r"href=(?!\"#)|src=|@import|@font-face|<script|<foreignObject|url\((?!#)", outside)


@pytest.mark.parametrize("name", sorted(set(PICTURES) - TERMINALS))
def test_a_picture_is_what_the_code_draws(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PICTURES[name](), f"make pictures ARGS={name}"


@pytest.mark.alone
@pytest.mark.parametrize("name", sorted(TERMINALS))
def test_a_terminal_shows_what_the_commands_print_today(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert plain(committed) == plain(PICTURES[name]()), f"make pictures ARGS={name}"


def test_a_screen_keeps_columns_colours_and_odd_text() -> None:
    drawn = screen("About <it>", [("show", "a  \x1b[32mgood\x1b[0m\n   <b> & 12 ms")])
    root = ET.fromstring(drawn)
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    assert [each.text for each in texts] == ["$", "show", "a", "good", "<b> & 12 ms"]
    start = float(texts[2].get("x") or 0)
    column = float(texts[2].get("textLength") or 0)
    assert float(texts[3].get("x") or 0) == pytest.approx(start + 3 * column)
    assert texts[3].get("fill") == "#7ee787"
    assert plain(drawn) == ["$ show", "a good", "&lt;b&gt; &amp; 0"]


def test_a_name_that_no_picture_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lost.svg"]) == 2
    assert "no picture is called lost.svg" in capsys.readouterr().err
