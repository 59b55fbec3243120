"""Tasks that lost the values which they swapped: the core hands them out again, as if they had not been tried."""

from __future__ import annotations

import pytest

from ramify.kernel.attempts.values import DraftSwap
from ramify.kernel.core.core import Core
from ramify.kernel.core.handler import Calling
from ramify.kernel.core.steps import Flush, Leave, PutBack, Rest, Step
from ramify.kernel.core.work import Chunk, Raised, Ran
from ramify.kernel.outgoing.offspring import Offspring
from ramify.kernel.outgoing.outbox import Finished
from ramify.kernel.settings import Settings
from ramify.kernel.tuning import QUICK_LOSS
from ramify.model.claim import Claimed
from ramify.model.commit import Committed
from ramify.model.death import Deaths
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.outcome import Failure
from ramify.model.policy import Backoff
from ramify.model.value import MOST_TRIES
from ramify.store.contract import Beat
from tests.kernel.claims import claim, core, handler, lease

FAILURE = Failure("ValueError", "no")
SWAP = DraftSwap(("quota", "acme"), 7, True, b"1")


def swapped(chunk: Chunk, seconds: float = 0.001, **fields: object) -> Ran:
    """Its tasks end as done, and each swaps a value."""
    tasks = chunk.tasks
    apart = {task: Offspring(swaps=(SWAP,), **fields) for task in tasks}  # type: ignore[arg-type]
    return Ran(chunk, list(tasks), [b"1"] * len(tasks), offspring=Offspring(apart=apart), seconds=seconds)


def plain(chunk: Chunk) -> Ran:
    return Ran(chunk, list(chunk.tasks), seconds=0.001)


def bring(made: Core, ran: Ran, now: float = 0.0) -> None:
    made.finished(ran, now)
    made.came_back(ran.chunk)


def flush(step: Step) -> tuple[Finished, ...]:
    assert isinstance(step, Flush)
    return step.batch


def answered(made: Core, *lost: int, now: float = 0.0) -> tuple[Finished, ...]:
    """Let what waits be committed; these tasks lost."""
    batch = flush(made.step(now))
    made.committed(batch, Committed(1, lost=lost), now)
    assert all(holding.adds_up() for holding in made.holdings.values())
    return batch


def tried(made: Core, *lost: int) -> list[int]:
    """Run all that can be handed out, and let it be committed; the tasks that ran."""
    ran: list[int] = []
    made.step(0.0)
    while (chunk := made.lease(False, 0.0)) is not None:
        ran += chunk.tasks
        bring(made, swapped(chunk))
    answered(made, *(task for task in lost if task in ran))
    return ran


def test_each_task_that_swaps_values_is_a_part_of_its_own_and_all_others_are_one() -> None:
    made = core(handler(backoff=Backoff(0.0), timeout=9.0), threads=1)
    made.claimed(Claimed((claim(4),), ready=1), 0.0)
    bring(made, plain(lease(made)))
    bring(made, swapped(lease(made), 0.002))
    bring(made, Ran(lease(made), others=[(102, Raised(FAILURE))], seconds=0.001))
    bring(made, swapped(lease(made)))
    batch = flush(made.step(0.0))
    assert [(part.tasks, part.statuses, part.values, part.took) for part in batch] == [
        ([100, 102], [Status.DONE, Status.RETRYING], [None, FAILURE.encode()], {}),
        ([101], [Status.DONE], [b"1"], {101: 2_000}),
        ([103], [Status.DONE], [b"1"], {}),
    ]
    assert [len(part.offspring.swaps) for part in batch] == [0, 1, 1]
    assert [len(part.again) for part in batch] == [1, 0, 0]
    assert sum(part.seconds for part in batch) == pytest.approx(0.005)


def test_a_claim_whose_tasks_all_swap_values_has_no_other_part() -> None:
    made = core()
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made)))
    assert [part.tasks for part in flush(made.step(0.0))] == [[100]]


def test_a_task_that_lost_is_handed_out_again_at_once_as_the_same_attempt() -> None:
    made = core()
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made)))
    answered(made, 100)
    assert (made.outbox.unsent, made.claim_policy.through, made.outbox.finished) == (0, 0, {})
    again = lease(made)
    assert (again.tasks, again.attempts) == ([100], {})
    bring(made, swapped(again))
    answered(made)
    assert not made.holdings
    assert made.claim_policy.through == 1


