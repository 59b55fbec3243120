"""Values: named, versioned bytes that all of a store share, swapped alone or with the end of a task.

A swap happens only if the version that its maker has seen still stands. One that loses changes nothing, and takes all
that goes with it along: the other swaps of the verb, or the part of the commit, whose task is held as before.
"""

from __future__ import annotations

from functools import partial

from ramify.errors import BadPayload, Reaped, StaleStamp
from ramify.model.claim import Claim
from ramify.model.commit import Part
from ramify.model.context import SetValue
from ramify.model.event import Status, Tally
from ramify.model.key import Hold
from ramify.model.policy import SECOND
from ramify.model.process import Stamp
from ramify.model.run import RunState
from ramify.model.segment import SegmentState
from ramify.model.task import MAX_NAME
from ramify.model.value import MAX_VALUE, Key, StoredValue, Swap
from ramify.testing.conformance.house import House, Worker, refused, tasks_of, want
from ramify.testing.conformance.registry import case

ODD = b'"\0\xff"'


def _set(house: House, name: str, value: bytes | None, seen: int | None = None, **rest: int) -> Swap:
    return Swap("quota", name, seen, house.store.reserve(1), value, **rest)


def _read(house: House, name: str) -> bytes | None:
    found = house.client().reads.value("quota", name)
    return found.value if found is not None and found.is_live(house.store.now()) else None


def _version(house: House, name: str) -> int:
    found = house.store.reads.value("quota", name)
    return 0 if found is None else found.version


def _swap(worker: Worker, *swaps: Swap) -> bool:
    return worker.store.swap(worker.stamp(), swaps)


def _claimed(house: House, tasks: int = 1) -> tuple[int, Worker, Claim]:
    run = house.run(house.tasks(tasks))
    worker = house.worker()
    return run, worker, worker.take()


def _part(claim: Claim, task: int, *swaps: Swap, **rest: object) -> Part:
    return Part(claim.token, [task], swaps=swaps, **rest)  # type: ignore[arg-type]


@case("swap")
def a_value_is_what_was_last_swapped_in(house: House) -> None:
    worker = house.worker()
    assert _read(house, "a") is None
    first = _set(house, "a", ODD, 0)
    assert _swap(worker, first)
    assert house.client().reads.value("quota", "a") == StoredValue("quota", "a", ODD, first.version)
    second = _set(house, "a", b"2", first.version)
    assert _swap(worker, second)
    assert (_read(house, "a"), _version(house, "a")) == (b"2", second.version)


@case("swap")
def of_two_that_saw_the_same_only_one_wins(house: House) -> None:
    one, two = house.worker(), house.worker()
    assert _swap(one, _set(house, "a", b"1", 0))
    assert not _swap(two, _set(house, "a", b"2", 0))
    seen = _version(house, "a")
    assert _swap(two, _set(house, "a", b"3", seen))
    assert not _swap(one, _set(house, "a", b"4", seen))
    assert _read(house, "a") == b"3"


@case("swap")
def a_blind_swap_always_wins(house: House) -> None:
    worker = house.worker()
    assert _swap(worker, _set(house, "a", b"1"))
    assert _swap(worker, _set(house, "a", b"2"))
    assert _read(house, "a") == b"2"


@case("swap")
def a_value_that_was_deleted_and_made_again_is_another_one(house: House) -> None:
    worker, slow = house.worker(), house.worker()
    assert _swap(worker, _set(house, "a", b"1", 0))
    seen = _version(house, "a")
    assert _swap(worker, _set(house, "a", None, seen))
    assert _read(house, "a") is None
    assert not _swap(slow, _set(house, "a", b"2", seen))
    assert _swap(worker, _set(house, "a", b"1", 0))
    assert not _swap(slow, _set(house, "a", b"2", seen))
    assert _read(house, "a") == b"1"


