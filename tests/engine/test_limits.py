"""Limits on their way into a store: declared by workers, by several programs and versions, and changed by people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ramify import ConfigError, Engine
from ramify.engine.limits import change_limits, with_numbers
from ramify.errors import ValueContended
from ramify.inspect.limits import stored_limits
from ramify.model.limit import Limit, Numbers, StoredLimit
from ramify.model.process import Stamp
from ramify.model.value import MOST_TRIES, Swap
from ramify.store.contract import Store
from ramify.store.memory import MemoryStore, MemoryTables

EARLY, LATE = 1_000, 2_000


def fetch(host: str = "") -> None:
    """A function that tests never call."""


def parse(host: str = "") -> None:
    """Another one."""


@pytest.fixture
def place() -> MemoryTables:
    return MemoryTables()


Program = Callable[..., Engine]


@pytest.fixture
def program(place: MemoryTables) -> Program:
    def made(since: int, **options: Any) -> Engine:
        engine = Engine("memory:")
        engine._runtime.use(MemoryStore(place))
        engine._runtime.since = since
        if options:
            engine.task(**options)(fetch)
        return engine

    return made


def work(engine: Engine) -> None:
    """Begin to work, and stop at once."""
    with engine.working():
        pass


def limits(engine: Engine) -> dict[str, StoredLimit]:
    return {name: limit for name, (limit, _) in stored_limits(engine._runtime.store.reads).items()}


def test_who_works_declares_its_limits_and_who_only_adds_jobs_does_not(program: Program) -> None:
    engine = program(EARLY, max_running=5)
    engine.queue("mail", max_running=2)
    engine.health()
    assert limits(engine) == {}
    work(engine)
    assert limits(engine)["fetch"].limit == Limit("fetch", Numbers(5), False, ("fetch",))
    assert limits(engine)["queue/mail"].limit == Limit("queue/mail", Numbers(2), False, (), ("mail",))


def test_a_run_in_this_process_declares_them_too(program: Program) -> None:
    engine = program(EARLY, max_running=5)
    engine.run(engine.task(name="other")(parse).of(), threads=0)
    assert limits(engine).keys() == {"fetch"}


def test_nothing_is_written_when_nothing_changes(program: Program) -> None:
    engine = program(EARLY, max_running=5)
    work(engine)
    before = stored_limits(engine._runtime.store.reads)
    work(engine)
    work(program(LATE, max_running=5))
    assert stored_limits(engine._runtime.store.reads) == before
    idle = program(LATE)
    assert idle._runtime._guests == []
    idle._runtime.declare_limits([])
    assert idle._runtime._guests[0]._sender is None, "a session for nothing"


def test_the_program_that_was_started_last_decides_about_numbers(program: Program) -> None:
    work(program(EARLY, max_running=5))
    newer = program(LATE, max_running=7)
    work(newer)
    assert limits(newer)["fetch"].numbers == Numbers(7)
    work(program(EARLY, max_running=5))
    assert limits(newer)["fetch"].numbers == Numbers(7), "a worker of the old version started again"


def test_an_older_program_adds_its_kinds_to_a_limit_that_a_newer_one_declared(program: Program) -> None:
    newer, older = program(LATE), program(EARLY)
    newer.task(limit=newer.limit("api", max_running=3))(fetch)
    older.task(limit=older.limit("api", max_running=9))(parse)
    work(newer)
    work(older)
    assert limits(newer)["api"].limit == Limit("api", Numbers(3), False, ("fetch", "parse"))


def test_a_program_that_does_not_know_a_kind_leaves_its_limit_alone(program: Program) -> None:
    work(program(EARLY, max_running=5))
    other = program(LATE)
    other.task(parse)
    other.queue("mail")
    work(other)
    assert limits(other)["fetch"].limit.kinds == ("fetch",)


def test_a_limit_goes_when_a_newer_program_knows_its_last_kind_without_it(program: Program) -> None:
    work(program(EARLY, max_running=5))
    newer = program(LATE, retries=1)
    work(newer)
    assert limits(newer) == {}


def test_the_limit_of_a_queue_stays_until_a_program_lifts_it(program: Program) -> None:
    older = program(EARLY)
    older.queue("mail", max_running=2)
    work(older)
    newer = program(LATE)
    work(newer)
    assert limits(newer).keys() == {"queue/mail"}
    newer.queue("mail", max_running=None)
    work(newer)
    assert limits(newer) == {}


def test_numbers_that_a_person_set_outlive_new_declarations(program: Program) -> None:
    engine = program(EARLY, max_running=5)
    work(engine)
    runtime = engine._runtime
    change_limits(
        runtime.store, runtime.guest.send, runtime.reserve_ids,
        lambda stored: {"fetch": with_numbers(stored["fetch"], Numbers(20), "ann", "black friday", 1)},
    )  # fmt: skip
    newer = program(LATE, max_running=7)
    work(newer)
    found = limits(newer)["fetch"]
    assert (found.numbers, found.limit.numbers) == (Numbers(20), Numbers(7))


class Losing:
    """A store in which somebody else changes a value just before each of so many swaps."""

    def __init__(self, store: Store, times: int) -> None:
        self._store, self.left, self.sent = store, times, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def swap(self, stamp: Stamp, swaps: list[Swap]) -> bool:
        self.sent += 1
        if self.left:
            self.left -= 1
            return False
        return self._store.swap(stamp, swaps)


def test_a_change_that_lost_is_made_anew_and_is_given_up_some_day(program: Program) -> None:
    engine = program(EARLY)
    runtime = engine._runtime
    store = Losing(runtime.store, 3)
    made = StoredLimit(Limit("api", Numbers(1), False, ("fetch",)))
    assert change_limits(store, runtime.guest.send, runtime.reserve_ids, lambda stored: {"api": made}) == {"api": made}  # type: ignore[arg-type]
    assert store.sent == 4
    store.left = MOST_TRIES + 1
    with pytest.raises(ValueContended):
        change_limits(store, runtime.guest.send, runtime.reserve_ids, lambda stored: {"api": None})  # type: ignore[arg-type]
    assert limits(engine) == {"api": made}


def test_users_do_not_reach_the_space_of_limits() -> None:
    for space in ("ramify.limits", "ramify.openings", "ramify.anything"):
        with pytest.raises(ConfigError, match="are reserved"):
            Engine("memory:").values(space, int)


def test_a_limit_survives_its_program_in_a_file(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "limits.db")
    engine.task(max_running=5)(fetch)
    work(engine)
    engine.close()
    again = Engine(tmp_path / "limits.db")
    assert limits(again)["fetch"].numbers == Numbers(5)
    again.close()
