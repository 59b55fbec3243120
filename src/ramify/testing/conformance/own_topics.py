"""Topics of stores themselves: failures of tasks and ends of runs, told in the transaction that writes the end.

Each is told once, while somebody listens: while the topic is declared. Nobody listens to a topic whose declaration has
expired or is gone.
"""

from __future__ import annotations

import msgspec

from ramify.model.commit import Part
from ramify.model.context import SetValue
from ramify.model.event import Status
from ramify.model.key import key_bytes
from ramify.model.outcome import Failure
from ramify.model.own_topics import FAILURES_TOPIC, RUN_ENDS_TOPIC, TOPICS, StoredTopic, write_topic
from ramify.model.policy import SECOND
from ramify.model.run import NewRun, Order, RunState
from ramify.model.topic import Publication
from ramify.model.value import Swap
from ramify.testing.conformance.house import House, Worker, only
from ramify.testing.conformance.registry import case

ERROR = Failure("ValueError", "no such file: \udc80".encode("utf-8", "backslashreplace").decode(), ("a.py:1 in f",))


def _listen(house: House, *topics: str, keep: int | None = None, expires: int | None = None) -> Worker:
    worker = house.worker()
    declared = write_topic(StoredTopic(keep))
    swaps = [Swap(TOPICS, topic, None, house.store.reserve(1), declared, expires) for topic in topics]
    assert worker.store.swap(worker.stamp(), swaps)
    return worker


def _told(house: House, topic: str) -> list[dict[str, object]]:
    return [msgspec.json.decode(each.value) for each in house.client().reads.publications(topic)]


@case("commit")
def a_task_that_failed_is_told_with_all_that_is_known(house: House) -> None:
    worker = _listen(house, FAILURES_TOPIC, keep=5)
    run = house.run(house.tasks([b"", b""], keys=[key_bytes("a/é"), None]), name="walk-1")
    claim = worker.take()
    one, two = claim.tasks
    worker.end(claim, [one], Status.RETRYING, values=[b"x"])
    worker.end(claim, [one, two], Status.FAILED, values=[ERROR.encode(), None])
    first, second = house.client().reads.publications(FAILURES_TOPIC)
    assert (first.number, first.key, first.task, first.expires) == (1, "walk", one, first.at + 5)
    assert msgspec.json.decode(first.value) == {
        "run": run, "name": "walk-1", "task": one, "kind": "walk", "key": "a/é", "status": "failed", "event": 2,
        "error": msgspec.json.decode(ERROR.encode()),
    }  # fmt: skip
    told = msgspec.json.decode(second.value)
    assert (told["task"], told["key"], told["event"], told["error"]) == (two, None, 1, {"type": ""})


@case("commit")
def only_failures_are_told_each_once(house: House) -> None:
    worker = _listen(house, FAILURES_TOPIC)
    run = house.run(house.tasks(5))
    claim = worker.take()
    _, failed, _, late, again = claim.tasks
    column = [Status.DONE, Status.QUARANTINED, Status.CANCELLED, Status.DEFERRED, Status.RETRYING]
    part = Part(claim.token, claim.tasks, column, [None, b"not JSON \xff", None, None, None])
    worker.commit(part)
    worker.store.commit(worker.last, [part])
    worker.done(claim, [late, again])
    told = only(_told(house, FAILURES_TOPIC))
    assert (told["task"], told["status"]) == (failed, "quarantined")
    assert told["error"] == {"type": "", "text": "not JSON \\xff"}
    house.settle(run)
    assert _told(house, RUN_ENDS_TOPIC) == []


@case("commit")
def failures_of_all_parts_are_told_beside_what_they_publish(house: House) -> None:
    worker = _listen(house, FAILURES_TOPIC)
    house.any_run(house.tasks(1, lane="a"), house.tasks(1, lane="b", kind="copy"), house.tasks(1, lane="c"))
    claims = worker.claim()
    bill = Publication("bills", b"1")
    parts = [Part(c.token, c.tasks, Status.FAILED, publications=[bill]) for c in claims]
    assert worker.release(claims[2])
    worker.commit(*parts)
    assert [told["task"] for told in _told(house, FAILURES_TOPIC)] == [c.tasks[0] for c in claims[:2]]
    assert len(house.store.reads.publications("bills")) == 2


@case("commit")
def a_part_that_sets_values_counts_the_events_of_its_own_tasks(house: House) -> None:
    worker = _listen(house, FAILURES_TOPIC)
    house.run(house.tasks(3))
    claim = worker.take()
    one, two, three = claim.tasks
    worker.done(claim, [one], sets=[SetValue(one, "total", b"1")])
    statuses = [Status.DONE, Status.FAILED]
    worker.commit(Part(claim.token, [two, three], statuses, sets=[SetValue(two, "total", b"2")]))
    assert (house.events(two), house.events(three)) == ([Status.OUTRUN, Status.DONE], [Status.FAILED])
    assert only(_told(house, FAILURES_TOPIC))["event"] == 1


