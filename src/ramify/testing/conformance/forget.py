"""`forget` of whole runs: they go for good, page by page. Single tasks are in `forget_tasks.py`.

A run is FORGOTTEN from its first page on, and reads of its work say so. With tasks go their events, keys, joins,
waiters and log lines. What somebody may still ask for stays.
"""

from __future__ import annotations

from ramify.errors import BadPayload, RunEnded, RunForgotten, RunNeeded, UnknownRun
from ramify.model.commit import Part
from ramify.model.decision import Said, What
from ramify.model.event import Status, Tally
from ramify.model.forgetting import Forgot
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.log import LogLine
from ramify.model.policy import SECOND
from ramify.model.run import Follows, NewRun, Order, RunState
from ramify.testing import oracle
from ramify.testing.conformance.house import House, only, refused
from ramify.testing.conformance.registry import case

EVERYTHING = range(2**62)


def ended_run(house: House, count: int = 3) -> int:
    """A run of so many tasks that are done."""
    run = house.any_run(house.tasks(count))
    assert house.finish(run).state is RunState.DONE
    return run


def _whole(house: House, run: int, limit: int = 1000) -> int:
    """Forget a run, however many pages it takes; how many tasks it had."""
    tasks, more = 0, True
    while more:
        page = house.store.forget(run, limit=limit)
        tasks, more = tasks + page.tasks, page.more
    return tasks


def line_of(n: int, run: int, task: int | None = None) -> LogLine:
    """A line that a task of a run logged."""
    return LogLine(n, 0, run, task, 1, 30, "log", f"line {n}")


@case("forget")
def all_of_an_ended_run_goes(house: House) -> None:
    group = house.tasks(keys=[b"k"], hold=Hold.LABEL)
    run = house.any_run(house.tasks(3), group)
    other = ended_run(house)
    worker = house.worker()
    worker.store.note(worker.process, [line_of(1, run, group.first), line_of(2, other)])
    house.finish(run)
    left = house.log()
    assert _whole(house, run) == 4
    reads = house.store.reads
    assert {span.run for span in reads.spans().rows} == {other}
    assert reads.task(group.first) is None
    assert reads.find_tasks(run, "walk", b"k") == []
    assert house.log() == [event for event in left if (row := reads.task(event.task)) and row.run == other]
    assert [stored.line.n for stored in reads.logs(other).rows] == [2]
    assert oracle.check(house.store) == []


@case("forget")
def a_run_that_goes_on_is_refused(house: House) -> None:
    run = house.run(house.tasks(2))
    for _ in range(2):
        with house.nothing_changes(), refused(RunNeeded):
            house.store.forget(run)
        house.store.pause(run)
    with refused(UnknownRun):
        house.store.forget(house.store.reserve(1))


@case("forget")
def it_is_marked_before_anything_of_it_goes(house: House) -> None:
    """A process killed after the first page leaves a run that says so, and no half of one."""
    run = ended_run(house, 5)
    first = house.store.reads.tasks(run).rows[0].id
    page = house.store.forget(run, limit=2, said=Said("old", "ann"))
    assert page == Forgot(2, more=True)
    found = house.store.reads.run(run)
    assert (found.state, found.reason) == (RunState.FORGOTTEN, "it had ended as done")
    assert found.decision is not None
    assert (found.decision.what, found.decision.by, found.decision.reason) == (What.FORGOTTEN, "ann", "old")
    reads = house.store.reads
    for read in (reads.tasks, reads.results, reads.errors, reads.logs):
        with refused(RunForgotten):
            read(run)
    assert reads.task(first) is None
    assert oracle.check(house.store) == []


@case("forget")
def it_goes_on_where_it_was_and_ends(house: House) -> None:
    run = ended_run(house, 10)
    pages: list[Forgot] = []
    while not pages or pages[-1].more:
        pages.append(house.client().forget(run, limit=3, said=Said(after=0)))
    assert [page.tasks for page in pages] == [3, 3, 3, 1]
    with house.nothing_changes():
        assert house.store.forget(run) == Forgot()


