"""`forget` of single tasks, by their ids, in runs that may go on. What somebody may still ask for stays."""

from __future__ import annotations

from collections import Counter

from ramify.errors import BadPayload
from ramify.model.commit import Part
from ramify.model.event import Status, Tally
from ramify.model.forgetting import Forgot
from ramify.model.key import Hold
from ramify.model.run import RunState
from ramify.model.task import NewTasks
from ramify.testing import oracle
from ramify.testing.clock import SECOND
from ramify.testing.conformance.forget import ended_run, line_of
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.joins import fan
from ramify.testing.conformance.registry import case

DAY = 86_400
EVERYTHING = range(2**62)


def _queue(house: House, *statuses: Status) -> tuple[int, list[int]]:
    """A queue with tasks that ended like this, long ago; and their ids."""
    group = house.tasks(len(statuses))
    run = house.queue(group)
    worker = house.worker()
    claim = worker.take()
    assert list(claim.tasks) == list(group.ids)
    worker.commit(Part(claim.token, claim.tasks, list(statuses)))
    house.clock.advance(2 * DAY)
    return run, list(group.ids)


@case("forget")
def ended_tasks_of_a_queue_go_by_their_ids(house: House) -> None:
    run, tasks = _queue(house, Status.DONE, Status.FAILED, Status.CANCELLED, Status.SKIPPED)
    late = house.tasks(2)
    house.add(run, late)
    answer = house.store.forget(run, range(tasks[0], tasks[2]))
    assert answer == Forgot(2, more=False, after=tasks[1])
    assert [house.store.reads.task(task) is None for task in tasks] == [True, True, False, False]
    assert house.store.forget(run, EVERYTHING) == Forgot(2, more=False, after=late.last)
    assert house.count(run, Tally.ADDED) == 2
    assert house.count(run, Status.FAILED) == 0
    assert house.log() == []
    assert house.offered() == list(late.ids)
    assert oracle.check(house.store) == []


@case("forget")
def tasks_go_page_by_page(house: House) -> None:
    run, tasks = _queue(house, *[Status.DONE] * 10)
    after, found, more = 0, 0, True
    while more:
        page = house.store.forget(run, range(after + 1, tasks[-1] + 1), limit=4)
        assert page.tasks <= 4
        after, found, more = page.after, found + page.tasks, page.more
    assert (found, after) == (10, tasks[-1])
    assert house.store.reads.spans(run=run).rows == []


@case("forget")
def tasks_before_the_range_do_not_hide_that_there_are_more_in_it(house: House) -> None:
    before, one, two = house.tasks(), house.tasks(), house.tasks()
    run = house.any_run(before, one, two)
    page = house.store.forget(run, range(before.first + 1, two.last + 1), limit=1)
    assert (page.more, page.after) == (True, one.last)


@case("forget")
def a_dry_call_says_how_many_would_go_and_changes_nothing(house: House) -> None:
    run, tasks = _queue(house, Status.DONE, Status.FAILED, Status.DONE)
    with house.nothing_changes():
        assert house.store.forget(run, EVERYTHING, dry=True) == Forgot(3, more=False, after=tasks[-1])
        assert house.store.forget(run, EVERYTHING, limit=2, dry=True) == Forgot(2, more=True, after=tasks[1])
    assert house.store.forget(run, EVERYTHING).tasks == 3


@case("forget")
def jobs_side_by_side_go_each_from_the_counts_of_its_kind(house: House) -> None:
    """They were added one by one, as jobs are, and are of two kinds; two of them are not over."""
    first = house.store.reserve(9)
    groups = [NewTasks(first + n, "walk" if n % 3 else "copy", [b"0"]) for n in range(9)]
    run = house.queue(groups[0])
    for group in groups[1:]:
        house.add(run, group)
    worker = house.worker()
    for claim in worker.claim(limit=7):
        worker.done(claim)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 7
    left = Counter(group.kind for group in groups if house.store.reads.task(group.first) is not None)
    counted = house.store.reads.counts(run)
    assert left.total() == 2
    assert {kind: counted.get(kind, {}).get(Tally.ADDED, 0) for kind in ("walk", "copy")} == {
        kind: left[kind] for kind in ("walk", "copy")
    }
    assert house.count(run, Status.DONE) == 0
    assert house.log() == []
    assert oracle.check(house.store) == []


@case("forget")
def a_gap_in_the_middle_leaves_what_is_around_it(house: House) -> None:
    run, tasks = _queue(house, *[Status.DONE] * 9)
    assert house.store.forget(run, range(tasks[3], tasks[6])).tasks == 3
    assert [(span.first, span.last) for span in house.store.reads.spans(run=run).rows] == [
        (tasks[0], tasks[2]),
        (tasks[6], tasks[8]),
    ]
    assert [row.id for row in house.store.reads.tasks(run).rows] == [*tasks[:3], *tasks[6:]]
    worker = house.worker()
    worker.reopen(run, [tasks[0], tasks[7]])
    assert house.offered() == [tasks[0], tasks[7]]
    house.finish(run)
    assert oracle.check(house.store) == []


