"""What waits behind a job, told on every store: when it starts, how it ends, and what its order is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import permutations

import pytest

from ramify import ConfigError, Engine, Job, JobCancelled, JobState, QueueFull, Settled, Tasks, current
from ramify.inspect.why import why
from ramify.testing import oracle
from ramify.testing.using import Workbench
from tests.behaviour.office import acts, bundle, engine, late, letter, lost, memo, post, sell, stamp, trace

QUEUED, RUNNING, DONE = JobState.QUEUED, JobState.RUNNING, JobState.DONE
FAILED, CANCELLED = JobState.FAILED, JobState.CANCELLED
DAY = 86_400


@pytest.fixture(autouse=True)
def nothing_contradicts_itself(bench: Workbench) -> Iterator[None]:
    """Whatever a test did, the log is whole."""
    yield
    assert oracle.check(engine._runtime.store) == []


def reason(job: Job[object]) -> str:
    """Why a job was cancelled."""
    assert job.state is CANCELLED
    assert job.error is not None
    return job.error.failure.text


# finding the job


def test_a_key_finds_the_unfinished_job_that_holds_it(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann").unique("a"))
    seen: list[object] = []
    acts["ann"] = lambda: seen.append(engine.job_for(letter, "a"))
    assert engine.job_for(letter, "a") == job
    assert (engine.job_for(letter, "b"), engine.job_for(post, "a")) == (None, None)
    bench.drain()
    assert seen == [job], "it runs"
    assert engine.job_for(letter, "a") is None, "its key is kept, and it has ended"
    again = engine.enqueue(letter.of("ann").unique("a"), again=True)
    assert engine.job_for(letter, "a") == again


def test_a_key_finds_a_job_in_any_queue_and_a_job_that_waits(bench: Workbench) -> None:
    elsewhere = engine.enqueue(letter.of("ann").unique("a").queue("bulk").delay(60))
    waiting = engine.enqueue(letter.of("bob").unique("b"), after=elsewhere)
    assert [engine.job_for(letter, key) for key in "ab"] == [elsewhere, waiting]


def test_a_key_does_not_find_a_job_that_expired_before_a_worker_came(bench: Workbench) -> None:
    engine.enqueue(letter.of("ann").unique("a").expires(60))
    bench.advance(61)
    assert engine.job_for(letter, "a") is None


def test_a_label_or_a_key_that_is_once_in_its_run_finds_nothing(bench: Workbench) -> None:
    engine.enqueue(letter.of("ann").key("a"))
    engine.enqueue(letter.of("ann").once("a"))
    assert engine.job_for(letter, "a") is None


# starting, and not


def test_operations_start_one_by_one_when_the_job_is_done(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann").delay(60))
    operations = [engine.enqueue(post.of(name), after=job) for name in "abc"]
    bench.drain()
    assert (trace, {each.state for each in operations}) == ([], {QUEUED})
    bench.advance(60)
    bench.drain()
    assert trace == ["ann", "a", "b", "c"]
    assert [each.result() for each in operations] == ["sent a", "sent b", "sent c"]


def test_without_a_job_an_operation_starts_at_once(bench: Workbench) -> None:
    operation = engine.enqueue(post.of("a"), after=engine.job_for(letter, "nobody"))
    bench.drain()
    assert operation.result() == "sent a"


@pytest.mark.parametrize("ended", [False, True])
def test_operations_behind_a_job_that_failed_are_cancelled_and_say_so(bench: Workbench, ended: bool) -> None:
    job = engine.enqueue(lost.of("bob"))
    if ended:
        bench.drain(raising=False)
    operations = engine.enqueue_many([post.of("a"), post.of("b")], after=job)
    bench.drain(raising=False)
    assert [reason(each) for each in operations] == ["the job it waited for failed"] * 2
    assert trace == ["bob"]
    with pytest.raises(JobCancelled, match="the job it waited for failed"):
        operations[0].result()


def test_operations_behind_a_job_that_was_cancelled_are_cancelled(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    operation = engine.enqueue(post.of("a"), after=job)
    assert job.cancel("not needed") is Settled.CERTAIN
    bench.drain()
    assert (reason(operation), trace) == ("the job it waited for was cancelled", [])


def test_operations_behind_a_job_that_expired_are_cancelled(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann").expires(60))
    operation = engine.enqueue(post.of("a"), after=job)
    bench.advance(61)
    bench.drain()
    assert (job.state, reason(operation), trace) == (CANCELLED, "the job it waited for was cancelled", [])


def test_operations_behind_an_operation_that_was_cancelled_are_cancelled(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("bob"))
    first = engine.enqueue(letter.of("a"), after=job)
    second = engine.enqueue(letter.of("b"), after=first)
    bench.drain(raising=False)
    assert [each.state for each in (first, second)] == [CANCELLED] * 2
    assert trace == ["bob"]


def test_an_operation_behind_a_job_that_is_done_starts_at_once(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    bench.drain()
    operation = engine.enqueue(post.of("a"), after=job)
    bench.drain()
    assert operation.result() == "sent a"


def test_a_job_that_continues_in_another_task_is_waited_for_with_it(bench: Workbench) -> None:
    acts["ann"] = lambda: current().spawn(letter.of("child"), then=stamp.of("ann").delay(60))
    job = engine.enqueue(letter.of("ann"))
    operation = engine.enqueue(post.of("a"), after=job)
    bench.drain()
    assert operation.state is QUEUED
    bench.advance(60)
    bench.drain()
    assert trace == ["ann", "child", "stamp", "a"]


def test_a_delay_counts_from_the_turn_of_an_operation_and_an_expiry_from_its_enqueue(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann").delay(60))
    delayed = engine.enqueue(post.of("a").delay(60), after=job)
    expired = engine.enqueue(post.of("b").expires(90), after=job)
    last = engine.enqueue(post.of("c"), after=job)
    bench.advance(60)
    bench.drain()
    assert (trace, delayed.state) == (["ann"], QUEUED)
    bench.advance(60)
    bench.drain()
    assert trace == ["ann", "a", "c"]
    assert reason(expired) == "it expired before it was begun"
    assert last.state is DONE


# the order


def test_each_operation_starts_when_the_one_before_has_ended_in_any_way(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    calls = [lost.of("fails"), late.of("retried"), letter.of("quits"), post.of("last")]
    operations = [engine.enqueue(call, after=job) for call in calls]
    cancelled = engine.enqueue(letter.of("never"), after=job)
    end = engine.enqueue(letter.of("end"), after=job)
    cancelled.cancel()
    bench.drain(raising=False)
    assert trace == ["ann", "fails", "retried"]
    assert [each.state for each in operations] == [FAILED, QUEUED, QUEUED, QUEUED]
    bench.advance(10)
    bench.drain()
    assert trace == ["ann", "fails", "retried", "retried", "quits", "last", "end"]
    assert [each.state for each in (*operations, cancelled, end)] == [FAILED, DONE, DONE, DONE, CANCELLED, DONE]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_is_that_in_which_they_were_added(bench: Workbench, order: tuple[int, ...]) -> None:
    """Whichever queue and priority they have, and also behind a job that has ended meanwhile."""
    job = engine.enqueue(letter.of("ann"))
    calls = [letter.of("a").priority(3), letter.of("b").priority(-3), memo.of("c").queue("bulk")]
    for at, place in enumerate(order):
        engine.enqueue(calls[place], after=job)
        if at == 1:
            bench.drain()
    bench.drain()
    assert trace == ["ann", *("abc"[place] for place in order)]


def test_a_list_keeps_its_order_and_can_be_followed(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    calls = [post.of("a"), letter.of("b"), post.of("c"), letter.of("d").delay(60), post.of("e")]
    operations, gathered = engine.enqueue_many(calls, after=job, then=bundle.of())
    bench.drain()
    assert trace == ["ann", "a", "b", "c"]
    bench.advance(60)
    bench.drain()
    assert trace[4:] == ["d", "e", "bundle"]
    assert gathered.result() == ["sent a", "Dear b", "sent c", "Dear d", "sent e"]
    assert [each.result() for each in operations] == gathered.result()


def test_operations_of_coroutines_keep_the_order_in_which_each_was_answered(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))

    async def ask() -> None:
        first = await engine.aenqueue(post.of("a"), after=job)
        (second, third) = await engine.aenqueue_many([post.of("b"), post.of("c")], after=job)
        assert len({first, second, third}) == 3

    asyncio.run(ask())
    bench.drain()
    assert trace == ["ann", "a", "b", "c"]


def test_one_whose_key_is_taken_is_the_job_that_has_it_and_takes_no_place(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    first = engine.enqueue(post.of("a").unique("k"), after=job)
    same = engine.enqueue(post.of("b").unique("k"), after=job)
    last = engine.enqueue(post.of("c"), after=job)
    assert (same, same.is_new) == (first, False)
    bench.drain()
    assert (trace, last.state) == (["ann", "a", "c"], DONE)


def test_one_takes_the_key_of_a_job_that_expired_and_its_place_behind_the_job(bench: Workbench) -> None:
    expired = engine.enqueue(post.of("x").unique("k").expires(60))
    bench.advance(61)
    job = engine.enqueue(letter.of("ann").delay(60))
    first = engine.enqueue(post.of("a"), after=job)
    second = engine.enqueue(post.of("b").unique("k"), after=job)
    assert second not in (expired, first)
    bench.drain()
    assert trace == []
    bench.advance(60)
    bench.drain()
    assert trace == ["ann", "a", "b"]


def test_one_that_comes_again_replaces_one_that_is_done(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    first = engine.enqueue(post.of("a").unique("k"), after=job)
    bench.drain()
    assert engine.enqueue(post.of("a").unique("k"), after=job) == first
    again = engine.enqueue(post.of("a").unique("k"), after=job, again=True)
    bench.drain()
    assert (again.is_new, again.state, trace) == (True, DONE, ["ann", "a", "a"])


def test_operations_change_values_in_their_order(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    operations = [engine.enqueue(sell.of("x"), after=job) for _ in range(5)]
    bench.drain()
    assert [each.result() for each in operations] == [-1, -2, -3, -4, -5]


def test_what_follows_the_job_does_not_wait_for_operations(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    engine.enqueue(post.of("a").delay(60), after=job)
    after = job.then(bundle.of())
    bench.drain()
    assert after.result() == ["Dear ann"]


# trying again


def test_a_job_that_is_tried_again_takes_along_the_operations_that_it_held_up(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("bob"))
    operations = [engine.enqueue(letter.of(name), after=job) for name in "ab"]
    elsewhere = engine.enqueue(post.of("mail"), after=job)
    bench.drain(raising=False)
    assert {each.state for each in (*operations, elsewhere)} == {CANCELLED}
    assert job.retry("found the address")
    bench.drain()
    assert [each.state for each in operations] == [DONE, DONE]
    assert trace == ["bob", "bob", "a", "b"]
    assert elsewhere.state is CANCELLED, "it is in another queue"
    again = engine.enqueue(post.of("mail"), after=job)
    bench.drain()
    assert again.state is DONE


def test_an_operation_that_ran_does_not_run_again_with_the_job(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    operations = [engine.enqueue(letter.of(name), after=job) for name in "ab"]
    bench.drain()
    assert job.retry()
    bench.drain()
    assert trace == ["ann", "a", "b", "ann"]
    assert [each.result() for each in operations] == ["Dear a", "Dear b"]


def test_an_operation_that_is_tried_again_runs_alone(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    failed = engine.enqueue(lost.of("bob"), after=job)
    done = engine.enqueue(letter.of("a"), after=job)
    bench.drain(raising=False)
    assert failed.retry()
    bench.drain()
    assert trace == ["ann", "bob", "a", "bob"]
    assert (failed.result(), done.result()) == ("found bob", "Dear a")


def test_an_operation_that_the_job_held_up_is_cancelled_again_when_it_is_tried_alone(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("bob"))
    operation = engine.enqueue(letter.of("a"), after=job)
    bench.drain(raising=False)
    assert operation.retry()
    bench.drain()
    assert (reason(operation), trace) == ("the job it waited for failed", ["bob"])


# looking, forgetting, refusing


def test_why_says_which_job_an_operation_waits_for(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    first, second = (engine.enqueue(post.of(name).delay(60), after=job) for name in "ab")

    def said(task: int) -> str:
        return why(engine._runtime.store, task).text

    assert said(first.id) == said(second.id) == f"it starts after job {job.id}, once that one is done"
    bench.drain()
    assert said(second.id) == f"it is behind job {job.id}, and waits for job {first.id} to end, which came before it"


def test_a_job_and_the_operations_behind_it_are_forgotten_each_after_its_time(bench: Workbench) -> None:
    kept = engine.enqueue(lost.of("bob"))
    done = engine.enqueue(letter.of("ann"))
    held_up, ran = engine.enqueue(letter.of("a"), after=kept), engine.enqueue(post.of("b"), after=done)
    bench.drain(raising=False)
    bench.advance(2 * DAY)
    store = engine._runtime.store
    for queue in ("jobs/default", "jobs/mail"):
        run = store.reads.find_run(queue)
        assert run is not None
        tasks = range(1, 2**40)
        if queue == "jobs/default":
            tasks = range(kept.id + 1, 2**40)
        store.forget(run.id, tasks, before=store.now() - DAY)
    assert [each.state for each in (kept, done, held_up, ran)] == [FAILED, *[JobState.NOT_FOUND] * 3]
    late_one = engine.enqueue(post.of("late"), after=kept)
    bench.drain()
    assert reason(late_one) == "the job it waited for failed"
    with pytest.raises(ConfigError, match=rf"job {done.id} is not in this store; .*Leave after= out if"):
        engine.enqueue(post.of("x"), after=done)


def test_a_full_queue_refuses_operations_too(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    engine.queue("mail", max_pending=1)
    try:
        engine.enqueue(post.of("a"), after=job)
        with pytest.raises(QueueFull):
            engine.enqueue(post.of("b"), after=job)
    finally:
        engine.queue("mail", max_pending=None)
    bench.drain()
    assert trace == ["ann", "a"]


def test_what_is_no_job_of_this_store_is_refused_with_what_to_write(bench: Workbench) -> None:
    call = post.of("a")
    with pytest.raises(ConfigError, match=r"expected a job, got a call of letter\. Enqueue it first: job = enqueue"):
        engine.enqueue(call, after=letter.of("ann"))  # type: ignore[arg-type]
    for stray in (17, "17", True, letter):
        with pytest.raises(
            ConfigError, match=r"expected a job\. Write after=engine\.job_for\(create, key\), or after="
        ):
            engine.enqueue(call, after=stray)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="job 4611686018427387903 is not in this store; it never existed"):
        engine.enqueue(call, after=engine.job(2**62 - 1))
    other = Engine("memory:", include=[tasks := Tasks()])
    there = other.enqueue(tasks.task(memo.fn).of("ann"))
    with pytest.raises(
        ConfigError, match=rf"job {there.id} is in another store \(this process\).*Enqueue with the engine of"
    ):
        engine.enqueue(call, after=there)
    other.close()
    job = engine.enqueue(letter.of("ann"))
    with pytest.raises(
        ConfigError, match=r"post\(\.\.\.\)\.always\(\) would start .* Write job\.then\(call\.always\(\)\)"
    ):
        engine.enqueue(call.always(), after=job)
    with pytest.raises(ConfigError, match="stamp without its argument `text`"):
        engine.enqueue(stamp.of(), after=job)  # type: ignore[call-arg]
    for task in (letter.of("ann"), "letter", None):
        with pytest.raises(
            ConfigError, match=r"job_for\(\): expected a task function, got .*Write job_for\(create, key\)"
        ):
            engine.job_for(task, "a")  # type: ignore[arg-type]
    assert [each.kind for each in engine.jobs()] == ["letter"], "nothing was added"
