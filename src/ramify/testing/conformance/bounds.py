"""Bounds of a run: how many of its tasks are claimed at a time, how many it may have, until when it may go on, and what
it ends as when tasks failed.

Whatever the bound, it holds over all processes together, and a run that meets it is in no other run's way.
"""

from __future__ import annotations

from ramify.errors import BadPayload
from ramify.model.commit import Later, Part
from ramify.model.death import Death
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins
from ramify.model.key import Hold
from ramify.model.run import NewRun, RunState, Tolerance
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import DEAD_AFTER, MANY, House, refused, tasks_of, want
from ramify.testing.conformance.registry import case

# claim: max_running


@case("claim")
def no_more_tasks_of_a_run_are_claimed_at_a_time_than_it_may_have_running(house: House) -> None:
    house.any_run(house.tasks(10), house.tasks(10, kind="copy"), max_running=4)
    first, second = house.worker(), house.worker()
    mine = first.claim(3)
    theirs = second.claim(3)
    assert (len(tasks_of(mine)), len(tasks_of(theirs))) == (3, 1)
    with house.nothing_changes():
        assert house.worker().claim() == first.claim() == second.claim() == ()
    first.done(mine[0], mine[0].tasks[:2])
    assert len(tasks_of(second.claim())) == 2
    assert house.worker().claim() == ()


@case("claim")
def only_the_head_of_a_large_row_is_claimed_when_its_run_has_little_room(house: House) -> None:
    tasks = house.tasks(20_000)
    house.any_run(tasks, max_running=9_000)
    worker = house.worker()
    assert tasks_of(worker.claim(MANY)) == list(tasks.ids[:9_000])
    assert worker.claim(MANY) == ()


@case("claim")
def a_run_without_room_is_in_nobodys_way(house: House) -> None:
    """Its rows come first, and are not offered."""
    full = house.any_run(house.tasks(5), house.tasks(5, kind="copy"), max_running=1)
    free = house.tasks(7)
    house.any_run(free)
    worker = house.worker()
    claims = worker.claim(100)
    assert len(tasks_of(claim for claim in claims if claim.run == full)) == 1
    assert tasks_of(claim for claim in claims if claim.run != full) == list(free.ids)
    assert worker.ask(want(runs=[full])).claims == ()


@case("claim")
def many_rows_of_a_run_without_room_are_in_nobodys_way(house: House) -> None:
    full = house.any_run(*(house.tasks(lane=f"lane {n}") for n in range(150)), max_running=2)
    first, second = house.tasks(2), house.tasks(3)
    house.any_run(first, house.tasks(kind="copy"))
    house.any_run(second, max_running=2)
    worker = house.worker()
    claims = worker.claim(100, ["walk"])
    assert len(tasks_of(claim for claim in claims if claim.run == full)) == 2
    assert tasks_of(claim for claim in claims if claim.run != full) == [*first.ids, *second.ids[:2]]
    assert worker.claim(100, ["walk"]) == ()
    assert len(worker.claim(100, ["copy"])) == 1


@case("claim")
def the_turn_of_a_run_does_not_take_it_beyond_its_bound(house: House) -> None:
    runs = [house.any_run(house.tasks(50), max_running=2) for _ in range(3)]
    taken = house.worker().claim(40)
    assert sorted(claim.run for claim in taken for _ in claim.tasks) == sorted(runs * 2)


@case("claim")
def what_is_put_back_put_off_or_reaped_makes_room_again(house: House) -> None:
    house.any_run(house.tasks(10), max_running=2)
    worker, dying = house.worker(), house.worker()
    worker.release(worker.take())
    claim = worker.take()
    assert len(claim.tasks) == 2
    later = [Later(claim.tasks, house.clock.now() + 3600 * SECOND)]
    worker.commit(Part(claim.token, claim.tasks, Status.DEFERRED, later=later))
    assert len(dying.take().tasks) == 2
    assert worker.claim() == ()
    for _ in range(int(DEAD_AFTER) + 2):
        house.clock.advance(1)
        worker.beat()
    assert worker.reap().processes == (dying.process,)
    assert len(tasks_of(worker.claim())) == 2


@case("claim")
def the_claim_of_a_commit_has_the_room_that_the_commit_made(house: House) -> None:
    house.any_run(house.tasks(10), max_running=3)
    worker = house.worker()
    claim = worker.take()
    assert len(claim.tasks) == 3
    answer = worker.commit(Part(claim.token, claim.tasks[:2]), then=want())
    assert len(tasks_of(answer.claimed.claims)) == 2
    assert answer.claimed.ready == 0