@case("commit")
def nothing_is_told_while_nobody_listens(house: House) -> None:
    worker = house.worker()

    def fail() -> None:
        run = house.run(house.tasks(1))
        worker.end(worker.take(), status=Status.FAILED)
        assert house.settle(run).state is RunState.FAILED

    fail()
    assert _told(house, FAILURES_TOPIC) == _told(house, RUN_ENDS_TOPIC) == []
    _listen(house, FAILURES_TOPIC, RUN_ENDS_TOPIC, expires=house.store.now() + SECOND)
    fail()
    assert (len(_told(house, FAILURES_TOPIC)), len(_told(house, RUN_ENDS_TOPIC))) == (1, 1)
    house.clock.advance(2)
    fail()
    assert (len(_told(house, FAILURES_TOPIC)), len(_told(house, RUN_ENDS_TOPIC))) == (1, 1)


@case("commit")
def a_failure_that_was_refused_is_not_told(house: House) -> None:
    worker = _listen(house, FAILURES_TOPIC)
    house.run(house.tasks(1))
    claim = worker.take()
    assert worker.release(claim)
    assert worker.commit(Part(claim.token, claim.tasks, Status.FAILED)).refused
    assert _told(house, FAILURES_TOPIC) == []


@case("settle")
def to_settle_a_task_is_no_failure(house: House) -> None:
    _listen(house, FAILURES_TOPIC)
    tasks = house.tasks(2)
    run = house.run(tasks)
    house.store.settle(run, tasks.first, Status.SKIPPED)
    house.store.cancel(run, tasks.last)
    assert _told(house, FAILURES_TOPIC) == []


@case("advance")
def the_end_of_a_run_is_told_once(house: House) -> None:
    worker = _listen(house, RUN_ENDS_TOPIC)
    one, two = house.run(house.tasks(1), name="walk"), house.run(house.tasks(1))
    worker.done(worker.claim(1)[0])
    worker.end(worker.claim(1)[0], status=Status.FAILED)
    house.store.advance([(one, 0), (two, 0)])
    house.store.advance([(one, 0), (two, 0)])
    first, second = house.client().reads.publications(RUN_ENDS_TOPIC)
    assert (first.number, first.key, first.task) == (1, "walk", None)
    assert msgspec.json.decode(first.value) == {
        "run": one, "name": "walk", "generation": 1, "shape": "", "state": "done", "reason": None,
    }  # fmt: skip
    assert (second.key, msgspec.json.decode(second.value)["state"]) == (None, "failed")


@case("advance")
def a_run_that_is_opened_again_is_told_when_it_ends_again(house: House) -> None:
    worker = _listen(house, RUN_ENDS_TOPIC)
    run = house.run(house.tasks(1))
    claim = worker.take()
    worker.end(claim, status=Status.FAILED)
    house.settle(run)
    worker.reopen(run, claim.tasks)
    worker.done(worker.take())
    house.settle(run)
    assert [told["state"] for told in _told(house, RUN_ENDS_TOPIC)] == ["failed", "done"]


@case("advance")
def a_run_that_waits_for_what_never_comes_is_told_with_its_reason(house: House) -> None:
    _listen(house, RUN_ENDS_TOPIC)
    run = house.start_graph([house.tasks(1), waiting := house.tasks(1, kind="sum", waits=True)], [])
    house.finish(run)
    told = [each for each in _told(house, RUN_ENDS_TOPIC) if each["run"] == run]
    ended = house.store.reads.run(run)
    assert (only(told)["state"], only(told)["reason"]) == (ended.state.value, ended.reason)
    assert waiting.bodies


@case("cancel")
def a_run_that_was_cancelled_is_told_when_it_ends(house: House) -> None:
    worker = _listen(house, RUN_ENDS_TOPIC)
    held, loose = house.run(house.tasks(1)), house.run(house.tasks(1, kind="copy"))
    claim = worker.take(kinds=["walk"])
    house.store.cancel(held)
    house.store.cancel(loose)
    assert [told["run"] for told in _told(house, RUN_ENDS_TOPIC)] == [loose]
    worker.done(claim)
    house.settle(held)
    assert [(told["run"], told["state"]) for told in _told(house, RUN_ENDS_TOPIC)] == [
        (loose, "cancelled"),
        (held, "cancelled"),
    ]


@case("append")
def a_run_that_outgrows_its_bound_is_told(house: House) -> None:
    worker = _listen(house, RUN_ENDS_TOPIC)
    run = house.any_run(house.tasks(1), max_tasks=2)
    claim = worker.take()
    house.add(run, house.tasks(2, kind="copy"))
    worker.done(claim)
    house.settle(run)
    other = house.any_run(house.tasks(1), max_tasks=2)
    claim = worker.take()
    worker.done(claim, children=[house.tasks(2)], publications=[Publication("a", b"1"), Publication("z", b"1")])
    house.settle(other)
    assert [(told["run"], told["state"]) for told in _told(house, RUN_ENDS_TOPIC)] == [
        (run, "halted"),
        (other, "halted"),
    ]
    assert [each.name for each in house.store.reads.topics()] == ["a", RUN_ENDS_TOPIC, "z"]


@case("start")
def a_run_that_is_opened_by_a_deadline_is_told(house: House) -> None:
    worker = _listen(house, RUN_ENDS_TOPIC)
    late = NewRun(house.store.reserve(1), order=Order.ANY, deadline=house.store.now() + SECOND)
    assert house.store.start(late, [house.tasks(1)]).created
    house.clock.advance(2)
    house.settle(late.id)
    told = only(_told(house, RUN_ENDS_TOPIC))
    assert (told["run"], told["state"]) == (late.id, "failed")
    assert told["reason"] == house.store.reads.run(late.id).reason
    assert worker.claim() == ()
