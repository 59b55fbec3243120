"""`reopen` of a task that has an heir: what it made before, down to the last descendant, is REPLACED with the reopen.

This is its edition. What nobody holds is replaced at once, finished or not, and leaves every row; counters move with
it. While a process holds a task of the edition nothing is reopened, and the answer names that task. Earlier editions
are not touched again. (`replaced.py` is about what follows for replaced tasks.)
"""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.claim import Claim
from ramify.model.commit import Later
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.policy import SECOND
from ramify.model.run import RunState
from ramify.model.segment import MASK_WIDTH
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, want
from ramify.testing.conformance.registry import case

#: More than one row with a mask holds, and more than one commit of the log.
WIDE = 2 * MASK_WIDTH + 5


class Map:
    """A run in which `then` waits for `maker`, which makes items and the heir that gathers them."""

    def __init__(self, house: House, **columns: object) -> None:
        self.house = house
        maker, then = house.tasks(awaited=True), house.tasks(kind="sum", waits=True)
        links = [NewWaiters.one(maker.first, then.first, 0)]
        self.run = house.any_run(maker, then, joins=[NewJoins.one(then.first, 1)], endless=True, **columns)
        house.add(self.run, waiters=links)
        self.maker, self.then = maker.first, then.first
        self.worker = house.worker()

    def make(self, *more: NewTasks, items: int = 2, joins: Sequence[NewJoins] = (), **columns: object) -> NewTasks:
        """Let the maker make an edition: its items. `more` are tasks of the same commit, with their joins."""
        claim = self.worker.take(kinds=["walk"])
        assert list(claim.tasks) == [self.maker]
        heir = self.house.tasks(kind="sum", waits=True, parents=self.maker)
        made = self.house.tasks(items, kind="copy", parents=self.maker, join=heir.first, **columns)
        self.heir = heir.first
        self.worker.done(
            claim,
            children=[heir, made, *more],
            joins=[NewJoins((heir.first,), (items,), brings=True), *joins],
            heirs={self.maker: heir.first},
        )
        return made

    def take(self, kind: str = "copy", limit: int = 100) -> Claim:
        return self.worker.take(limit, [kind])

    def reopen(self) -> int:
        """Begin a new life of the maker; how many tasks were replaced."""
        answer = self.worker.reopen(self.run, [self.maker])
        assert (answer.makers, answer.held) == ((self.maker,), None)
        return answer.replaced

    def replaced(self, kind: str = "copy") -> int:
        return self.house.count(self.run, Status.REPLACED, kind)


@case("reopen")
def what_a_task_with_an_heir_made_is_replaced(house: House) -> None:
    map = Map(house)
    items = map.make()
    map.worker.done(map.take())
    map.worker.done(map.take("sum"))
    assert house.join(map.run, map.then).fired
    assert map.reopen() == 3
    assert [house.events(task) for task in items.ids] == [[Status.DONE, Status.REPLACED]] * 2
    assert house.events(map.heir) == [Status.DONE, Status.REPLACED]
    assert not house.join(map.run, map.then).arrived
    assert house.offered() == [map.maker]


@case("reopen")
def the_maker_takes_its_place_back_in_a_join_of_another_run_that_has_fired(house: House) -> None:
    """That join stays as it is, and so do all others; only who stands in its slot is another again."""
    maker, then = house.tasks(awaited=True), house.tasks(kind="sum", waits=True)
    run = house.any_run(maker, endless=True)
    other = house.any_run(then, joins=[NewJoins.one(then.first, 1)], endless=True)
    house.add(other, waiters=[NewWaiters.one(maker.first, then.first, 0)])
    worker = house.worker()
    heir = house.tasks(kind="copy", parents=maker.first)
    worker.done(worker.take(kinds=["walk"]), children=[heir], heirs={maker.first: heir.first})
    worker.done(worker.take(kinds=["copy"]))
    assert house.join(other, then.first).fired
    assert list(house.store.reads.members(then.first).rows) == [(0, heir.first)]
    assert worker.reopen(run, [maker.first]).makers == (maker.first,)
    assert list(house.store.reads.members(then.first).rows) == [(0, maker.first)]