@case("claim")
def a_suspect_of_a_run_without_room_waits(house: House) -> None:
    run = house.any_run(house.tasks(), max_running=1)
    while not house.live(run)[0].deaths.apart:
        dying = house.worker()
        dying.take()
        house.store.bury(dying.process, Death(evidence=True))
    house.add(run, house.tasks(kind="copy"))
    holder = house.worker()
    held = holder.take(kinds=["copy"])
    with house.nothing_changes():
        assert house.worker().claim() == ()
    holder.done(held)
    assert house.worker().take().deaths.apart


# commit and append: max_tasks


@case("commit")
def a_commit_that_takes_a_run_beyond_its_tasks_halts_it(house: House) -> None:
    run = house.any_run(house.tasks(2), max_tasks=4)
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:1], children=[house.tasks(2, parents=claim.tasks[0])])
    assert house.store.reads.run(run).state is RunState.OPEN
    answer = worker.commit(
        Part(claim.token, claim.tasks[1:], children=[house.tasks(3, parents=claim.tasks[1])]), then=want()
    )
    assert answer.claimed.claims == ()
    seen = house.store.reads.run(run)
    assert (seen.state, seen.reason) == (RunState.HALTED, "max_tasks=4 exceeded (7 tasks)")
    assert (house.count(run, Tally.ADDED), house.count(run, Status.CANCELLED)) == (7, 5)


@case("commit")
def children_count_as_well_that_come_before_a_staged_range_with_keys(house: House) -> None:
    run = house.any_run(house.tasks(2), max_tasks=4)
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(1, kind="copy", keys=[b"k"])
    assert worker.stage(claim, staged)
    worker.done(claim, claim.tasks[:1], children=[house.tasks(2, kind="sum")], publish=[staged.first])
    assert house.store.reads.run(run).state is RunState.DRAINING


@case("commit")
def a_run_that_is_halted_for_its_tasks_ends_when_nothing_of_it_is_held(house: House) -> None:
    run = house.any_run(house.tasks(2), house.tasks(kind="copy"), max_tasks=3)
    worker, other = house.worker(), house.worker()
    held = other.take(kinds=["copy"])
    claim = worker.take(kinds=["walk"])
    answer = worker.done(claim, claim.tasks[:1], children=[house.tasks(parents=claim.tasks[0])])
    assert [mark.run for mark in answer.marks] == [run]
    assert house.store.reads.run(run).state is RunState.DRAINING
    worker.done(claim, claim.tasks[1:])
    other.done(held)
    assert house.settle(run).state is RunState.HALTED


@case("commit")
def a_run_with_exactly_as_many_tasks_as_it_may_have_goes_on_to_its_end(house: House) -> None:
    run = house.any_run(house.tasks(), max_tasks=2)
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, children=[house.tasks(parents=claim.tasks[0])])
    worker.done(worker.take())
    assert house.settle(run).state is RunState.DONE


@case("append")
def an_append_that_takes_a_run_beyond_its_tasks_halts_it(house: House) -> None:
    run = house.any_run(house.tasks(), max_tasks=2)
    house.add(run, house.tasks())
    assert house.store.reads.run(run).state is RunState.OPEN
    late = house.tasks()
    assert house.add(run, late).ids == ((late.first,),)
    seen = house.store.reads.run(run)
    assert (seen.state, seen.reason) == (RunState.HALTED, "max_tasks=2 exceeded (3 tasks)")


def _revived_beyond_its_tasks(house: House) -> int:
    """A run that was halted for its tasks and is open again, with one more than it may have."""
    run = house.any_run(house.tasks(2, kind="copy"), max_tasks=2)
    house.add(run, late := house.tasks())
    assert house.store.reads.run(run).state is RunState.HALTED
    house.worker().reopen(run, late.ids)
    assert house.store.reads.run(run).state is RunState.OPEN
    return run


@case("append")
def an_append_that_adds_nothing_halts_no_run(house: House) -> None:
    house.queue(house.tasks(keys=[b"k"], hold=Hold.UNIQUE))
    run = _revived_beyond_its_tasks(house)
    house.add(run, house.tasks(keys=[b"k"], hold=Hold.UNIQUE))
    assert house.store.reads.run(run).state is RunState.OPEN
    house.add(run, house.tasks())
    assert house.store.reads.run(run).state is RunState.HALTED


@case("commit")
def a_commit_whose_children_are_all_dropped_halts_no_run(house: House) -> None:
    house.queue(house.tasks(kind="sum", keys=[b"k"], hold=Hold.UNIQUE))
    run = _revived_beyond_its_tasks(house)
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    worker.done(claim, children=[house.tasks(kind="sum", keys=[b"k"], hold=Hold.UNIQUE, parents=claim.tasks[0])])
    assert house.store.reads.run(run).state is RunState.OPEN


# advance: deadline


