"""Claims that take places of limits: few in advance, back when they stay unused, and committed when others wait."""

from __future__ import annotations

import pytest

from ramify.kernel.core.core import Core
from ramify.kernel.core.handler import Calling
from ramify.kernel.core.steps import ClaimWork, Flush, Look, PutBack, Rest
from ramify.kernel.core.work import Postponed, Ran, Wait
from ramify.kernel.tuning import GRANT_SECONDS, UNUSED
from ramify.model.claim import Claimed, Want
from ramify.model.event import Status
from ramify.model.outcome import Failure
from tests.kernel.claims import answer, claim, core, handler, lease


def want(of: Core, now: float = 0.0) -> Want:
    step = of.step(now)
    assert isinstance(step, ClaimWork | Flush), step
    assert step.want is not None
    return step.want


def rest(of: Core, now: float) -> Rest:
    """The rest that it takes, once it has looked for runs that can go on."""
    step = of.step(now)
    if isinstance(step, Look):
        of.found((), now)
        step = of.step(now)
    assert isinstance(step, Rest), step
    return step


def bring(made: Core, seconds: float, now: float) -> None:
    """Let the next task take so long."""
    chunk = lease(made, now)
    made.finished(Ran(chunk, done=list(chunk.tasks), seconds=seconds * len(chunk.tasks)), now)
    made.came_back(chunk)


def test_of_a_kind_that_was_never_measured_as_many_are_taken_as_can_run_at_once() -> None:
    made = core(handler(), handler("wait", Calling.ASYNC), threads=4, coroutines=30)
    assert want(made).few == {"work": 4, "wait": 30}


def test_of_quick_tasks_so_many_are_taken_as_run_within_a_moment() -> None:
    made = core(threads=4)
    made.claimed(Claimed((claim(1, limited=True),)), 0.0)
    bring(made, 0.001, 0.0)
    made.claim_policy.through = 1_000
    assert want(made, 0.0).few == {"work": int(GRANT_SECONDS * 4 / 0.001)}


def test_of_quick_tasks_no_more_than_twice_as_many_are_taken_as_were_done_in_the_last_moment() -> None:
    made = core(threads=4)
    made.claimed(Claimed((claim(1, limited=True),)), 0.0)
    bring(made, 0.001, 0.0)
    assert want(made, 0.0).few == {"work": 4}
    made.claim_policy.through = 30
    assert want(made, 0.0).few == {"work": 60}
    made.stirred()
    assert want(made, 2 * GRANT_SECONDS).few == {"work": 30}
    made.claim_policy.through = 70
    made.stirred()
    assert want(made, 2.5 * GRANT_SECONDS).few == {"work": 80}


def test_of_long_tasks_no_more_are_taken_than_run_at_once() -> None:
    made = core(threads=4)
    made.claimed(Claimed((claim(1, limited=True),)), 0.0)
    bring(made, 60.0, 0.0)
    assert want(made, 0.0).few == {"work": 4}


def test_what_is_held_is_taken_off_and_of_what_suffices_nothing_is_asked() -> None:
    made = core(handler(), handler("other"), threads=4)
    made.claimed(Claimed((claim(1, limited=True),), ready=9), 0.0)
    assert want(made).few == {"work": 3, "other": 4}
    made.claimed(Claimed((claim(3, first=200, limited=True),), ready=9), 0.0)
    bring(made, 0.3, 0.3)
    made.claimed(Claimed((claim(1, first=300, limited=True),), ready=9), 0.3)
    asked = want(made, 0.4)
    assert (asked.few["work"], sorted(asked.kinds)) == (0, ["other"])


def test_a_kind_without_limits_is_asked_for_however_much_of_it_is_held() -> None:
    made = core(handler(), threads=4)
    made.claimed(Claimed((claim(3, limited=False),), ready=9), 0.0)
    assert want(made).kinds == {"work"}


