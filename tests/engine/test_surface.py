"""What users can see of the engine: exactly the names that are meant for them, and every type those names need.

`ramify.__all__` is what they type; `ramify.types` and `ramify.errors` hold the rest, and `ramify` gives out all of it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_args, get_origin, get_overloads, get_type_hints

import pytest

import ramify
from ramify import (
    Backoff,
    Call,
    Current,
    CurrentValues,
    DagPlan,
    Defer,
    Engine,
    Plan,
    RamifyError,
    Rate,
    Run,
    Steps,
    Stream,
    Tasks,
    Values,
    errors,
    front,
    signals,
    types,
)
from ramify.shapes.pipeline.steps import Diverted, Whole


def seen(thing: object) -> set[str]:
    """The names that a user's editor shows for it."""
    return {name for name in dir(thing) if not name.startswith("_")}


def test_an_engine_shows_what_users_need_and_nothing_else() -> None:
    engine = Engine("memory:")
    assert seen(Tasks()) == {
        "around",
        "cron",
        "dag",
        "include",
        "limit",
        "on",
        "pipeline",
        "resource",
        "schedule",
        "task",
    }
    looks, works = {"find", "health", "listen", "runs"}, {"close", "lock", "run", "start", "values", "working"}
    jobs = {"aenqueue", "aenqueue_many", "enqueue", "enqueue_many", "job", "job_for", "job_states", "jobs", "queue"}
    topics = {"failures", "run_ends", "topic"}
    assert seen(engine) == seen(Engine) == seen(Tasks) | looks | works | jobs | topics


def test_the_handle_of_a_run_shows_what_users_need_and_nothing_else() -> None:
    looks = {"begun", "context", "counts", "ended", "id", "name", "params", "phase", "reason", "roots", "round"}
    looks |= {"definition", "state", "summary"}
    reads = {"aresults", "check", "decisions", "durations", "errors", "results", "sql", "timeline", "wait"}
    steers = {"add", "answer", "cancel", "forget", "pause", "resolve", "resume", "retry"}
    assert seen(Run(Engine("memory:")._runtime, 1)) == looks | reads | steers


def test_the_current_attempt_shows_what_handlers_need_and_nothing_else() -> None:
    who = {
        "attempt",
        "idempotency_key",
        "key",
        "kind",
        "lane",
        "last_attempt",
        "parent",
        "queue",
        "round",
        "run",
        "run_id",
        "slot",
        "task",
    }
    what = {"cancelled", "context", "headers", "leader", "log", "params", "progress"}
    does = {"enqueue", "spawn", "stop_if_cancelled", "values"}
    assert seen(Current) == who | what | does


def test_a_limit_shows_its_numbers_and_nothing_else() -> None:
    assert seen(Tasks().limit("api", max_running=5)) == {"max_rate", "max_running", "name", "per"}


def test_values_show_the_same_in_a_task_and_outside_but_for_a_list_of_all() -> None:
    assert seen(CurrentValues) == {"delete", "get", "set", "update"}
    assert seen(Values) == seen(CurrentValues) | {"items"}


def public(module: ModuleType) -> set[str]:
    """The names that a module of the front gives to `ramify`."""
    # pytest has names of its own in modules whose assertions it rewrites.
    names = {name for name in vars(module) if name.isidentifier() and not name.startswith("_")}
    return names - {"TYPE_CHECKING", "annotations"}


def test_each_public_name_has_one_home() -> None:
    assert set(ramify.__all__) == public(front) | {"RamifyError", "__version__"}
    assert public(front) & public(types) == public(front) & public(errors) == public(types) & public(errors) == set()


def test_names_outside_of_the_list_can_be_imported_all_the_same() -> None:
    for home in (errors, front, types):
        assert {name for name in public(home) if getattr(ramify, name) is not getattr(home, name)} == set()
    with pytest.raises(AttributeError, match="module 'ramify' has no attribute 'Motor'"):
        _ = ramify.Motor  # type: ignore[attr-defined]  # that type checkers see this is half of the point


@pytest.mark.parametrize("module", [ramify, types])
def test_the_help_of_a_module_of_names_is_an_index_with_a_line_for_each(module: ModuleType) -> None:
    lines = [line for line in (module.__doc__ or "").splitlines() if line.startswith("    ")]
    listed = [found[1] for line in lines if (found := re.fullmatch(r"    (\w+)  +\S.*", line))]
    assert sorted(listed) == sorted(public(module) if module is types else set(ramify.__all__) - {"__version__"})
    assert [line for line in lines if not re.fullmatch(r"    [\w.]+  +\S.*", line)] == []


