"""Keys: what a task may be called, and for how long nobody else may be called the same.

LABEL excludes nobody. ONCE holds for ever, within its run and kind. UNIQUE holds while the task is unfinished, plus
`keep` seconds after success, across runs, per kind; any other end frees it, and so does whoever comes `again`. Keys are
resolved in the store, after the guards, in order, and freed in the transaction that writes the end.
"""

from __future__ import annotations

from ramify.model.commit import Part
from ramify.model.event import Status, Tally
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.key import Hold
from ramify.model.task import NewTasks
from ramify.testing.clock import SECOND
from ramify.testing.conformance.house import House, members_and_broken, only, want
from ramify.testing.conformance.registry import case


@case("keys")
def a_label_excludes_nobody(house: House) -> None:
    run = house.any_run(house.tasks(2, keys=[b"k", b"k"]))
    assert not house.add(run, house.tasks(keys=[b"k"])).taken
    assert len(house.offered()) == 3


@case("keys")
def once_is_for_ever_within_its_run_and_kind(house: House) -> None:
    run, other = house.queue(), house.queue()
    first = _keyed(house, Hold.ONCE)
    house.add(run, first)
    assert not house.add(run, _keyed(house, Hold.ONCE, kind="copy")).taken
    assert not house.add(other, _keyed(house, Hold.ONCE)).taken
    for end in (Status.FAILED, None):
        assert house.add(run, _keyed(house, Hold.ONCE)).ids == ((first.first,),)
        if end:
            _end(house, run, end)


@case("keys")
def unique_holds_across_runs_until_the_end(house: House) -> None:
    for end in (Status.DONE, Status.FAILED, Status.CANCELLED, Status.SKIPPED, Status.QUARANTINED):
        run, other = house.queue(), house.queue()
        first = _keyed(house, Hold.UNIQUE)
        house.add(run, first)
        assert house.add(other, _keyed(house, Hold.UNIQUE)).ids == ((first.first,),)
        assert not house.add(run, _keyed(house, Hold.UNIQUE, kind="copy")).taken
        _end(house, run, end)
        assert not house.add(other, _keyed(house, Hold.UNIQUE)).taken
        house.finish(run)
        house.finish(other)


@case("keys")
def unique_is_kept_for_a_while_after_success(house: House) -> None:
    run = house.queue()
    first = _keyed(house, Hold.UNIQUE, keep=60 * SECOND)
    house.add(run, first)
    _end(house, run, Status.DONE)
    house.clock.advance(59)
    assert house.add(run, _keyed(house, Hold.UNIQUE)).ids == ((first.first,),)
    house.clock.advance(2)
    assert not house.add(run, _keyed(house, Hold.UNIQUE)).taken


@case("keys")
def unique_is_not_kept_after_a_failure(house: House) -> None:
    run = house.queue()
    house.add(run, _keyed(house, Hold.UNIQUE, keep=60 * SECOND))
    _end(house, run, Status.FAILED)
    assert not house.add(run, _keyed(house, Hold.UNIQUE)).taken


@case("keys")
def unique_is_held_through_retries_releases_and_deaths(house: House) -> None:
    run = house.any_run(first := _keyed(house, Hold.UNIQUE))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, status=Status.RETRYING)
    worker.release(claim)
    worker.take()
    house.bury(worker)
    assert house.add(run, _keyed(house, Hold.UNIQUE)).ids == ((first.first,),)


@case("keys")
def a_done_job_keeps_its_key_until_its_result_expires(house: House) -> None:
    run, other = house.queue(), house.queue()
    first = _keyed(house, Hold.UNIQUE, keep=3_600 * SECOND)
    house.add(run, first)
    assert house.add(other, _keyed(house, Hold.UNIQUE)).ids == ((first.first,),)
    _end(house, run, Status.DONE)
    house.clock.advance(3_599)
    assert house.add(other, _keyed(house, Hold.UNIQUE)).ids == ((first.first,),)
    house.clock.advance(2)
    assert not house.add(other, _keyed(house, Hold.UNIQUE)).taken