def test_a_kind_that_is_no_longer_limited_is_asked_for_again() -> None:
    made = core(handler(), handler("other"), threads=4)
    made.claimed(Claimed((claim(4, limited=True), claim(1, first=300, kind="work", limited=False)), ready=9), 0.0)
    grants = made.claim_policy.grants
    assert grants.enough(grants.few(["work", "other"], 0, 0.0)) == frozenset()


def test_no_more_are_taken_than_a_limit_of_this_process_lets_run() -> None:
    made = core(handler(concurrency=1), threads=4)
    assert want(made).few == {"work": 1}


def test_a_limit_of_this_process_that_counts_lanes_says_nothing_about_all_of_them() -> None:
    made = core(handler(concurrency=1), threads=4)
    made.claimed(Claimed((claim(1, limited=True, lane="a"),)), 0.0)
    bring(made, 60.0, 0.0)
    assert want(made).few == {"work": 4}


def test_what_is_unused_for_a_second_goes_back() -> None:
    made = core(handler(concurrency=1), threads=4)
    made.claimed(Claimed((claim(1, limited=True), claim(1, first=200, limited=True))), 0.0)
    lease(made)
    step = made.step(0.0)
    assert isinstance(step, Rest)
    assert step.seconds <= UNUSED
    assert made.step(UNUSED - 0.001) != PutBack((b"work-200",))
    assert made.step(UNUSED) == PutBack((b"work-200",))
    made.released([b"work-200"])
    # The limit of this process is in the way still, and nothing more is asked for it.
    made.stirred()
    assert isinstance(made.step(UNUSED), Rest)


def test_a_lane_from_which_something_went_back_unused_is_left_alone_until_it_may_start() -> None:
    made = core(handler(concurrency=1), threads=4)
    made.claimed(Claimed((claim(1, limited=True, lane="a"), claim(1, first=200, limited=True, lane="a"))), 0.0)
    running = lease(made)
    assert made.step(UNUSED) == PutBack((b"work-200",))
    made.released([b"work-200"])
    made.stirred()
    assert want(made, UNUSED).busy_lanes == {"a"}
    made.finished(Ran(running, done=[100], seconds=UNUSED), UNUSED)
    made.came_back(running)
    assert want(made, UNUSED).busy_lanes == set()


def test_what_takes_no_place_is_kept_however_long_it_is_unused() -> None:
    made = core(handler(concurrency=1), threads=4)
    made.claimed(Claimed((claim(1), claim(1, first=200))), 0.0)
    lease(made)
    assert not isinstance(made.step(10 * UNUSED), PutBack)


def test_what_is_begun_little_by_little_is_kept_until_it_stands_still() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(3, limited=True),)), 0.0)
    first = lease(made, 0.0)
    made.step(0.9)
    made.finished(Ran(first, done=list(first.tasks), seconds=0.9), 0.9)
    made.came_back(first)
    made.step(0.9)
    second = lease(made, 0.9)
    assert len(second.tasks) == 1
    goes_back = []
    for now in (UNUSED, 2 * UNUSED):
        made.step(now)
        goes_back.append(made.holdings[b"work-100"].closing)
    assert goes_back == [False, True], "a task of it began a moment before the first look"


def test_a_wait_of_a_limited_task_is_waited_for_in_the_store() -> None:
    made = core(handler(retries=3), threads=4, memory_wait=0.5)
    made.claimed(Claimed((claim(1, limited=True),)), 0.0)
    made.finished(Ran(lease(made), others=[(100, Postponed(0.1))], seconds=0.1), 0.0)
    (finished,) = made.outbox.finished.values()
    assert (finished.again, finished.later) == ({}, {100: Wait(0.1)})


def test_the_end_of_a_limited_task_is_committed_at_once_when_no_other_waits_here() -> None:
    made = core(handler(), handler("other"), threads=4, flush_after=0.1)
    made.claimed(Claimed((claim(2, limited=True), claim(9, first=500, kind="other"))), 0.0)
    first, second = lease(made), lease(made)
    made.finished(Ran(first, done=list(first.tasks), seconds=0.01), 0.01)
    assert isinstance(made.step(0.01), Flush)
    assert len(second.tasks) == 1


