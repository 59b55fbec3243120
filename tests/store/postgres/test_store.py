"""Promises that only a server makes hard: transactions in between others, late delivery, other machines, lost trips."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from ramify.errors import ConfigError, Reaped, SchemaTooNew, StoreRefused, StoreUnavailable
from ramify.model.addition import Addition
from ramify.model.claim import Want
from ramify.model.commit import Part
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import NewRun, Order
from ramify.model.task import NewTasks
from ramify.store.postgres import PostgresStore
from ramify.store.postgres.link import Transaction
from ramify.store.postgres.pipe import Pipe
from ramify.store.postgres.tables import PgTables
from ramify.store.verbs import entries
from ramify.store.verbs.beliefs import Beliefs
from ramify.testing.clock import FakeClock
from tests.postgres import emptied, schema, server

WALK = Want(frozenset({"walk"}), 100)
Open = Callable[..., PostgresStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    url, opened = emptied(), list[PostgresStore]()

    def opener(**options: object) -> PostgresStore:
        opened.append(PostgresStore(url, **{"folder": tmp_path, **options}))  # type: ignore[arg-type]
        return opened[-1]

    yield opener
    for store in opened:
        store.close()


def entered(store: PostgresStore) -> int:
    process = new_process_id()
    store.enter(NewProcess(process, host="here"))
    return process


def run_of(store: PostgresStore, count: int) -> tuple[int, NewTasks]:
    first = store.reserve(count + 1)
    tasks = NewTasks(first + 1, "walk", [b"%d" % n for n in range(count)])
    store.start(NewRun(first, order=Order.ANY, endless=True), [tasks])
    return first, tasks


def test_two_who_open_a_new_place_at_once_make_its_tables_once(tmp_path: Path) -> None:
    url, together = schema(), Barrier(4)

    def opened(_: int) -> str:
        together.wait(60)
        store = PostgresStore(url, folder=tmp_path)
        store.close()
        return store.id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(opened, range(4)))) == 1


def test_a_schema_of_another_program_and_a_newer_one_are_refused(tmp_path: Path) -> None:
    url = schema()
    name = url.rpartition("=")[2]
    pipe = Pipe(server(), patience=20)
    pipe.trip([(f"CREATE SCHEMA {name}", ()), (f"CREATE TABLE {name}.theirs (x int)", ())])
    with pytest.raises(StoreRefused, match="tables of another program"):
        PostgresStore(url, folder=tmp_path)
    pipe.trip([(f"DROP TABLE {name}.theirs", ())])
    PostgresStore(url, folder=tmp_path).close()
    pipe.trip([(f"UPDATE {name}.store SET version = 999", ())])
    with pytest.raises(SchemaTooNew, match="newer Ramify"):
        PostgresStore(url, folder=tmp_path)
    pipe.trip([(f"UPDATE {name}.store SET version = 1", ())])
    with pytest.raises(StoreRefused, match="before the first release"):
        PostgresStore(url, folder=tmp_path)
    pipe.close()
    with pytest.raises(ConfigError, match="expected a name of letters"):
        PostgresStore(f"{server()}&schema=a;b", folder=tmp_path)


def test_what_people_write_may_hold_a_nul(open_store: Open) -> None:
    store = open_store()
    run, _ = run_of(store, 1)
    store.cancel(run, said=Said("because \0 of é", "ann\0"))
    found = store.reads.run(run)
    assert found.reason == "because \0 of é"
    assert found.decision is not None
    assert found.decision.by == "ann\0"


def test_four_who_claim_at_once_never_get_the_same_task(open_store: Open) -> None:
    _, tasks = run_of(open_store(), 400)
    workers = [(store, entered(store)) for store in (open_store() for _ in range(4))]
    together = Barrier(4)

    def work(worker: tuple[PostgresStore, int]) -> list[int]:
        store, process = worker
        together.wait(60)
        got: list[int] = []
        n = idle = 0
        while idle < 3:
            n += 1
            claimed = store.claim(Stamp(process, n), Want(frozenset({"walk"}), 7))
            idle = 0 if claimed.claims else idle + 1
            for claim in claimed.claims:
                n += 1
                assert not store.commit(Stamp(process, n), [Part(claim.token, claim.tasks)]).refused
                got += claim.tasks
        return got

    with ThreadPoolExecutor(4) as pool:
        done = [task for some in pool.map(work, workers) for task in some]
    assert sorted(done) == list(tasks.ids)


def test_of_many_who_add_one_unique_key_at_once_one_wins_and_all_hear_of_it(open_store: Open) -> None:
    stores = [open_store() for _ in range(4)]
    run, _ = run_of(stores[0], 1)
    together = Barrier(4)

    def add(store: PostgresStore) -> tuple[int, ...]:
        first = store.reserve(1)
        together.wait(60)
        new = NewTasks(first, "walk", [b""], keys=[b"one"], hold=Hold.UNIQUE)
        (answer,) = store.append([Addition(run, [new])])
        return answer.ids[0]

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(add, stores))) == 1


def test_a_key_that_was_taken_since_it_was_looked_for_is_lost(open_store: Open) -> None:
    slow, quick = open_store(), open_store()
    run, _ = run_of(slow, 1)
    won: list[int] = []

    def new(store: PostgresStore) -> list[Addition]:
        return [Addition(run, [NewTasks(store.reserve(1), "walk", [b""], keys=[b"one"], hold=Hold.UNIQUE)])]

    class Overtaken(PgTables):
        def holders(self, hold: Hold, digests: Sequence[bytes], at: int) -> dict[bytes, int]:
            found = super().holders(hold, digests, at)
            if not won:
                won.append(quick.append(new(quick))[0].ids[0][0])
            return found

    mine = new(slow)
    (answer,), _ = slow._link.write(lambda db: entries.append(Overtaken(db, writes=True), mine, slow.now(), Beliefs()))
    assert answer.ids == ((won[0],),)
    assert answer.taken == {(0, 0)}


def test_a_transaction_that_ran_into_a_deadlock_is_done_once_more(open_store: Open) -> None:
    one, other = open_store(), open_store()
    (a, _), (b, _) = run_of(one, 1), run_of(one, 1)
    together, tries = Barrier(2), list[int]()
    lock = "SELECT 1 FROM @run WHERE id = $1::bigint FOR UPDATE"

    def verb(first: int, second: int) -> Callable[[Transaction], None]:
        def both(db: Transaction) -> None:
            tries.append(first)
            db.ask(lock, first)
            if tries.count(first) == 1:
                together.wait(60)
            db.ask(lock, second)

        return both

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: each[0]._link.write(verb(*each[1])), [(one, (a, b)), (other, (b, a))]))
    assert len(tries) >= 3


def test_a_tail_misses_no_commit_that_was_in_flight(open_store: Open) -> None:
    """The later one is done first; both are told, in their order, once the earlier one is."""
    store, slow = open_store(), open_store()
    run_of(store, 2)
    process = entered(store)
    (claim,) = store.claim(Stamp(process, 1), WALK).claims
    head = store.reads.head()
    seen: list[int] = []

    def hold(db: Transaction) -> int:
        place = db.next_place()
        store.commit(Stamp(process, 2), [Part(claim.token, [claim.tasks[0]])])
        seen.extend(commit.seq for commit in store.reads.tail(head).commits)
        text = "INSERT INTO @commits VALUES ($1::bigint, 1, 1, 1, 0, '[]'::bytea)"
        db.later(text, place)
        return place

    place, _ = slow._link.write(hold)
    assert seen == []
    commits = store.reads.tail(head).commits
    assert commits[0].seq == place
    assert len(commits) == 2


def test_an_idle_claim_uses_no_number_and_one_that_is_sent_again_never_looks(open_store: Open) -> None:
    store = open_store()
    process = entered(store)

    def last() -> int:
        return next(each.last for each in store.reads.processes() if each.id == process)

    assert store.claim(Stamp(process, 1), WALK).claims == ()
    assert last() == 0
    # Sent again it goes on to take, and uses its number up although it gets nothing.
    assert store.claim(Stamp(process, 1), WALK).claims == ()
    assert last() == 1
    run_of(store, 1)
    # Delivered a third time, late: nothing is taken that nobody asks about any more.
    late = open_store()
    late._idle = False
    assert late.claim(Stamp(process, 1), WALK).claims == ()
    assert len(store.claim(Stamp(process, 2), WALK).claims) == 1


def test_a_process_of_another_machine_is_dead_when_it_was_silent_for_long(open_store: Open, tmp_path: Path) -> None:
    clock = FakeClock()
    here = open_store(clock=clock, folder=tmp_path / "here")
    there = open_store(clock=clock, folder=tmp_path / "there")
    run_of(here, 3)
    me, other = entered(here), entered(there)
    assert there.claim(Stamp(other, 1), WALK).claims
    there._liveness.close()
    for _ in range(8):
        clock.advance(5)
        here.beat(me)
    # Its lock is free, but nobody here can see that.
    assert here.reap(me, 60).processes == ()
    assert next(each for each in here.reads.processes() if each.id == other).is_alive
    for _ in range(12):
        clock.advance(5)
        here.beat(me)
    reaped = here.reap(me, 60)
    assert (reaped.processes, reaped.tasks) == ((other,), 3)
    with pytest.raises(Reaped):
        there.claim(Stamp(other, 2), WALK)


def test_a_lost_connection_is_opened_again(open_store: Open) -> None:
    store = open_store()
    run, _ = run_of(store, 1)
    process = entered(store)
    pipe = Pipe(server(), patience=20)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND pid = $1::int"
    pipe.trip([(others, (store._link._pipes[purpose].pid,)) for purpose in ("read", "write")])
    pipe.close()
    with pytest.raises(StoreUnavailable):
        store.claim(Stamp(process, 1), WALK)
    with pytest.raises(StoreUnavailable):
        store.commit(Stamp(process, 1), [])
    (claim,) = store.claim(Stamp(process, 1), WALK).claims
    store.commit(Stamp(process, 2), [Part(claim.token, claim.tasks)])
    assert store.reads.counts(run)["walk"][Status.DONE] == 1


def test_a_verb_is_two_trips_and_a_belief_that_holds_one(open_store: Open) -> None:
    store = open_store()
    run_of(store, 3)
    process = entered(store)
    pipe = store._link._pipes["write"]
    store._idle = False
    before = pipe.trips
    (claim,) = store.claim(Stamp(process, 1), WALK).claims
    assert pipe.trips - before == 2
    before = pipe.trips
    store.commit(Stamp(process, 2), [Part(claim.token, claim.tasks)], WALK)
    assert pipe.trips - before == 2
    queue = NewRun(store.reserve(1), "queue", order=Order.ANY, endless=True)
    first = store.reserve(8)
    for at in range(3):
        before = pipe.trips
        store.append([Addition.opening(queue, [NewTasks(first + at, "walk", [b""])])])
    assert pipe.trips - before == 1


def test_results_of_members_travel_with_the_commit_that_claims_their_continuation(open_store: Open) -> None:
    store = open_store()
    process = entered(store)
    numbers = itertools.count(1)
    pipes = store._link._pipes
    trips: list[dict[str, int]] = []
    for brings in (False, True):
        run = store.reserve(4)
        members = NewTasks(run + 1, "walk", [b"[]"] * 2, join=run + 3)
        then = NewTasks(run + 3, "walk", [b"[]"], waits=True)
        store.start(NewRun(run, order=Order.ANY), [members, then], [NewJoins((then.first,), (2,), brings=brings)])
        (claim,) = store.claim(Stamp(process, next(numbers)), WALK).claims
        before = {purpose: pipe.trips for purpose, pipe in pipes.items()}
        done = Part(claim.token, claim.tasks, values=[b"1", b"2"])
        (taken,) = store.commit(Stamp(process, next(numbers)), [done], WALK).claimed.claims
        trips.append({purpose: pipe.trips - before[purpose] for purpose, pipe in pipes.items()})
        assert taken.details[then.first].results == ((b"1", b"2") if brings else None)
        store.commit(Stamp(process, next(numbers)), [Part(taken.token, taken.tasks)])
    assert trips[0] == trips[1]
    assert trips[1]["read"] == 0
