"""The audit of the log, and the doctor."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from ramify.inspect import audit as auditing
from ramify.inspect.audit import Witness, audit, in_words
from ramify.inspect.doctor import Checkup, Weight, examine
from ramify.inspect.health import health_of
from ramify.model.death import Death
from ramify.model.decision import Said
from ramify.model.event import Event, Status
from ramify.model.join import NewJoins
from ramify.model.process import NewProcess, new_process_id
from ramify.store.reads import Reads
from ramify.testing.conformance import House


class Tampered:
    """The reads of a store with one of them changed, as a broken store would answer."""

    def __init__(self, reads: Reads, **changed: Callable[..., object]) -> None:
        self._reads, self._changed = reads, changed

    def __getattr__(self, name: str) -> Any:
        return self._changed.get(name, getattr(self._reads, name))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "PIECE", 7)


def grown(house: House) -> int:
    """A run of two rounds, with some tasks done, failed, held and ready, and one sweep's worth untouched."""
    run = house.run(house.tasks(20))
    worker = house.worker()
    claim = worker.take(15)
    worker.done(claim, claim.tasks[:5], children=[house.tasks(30)])
    worker.end(claim, claim.tasks[5:8], status=Status.FAILED)
    return run


def test_a_run_in_the_middle_of_its_work_is_clean(house: House) -> None:
    found = audit(house.store.reads, grown(house))
    assert (found.tasks, found.ended, found.left, found.lost, found.recorded_twice) == (50, 8, 42, 0, 0)
    assert (found.clean, found.run_twice) == (True, None)


def test_a_cancelled_run_and_one_that_was_opened_again_are_clean(house: House) -> None:
    run = grown(house)
    house.store.cancel(run)
    house.workers[0].store.leave(house.workers[0].process)
    house.settle(run)
    found = audit(house.store.reads, run)
    assert (found.ended, found.left, found.clean) == (50, 0, True)
    worker = house.worker()
    tasks = [task.id for task in house.store.reads.tasks(run).rows]
    worker.reopen(run, tasks[::2])
    again = audit(house.store.reads, run)
    assert (again.ended, again.left, again.clean) == (25, 25, True)
    house.finish(run)
    assert audit(house.store.reads, run).clean


def test_a_task_that_no_row_covers_is_lost(house: House) -> None:
    run = grown(house)
    reads = house.store.reads
    row = next(row for row in reads.segments(run=run).rows if len(row.tasks) > 6)
    gone = row.tasks[-1]

    def segments(**given: Any) -> object:
        page = reads.segments(**given)
        rows = [replace(r, last=r.last - 1) if r.id == row.id else r for r in page.rows]
        return replace(page, rows=rows)

    def segment(task: int) -> object:
        return None if task == gone else reads.segment(task)

    found = audit(Tampered(reads, segments=segments, segment=segment), run)
    assert (found.lost, found.lost_tasks, found.clean) == (1, (gone,), False)


def test_a_task_that_only_looked_lost_is_not_counted(house: House) -> None:
    """Between two pages of an open run a row may be split or taken: what looks wrong is looked at again."""
    run = grown(house)
    reads = house.store.reads
    found = audit(Tampered(reads, segments=lambda **given: replace(reads.segments(**given), rows=[])), run)
    assert found.clean


def test_an_end_written_twice_in_one_life_is_found(house: House) -> None:
    run = grown(house)
    reads = house.store.reads
    done = reads.results(run).rows[2].task

    def events(first: int, last: int) -> Sequence[Event]:
        told = list(reads.events(first, last))
        place = next((i for i, event in enumerate(told) if event.task == done), None)
        return told if place is None else [*told[: place + 1], Event(done, 2, Status.DONE), *told[place + 1 :]]

    found = audit(Tampered(reads, events=events), run)
    assert (found.recorded_twice, found.twice_tasks, found.clean) == (1, (done,), False)


def test_an_ended_task_that_a_row_still_covers_is_found(house: House) -> None:
    run = grown(house)
    reads = house.store.reads
    row = next(row for row in reads.segments(run=run).rows if len(row.tasks) > 6)
    early = row.tasks[0]
    ended = replace(reads.history(early), ended=Status.DONE)
    found = audit(
        Tampered(
            reads,
            events=lambda first, last: sorted(
                [*reads.events(first, last), *([Event(early, 1, Status.DONE)] if first <= early <= last else [])],
                key=lambda event: (event.task, event.n),
            ),
            history=lambda task: ended if task == early else reads.history(task),
        ),
        run,
    )
    assert (found.recorded_twice, found.twice_tasks) == (1, (early,))


