"""Topics: what a commit or a swap publishes is in its topic exactly if that transaction is, under the next number.

Numbers of a topic are dense and follow the order of commits, so a reader that goes on after the number of the last one
misses nothing. A swap that moves a reader adds its tasks in the same verb: of two that move it, one adds them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec.structs import replace

from ramify.errors import BadPayload, Reaped
from ramify.model.addition import Addition
from ramify.model.commit import Part
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters, Rule
from ramify.model.policy import SECOND
from ramify.model.process import Stamp
from ramify.model.run import NewRun, Order, RunState
from ramify.model.task import MAX_ID, MAX_KEEP, MAX_NAME, NewTasks
from ramify.model.topic import MAX_PUBLICATION, Publication, StoredPublication, TopicNumbers
from ramify.model.value import Swap
from ramify.testing.conformance.house import House, Worker, only, refused
from ramify.testing.conformance.registry import case

ODD = '"\\u0000 é \U0001f600"'.encode()
QUEUE = "jobs/mail"


def _publish(worker: Worker, *publications: Publication) -> bool:
    return worker.store.swap(worker.stamp(), (), publications=publications)


def _bill(value: bytes = b"1", topic: str = "bills", **rest: object) -> Publication:
    return Publication(topic, value, **rest)  # type: ignore[arg-type]


def _read(house: House, topic: str = "bills", after: int = 0) -> list[tuple[int, bytes]]:
    return [(each.number, each.value) for each in house.client().reads.publications(topic, after=after)]


def _cursor(house: House, seen: int, to: bytes) -> Swap:
    return Swap("cursors", "billing", seen, house.store.reserve(1), to)


def _mails(house: House, *groups: NewTasks) -> Addition:
    return Addition.opening(
        NewRun(house.store.reserve(1), name=QUEUE, shape="jobs", order=Order.ANY, endless=True), groups
    )


def _live(house: House) -> list[int]:
    found = house.store.reads.find_run(QUEUE)
    return [] if found is None else sorted(task for row in house.live(found.id) for task in row.tasks)


@case("swap")
def what_is_published_has_the_next_numbers_of_its_topic(house: House) -> None:
    one, two = house.worker(), house.worker()
    assert _read(house) == []
    assert _publish(one, _bill(b"1"), _bill(b"x", "other"), _bill(b"2"))
    assert _publish(two, _bill(b"3"))
    assert _publish(one, _bill(b"4"))
    assert _read(house) == [(1, b"1"), (2, b"2"), (3, b"3"), (4, b"4")]
    assert _read(house, "other") == [(1, b"x")]


@case("swap")
def a_publication_is_stored_as_it_was_sent(house: House) -> None:
    worker = house.worker()
    at = house.store.now()
    assert _publish(worker, _bill(ODD, key="é" * MAX_NAME, keep=5), _bill(bytes(MAX_PUBLICATION)), _bill(b""))
    odd, large, empty = house.client().reads.publications("bills")
    assert odd == StoredPublication("bills", 1, ODD, "é" * MAX_NAME, odd.at, odd.at + 5, None)
    assert at <= odd.at <= house.store.now()
    assert (large.value, large.key, large.expires) == (bytes(MAX_PUBLICATION), None, None)
    assert empty.value == b""


@case("swap")
def the_times_of_a_topic_never_fall(house: House) -> None:
    assert _publish(house.worker(), _bill(keep=SECOND))
    house.clock.set_wall(-3_600)
    assert _publish(house.worker(), _bill(keep=SECOND))
    one, two = house.store.reads.publications("bills")
    assert (one.at, one.expires) <= (two.at, two.expires)


@case("swap")
def pages_of_a_topic_go_on_after_a_number(house: House) -> None:
    assert _publish(house.worker(), *(_bill(b"%d" % n) for n in range(1, 8)))
    seen: list[int] = []
    while some := house.store.reads.publications("bills", after=seen[-1] if seen else 0, limit=3):
        assert len(some) <= 3
        seen += [each.number for each in some]
    assert seen == [1, 2, 3, 4, 5, 6, 7]
    assert _read(house, after=6) == [(7, b"7")]
    assert _read(house, after=7) == _read(house, after=MAX_ID - 1) == []


@case("swap")
def topics_are_listed_by_name_with_their_first_and_last_number(house: House) -> None:
    worker, names = house.worker(), sorted(["b", "a", "A", "é", "\U0001f600", "\ue000", "a.b", "a.%", "n" * MAX_NAME])
    assert _publish(worker, *(_bill(topic=name) for name in reversed(names)), _bill(topic="a.b"))
    listed: list[TopicNumbers] = []
    while some := house.store.reads.topics(after=listed[-1].name if listed else "", limit=4):
        assert len(some) <= 4
        listed += some
    assert listed == [TopicNumbers(name, 1, 1 + (name == "a.b")) for name in names]
    assert [each.name for each in house.store.reads.topics(prefix="a.")] == ["a.%", "a.b"]
    assert [each.name for each in house.store.reads.topics(prefix="a.", after="a.%")] == ["a.b"]
    assert house.store.reads.topics(prefix="a.b.") == []


@case("swap")
def many_that_publish_at_once_get_numbers_without_gap_or_repetition(house: House) -> None:
    workers = [house.worker() for _ in range(4)]

    def publish(worker: Worker) -> None:
        for n in range(10):
            pair = [_bill(b"%d" % n, "b"), _bill(b"%d" % n, "a")]
            assert _publish(worker, *(pair if worker is workers[0] else reversed(pair)))

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(publish, workers))
    for topic in ("a", "b"):
        found = house.store.reads.publications(topic)
        assert [each.number for each in found] == list(range(1, 41))
        assert [each.at for each in found] == sorted(each.at for each in found)


@case("swap")
def a_swap_that_wins_brings_what_it_adds_and_publishes(house: House) -> None:
    worker, mails = house.worker(), house.tasks(2, kind="copy", queue="mail")
    moved = worker.store.swap(worker.stamp(), [_cursor(house, 0, b"1")], [_mails(house, mails)], [_bill()])
    assert moved
    assert only(house.store.reads.values()).value == b"1"
    assert _live(house) == list(mails.ids)
    assert _read(house) == [(1, b"1")]
    found = house.store.reads.find_run(QUEUE)
    assert found is not None
    assert (found.generation, found.state) == (1, RunState.OPEN)
    assert house.store.reads.tail(found.since).starts, "a run that a swap opened has no place in the log"
    assert worker.take(kinds=["copy"]).run == found.id


@case("swap")
def a_swap_that_loses_adds_and_publishes_nothing(house: House) -> None:
    worker, other = house.worker(), house.worker()
    assert other.store.swap(other.stamp(), [_cursor(house, 0, b"1")])
    lost = [_cursor(house, 0, b"2")], [_mails(house, house.tasks(kind="copy"))], [_bill()]
    with house.nothing_changes():
        assert not worker.store.swap(worker.stamp(), *lost)
        assert not worker.store.swap(worker.last, *lost)
    assert _publish(other, _bill(b"next"))
    assert _read(house) == [(1, b"next")], "what was lost used up a number"


@case("swap")
def of_two_that_move_a_reader_one_adds_its_tasks(house: House) -> None:
    workers = [house.worker() for _ in range(4)]
    groups = [house.tasks(kind="copy") for _ in workers]

    def move(worker: Worker, tasks: NewTasks) -> bool:
        return worker.store.swap(worker.stamp(), [_cursor(house, 0, b"1")], [_mails(house, tasks)])

    with ThreadPoolExecutor(len(workers)) as pool:
        won = list(pool.map(move, workers, groups))
    assert won.count(True) == 1
    assert _live(house) == list(groups[won.index(True)].ids)


@case("swap")
def a_swap_sent_again_publishes_and_adds_once(house: House) -> None:
    worker, mails = house.worker(), house.tasks(kind="copy")
    sent = (), [_mails(house, mails)], [_bill()]
    assert worker.store.swap(worker.stamp(), *sent)
    with house.nothing_changes():
        assert worker.store.swap(worker.last, *sent)
    assert (_live(house), len(_read(house))) == (list(mails.ids), 1)


@case("swap")
def a_process_that_was_reaped_publishes_nothing(house: House) -> None:
    frozen = house.worker()
    house.write_off(frozen)
    with house.nothing_changes(), refused(Reaped):
        _publish(frozen, _bill())


@case("swap")
def publications_that_do_not_fit_are_refused(house: House) -> None:
    worker = house.worker()
    wrong = {
        "no name": _bill(topic=""),
        "a NUL in the name": _bill(topic="a\0"),
        "a name that is too long": _bill(topic="n" * (MAX_NAME + 1)),
        "a name of ours": _bill(topic="ramify.failures"),
        "an empty key": _bill(key=""),
        "a lone surrogate in the key": _bill(key="\udc80"),
        "a value over the limit": _bill(bytes(MAX_PUBLICATION + 1)),
        "less than no time": _bill(keep=-1),
        "too much time": _bill(keep=MAX_KEEP + 1),
        "a task, without its end": _bill(task=1),
    }
    for what, new in wrong.items():
        with house.nothing_changes():
            try:
                worker.store.swap(Stamp(worker.process, worker.n + 1), (), publications=[_bill(), new])
            except BadPayload:
                continue
            raise AssertionError(f"{what} was accepted")
    for read in (
        partial(house.store.reads.publications, ""),
        partial(house.store.reads.publications, "\udc80"),
        partial(house.store.reads.publications, "a", after=-1),
        partial(house.store.reads.publications, "a", limit=0),
    ):
        with refused(BadPayload):
            read()


@case("swap")
def additions_of_a_swap_that_do_not_fit_are_refused(house: House) -> None:
    worker, run = house.worker(), house.queue(house.tasks(1))
    known = only(house.store.reads.tasks(run).rows)
    wrong = {
        "a run that may have ended": Addition(run, [house.tasks()]),
        "tasks that wait": _mails(house, house.tasks(waits=True)),
        "ids that are in the log": _mails(house, NewTasks(known.id, "copy", [b""])),
        "a run that was not reserved": Addition.opening(
            NewRun(MAX_ID - 1, name=QUEUE, shape="jobs", order=Order.ANY, endless=True), [house.tasks()]
        ),
    }
    for what, new in wrong.items():
        with house.nothing_changes():
            try:
                worker.store.swap(Stamp(worker.process, worker.n + 1), [_cursor(house, 0, b"1")], [new], [_bill()])
            except BadPayload:
                continue
            raise AssertionError(f"{what} was accepted")


@case("commit")
def what_a_part_publishes_comes_with_the_ends_of_its_tasks(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    claim = worker.take()
    one, two, three = claim.tasks
    worker.done(claim, [one, two], publications=[_bill(b"2", task=two, key="k"), _bill(b"1", task=one), _bill(b"0")])
    found = house.client().reads.publications("bills")
    assert [(each.number, each.value, each.task, each.key) for each in found] == [
        (1, b"2", two, "k"),
        (2, b"1", one, None),
        (3, b"0", None, None),
    ]
    worker.done(claim, [three])
    assert house.settle(run).state is RunState.DONE
    assert len(_read(house)) == 3


@case("commit")
def many_publications_are_stored_as_they_were_sent(house: House) -> None:
    """However many there are, and whatever they have in common."""
    house.run(house.tasks(12))
    worker = house.worker()
    claim = worker.take()
    odd = [b"", b"\0", ODD, b'"' + bytes(300) + b'"', *(b"%d" % n for n in range(8))]
    sent = {
        "plain": [_bill(value, task=task) for value, task in zip(odd, claim.tasks, strict=True)],
        "keyed": [_bill(value, key=f"é{n}" * (n + 1), keep=5) for n, value in enumerate(odd)],
        "some keyed": [_bill(value, key=None if n % 3 else "k", keep=7) for n, value in enumerate(odd)],
        "some kept": [_bill(value, key="k", keep=n or None) for n, value in enumerate(odd)],
    }
    for topic, some in sent.items():
        assert _publish(worker, _bill(b"first", topic)), topic
        sent[topic] = [replace(new, topic=topic) for new in some]
    worker.done(claim, publications=[new for some in sent.values() for new in some])
    for topic, some in sent.items():
        first, *found = house.client().reads.publications(topic)
        assert first.value == b"first"
        assert found == [new.stored(number, found[0].at) for number, new in enumerate(some, 2)], topic


@case("commit")
def parts_publish_in_their_order_and_numbers_follow_the_commits(house: House) -> None:
    house.any_run(house.tasks(1, lane="a"), house.tasks(1, lane="b"), house.tasks(1, lane="c"))
    worker, other = house.worker(), house.worker()
    one, two = worker.claim(2)
    late = other.take()
    other.done(late, publications=[_bill(b"first")])
    parts = [Part(claim.token, claim.tasks, publications=[_bill(b"%d" % n)]) for n, claim in enumerate((two, one))]
    worker.commit(*parts)
    assert _read(house) == [(1, b"first"), (2, b"0"), (3, b"1")]


@case("commit")
def a_part_with_a_void_token_publishes_nothing(house: House) -> None:
    house.any_run(house.tasks(1, lane="a"), house.tasks(1, lane="b"))
    worker = house.worker()
    one, two = worker.claim()
    worker.release(one)
    answer = worker.commit(
        Part(one.token, one.tasks, publications=[_bill(b"void")]), Part(two.token, two.tasks, publications=[_bill()])
    )
    assert answer.refused == (one.token,)
    assert _read(house) == [(1, b"1")]


@case("commit")
def a_part_that_lost_a_swap_publishes_nothing(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    one, two = claim.tasks
    lost = Part(claim.token, [one], swaps=[_cursor(house, 4711, b"1")], publications=[_bill(b"lost", task=one)])
    won = Part(claim.token, [two], swaps=[_cursor(house, 0, b"1")], publications=[_bill(b"won", task=two)])
    assert worker.commit(lost, won).lost == (one,)
    assert _read(house) == [(1, b"won")]


@case("commit")
def a_commit_sent_again_publishes_once(house: House) -> None:
    house.run(house.tasks(1))
    worker = house.worker()
    claim = worker.take()
    part = Part(claim.token, claim.tasks, publications=[_bill(task=claim.tasks[0])])
    worker.commit(part)
    with house.nothing_changes():
        worker.store.commit(worker.last, [part])
    assert _read(house) == [(1, b"1")]


@case("commit")
def a_part_that_publishes_staged_tasks_as_well_publishes_both(house: House) -> None:
    run = house.any_run(house.tasks(1))
    worker = house.worker()
    claim = worker.take()
    staged = house.tasks([b"", b""], keys=[b"a", b"b"])
    assert worker.stage(claim, staged)
    worker.done(claim, publish=[staged.first], publications=[_bill(b"2", "b"), _bill(b"1", "a")])
    assert (_read(house, "a"), _read(house, "b")) == ([(1, b"1")], [(1, b"2")])
    assert house.finish(run).state is RunState.DONE


@case("commit")
def publications_of_tasks_that_are_not_done_are_refused(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take()
    one, two = claim.tasks
    wrong = {
        "a task that failed": Part(claim.token, [one], Status.FAILED, publications=[_bill(task=one)]),
        "a task that is tried again": Part(claim.token, [one], Status.RETRYING, publications=[_bill(task=one)]),
        "another task": Part(claim.token, [one], publications=[_bill(task=two)]),
        "a name of ours": Part(claim.token, [one], publications=[_bill(topic="ramify.failures")]),
        "a value over the limit": Part(claim.token, [one], publications=[_bill(bytes(MAX_PUBLICATION + 1))]),
    }
    for what, part in wrong.items():
        with house.nothing_changes():
            try:
                worker.store.commit(Stamp(worker.process, worker.n + 1), [part])
            except BadPayload:
                continue
            raise AssertionError(f"{what} was accepted")


@case("vacuum")
def publications_that_have_expired_go_and_numbers_go_on(house: House) -> None:
    worker = house.worker()
    soon, late = SECOND, 100 * SECOND
    assert _publish(worker, *(_bill(keep=soon) for _ in range(3)), _bill(b"late", keep=late), _bill(b"ever"))
    assert _publish(worker, _bill(topic="brief", keep=soon))
    assert house.store.vacuum().publications == 0
    house.clock.advance(2)
    gone = [house.store.vacuum(3).publications for _ in range(3)]
    assert gone == [3, 1, 0]
    assert _read(house) == [(4, b"late"), (5, b"ever")]
    assert house.store.reads.topics() == [TopicNumbers("bills", 4, 5), TopicNumbers("brief", 2, 1)]
    assert _publish(worker, _bill(b"next", "brief"))
    assert _read(house, "brief") == [(2, b"next")], "a number was used again"


@case("vacuum")
def what_is_published_stays_when_its_run_is_forgotten(house: House) -> None:
    run = house.run(house.tasks(1))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, publications=[_bill(task=claim.tasks[0])])
    house.settle(run)
    while house.store.forget(run).more:
        pass
    assert only(house.store.reads.publications("bills")).task == claim.tasks[0]


@case("swap")
def a_swap_may_bring_tasks_that_wait_for_others(house: House) -> None:
    worker = house.worker()
    first, second, third = (house.tasks(kind="copy", waits=waits) for waits in (False, True, True))
    joins = [NewJoins([second.first, third.first], [1, 1], Rule.ALWAYS)]
    waiters = [NewWaiters([first.first, second.first], [second.first, third.first], [0, 0])]
    chain = replace(_mails(house, first, second, third), joins=joins, waiters=waiters)
    with house.nothing_changes():
        assert not worker.store.swap(worker.stamp(), [_cursor(house, 4711, b"1")], [chain])
    assert worker.store.swap(worker.stamp(), [_cursor(house, 0, b"1")], [chain])
    for task, status in ((first.first, Status.FAILED), (second.first, Status.DONE), (third.first, Status.DONE)):
        claim = worker.take(kinds=["copy"])
        assert list(claim.tasks) == [task]
        worker.end(claim, None, status)
    late = house.tasks(kind="copy", waits=True)
    after = [NewWaiters([first.first], [late.first], [0])]
    behind = replace(_mails(house, late), joins=[NewJoins([late.first], [1], Rule.ALWAYS)], waiters=after)
    assert worker.store.swap(worker.stamp(), (), [behind])
    assert list(worker.take(kinds=["copy"]).tasks) == [late.first], "it waits for a task that has ended"
