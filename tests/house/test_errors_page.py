"""The page of errors has a section for each exception, with its cause and its remedy, and no other section."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import ramify
from ramify import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
SECTIONS = {
    found[1]: found[2]
    for found in re.finditer(r"^#{2,3} ([A-Z]\w+)\n+(\*\*Cause\..*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
#: Never leave the package: signals from one part of the codec to another, and from a server's link to its store.
INTERNAL = {"Refers", "Occupied"}
#: Names that `ramify` gives out, listed or not.
_NAMES = {name for name in dir(ramify) if not name.startswith("_")}


@cache
def exceptions() -> dict[str, list[str]]:
    """Every class of the package that has an exception above it, with the names of its bases."""
    bases = {
        node.name: [base.id for base in node.bases if isinstance(base, ast.Name)]
        for path in (ROOT / "src" / "ramify").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    found = {"BaseException", "Exception", "SystemExit"}
    while more := {name for name, above in bases.items() if name not in found and found & set(above)}:
        found |= more
    return {name: bases[name] for name in found if name in bases}


def family(name: str, above: dict[str, list[str]]) -> set[str]:
    """A class of the package and everything that inherits from it."""
    above = {each: bases for each, bases in above.items() if each not in INTERNAL}
    return {name}.union(*(family(each, above) for each, bases in above.items() if name in bases))


def test_every_exception_of_the_tree_has_a_section() -> None:
    assert family("RamifyError", exceptions()) <= set(SECTIONS)
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {each.__name__ for each in classes if issubclass(each, BaseException)} <= set(SECTIONS)


def test_every_exception_that_is_exported_has_a_section() -> None:
    exported = {name for name in _NAMES if name[0].isupper() and isinstance(getattr(ramify, name), type)}
    raised = {name for name in exported if issubclass(getattr(ramify, name), BaseException)}
    assert {"Defer", "Fatal", "Skip"} <= raised, "the test looks at something"
    assert raised <= set(SECTIONS)


def test_no_section_is_about_a_class_that_is_gone() -> None:
    assert set(SECTIONS) <= set(exceptions())


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_a_section_names_the_cause_and_the_remedy(name: str) -> None:
    assert re.fullmatch(r"\*\*Cause\.\*\* .+?\n\n\*\*Remedy\.\*\* .+?\n+", SECTIONS[name], re.DOTALL)


def test_the_tree_on_the_page_is_that_of_the_code() -> None:
    (tree,) = re.findall(r"```text\n(RamifyError.*?)```", PAGE, re.DOTALL)
    above: list[str] = []
    drawn = {}
    for line in tree.splitlines():
        drawing, name, also = re.fullmatch(r"([│├└─ ]*)(\w+)(?: \(also an? (\w+)\))?", line).groups()  # type: ignore[union-attr]
        del above[len(drawing) // 4 :]
        drawn[name] = {*above[-1:], *([also] if also else [])}
        above.append(name)
    known = exceptions()
    assert set(drawn) == family("RamifyError", known)
    assert drawn == {"RamifyError": set(), **{name: set(known[name]) for name in drawn if name != "RamifyError"}}
