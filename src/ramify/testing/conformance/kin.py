"""Reads about one task: its children, and the live row in which it is set.

Children are the published tasks that name it as their parent, by id, whichever way they came. The live row is there
until the task has ended, and for nothing that was never published.
"""

from __future__ import annotations

from ramify.errors import BadPayload
from ramify.model.key import Hold
from ramify.model.segment import SegmentState
from ramify.model.task import NewTasks
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.registry import case
from ramify.testing.paging import every


def _children(house: House, task: int, limit: int = 100) -> list[int]:
    rows = every(lambda after: house.store.reads.children(task, after=after, limit=limit))
    assert all(row.parent == task for row in rows)
    return [row.id for row in rows]


@case("reads")
def the_children_of_a_task_are_those_that_name_it(house: House) -> None:
    roots = house.tasks(5)
    run = house.any_run(roots)
    worker = house.worker()
    claim = worker.take()
    a, b, *_, e = claim.tasks
    one = house.tasks([b"1", b"2", b"3", b"4"], parents=[a, b, a, None])
    two = house.tasks(3, parents=e)
    three = house.tasks(parents=[a])
    worker.done(claim, children=[one, two, three])
    assert _children(house, a) == [one.first, one.first + 2, three.first]
    assert _children(house, b) == [one.first + 1]
    assert _children(house, e) == list(two.ids)
    assert _children(house, claim.tasks[2]) == []
    assert house.store.reads.children(a).rows[0] == house.store.reads.task(one.first)
    far = house.tasks(2, parents=[a, 2**40])
    house.add(run, far)
    assert _children(house, a)[-1] == far.first
    assert _children(house, 2**40) == [far.last]


@case("reads")
def children_are_paged_by_id(house: House) -> None:
    roots = house.tasks(2)
    run = house.any_run(roots)
    for _ in range(3):
        house.add(run, house.tasks(4, parents=[roots.first, roots.last] * 2))
    mine = _children(house, roots.first)
    assert len(mine) == 6
    assert mine == sorted(mine)
    for limit in (1, 4, 6):
        assert _children(house, roots.first, limit) == mine
    page = house.store.reads.children(roots.first, after=mine[1], limit=3)
    assert [row.id for row in page.rows] == mine[2:5]
    assert page.more
    with refused(BadPayload):
        house.store.reads.children(roots.first, limit=0)


@case("reads")
def a_single_task_that_extends_a_row_is_found_as_a_child(house: House) -> None:
    parents = house.tasks(3)
    run = house.queue(parents)
    first = house.store.reserve(4)
    for i, parent in enumerate((None, parents.first, parents.last, parents.first)):
        house.add(run, NewTasks(first + i, "walk", [b"x"], parents=parent))
    assert _children(house, parents.first) == [first + 1, first + 3]
    assert _children(house, parents.last) == [first + 2]


@case("reads")
def staged_children_are_found_once_they_are_published(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    a, b = claim.tasks
    first = house.store.reserve(6)
    assert worker.stage(claim, NewTasks(first, "walk", [b"1", b"2"], parents=a))
    assert worker.stage(claim, NewTasks(first + 2, "walk", [b"3", b"4"], parents=[a, b]))
    assert _children(house, a) == []
    worker.done(claim, [a], publish=[first])
    assert _children(house, a) == [first, first + 1, first + 2]
    assert _children(house, b) == [first + 3]


@case("reads")
def a_child_that_lost_its_key_is_nobodys_child(house: House) -> None:
    parents = house.tasks(2)
    run = house.any_run(parents)
    keyed = house.tasks(3, parents=[*parents.ids, parents.first], keys=[b"a", b"a", b"b"], hold=Hold.UNIQUE)
    ids = house.add(run, keyed).ids[0]
    assert _children(house, parents.first) == sorted({ids[0], ids[2]})
    assert _children(house, parents.last) == []


@case("reads")
def the_live_row_of_a_task_is_found_until_it_ends(house: House) -> None:
    tasks = house.tasks(10)
    run = house.run(tasks)
    reads = house.store.reads
    assert all(reads.segment(task) == house.row_of(task) for task in tasks.ids)
    worker = house.worker()
    claim = worker.take(4)
    held = reads.segment(claim.tasks[0])
    assert held is not None
    assert (held.run, held.state, held.owner) == (run, SegmentState.CLAIMED, worker.process)
    worker.done(claim, claim.tasks[1:3])
    assert [reads.segment(task) is None for task in claim.tasks] == [False, True, True, False]
    assert reads.segment(tasks.last) == house.row_of(tasks.last)


@case("reads")
def what_was_never_published_has_no_live_row(house: House) -> None:
    house.run(house.tasks())
    worker = house.worker()
    staged = house.tasks(2)
    claim = worker.take()
    assert worker.stage(claim, staged)
    assert house.store.reads.segment(staged.first) is None
    assert house.store.reads.segment(2**40) is None
    worker.done(claim)
    assert house.store.reads.segment(staged.first) is None
