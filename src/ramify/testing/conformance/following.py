"""`reopen` carries along all that waited for a reopened task, directly or not: it begins a new life as well."""

from __future__ import annotations

from ramify.errors import BadPayload
from ramify.model.claim import Claim
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import MOST_BROUGHT, NewJoins, NewWaiters, Rule
from ramify.model.key import Hold
from ramify.model.mark import Mark, Scope
from ramify.model.run import RunState
from ramify.testing.conformance.house import House, Worker, members_and_broken, refused
from ramify.testing.conformance.joins import fan
from ramify.testing.conformance.registry import case


def chain(house: House) -> tuple[int, Worker, tuple[int, int, int]]:
    """A run of three tasks that wait for each other, all of them done, in a run that has ended."""
    first, then, last = house.tasks(awaited=True), house.tasks(waits=True), house.tasks(waits=True)
    run = house.start_graph([first, then, last], [(first.first, then.first), (then.first, last.first)])
    worker = house.worker()
    for _ in range(3):
        worker.done(worker.take())
        house.settle(run)
    assert house.store.reads.run(run).state is RunState.DONE
    return run, worker, (first.first, then.first, last.first)


@case("start")
def tasks_that_wait_for_others_start_when_those_have_ended(house: House) -> None:
    one, two, both = house.tasks(awaited=True), house.tasks(awaited=True), house.tasks(waits=True)
    house.start_graph([one, two, both], [(one.first, both.first), (two.first, both.first)])
    worker = house.worker()
    first, second = worker.take(1), worker.take(1)
    worker.done(first)
    assert house.offered() == []
    worker.done(second)
    assert house.offered() == [both.first]


@case("start")
def starting_with_nothing_ready_does_not_end_the_run(house: House) -> None:
    held = house.tasks(awaited=True)
    house.queue(held)
    worker = house.worker()
    claim = worker.take()
    waiting = house.tasks(waits=True)
    run = house.start_graph([waiting], [(held.first, waiting.first)])
    house.settle(run)
    assert house.store.reads.run(run).state is RunState.OPEN
    worker.done(claim)
    house.settle(run)
    assert house.offered() == [waiting.first]


@case("advance")
def a_join_that_waits_for_an_ended_run_is_stalled(house: House) -> None:
    held, never = house.tasks(awaited=True), house.tasks(waits=True)
    house.any_run(held)
    worker = house.worker()
    claim = worker.take()
    run = house.any_run(never, joins=[NewJoins.one(never.first, 2)])
    house.add(run, house.tasks(kind="copy"), waiters=[NewWaiters.one(held.first, never.first, 0)])
    worker.done(worker.take(kinds=["copy"]))
    house.settle(run)
    assert house.store.reads.run(run).state is RunState.OPEN
    worker.done(claim)
    house.settle(run)
    assert house.store.reads.run(run).state is RunState.FAILED


@case("claim")
def the_rule_of_a_join_goes_along_with_its_task(house: House) -> None:
    for rule in Rule:
        waiting = house.tasks(waits=True)
        house.any_run(waiting, joins=[NewJoins.one(waiting.first, 0, rule=rule)])
        more = house.worker().take().details[waiting.first]
        assert (more.rule, members_and_broken(more)) == (rule, (0, 0))


@case("commit")
def an_heir_arrives_wherever_its_task_was_waited_for(house: House) -> None:
    waiting, other = house.tasks(waits=True), house.tasks(awaited=True)
    member = house.tasks(1, join=waiting.first)
    run = house.any_run(waiting, member, other, joins=[NewJoins.one(waiting.first, 2)])
    house.add(run, house.tasks(kind="sum"), waiters=[NewWaiters.one(other.first, waiting.first, 1)])
    worker = house.worker()
    claims = {claim.tasks[0]: claim for claim in worker.claim(9, ["walk"])}
    heirs = {task: house.tasks(kind="copy") for task in (member.first, other.first)}
    for task, heir in heirs.items():
        worker.done(claims[task], children=[heir], heirs={task: heir.first})
    assert not house.join(run, waiting.first).arrived
    copies = worker.claim(9, ["copy"])
    worker.commit(*(Part(each.token, each.tasks) for each in copies))
    assert house.join(run, waiting.first).fired


@case("joins")
def an_heir_takes_over_the_slot_of_its_task(house: House) -> None:
    run, worker, join = fan(house, 2)
    claim = worker.take()
    heir = house.tasks(parents=claim.tasks[1])
    worker.done(claim, children=[heir], heirs={claim.tasks[1]: heir.first})
    seen = house.join(run, join)
    assert (seen.needs, seen.arrived) == (2, 1)
    assert house.ended(claim.tasks[1]) is Status.DONE
    assert house.offered() == [heir.first]
    worker.end(worker.take(), status=Status.FAILED)
    more = worker.take().details[join]
    assert members_and_broken(more) == (2, 1)
    assert dict(house.store.reads.members(join).rows)[1] == heir.first


