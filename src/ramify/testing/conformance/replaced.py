"""Tasks that a `reopen` has replaced: nothing leads to them, nothing changes them, and nothing follows on the event.

Their keys and the names that they had set in the context are free, marks on them are gone, nobody finds them by their
keys, and they do not count for how many tasks a run may have. Joins elsewhere keep what a replaced member came to; one
that had not ended arrives there as cancelled.
"""

from __future__ import annotations

from ramify.model.claim import Claim
from ramify.model.commit import Part
from ramify.model.context import SetValue
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.key import Hold
from ramify.model.policy import SECOND
from ramify.model.run import RunState
from ramify.testing.conformance.editions import Map
from ramify.testing.conformance.house import House, members_and_broken
from ramify.testing.conformance.registry import case


@case("reopen")
def an_item_that_lost_its_key_is_not_replaced_for_it(house: House) -> None:
    """The holder is somebody else's, and keeps the key."""
    map = Map(house)
    holder = house.tasks(kind="copy", keys=[b"b"], hold=Hold.ONCE)
    house.add(map.run, holder)
    map.make(items=3, keys=[b"a", b"b", b"c"], hold=Hold.ONCE)
    map.worker.done(map.take(limit=1))
    assert map.reopen() == 3
    assert house.ended(holder.first) in (None, Status.DONE)
    assert house.store.reads.find_tasks(map.run, "copy", b"b") == [holder.first]
    assert house.store.reads.find_tasks(map.run, "copy", b"a") == []


@case("reopen")
def keys_of_an_edition_are_free(house: House) -> None:
    for hold in (Hold.UNIQUE, Hold.ONCE):
        map = Map(house)
        map.make(items=3, keys=[b"a", b"b", None], hold=hold, keep=99 * SECOND)
        claim = map.take()
        map.worker.done(claim, claim.tasks[:1])
        map.worker.release(claim)
        map.reopen()
        new = map.make(items=3, keys=[b"a", b"b", None], hold=hold)
        assert [house.store.reads.find_tasks(map.run, "copy", key) for key in (b"a", b"b")] == [
            [new.first],
            [new.first + 1],
        ]
        assert house.count(map.run, Tally.DUPLICATE, "copy") == 0
        assert list(map.take().tasks) == list(new.ids)
        house.store.cancel(map.run)


@case("reopen")
def nobody_finds_what_was_replaced_by_its_key(house: House) -> None:
    map = Map(house)
    for hold in (Hold.LABEL, Hold.UNIQUE, Hold.ONCE):
        items = map.make(keys=[b"a", b"b"], hold=hold)
        assert house.store.reads.find_tasks(map.run, "copy", b"b") == [items.last]
        map.reopen()
        assert house.store.reads.find_tasks(map.run, "copy", b"b") == []


@case("reopen")
def names_that_an_edition_had_set_in_the_context_are_free(house: House) -> None:
    map = Map(house)
    map.make()
    claim = map.take()
    values = [SetValue(task, f"rows {task}", b"1") for task in claim.tasks]
    map.worker.done(claim, sets=[*values, SetValue(claim.tasks[0], "total", b"2")])
    map.worker.done(other := _one(house, map), sets=[SetValue(other.tasks[0], "kept", b"3")])
    map.reopen()
    assert [value.name for value in house.store.reads.context(map.run)] == ["kept"]
    map.make()
    claim = map.take()
    map.worker.done(claim, sets=[SetValue(claim.tasks[0], "total", b"4")])
    assert house.events(claim.tasks[0]) == [Status.DONE]


def _one(house: House, map: Map) -> Claim:
    """A claim of a task of the same run that nobody made."""
    house.add(map.run, house.tasks(kind="walk"))
    return map.take("walk")


@case("reopen")
def marks_on_an_edition_are_gone(house: House) -> None:
    map = Map(house)
    items = map.make()
    claim = map.take()
    other = _one(house, map)
    for task in (*items.ids, *other.tasks):
        house.store.cancel(map.run, task)
    map.worker.release(claim)
    assert len(map.worker.beat().marks) == 3
    map.reopen()
    assert [mark.task for mark in map.worker.beat().marks] == list(other.tasks)


@case("reopen")
def no_verb_changes_what_was_replaced(house: House) -> None:
    map = Map(house)
    items = map.make()
    held = map.take()
    map.worker.done(held, held.tasks[:1])
    map.worker.release(held)
    map.reopen()
    with house.nothing_changes():
        assert map.worker.reopen(map.run, [*items.ids, map.heir]).tasks == ()
        for task in items.ids:
            house.store.settle(map.run, task, Status.DONE, b"1")
            house.store.cancel(map.run, task)
        assert map.worker.commit(*_late(held)).refused == (held.token,)
    map.worker.done(map.take("walk"))
    house.store.cancel(map.run)
    house.settle(map.run)
    assert map.worker.reopen(map.run, [*items.ids, map.then]).tasks == (map.then,)
    assert map.replaced() == 2


def _late(claim: Claim) -> list[Part]:
    return [Part(claim.token, claim.tasks[1:])]


