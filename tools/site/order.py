"""The order of the site: sections and the pages in them.

A page that is not named here comes at the end of its folder, in the order of the alphabet; one that is named and not
written is left out. So pages are added without a line here, and a line here only moves them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

#: A section is a title, a folder, and the pages that come first in it. A folder without pages has no section.
SECTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Guides",
        "guides",
        (
            "trees", "crawl", "fan-out", "dags", "pipelines", "compensation", "jobs", "schedules", "values", "locks",
            "limits", "topics", "django", "service", "deploying", "testing", "tasks",
        ),
    ),
    ("Tutorial", "tutorial", ("index",)),
    ("Concepts", "concepts", ("index", "log", "claims", "rounds", "joins", "lives", "survival")),
    ("Reference", "reference", ("api", "types", "cli", "errors", "defaults", "behaviour")),
    ("Operations", "operations", ("deploy", "size", "backup", "monitor")),
    (
        "Coming from",
        "coming-from",
        ("celery", "rq", "huey", "arq", "dramatiq", "airflow", "prefect", "temporal", "dbos"),
    ),
    ("Examples", "examples", ("index",)),
)  # fmt: skip
#: Pages beside the folders, by their titles, and the section before which each of them stands.
SINGLE: dict[str, tuple[str, str]] = {"index.md": ("Home", "Guides"), "performance.md": ("Performance", "Coming from")}

#: As mkdocs takes it: a page, or a section's title with its pages.
Entry = str | dict[str, str] | dict[str, list[str]]


def nav_of(pages: Iterable[str]) -> list[Entry]:
    """Return the navigation of these pages, which are paths below docs/."""
    known = set(pages)
    nav: list[Entry] = []
    for title, folder, first in SECTIONS:
        nav += [{name: page} for page, (name, before) in SINGLE.items() if before == title and page in known]
        if within := list(_within(known, folder, first)):
            nav.append({title: within})
    placed = {*SINGLE, *(page for _, folder, _ in SECTIONS for page in known if page.startswith(f"{folder}/"))}
    return [*nav, *sorted(known - placed)]


def _within(known: set[str], folder: str, first: tuple[str, ...]) -> Iterator[str]:
    listed = [f"{folder}/{name}.md" for name in first]
    yield from (page for page in listed if page in known)
    yield from sorted(page for page in known.difference(listed) if page.startswith(f"{folder}/"))