@case("advance")
def a_run_that_is_open_past_its_deadline_fails_and_says_so(house: House) -> None:
    deadline = house.clock.now() + 60 * SECOND
    run = house.run(house.tasks(3), deadline=deadline)
    worker = house.worker()
    claim = worker.take(1)
    house.clock.advance(59)
    with house.nothing_changes():
        answer = house.advance(run, 0)
    assert (answer.state, answer.time_left) == (RunState.OPEN, 1.0)
    house.clock.advance(1)
    answer = house.advance(run, 0)
    assert (answer.state, answer.moved, answer.time_left) == (RunState.DRAINING, True, None)
    assert "deadline passed" in (house.store.reads.run(run).reason or "")
    assert worker.claim() == ()
    worker.done(claim)
    ended = house.settle(run)
    assert ended.state is RunState.FAILED
    assert "deadline passed" in (ended.reason or "")
    assert (house.count(run, Status.DONE), house.count(run, Status.CANCELLED)) == (1, 2)


@case("advance")
def a_deadline_is_judged_only_where_the_run_is(house: House) -> None:
    run = house.run(house.tasks(), deadline=house.clock.now() + SECOND)
    house.clock.advance(2)
    with house.nothing_changes():
        answer = house.advance(run, 7)
    assert (answer.state, answer.time_left) == (RunState.OPEN, -1.0)


@case("advance")
def a_run_that_ended_before_its_deadline_stays_as_it_is(house: House) -> None:
    run = house.run(house.tasks(), deadline=house.clock.now() + SECOND)
    assert house.finish(run).state is RunState.DONE
    house.clock.advance(2)
    assert house.advance(run, 0).state is RunState.DONE


@case("advance")
def a_paused_run_is_judged_by_its_deadline_when_it_is_resumed(house: House) -> None:
    run = house.run(house.tasks(), deadline=house.clock.now() + SECOND)
    house.store.pause(run)
    house.clock.advance(2)
    assert house.advance(run, 0).state is RunState.PAUSED
    assert house.store.resume(run) is RunState.FAILED


@case("advance")
def a_deadline_strikes_once_and_whoever_opens_the_run_again_means_it(house: House) -> None:
    tasks = house.tasks()
    run = house.run(tasks, deadline=house.clock.now() + SECOND)
    house.clock.advance(2)
    assert house.settle(run).state is RunState.FAILED
    worker = house.worker()
    worker.reopen(run, [tasks.first])
    house.settle(run)
    claim = worker.take()
    answer = house.advance(run, house.store.reads.run(run).round)
    assert (answer.state, answer.time_left) == (RunState.OPEN, None)
    worker.done(claim)
    assert house.settle(run).state is RunState.DONE


@case("beat")
def a_beat_tells_how_long_the_runs_it_holds_may_go_on(house: House) -> None:
    timed = house.run(house.tasks(2), deadline=house.clock.now() + 60 * SECOND)
    house.run(house.tasks(kind="copy"))
    worker = house.worker()
    assert worker.beat().time_left == ()
    assert worker.ask(want()).time_left == ((timed, 60.0),)
    house.clock.advance(20)
    assert worker.beat().time_left == ((timed, 40.0),)
    assert house.worker().beat().time_left == ()
    house.clock.advance(50)
    assert worker.beat().time_left == ((timed, -10.0),)
    house.settle(timed)
    assert worker.beat().time_left == ()


# advance: what it ends as


@case("advance")
def a_run_ends_as_it_was_told_to_when_tasks_failed(house: House) -> None:
    run = house.run(house.tasks(2), fails_as=RunState.HALTED)
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    worker.done(claim, claim.tasks[1:])
    assert house.settle(run).state is RunState.HALTED


@case("advance")
def a_run_that_tolerates_failures_is_done_all_the_same(house: House) -> None:
    run = house.run(house.tasks(2), tolerates=Tolerance.ANY)
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    worker.end(claim, claim.tasks[1:], Status.QUARANTINED)
    assert house.settle(run).state is RunState.DONE


@case("advance")
def nobody_tolerates_tasks_that_can_never_run(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    joins = [NewJoins.one(waiting.first, 2)]
    run = house.run(house.tasks(), waiting, joins=joins, tolerates=Tolerance.ANY, fails_as=RunState.HALTED)
    assert house.finish(run).state is RunState.FAILED


# start


@case("start")
def bounds_that_make_no_sense_are_refused(house: House) -> None:
    run = house.store.reserve(1)
    wrong = [
        NewRun(run, max_running=0),
        NewRun(run, max_tasks=0),
        NewRun(run, fails_as=RunState.DONE),
        NewRun(run, fails_as=RunState.CANCELLED),
    ]
    for new in wrong:
        with house.nothing_changes(), refused(BadPayload):
            house.store.start(new, [house.tasks()])