@case("reopen")
def the_counters_of_an_edition_move_to_replaced(house: House) -> None:
    map = Map(house)
    map.make(items=3)
    claim = map.take()
    map.worker.end(claim, claim.tasks[:1], Status.FAILED)
    map.worker.done(claim, claim.tasks[1:2])
    map.worker.release(claim)
    map.reopen()
    counted = house.store.reads.counts(map.run)["copy"]
    assert {what: many for what, many in counted.items() if many} == {Tally.ADDED: 3, Status.REPLACED: 3}


@case("reopen")
def what_nobody_holds_is_replaced_at_once(house: House) -> None:
    map = Map(house)
    inner = house.tasks(kind="sum", waits=True, parents=map.maker)
    late = house.tasks(kind="sum", parents=map.maker, due=house.clock.now() + 99 * SECOND)
    items = map.make(inner, late, items=3, joins=[NewJoins.one(inner.first, 1)])
    claim = map.take()
    again = Later(claim.tasks[:1], house.clock.now() + 9 * SECOND)
    map.worker.end(claim, claim.tasks[:1], Status.RETRYING, later=[again])
    map.worker.end(claim, claim.tasks[1:2], Status.FAILED)
    map.worker.release(claim)
    assert map.reopen() == 6
    assert house.offered() == [map.maker]
    assert [set(row.tasks) for row in house.live(map.run)] == [{map.maker}, {map.then}]
    assert house.events(items.first) == [Status.RETRYING, Status.REPLACED]
    assert house.events(map.heir) == house.events(inner.first) == house.events(late.first) == [Status.REPLACED]
    house.clock.advance(100)
    assert house.offered() == [map.maker]


@case("reopen")
def under_a_pause_an_edition_is_replaced_as_well(house: House) -> None:
    map = Map(house)
    map.make()
    house.store.pause(map.run)
    assert map.reopen() == 3
    house.store.resume(map.run)
    assert house.offered() == [map.maker]


@case("reopen")
def nothing_is_reopened_while_a_process_holds_a_task_of_the_edition(house: House) -> None:
    map = Map(house)
    items = map.make(items=3)
    claim = map.take()
    map.worker.done(claim, claim.tasks[:1])
    other = house.worker()
    with house.nothing_changes():
        answer = other.reopen(map.run, [map.maker])
    assert (answer.tasks, answer.makers, answer.replaced) == ((), (), 0)
    assert answer.held == items.first + 1
    assert house.client().reopen(other.last, map.run, [map.maker]) == answer
    map.worker.done(claim, claim.tasks[1:])
    assert map.reopen() == 4


@case("reopen")
def sent_again_it_replaces_nothing_twice(house: House) -> None:
    map = Map(house)
    map.make()
    first = map.worker.reopen(map.run, [map.maker])
    with house.nothing_changes():
        again = house.client().reopen(map.worker.last, map.run, [map.maker])
    assert again == first
    assert (again.makers, again.replaced) == ((map.maker,), 3)


@case("reopen")
def only_the_newest_edition_is_replaced(house: House) -> None:
    map = Map(house)
    first = map.make()
    map.worker.done(map.take())
    assert map.reopen() == 3
    second = map.make(items=4)
    assert map.reopen() == 5
    assert map.replaced() == 6
    assert [house.events(task) for task in first.ids] == [[Status.DONE, Status.REPLACED]] * 2
    assert [house.events(task) for task in second.ids] == [[Status.REPLACED]] * 4
    third = map.make()
    map.worker.done(map.take(), values=[b"1", b"2"])
    claim = map.take("sum")
    assert list(claim.tasks) == [map.heir]
    assert claim.details[map.heir].results == (b"1", b"2")
    map.worker.done(claim)
    assert house.join(map.run, map.then).fired
    assert house.ended(third.first) is Status.DONE


