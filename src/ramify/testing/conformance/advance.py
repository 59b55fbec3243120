"""`advance`: the only judge of rounds and ends, under the run's lock, looking at all live work in one statement.

Unless the run is open (or draining) and at `round`, it says where the run is. With live work of that round or an
earlier one: not yet. Else it opens the lowest later round, if the run it follows allows it. With none left it ends the
run, as failed when tasks failed or joins can never fill (stalled). (Draining runs are in `cancel.py`.)
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.policy import PARKED
from ramify.model.run import Follows, RunState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, refused, want
from ramify.testing.conformance.registry import case


@case("advance")
def a_round_with_live_work_is_not_over(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take(2)
    worker.done(claim, claim.tasks[:1])
    with house.nothing_changes():
        answer = house.advance(run, 0)
    assert (answer.state, answer.round, answer.moved) == (RunState.OPEN, 0, False)


@case("advance")
def a_claimed_task_holds_its_round_although_nothing_can_be_claimed(house: House) -> None:
    """An empty claim proves nothing: the one who holds the last task may still add children."""
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    assert house.worker().claim() == ()
    assert not house.advance(run, 0).moved
    child = house.tasks(parents=claim.tasks[0])
    worker.done(claim, children=[child])
    assert house.advance(run, 0).moved
    assert house.offered() == [child.first]


@case("advance")
def a_task_that_is_due_later_holds_its_round(house: House) -> None:
    run = house.run(house.tasks(due=house.clock.now() + SECOND))
    answer = house.advance(run, 0)
    assert (answer.moved, answer.state) == (False, RunState.OPEN)


@case("advance")
def a_claim_or_a_commit_moves_no_round_and_ends_no_run(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    assert worker.ask(want()).claims == ()
    assert house.store.reads.run(run).state is RunState.OPEN
    assert house.store.reads.run(run).round == 0


@case("advance")
def the_next_round_opens_when_the_last_task_of_this_one_has_ended(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    children = house.tasks(3, parents=claim.tasks[0])
    worker.done(claim, claim.tasks[:1], children=[children])
    assert not house.advance(run, 0).moved
    worker.done(claim, claim.tasks[1:])
    answer = house.advance(run, 0)
    assert (answer.state, answer.round, answer.moved) == (RunState.OPEN, 1, True)
    assert house.store.reads.run(run).round == 1
    assert house.offered() == list(children.ids)


@case("advance")
def asked_for_another_round_it_only_says_where_the_run_is(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, children=[house.tasks(parents=claim.tasks[0])])
    for wrong in (-1, 1, 7):
        with house.nothing_changes():
            answer = house.advance(run, wrong)
        assert (answer.state, answer.round, answer.moved) == (RunState.OPEN, 0, False)


@case("advance")
def of_two_who_ask_only_one_moves_the_run(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    for _ in range(2):
        claim = worker.take()
        worker.done(claim, children=[house.tasks(parents=claim.tasks[0])])
        now = house.store.reads.run(run).round
        assert house.advance(run, now).moved
        with house.nothing_changes():
            (late,) = house.client().advance([(run, now)])
        assert (late.moved, late.round) == (False, now + 1)


@case("advance")
def empty_rounds_do_not_exist(house: House) -> None:
    """The lowest later round that has work opens, whatever its number."""
    run = house.run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    child = house.tasks(parents=claim.tasks[0])
    worker.done(claim, children=[child])
    house.settle(run)
    second = worker.take()
    grandchild = house.tasks(parents=second.tasks[0])
    worker.done(second, children=[grandchild])
    house.settle(run)
    worker.done(worker.take())
    before = house.store.reads.run(run).round
    worker.reopen(run, [claim.tasks[0]])
    assert house.settle(run).round == house.row_of(claim.tasks[0]).round > before


@case("advance")
def a_run_with_nothing_left_is_done(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    worker.done(worker.take())
    house.clock.advance(5)
    answer = house.advance(run, 0)
    assert (answer.state, answer.moved) == (RunState.DONE, True)
    seen = house.store.reads.run(run)
    assert (seen.state, seen.ended) == (RunState.DONE, house.clock.now())


@case("advance")
def an_ended_run_stays_as_it_is(house: House) -> None:
    run = house.run(house.tasks())
    house.finish(run)
    house.clock.advance(5)
    with house.nothing_changes():
        answer = house.advance(run, 0)
    assert (answer.state, answer.moved) == (RunState.DONE, False)


@case("advance")
def a_run_in_which_a_task_failed_has_failed(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    worker.done(claim, claim.tasks[1:])
    assert house.settle(run).state is RunState.FAILED


@case("advance")
def a_failure_does_not_stop_the_rest(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    child = house.tasks(parents=claim.tasks[1])
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    worker.done(claim, claim.tasks[1:], children=[child])
    assert house.settle(run).state is RunState.OPEN
    assert house.offered() == [child.first]


@case("advance")
def skipped_and_cancelled_tasks_are_no_failure(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.SKIPPED)
    worker.end(claim, claim.tasks[1:2], Status.CANCELLED)
    worker.done(claim, claim.tasks[2:])
    assert house.settle(run).state is RunState.DONE


@case("advance")
def a_run_whose_joins_can_never_fill_is_stalled_and_says_which(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    run = house.run(house.tasks(), waiting, joins=[NewJoins.one(waiting.first, 2)])
    ended = house.finish(run)
    assert ended.state is RunState.FAILED
    assert ended.reason is not None
    assert "stalled" in ended.reason
    assert str(waiting.first) in ended.reason


@case("advance")
def a_parked_task_is_not_a_stall(house: House) -> None:
    """It waits for a person or for another run, and is live."""
    waiting = house.tasks(kind="sum", waits=True)
    parked = house.tasks(due=PARKED, join=waiting.first)
    run = house.run(parked, waiting, joins=[NewJoins.one(waiting.first, 1)])
    assert house.finish(run).state is RunState.OPEN


@case("advance")
def an_endless_run_does_not_end_when_it_runs_empty(house: House) -> None:
    run = house.queue(house.tasks())
    assert house.finish(run).state is RunState.OPEN
    assert not house.advance(run, house.store.reads.run(run).round).moved
    late = house.tasks()
    house.add(run, late)
    house.settle(run)
    assert house.offered() == [late.first]


@case("advance")
def an_endless_run_with_rounds_opens_the_next_one_when_there_is_work(house: House) -> None:
    run = house.run(house.tasks(), endless=True)
    assert house.finish(run).state is RunState.OPEN
    late = house.tasks()
    house.add(run, late)
    assert house.settle(run).round == 1
    assert house.offered() == [late.first]


@case("advance")
def a_paused_run_does_not_move(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    house.store.pause(run)
    with house.nothing_changes():
        answer = house.advance(run, 0)
    assert (answer.state, answer.moved) == (RunState.PAUSED, False)
    house.store.resume(run)
    assert house.settle(run).state is RunState.DONE


@case("advance")
def a_run_without_a_barrier_ends_when_nothing_is_left(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    child = house.tasks(parents=claim.tasks[0])
    worker.done(claim, children=[child])
    assert house.settle(run).state is RunState.OPEN
    worker.done(worker.take())
    assert house.settle(run).state is RunState.DONE


@case("advance")
def a_follower_opens_its_rounds_behind_its_leader(house: House) -> None:
    """Round n opens when the leader has passed round n + lead."""
    leader = house.run(house.tasks(kind="copy"))
    follower = house.run(house.tasks(kind="walk"), follows=Follows(leader, lead=1))
    worker = house.worker()
    for _ in range(2):
        with house.nothing_changes():
            answer = house.advance(follower, -1)
        assert (answer.moved, answer.round, answer.gated_by) == (False, -1, leader)
        claim = worker.take(kinds=["copy"])
        worker.done(claim, children=[house.tasks(kind="copy", parents=claim.tasks[0])])
        house.settle(leader)
    assert house.store.reads.run(leader).round == 2
    answer = house.advance(follower, -1)
    assert (answer.moved, answer.round) == (True, 0)
    claim = worker.take(kinds=["walk"])
    worker.done(claim, children=[house.tasks(parents=claim.tasks[0])])
    assert house.advance(follower, 0).gated_by == leader
    assert house.finish(leader).state is RunState.DONE
    assert house.finish(follower).state is RunState.DONE


@case("advance")
def what_is_appended_to_a_follower_waits_with_its_first_tasks(house: House) -> None:
    leader = house.run(house.tasks(kind="copy"))
    first, late = house.tasks(), house.tasks()
    follower = house.run(first, follows=Follows(leader))
    house.add(follower, late)
    assert house.offered() == [house.live(leader)[0].first]
    assert house.finish(leader).state is RunState.DONE
    assert house.settle(follower).round == 0
    assert house.offered() == [first.first, late.first]


@case("advance")
def a_leader_that_ended_in_any_way_holds_nobody_back(house: House) -> None:
    for end in (RunState.DONE, RunState.FAILED, RunState.CANCELLED):
        leader = house.run(house.tasks(kind="copy"))
        follower = house.run(house.tasks(), follows=Follows(leader))
        worker = house.worker()
        match end:
            case RunState.CANCELLED:
                house.store.cancel(leader)
            case RunState.FAILED:
                worker.end(worker.take(kinds=["copy"]), status=Status.FAILED)
            case _:
                worker.done(worker.take(kinds=["copy"]))
        assert house.settle(leader).state is end
        assert house.settle(follower).round == 0
        worker.done(worker.take())


@case("advance")
def a_leader_that_is_reopened_closes_no_gate_again(house: House) -> None:
    leader = house.run(tasks := house.tasks(kind="copy"))
    follower = house.run(house.tasks(), follows=Follows(leader))
    house.finish(leader)
    house.settle(follower)
    worker = house.worker()
    worker.reopen(leader, [tasks.first])
    worker.done(worker.take(kinds=["walk"]))
    assert house.settle(follower).state is RunState.DONE


@case("advance")
def a_run_that_does_not_exist_cannot_be_advanced(house: House) -> None:
    with refused(UnknownRun):
        house.advance(house.store.reserve(1), 0)


@case("advance")
def an_advance_that_changes_nothing_writes_nothing(house: House) -> None:
    leader = house.run(house.tasks())
    runs = [
        leader,
        house.run(house.tasks(), follows=Follows(leader)),
        house.queue(),
        house.run(house.tasks(kind="copy"), house.tasks(kind="copy")),
    ]
    house.worker().take(kinds=["copy"], limit=1)
    house.store.pause(house.run(house.tasks()))
    house.store.cancel(runs[-1])
    other = house.client()
    for run in [*runs, *(run.id for run in house.store.reads.runs().rows)]:
        seen = other.wait(0, 0)
        with house.nothing_changes():
            for round in (-1, 0, 1):
                assert not house.advance(run, round).moved
        assert other.wait(0, seen) == seen
