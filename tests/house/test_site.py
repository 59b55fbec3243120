"""The documentation site opens from a folder, without a server and without a network, and leaves nothing out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ramify
from tools.site import behaviour, commands, examples, names, order, tutorial
from tools.site.commands import exit_codes
from tools.site.names import MODULES, names_of

ROOT = Path(__file__).parents[2]
#: A build takes about ten seconds; on a loaded machine a test waits longer before it complains.
SECONDS = 60
#: Attributes of tags by which a browser loads something; a link (`a href`) is only followed.
LOADING = {
    ("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("image", "href"),
    ("object", "data"), ("video", "src"), ("embed", "src"), ("use", "href"), ("form", "action"),
}  # fmt: skip
_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)['\"]?\s*\)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """What a page loads, what it links to, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.styles: list[str] = []
        self._within = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        for name, value in attrs:
            if value is None:
                continue
            if (tag, name) in LOADING:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)
            elif name in ("id", "name"):
                self.anchors.add(value)
            elif name in ("srcset", "poster", "background"):
                self.loads.append(value)
            elif name == "style":
                self.styles.append(value)

    def handle_data(self, data: str) -> None:
        if self._within == "style":
            self.styles.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._within = ""


def loaded_by(css: str) -> list[str]:
    """What a style sheet loads; pictures inside of it are no files."""
    found = (one or other for one, other in _URL.findall(css))
    return [url for url in found if not url.startswith(("data:", "#", "var("))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    began = time.monotonic()
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert time.monotonic() - began < SECONDS
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def target_of(page: Path, url: str) -> tuple[Path, str]:
    """The file and the anchor that a relative address means."""
    parts = urlsplit(url)
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return file, unquote(parts.fragment)


def test_every_page_that_is_written_or_generated_is_in_the_site(site: Path) -> None:
    written = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    generated = {path for make in (tutorial, commands, names, examples) for path, _ in make.pages(ROOT)}
    assert {f"{path[:-3]}.html" for path in written | generated} <= {
        str(path.relative_to(site)) for path in site.rglob("*.html")
    }


def test_everything_that_a_page_loads_is_a_file_beside_it(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # for servers; its addresses begin at their root
        assert page.loads, f"{path} loads no style sheet: the parser is blind"
        for url in [*page.loads, *(each for style in page.styles for each in loaded_by(style))]:
            assert not urlsplit(url).scheme, f"{path.relative_to(site)} loads {url}"
            assert not url.startswith("/"), f"{path.relative_to(site)}: {url} is not relative"
            assert target_of(path, url)[0].is_file(), f"{path.relative_to(site)}: {url} does not exist"


def test_every_link_leads_to_a_page_and_to_a_heading_of_it(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for url in page.links:
            if urlsplit(url).scheme:
                assert url.startswith(("https://", "mailto:")), f"{path.relative_to(site)}: {url}"
                continue
            file, anchor = target_of(path, url)
            assert file.is_file(), f"{path.relative_to(site)}: {url} does not exist"
            assert file.is_relative_to(site.resolve()), f"{path.relative_to(site)}: {url} leaves the site"
            # `__` begins what the theme's own scripts make.
            if anchor and not anchor.startswith("__") and file.suffix == ".html":
                assert anchor in pages[file].anchors, f"{path.relative_to(site)}: {url} has no such heading"


def test_no_style_sheet_loads_anything_from_elsewhere(site: Path) -> None:
    sheets = list(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        for url in loaded_by(sheet.read_text(encoding="utf-8")):
            assert not urlsplit(url).scheme, f"{sheet.relative_to(site)} loads {url}"
            assert target_of(sheet, url)[0].is_file(), f"{sheet.relative_to(site)}: {url} does not exist"


def test_pages_do_not_have_what_makes_the_theme_load_scripts_from_the_network(
    site: Path, pages: dict[Path, Page]
) -> None:
    # The theme fetches these only for diagrams, formulas of its own and numbers of a repository.
    for path in pages:
        text = path.read_text(encoding="utf-8")
        for trigger in ('class="mermaid"', 'data-md-component="source"', "__md_analytics("):
            assert trigger not in text, f"{path.relative_to(site)} has {trigger}"


def test_pictures_load_nothing(site: Path) -> None:
    for picture in site.rglob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        assert not re.search(r"(href|src)\s*=\s*['\"](?!#)|@import|@font-face|<script|url\((?!#)", text), picture.name


def test_the_search_needs_no_request(site: Path, pages: dict[Path, Page]) -> None:
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("var __index = "))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {str(path.relative_to(site)) for path in pages if path.name != "404.html"} == found
    for path, page in pages.items():
        assert any(url.endswith("assets/iframe-worker.js") for url in page.loads), f"{path.name}: no search from a file"
        assert not any("unpkg" in url for url in page.loads)


def test_every_public_name_is_on_its_page(site: Path, pages: dict[Path, Page]) -> None:
    api = pages[site / "reference" / "api.html"]
    errors = pages[site / "reference" / "errors.html"].anchors
    for name in ramify.__all__:
        if not name.startswith("_"):
            assert f"ramify.{name}" in api.anchors or name.lower() in errors, f"{name} is on no page"
    for module, page, _ in MODULES:
        anchors = pages[site / "reference" / f"{page}.html"].anchors if names_of(module) else set[str]()
        assert {f"{module}.{name}" for name in names_of(module)} <= anchors
    methods = {"ramify.Engine.run", "ramify.Run.retry", "ramify.Dag.add", "ramify.Job.result"}
    assert methods <= api.anchors, "members are there, too"


def test_every_name_in_an_index_is_explained() -> None:
    for page, text in names.pages(ROOT):
        rows = re.findall(r"^\| \[`(\w+)`\]\(#[^)]+\) \|(.*)\|$", text, re.MULTILINE)
        assert rows, page
        assert [name for name, about in rows if not about.strip()] == []


def test_every_command_and_option_is_on_its_page(site: Path, pages: dict[Path, Page]) -> None:
    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    found = dict(commands.commands())
    assert len(found) > 30, "commands within others count, too"
    for name, command in found.items():
        assert name.replace(" ", "-") in pages[site / "reference" / "cli.html"].anchors
        section = text[text.index(f'id="{name.replace(" ", "-")}"') :]
        section = section[: section.find("<h", 10)]
        for option in (each for each in command.params if each.param_type_name == "option" and not each.hidden):  # type: ignore[attr-defined]
            assert all(spelled in section for spelled in option.opts), f"{name}: {option.opts}"
    assert [code for code, _ in exit_codes()] == ["0", "1", "2", "3", "130", "141", "143"]


def test_the_order_puts_named_pages_first_and_forgets_none() -> None:
    nav = order.nav_of(["guides/zebra.md", "guides/crawl.md", "guides/trees.md", "index.md", "lost.md"])
    assert nav == [
        {"Home": "index.md"},
        {"Guides": ["guides/trees.md", "guides/crawl.md", "guides/zebra.md"]},
        "lost.md",
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "tour").glob("test_*.py")), ids=lambda path: path.stem)
def test_a_chapter_shows_all_of_its_test_file(path: Path) -> None:
    shown: defaultdict[str, int] = defaultdict(int)
    page = tutorial.chapter_of(path).text
    for line in page.splitlines():
        shown[line.strip()] += 1
    for line in code_of(path):
        assert shown[line], f"{path.name}: {line!r} is not on the page"
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        compile(block, path.name, "exec", flags=0x2000)  # a top-level await may be shown


def code_of(path: Path) -> Iterator[str]:
    """The lines of code that a reader needs."""
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        text = re.sub(r"  # (type: ignore|noqa).*", "", line).strip()
        if re.match(r"(assert|run = |with |from ramify|@engine|engine = )", text):
            yield text


def test_the_table_of_behaviour_has_a_row_for_each_test_and_leaves_out_stores_that_it_skips() -> None:
    ((path, page),) = behaviour.pages(ROOT)
    assert path == "reference/behaviour.md"
    rows = [line for line in page.splitlines() if "✓" in line]
    assert "| A program and a task exclude each other | ✓ | ✓ |" in rows
    assert "| Two processes exclude each other |  | ✓ |" in rows
    assert len(rows) > 100