@pytest.mark.parametrize("colour", [Calling.PLAIN, Calling.ASYNC])
def test_a_task_that_loses_a_hundred_times_in_a_row_fails_that_attempt_the_next_time(colour: Calling) -> None:
    made = core(handler(colour=colour, retries=1, backoff=Backoff(0.0)))
    made.claimed(Claimed((claim(1),)), 0.0)
    for _ in range(MOST_TRIES + 1):
        bring(made, swapped(lease(made, colour=colour.is_async)))
        answered(made, 100)
    (failed,) = answered(made)
    assert (failed.tasks, failed.statuses, failed.attempts) == ([100], [Status.RETRYING], {})
    failure = Failure.decode((failed.values or [None])[0])
    assert failure.type == "ramify.errors.ValueContended"
    assert "101 times in a row between its read and the end of this task: 'acme' of 'quota'. Read it" in failure.text
    for _ in range(MOST_TRIES):
        bring(made, swapped(again := lease(made, colour=colour.is_async)))
        assert again.attempts == {0: 2}
        answered(made, 100)
    assert not made.outbox.finished, "it is counted from the start in each attempt"


def test_an_error_names_a_few_of_the_values_that_were_read() -> None:
    made = core(handler(retries=0, retry_on=(OSError,)))
    made.claimed(Claimed((claim(1),)), 0.0)
    swaps = [DraftSwap(("q", name), 7) for name in "abcde"] + [DraftSwap(("q", "blind"), None, True, b"1")]
    for _ in range(MOST_TRIES + 1):
        chunk = lease(made)
        bring(made, Ran(chunk, [100], offspring=Offspring(apart={100: Offspring(swaps=swaps)}), seconds=0.001))
        answered(made, 100)
    (failed,) = answered(made)
    assert failed.statuses == [Status.FAILED]
    text = Failure.decode((failed.values or [None])[0]).text
    assert ": 'a' of 'q', 'b' of 'q', 'c' of 'q' and 2 more. " in text
    assert "blind" not in text


def test_losses_are_counted_in_a_row() -> None:
    made = core(handler(retries=9, backoff=Backoff(0.0)))
    made.claimed(Claimed((claim(1),)), 0.0)
    for _ in range(2):
        for _ in range(MOST_TRIES):
            bring(made, swapped(lease(made)))
            answered(made, 100)
        bring(made, Ran(lease(made), others=[(100, Raised(FAILURE))], seconds=0.001))
        (failed,) = answered(made)
        assert Failure.decode((failed.values or [None])[0]).type == "ValueError"


def test_quick_tasks_that_lost_come_back_as_many_at_a_time_as_won() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(9),), ready=1), 0.0)
    assert len(tried(made, *range(101, 109))) == 9
    assert tried(made) == [101]
    assert tried(made, 103) == [102, 103], "nobody lost: twice as many"
    assert tried(made) == [104], "one of two won"
    assert tried(made) == [105, 106]
    assert tried(made) == [107, 108, 103]
    assert not made.holdings


def test_a_task_that_lost_at_first_says_nothing_of_how_many_can_win() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(4), claim(2, first=200)), ready=1), 0.0)
    assert len(tried(made, 101, 102, 103, 200, 201)) == 6
    assert tried(made) == [101]
    made.claimed(Claimed((claim(3, first=300),), ready=1), 0.0)
    ran = tried(made, 102, 301, 302)
    assert sorted(ran) == [102, 103, 300, 301, 302]
    assert tried(made) == [200]


def test_a_task_that_took_longer_than_commits_are_apart_waits_for_nobody() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(3),), ready=1), 0.0)
    while (chunk := made.lease(False, 0.0)) is not None:
        bring(made, swapped(chunk, seconds=0.2))
    answered(made, 100, 101, 102)
    assert sorted(tried(made)) == [100, 101, 102]


def test_tasks_whose_claim_goes_back_are_not_waited_for() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(2), claim(2, first=200, run=2)), ready=1), 0.0)
    assert tried(made, 100, 101, 200, 201) == [100, 101, 200, 201]
    made.heard(Beat(paused=(1,)), 0.0)
    assert made.step(0.0) == PutBack((claim(2).token,))
    made.released([claim(2).token])
    assert tried(made) == [200]
    assert tried(made) == [201]


def test_a_task_whose_claim_closed_meanwhile_goes_back_without_an_event() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made)))
    batch = flush(made.step(0.0))
    made.heard(Beat(marks=(Mark(1, Scope.TASK, 100, Status.CANCELLED),)), 0.0)
    assert not isinstance(made.step(0.0), PutBack)
    made.committed(batch, Committed(0, lost=(100,)), 0.0)
    assert made.step(0.0) == PutBack((claim(1).token,))
    assert made.lease(False, 0.0) is None
    made.released([claim(1).token])
    assert not made.holdings