@case("keys")
def who_comes_again_replaces_what_has_ended_and_nothing_else(house: House) -> None:
    """Several at once with the same key are one of them all the same."""
    run, other = house.queue(), house.queue()
    house.add(run, first := _keyed(house, Hold.UNIQUE, keep=3_600 * SECOND))
    assert house.add(other, _keyed(house, Hold.UNIQUE, again=True)).ids == ((first.first,),)
    _end(house, run, Status.DONE)
    assert house.add(other, _keyed(house, Hold.UNIQUE)).ids == ((first.first,),)
    two = house.tasks(2, keys=[b"k", b"k"], hold=Hold.UNIQUE, keep=3_600 * SECOND, again=True)
    assert house.add(other, two).ids == ((two.first, two.first),)
    assert house.add(other, two).ids == ((two.first, two.first),)
    assert house.add(run, _keyed(house, Hold.UNIQUE, again=True)).ids == ((two.first,),)
    worker = house.worker()
    assert worker.reopen(run, [first.first]).superseded == ((first.first, two.first),)


@case("keys")
def a_failed_or_cancelled_job_frees_its_key(house: House) -> None:
    for end in (Status.FAILED, Status.CANCELLED):
        run = house.queue()
        house.add(run, _keyed(house, Hold.UNIQUE, keep=3_600 * SECOND))
        _end(house, run, end)
        assert not house.add(run, _keyed(house, Hold.UNIQUE)).taken
        _end(house, run, Status.FAILED)


@case("keys")
def holds_do_not_get_in_each_others_way(house: House) -> None:
    run = house.queue()
    for hold in (Hold.LABEL, Hold.ONCE, Hold.UNIQUE):
        assert not house.add(run, _keyed(house, hold)).taken


@case("keys")
def any_bytes_make_a_key(house: House) -> None:
    run = house.queue()
    keys = [b"", b"\0", b"\0\0", b"\xff\xfe", b"a/b", b"a", b"k" * 8_192]
    assert not house.add(run, house.tasks(len(keys), keys=keys, hold=Hold.ONCE)).taken
    again = house.add(run, house.tasks(len(keys), keys=keys, hold=Hold.ONCE))
    assert len(again.taken) == len(keys)


@case("keys")
def an_end_frees_the_key_of_the_task_that_ended_only(house: House) -> None:
    run = house.any_run(tasks := house.tasks(2, keys=[b"a", b"b"], hold=Hold.UNIQUE))
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], Status.FAILED)
    answer = house.add(run, house.tasks(2, keys=[b"a", b"b"], hold=Hold.UNIQUE))
    assert answer.taken == {(0, 1)}
    assert answer.ids[0][1] == tasks.last


@case("keys")
def a_child_whose_key_is_taken_is_dropped_and_counted(house: House) -> None:
    run = house.any_run(house.tasks(keys=[b"a"], hold=Hold.ONCE))
    worker = house.worker()
    claim = worker.take()
    children = house.tasks([b"x", b"y", b"z"], keys=[b"a", b"b", b"b"], hold=Hold.ONCE, parents=claim.tasks[0])
    worker.done(claim, children=[children])
    assert house.count(run, Tally.ADDED) == 2
    assert house.count(run, Tally.DUPLICATE) == 2
    again = house.worker().take()
    assert (list(again.bodies), [more.key for more in again.details.values()]) == ([b"y"], [b"b"])


@case("keys")
def the_middle_of_a_group_may_be_dropped(house: House) -> None:
    run = house.any_run(house.tasks(2, keys=[b"2", b"5"], hold=Hold.ONCE))
    worker = house.worker()
    claim = worker.take()
    children = house.tasks(8, keys=[b"%d" % i for i in range(8)], hold=Hold.ONCE, parents=claim.tasks[0])
    worker.done(claim, children=[children])
    claims = worker.claim()
    assert [body for claim in claims for body in claim.bodies] == [b"0", b"1", b"3", b"4", b"6", b"7"]
    assert [claim.details[task].key for claim in claims for task in claim.tasks] == [b"0", b"1", b"3", b"4", b"6", b"7"]
    assert house.count(run, Tally.ADDED) == 8


@case("keys")
def of_two_parts_in_one_commit_the_first_wins(house: House) -> None:
    house.any_run(house.tasks(), house.tasks())
    worker = house.worker()
    one, two = worker.claim()
    first, second = _keyed(house, Hold.ONCE), _keyed(house, Hold.ONCE)
    worker.commit(Part(one.token, one.tasks, children=[first]), Part(two.token, two.tasks, children=[second]))
    assert house.offered() == [first.first]