@case("reopen")
def a_join_of_the_edition_that_fires_later_brings_nobody_back(house: House) -> None:
    map = Map(house)
    other = house.tasks(kind="sum", awaited=True)
    house.add(map.run, other)
    inner = house.tasks(kind="copy", waits=True, parents=map.maker)
    claim = map.worker.take(kinds=["walk"])
    map.worker.done(
        claim,
        children=[inner],
        joins=[NewJoins.one(inner.first, 1)],
        waiters=[NewWaiters.one(other.first, inner.first, 0)],
        heirs={map.maker: inner.first},
    )
    assert map.reopen() == 1
    map.worker.done(map.take("sum"))
    assert house.offered() == [map.maker]
    assert house.events(inner.first) == [Status.REPLACED]


def _sharing(house: House, map: Map) -> int:
    """A task of the same run, nobody's child, that waits for the first item because of its key."""
    then = house.tasks(kind="sum", waits=True)
    shared = house.tasks(kind="copy", join=then.first, keys=[b"shared"], hold=Hold.ONCE)
    joins = NewJoins((then.first,), (1,), rule=Rule.ALWAYS, brings=True)
    house.add(map.run, then, shared, joins=[joins])
    return then.first


@case("reopen")
def a_join_elsewhere_keeps_the_result_of_a_replaced_member(house: House) -> None:
    for is_done_twice in (False, True):
        map = Map(house)
        items = map.make(keys=[b"shared", b"own"], hold=Hold.ONCE)
        then = _sharing(house, map)
        map.worker.done(map.take(), values=[b"1", b"2"])
        if is_done_twice:
            map.worker.reopen(map.run, items.ids)
            map.worker.done(map.take(), values=[b"1", b"3"])
        map.reopen()
        assert list(house.store.reads.members(then).rows) == [(0, items.first)]
        (claim,) = [claim for claim in map.worker.claim(kinds=["sum"]) if then in claim.tasks]
        assert claim.details[then].results == (b"1",)
        house.store.cancel(map.run)


@case("reopen")
def a_join_elsewhere_waits_no_longer_for_a_replaced_member(house: House) -> None:
    map = Map(house)
    map.make(keys=[b"shared", b"own"], hold=Hold.ONCE)
    then = _sharing(house, map)
    assert not house.join(map.run, then).fired
    map.reopen()
    assert house.join(map.run, then).fired
    (claim,) = [claim for claim in map.worker.claim(kinds=["sum"]) if then in claim.tasks]
    assert members_and_broken(claim.details[then]) == (1, 1)


@case("reopen")
def a_join_elsewhere_waits_no_longer_for_members_that_a_replaced_task_was_to_be(house: House) -> None:
    """The maker named another member of the join that waits for it, beside its heir."""
    then = house.tasks(kind="sum", waits=True)
    maker = house.tasks(1, join=then.first)
    run = house.any_run(then, maker, joins=[NewJoins((then.first,), (2,), rule=Rule.ALWAYS)], endless=True)
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    other = house.tasks(1, kind="copy", parents=maker.first, join=then.first, slot=1)
    heir = house.tasks(kind="copy", parents=maker.first)
    worker.done(claim, children=[other, heir], heirs={maker.first: heir.first})
    assert worker.reopen(run, [maker.first]).replaced == 2
    join = house.join(run, then.first)
    assert (join.arrived, join.broken) == (1, 1)
    worker.done(worker.take(kinds=["walk"]))
    assert list(worker.take(kinds=["sum"]).tasks) == [then.first]


@case("reopen")
def a_task_that_was_swept_with_a_member_that_is_replaced_since_waits_no_longer(house: House) -> None:
    map = Map(house)
    map.make(keys=[b"shared", b"own"], hold=Hold.ONCE)
    then = _sharing(house, map)
    house.store.cancel(map.run)
    assert house.settle(map.run).state is RunState.CANCELLED
    answer = map.worker.reopen(map.run, [map.maker, then])
    assert (answer.makers, then in answer.tasks) == ((map.maker,), True)
    assert house.offered() == sorted([map.maker, then])


@case("reopen")
def whoever_waits_later_for_a_replaced_task_finds_it_cancelled(house: House) -> None:
    map = Map(house)
    items = map.make()
    map.worker.done(map.take())
    map.reopen()
    then = house.tasks(kind="copy", waits=True)
    joins = [NewJoins((then.first,), (1,), rule=Rule.ALWAYS)]
    house.add(map.run, then, joins=joins, waiters=[NewWaiters.one(items.first, then.first, 0)])
    assert members_and_broken(map.take().details[then.first]) == (1, 1)


@case("reopen")
def replaced_tasks_do_not_count_for_how_many_a_run_may_have(house: House) -> None:
    map = Map(house, max_tasks=6)
    for _ in range(3):
        map.make(items=3)
        assert house.store.reads.run(map.run).state is RunState.OPEN
        assert map.reopen() == 4
    map.make(items=4)
    assert house.settle(map.run).state is RunState.HALTED


@case("reopen")
def a_replaced_edition_is_harmless_for_the_end_of_its_run(house: House) -> None:
    map = Map(house)
    map.make()
    map.worker.end(map.take(), status=Status.FAILED)
    map.reopen()
    map.make()
    house.finish(map.run)
    house.store.cancel(map.run)
    assert house.count(map.run, Status.FAILED, "copy") == 0
    assert house.count(map.run, Status.DONE, "copy") == 2