@case("swap")
def several_are_swapped_together_or_not_at_all(house: House) -> None:
    worker = house.worker()
    assert _swap(worker, _set(house, "a", b"1", 0), _set(house, "b", b"1", 0))
    assert not _swap(worker, _set(house, "a", b"2", _version(house, "a")), _set(house, "b", b"2", 0))
    assert (_read(house, "a"), _read(house, "b")) == (b"1", b"1")
    look = Swap("quota", "b", _version(house, "b"), 0)
    assert _swap(worker, _set(house, "a", b"3", _version(house, "a")), look)
    assert (_read(house, "a"), _read(house, "b")) == (b"3", b"1")
    assert not _swap(worker, _set(house, "a", b"4", _version(house, "a")), Swap("quota", "b", 0, 0))
    assert _read(house, "a") == b"3"


@case("swap")
def an_expired_value_counts_as_absent(house: House) -> None:
    worker = house.worker()
    until = house.store.now() + 10 * SECOND
    assert _swap(worker, _set(house, "a", b"1", 0, expires=until))
    seen = _version(house, "a")
    house.clock.advance(9)
    assert _read(house, "a") == b"1"
    assert not _swap(worker, _set(house, "a", b"2", 0))
    house.clock.advance(2)
    assert _read(house, "a") is None
    assert not _swap(worker, _set(house, "a", b"2", seen))
    assert _swap(worker, _set(house, "a", b"3", 0))
    assert _read(house, "a") == b"3"


@case("swap")
def sent_again_it_answers_the_same_and_changes_nothing(house: House) -> None:
    worker, other = house.worker(), house.worker()
    won, lost = [_set(house, "a", b"1", 0)], [_set(house, "a", b"2", 0)]
    assert worker.store.swap(worker.stamp(), won)
    assert _swap(other, _set(house, "a", b"other", _version(house, "a")))
    with house.nothing_changes():
        assert worker.store.swap(worker.last, won)
    assert not worker.store.swap(worker.stamp(), lost)
    assert _swap(other, _set(house, "a", None))
    with house.nothing_changes():
        assert not worker.store.swap(worker.last, lost), "what was lost is lost, although it would win now"
        with refused(StaleStamp):
            worker.store.swap(Stamp(worker.process, worker.n - 1), won)


@case("swap")
def a_process_that_was_reaped_swaps_nothing(house: House) -> None:
    frozen = house.worker()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        _swap(frozen, _set(house, "a", b"1"))


@case("swap")
def spaces_do_not_meet_and_pages_come_in_order(house: House) -> None:
    worker = house.worker()
    names = sorted(["b", "a", "A", "é", "\ue000", "\U0001f600", "a b", "n" * MAX_NAME])
    assert _swap(worker, *(Swap(space, n, 0, house.store.reserve(1), b"1") for space in ("x", "w") for n in names))
    assert _read(house, "a") is None
    keys: list[Key] = []
    while some := house.store.reads.values(after=keys[-1] if keys else ("", ""), limit=3):
        assert len(some) <= 3
        keys += [(each.space, each.name) for each in some]
    assert keys == [(space, name) for space in ("w", "x") for name in names]
    assert [each.name for each in house.store.reads.values(space="x", after=("x", names[2]))] == names[3:]
    assert house.store.reads.values(space="y") == []


@case("swap")
def values_of_the_full_size_are_kept_whole(house: House) -> None:
    assert _swap(house.worker(), _set(house, "large", bytes(MAX_VALUE)), _set(house, "empty", b""))
    assert (_read(house, "large"), _read(house, "empty")) == (bytes(MAX_VALUE), b"")


@case("swap")
def swaps_that_do_not_fit_are_refused(house: House) -> None:
    worker = house.worker()
    fine = _set(house, "fine", b"1")
    wrong = {
        "a NUL in the name": _set(house, "a\0", b"1"),
        "a lone surrogate in the name": _set(house, "\udc80", b"1"),
        "an empty name": _set(house, "", b"1"),
        "a name that is too long": _set(house, "n" * (MAX_NAME + 1), b"1"),
        "an empty space": Swap("", "a", None, 7, b"1"),
        "a value over the limit": _set(house, "a", bytes(MAX_VALUE + 1)),
        "a version that is no id": Swap("quota", "a", 0, -1, b"1"),
        "a value without a version": Swap("quota", "a", 0, 0, b"1"),
        "a look at nothing": Swap("quota", "a", None, 0),
        "an end before all time": _set(house, "a", b"1", expires=-1),
        "the same name once more": _set(house, "fine", b"2"),
    }
    for what, swap in wrong.items():
        with house.nothing_changes():
            try:
                partial(worker.store.swap, Stamp(worker.process, worker.n + 1))([fine, swap])
            except BadPayload:
                continue
            raise AssertionError(f"{what} was accepted")
    for name in ("", "\udc80"):
        with refused(BadPayload):
            house.store.reads.value("quota", name)


