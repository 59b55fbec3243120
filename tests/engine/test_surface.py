"""What users can see of the engine: exactly the names that are meant for them, and every type those names need."""

from __future__ import annotations

from ramify import Current, Engine, Run, Tasks


def seen(thing: object) -> set[str]:
    """The names that a user's editor shows for it."""
    return {name for name in dir(thing) if not name.startswith("_")}


def test_an_engine_shows_what_users_need_and_nothing_else() -> None:
    engine = Engine("memory:")
    assert seen(Tasks()) == {"include", "resource", "task"}
    assert seen(engine) == seen(Engine) == seen(Tasks) | {"close", "find", "listen", "run", "runs", "start", "working"}


def test_the_handle_of_a_run_shows_what_users_need_and_nothing_else() -> None:
    looks = {"begun", "counts", "ended", "id", "name", "params", "phase", "reason", "roots", "round", "state"}
    reads = {"aresults", "errors", "results", "sql", "wait"}
    steers = {"add", "cancel", "pause", "resolve", "resume", "retry"}
    assert seen(Run(Engine("memory:")._inside, 1)) == looks | reads | steers


def test_the_current_attempt_shows_what_handlers_need_and_nothing_else() -> None:
    who = {"attempt", "idempotency_key", "key", "kind", "lane", "parent", "round", "run", "run_id", "task"}
    assert seen(Current) == who | {"cancelled", "headers", "leader", "log", "params", "progress", "spawn"}