@case("reopen")
def descendants_are_replaced_however_deep(house: House) -> None:
    map = Map(house)
    map.make(items=1)
    made: list[int] = []
    for _ in range(4):
        claim = map.take()
        children = house.tasks(2, kind="copy", parents=claim.tasks[0])
        map.worker.done(claim, children=[children])
        held = map.take()
        map.worker.done(held, held.tasks[:1])
        map.worker.release(held)
        made += children.ids
    assert map.reopen() == 2 + len(made)
    assert [house.ended(task) for task in made] == [Status.REPLACED] * len(made)
    assert house.offered() == [map.maker]


@case("reopen")
def what_an_earlier_life_of_an_item_made_is_replaced_with_it(house: House) -> None:
    map = Map(house)
    items = map.make(items=1)
    for _ in range(2):
        claim = map.take()
        map.worker.end(claim, status=Status.FAILED, children=[house.tasks(kind="walk", parents=claim.tasks[0])])
        assert map.worker.reopen(map.run, claim.tasks).replaced == 0
    assert map.reopen() == 4
    assert house.events(items.first)[-2:] == [Status.REOPENED, Status.REPLACED]
    assert house.offered() == [map.maker]


@case("reopen")
def a_task_without_an_heir_keeps_what_it_made(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, children=[child := house.tasks(kind="copy", parents=claim.tasks[0])])
    answer = worker.reopen(run, claim.tasks)
    assert (answer.makers, answer.replaced) == ((), 0)
    assert house.offered() == sorted([*claim.tasks, *child.ids])


@case("reopen")
def items_are_reopened_without_their_maker(house: House) -> None:
    map = Map(house)
    items = map.make()
    map.worker.done(map.take())
    map.worker.done(map.take("sum"))
    answer = map.worker.reopen(map.run, [items.first])
    assert answer.tasks == tuple(sorted([items.first, map.heir]))
    assert (answer.makers, answer.replaced) == ((), 0)


@case("reopen")
def of_tasks_that_two_makers_made_together_only_its_own_are_replaced(house: House) -> None:
    """Continuations of one claim share spans: of each, some tasks have the one parent and some the other."""
    makers, then = house.tasks(3, awaited=True), house.tasks(kind="sum", waits=True)
    run = house.any_run(makers, then, joins=[NewJoins.one(then.first, 3)], endless=True)
    house.add(run, waiters=[NewWaiters.one(task, then.first, slot) for slot, task in enumerate(makers.ids)])
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    order = [*makers.ids, *makers.ids]
    heirs = house.tasks(6, kind="copy", parents=order)
    named = dict(zip(makers.ids, heirs.ids, strict=False))
    worker.done(claim, children=[heirs], heirs=named)
    held = worker.take(kinds=["copy"])
    worker.done(held, held.tasks[:4])
    worker.release(held)
    for round, maker in enumerate((makers.first + 1, makers.first)):
        answer = worker.reopen(run, [maker])
        assert (answer.makers, answer.replaced) == ((maker,), 2)
        assert house.count(run, Status.REPLACED, "copy") == 2 * (round + 1)
        gone = [task for task, parent in zip(heirs.ids, order, strict=True) if parent == maker]
        assert [house.ended(task) for task in gone] == [Status.REPLACED] * 2
    last = [task for task, parent in zip(heirs.ids, order, strict=True) if parent == makers.last]
    assert [house.ended(task) for task in last] == [Status.DONE, None]
    assert house.offered() == sorted([*makers.ids[:2], last[1]])


@case("reopen")
def tasks_without_a_parent_in_the_same_range_stay(house: House) -> None:
    map = Map(house)
    others = house.tasks(3, kind="copy", parents=[None, map.maker, None])
    map.make(others)
    assert map.reopen() == 4
    assert [house.ended(task) for task in others.ids] == [None, Status.REPLACED, None]
    assert house.offered() == sorted([map.maker, others.first, others.last])


@case("reopen")
def what_was_replaced_inside_of_an_edition_is_not_replaced_again(house: House) -> None:
    """Inner makers share a span; one of them is made anew, and later all of them with their own maker."""
    map = Map(house)
    inner = map.make(items=3)
    claim = map.take()
    heirs = house.tasks(3, kind="copy", parents=list(inner.ids))
    map.worker.done(claim, children=[heirs], heirs=dict(zip(inner.ids, heirs.ids, strict=True)))
    assert map.worker.reopen(map.run, [inner.first + 1]).replaced == 1
    assert map.reopen() == 3 + 2 + 1
    assert [house.events(task) for task in heirs.ids] == [[Status.REPLACED]] * 3
    assert map.replaced() == 6


