"""Commands that change something: each leaves what it promised in the store, and no process behind."""

import os
from pathlib import Path

import pytest

from ramify.model.event import Status
from ramify.model.join import NewJoin
from ramify.model.outcome import Failure
from ramify.model.run import RunState
from ramify.testing import oracle
from tests.cli.conftest import Desk


def failed_run(desk: Desk) -> int:
    """A run that ended as failed: three tasks failed, one was quarantined, one was done."""
    house = desk.house
    run = house.run(house.tasks(5), name="walk")
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:3], status=Status.FAILED, values=[Failure("OSError").encode()] * 3)
    worker.end(claim, claim.tasks[3:4], status=Status.QUARANTINED)
    worker.done(claim, claim.tasks[4:])
    house.settle(run)
    worker.store.leave(worker.process)
    return run


def nobody_is_left(desk: Desk) -> None:
    assert all(process.reaped for process in desk.house.store.reads.processes())
    assert oracle.check(desk.house.store) == []


def test_retry_begins_again_with_what_failed(desk: Desk) -> None:
    run = failed_run(desk)
    told = desk.out("retry", "walk", "--failed", "--reason", "the disk is back")
    assert told.startswith("3 tasks of walk begin again\n")
    assert "nobody works on this store" in told
    assert desk.house.store.reads.run(run).state is RunState.OPEN
    assert [desk.house.ended(task) for task in desk.ids(run)] == [None, None, None, Status.QUARANTINED, Status.DONE]
    assert "opened again: the disk is back" in desk.out("events", str(desk.ids(run)[0]))
    nobody_is_left(desk)


def test_retry_takes_the_quarantined_or_some_by_name(desk: Desk) -> None:
    run = failed_run(desk)
    ids = desk.ids(run)
    assert desk.json("retry", "walk", "--quarantined") == [{"run": run, "reopened": 1, "superseded": []}]
    assert desk.json("retry", "walk", str(ids[4]), str(ids[3])) == [{"run": run, "reopened": 1, "superseded": []}]
    assert [desk.house.ended(task) for task in ids[3:]] == [None, None]
    nobody_is_left(desk)


def test_retry_takes_up_what_was_cancelled(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(3), name="walk")
    desk.house.store.cancel(run, reason="enough")
    assert desk.json("retry", "walk", "--failed") == [{"run": run, "reopened": 0, "superseded": []}]
    assert "3 tasks of walk begin again" in desk.out("retry", "walk", "--cancelled")
    assert desk.house.finish(run).state is RunState.DONE


def test_retry_wants_to_know_what(desk: Desk) -> None:
    failed_run(desk)
    assert "--failed (3 of them), --quarantined (1) or --cancelled (0)" in desk.err("retry", "walk", code=2)
    other = desk.house.tasks()
    desk.house.run(other, name="other")
    assert f"task {other.first} is not a task of walk" in desk.err("retry", "walk", str(other.first), code=2)


def test_resolve_settles_a_failed_task_when_nobody_works(desk: Desk) -> None:
    run = failed_run(desk)
    first, second, third, fourth, _ = desk.ids(run)
    assert desk.out("resolve", str(first), "--result", '{"size": 3}') == f"task {first} counts as done\n"
    assert desk.out("resolve", str(second), "--skip", "--reason", "not needed") == f"task {second} counts as skipped\n"
    reads = desk.house.store.reads
    assert [desk.house.ended(task) for task in (first, second)] == [Status.DONE, Status.SKIPPED]
    assert reads.events(first, first)[-1].value == b'{"size":3}'
    desk.out("resolve", str(third), "--result", "null")
    desk.out("resolve", str(fourth), "--skip")
    assert reads.run(run).state is RunState.DONE
    nobody_is_left(desk)


def test_resolve_leaves_the_settling_to_those_who_work(desk: Desk) -> None:
    run = failed_run(desk)
    task = desk.ids(run)[0]
    worker = desk.house.worker()
    assert "as soon as a worker comes to it" in desk.out("resolve", str(task), "--result", "7")
    claim = worker.take()
    mark = claim.marks[task]
    assert (mark.status, mark.value) == (Status.DONE, b"7")


