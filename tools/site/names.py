"""The pages of public names: an index in groups, and an entry for each name that mkdocstrings fills from the code.

The lists are those of the packages (`__all__`) and of `ramify.types`, so that a new name appears by itself; names that
are in no group of `GROUPS` come last. Exceptions have a page that people write, and are linked there.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import msgspec

import ramify
from ramify import errors as ramify_errors

GROUPS: dict[str, tuple[str, ...]] = {
    "Tasks": (
        "Engine", "Tasks", "Task", "Call", "Spawns", "AsyncSpawns", "Return", "Backoff", "Rate", "Resource",
        "AsyncResource",
    ),
    "Inside a task": (
        "current", "Current", "Stream", "Failure", "Defer", "Fatal", "Skip", "Context", "CurrentRun", "Leader", "Ends",
        "Slot",
    ),
    "Runs": ("Run", "RunState", "Counts"),
    "Jobs and queues": ("Job", "JobState", "Queue"),
    "DAGs": ("Dag", "Node"),
    "Pipelines": ("Pipeline", "steps", "Steps", "Route"),
}  # fmt: skip
#: Classes that users make by calling them; of others the constructor is nobody's business.
CALLED = {"Engine", "Tasks", "Rate", "Defer", "Fatal", "Skip", "Metrics", "FakeClock"}
#: Modules whose names are public, with the page and the title they have there. One that is not there yet is left out.
MODULES: tuple[tuple[str, str, str], ...] = (
    ("ramify.types", "types", "Types"),
    ("ramify.testing", "api", "Testing"),
    ("ramify.testing.fixture", "api", "A pytest fixture"),
    ("ramify.contrib.prometheus", "api", "Prometheus"),
    ("ramify.contrib.opentelemetry", "api", "OpenTelemetry"),
)


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the pages."""
    own = [name for name in ramify.__all__ if not name.startswith("_")]
    entries = [name for name in own if not _is_error("ramify", name)]
    grouped = {title: [name for name in names if name in entries] for title, names in GROUPS.items()}
    grouped["More"] = sorted(set(entries) - {name for names in grouped.values() for name in names})
    sections = [(title, "ramify", names) for title, names in grouped.items() if names]
    sections += [(title, module, names_of(module)) for module, page, title in MODULES if page == "api"]
    errors = [name for name in vars(ramify_errors) if _is_error("ramify.errors", name)]
    intro = "Import these from `ramify`, unless another module is named."
    yield "reference/api.md", _page("Python API", intro, sections, errors)
    if types := names_of("ramify.types"):
        about = "Types of values that Ramify returns. Import them from `ramify.types` to annotate your own functions."
        yield "reference/types.md", _page("Types", about, [("", "ramify.types", sorted(types))], [])


def names_of(module: str) -> list[str]:
    """Return the public names of a module; none if it is not there."""
    if find_spec(module) is None:
        return []
    found = import_module(module)
    listed = getattr(found, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(found).items() if _is_own(found.__name__, name, value)]
    return [name for name in listed if not name.startswith("_") and not _is_error(module, name)]


def _page(title: str, intro: str, sections: list[tuple[str, str, list[str]]], errors: list[str]) -> str:
    parts = [f"# {title}", intro, "## Index"]
    for heading, module, names in sections:
        if heading:
            parts.append(f"**{heading}**" + ("" if module == "ramify" else f", from `{module}`"))
        parts.append(_index(module, names))
    if errors:
        parts.append("**Exceptions**: " + ", ".join(f"[`{name}`](errors.md#{name.lower()})" for name in errors))
    for heading, module, names in sections:
        parts += [f"## {heading or 'Names'}", *(_entry(module, name) for name in names)]
    return "\n\n".join(parts) + "\n"


def _entry(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    options = {
        "merge_init_into_class": name in CALLED,
        # Of other classes the values are only what their constructors were given.
        "show_attribute_values": not inspect.isclass(value) or issubclass(value, msgspec.Struct | Enum),
    }
    lines = (f"\n      {option}: {str(chosen).lower()}" for option, chosen in options.items())
    return f"::: {module}.{name}\n    options:{''.join(lines)}"


def _index(module: str, names: list[str]) -> str:
    rows = [f"| [`{name}`](#{module}.{name}) | {_summary(module, name)} |" for name in names]
    return "\n".join(["| name | about |", "|---|---|", *rows])


def _summary(module: str, name: str) -> str:
    """The first paragraph of the docstring."""
    value = getattr(import_module(module), name)
    has_its_own = inspect.isclass(value) or inspect.isroutine(value)
    text = inspect.getdoc(value) if has_its_own else _text_below(_file_of(module), name)
    return " ".join((text or "").split("\n\n")[0].split()).replace("|", r"\|")


def _text_below(file: Path, name: str) -> str:
    """The string below an assignment, here or where the name is imported from; an alias of a type has no docstring."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for before, after in pairwise(body):
        match before, after:
            case ast.Assign(targets=[ast.Name(id=found)]), ast.Expr(value=ast.Constant(value=str(text))) if (
                found == name
            ):
                return text
    for node in (each for statement in body for each in ast.walk(statement)):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and {name, "*"} & {each.asname or each.name for each in node.names}
            and (text := _text_below(_file_of(node.module), name))
        ):
            return text
    return ""


def _file_of(name: str) -> Path:
    """Return the file of a module."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def _is_error(module: str, name: str) -> bool:
    value = getattr(import_module(module), name)
    return isinstance(value, type) and issubclass(value, ramify_errors.RamifyError)


def _is_own(module: str, name: str, value: object) -> bool:
    if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
        return False
    # This one is the home of types that are made elsewhere.
    return value.__module__.startswith("ramify.") if module == "ramify.types" else value.__module__ == module
