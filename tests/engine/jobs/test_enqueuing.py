"""How jobs get into queues: together where they come together, each by itself where one of them is wrong."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ramify import BadPayload, Call, ConfigError, Engine, Job, JobState, RunState, Tasks
from ramify.engine.jobs.enqueuing import Enqueuing, Pending
from ramify.model.addition import Addition
from ramify.model.task import MAX_PAYLOAD, Appended
from ramify.store.contract import Store
from ramify.store.open import open_store
from tests.engine.conftest import Make
from tests.engine.sums import add, elsewhere, sums, total

here = Tasks(include=[sums])


@here.task
def echo(text: str) -> int:
    return len(text)


@pytest.fixture
def engine(make: Make) -> Engine:
    return make(here)


class Slow:
    """Holds up the write of whoever writes first until it is let go, and notes how many were written together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go, self.sizes = threading.Event(), threading.Event(), list[int]()
        write = Enqueuing._write

        def slowly(enqueuing: Enqueuing, some: Sequence[Pending]) -> None:
            self.sizes.append(len(some))
            self.began.set()
            assert self.go.wait(30)
            write(enqueuing, some)

        monkeypatch.setattr(Enqueuing, "_write", slowly)


def waiting(engine: Engine, many: int) -> None:
    """Wait until so many wait to be written."""
    while len(engine._runtime.enqueuing._pending) < many:
        threading.Event().wait(0.001)


def join(threads: Sequence[threading.Thread]) -> None:
    """Wait until they have ended, for all of them together no longer than half a minute."""
    end = time.monotonic() + 30
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))


def test_who_comes_while_another_writes_is_written_with_all_who_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, found = Slow(monkeypatch), list[Job[int]]()
    threads = [
        threading.Thread(target=lambda n=n: found.append(engine.enqueue(add.of(n))), daemon=True) for n in range(9)
    ]
    threads[0].start()
    assert slow.began.wait(30)
    for thread in threads[1:]:
        thread.start()
    waiting(engine, 8)
    slow.go.set()
    join(threads)
    assert slow.sizes == [1, 8]
    assert len({job.id for job in found}) == 9
    assert set(engine.job_states(job.id for job in found).values()) == {JobState.QUEUED}