@case("keys")
def a_task_may_hand_its_key_to_its_successor(house: House) -> None:
    run = house.any_run(_keyed(house, Hold.UNIQUE))
    worker = house.worker()
    heir = _keyed(house, Hold.UNIQUE)
    worker.done(worker.take(), children=[heir])
    assert house.offered() == [heir.first]
    assert house.add(run, _keyed(house, Hold.UNIQUE)).ids == ((heir.first,),)


@case("keys")
def a_task_that_waits_keeps_its_own_join_when_its_neighbour_is_dropped(house: House) -> None:
    run = house.queue(house.tasks(kind="sum", keys=[b"a"], hold=Hold.ONCE))
    waiting = house.tasks([b"a", b"b"], kind="sum", keys=[b"a", b"b"], hold=Hold.ONCE, waits=True)
    members = house.tasks(join=waiting.first), house.tasks(join=waiting.last)
    joins = [NewJoins.one(task, 1) for task in waiting.ids]
    house.add(run, waiting, *members, joins=joins)
    worker = house.worker()
    worker.done(worker.take(1, ["sum"]))
    worker.done(worker.take(1, ["walk"]))
    assert worker.claim(kinds=["sum"]) == ()
    worker.done(worker.take(1, ["walk"]))
    assert list(worker.take(1, ["sum"]).bodies) == [b"b"]


@case("keys")
def a_new_task_is_waited_for_although_its_neighbour_is_dropped(house: House) -> None:
    run = house.queue(house.tasks(kind="copy", keys=[b"a"], hold=Hold.ONCE))
    tasks = house.tasks([b"a", b"b", b"c"], kind="copy", keys=[b"a", b"b", b"c"], hold=Hold.ONCE)
    waiting = house.tasks(kind="sum", waits=True)
    join = NewJoins.one(waiting.first, 1)
    house.add(run, tasks, waiting, joins=[join], waiters=[NewWaiters.one(tasks.first + 1, waiting.first, 0)])
    worker = house.worker()
    claims = [worker.take(1, ["copy"]) for _ in range(3)]
    by_body = {claim.bodies[0]: claim for claim in claims}
    worker.done(by_body[b"0"])
    worker.done(by_body[b"c"])
    assert not house.join(run, waiting.first).fired
    worker.done(by_body[b"b"])
    assert house.join(run, waiting.first).fired


@case("keys")
def whoever_waits_for_a_dropped_task_waits_for_the_one_that_holds_its_key(house: House) -> None:
    run = house.queue(house.tasks(keys=[b"a"], hold=Hold.ONCE))
    dropped, waiting = house.tasks(keys=[b"a"], hold=Hold.ONCE), house.tasks(kind="sum", waits=True)
    join = NewJoins.one(waiting.first, 1)
    house.add(run, dropped, waiting, joins=[join], waiters=[NewWaiters.one(dropped.first, waiting.first, 0)])
    worker = house.worker()
    assert not house.join(run, waiting.first).fired
    worker.done(worker.take())
    assert house.offered() == [waiting.first]


@case("keys")
def the_key_of_a_refused_part_does_not_win(house: House) -> None:
    """Keys are resolved after the guards: a child of a valid part is not dropped for one that is never written."""
    house.any_run(house.tasks(), house.tasks())
    worker = house.worker()
    one, two = worker.claim()
    worker.release(one)
    lost, kept = _keyed(house, Hold.ONCE), _keyed(house, Hold.ONCE)
    worker.commit(Part(one.token, one.tasks, children=[lost]), Part(two.token, two.tasks, children=[kept]))
    assert house.offered() == sorted([one.tasks[0], kept.first])