@case("joins")
def a_slot_is_handed_down_from_heir_to_heir(house: House) -> None:
    run, worker, join = fan(house, 1)
    for _ in range(3):
        claim = worker.take()
        heir = house.tasks(parents=claim.tasks[0])
        worker.done(claim, children=[heir], heirs={claim.tasks[0]: heir.first})
        assert house.join(run, join).arrived == 0
    worker.done(worker.take())
    assert house.offered() == [join]


@case("commit")
def an_heir_that_is_no_child_of_the_part_or_has_a_smaller_id_is_refused(house: House) -> None:
    child = house.tasks()
    house.any_run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    assert child.first < claim.tasks[0]
    for heirs in ({claim.tasks[0]: child.first + 1}, {child.first: child.first}, {claim.tasks[0]: child.first}):
        with refused(BadPayload):
            worker.done(claim, children=[child], heirs=heirs)


@case("reopen")
def what_follows_a_reopened_task_is_reopened_with_it(house: House) -> None:
    run, worker, (first, then, last) = chain(house)
    answer = worker.reopen(run, [first])
    assert answer.tasks == (first, then, last)
    for task in (first, then, last):
        house.settle(run)
        claim = worker.take()
        assert list(claim.tasks) == [task]
        worker.done(claim)
    house.settle(run)
    assert house.store.reads.run(run).state is RunState.DONE


@case("reopen")
def what_comes_before_a_reopened_task_is_left_alone(house: House) -> None:
    run, worker, (_, then, last) = chain(house)
    assert worker.reopen(run, [then]).tasks == (then, last)
    house.settle(run)
    assert list(worker.take().tasks) == [then]


@case("reopen")
def a_following_task_that_is_being_worked_on_waits_again(house: House) -> None:
    first, then = house.tasks(awaited=True), house.tasks(waits=True)
    run = house.start_graph([first, then], [(first.first, then.first)])
    worker = house.worker()
    worker.done(worker.take())
    house.settle(run)
    held = worker.take()
    assert worker.reopen(run, [first.first]).tasks == (first.first,)
    house.settle(run)
    assert worker.commit(Part(held.token, held.tasks)).refused == (held.token,)
    assert house.offered() == [first.first]


@case("reopen")
def tasks_of_other_runs_do_not_follow(house: House) -> None:
    first = house.tasks(awaited=True)
    run = house.any_run(first)
    worker = house.worker()
    claim = worker.take()
    waiting = house.tasks(waits=True)
    other = house.start_graph([waiting], [(first.first, waiting.first)])
    worker.done(claim)
    house.settle(other)
    worker.done(worker.take())
    before = house.join(other, waiting.first)
    assert worker.reopen(run, [first.first]).tasks == (first.first,)
    assert house.join(other, waiting.first) == before


@case("reopen")
def a_task_that_never_came_to_be_because_of_its_key_does_not_follow(house: House) -> None:
    holder = house.tasks(kind="sum", keys=[b"key"], hold=Hold.UNIQUE)
    then = house.tasks(kind="sum", waits=True, keys=[b"key"], hold=Hold.UNIQUE)
    member = house.tasks(1, join=then.first)
    run = house.any_run(holder, then, member, joins=[NewJoins.one(then.first, 1)])
    worker = house.worker()
    worker.done(worker.take(kinds=["walk"]))
    assert worker.reopen(run, [member.first]).tasks == (member.first,)
    assert house.offered() == [holder.first, member.first]


def continued(house: House) -> tuple[int, Worker, int, int, int]:
    """A run in which a task waits for another, which is done and has an heir that is not."""
    first, then = house.tasks(awaited=True), house.tasks(kind="sum", waits=True)
    run = house.start_graph([first, then], [(first.first, then.first)])
    worker = house.worker()
    heir = _hand_on(house, worker, worker.take())
    return run, worker, first.first, then.first, heir


def _hand_on(house: House, worker: Worker, claim: Claim) -> int:
    heir = house.tasks(kind="copy", parents=claim.tasks[0])
    worker.done(claim, children=[heir], heirs={claim.tasks[0]: heir.first})
    return heir.first


@case("reopen")
def a_reopened_task_has_its_place_back_from_its_heir(house: House) -> None:
    run, worker, first, then, heir = continued(house)
    worker.done(worker.take(kinds=["copy"]))
    worker.done(worker.take(kinds=["sum"]))
    answer = worker.reopen(run, [first])
    assert (answer.tasks, answer.makers, answer.replaced) == ((first, then), (first,), 1)
    assert house.events(heir) == [Status.DONE, Status.REPLACED]
    assert list(house.store.reads.members(then).rows) == [(0, first)]
    house.settle(run)
    assert not house.join(run, then).arrived
    _hand_on(house, worker, worker.take(kinds=["walk"]))
    assert not house.join(run, then).arrived
    house.settle(run)
    worker.done(worker.take(kinds=["copy"]))
    assert house.join(run, then).fired