def test_a_loss_of_a_claim_that_is_gone_changes_nothing() -> None:
    made = core()
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made)))
    batch = flush(made.step(0.0))
    made.reaped()
    made.entered(Beat(), 1.0)
    made.committed(batch, Committed(0, lost=(100,)), 1.0)
    assert (made.holdings, made.outbox.finished) == ({}, {})


def test_in_a_commit_those_that_lost_most_often_come_first() -> None:
    made = core(handler(timeout=9.0), threads=1)
    made.claimed(Claimed((claim(1, first=50), claim(2)), ready=1), 0.0)
    for _ in range(3):
        bring(made, swapped(lease(made), 0.2))
    answered(made, 100, 101)
    bring(made, swapped(lease(made), 0.2))
    answered(made, 100)
    made.claimed(Claimed((claim(1, first=60),), ready=1), 0.0)
    while (chunk := made.lease(False, 0.0)) is not None:
        bring(made, swapped(chunk))
    assert [part.tasks[0] for part in flush(made.step(0.0))] == [100, 101, 60]


def test_the_end_of_one_that_lost_before_is_committed_at_once() -> None:
    made = core(handler(timeout=99.0), threads=2, flush_after=9.0)
    made.claimed(Claimed((claim(8),)), 0.0)
    made.claimed(Claimed(), 0.0)
    first, _ = lease(made), lease(made)
    bring(made, swapped(first))
    assert not isinstance(made.step(0.0), Flush), "others can be handed out"
    answered(made, 100, now=9.0)
    made.claimed(Claimed(), 9.0)
    again = lease(made, 9.0)
    assert again.tasks == [100]
    bring(made, swapped(again), 9.0)
    assert made.needs_step()
    assert [part.tasks for part in flush(made.step(9.0))] == [[100]]


def test_what_a_task_that_lost_had_staged_is_discarded_with_the_next_part() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made), published=[500, 600], staged=9))
    answered(made, 100)
    (discarding,) = answered(made)
    assert (discarding.tasks, discarding.offspring.discarded, discarding.offspring.published) == ([], [500, 600], [])
    assert tried(made) == [100]


def test_what_is_discarded_comes_before_the_end_of_the_task_that_lost() -> None:
    made = core(threads=1)
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made), published=[500]))
    answered(made, 100)
    bring(made, swapped(lease(made), published=[700]))
    batch = flush(made.step(0.0))
    assert [(part.tasks, part.offspring.discarded) for part in batch] == [([], [500]), ([100], [])]


def test_a_suspect_that_lost_is_tried_again_alone() -> None:
    made = core()
    made.claimed(Claimed((claim(1, deaths=Deaths(ran=2, apart=True)),)), 0.0)
    bring(made, swapped(lease(made)))
    answered(made, 100, now=1.0)
    assert lease(made, 1.0).tasks == [100]


def test_a_process_that_stops_leaves_what_lost_to_others() -> None:
    made = core(grace=5.0)
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made)))
    made.stop(0.0)
    answered(made, 100)
    assert isinstance(made.step(0.0), Leave)


def test_a_refused_part_is_no_loss() -> None:
    made = core()
    made.claimed(Claimed((claim(1),)), 0.0)
    bring(made, swapped(lease(made)))
    batch = flush(made.step(0.0))
    made.committed(batch, Committed(0, refused=(claim(1).token,)), 0.0)
    assert not made.holdings


def test_who_works_until_nothing_is_left_does_not_stop_while_one_that_lost_can_be_tried() -> None:
    made = Core({"work": handler()}, Settings(threads=0, until_idle=True), lambda: 0.5)
    made.entered(Beat(), 0.0)
    made.claimed(Claimed((claim(3),)), 0.0)
    assert len(tried(made, 101, 102)) == 3
    assert made.leases.waiting_tasks == 1


def test_nobody_waits_long_for_one_that_was_handed_out_again_and_does_not_come_back() -> None:
    made = core(threads=2)
    made.claimed(Claimed((claim(3),)), 0.0)
    made.claimed(Claimed(), 0.0)
    assert len(tried(made, 101, 102)) == 3
    made.claimed(Claimed(), 0.0)
    assert lease(made).tasks == [101]
    rest = made.step(0.0)
    assert isinstance(rest, Rest)
    assert rest.seconds <= QUICK_LOSS
    assert made.lease(False, 0.0) is None
    made.step(QUICK_LOSS)
    assert lease(made, QUICK_LOSS).tasks == [102]