def test_a_hundred_coroutines_share_commits(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def all_of_them() -> list[Job[int]]:
        tasks = [asyncio.create_task(engine.aenqueue(add.of(n))) for n in range(100)]
        await asyncio.to_thread(waiting, engine, 99 if slow.sizes else 0)
        slow.go.set()
        return await asyncio.gather(*tasks)

    found = asyncio.run(all_of_them())
    assert len({job.id for job in found}) == 100
    assert sum(slow.sizes) == 100
    assert len(slow.sizes) <= 10


def test_one_that_cannot_be_stored_keeps_no_other_from_being_stored(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, found, refused = Slow(monkeypatch), list[Job[int]](), list[Exception]()

    def put(call: Any) -> None:
        try:
            found.append(engine.enqueue(call))
        except Exception as error:  # noqa: BLE001  whatever it is
            refused.append(error)

    calls = [add.of(0), add.of(1), add.of(2).key("k" * 8), add.of(3)]
    monkeypatch.setattr("ramify.model.task.MAX_KEY", 4)
    threads = [threading.Thread(target=put, args=(call,)) for call in calls]
    threads[0].start()
    assert slow.began.wait(30)
    for thread in threads[1:]:
        thread.start()
    waiting(engine, 3)
    slow.go.set()
    join(threads)
    assert len(found) == 3
    assert "is over 4 bytes" in str(refused[0])


def test_a_coroutine_that_was_cancelled_leaves_its_job(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def give_up() -> None:
        task = asyncio.create_task(engine.aenqueue(add.of(1)))
        await asyncio.to_thread(slow.began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    slow.go.set()
    assert engine.enqueue(add.of(2)).state is JobState.QUEUED
    assert len(list(engine.jobs())) == 2


def test_in_debug_mode_the_blocking_form_warns_on_a_running_loop(engine: Engine) -> None:
    async def block() -> None:
        with pytest.warns(RuntimeWarning, match=r"Write `await engine\.aenqueue") as told:
            engine.enqueue(add.of(1))
        assert told[0].filename == __file__

    asyncio.run(block(), debug=True)

    async def silent() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            engine.enqueue(add.of(1))

    asyncio.run(silent())


def test_many_of_several_queues_come_in_the_order_of_the_calls(engine: Engine) -> None:
    calls = [add.of(1), elsewhere.of(2), add.of(3).priority(5), elsewhere.of(4), echo.of("x")]
    jobs = engine.enqueue_many(calls)
    assert [job.kind for job in jobs] == ["add", "elsewhere", "add", "elsewhere", "echo"]
    assert [job.queue for job in jobs] == ["default", "other", "default", "other", "default"]
    with engine.working(threads=1):
        assert [job.result(30) for job in jobs] == [2, 2, 4, 4, 1]
    assert engine.enqueue_many([]) == []


def test_what_comes_together_for_several_queues_is_there_together_or_not_at_all(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.enqueue_many([add.of(0), elsewhere.of(0)])
    sent: list[int] = []
    store = engine._runtime.store
    append = store.append

    def noted(additions: Sequence[Addition]) -> Sequence[Appended]:
        sent.append(len(additions))
        return append(additions)

    monkeypatch.setattr(store, "append", noted)
    engine.enqueue_many([add.of(1), elsewhere.of(2), add.of(3)], then=total.of())
    assert sent == [3]
    monkeypatch.setattr("ramify.model.task.MAX_KEY", 4)
    with pytest.raises(BadPayload, match="is over 4 bytes"):
        engine.enqueue_many([add.of(1), elsewhere.of(2).key("k" * 8)])
    assert len(list(engine.jobs())) == 6


def test_a_group_over_several_queues_is_followed_by_one_job(engine: Engine) -> None:
    parts, sum_of_them = engine.enqueue_many([add.of(1), elsewhere.of(5), add.of(3)], then=total.of())
    assert len(parts) == 3
    none: list[Call[int]] = []
    nothing, empty = engine.enqueue_many(none, then=total.of())
    assert nothing == []
    with engine.working(threads=1):
        assert sum_of_them.result(30) == 2 + 5 + 4
        assert empty.result(30) == 0


def test_a_group_with_jobs_that_are_there_already_waits_for_those(engine: Engine) -> None:
    first = engine.enqueue(add.of(1).unique("k"))
    parts, sum_of_them = engine.enqueue_many([add.of(5), add.of(1).unique("k"), add.of(1).unique("k")], then=total.of())
    assert [job.is_new for job in parts] == [True, False, False]
    assert parts[1] == parts[2] == first
    with engine.working(threads=1):
        assert sum_of_them.result(30) == 6 + 2 + 2


@pytest.mark.parametrize("stray", [add, 5, None, lambda: None])
def test_what_is_no_call_is_refused(engine: Engine, stray: Any) -> None:
    with pytest.raises(ConfigError, match=r"^enqueue\(\): expected a call, got "):
        engine.enqueue(stray)
    with pytest.raises(ConfigError, match=r"^enqueue\(\): expected a call, got "):
        engine.enqueue_many([add.of(1), stray])
    with pytest.raises(ConfigError, match=r"^enqueue_many\(\): expected a list of calls, got "):
        engine.enqueue_many(stray)
    one: Any = add.of(1)
    with pytest.raises(ConfigError, match=r"enqueue_many\(\): expected a list of calls, got add\(1, 1\)\. Put it into"):
        engine.enqueue_many(one)
    assert list(engine.jobs()) == []


def test_a_task_of_another_engine_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="this engine has no task"):
        engine.enqueue(Tasks().task(lambda_like).of())


def lambda_like() -> None:
    pass


def test_a_queue_that_was_cancelled_begins_anew(engine: Engine) -> None:
    before = engine.enqueue(add.of(1))
    queue = engine.queue("default")
    first = queue.run
    assert first is not None
    first.cancel("all of it")
    after = engine.enqueue(add.of(2))
    assert (before.state, after.state) == (JobState.CANCELLED, JobState.QUEUED)
    assert before.error is not None
    assert before.error.failure.text == "all of it"
    assert queue.run is not None
    assert queue.run.id != first.id
    assert first.state is RunState.CANCELLED
    assert [job.id for job in engine.jobs()] == [after.id, before.id]
    with engine.working(threads=1):
        assert after.result(30) == 3


BEGAN, GO = threading.Event(), threading.Event()


@here.task
def block() -> None:
    BEGAN.set()
    assert GO.wait(30)


def test_a_queue_that_was_cancelled_begins_anew_while_jobs_of_it_still_run(engine: Engine) -> None:
    BEGAN.clear()
    GO.clear()
    running, swept = engine.enqueue_many([block.of(), add.of(1).delay(3_600)])
    with engine.working(threads=2):
        assert BEGAN.wait(30)
        queue = engine.queue("default")
        old = queue.run
        assert old is not None
        old.cancel("stop")
        _, total_of_them = engine.enqueue_many([add.of(1), elsewhere.of(2)], then=total.of())
        assert total_of_them.result(30) == 4
        assert not running.ended
        assert queue.run is not None
        assert (queue.run.id != old.id, old.state, queue.run.state) == (True, RunState.DRAINING, RunState.OPEN)
        assert [job.id for job in engine.jobs(queue="default")][-2:] == [swept.id, running.id]
        GO.set()
        assert old.wait(30)
        assert (running.state, swept.state) == (JobState.DONE, JobState.CANCELLED)
    assert swept.error is not None
    assert swept.error.failure.text == "stop"
    assert engine.enqueue(add.of(2)).is_new


def test_a_run_with_the_name_of_a_queue_is_not_taken_for_one(engine: Engine) -> None:
    engine.start(add.of(1), name="jobs/default")
    with pytest.raises(ConfigError, match="is not a queue"):
        engine.enqueue(add.of(1))


def test_what_is_too_large_is_refused_and_says_so(engine: Engine) -> None:
    with pytest.raises(TypeError, match="may take 1,048,576"):
        engine.enqueue(echo.of("x" * (MAX_PAYLOAD + 1)))
    assert list(engine.jobs()) == []


class LostAnswers:
    """A store that carries `append` out, and says that it is not there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, *args: Any) -> Any:
        from ramify import StoreUnavailable

        answer = self._store.append(*args)
        if self.lost < 2:
            self.lost += 1
            raise StoreUnavailable("the answer was lost")
        return answer


def test_a_lost_answer_is_asked_for_again_and_adds_nothing(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "s.db", include=[here])
    lost: Any = LostAnswers(open_store(tmp_path / "s.db"))
    engine._runtime.use(lost)
    jobs = engine.enqueue_many([add.of(1).unique("a"), add.of(2).unique("a"), add.of(3)])
    assert lost.lost == 2
    assert [job.is_new for job in jobs] == [True, False, True]
    assert len(list(engine.jobs())) == 2
    engine.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Engine, Engine]]:
    engines = Engine(tmp_path / "s.db", include=[here]), Engine(tmp_path / "s.db", include=[here])
    yield engines
    for each in engines:
        each.close()


def test_two_programs_share_a_queue_from_its_first_job_on(two: tuple[Engine, Engine]) -> None:
    one, other = two
    first, second = one.enqueue(add.of(1)), other.enqueue(add.of(2))
    assert other.job(first.id).state is JobState.QUEUED
    assert [job.id for job in one.jobs(queue="default")] == sorted((first.id, second.id), reverse=True)
    assert one.job(first.id) == other.job(first.id)