def test_every_type_that_a_public_call_takes_or_returns_is_exported() -> None:
    homes = (errors, front, types, signals)
    exported = [getattr(home, name) for home in homes for name in public(home)]
    missing = {
        f"{owner.__name__}.{name}: {found.__module__}.{found.__qualname__}"
        for owner in exported
        if isinstance(owner, type)
        for name, hint in hints_of(owner)
        for found in classes_in(hint)
        # What is open around the value of steps is between their verbs and type checkers.
        if found not in exported and found not in (Whole, Diverted)
    }
    assert sorted(missing) == []


def test_every_error_of_ramify_is_in_the_tree_of_errors_under_its_parent() -> None:
    # Some rooms are those of a Django project, and this one has settings.
    importlib.import_module("tests.contrib.django_here")
    for module in pkgutil.walk_packages(ramify.__path__, "ramify."):
        if module.name != "ramify.__main__":
            importlib.import_module(module.name)
    raised, waiting = set(), [RamifyError]
    while waiting:
        error = waiting.pop()
        raised.add(error)
        # Those of a backend, or of the codec, are caught as what they are a kind of.
        rooms = ("ramify.store.", "ramify.model.codec.")
        kinds = [each for each in error.__subclasses__() if each.__module__.startswith("ramify.")]
        waiting += [each for each in kinds if not each.__module__.startswith(rooms)]
    tree = drawn(errors.__doc__ or "")
    assert tree == {each.__name__: tuple(base.__name__ for base in each.__bases__) for each in raised}
    assert {getattr(errors, name) for name in public(errors)} == raised | {errors.Terminated}
    assert list(tree) == by_name(tree, "RamifyError")


def test_a_tree_of_errors_is_read_as_it_is_drawn() -> None:
    text = "Words.\n\n    RamifyError\n    ├── A (also a TypeError)\n    │   └── B\n    └── C\n\nWords."
    assert drawn(text) == {
        "RamifyError": ("Exception",),
        "A": ("RamifyError", "TypeError"),
        "B": ("A",),
        "C": ("RamifyError",),
    }


def drawn(text: str) -> dict[str, tuple[str, ...]]:
    """The exceptions of a tree of box characters, from the top, with what each is a kind of."""
    tree, above = dict[str, tuple[str, ...]](), ["Exception"]
    for line in text.splitlines():
        if found := re.fullmatch(r"    ((?:[│ ] {3})*)([├└]── )?(\w+)(?: \(also an? (\w+)\))?", line):
            depth = len(found[1]) // 4 + (found[2] is not None)
            del above[depth + 1 :]
            tree[found[3]] = tuple(filter(None, (above[-1], found[4])))
            above.append(found[3])
    return tree


def by_name(tree: dict[str, tuple[str, ...]], top: str) -> list[str]:
    """The exceptions of a tree, each before its kinds, and these by name."""
    return [top, *(name for kind in sorted(tree) if tree[kind][0] == top for name in by_name(tree, kind))]


def test_every_signal_is_exported() -> None:
    assert sorted({each.__name__ for each in classes_in(signals.Signal)} - set(signals.__all__)) == []


def hints_of(owner: type) -> Iterator[tuple[str, object]]:
    """What the public calls and attributes of a class are annotated with."""
    if owner is Steps:
        # What is open around a value, and what makes calls, is between its verbs and type checkers.
        return
    if owner is Plan or issubclass(owner, DagPlan):
        # Users pass it on; what it is made of is between a shape and `start`.
        yield from (("part", hint) for hint in resolved(DagPlan.part).values())
        return
    # The fields of a call are how it is stored.
    for name, hint in () if owner is Call else resolved(owner).items():
        if not name.startswith("_"):
            yield name, hint
    made_by_users = owner in (Backoff, Defer, Engine, Rate, Stream, Tasks)
    for name in sorted(seen(owner) | ({"__init__"} if made_by_users else set())):
        found = inspect.getattr_static(owner, name)
        found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if inspect.isfunction(found):
            for each in get_overloads(found) or [found]:
                yield from ((name, hint) for hint in resolved(each).values())


def resolved(annotated: Any) -> dict[str, Any]:
    """Annotations as types, also of names that a module imports for type checkers only."""
    module = sys.modules[annotated.__module__]
    known = dict(vars(module))
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("ramify"):
            source = importlib.import_module(node.module)
            known |= {each.asname or each.name: getattr(source, each.name) for each in node.names}
    return get_type_hints(annotated, known)


def classes_in(hint: object) -> Iterator[type]:
    """The classes of ours that a type is put together from."""
    if isinstance(hint, list | tuple):
        for each in hint:
            yield from classes_in(each)
        return
    origin = get_origin(hint) or hint
    if isinstance(origin, type) and origin.__module__.startswith("ramify."):
        yield origin
    yield from classes_in(get_args(hint))
