"""Every page of the documentation does what it shows, and every link on it leads somewhere."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.pages import ROOT, PageError, blocks, matches, pages, play
from tools.site.commands import commands

NAMES = [str(page.relative_to(ROOT / "docs" if page.parent != ROOT else ROOT).with_suffix("")) for page in pages()]
_LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)|!\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_INLINE = re.compile(r"`(ramify [^`]+)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Written by the build of the site, not by people.
GENERATED = ("docs/tutorial/", "docs/reference/api.md", "docs/reference/types.md", "docs/reference/cli.md")


def path_of(name: str) -> Path:
    return ROOT / "README.md" if name == "README" else ROOT / "docs" / f"{name}.md"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site both make them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text))
    return {re.sub(r"-{2,}", "-", slug) for slug in slugs}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_does_what_it_shows(name: str, tmp_path: Path) -> None:
    play(path_of(name), tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_every_link_on_a_page_leads_somewhere(name: str) -> None:
    page = path_of(name)
    for found in _LINK.finditer(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = (found[1] or found[2]).partition("#")
        if target.startswith(("https://", "http://")):
            continue
        file = (page.parent / target).resolve() if target else page
        if str(file.relative_to(ROOT)).startswith(GENERATED):
            continue
        assert file.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(file), f"{target} has no heading #{anchor}"


@pytest.mark.parametrize("name", NAMES)
def test_every_program_on_a_page_is_python_and_is_run_or_is_named(name: str) -> None:
    for block in blocks(path_of(name).read_text(encoding="utf-8")):
        assert block.language, f"{name}:{block.line}: name the language of the block"


def unknown_words(text: str) -> Iterator[str]:
    """Command lines within the text of a page that name a command or an option that does not exist."""
    options = {
        name: {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        for name, command in commands()
    }
    for line in _INLINE.findall(_FENCED.sub("", text)):
        words = shlex.split(re.sub(r"^ramify -s \S+", "ramify", line))
        known = next((name for of in (3, 2) if (name := " ".join(words[:of])) in options), None)
        typed = {word for word in words[1:] if re.match(r"--?[a-z]", word)}
        if known is None or not typed <= options[known] | {"--help"}:
            yield line


def test_every_command_line_in_a_text_has_a_command_and_options_that_exist() -> None:
    for page in pages():
        assert list(unknown_words(page.read_text(encoding="utf-8"))) == [], page
    wrong = "`ramify retry usage --filed`, `ramify rerty usage`, `ramify -s a.db crons pause etl --dry-run`"
    assert len(list(unknown_words(wrong))) == 3


def test_outputs_are_compared_line_by_line() -> None:
    assert matches(("a …", "…", "end"), ["a 1", "x", "y", "end"])
    assert matches(("a", "…"), ["a"])
    assert not matches(("a",), ["a", "b"])
    assert not matches(("a …",), ["b 1"])
    assert not matches((), ["a"])
    assert matches(("1,200 in 3.4 s",), ["7 in 12 s"], varies=True)
    assert not matches(("1,200 in 3.4 s",), ["7 of 12 s"], varies=True)
    assert matches(("done: 1,200",), ["done:  11,234,567"], varies=True)
    assert not matches(("1,200 in 3.4 s",), ["4711 in 3.4 s"], varies=True)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("```python\nraise SystemExit(2)\n```\n", "exited with 2"),
        ("```console\n$ echo one\ntwo\n```\n", "printed\none"),
        ("```console\n$ false\n```\n", "exited with 1"),
        ("```console\n$ true  # exits with 1\n```\n", "exited with 0 instead of 1"),
    ],
)
def test_a_page_that_is_wrong_is_found(block: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.house.pages.ROOT", tmp_path)
    (tmp_path / "page.md").write_text(block, encoding="utf-8")
    with pytest.raises(PageError, match=said):
        play(tmp_path / "page.md", tmp_path)