@case("forget")
def of_a_run_of_any_end_its_name_and_counts_stay(house: House) -> None:
    run = house.any_run(house.tasks(2), name="tree")
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED)
    assert house.settle(run).state is RunState.FAILED
    _whole(house, run)
    found = house.store.reads.find_run("tree")
    assert found is not None
    assert (found.id, found.reason) == (run, "it had ended as failed")
    assert house.count(run, Tally.ADDED) == 2
    assert house.count(run, Status.FAILED) == 2
    again = house.store.start(NewRun(house.store.reserve(1), name="tree"))
    assert (again.created, again.run.id) == (False, run)


@case("forget")
def nobody_adds_to_it_or_opens_it_again(house: House) -> None:
    run = ended_run(house, 3)
    task = house.store.reads.tasks(run).rows[0].id
    worker = house.worker()
    house.store.forget(run, limit=1)
    with house.nothing_changes():
        with refused(RunEnded):
            house.add(run, house.tasks())
        with refused(RunForgotten):
            worker.reopen(run, [task])
        with refused(RunForgotten):
            house.store.forget(run, EVERYTHING)
        assert house.store.pause(run) is RunState.FORGOTTEN
        assert house.advance(run, house.store.reads.run(run).round).state is RunState.FORGOTTEN


@case("forget")
def one_that_arrives_after_the_run_was_opened_again_changes_nothing(house: House) -> None:
    run = ended_run(house)
    said = Said(after=house.store.reads.run(run).decisions)
    worker = house.worker()
    worker.reopen(run, [house.store.reads.tasks(run).rows[0].id])
    house.finish(run)
    with house.nothing_changes(), refused(RunNeeded):
        house.store.forget(run, said=said)


@case("forget")
def a_late_commit_of_it_is_refused(house: House) -> None:
    run = house.any_run(house.tasks(2))
    frozen = house.worker()
    claim = frozen.take()
    house.write_off(frozen)
    house.finish(run)
    _whole(house, run)
    late = house.worker()
    answer = late.commit(Part(claim.token, claim.tasks, Status.DONE))
    assert answer.refused == (claim.token,)
    assert house.log() == []


@case("forget")
def its_keys_are_free_at_once(house: House) -> None:
    """Also those of tasks that a later page will remove; and whoever takes one now keeps it."""
    run = house.any_run(house.tasks(3, keys=[b"a", b"b", b"c"], hold=Hold.UNIQUE, keep=60 * SECOND))
    house.finish(run)
    house.store.forget(run, limit=1)
    queue = house.queue()
    taken = house.tasks(3, keys=[b"a", b"b", b"c"], hold=Hold.UNIQUE, keep=60 * SECOND)
    assert house.add(queue, taken).ids == (tuple(taken.ids),)
    _whole(house, run)
    again = house.add(queue, house.tasks(3, keys=[b"a", b"b", b"c"], hold=Hold.UNIQUE, keep=60 * SECOND))
    assert again.ids == (tuple(taken.ids),)


@case("forget")
def what_is_appended_again_to_a_forgotten_run_finds_its_keys_free(house: House) -> None:
    run = house.queue()
    house.add(run, house.tasks(3))
    twice = house.tasks(8, keys=[b"%d" % (n % 4) for n in range(8)], hold=Hold.ONCE)
    assert house.add(run, twice).ids == ((*twice.ids[:4], *twice.ids[:4]),)
    house.store.cancel(run)
    house.settle(run)
    house.store.forget(run, limit=1)
    assert house.add(run, twice).ids == ((*twice.ids[:4], 0, 0, 0, 0),)


@case("forget")
def keys_of_other_runs_stay(house: House) -> None:
    kept = house.any_run(once := house.tasks(keys=[b"k"], hold=Hold.ONCE), endless=True)
    run = house.any_run(house.tasks(keys=[b"k"], hold=Hold.ONCE))
    house.finish(run)
    _whole(house, run)
    assert list(house.store.reads.find_tasks(run, "walk", b"k")) == []
    assert list(house.store.reads.find_tasks(kept, "walk", b"k")) == [once.first]
    assert house.add(kept, house.tasks(keys=[b"k"], hold=Hold.ONCE)).taken == {(0, 0)}


