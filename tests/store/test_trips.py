"""The trips to a server that each verb would make: every load, question and write is one, and its answer comes along.

On SQLite a trip costs little. It is counted here, because the verbs are the same on every durable store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from ramify.model.addition import Addition
from ramify.model.arrivals import Standing
from ramify.model.claim import Claim
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.job import queue_run
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.own_topics import FAILURES_TOPIC, TOPICS, StoredTopic, write_topic
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import Appended, NewTasks
from ramify.model.topic import Publication
from ramify.model.value import Swap
from ramify.store.changes import AskAfter, Changes
from ramify.store.rows import SegmentRow
from ramify.store.sqlite import SqliteStore
from ramify.store.sqlite.tables import SqliteTables
from ramify.store.tables import Reported
from ramify.testing.conformance.house import want


class Counting:
    """The tables of a transaction; each question is noted by its name, and what is to be asked after a write."""

    def __init__(self, tables: SqliteTables, trips: list[str]) -> None:
        self._tables, self._trips = tables, trips
        self.along: AskAfter | None = None
        self._joins: Collection[int] = ()

    def write(self, changes: Changes) -> int:
        self._trips.append("write")
        self.along = changes.after
        return self._tables.write(changes)

    def joins(self, wanted: Mapping[int, Collection[int]]) -> Mapping[int, Standing]:
        self._trips.append("joins")
        self._joins = wanted
        return self._tables.joins(wanted)

    def covering(self, tasks: Sequence[int]) -> Sequence[SegmentRow]:
        # The rows of joins come along with the joins.
        if not set(tasks).issubset(self._joins):
            self._trips.append("covering")
        return self._tables.covering(tasks)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._tables, name)
        if not callable(found):
            return found

        def ask(*given: Any, **how: Any) -> Any:
            # A question about nothing is not asked.
            if not given or not hasattr(given[0], "__len__") or len(given[0]):
                self._trips.append(name)
            return found(*given, **how)

        return ask


class CountingStore(SqliteStore):
    """A store whose trips are counted."""

    def __init__(self, path: Path) -> None:
        self.trips: list[str] = []
        self._along: AskAfter | None = None
        super().__init__(path)

    @contextmanager
    def _reading(self) -> Iterator[SqliteTables]:
        with super()._reading() as tables:
            yield cast(SqliteTables, Counting(tables, self.trips))

    @contextmanager
    def _writing(self, groups: Sequence[NewTasks] = (), stamp: Stamp | None = None) -> Iterator[SqliteTables]:
        with super()._writing(groups, stamp) as tables:
            counting = Counting(tables, self.trips)
            yield cast(SqliteTables, counting)
            self._along = counting.along

    def _report(self, after: AskAfter) -> Reported:
        before = len(self.trips)
        report = super()._report(after)
        if after == self._along:
            # It was named with the changes, and so travels with the write.
            del self.trips[before:]
        self._along = None
        return report


class Bench:
    """A store with one process and a run, and the trips of the verb that was sent last."""

    def __init__(self, path: Path) -> None:
        self.store = CountingStore(path)
        self.process = new_process_id()
        self.store.enter(NewProcess(self.process))
        self.n = 0
        self.next = self.store.reserve(10_000)
        self.opens = self.ids(1)

    def ids(self, many: int) -> int:
        self.next += many
        return self.next - many

    def start(self, *tasks: NewTasks, **more: Any) -> int:
        run = self.ids(1)
        self.store.start(NewRun(run, order=Order.ANY), tasks, **more)
        return run

    @contextmanager
    def sending(self) -> Iterator[list[str]]:
        self.store.trips.clear()
        yield self.store.trips

    def stamp(self) -> Stamp:
        self.n += 1
        return Stamp(self.process, self.n)

    def claim(self, limit: int = 100) -> Sequence[Claim]:
        return self.store.claim(self.stamp(), want(limit)).claims

    def commit(self, *parts: Part) -> Sequence[Claim]:
        return self.store.commit(self.stamp(), parts, want()).claimed.claims

    def enqueue(self, *keys: bytes, hold: Hold = Hold.LABEL) -> Appended:
        tasks = NewTasks(self.ids(1), "walk", [b"[]"], keys=keys or None, hold=hold)
        return self.store.append([Addition.opening(queue_run("default", self.opens), [tasks])])[0]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "trips.db")
    yield bench
    bench.store.close()


def test_a_claim_makes_two_trips(bench: Bench) -> None:
    bench.claim()
    bench.start(NewTasks(bench.ids(3), "walk", [b"[]"] * 3))
    bench.store._idle = False
    with bench.sending() as trips:
        assert len(bench.claim()) == 1
    assert trips == ["load", "write"]


def test_an_idle_claim_makes_one_trip(bench: Bench) -> None:
    bench.claim()
    with bench.sending() as trips:
        assert not bench.claim()
    assert trips == ["load"]


def test_a_commit_with_the_next_claim_makes_two_trips(bench: Bench) -> None:
    bench.start(NewTasks(bench.ids(4), "walk", [b"[]"] * 4))
    (claim,) = bench.claim(2)
    child = NewTasks(bench.ids(1), "walk", [b"[]"], parents=claim.tasks[0])
    with bench.sending() as trips:
        assert sum(len(each.tasks) for each in bench.commit(Part(claim.token, claim.tasks, children=[child]))) == 3
    assert trips == ["load", "write"]


def test_a_swap_with_tasks_and_publications_makes_two_trips(bench: Bench) -> None:
    swap = Swap("quota", "a", 0, bench.ids(1), b"1")
    mails = Addition.opening(queue_run("default", bench.opens), [NewTasks(bench.ids(2), "walk", [b"[]"] * 2)])
    with bench.sending() as trips:
        assert bench.store.swap(bench.stamp(), [swap], [mails], [Publication("b", b"1"), Publication("a", b"1")])
    assert trips == ["load", "write"]


@pytest.mark.parametrize(("listens", "expected"), [(False, ["load", "write"]), (True, ["load", "keys_of", "write"])])
def test_a_failure_makes_no_trip_more_unless_somebody_listens(bench: Bench, listens: bool, expected: list[str]) -> None:
    if listens:
        declared = Swap(TOPICS, FAILURES_TOPIC, 0, bench.ids(1), write_topic(StoredTopic()))
        assert bench.store.swap(bench.stamp(), [declared])
    bench.start(NewTasks(bench.ids(2), "walk", [b"[]"] * 2, keys=[b"a", b"b"]))
    (claim,) = bench.claim(1)
    with bench.sending() as trips:
        bench.commit(Part(claim.token, claim.tasks, Status.FAILED))
    assert trips == expected
    assert len(bench.store.reads.publications(FAILURES_TOPIC)) == listens


@pytest.mark.parametrize("status", [Status.DONE, Status.FAILED])
def test_a_commit_that_fires_joins_makes_three_trips(bench: Bench, status: Status) -> None:
    first = bench.ids(3)
    members = NewTasks(first, "walk", [b"[]"] * 2, join=first + 2)
    follower = NewTasks(first + 2, "walk", [b"[]"], waits=True)
    bench.start(members, follower, joins=[NewJoins((first + 2,), (2,))])
    (claim,) = bench.claim()
    with bench.sending() as trips:
        (fired,) = bench.commit(Part(claim.token, claim.tasks, status))
    assert list(fired.tasks) == [first + 2]
    assert len(trips) == 3, trips


@pytest.mark.parametrize("many", [1, 12])
def test_results_of_members_travel_with_the_claim_of_their_continuations_in_one_statement(
    bench: Bench, many: int
) -> None:
    """No trip is added, and nothing that is asked for each join."""
    asked: dict[bool, list[str]] = {}
    for brings in (False, True):
        firsts = [bench.ids(3) for _ in range(many)]
        groups = [NewTasks(first, "walk", [b"[]"] * 2, join=first + 2) for first in firsts]
        groups += [NewTasks(first + 2, "walk", [b"[]"], waits=True) for first in firsts]
        bench.start(*groups, joins=[NewJoins((first + 2,), (2,), brings=brings) for first in firsts])
        parts = [
            Part(claim.token, claim.tasks, values=[b"%d" % task for task in claim.tasks]) for claim in bench.claim()
        ]
        with bench.store._link.read() as db:
            reader = cast(apsw.Connection, db)
        seen: list[str] = []
        asked[brings] = seen
        with bench.sending() as trips:
            reader.set_exec_trace(lambda _, sql, values, seen=seen: not seen.append(sql))  # type: ignore[misc]
            claims = bench.commit(*parts)
            reader.set_exec_trace(None)
        assert len(trips) == 3, trips
        results = {task: details.results for claim in claims for task, details in claim.details.items()}
        assert results == {first + 2: (b"%d" % first, b"%d" % (first + 1)) if brings else None for first in firsts}
        bench.commit(*(Part(claim.token, claim.tasks) for claim in claims))
    assert len(asked[True]) == len(asked[False]) + 1
    assert all(sql in asked[False] or "UNION ALL" in sql for sql in asked[True])


def test_a_job_makes_one_trip_and_one_with_a_key_two(bench: Bench) -> None:
    bench.enqueue()
    for _ in range(3):
        with bench.sending() as trips:
            assert not bench.enqueue().already
        assert trips == ["write_if"]
    for key in (b"a", b"b"):
        with bench.sending() as trips:
            assert not bench.enqueue(key, hold=Hold.UNIQUE).taken
        assert trips == ["holders", "write_if"]


def test_a_job_of_a_queue_that_is_not_as_it_was_is_loaded_for(bench: Bench) -> None:
    bench.enqueue()
    bench.store.pause(bench.opens)
    with bench.sending() as trips:
        bench.enqueue()
    assert trips == ["write_if", "load", "span_before", "tails_of", "write"]
    with bench.sending() as trips:
        bench.enqueue()
    assert trips == ["write_if"]