@case("reopen")
def a_swept_edition_is_replaced_when_its_run_opens_again(house: House) -> None:
    map = Map(house)
    items = map.make(items=4)
    claim = map.take()
    map.worker.done(claim, claim.tasks[:1])
    map.worker.release(claim)
    house.store.cancel(map.run)
    assert house.settle(map.run).state is RunState.CANCELLED
    assert house.count(map.run, Status.CANCELLED, "copy") == 3
    assert map.reopen() == 5
    assert (house.count(map.run, Status.CANCELLED, "copy"), map.replaced()) == (0, 4)
    assert [house.ended(task) for task in items.ids] == [Status.REPLACED] * 4
    assert house.offered() == [map.maker]


@case("reopen")
def a_wide_edition_is_replaced_whole(house: House) -> None:
    map = Map(house)
    streamed, heir = _streamed(house, map)
    claim = map.take(limit=9)
    map.worker.done(claim, claim.tasks[:4])
    map.worker.release(claim)
    assert map.reopen() == WIDE + 1
    assert map.replaced() == WIDE
    assert house.count(map.run, Status.DONE, "copy") == 0
    assert [set(row.tasks) for row in house.live(map.run)] == [{map.maker}, {map.then}]
    assert house.events(streamed.first) == [Status.DONE, Status.REPLACED]
    assert house.events(streamed.last) == house.events(heir) == [Status.REPLACED]
    assert house.offered() == [map.maker]


@case("reopen")
def a_tail_tells_a_wide_edition_in_commits_of_bounded_size(house: House) -> None:
    map = Map(house)
    streamed, heir = _streamed(house, map)
    after = house.store.reads.head()
    map.reopen()
    told = []
    while (tail := house.store.reads.tail(after, limit=1)).commits:
        assert len(tail.events) <= MASK_WIDTH
        told += [(event.task, event.status) for event in tail.events]
        after = tail.after
    lives = [(task, Status.REOPENED) for task in (map.maker,)]
    gone = [(task, Status.REPLACED) for task in sorted([heir, *streamed.ids])]
    assert sorted(told) == sorted(lives + gone)
    assert told[-1:] == lives


@case("reopen")
def a_part_of_a_wide_row_is_replaced_and_the_rest_stays(house: House) -> None:
    """Two makers fill one span, one after the other: the row between them is cut."""
    makers, then = house.tasks(2, awaited=True), house.tasks(kind="sum", waits=True)
    run = house.any_run(makers, then, joins=[NewJoins.one(then.first, 2)], endless=True)
    house.add(run, waiters=[NewWaiters.one(task, then.first, slot) for slot, task in enumerate(makers.ids)])
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    many = MASK_WIDTH + 3
    parents = [makers.first] * many + [makers.last] * many
    made = house.tasks(2 * many, kind="copy", parents=parents)
    worker.done(claim, children=[made], heirs={makers.first: made.first, makers.last: made.last})
    assert worker.reopen(run, [makers.last]).replaced == many
    assert house.offered(want(3 * many, ["copy"])) == list(made.ids[:many])
    assert worker.reopen(run, [makers.first]).replaced == many
    assert house.offered() == list(makers.ids)


def _streamed(house: House, map: Map) -> tuple[NewTasks, int]:
    """A wide edition of the map, staged and then published, and the heir that gathers it."""
    claim = map.worker.take(kinds=["walk"])
    heir = house.tasks(kind="sum", waits=True, parents=map.maker)
    made = house.tasks(WIDE, kind="copy", parents=map.maker, join=heir.first)
    assert map.worker.stage(claim, made)
    joins = [NewJoins.one(heir.first, WIDE)]
    map.worker.done(claim, publish=[made.first], children=[heir], joins=joins, heirs={map.maker: heir.first})
    return made, heir.first