def test_resolve_lets_what_waited_go_on(desk: Desk) -> None:
    house = desk.house
    waiting = house.tasks(1, kind="sum", waits=True)
    members = house.tasks(2, join=waiting.first)
    run = house.run(members, waiting, joins=[NewJoin(waiting.first, 2, waiting.first)])
    worker = house.worker()
    claim = worker.take()
    worker.end(claim, claim.tasks[:1], status=Status.FAILED)
    worker.store.leave(worker.process)
    desk.out("resolve", str(members.first), "--result", "1")
    house.finish(run)
    assert house.ended(waiting.first) is Status.DONE


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "say either --result JSON or --skip"),
        (["--skip", "--result", "1"], "say either"),
        (["--result", "not json"], "it is not JSON"),
    ],
)
def test_resolve_wants_one_clear_answer(desk: Desk, args: list[str], says: str) -> None:
    task = desk.ids(failed_run(desk))[0]
    assert says in desk.err("resolve", str(task), *args, code=2)
    assert desk.house.ended(task) is Status.FAILED


def test_resolve_refuses_a_task_that_has_not_ended(desk: Desk) -> None:
    tasks = desk.house.tasks()
    desk.house.run(tasks, name="walk")
    assert "has not ended" in desk.err("resolve", str(tasks.first), "--skip", code=2)


def test_cancel_ends_a_run_that_nobody_holds(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(3), name="walk")
    assert desk.out("cancel", "walk", "--reason", "enough") == "run walk: cancelled\n"
    stored = desk.house.store.reads.run(run)
    assert (stored.state, stored.reason) == (RunState.CANCELLED, "enough")
    assert desk.out("cancel", "walk") == "run walk: had ended before\n"
    assert "because: enough" in desk.out("status", "walk")
    nobody_is_left(desk)


def test_cancel_ends_a_run_whose_worker_is_dead(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(3), name="walk")
    worker = desk.house.worker()
    worker.take()
    worker.store.close()
    assert desk.out("cancel", "walk") == "run walk: cancelled\n"
    assert desk.house.store.reads.run(run).state is RunState.CANCELLED


def test_cancel_of_what_is_held_is_a_request(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(3), name="walk")
    worker = desk.house.worker()
    claim = worker.take(2)
    held, idle = claim.tasks[0], desk.ids(run)[2]
    assert "is told within seconds" in desk.out("cancel", "walk", str(held))
    assert desk.out("cancel", "walk", str(idle)) == f"task {idle}: cancelled\n"
    assert desk.json("cancel", "walk")[0]["answer"] == "requested"
    assert desk.house.store.reads.run(run).state is RunState.DRAINING


def test_cancel_below_covers_what_is_not_there_yet(desk: Desk) -> None:
    tasks = desk.house.tasks()
    run = desk.house.run(tasks, name="walk")
    worker = desk.house.worker()
    claim = worker.take()
    assert "and all below it" in desk.out("cancel", "walk", str(tasks.first), "--below")
    children = desk.house.tasks(2, parents=tasks.first)
    worker.done(claim, children=[children])
    desk.house.finish(run)
    assert desk.house.ended(children.first) is Status.CANCELLED


def test_cancel_wants_a_task_that_is_there(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(), name="walk")
    assert "is not a published task of walk" in desk.err("cancel", "walk", "777", code=2)
    assert "--below needs a TASK" in desk.err("cancel", "walk", "--below", code=2)


def test_pause_and_resume_are_kept_in_the_store(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(), name="walk")
    assert desk.out("pause", "walk") == "walk is paused\n"
    assert desk.house.store.reads.run(run).state is RunState.PAUSED
    assert desk.house.offered() == []
    assert desk.out("resume", "walk").startswith("walk goes on\n")
    assert len(desk.house.offered()) == 1
    assert desk.out("resume", "walk").startswith("walk was not paused; it is open")
    desk.house.store.cancel(run)
    assert desk.out("pause", "walk") == "walk stays cancelled\n"


def test_vacuum_removes_garbage_and_says_how_much(desk: Desk) -> None:
    desk.house.run(desk.house.tasks())
    worker = desk.house.worker()
    worker.stage(worker.take(), desk.house.tasks(5))
    worker.store.leave(worker.process)
    assert "5 unpublished task rows" in desk.out("doctor")
    assert desk.out("vacuum") == "removed 5 unpublished rows, 0 expired keys, 0 old sessions\n"
    assert desk.json("vacuum") == [{"tasks": 0, "keys": 0, "sessions": 0}]


def test_backup_is_a_store_of_its_own(desk: Desk) -> None:
    failed_run(desk)
    assert desk.out("backup", "copy.db").startswith("copied to ")
    assert "walk" in desk.out("runs", "-s", "copy.db")
    before = Path("copy.db").read_bytes()
    desk.err("backup", "copy.db", code=3)
    assert Path("copy.db").read_bytes() == before
    assert os.stat("copy.db").st_mode & 0o077 == 0
