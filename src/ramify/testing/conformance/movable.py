"""`movable`: the runs that `advance` would change, each with its round, by id. A read: whoever asks changes nothing.

The two must agree, whatever state a run is in: a run that is named moves when it is asked, and one that is not named
stays. (`advance.py`, `bounds.py` and `cancel.py` say what moves a run.) And `advance` of several runs at once, which is
what follows.
"""

from __future__ import annotations

from ramify.errors import UnknownRun
from ramify.model.join import NewJoins
from ramify.model.run import Follows, Order, RunState
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.registry import case

ALL = 1000


def agree(house: House, *movable: int) -> None:
    """These runs can be moved and no others, as `movable` says and as `advance` shows."""
    with house.nothing_changes():
        named = house.store.movable(ALL)
    assert [run for run, _ in named] == sorted(movable)
    assert all(house.store.reads.run(run).round == round for run, round in named)
    others = [(run.id, run.round) for run in house.store.reads.runs(limit=ALL).rows if run.id not in movable]
    with house.nothing_changes():
        assert not any(answer.moved for answer in house.store.advance(others))
    for asked in named:
        assert house.advance(*asked).moved


@case("movable")
def a_run_with_live_work_of_its_round_is_not_movable(house: House) -> None:
    house.run(house.tasks(2))
    agree(house)
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:1], children=[house.tasks(parents=claim.tasks[0])])
    agree(house)


@case("movable")
def a_run_whose_round_is_over_is_movable(house: House) -> None:
    run, _ = house.run(house.tasks()), house.run(house.tasks(kind="sum"))
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    worker.done(claim, children=[house.tasks(parents=claim.tasks[0])])
    agree(house, run)
    agree(house)


@case("movable")
def a_run_with_nothing_left_is_movable_until_it_has_ended(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    agree(house, run)
    assert house.store.reads.run(run).state is RunState.DONE
    agree(house)


@case("movable")
def an_empty_queue_and_a_paused_run_are_not_movable(house: House) -> None:
    house.queue()
    paused = house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    house.store.pause(paused)
    agree(house)
    house.store.resume(paused)
    assert house.store.reads.run(paused).state is RunState.DONE


@case("movable")
def a_follower_is_movable_when_its_leader_allows_it(house: House) -> None:
    leader = house.run(house.tasks())
    follower = house.run(house.tasks(kind="sum"), follows=Follows(leader, 0))
    agree(house)
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, children=[house.tasks(parents=claim.tasks[0])])
    agree(house, leader)
    agree(house, follower)
    agree(house)


@case("movable")
def a_run_without_rounds_that_follows_is_movable_once_its_leader_has_begun(house: House) -> None:
    leader = house.run(house.tasks())
    follower = house.run(house.tasks(kind="sum"), follows=Follows(leader, -1), order=Order.ANY)
    assert house.store.reads.run(follower).round == 0
    agree(house)


@case("movable")
def a_run_past_its_deadline_is_movable_once(house: House) -> None:
    run = house.run(house.tasks(2), deadline=house.clock.now() + SECOND)
    claim = house.worker().take(1)
    agree(house)
    house.clock.advance(1)
    agree(house, run)
    assert house.store.reads.run(run).state is RunState.DRAINING
    assert house.row_of(claim.tasks[0])
    agree(house)


@case("movable")
def a_draining_run_is_movable_when_something_can_be_swept_or_nothing_is_held(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    held, other = worker.take(1), worker.take(1)
    house.store.cancel(run)
    agree(house)
    worker.release(held)
    agree(house, run)
    worker.done(other)
    agree(house, run)
    assert house.store.reads.run(run).state is RunState.CANCELLED


@case("movable")
def a_run_that_waits_for_another_is_movable_only_when_it_waits_in_vain(house: House) -> None:
    held, never = house.tasks(awaited=True), house.tasks(waits=True)
    leader = house.queue(held)
    waits = house.start_graph([never], [(held.first, never.first)])
    stuck = house.tasks(waits=True)
    stalled = house.any_run(stuck, joins=[NewJoins.one(stuck.first, 2)])
    assert leader < waits < stalled
    agree(house, stalled)
    assert house.store.reads.run(stalled).state is RunState.FAILED


@case("movable")
def no_more_runs_are_named_than_were_asked_for(house: House) -> None:
    worker = house.worker()
    runs = [house.run(house.tasks()) for _ in range(5)]
    for claim in worker.claim():
        worker.done(claim)
    assert house.store.movable(0) == ()
    assert house.store.movable(2) == ((runs[0], 0), (runs[1], 0))
    house.store.advance(house.store.movable(3))
    assert house.store.movable(ALL) == ((runs[3], 0), (runs[4], 0))


@case("advance")
def several_runs_are_judged_in_the_order_in_which_they_are_asked(house: House) -> None:
    leader = house.run(house.tasks())
    follower = house.run(house.tasks(kind="sum"), follows=Follows(leader, 0))
    still = house.run(house.tasks(kind="sum"))
    worker = house.worker()
    worker.done(worker.take(kinds=["walk"]))
    late, ended, stays = house.store.advance([(follower, -1), (leader, 0), (still, 0)])
    assert (late.moved, late.gated_by) == (False, leader)
    assert (ended.moved, ended.state) == (True, RunState.DONE)
    assert (stays.moved, stays.state) == (False, RunState.OPEN)
    both = house.store.advance([(leader, 0), (follower, -1)])
    assert [answer.moved for answer in both] == [False, True]
    assert house.store.advance([]) == ()


@case("advance")
def with_an_unknown_run_among_them_none_moves(house: House) -> None:
    run = house.run(house.tasks())
    worker = house.worker()
    worker.done(worker.take())
    with house.nothing_changes(), refused(UnknownRun):
        house.store.advance([(run, 0), (house.store.reserve(1), 0)])