@case("reopen")
def an_heir_does_not_follow_beside_the_task_that_names_another(house: House) -> None:
    run, worker, first, then, heir = continued(house)
    worker.end(worker.take(kinds=["copy"]), status=Status.FAILED)
    worker.done(worker.take(kinds=["sum"]))
    assert worker.reopen(run, [first, heir]).tasks == (first, then)


@case("reopen")
def only_the_named_tasks_end_as_they_are_told(house: House) -> None:
    run, worker, (first, then, _) = chain(house)
    mark = Mark(run, Scope.TASK, first, Status.SKIPPED, "not needed")
    worker.reopen(run, [first], settle=mark)
    house.settle(run)
    claim = worker.take()
    assert claim.marks.keys() == {first}
    worker.end(claim, status=Status.SKIPPED)
    house.settle(run)
    again = worker.take()
    assert (list(again.tasks), again.marks) == ([then], {})


@case("claim")
def the_task_of_a_join_that_brings_results_has_those_of_its_members(house: House) -> None:
    one, two, then = house.tasks(awaited=True), house.tasks(awaited=True), house.tasks(kind="sum", waits=True)
    grouped = house.tasks(1, join=then.first, slot=2)
    joins = [NewJoins((then.first,), (3,), brings=True)]
    run = house.any_run(one, two, grouped, then, joins=joins)
    house.add(run, house.tasks(kind="copy"), waiters=[NewWaiters((two.first, one.first), (then.first,) * 2, (0, 1))])
    worker = house.worker()
    claims = {claim.tasks[0]: claim for claim in worker.claim(9, ["walk"])}
    worker.done(claims[one.first], values=[b"1"])
    worker.end(claims[two.first], status=Status.RETRYING)
    worker.done(claims[two.first], values=[b"2"])
    worker.done(claims[grouped.first])
    assert worker.take(kinds=["sum"]).details[then.first].results == (b"2", b"1", None)


@case("claim")
def a_member_that_was_done_twice_brings_its_last_result(house: House) -> None:
    one, two, then = house.tasks(awaited=True), house.tasks(awaited=True), house.tasks(kind="sum", waits=True)
    grouped = house.tasks(1, join=then.first, slot=2)
    run = house.any_run(one, two, grouped, then, joins=[NewJoins((then.first,), (3,), brings=True)])
    house.add(run, house.tasks(kind="copy"), waiters=[NewWaiters((two.first, one.first), (then.first,) * 2, (0, 1))])
    worker = house.worker()
    claims = {claim.tasks[0]: claim for claim in worker.claim(9, ["walk"])}
    worker.done(claims[two.first], values=[b"old"])
    worker.reopen(run, [two.first])
    worker.done(worker.take(kinds=["walk"]), values=[b"2"])
    worker.done(claims[one.first], values=[b"1"])
    worker.done(claims[grouped.first], values=[b"3"])
    assert worker.take(kinds=["sum"]).details[then.first].results == (b"2", b"1", b"3")


@case("claim")
def an_heir_brings_its_result_in_the_stead_of_its_task(house: House) -> None:
    one, then = house.tasks(awaited=True), house.tasks(kind="sum", waits=True)
    grouped = house.tasks(1, join=then.first, slot=1)
    run = house.any_run(one, grouped, then, joins=[NewJoins((then.first,), (2,), brings=True)])
    house.add(run, house.tasks(kind="other"), waiters=[NewWaiters.one(one.first, then.first, 0)])
    worker = house.worker()
    for claim in worker.claim(9, ["walk"]):
        heir = house.tasks(kind="copy")
        worker.done(claim, values=[b"1"], children=[heir], heirs={claim.tasks[0]: heir.first})
    for value, claim in zip((b"2", b"3"), worker.claim(9, ["copy"]), strict=True):
        worker.done(claim, values=[value])
    assert worker.take(kinds=["sum"]).details[then.first].results == (b"2", b"3")


@case("claim")
def results_are_brought_only_where_all_members_ended_well(house: House) -> None:
    for end, brings in ((Status.DONE, False), (Status.FAILED, True)):
        then = house.tasks(kind="sum", waits=True)
        member = house.tasks(1, join=then.first)
        house.any_run(member, then, joins=[NewJoins((then.first,), (1,), brings=brings)])
        worker = house.worker()
        worker.end(worker.take(kinds=["walk"]), status=end, values=[b"1"])
        assert worker.take(kinds=["sum"]).details[then.first].results is None


@case("claim")
def results_that_are_too_large_together_are_left_to_be_read(house: House) -> None:
    then = house.tasks(kind="sum", waits=True)
    members = house.tasks(5, join=then.first)
    house.any_run(members, then, joins=[NewJoins((then.first,), (5,), brings=True)])
    worker = house.worker()
    worker.done(worker.take(kinds=["walk"]), values=[b"x" * (MOST_BROUGHT // 5 + 1)] * 5)
    assert worker.take(kinds=["sum"]).details[then.first].results is None
