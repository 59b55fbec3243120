"""Context: values under names that the tasks of a run set with their end, and that any of them may read.

A name is set once. Of several tasks that set it, the one that is committed first decides; each of the others ends as it
would have, with an OUTRUN event before its end that says so. A value that is set to overwrite replaces what is there,
and a task that is run again in a new life replaces what it had set itself. A part that is refused sets nothing.
"""

from __future__ import annotations

from functools import partial

import msgspec

from ramify.errors import BadPayload, RunForgotten, UnknownRun
from ramify.model.claim import Claim
from ramify.model.commit import Part
from ramify.model.context import ContextValue, SetValue
from ramify.model.event import Status
from ramify.model.process import Stamp
from ramify.model.run import RunState
from ramify.model.task import MAX_NAME, MAX_PAYLOAD
from ramify.testing.conformance.house import House, Worker, refused
from ramify.testing.conformance.registry import case

ODD = b'"\0\xff"'


def _claimed(house: House, tasks: int = 1) -> tuple[int, Worker, Claim]:
    run = house.run(house.tasks(tasks))
    worker = house.worker()
    return run, worker, worker.take()


def _value(house: House, run: int, name: str = "total") -> bytes | None:
    found = house.client().reads.context_value(run, name)
    return None if found is None else found.value


@case("context")
def what_a_task_sets_stands_once_it_is_done(house: House) -> None:
    run, worker, claim = _claimed(house)
    task = claim.tasks[0]
    assert _value(house, run) is None
    house.clock.advance(5)
    worker.done(claim, sets=[SetValue(task, "total", ODD), SetValue(task, "ünicode \U0001f600", b"2")])
    now = house.store.reads.tail(0).commits[-1].at
    both = [ContextValue("total", ODD, task, now, now), ContextValue("ünicode \U0001f600", b"2", task, now, now)]
    assert house.client().reads.context(run) == both
    assert [house.store.reads.context_value(run, each.name) for each in both] == both
    assert house.events(task) == [Status.DONE]


@case("context")
def it_belongs_to_one_run(house: House) -> None:
    run, worker, claim = _claimed(house)
    other = house.run(house.tasks())
    worker.done(claim, sets=[SetValue(claim.tasks[0], "total", b"1")])
    assert _value(house, other) is None
    assert house.store.reads.context(other) == []
    its = worker.take()
    worker.done(its, sets=[SetValue(its.tasks[0], "total", b"2")])
    assert (_value(house, run), _value(house, other)) == (b"1", b"2")


@case("context")
def of_two_that_set_a_name_the_first_committed_decides_and_the_other_is_told(house: House) -> None:
    run = house.run(house.tasks(2))
    slow, quick = house.worker(), house.worker()
    early, late = slow.take(1), quick.take(1)
    quick.done(late, sets=[SetValue(late.tasks[0], "total", b"2")])
    before = house.store.reads.context(run)
    house.clock.advance(5)
    slow.done(early, sets=[SetValue(early.tasks[0], "total", b"1")], values=[b"its result"])
    assert house.store.reads.context(run) == before
    assert house.events(early.tasks[0]) == [Status.OUTRUN, Status.DONE]
    told, end = house.store.reads.events(early.tasks[0], early.tasks[0])
    assert end.value == b"its result"
    assert msgspec.json.decode(told.value or b"") == {"name": "total", "first": late.tasks[0]}
    assert house.count(run, Status.OUTRUN) == 1
    assert house.ended(early.tasks[0]) is Status.DONE
    assert house.settle(run).state is RunState.DONE


@case("context")
def within_one_commit_they_come_in_order(house: House) -> None:
    run = house.run(*(house.tasks(2, lane=f"lane {n}") for n in range(3)))
    worker = house.worker()
    claims = worker.claim(6)
    tasks = [task for claim in claims for task in claim.tasks]
    parts = [Part(c.token, c.tasks, sets=[SetValue(t, "total", b"%d" % t) for t in c.tasks]) for c in claims]
    worker.commit(*parts)
    assert _value(house, run) == b"%d" % tasks[0]
    assert [house.events(task) for task in tasks] == [[Status.DONE], *[[Status.OUTRUN, Status.DONE]] * 5]
    assert house.count(run, Status.OUTRUN) == 5