@case("swap")
def vacuum_removes_what_has_expired(house: House) -> None:
    worker = house.worker()
    soon, late = (house.store.now() + seconds * SECOND for seconds in (1, 100))
    assert _swap(worker, *(_set(house, f"soon {n}", b"1", expires=soon) for n in range(3)))
    assert _swap(worker, _set(house, "late", b"1", expires=late), _set(house, "ever", b"1"))
    assert house.store.vacuum().values == 0
    house.clock.advance(2)
    assert (house.store.vacuum(2).values, house.store.vacuum(2).values, house.store.vacuum(2).values) == (2, 1, 0)
    assert [each.name for each in house.store.reads.values()] == ["ever", "late"]


@case("commit")
def a_value_is_swapped_with_the_end_of_its_task(house: House) -> None:
    run, worker, claim = _claimed(house)
    answer = worker.done(claim, swaps=[_set(house, "a", b"1", 0), _set(house, "b", b"1")])
    assert answer.lost == ()
    assert (_read(house, "a"), _read(house, "b")) == (b"1", b"1")
    assert house.settle(run).state is RunState.DONE


@case("commit")
def a_lost_swap_takes_its_part_along_and_its_task_is_held_as_before(house: House) -> None:
    run, worker, claim = _claimed(house, 2)
    one, two = claim.tasks
    other = house.worker()
    assert _swap(other, _set(house, "a", b"other", 0))
    lost = _part(
        claim, one, _set(house, "b", b"1"), _set(house, "a", b"mine", 0),
        children=[house.tasks(3)], values=[b"result"], sets=[SetValue(one, "total", b"1")],
    )  # fmt: skip
    with house.nothing_changes():
        answer = worker.commit(lost)
    assert (answer.refused, answer.lost, answer.seq) == ((), (one,), 0)
    assert (_read(house, "a"), _read(house, "b")) == (b"other", None)
    seen = _version(house, "a")
    assert worker.commit(_part(claim, one, _set(house, "a", b"mine", seen))).lost == ()
    assert _read(house, "a") == b"mine"
    worker.done(claim, [two])
    assert [house.events(task) for task in (one, two)] == [[Status.DONE]] * 2
    assert house.settle(run).state is RunState.DONE


@case("commit")
def parts_swap_in_their_order_and_may_share_a_token(house: House) -> None:
    run, worker, claim = _claimed(house, 6)
    one, two, three, four, five, six = claim.tasks
    first = _set(house, "a", b"1", 0)
    second = _set(house, "a", b"2", first.version)
    third = _set(house, "a", b"3", second.version)
    answer = worker.commit(
        _part(claim, one, first),
        Part(claim.token, [four, five]),
        _part(claim, two, _set(house, "a", b"lost", 0)),
        _part(claim, three, second),
        _part(claim, six, third),
    )
    assert (answer.refused, answer.lost) == ((), (two,))
    assert _read(house, "a") == b"3"
    assert house.row_of(two).tasks == [two]
    worker.commit(_part(claim, two, _set(house, "a", b"4", third.version)))
    assert house.count(run, Status.DONE) == 6
    assert house.settle(run).state is RunState.DONE


@case("commit")
def a_part_that_discards_may_follow_the_one_that_ended_its_claim(house: House) -> None:
    run, worker, claim = _claimed(house, 2)
    one, two = claim.tasks
    staged = [house.tasks(3), house.tasks(2)]
    assert worker.stage(claim, *staged)
    answer = worker.commit(
        _part(claim, one, _set(house, "a", b"1")),
        _part(claim, two, _set(house, "b", b"1")),
        Part(claim.token, [], discard=[tasks.first for tasks in staged]),
    )
    assert (answer.lost, answer.refused) == ((), ())
    assert house.count(run, Status.DONE) == 2
    assert house.settle(run).state is RunState.DONE
    assert (house.store.vacuum().tasks, house.store.vacuum().tasks) == (5, 0)


