"""Rows that leave a line otherwise than by a claim: reopened, replaced or cut, they keep nobody behind them waiting."""

from __future__ import annotations

from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.limit import line_of
from ramify.model.mark import Settled
from ramify.model.segment import MASK_WIDTH, SegmentState
from ramify.testing.conformance.editions import Map
from ramify.testing.conformance.house import House, only, tasks_of, want
from ramify.testing.conformance.limits import declare
from ramify.testing.conformance.registry import case

LIMITED, READY, WAITING = SegmentState.LIMITED, SegmentState.READY, SegmentState.WAITING


class Gathering:
    """A join's task before another one of its kind, of which one runs at a time: its member has ended.

    With `occupied`, a third one has the place, and both are in line.
    """

    def __init__(self, house: House, *, occupied: bool = True) -> None:
        declare(house, most=1, kinds=("sum",))
        self.house, self.worker = house, house.worker()
        if occupied:
            house.any_run(house.tasks(1, kind="sum"))
            self.occupant = self.worker.take(1)
        waiting = house.tasks(kind="sum", waits=True)
        member = house.tasks(join=waiting.first)
        self.run = house.any_run(member, waiting, joins=[NewJoins.one(waiting.first, 1)])
        self.member, self.task = member.first, waiting.first
        self.worker.done(self.worker.take(kinds=["walk"]))
        after = house.tasks(kind="sum")
        house.any_run(after)
        self.next = after.first
        if occupied:
            assert self.worker.claim() == ()
            assert self.state == self.state_of_next == LIMITED

    @property
    def state(self) -> SegmentState:
        return self.house.row_of(self.task).state

    @property
    def state_of_next(self) -> SegmentState:
        return self.house.row_of(self.next).state

    def reopen(self) -> None:
        """Begin new lives of the member and of what waits for it."""
        assert self.house.worker().reopen(self.run, [self.member, self.task]).tasks == (self.member,)
        row = self.house.row_of(self.task)
        assert (row.state, row.line) == (WAITING, None)

    def finish(self) -> None:
        """Nobody is forgotten, and the one place is there for each in turn."""
        self.worker.done(self.worker.take(kinds=["walk"]))
        self.worker.done(self.worker.take())
        assert self.house.ended(self.task) is Status.DONE
        assert self.house.live() == []


@case("reopen")
def a_join_task_in_line_leaves_it_to_wait_again(house: House) -> None:
    gathering = Gathering(house)
    gathering.reopen()
    assert gathering.state_of_next is LIMITED
    gathering.worker.done(gathering.occupant)
    assert gathering.state_of_next is READY
    claim = gathering.worker.take(kinds=["sum"])
    assert tasks_of([claim]) == [gathering.next]
    gathering.worker.done(claim)
    gathering.finish()


@case("reopen")
def the_next_row_follows_when_the_first_waits_for_its_join_again(house: House) -> None:
    gathering = Gathering(house)
    gathering.worker.done(gathering.occupant)
    assert (gathering.state, gathering.state_of_next) == (READY, LIMITED)
    gathering.reopen()
    assert gathering.state_of_next is READY
    gathering.worker.done(gathering.worker.take(kinds=["sum"]))
    gathering.finish()


@case("reopen")
def a_join_task_that_is_taken_from_its_process_makes_room(house: House) -> None:
    gathering = Gathering(house, occupied=False)
    held = only(gathering.worker.ask(want(runs={gathering.run})).claims)
    assert tasks_of([held]) == [gathering.task]
    assert gathering.worker.claim() == ()
    assert gathering.state_of_next is LIMITED
    gathering.reopen()
    assert gathering.state_of_next is READY
    assert gathering.worker.commit(Part(held.token, held.tasks)).refused == (held.token,)
    gathering.worker.done(gathering.worker.take(kinds=["sum"]))
    gathering.finish()