@case("context")
def what_overwrites_replaces_the_value_and_not_the_time_of_the_first(house: House) -> None:
    run, worker, claim = _claimed(house, 3)
    one, two, three = claim.tasks
    worker.done(claim, [one], sets=[SetValue(one, "total", b"1")])
    first = house.store.reads.context_value(run, "total")
    assert first is not None
    house.clock.advance(5)
    worker.done(claim, [two], sets=[SetValue(two, "total", b"2", overwrite=True)])
    second = house.store.reads.context_value(run, "total")
    assert second is not None
    assert (second.value, second.task, second.first_set) == (b"2", two, first.first_set)
    assert second.last_set > first.last_set
    worker.done(claim, [three], sets=[SetValue(three, "new", b"3", overwrite=True), SetValue(three, "total", b"3")])
    assert _value(house, run, "new") == b"3"
    assert house.store.reads.context_value(run, "total") == second
    assert house.events(two) == [Status.DONE]
    assert house.events(three) == [Status.OUTRUN, Status.DONE]


@case("context")
def a_void_token_sets_nothing(house: House) -> None:
    _, worker, claim = _claimed(house)
    worker.release(claim)
    part = Part(claim.token, claim.tasks, sets=[SetValue(claim.tasks[0], "total", b"1", overwrite=True)])
    with house.nothing_changes():
        assert worker.commit(part).refused == (claim.token,)
    again = worker.take()
    worker.done(again, sets=[SetValue(again.tasks[0], "total", b"2")])
    assert house.events(again.tasks[0]) == [Status.DONE]


@case("context")
def sent_again_it_is_set_once(house: House) -> None:
    run, worker, claim = _claimed(house, 2)
    one, two = claim.tasks
    part = Part(claim.token, [one], sets=[SetValue(one, "total", b"1"), SetValue(one, "other", b"1", overwrite=True)])
    worker.commit(part)
    with house.nothing_changes():
        house.clock.advance(5)
        worker.store.commit(worker.last, [part])
    worker.done(claim, [two], sets=[SetValue(two, "total", b"2")])
    assert _value(house, run) == b"1"
    assert house.events(one) == [Status.DONE]


@case("context")
def it_stays_when_tasks_are_opened_again_and_each_may_set_its_own_again(house: House) -> None:
    run, worker, claim = _claimed(house, 2)
    one, two = claim.tasks
    worker.done(claim, [one], sets=[SetValue(one, "total", b"1")])
    worker.end(claim, [two], Status.FAILED)
    house.settle(run)
    worker.reopen(run, [one, two])
    assert _value(house, run) == b"1"
    house.settle(run)
    for life in worker.claim():
        worker.done(life, sets=[SetValue(task, "total", b"%d" % task) for task in life.tasks])
    assert _value(house, run) == b"%d" % one
    assert house.events(one) == [Status.DONE, Status.REOPENED, Status.DONE]
    assert house.events(two) == [Status.FAILED, Status.REOPENED, Status.OUTRUN, Status.DONE]


@case("context")
def who_is_told_leaves_the_others_of_its_row_as_they_are(house: House) -> None:
    run, worker, claim = _claimed(house, 5)
    one, two, three, four, five = claim.tasks
    worker.done(claim, [one], sets=[SetValue(one, "a", b"1"), SetValue(one, "b", b"1")])
    outcomes = [Status.DONE, Status.RETRYING, Status.DONE]
    too_late = [SetValue(two, "a", b"2"), SetValue(two, "b", b"2"), SetValue(four, "c", b"4")]
    worker.commit(Part(claim.token, [two, three, four], outcomes, sets=too_late))
    worker.done(claim, [three, five], sets=[SetValue(three, "a", b"3")])
    told = [Status.OUTRUN, Status.OUTRUN, Status.DONE]
    assert [house.events(t) for t in (two, three, four, five)] == [
        told, [Status.RETRYING, Status.OUTRUN, Status.DONE], [Status.DONE], [Status.DONE],
    ]  # fmt: skip
    assert [event.n for event in house.store.reads.events(three, three)] == [1, 2, 3]
    assert house.count(run, Status.OUTRUN) == 3
    assert len(house.log()) == 9
    assert house.settle(run).state is RunState.DONE