@case("keys")
def a_key_is_not_taken_by_what_is_only_staged(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    worker.stage(claim, _keyed(house, Hold.UNIQUE))
    assert not house.add(run, _keyed(house, Hold.UNIQUE)).taken


@case("keys")
def staged_keys_are_resolved_when_they_are_published(house: House) -> None:
    """The rows are in the log already, so those whose key was taken end at once, as skipped."""
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks(3, keys=[b"a", b"b", b"a"], hold=Hold.ONCE)
    worker.stage(claim, staged)
    house.add(run, house.tasks(kind="walk", keys=[b"b"], hold=Hold.ONCE, queue="slow"))
    worker.done(claim, publish=[staged.first])
    assert house.offered(want(queues=["default"])) == [staged.first]
    assert [house.ended(task) for task in staged.ids] == [None, Status.SKIPPED, Status.SKIPPED]
    assert house.count(run, Status.SKIPPED) == 2
    late = house.add(run, house.tasks(keys=[b"a"], hold=Hold.ONCE))
    assert late.ids == ((staged.first,),)


@case("keys")
def what_was_never_published_holds_no_key(house: House) -> None:
    run = house.any_run(house.tasks())
    worker = house.worker()
    claim = worker.take()
    staged = _keyed(house, Hold.ONCE)
    worker.stage(claim, staged)
    worker.done(claim, discard=[staged.first])
    assert not house.add(run, _keyed(house, Hold.ONCE)).taken


@case("keys")
def a_dropped_child_that_a_join_counts_arrives_when_the_holder_ends(house: House) -> None:
    """Counting it as arrived would start the join before the work is done; not counting it would hang the join."""
    holder = house.tasks(keys=[b"k"], hold=Hold.ONCE, kind="copy")
    run = house.any_run(holder, house.tasks())
    worker = house.worker()
    held, root = worker.take(1, ["copy"]), worker.take(1, ["walk"])
    waiting = house.tasks(kind="sum", waits=True)
    child = house.tasks(kind="copy", keys=[b"k"], hold=Hold.ONCE, join=waiting.first)
    worker.done(root, children=[child, waiting], joins=[NewJoins.one(waiting.first, 1)])
    assert not house.join(run, waiting.first).fired
    assert house.offered() == []
    worker.end(held, status=Status.FAILED)
    more = worker.take(1, ["sum"]).details[waiting.first]
    assert members_and_broken(more) == (1, 1)


@case("keys")
def a_dropped_child_whose_holder_has_ended_arrives_at_once(house: House) -> None:
    for end, broken in ((Status.DONE, 0), (Status.FAILED, 1)):
        run = house.any_run(house.tasks(keys=[b"k"], hold=Hold.ONCE, kind="copy"), house.tasks())
        worker = house.worker()
        worker.end(worker.take(1, ["copy"]), status=end)
        waiting = house.tasks(kind="sum", waits=True)
        child = house.tasks(kind="copy", keys=[b"k"], hold=Hold.ONCE, join=waiting.first)
        worker.done(worker.take(1, ["walk"]), children=[child, waiting], joins=[NewJoins.one(waiting.first, 1)])
        assert house.join(run, waiting.first).fired
        assert members_and_broken(worker.take(1, ["sum"]).details[waiting.first]) == (1, broken)


@case("keys")
def a_staged_duplicate_that_a_join_counts_arrives_when_the_holder_ends(house: House) -> None:
    holder = house.tasks(keys=[b"k"], hold=Hold.ONCE, kind="copy")
    run = house.any_run(holder, house.tasks())
    worker = house.worker()
    held, root = worker.take(1, ["copy"]), worker.take(1, ["walk"])
    waiting = house.tasks(kind="sum", waits=True)
    staged = house.tasks(2, kind="copy", keys=[b"k", b"other"], hold=Hold.ONCE, join=waiting.first)
    worker.stage(root, staged)
    worker.done(root, children=[waiting], joins=[NewJoins.one(waiting.first, 2)], publish=[staged.first])
    worker.done(worker.take(1, ["copy"]))
    assert not house.join(run, waiting.first).fired
    worker.done(held)
    assert house.join(run, waiting.first).fired


def _keyed(house: House, hold: Hold, kind: str = "walk", keep: int = 0, again: bool = False) -> NewTasks:
    """One task with the key that everybody wants."""
    return house.tasks(kind=kind, keys=[b"k"], hold=hold, keep=keep, again=again)


def _end(house: House, run: int, status: Status) -> None:
    """End the "walk" of the run that is to be had."""
    worker = house.worker()
    claim = only(worker.ask(want(kinds=["walk"], runs=[run])).claims)
    worker.end(claim, status=status)
