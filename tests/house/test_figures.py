"""Figures in tables name the command that prints them, every such command exists, and pictures are as committed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from bench import suites
from bench.curve import Curve, Curves, Played, Point, main, points, text_of
from bench.curve import Look as Seen
from tests.house.pages import ROOT, pages
from tools import charts, drawings, svg
from tools.pictures import FOLDER, PICTURES

DRAWN = [name for name, draw in PICTURES.items() if draw.__module__ in {charts.__name__, drawings.__name__}]
PERFORMANCE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"

_COMMAND = re.compile(r"`((?:python -m bench|make demo|ramify demo|make bench)[^`]*)`")
_CODE = re.compile(r"`[^`]*`")
#: Rates, sizes, times with a fraction, ratios, and large numbers. "25 s" and "5 x" are settings more often than not.
_MEASURED = re.compile(r"\d ?(?:MB|ms|tasks/s|jobs/s|/s|%)(?!\w)|\d\.\d+ s\b|(?:\d\.\d+|\d\d) x |\b\d{1,3},\d{3}\b")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def sections(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The text of each section without its tables, and the rows of these."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        lines = section.splitlines()
        rows = [line for line in lines if line.startswith("|") and not line.startswith("|--")]
        yield "\n".join(line for line in lines if not line.startswith("|")), rows


def without_a_command(page: Path) -> list[str]:
    """Rows with a figure for which neither they nor their section name a command."""
    return [
        row
        for text, rows in sections(page)
        for row in rows
        if _MEASURED.search(_CODE.sub("", row)) and not _COMMAND.search(row) and not _COMMAND.search(text)
    ]


def test_every_figure_of_the_performance_page_and_the_readme_names_its_command() -> None:
    assert any(rows for _, rows in sections(PERFORMANCE))
    assert without_a_command(PERFORMANCE) == []
    assert without_a_command(README) == []


@pytest.mark.parametrize("row", ["| a tree | 245,000 |", "| a task | 4.1 ms |", "| children | 80 MB of memory |"])
def test_a_figure_without_a_command_is_found(row: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Speed\n\n| work | result |\n|---|---|\n{row}\n", encoding="utf-8")
    assert without_a_command(page) == [row]
    page.write_text(f"# Speed\n\n| work | result |\n|---|---|\n{row} `python -m bench --only x` |\n", encoding="utf-8")
    assert without_a_command(page) == []


@pytest.mark.parametrize("page", [PERFORMANCE, README], ids=lambda page: page.stem)
def test_every_command_of_a_figure_exists(page: Path) -> None:
    known = suites.names()
    for command in _COMMAND.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(command)
        for option, name in pairwise(words):
            if option == "--only":
                assert name in known, command
            if option == "bench" and re.fullmatch(r"\w+", name):
                assert any(each.startswith(f"{name}/") for each in known), command


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_as_it_is_drawn(name: str) -> None:
    committed = (FOLDER / name).read_text(encoding="utf-8")
    assert PICTURES[name]() == committed, (
        f"docs/pictures/{name} is out of date; `python -m tools.pictures` draws it again"
    )


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_on_a_page(name: str) -> None:
    assert any(f"pictures/{name})" in page.read_text(encoding="utf-8") for page in pages()), f"no page shows {name}"


def test_a_label_that_would_be_cut_or_written_over_another_one_is_refused() -> None:
    sheet = svg.Sheet(200, 100, "two labels")
    sheet.text(10, 20, "a label")
    with pytest.raises(svg.DoesNotFit, match="written over"):
        sheet.text(20, 25, "another")
    with pytest.raises(svg.DoesNotFit, match="there is"):
        sheet.block(10, 40, 30, 20, "far too long for its box")


@pytest.mark.parametrize("order", drawings.ORDERS)
def test_the_drawn_orders_run_every_task_once_and_keep_their_rule(order: str) -> None:
    slots = drawings.schedule(order)
    ends = {piece.name: start + piece.seconds for piece, _, start in slots}
    assert sorted(ends) == sorted(piece.name for piece in drawings.PIECES)
    for piece, _, start in slots:
        assert piece.maker is None or ends[piece.maker] <= start
        if order == "rounds":
            assert all(ends[other.name] <= start for other in drawings.PIECES if other.round < piece.round)


def test_the_points_of_a_curve_are_read_off_what_was_measured() -> None:
    steps = [(number * 10, 100.0 + number) for number in range(1, 101)]
    looks = [Seen(100.0 + number / 2, 40.0 + number, number) for number in range(201)]
    found = points(Played(100.0, steps), looks, 10)
    assert [point.tasks for point in found] == [*range(100, 1001, 100)]
    assert {point.rate for point in found} == {10}
    assert (found[0].seconds, found[0].memory_mb, found[0].file_mb) == (10.0, 59, 19.0)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_curves_are_measured_written_and_read_again(tmp_path: Path) -> None:
    out = tmp_path / "growth.json"
    assert main(["--tasks", "1000", "--seconds", "0.2", "--dir", str(tmp_path), "--out", str(out)]) == 0
    found = msgspec.json.decode(out.read_bytes(), type=Curves)
    assert found.curves[0].name == "Ramify"
    assert found.curves[0].finished
    assert found.curves[0].points[-1].tasks == found.tasks == 1001
    assert msgspec.json.decode(text_of(found), type=Curves) == found


def test_graphs_have_room_for_ten_million_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [Point(number * 100_000, number * 0.4, 250_000, 120, number * 12.5) for number in range(1, 101)]
    theirs = [Point(number * 48_000, number * 1.2, 40_000, 160, number * 4.5) for number in range(1, 101)]
    slow = [Point(number * 3_600, number * 1.2, 3_000, 90, number * 0.5) for number in range(1, 101)]
    names = ("Ramify", "mutable rows, 100 at a time", "mutable rows, one at a time")
    curves = [Curve(name, way is ours, way) for name, way in zip(names, (ours, theirs, slow), strict=True)]
    made = msgspec.structs.replace(
        msgspec.json.decode(charts.MEASURED.read_bytes(), type=Curves),
        command="python -m bench.curve --tasks 10000000 --seconds 120",
        tasks=10_000_000,
        curves=curves,
    )
    monkeypatch.setattr(charts, "MEASURED", tmp_path / "growth.json")
    (tmp_path / "growth.json").write_text(text_of(made), encoding="utf-8")
    for draw, said in ((charts.rate, "250 k"), (charts.memory, "150 MB"), (charts.size, "1,250 MB")):
        assert said in draw()
    assert "stopped at 4.8 M tasks, after 120 s" in charts.rate()


def test_the_graphs_say_with_which_command_they_were_measured() -> None:
    curves = msgspec.json.decode(charts.MEASURED.read_bytes(), type=Curves)
    assert curves.command.startswith("python -m bench.curve --tasks ")
    assert curves.command in charts.rate()