@case("context")
def names_come_in_order_page_by_page(house: House) -> None:
    run, worker, claim = _claimed(house)
    names = sorted(["b", "a", "A", "é", "\ue000", "\U0001f600", "a b", "n" * MAX_NAME])
    worker.done(claim, sets=[SetValue(claim.tasks[0], name, b"1") for name in reversed(names)])
    found: list[str] = []
    while some := house.store.reads.context(run, after=found[-1] if found else "", limit=3):
        assert len(some) <= 3
        found += [each.name for each in some]
    assert found == names


@case("context")
def a_value_of_the_full_size_is_kept_whole(house: House) -> None:
    run, worker, claim = _claimed(house)
    large = bytes(MAX_PAYLOAD)
    worker.done(claim, sets=[SetValue(claim.tasks[0], "large", large)])
    assert _value(house, run, "large") == large


@case("context")
def sets_that_do_not_fit_are_refused(house: House) -> None:
    _, worker, claim = _claimed(house, 3)
    one, two, three = claim.tasks
    wrong = {
        "a NUL in the name": SetValue(one, "a\0", b"1"),
        "a lone surrogate in the name": SetValue(one, "\udc80", b"1"),
        "an empty name": SetValue(one, "", b"1"),
        "a name that is too long": SetValue(one, "n" * (MAX_NAME + 1), b"1"),
        "a name that is no text": SetValue(one, 7, b"1"),  # type: ignore[arg-type]
        "a value over the limit": SetValue(one, "a", bytes(MAX_PAYLOAD + 1)),
        "a task that is not done": SetValue(two, "a", b"1"),
        "a task of another part": SetValue(three, "a", b"1"),
        "the same name once more": SetValue(one, "fine", b"2", overwrite=True),
    }
    for what, new in wrong.items():
        part = Part(claim.token, [one, two], [Status.DONE, Status.FAILED], sets=[SetValue(one, "fine", b"1"), new])
        with house.nothing_changes():
            try:
                partial(worker.store.commit, Stamp(worker.process, worker.n + 1))([part])
            except BadPayload:
                continue
            raise AssertionError(f"{what} was accepted")
    with refused(BadPayload):
        worker.store.commit(worker.stamp(), [Part(claim.token, [one], Status.OUTRUN)])
    with refused(BadPayload):
        house.store.reads.context_value(house.run(), "\udc80")


@case("context")
def nobody_sees_that_of_a_run_which_is_not_there(house: House) -> None:
    run = house.run(house.tasks())
    for read in (house.store.reads.context, partial(house.store.reads.context_value, name="total")):
        with refused(UnknownRun):
            read(run + 1_000)


@case("context")
def it_goes_when_the_run_is_forgotten(house: House) -> None:
    run, worker, claim = _claimed(house)
    worker.done(claim, sets=[SetValue(claim.tasks[0], f"name {n}", b"1") for n in range(5)])
    other = house.run(house.tasks())
    its = worker.take()
    worker.done(its, sets=[SetValue(its.tasks[0], "kept", b"1")])
    house.settle(run)
    calls = next(n for n in range(1, 10) if not house.store.forget(run, limit=2).more)
    assert calls >= 3, "two values at a time"
    for read in (house.store.reads.context, partial(house.store.reads.context_value, name="name 1")):
        with refused(RunForgotten):
            read(run)
    assert _value(house, other, "kept") == b"1"
