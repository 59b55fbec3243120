"""What users can see of the engine: exactly the names that are meant for them, and every type those names need."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_overloads, get_type_hints

import ramify
from ramify import (
    Backoff,
    Call,
    Current,
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
    signals,
)
from ramify.shapes.pipeline.steps import Diverted, Whole


def seen(thing: object) -> set[str]:
    """The names that a user's editor shows for it."""
    return {name for name in dir(thing) if not name.startswith("_")}


def test_an_engine_shows_what_users_need_and_nothing_else() -> None:
    engine = Engine("memory:")
    assert seen(Tasks()) == {"around", "cron", "dag", "include", "pipeline", "resource", "schedule", "task"}
    looks, works = {"find", "health", "listen", "runs"}, {"close", "run", "start", "working"}
    jobs = {"aenqueue", "aenqueue_many", "enqueue", "enqueue_many", "job", "job_states", "jobs", "queue"}
    assert seen(engine) == seen(Engine) == seen(Tasks) | looks | works | jobs


def test_the_handle_of_a_run_shows_what_users_need_and_nothing_else() -> None:
    looks = {"begun", "context", "counts", "ended", "id", "name", "params", "phase", "reason", "roots", "round"}
    looks |= {"state", "summary"}
    reads = {"aresults", "check", "durations", "errors", "results", "sql", "timeline", "wait"}
    steers = {"add", "answer", "cancel", "forget", "pause", "resolve", "resume", "retry"}
    assert seen(Run(Engine("memory:")._inside, 1)) == looks | reads | steers


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
    what = {"cancelled", "context", "headers", "leader", "log", "params", "progress", "spawn", "stop_if_cancelled"}
    assert seen(Current) == who | what


def test_every_type_that_a_public_call_takes_or_returns_is_exported() -> None:
    exported = [getattr(ramify, name) for name in ramify.__all__] + [getattr(signals, name) for name in signals.__all__]
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


def test_every_error_that_a_public_call_raises_is_exported() -> None:
    # Some rooms are those of a Django project, and this one has settings.
    importlib.import_module("tests.contrib.django_here")
    for module in pkgutil.walk_packages(ramify.__path__, "ramify."):
        if module.name not in ("ramify.__main__", "ramify.testing.fixture"):
            importlib.import_module(module.name)
    raised, waiting = set(), [RamifyError]
    while waiting:
        error = waiting.pop()
        raised.add(error.__name__)
        # Those of a backend, or of the codec, are caught as what they are a kind of.
        rooms = ("ramify.store.", "ramify.model.codec.")
        kinds = [each for each in error.__subclasses__() if each.__module__.startswith("ramify.")]
        waiting += [each for each in kinds if not each.__module__.startswith(rooms)]
    assert sorted((raised | {"Defer", "Fatal", "Terminated"}) - set(ramify.__all__)) == []


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