@case("commit")
def a_task_whose_swap_was_lost_arrives_nowhere(house: House) -> None:
    tasks, waiting = house.tasks(2), house.tasks(1, kind="sum", waits=True)
    run = house.start_graph([tasks, waiting], [(tasks.first, waiting.first)])
    worker = house.worker()
    claim = worker.take()
    one, two = claim.tasks
    answer = worker.commit(
        _part(claim, one, _set(house, "a", b"lost", seen=4711)), _part(claim, two, _set(house, "a", b"won"))
    )
    assert answer.lost == (one,)
    assert house.row_of(waiting.first).state is SegmentState.WAITING
    worker.commit(_part(claim, one, _set(house, "a", b"won", _version(house, "a"))))
    assert house.row_of(waiting.first).state is SegmentState.READY
    assert not house.settle(run).state.is_end


@case("commit")
def a_lost_part_does_not_hold_up_the_others_nor_the_next_claim(house: House) -> None:
    run = house.any_run(house.tasks(1, lane="a"), house.tasks(1, lane="b"), house.tasks(1, lane="c"))
    worker = house.worker()
    one, two = worker.claim(2)
    swap = _set(house, "a", b"1", 7)
    children = house.tasks(1)
    answer = worker.commit(_part(one, one.tasks[0], swap), Part(two.token, two.tasks, children=[children]), then=want())
    assert answer.lost == tuple(one.tasks)
    assert answer.seq > 0
    assert [*children.ids] == [task for task in tasks_of(answer.claimed.claims) if task in children.ids]
    assert house.ended(one.tasks[0]) is None
    assert house.count(run, Tally.ADDED) == 4
    again = worker.store.commit(worker.last, [_part(one, one.tasks[0], swap), Part(two.token, two.tasks)], want())
    assert (again.lost, again.refused, again.seq) == (answer.lost, answer.refused, answer.seq)


@case("commit")
def a_void_token_swaps_nothing(house: House) -> None:
    _, worker, claim = _claimed(house)
    worker.release(claim)
    with house.nothing_changes():
        answer = worker.commit(_part(claim, claim.tasks[0], _set(house, "a", b"1")))
    assert (answer.refused, answer.lost) == ((claim.token,), ())


@case("commit")
def a_lost_part_keeps_the_key_of_its_task_and_that_of_its_child_free(house: House) -> None:
    run = house.any_run(house.tasks([b""], keys=[b"k"], hold=Hold.UNIQUE))
    worker = house.worker()
    claim = worker.take()
    child = house.tasks([b""], keys=[b"child"], hold=Hold.ONCE)
    worker.commit(_part(claim, claim.tasks[0], _set(house, "a", b"1", 7), children=[child]))
    assert house.add(run, house.tasks([b""], keys=[b"k"], hold=Hold.UNIQUE)).taken
    assert not house.add(run, house.tasks([b""], keys=[b"child"], hold=Hold.ONCE)).taken


@case("commit")
def parts_with_swaps_that_do_not_fit_are_refused(house: House) -> None:
    _, worker, claim = _claimed(house, 3)
    one, two, _ = claim.tasks
    swap = _set(house, "a", b"1")
    wrong = {
        "two tasks": [Part(claim.token, [one, two], swaps=[swap])],
        "no task": [Part(claim.token, [], swaps=[swap])],
        "a task that failed": [Part(claim.token, [one], Status.FAILED, swaps=[swap])],
        "a value over the limit": [_part(claim, one, _set(house, "a", bytes(MAX_VALUE + 1)))],
        "the same task twice": [_part(claim, one, swap), _part(claim, one, _set(house, "b", b"1"))],
        "a task of another part": [Part(claim.token, [one, two]), _part(claim, one, swap)],
        "two parts without swaps": [Part(claim.token, [one]), Part(claim.token, [two])],
    }
    for what, parts in wrong.items():
        with house.nothing_changes():
            try:
                partial(worker.store.commit, Stamp(worker.process, worker.n + 1))(parts)
            except BadPayload:
                continue
            raise AssertionError(f"{what} was accepted")
