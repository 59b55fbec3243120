"""Appends that go by what the last one left: the same rows as if each had loaded, whatever others do in between."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from ramify.model.addition import Addition
from ramify.model.commit import Part
from ramify.model.job import queue_run
from ramify.model.key import Hold
from ramify.model.process import NewProcess, Stamp
from ramify.model.task import Appended, NewTasks
from ramify.store.sqlite import SqliteStore
from ramify.store.verbs.beliefs import Beliefs
from ramify.testing.clock import FakeClock
from ramify.testing.conformance.house import want

ROWS = {
    "span": "SELECT * FROM span ORDER BY first",
    "segment": "SELECT span, run, round, kind, queue, first, last, mask, rank, due, state FROM segment ORDER BY first",
    "task": "SELECT * FROM task ORDER BY id",
    "key": "SELECT * FROM key ORDER BY digest",
    "run": "SELECT id, name, generation, state FROM run ORDER BY id",
    "counter": "SELECT run, kind, queue, what, sum(value) FROM counter GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
}


class Shop:
    """A store to which jobs are added by one client, while another works on them and decides about their queues."""

    def __init__(self, path: Path, *, believes: bool) -> None:
        self.clock = FakeClock()
        self.front, self.back = (SqliteStore(path, clock=self.clock) for _ in range(2))
        self.believes = believes
        self.next = self.front.reserve(1_000)
        self.back.enter(NewProcess(7))
        self.n = 0

    def ids(self, many: int = 1) -> int:
        self.next += many
        return self.next - many

    def add(self, *groups: NewTasks, queue: str = "mail", opens: int | None = None) -> Sequence[Appended]:
        if not self.believes:
            self.front._beliefs = Beliefs()
        run = queue_run(queue, self.ids() if opens is None else opens)
        return self.front.append([Addition.opening(run, [tasks]) for tasks in groups])

    def stamp(self) -> Stamp:
        self.n += 1
        return Stamp(7, self.n)

    def dump(self) -> dict[str, list[object]]:
        with self.front._link.read() as db:
            return {name: db.execute(statement).fetchall() for name, statement in ROWS.items()}

    def close(self) -> None:
        self.front.close()
        self.back.close()


@contextmanager
def two_shops(folder: Path) -> Iterator[list[Shop]]:
    shops = [Shop(folder / f"{believes}.db", believes=believes) for believes in (True, False)]
    yield shops
    for shop in shops:
        shop.close()


def play(shop: Shop, seed: int) -> list[object]:
    """A story of appends, with what others do in between; everything that is answered."""
    rng = random.Random(seed)
    said: list[object] = []
    opens = {queue: shop.ids() for queue in ("mail", "press")}
    for _ in range(30):
        shop.clock.advance(rng.choice([0, 0, 1, 20]))
        match rng.randrange(10):
            case 0 if (run := shop.back.reads.find_run("jobs/mail")) is not None:
                said.append(rng.choice([shop.back.pause, shop.back.resume])(run.id))
            case 1 if (run := shop.back.reads.find_run("jobs/press")) is not None:
                said.append(shop.back.cancel(run.id))
                shop.back.advance([(run.id, run.round)])
                opens["press"] = shop.ids()
            case 2 | 3:
                found = shop.back.claim(shop.stamp(), want(rng.randint(1, 3), ["mail", "note"])).claims
                shop.back.commit(shop.stamp(), [Part(each.token, each.tasks[: rng.randint(1, 3)]) for each in found])
            case _:
                many = rng.choice([1, 1, 1, 3])
                hold = rng.choice([Hold.LABEL, Hold.LABEL, Hold.UNIQUE, Hold.ONCE])
                keys = [b"%d" % rng.randrange(6) for _ in range(many)] if rng.random() < 0.4 else None
                kind, queue = rng.choice(["mail", "mail", "note"]), rng.choice(["mail", "mail", "press"])
                if rng.random() < 0.1:
                    shop.ids()
                group = NewTasks(shop.ids(many), kind, [b"[]"] * many, queue=queue, keys=keys, hold=hold)
                answer = shop.add(group, queue=queue, opens=opens[queue])
                again = shop.add(group, queue=queue, opens=opens[queue])
                assert [each.run for each in again] == [each.run for each in answer]
                said += [answer, [each.already for each in again]]
    return said


@pytest.mark.parametrize("story", range(12))
def test_a_client_that_believes_leaves_the_same_rows_as_one_that_loads(
    tmp_path: Path, seed: random.Random, story: int
) -> None:
    number = seed.randrange(2**32)
    with two_shops(tmp_path) as (believing, loading):
        assert play(believing, number) == play(loading, number), number
        assert believing.dump() == loading.dump(), number


def one(shop: Shop) -> NewTasks:
    return NewTasks(shop.ids(), "mail", [b"[]"], queue="mail")


def test_a_job_goes_into_the_next_generation_of_a_queue_that_ended_meanwhile(tmp_path: Path) -> None:
    with two_shops(tmp_path) as (shop, _):
        opens = shop.ids(2)
        (first,), (second,) = (shop.add(one(shop), opens=opens) for _ in range(2))
        assert first.run == second.run == opens
        shop.back.cancel(opens)
        shop.back.advance([(opens, 0)])
        (third,) = shop.add(one(shop), opens=opens + 1)
        assert third.run == opens + 1


def test_a_job_goes_into_the_newest_queue_also_when_an_older_one_is_open_again(tmp_path: Path) -> None:
    with two_shops(tmp_path) as (shop, _):
        opens = shop.ids(2)
        (first,) = shop.add(one(shop), opens=opens)
        shop.back.cancel(opens)
        shop.back.advance([(opens, 0)])
        (second,) = shop.back.append([Addition.opening(queue_run("mail", opens + 1), [one(shop)])])
        shop.back.reopen(shop.stamp(), opens, first.ids[0])
        # Two, which need no look at the row before them.
        (third,) = shop.add(NewTasks(shop.ids(2), "mail", [b"[]"] * 2, queue="mail"), opens=opens + 1)
        assert (second.run, third.run) == (opens + 1, opens + 1)


def test_a_job_gets_a_row_of_its_own_once_the_last_one_was_claimed(tmp_path: Path) -> None:
    with two_shops(tmp_path) as (shop, _):
        opens = shop.ids()
        for _ in range(3):
            shop.add(one(shop), opens=opens)
        (claim,) = shop.back.claim(shop.stamp(), want(9, ["mail"])).claims
        assert len(claim.tasks) == 3, "they share a row"
        shop.add(one(shop), opens=opens)
        (last,) = shop.back.claim(shop.stamp(), want(9, ["mail"])).claims
        assert list(last.tasks) == [shop.next - 1]