def test_the_end_of_one_without_limits_waits_for_others() -> None:
    made = core(handler(), handler("other"), threads=4, flush_after=0.1)
    made.claimed(Claimed((claim(2), claim(9, first=500, kind="other"))), 0.0)
    first, _ = lease(made), lease(made)
    made.finished(Ran(first, done=list(first.tasks), seconds=0.01), 0.01)
    step = made.step(0.01)
    assert not isinstance(step, Flush)


def test_a_claim_that_finds_nothing_but_full_limits_is_not_followed_by_the_next() -> None:
    made = core(threads=4)
    want(made)
    made.claimed(Claimed(), 0.0)
    rest(made, 0.0)
    rest(made, 0.5)
    made.stirred()
    want(made, 0.5)


def test_a_claim_that_finds_limits_shut_is_followed_by_one_when_they_open() -> None:
    made = core(threads=4)
    want(made)
    made.claimed(Claimed(next_due=0.4), 0.0)
    assert rest(made, 0.0).seconds == pytest.approx(0.4)
    want(made, 0.4)


@pytest.mark.parametrize("is_limited", [True, False])
def test_closing_a_limit_that_does_not_cover_the_task_fails_it_with_what_to_write(is_limited: bool) -> None:
    made = core(handler(), threads=4)
    made.claimed(Claimed((claim(1, limited=is_limited),)), 0.0)
    made.finished(Ran(lease(made), others=[(100, Postponed(30.0, closes="lane"))], seconds=0.1), 0.0)
    (finished,) = made.outbox.finished.values()
    assert finished.statuses == [Status.FAILED]
    assert finished.values is not None
    failure = Failure.decode(finished.values[0])
    assert failure.type == "ramify.errors.ConfigError"
    assert 'Write @engine.task(max_running=..., per="lane")' in (failure.text or "")


@pytest.mark.parametrize(
    ("policy", "settings", "fields", "closes"),
    [
        ({"per_lane": True}, {}, {"limited": True}, "lane"),
        ({"in_all": True}, {}, {"limited": True}, "limit"),
        ({}, {"limited_queues": frozenset({"default"})}, {"limited": True}, "limit"),
        ({"per_lane": True}, {"limited_queues": frozenset({"default"})}, {"limited": True}, "limit"),
        ({}, {}, {"limited": True}, "limit"),
    ],
)
def test_what_closes_a_limit_says_so_to_the_store(policy: dict, settings: dict, fields: dict, closes: str) -> None:  # type: ignore[type-arg]
    made = core(handler(**policy), threads=4, **settings)
    made.claimed(Claimed((claim(1, **fields),)), 0.0)
    made.finished(Ran(lease(made), others=[(100, Postponed(30.0, closes=closes))], seconds=0.1), 0.0)  # type: ignore[arg-type]
    (finished,) = made.outbox.finished.values()
    assert finished.later == {100: Wait(30.0, closes=closes)}  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "limited"), [({"per_lane": True}, True), ({}, False)])
def test_closing_all_of_what_is_limited_per_lane_only_is_refused(policy: dict, limited: bool) -> None:  # type: ignore[type-arg]
    made = core(handler(**policy), threads=4)
    made.claimed(Claimed((claim(1, limited=limited),)), 0.0)
    made.finished(Ran(lease(made), others=[(100, Postponed(30.0, closes="limit"))], seconds=0.1), 0.0)
    (finished,) = made.outbox.finished.values()
    assert finished.statuses == [Status.FAILED]


def test_a_commit_of_limited_tasks_frees_places_so_more_may_be_there() -> None:
    made = core(threads=4)
    made.claimed(Claimed((claim(1, limited=True),)), 0.0)
    chunk = lease(made)
    assert made.claim_policy.is_dry
    made.finished(Ran(chunk, done=[100], seconds=0.0005), 0.0005)
    step = made.step(0.0005)
    assert isinstance(step, Flush)
    assert step.want is not None, "together with the commit"
    made.committed(step.batch, answer(), 0.001)
    assert not made.claim_policy.is_dry, "and after it: others may have been given the place"