class Editions:
    """An edition of items, of which one runs at a time, with somebody else's item behind them in line."""

    def __init__(self, house: House, *, items: int = 2) -> None:
        declare(house, most=1, kinds=("copy",))
        self.house, self.map = house, Map(house)
        house.any_run(house.tasks(kind="copy"))
        self.worker = house.worker()
        self.occupant = self.worker.take(kinds=["copy"])
        self.items = self.map.make(items=items)
        after = house.tasks(kind="copy")
        house.any_run(after)
        self.next = after.first
        assert self.worker.claim(kinds=["copy"]) == ()
        assert {house.row_of(task).state for task in (self.items.first, self.next)} == {LIMITED}

    def replace(self) -> None:
        """Let the maker make other items."""
        assert self.map.reopen() == len(self.items.ids) + 1
        assert self.map.replaced() == len(self.items.ids)
        assert not [row for row in self.house.live() if row.first in self.items.ids]

    def finish(self) -> None:
        """The item behind is taken, and then those of the new edition."""
        assert self.house.row_of(self.next).state is READY
        claim = self.worker.take(kinds=["copy"])
        assert tasks_of([claim]) == [self.next]
        new = self.map.make()
        assert self.worker.claim(kinds=["copy"]) == ()
        self.worker.done(claim)
        for task in new.ids:
            claim = self.worker.take(kinds=["copy"])
            assert tasks_of([claim]) == [task]
            self.worker.done(claim)


@case("reopen")
def replaced_tasks_leave_their_line(house: House) -> None:
    edition = Editions(house, items=2 * MASK_WIDTH + 5)
    edition.replace()
    assert house.row_of(edition.next).state is LIMITED
    edition.worker.done(edition.occupant)
    edition.finish()


@case("reopen")
def the_next_row_follows_when_the_first_is_replaced(house: House) -> None:
    edition = Editions(house)
    edition.worker.done(edition.occupant)
    assert house.row_of(edition.items.first).state is READY
    edition.replace()
    edition.finish()


@case("reopen")
def the_rest_of_a_head_of_which_some_are_replaced_is_the_head(house: House) -> None:
    """Items of two makers share a row; those of one are replaced."""
    declare(house, most=1, kinds=("copy",))
    makers, then = house.tasks(2, awaited=True), house.tasks(kind="sum", waits=True)
    links = [NewWaiters(list(makers.ids), [then.first] * 2, [0, 1])]
    run = house.any_run(makers, then, joins=[NewJoins.one(then.first, 2)], endless=True)
    house.add(run, waiters=links)
    worker, items = house.worker(), house.tasks(4, kind="copy", parents=[makers.first] * 2 + [makers.last] * 2)
    heirs = house.tasks(2, kind="sum", parents=list(makers.ids))
    claim = worker.take(kinds=["walk"])
    worker.done(claim, children=[heirs, items], heirs=dict(zip(makers.ids, heirs.ids, strict=True)))
    claim = worker.take(1, kinds=["copy"])
    after = house.tasks(kind="copy")
    house.any_run(after)
    assert worker.claim(kinds=["copy"]) == ()
    worker.done(claim)
    assert worker.reopen(run, [makers.first]).replaced == 3
    rest = house.row_of(items.last)
    assert (list(rest.tasks), rest.state, rest.line) == ([*items.ids[2:]], READY, line_of("api"))
    assert house.row_of(after.first).state is LIMITED
    for task in (*items.ids[2:], after.first):
        claim = worker.take(kinds=["copy"])
        assert tasks_of([claim]) == [task]
        worker.done(claim)


@case("settle")
def of_a_wide_head_that_is_cut_one_piece_is_the_head(house: House) -> None:
    declare(house, most=1)
    first, wide, last = house.tasks(1), house.tasks(2 * MASK_WIDTH), house.tasks(1)
    run = house.any_run(first, wide, last)
    worker = house.worker()
    claim = worker.take(1)
    assert tasks_of([claim]) == [first.first]
    assert worker.claim() == ()
    worker.done(claim)
    assert house.store.settle(run, wide.first + MASK_WIDTH + 1, Status.SKIPPED) is Settled.CERTAIN
    heads = [row for row in house.live(run) if row.state is READY and row.line is not None]
    assert len(heads) == 1
    claim = worker.take(1)
    assert worker.claim() == ()
    worker.done(claim)
    assert len(worker.take(1).tasks) == 1


@case("append")
def the_next_row_follows_when_the_run_of_the_first_has_grown_too_large(house: House) -> None:
    declare(house, most=1)
    house.any_run(house.tasks(1))
    worker = house.worker()
    occupant = worker.take()
    first, behind = house.tasks(1), house.tasks(1)
    small = house.any_run(first, max_tasks=2)
    house.any_run(behind)
    assert worker.claim() == ()
    worker.done(occupant)
    assert (house.row_of(first.first).state, house.row_of(behind.first).state) == (READY, LIMITED)
    house.add(small, house.tasks(2))
    assert house.live(small) == []
    assert house.row_of(behind.first).state is READY
    assert tasks_of([worker.take()]) == [behind.first]
