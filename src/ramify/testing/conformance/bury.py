"""`bury`: mark a process as dead and void its claims in one transaction, by somebody who knows how it died.

With evidence that it died of its own doing, what it ran gets one death more as `ran` and what it merely held one as
`held`; from `ran` 2, or both together 3, they come back in at most 16 parts that run apart. Without evidence only what
it ran counts, as `silent`, and runs apart from half of 5 x `max_crashes`. Everything else comes back as it was. Tasks
that were late are marked, so that their next claim ends the attempt. It writes no ends.
"""

from __future__ import annotations

from ramify.errors import Reaped
from ramify.model.blame import PARTS
from ramify.model.commit import Part
from ramify.model.death import NO_DEATHS, NOBODYS_FAULT, SILENT_WEIGHT, Death, Deaths
from ramify.model.event import Status
from ramify.model.mark import Scope
from ramify.testing.conformance.house import House, refused
from ramify.testing.conformance.registry import case


@case("bury")
def the_work_of_a_buried_process_is_offered_again(house: House) -> None:
    house.run(house.tasks(5))
    worker = house.worker()
    claim = worker.take()
    worker.done(claim, claim.tasks[:2])
    assert house.kill(worker, NOBODYS_FAULT) == 3
    assert house.offered() == list(claim.tasks[2:])


@case("bury")
def a_buried_process_is_refused(house: House) -> None:
    house.run(house.tasks(2))
    worker = house.worker()
    claim = worker.take(1)
    house.store.bury(worker.process, NOBODYS_FAULT)
    house.workers.remove(worker)
    assert worker.beat().reaped
    with house.nothing_changes(), refused(Reaped):
        worker.done(claim)


@case("bury")
def burying_twice_is_burying_once(house: House) -> None:
    run = house.run(house.tasks(2))
    worker = house.worker()
    death = Death(dict.fromkeys(worker.take().tasks, 5), evidence=True)
    house.kill(worker, death)
    with house.nothing_changes():
        assert house.store.bury(worker.process, death) == 0
    assert [row.deaths for row in house.live(run)] == [Deaths(ran=1)]


@case("bury")
def nobody_is_marked_for_a_death_that_is_nobodys_fault(house: House) -> None:
    run = house.run(house.tasks(40))
    worker = house.worker()
    worker.take()
    house.kill(worker, NOBODYS_FAULT)
    assert [(row.deaths, len(row.tasks)) for row in house.live(run)] == [(NO_DEATHS, 40)]


@case("bury")
def with_evidence_what_ran_is_told_from_what_was_held(house: House) -> None:
    run = house.run(house.tasks(10))
    worker = house.worker()
    ran = worker.take().tasks[3:5]
    house.kill(worker, Death(dict.fromkeys(ran, 5), evidence=True))
    assert _deaths(house, run, ran) == {Deaths(ran=1)}
    assert _deaths(house, run, set(house.offered()).difference(ran)) == {Deaths(held=1)}
    assert len(house.live(run)) == 2


@case("bury")
def without_evidence_only_what_ran_counts(house: House) -> None:
    run = house.run(house.tasks(10))
    worker = house.worker()
    ran = worker.take().tasks[::4]
    house.kill(worker, Death(dict.fromkeys(ran, 5)))
    assert _deaths(house, run, ran) == {Deaths(silent=1)}
    assert _deaths(house, run, set(house.offered()).difference(ran)) == {NO_DEATHS}


@case("bury")
def tasks_that_the_dead_did_not_hold_are_ignored(house: House) -> None:
    run = house.run(house.tasks(6))
    worker, other = house.worker(), house.worker()
    claim, theirs = worker.take(2), other.take(2)
    worker.done(claim, claim.tasks[:1])
    named = (*claim.tasks, *theirs.tasks, 10**9)
    house.kill(worker, Death(dict.fromkeys(named, 5), evidence=True))
    other.release(theirs)
    assert _deaths(house, run, claim.tasks[1:]) == {Deaths(ran=1)}
    assert _deaths(house, run, theirs.tasks) == {NO_DEATHS}


@case("bury")
def what_ran_twice_comes_back_in_parts_that_run_apart(house: House) -> None:
    run = house.run(house.tasks(1_000))
    for _ in range(2):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take(1_000).tasks, 5), evidence=True))
    rows = house.live(run)
    assert len(rows) == PARTS
    assert {row.deaths for row in rows} == {Deaths(ran=2, apart=True)}
    assert max(len(row.tasks) for row in rows) <= -(-1_000 // PARTS)


@case("bury")
def what_was_held_three_times_comes_back_in_parts_that_run_apart(house: House) -> None:
    run = house.run(house.tasks(40))
    for deaths in (Deaths(held=1), Deaths(held=2), Deaths(held=3, apart=True)):
        worker = house.worker()
        worker.take()
        house.kill(worker, Death(evidence=True))
        assert {row.deaths for row in house.live(run)} == {deaths}
    assert len(house.live(run)) == -(-40 // 3)


@case("bury")
def without_evidence_it_runs_apart_only_after_very_many_deaths(house: House) -> None:
    run = house.run(house.tasks())
    for deaths in range(1, SILENT_WEIGHT + 1):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take().tasks, 2)))
        (row,) = house.live(run)
        assert (row.deaths.silent, row.deaths.apart) == (deaths, deaths >= SILENT_WEIGHT)


@case("bury")
def without_a_limit_it_never_runs_apart_without_evidence(house: House) -> None:
    run = house.run(house.tasks())
    for _ in range(2 * SILENT_WEIGHT):
        worker = house.worker()
        house.kill(worker, Death(dict.fromkeys(worker.take().tasks, None)))
    assert [row.deaths for row in house.live(run)] == [Deaths(silent=2 * SILENT_WEIGHT)]


@case("bury")
def a_late_task_is_marked_for_its_next_claim(house: House) -> None:
    run = house.run(house.tasks(3))
    worker = house.worker()
    late = worker.take().tasks[1]
    house.kill(worker, Death(late=frozenset({late, 10**9})))
    worker = house.worker()
    claim = worker.take()
    assert {task: (mark.scope, mark.status) for task, mark in claim.marks.items()} == {
        late: (Scope.TASK, Status.RETRYING)
    }
    assert {row.deaths for row in house.live(run)} == {NO_DEATHS}
    assert not worker.beat().marks


@case("bury")
def the_mark_of_a_late_task_is_gone_once_its_event_is_written(house: House) -> None:
    house.run(house.tasks(3))
    worker = house.worker()
    late = worker.take().tasks[1]
    house.kill(worker, Death(late=frozenset({late})))
    worker = house.worker()
    claim = worker.take()
    worker.commit(Part(claim.token, (late,), (Status.RETRYING,)))
    worker.release(claim)
    assert not worker.take().marks


def _deaths(house: House, run: int, tasks: object) -> set[Deaths]:
    assert isinstance(tasks, set | list | tuple | range)
    return {row.deaths for row in house.live(run) if set(row.tasks) & set(tasks)}


@case("records")
def records_have_a_folder_of_their_own_or_none_are_kept(house: House) -> None:
    folder = house.worker().store.records
    assert folder is None or folder.is_dir()