@case("forget")
def what_ended_lately_stays(house: House) -> None:
    """An append that is still on its way must meet what it has added before."""
    group = house.tasks(2)
    run = house.queue(group)
    house.finish(run)
    house.clock.advance(DAY / 2)
    with house.nothing_changes():
        assert house.store.forget(run, EVERYTHING).tasks == 0
    assert house.add(run, group).already
    house.clock.advance(DAY)
    with house.nothing_changes():
        assert house.store.forget(run, EVERYTHING, before=house.store.now() - 3 * DAY * SECOND).tasks == 0
    assert house.store.forget(run, EVERYTHING, before=house.store.now()).tasks == 2


@case("forget")
def what_is_unfinished_or_lies_in_a_live_row_stays(house: House) -> None:
    group = house.tasks(5)
    run = house.queue(group)
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, [claim.tasks[0], claim.tasks[2]])
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 0
    worker.done(claim, [claim.tasks[1], *claim.tasks[3:]])
    assert house.store.forget(run, EVERYTHING).tasks == 2


@case("forget")
def what_is_left_of_a_range_that_was_cut_can_be_worked_off(house: House) -> None:
    group = house.tasks(6)
    run = house.queue(group)
    worker = house.worker()
    first, second = worker.take(2), worker.take(1)
    worker.done(first)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 2
    worker.done(second)
    assert list(worker.take(1).tasks) == [group.first + 3]
    assert house.offered() == [group.first + 4, group.first + 5]
    house.finish(run)
    assert oracle.check(house.store) == []


@case("forget")
def a_run_with_an_end_is_still_judged_by_what_failed(house: House) -> None:
    run = house.any_run(house.tasks(3), house.tasks(kind="sum"))
    worker = house.worker()
    claim = worker.take(kinds=["walk"])
    worker.commit(Part(claim.token, claim.tasks, [Status.DONE, Status.FAILED, Status.SKIPPED]))
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 2
    assert house.finish(run).state is RunState.FAILED


@case("forget")
def a_key_that_is_still_taken_keeps_its_task(house: House) -> None:
    keys = [b"a", None]
    run = house.queue(
        once := house.tasks(2, keys=keys, hold=Hold.ONCE),
        house.tasks(2, keys=keys, hold=Hold.UNIQUE),
        kept := house.tasks(2, keys=keys, hold=Hold.UNIQUE, keep=3 * DAY * SECOND, kind="copy"),
        house.tasks(2, keys=keys, hold=Hold.LABEL),
    )
    house.finish(run)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 6
    assert [row.id for row in house.store.reads.tasks(run).rows] == [once.first, kept.first]
    assert list(house.store.reads.find_tasks(run, "walk", b"a")) == [once.first]
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 1


@case("forget")
def a_parent_goes_with_its_children_and_not_before(house: House) -> None:
    """The mark of a cancelled subtree is looked for along parents."""
    run = house.queue(root := house.tasks())
    worker = house.worker()
    child = house.tasks(parents=root.first)
    worker.done(worker.take(), children=[child])
    grandchild = house.tasks(parents=child.first)
    worker.done(worker.take(), children=[grandchild])
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 0
    house.store.cancel(run, root.first, below=True)
    assert house.offered() == []
    house.finish(run)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 3


@case("forget")
def a_continuation_and_its_members_go_together(house: House) -> None:
    reader = house.tasks(kind="sum", waits=True)
    members = house.tasks(3)
    run = house.start_graph([members, reader], [(task, reader.first) for task in members.ids])
    house.finish(run)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, range(reader.first)).tasks == 0
    assert house.store.forget(run, range(members.first + 1, 2**62)).tasks == 0
    assert house.store.forget(run, EVERYTHING).tasks == 4
    assert house.store.reads.joins(run).rows == []


@case("forget")
def log_lines_go_with_their_task(house: House) -> None:
    run, tasks = _queue(house, Status.DONE, Status.DONE)
    worker = house.worker()
    worker.store.note(worker.process, [line_of(1, run), line_of(2, run, tasks[0]), line_of(3, run, tasks[1])])
    house.store.forget(run, range(tasks[0], tasks[1]))
    assert [stored.line.n for stored in house.store.reads.logs(run).rows] == [1, 3]
    # Of a line that is gone nothing is remembered, its number least of all.
    worker.store.note(worker.process, [line_of(2, run), line_of(3, run)])
    assert [stored.line.n for stored in house.store.reads.logs(run).rows] == [1, 3, 2]


@case("forget")
def a_member_whose_slot_another_has_taken_over_goes_with_the_continuation(house: House) -> None:
    run, worker, _ = fan(house, 2)
    claim = worker.take()
    heir = house.tasks(parents=[None])
    worker.done(claim, children=[heir], heirs={claim.tasks[1]: heir.first})
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 0
    house.finish(run)
    house.clock.advance(2 * DAY)
    assert house.store.forget(run, EVERYTHING).tasks == 4


@case("forget")
def what_can_mean_nothing_is_refused(house: House) -> None:
    run = ended_run(house)
    with house.nothing_changes():
        with refused(BadPayload):
            house.store.forget(run, limit=0)
        with refused(BadPayload):
            house.store.forget(run, before=1)
        with refused(BadPayload):
            house.store.forget(run, range(1, 9, 2))
        with refused(BadPayload):
            house.store.forget(run, dry=True)