@case("forget")
def a_run_whose_results_another_one_has_stays_until_that_one_goes(house: House) -> None:
    members = house.tasks(2)
    run = house.any_run(members)
    reader = house.tasks(kind="sum", waits=True)
    other = house.store.reserve(1)
    joins, waiters = [NewJoins([reader.first], [2])], [NewWaiters(list(members.ids), [reader.first] * 2, [0, 1])]
    house.store.start(NewRun(other, order=Order.ANY), [reader], joins, waiters)
    house.finish(run)
    for _ in range(2):
        with house.nothing_changes(), refused(RunNeeded):
            house.store.forget(run)
        house.finish(other)
    _whole(house, other)
    assert _whole(house, run) == 2
    assert house.store.reads.members(reader.first).rows == []


@case("forget")
def nobody_waits_for_a_task_that_is_going(house: House) -> None:
    members = house.tasks(2)
    run = house.any_run(members)
    house.finish(run)
    house.store.forget(run, limit=1)
    reader = house.tasks(kind="sum", waits=True)
    with house.nothing_changes(), refused(BadPayload):
        house.store.start(
            NewRun(house.store.reserve(1), order=Order.ANY),
            [reader],
            [NewJoins([reader.first], [1])],
            [NewWaiters.one(members.first, reader.first, 0)],
        )


@case("forget")
def who_follows_it_goes_on(house: House) -> None:
    run = house.run(house.tasks())
    follower = house.run(house.tasks(), follows=Follows(run, 0))
    house.finish(run)
    _whole(house, run)
    assert house.finish(follower).state is RunState.DONE


@case("forget")
def its_joins_go_with_it(house: House) -> None:
    reader = house.tasks(kind="sum", waits=True)
    members = house.tasks(3)
    run = house.start_graph([members, reader], [(task, reader.first) for task in members.ids])
    house.finish(run)
    assert _whole(house, run, limit=1) == 4
    reads = house.store.reads
    assert (reads.joins(run).rows, reads.members(reader.first).rows) == ([], [])
    assert oracle.check(house.store) == []


@case("forget")
def a_cancelled_run_goes_with_its_sweeps_and_garbage(house: House) -> None:
    run = house.any_run(house.tasks(4))
    worker = house.worker()
    claim = worker.take(1)
    worker.stage(claim, house.tasks(5))
    house.store.cancel(run)
    worker.done(claim)
    assert house.settle(run).state is RunState.CANCELLED
    assert _whole(house, run, limit=2) == 9
    assert (house.segments(run), list(house.store.reads.sweeps(run))) == ([], [])
    assert house.store.vacuum().tasks == 0


@case("forget")
def cursors_stay_good(house: House) -> None:
    """A follower of the log or the lines of another run misses nothing, and sees nothing twice."""
    run, other = ended_run(house, 3), house.queue()
    worker = house.worker()
    worker.store.note(worker.process, [line_of(1, run), line_of(2, run)])
    head = house.store.reads.head()
    line = house.store.reads.logs(run).after
    _whole(house, run)
    # Only the decision to forget it has come.
    assert house.store.reads.head() == only(house.store.reads.tail(head).commits).seq
    house.add(other, house.tasks(2))
    house.finish(other)
    worker.store.note(worker.process, [line_of(3, other)])
    tail = house.store.reads.tail(head)
    assert {event.status for event in tail.events} == {Status.DONE}
    assert len(tail.events) == 2
    assert [stored.line.n for stored in house.store.reads.logs(other, after=line).rows] == [3]
    assert [commit.events for commit in house.store.reads.tail(0).commits if commit.events] == [2]


@case("forget")
def what_it_logs_too_late_is_not_kept(house: House) -> None:
    run, other = ended_run(house), ended_run(house)
    _whole(house, run)
    worker = house.worker()
    worker.store.note(worker.process, [line_of(1, run), line_of(2, other), line_of(3, run)])
    assert [stored.line.n for stored in house.store.reads.logs(other).rows] == [2]
    # Were there two lines, one of them would be left.
    assert house.store.forget(run, limit=1) == Forgot()