def test_a_witness_tells_what_ran_twice(house: House) -> None:
    run = house.run(house.tasks(10))
    tasks = [task.id for task in house.store.reads.tasks(run).rows]
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, tasks[:1], status=Status.RETRYING)
    worker.done(claim)
    recorded = [tasks[0], *tasks]
    assert audit(house.store.reads, run, Witness(recorded)).run_twice == 0
    assert audit(house.store.reads, run, Witness([*recorded, tasks[3], tasks[3], tasks[9]])).run_twice == 3


def test_a_start_that_was_never_recorded_counts_too(house: House) -> None:
    run = house.run(house.tasks(10))
    tasks = [task.id for task in house.store.reads.tasks(run).rows]
    worker = house.worker()
    worker.done(worker.take(5))
    assert audit(house.store.reads, run, Witness(tasks[:5])).run_twice == 0
    assert audit(house.store.reads, run, Witness(tasks[:6])).run_twice == 1


def test_the_audit_as_a_line(house: House) -> None:
    run = grown(house)
    assert in_words(audit(house.store.reads, run)) == "50 tasks, 0 lost, 0 recorded twice"
    assert in_words(audit(house.store.reads, run, Witness([]))).endswith("recorded twice, 0 run twice")


def said(checkup: Checkup, about: str) -> str:
    return " | ".join(finding.text for finding in checkup.findings if finding.about == about)


def test_the_doctor_finds_a_sound_store_healthy(house: House) -> None:
    grown(house)
    found = examine(house.store, full=True)
    assert found.healthy
    assert "alive, last beat 0 s ago, holds 1 row" in said(found, "process")
    assert "7 tasks are held in 1 row" in said(found, "claims")
    assert said(found, "log") == "50 tasks, 0 lost, 0 recorded twice"


def test_the_doctor_finds_a_process_that_does_not_beat(house: House) -> None:
    house.worker()
    house.clock.advance(300)
    found = examine(house.store)
    assert not found.healthy
    assert "last beat 300 s ago" in said(found, "process")
    assert "it was not heard of for 300 s" in said(found, "process")


def test_the_doctor_finds_kinds_and_queues_that_nobody_does(house: House) -> None:
    house.run(walks := house.tasks(3), name="walks")
    house.run(copies := house.tasks(2, kind="copy", queue="mail"), name="copies")
    found = examine(house.store)
    assert not found.healthy
    for tasks, name in ((walks, "walks"), (copies, "copies")):
        words = f"run {name} is stuck: task {tasks.first} is ready, and no process works on this store"
        assert words in said(found, "run")
    house.store.enter(NewProcess(new_process_id(), kinds=("copy",), queues=("default",)))
    found = examine(house.store)
    assert not found.healthy
    assert "3 tasks of kind 'walk' wait: no task of that name here" in said(found, "kind")
    assert "and none of 1 live process knows the kind 'walk'" in said(found, "run")
    assert "and no live process that knows 'copy' serves the queue 'mail'" in said(found, "run")


def test_a_kind_that_nobody_knows_yet_and_that_is_not_ready_is_worth_a_look(house: House) -> None:
    waiting = house.tasks(kind="sum", waits=True)
    house.run(house.tasks(2, join=waiting.first), waiting, joins=[NewJoins.one(waiting.first, 2)], name="joins")
    house.store.enter(NewProcess(new_process_id(), kinds=("walk",)))
    found = examine(house.store)
    assert [each.weight for each in found.findings if each.about == "kind"] == [Weight.LOOK]
    assert found.healthy == health_of(house.store).healthy is True


def test_the_doctor_finds_wrong_what_makes_a_store_unhealthy(house: House) -> None:
    house.store.pause(house.run(house.tasks(), name="walk"), Said("too loud", "ann"))
    house.run(house.tasks(), name="left")
    house.worker()
    house.clock.advance(45)
    wrong = [each for each in examine(house.store).findings if each.weight is Weight.WRONG]
    problems = health_of(house.store).problems
    assert [(each.about, each.text, each.advice) for each in wrong] == [
        (each.about, each.text, each.advice) for each in problems
    ]
    assert [each.about for each in problems] == ["process", "run"]


def test_the_doctor_lists_garbage_refusals_and_suspects(house: House) -> None:
    house.run(house.tasks(4))
    worker = house.worker()
    claim = worker.take(2)
    worker.stage(claim, house.tasks(5))
    house.write_off(worker)
    with pytest.raises(Exception, match="reaped"):
        worker.done(claim)
    for _ in range(2):
        victim = house.worker()
        ran = [task for claim in victim.claim() for task in claim.tasks]
        house.kill(victim, Death(dict.fromkeys(ran, 5), evidence=True))
    house.worker()
    found = examine(house.store)
    assert "5 unpublished task rows" in said(found, "garbage")
    assert "1 late commits with 2 outcomes were refused" in said(found, "refusals")
    assert "4 tasks are suspects" in said(found, "claims")
    assert all(finding.weight is not Weight.WRONG for finding in found.findings if finding.about != "process")
