"""What a job is to those who use it, told on every store: where it stands, what its key does, when it runs, what
follows it. Time is in the hands of the test, and handlers run in its thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from ramify import BadPayload, Call, ConfigError, Job, JobCancelled, JobFailed, JobState, QueueFull, Settled, current
from ramify.inspect.words import instant
from ramify.kernel.settings import Settings
from ramify.testing import oracle
from ramify.testing.using import Workbench
from tests.behaviour.office import (
    acts,
    bundle,
    clip,
    engine,
    hang_detector,
    late,
    letter,
    lost,
    memo,
    post,
    stamp,
    trace,
)
from tests.crash.clients import wait_until

QUEUED, RUNNING, DONE = JobState.QUEUED, JobState.RUNNING, JobState.DONE
FAILED, CANCELLED, NOT_FOUND = JobState.FAILED, JobState.CANCELLED, JobState.NOT_FOUND
DAY = 86_400


@pytest.fixture(autouse=True)
def nothing_contradicts_itself(bench: Workbench) -> Iterator[None]:
    """Whatever a test did, the log is whole."""
    yield
    assert oracle.check(engine._runtime.store) == []


def me() -> Job[object]:
    """The job that runs."""
    return engine.job(current().task)


# where it stands


def test_a_job_is_queued_then_running_then_done(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    seen = [job.state]
    acts["ann"] = lambda: seen.append(me().state)
    bench.drain()
    assert [*seen, job.state] == [QUEUED, RUNNING, DONE]
    assert (job.result(), job.error, job.is_new) == ("Dear ann", None, True)


def test_a_job_tells_when_it_was_added_and_tried_and_by_whom(bench: Workbench) -> None:
    before = instant(engine._runtime.store.now())
    job = engine.enqueue(late.of("bob"))
    assert (job.started_at, job.ended_at, job.attempts, job.worker, job.traceback) == (None, None, 0, None, None)
    engine.enqueue(letter.of("one before it"))
    bench.advance(3)
    other = engine.enqueue(letter.of("ann"))
    held: list[str | None] = []
    acts["ann"] = lambda: held.append(me().worker)
    bench.drain(raising=False)
    assert (job.state, job.attempts) == (QUEUED, 1)
    assert (job.traceback or "").endswith("ConnectionError: not yet\n")
    bench.advance(10)
    bench.drain()
    after = instant(engine._runtime.store.now())
    assert job.enqueued_at == before
    assert other.enqueued_at == before + timedelta(seconds=3)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert before + timedelta(seconds=3) <= job.started_at < job.ended_at <= after
    assert (job.attempts, job.traceback, other.attempts) == (2, None, 1)
    assert held == [other.worker]
    assert job.worker in {f"{process.id:x}" for process in engine._runtime.store.reads.processes()}
    gone = engine.job(1)
    assert (gone.enqueued_at, gone.ended_at, gone.attempts, gone.worker) == (None, None, 0, None)


def test_a_job_shows_the_traceback_of_its_last_attempt(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("eve"))
    bench.drain(raising=False)
    assert job.state is FAILED
    assert job.traceback is not None
    assert job.error is not None
    assert job.traceback == job.error.traceback
    assert job.traceback.startswith("Traceback (most recent call last):")


def test_a_handle_made_of_the_id_alone_tells_the_same(bench: Workbench) -> None:
    job = engine.enqueue(post.of("ann").unique("a").headers(trace="7"))
    other = engine.job(job.id)
    assert other == job
    assert not other.is_new
    assert (other.kind, other.queue, other.key, other.headers) == ("post", "mail", "a", {"trace": "7"})
    bench.drain()
    assert other.result() == "sent ann"


def test_a_job_that_failed_says_why(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("bob"))
    bench.drain(raising=False)
    assert job.error is not None
    assert (job.state, job.error.failure.text) == (FAILED, "no such address")
    with pytest.raises(JobFailed, match="no such address"):
        job.result()


def test_a_job_that_is_tried_again_later_is_queued_until_then(bench: Workbench) -> None:
    job = engine.enqueue(late.of("bob"))
    bench.drain(raising=False)
    assert (job.state, trace) == (QUEUED, ["bob"])
    bench.advance(10)
    bench.drain()
    assert (job.state, job.result()) == (DONE, "bob, late")


def test_a_job_that_never_was_is_not_found_and_that_is_no_error(bench: Workbench) -> None:
    job = engine.job(12_345)
    assert (job.state, job.ended, job.error, job.kind, job.headers, job.progress) == (
        NOT_FOUND, True, None, None, {}, None
    )  # fmt: skip
    assert (job.cancel(), job.retry()) == (Settled.UNKNOWN, False)
    with pytest.raises(LookupError, match="no job 12345"):
        job.result()


def test_the_states_of_many_are_told_at_once(bench: Workbench) -> None:
    gone = engine.enqueue(letter.of("gone"))
    gone.cancel()
    done, failed = engine.enqueue_many([letter.of("done"), lost.of("failed")])
    bench.drain(raising=False)
    queued = engine.enqueue(letter.of("queued"))
    asked = [queued.id, done.id, failed.id, gone.id, 12_345]
    assert list(engine.job_states(asked).values()) == [QUEUED, DONE, FAILED, CANCELLED, NOT_FOUND]


def test_a_job_says_how_far_it_is(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    assert job.progress is None
    acts["ann"] = lambda: current().progress(2, 2)
    bench.drain()
    assert [each.progress and each.progress.text for each in engine.jobs()] == ["2 of 2"]


def test_a_coroutine_enqueues_and_waits(bench: Workbench) -> None:
    async def order() -> list[str]:
        job = await engine.aenqueue(post.of("ann"))
        first, second = await engine.aenqueue_many([post.of("bob"), post.of("cid")])
        await bench.adrain()
        return [await job, await first, await second]

    assert asyncio.run(order()) == ["sent ann", "sent bob", "sent cid"]


# keys


def test_a_key_that_is_queued_gives_the_job_that_has_it(bench: Workbench) -> None:
    first = engine.enqueue(letter.of("ann").unique("k"))
    second = engine.enqueue(letter.of("other").unique("k"))
    assert (second, first.is_new, second.is_new) == (first, True, False)
    bench.drain()
    assert trace == ["ann"]


def test_a_key_that_is_running_gives_the_job_that_has_it(bench: Workbench) -> None:
    found: list[Job[str]] = []
    first = engine.enqueue(letter.of("ann").unique("k"))
    acts["ann"] = lambda: found.append(engine.enqueue(letter.of("other").unique("k"), again=True))
    bench.drain()
    assert (found, trace) == ([first], ["ann"])


def test_a_key_that_is_done_gives_that_job_as_long_as_its_result_is_kept(bench: Workbench) -> None:
    first = engine.enqueue(letter.of("ann").unique("k"))
    bench.drain()
    bench.advance(DAY - 1)
    assert engine.enqueue(letter.of("ann").unique("k")) == first
    bench.advance(2)
    second = engine.enqueue(letter.of("ann").unique("k"))
    assert (second.is_new, second != first) == (True, True)
    bench.drain()
    assert trace == ["ann", "ann"]


@pytest.mark.parametrize(("call", "seconds"), [(memo.of("m").unique("k"), 60), (letter.of("m").unique("k", 5), 5)])
def test_who_chose_how_long_a_key_is_kept_is_listened_to(bench: Workbench, call: Call[str], seconds: float) -> None:
    first = engine.enqueue(call)
    bench.drain()
    bench.advance(seconds - 1)
    assert engine.enqueue(call) == first
    bench.advance(1.1)
    assert engine.enqueue(call).is_new


def test_a_key_that_failed_runs_again(bench: Workbench) -> None:
    first = engine.enqueue(lost.of("bob").unique("k"))
    bench.drain(raising=False)
    second = engine.enqueue(lost.of("bob").unique("k"))
    bench.drain()
    assert (first.state, second.is_new, second.result()) == (FAILED, True, "found bob")
    assert engine.enqueue(lost.of("bob").unique("k")) == second


def test_a_key_that_was_cancelled_runs_again(bench: Workbench) -> None:
    first = engine.enqueue(letter.of("ann").unique("k"))
    first.cancel()
    second = engine.enqueue(letter.of("ann").unique("k"))
    bench.drain()
    assert (first.state, second.state, trace) == (CANCELLED, DONE, ["ann"])


def test_again_replaces_a_job_that_is_done(bench: Workbench) -> None:
    first = engine.enqueue(letter.of("ann").unique("k"), again=True)
    bench.drain()
    second = engine.enqueue(letter.of("bob").unique("k"), again=True)
    assert (second.is_new, engine.enqueue(letter.of("bob").unique("k"))) == (True, second)
    bench.drain()
    assert (first.result(), second.result()) == ("Dear ann", "Dear bob")


def test_again_never_replaces_a_job_that_is_queued(bench: Workbench) -> None:
    first = engine.enqueue(letter.of("ann").unique("k"))
    assert engine.enqueue(letter.of("ann").unique("k"), again=True) == first


def test_without_a_key_the_arguments_are_it(bench: Workbench) -> None:
    calls = [letter.of("ann"), letter.of("ann"), letter.of("bob"), post.of("ann")]
    first, same, other, kind = engine.enqueue_many(call.unique() for call in calls)
    assert same == first
    assert len({first.id, other.id, kind.id}) == 3


def test_a_key_is_one_in_all_queues(bench: Workbench) -> None:
    first = engine.enqueue(letter.of("ann").unique("k"))
    assert engine.enqueue(letter.of("ann").unique("k").queue("mail")) == first


def test_jobs_without_a_key_are_never_taken_for_each_other(bench: Workbench) -> None:
    jobs = [engine.enqueue(letter.of("ann")) for _ in range(3)]
    assert len({job.id for job in jobs}) == 3
    assert bench.drain() == 3


# cancelling


def test_a_queued_job_that_was_cancelled_certainly_never_runs(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    assert job.cancel("not needed") is Settled.CERTAIN
    assert (job.state, job.cancel()) == (CANCELLED, Settled.ENDED)
    bench.drain()
    assert trace == []
    with pytest.raises(JobCancelled, match="not needed"):
        job.result()


def test_the_cancel_of_a_running_job_is_a_request(bench: Workbench) -> None:
    said: list[Settled] = []
    job = engine.enqueue(letter.of("ann"))
    acts["ann"] = lambda: said.append(me().cancel())
    bench.drain()
    assert (said, job.state) == ([Settled.REQUESTED], DONE), "it was done before it heard of that"


@contextmanager
def working() -> Iterator[None]:
    """Workers beside the test that hear of cancels soon."""
    kernel = engine._runtime.kernel(Settings(threads=1, beat_every=0.02))
    kernel.start()
    try:
        yield
    finally:
        kernel.stop()
        kernel.join()


def test_a_coroutine_is_stopped_by_the_cancel_of_its_job(bench: Workbench) -> None:
    job = engine.enqueue(hang_detector.of("night"))
    with working():
        wait_until(lambda: trace, "the job to begin")
        assert (job.state, job.cancel("morning")) == (RUNNING, Settled.REQUESTED)
        wait_until(lambda: job.ended, "the job to end")
    assert job.state is CANCELLED
    assert (job.attempts, job.worker is None, job.started_at is None) == (1, False, False)
    with pytest.raises(JobCancelled, match="morning"):
        job.result()


def test_a_function_that_stops_for_the_cancel_of_its_job_leaves_its_key_to_the_next(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann").unique("ann"))

    def stop() -> None:
        trace.append("began")
        wait_until(lambda: current().cancelled, "the cancel to be heard of")

    acts["ann"] = stop
    with working():
        wait_until(lambda: "began" in trace, "the job to begin")
        assert job.cancel("not needed") is Settled.REQUESTED
        wait_until(lambda: job.ended, "the job to end")
    assert job.state is CANCELLED
    with pytest.raises(JobCancelled, match="not needed"):
        job.result()
    again = engine.enqueue(letter.of("ann").unique("ann"))
    assert (again.is_new, again == job) == (True, False)


def test_a_queue_that_was_cancelled_begins_anew_with_the_next_job(bench: Workbench) -> None:
    old = engine.enqueue(letter.of("old"))
    run = engine.queue("default").run
    assert run is not None
    run.cancel("all of them")
    new = engine.enqueue(letter.of("new"))
    bench.drain()
    assert (old.state, new.state, trace) == (CANCELLED, DONE, ["new"])


# order and time


def test_who_has_priority_goes_first_and_equals_in_the_order_in_which_they_came(bench: Workbench) -> None:
    for name, level in (("a", 0), ("low", 5), ("b", 0), ("high", -5), ("c", 0), ("high too", -5)):
        engine.enqueue(letter.of(name).priority(level))
    bench.drain()
    assert trace == ["high", "high too", "a", "b", "c", "low"]


def test_first_come_first_served_also_among_those_that_came_together(bench: Workbench) -> None:
    engine.enqueue_many(letter.of(f"{n}") for n in range(20))
    engine.enqueue(letter.of("last").unique("k"))
    bench.drain()
    assert trace == [*(f"{n}" for n in range(20)), "last"]


def test_a_delayed_job_never_runs_before_it_is_due(bench: Workbench) -> None:
    soon, later = engine.enqueue_many([letter.of("soon").delay(60), letter.of("later").at(bench.now + timedelta(90))])
    bench.advance(59.9)
    assert (bench.drain(), soon.state) == (0, QUEUED)
    bench.advance(0.2)
    assert (bench.drain(), soon.state, later.state) == (1, DONE, QUEUED)
    bench.advance(timedelta(90))
    assert (bench.drain(), later.state) == (1, DONE)


def test_a_job_that_was_not_begun_in_time_expires(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann").expires(60).unique("k"))
    bench.advance(61)
    bench.drain()
    assert (job.state, trace) == (CANCELLED, [])
    with pytest.raises(JobCancelled, match="expired"):
        job.result()
    assert engine.enqueue(letter.of("ann").unique("k")).is_new


def test_a_job_that_has_expired_reads_as_cancelled_although_nobody_has_come_by(bench: Workbench) -> None:
    job, prompt = engine.enqueue(letter.of("ann").expires(60)), engine.enqueue(letter.of("ann").expires(600))
    until = job.enqueued_at
    assert until is not None
    bench.advance(59)
    assert [job.state, prompt.state] == [QUEUED, QUEUED]
    bench.advance(2)
    assert [job.state, prompt.state] == [CANCELLED, QUEUED]
    assert engine.job_states([job.id, prompt.id]) == {job.id: CANCELLED, prompt.id: QUEUED}
    assert list(engine.jobs(state="cancelled")) == [job]
    assert job.ended_at == until + timedelta(seconds=60)
    with pytest.raises(JobCancelled, match="expired"):
        job.result(0)
    assert job.cancel() is Settled.CERTAIN
    assert job.cancel() is Settled.ENDED


@pytest.mark.parametrize("delay", [0, 120])
def test_a_job_that_expired_does_not_answer_for_its_key_although_nobody_has_come_by(
    bench: Workbench, delay: float
) -> None:
    old = engine.enqueue(letter.of("ann").delay(delay).expires(60).unique("k"))
    bench.advance(61)
    new = engine.enqueue(letter.of("ann").expires(60).unique("k"))
    assert (new.is_new, new.id == old.id, old.state) == (True, False, CANCELLED)
    with pytest.raises(JobCancelled, match="expired"):
        old.result()
    bench.advance(59)
    same, other = engine.enqueue_many([letter.of("ann").unique("k"), letter.of("bob")])
    assert (same, same.is_new, other.is_new) == (new, False, True)
    bench.drain()
    assert (new.state, trace) == (DONE, ["ann", "bob"])


def test_a_job_that_was_begun_in_time_keeps_its_key(bench: Workbench) -> None:
    job = engine.enqueue(late.of("bob").expires(5).unique("k"))
    bench.drain(raising=False)
    bench.advance(10)
    assert (job.state, engine.enqueue(late.of("bob").unique("k"))) == (QUEUED, job)
    bench.drain()
    assert job.state is DONE


def test_a_job_that_was_begun_in_time_does_not_expire(bench: Workbench) -> None:
    prompt, tried = engine.enqueue_many([letter.of("ann").expires(60), late.of("bob").expires(5)])
    bench.advance(1)
    bench.drain(raising=False)
    bench.advance(10)
    bench.drain()
    assert (prompt.state, tried.state) == (DONE, DONE)


# what follows


def test_what_follows_a_job_gets_its_result(bench: Workbench) -> None:
    after = engine.enqueue(letter.of("ann")).then(bundle.of())
    assert after.state is QUEUED
    bench.drain()
    assert (after.result(), trace) == (["Dear ann"], ["ann", "bundle"])


def test_what_follows_a_job_gets_its_result_as_the_one_argument_that_it_lacks(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    after = [job.then(stamp.of()), job.then(stamp.of(sign="?")), job.then(clip.of(sep=","))]  # type: ignore[call-arg]
    beyond = after[0].then(stamp.of().delay(60))  # type: ignore[call-arg]
    bench.drain()
    assert [each.result() for each in after] == ["Dear ann!", "Dear ann?", "Dear ann"]
    late = job.then(stamp.of())  # type: ignore[call-arg]
    bench.advance(60)
    bench.drain()
    assert (beyond.result(), late.result()) == ("Dear ann!!", "Dear ann!")


def test_what_follows_several_jobs_gets_a_stream_where_one_is_annotated(bench: Workbench) -> None:
    _, all_of_them = engine.enqueue_many([letter.of("ann"), letter.of("bob")], then=clip.of(sep=" "))  # type: ignore[call-arg]
    (alone,), stamped = engine.enqueue_many([letter.of("eve")], then=stamp.of())  # type: ignore[call-arg]
    bench.drain()
    assert all_of_them.result() == "Dear ann Dear bob"
    assert (alone.result(), stamped.result()) == ("Dear eve", "Dear eve!")


def test_what_lacks_an_argument_that_no_job_can_give_is_refused(bench: Workbench) -> None:
    open_call = stamp.of()  # type: ignore[call-arg]
    two = [letter.of("ann"), letter.of("bob")]
    with pytest.raises(BadPayload, match="expected one job before it, because `text` takes one result, got 2"):
        engine.enqueue_many(two, then=open_call)
    with pytest.raises(BadPayload, match="`text` takes str, and the <result of the job before it> is list"):
        engine.enqueue(bundle.of()).then(open_call)
    for refused in (engine.enqueue, engine.run, lambda call: engine.enqueue_many([call]), engine.dag("post").add):
        with pytest.raises(
            ConfigError, match=r"stamp without its argument `text`\. Pass it, or let the call follow a job"
        ):
            refused(open_call)
    with pytest.raises(BadPayload, match="missing a required argument"):
        clip.of()  # type: ignore[call-arg]


def test_what_follows_a_job_that_is_done_runs_at_once(bench: Workbench) -> None:
    job = engine.enqueue(post.of("ann"))
    bench.drain()
    after = job.then(bundle.of())
    bench.drain()
    assert after.result() == ["sent ann"]


@pytest.mark.parametrize("ended", [False, True])
def test_what_follows_a_job_that_failed_is_cancelled_unless_it_always_runs(bench: Workbench, ended: bool) -> None:
    job = engine.enqueue(lost.of("bob"))
    if ended:
        bench.drain(raising=False)
    after, always = job.then(bundle.of()), job.then(bundle.of().always())
    beyond = after.then(bundle.of())
    bench.drain(raising=False)
    assert [each.state for each in (job, after, beyond, always)] == [FAILED, CANCELLED, CANCELLED, DONE]


def test_what_follows_a_job_that_was_cancelled_is_cancelled(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    after = job.then(bundle.of())
    job.cancel()
    bench.drain()
    assert (after.state, trace) == (CANCELLED, [])


def test_a_group_is_followed_by_what_gathers_its_results(bench: Workbench) -> None:
    calls = [letter.of("ann"), post.of("bob"), letter.of("cid")]
    jobs, total = engine.enqueue_many(calls, then=bundle.of())
    bench.drain()
    assert [job.result() for job in jobs] == ["Dear ann", "sent bob", "Dear cid"]
    assert sorted(total.result()) == ["Dear ann", "Dear cid", "sent bob"]
    assert trace[-1] == "bundle"


def test_a_group_waits_for_the_job_that_has_the_key_of_one_of_its_members(bench: Workbench) -> None:
    there = engine.enqueue(letter.of("ann").unique("k").delay(60))
    (same, other), total = engine.enqueue_many([letter.of("x").unique("k"), letter.of("bob")], then=bundle.of())
    bench.drain()
    assert (same, other.state, total.state) == (there, DONE, QUEUED)
    bench.advance(60)
    bench.drain()
    assert sorted(total.result()) == ["Dear ann", "Dear bob"]


def test_a_key_of_what_follows_is_kept_like_that_of_any_job(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    after = job.then(bundle.of().unique("after"))
    _, total = engine.enqueue_many([letter.of("bob")], then=bundle.of().unique("total"))
    bench.drain()
    assert job.then(bundle.of().unique("after")) == after
    assert engine.enqueue_many([letter.of("cid")], then=bundle.of().unique("total"))[1] == total


# trying again


def test_a_job_that_failed_is_tried_again_under_its_id_with_what_follows_it(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("bob"))
    after = job.then(bundle.of())
    bench.drain(raising=False)
    assert (job.state, after.state) == (FAILED, CANCELLED)
    assert job.retry("found the address")
    assert job.state is QUEUED
    bench.drain()
    assert (job.result(), after.result()) == ("found bob", ["found bob"])


def test_a_job_that_has_not_ended_is_not_tried_again(bench: Workbench) -> None:
    job = engine.enqueue(letter.of("ann"))
    assert (job.retry(), bench.drain()) == (False, 1)


def test_a_job_whose_key_another_has_is_not_tried_again(bench: Workbench) -> None:
    job = engine.enqueue(lost.of("bob").unique("k"))
    bench.drain(raising=False)
    other = engine.enqueue(letter.of("bob").unique("k"))
    assert other.is_new, "a key is one of its kind"
    second = engine.enqueue(lost.of("bob").unique("k"))
    with pytest.raises(ConfigError, match=f"job {second.id} has its key"):
        job.retry()
    assert job.state is FAILED


# lists


def names(**wanted: object) -> list[str]:
    return [str(job.headers["name"]) for job in engine.jobs(**wanted)]  # type: ignore[arg-type]


def test_lists_are_newest_first_and_hold_what_fits_all_that_is_asked(bench: Workbench) -> None:
    engine.enqueue(letter.of("a").headers(name="a", to="x").unique("key a"))
    engine.enqueue(post.of("b").headers(name="b", to="x"))
    bench.drain()
    bench.advance(100)
    c = engine.enqueue(letter.of("c").headers(name="c", to="y"))
    engine.enqueue(letter.of("d").headers(name="d", to="x").queue("mail"))
    assert names() == ["d", "c", "b", "a"]
    assert names(kind="letter") == names(kind=letter) == ["d", "c", "a"]
    assert names(state="queued") == names(state=QUEUED) == ["d", "c"]
    assert names(state=DONE) == ["b", "a"]
    assert names(queue="mail") == ["d", "b"]
    assert names(queue="nowhere") == []
    assert names(key="key a") == ["a"]
    assert names(headers={"to": "x"}) == ["d", "b", "a"]
    assert names(older=timedelta(seconds=50)) == ["b", "a"]
    assert names(newer=timedelta(seconds=50)) == ["d", "c"]
    assert names(before=c.id) == ["b", "a"]
    assert names(kind=letter, queue="mail", headers={"to": "x"}, state=QUEUED) == ["d"]


# bounds


def test_a_full_queue_refuses_and_adds_nothing(bench: Workbench) -> None:
    queue = engine.queue("small", max_pending=2)
    engine.enqueue_many([letter.of("a").queue("small"), letter.of("b").queue("small")])
    with pytest.raises(QueueFull, match="'small' has 2 jobs"):
        engine.enqueue(letter.of("c").queue("small"))
    assert queue.pending == 2
    engine.enqueue(letter.of("elsewhere"))
    bench.drain()
    engine.enqueue(letter.of("d").queue("small"))
    assert (queue.pending, sorted(trace)) == (1, ["a", "b", "elsewhere"])


def test_a_full_queue_lets_wait_until_there_is_room(bench: Workbench) -> None:
    queue = engine.queue("narrow", max_pending=1, on_full="block")
    first = engine.enqueue(letter.of("a").queue("narrow"))
    later: list[Job[str]] = []
    waiting = threading.Thread(target=lambda: later.append(engine.enqueue(letter.of("b").queue("narrow"))))
    waiting.start()
    waiting.join(0.05)
    assert (queue.pending, later) == (1, [])
    first.cancel()
    waiting.join(20)
    assert [job.state for job in later] == [QUEUED]
