"""Commands that change something: each leaves what it promised in the store, and no process behind."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.join import NewJoins
from ramify.model.outcome import Failure
from ramify.model.run import RunState
from ramify.store.here import person
from ramify.store.open import open_store
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
    assert f"opened again by {person()}: the disk is back" in desk.out("events", str(desk.ids(run)[0]))
    nobody_is_left(desk)


def test_retry_takes_the_quarantined_or_some_by_name(desk: Desk) -> None:
    run = failed_run(desk)
    ids = desk.ids(run)
    assert desk.json("retry", "walk", "--quarantined") == [{"run": run, "reopened": 1, "superseded": [], "replaced": 0}]
    assert desk.json("retry", "walk", str(ids[4]), str(ids[3])) == [
        {"run": run, "reopened": 1, "superseded": [], "replaced": 0}
    ]
    assert [desk.house.ended(task) for task in ids[3:]] == [None, None]
    nobody_is_left(desk)


def test_retry_takes_up_what_was_cancelled(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(3), name="walk")
    desk.house.store.cancel(run, said=Said("enough"))
    assert desk.json("retry", "walk", "--failed") == [{"run": run, "reopened": 0, "superseded": [], "replaced": 0}]
    assert "3 tasks of walk begin again" in desk.out("retry", "walk", "--cancelled")
    assert desk.house.finish(run).state is RunState.DONE


def test_retry_wants_to_know_what(desk: Desk) -> None:
    failed_run(desk)
    assert "--failed (3 of them), --quarantined (1) or --cancelled (0)" in desk.err("retry", "walk", code=2)
    other = desk.house.tasks()
    desk.house.run(other, name="other")
    assert f"task {other.first} is not a task of walk" in desk.err("retry", "walk", str(other.first), code=2)


@pytest.mark.parametrize("command", ["cancel", "retry"])
def test_the_id_of_a_task_needs_no_run_before_it(desk: Desk, command: str) -> None:
    run = failed_run(desk)
    task = desk.ids(run)[1]
    assert str(task if command == "cancel" else "1 task of walk") in desk.out(command, str(task))
    assert desk.house.ended(task) is (Status.FAILED if command == "cancel" else None)
    assert desk.house.store.reads.run(run).state is (RunState.FAILED if command == "cancel" else RunState.OPEN)
    assert "no run '99999999999999999999'. There is 'walk'." in desk.err(command, "9" * 20, code=2)
    assert "no task 777 and no run '777'. There is 'walk'." in desk.err(command, "777", code=2)


def test_a_run_called_like_a_task_wins_over_it(desk: Desk) -> None:
    task = desk.ids(desk.house.run(desk.house.tasks(2), name="walk"))[1]
    desk.house.run(desk.house.tasks(), name=str(task))
    assert desk.out("cancel", str(task)) == f"run {task}: cancelled\n"
    assert desk.house.ended(task) is None


def test_the_id_of_a_task_where_a_run_is_needed_is_told_from_it(desk: Desk) -> None:
    task = desk.ids(desk.house.run(desk.house.tasks(2), name="walk it"))[1]
    assert desk.err("pause", str(task), code=2).endswith(f"{task}: expected a run, got a task of walk it\n")
    told = desk.err("cancel", str(task), "load", code=2)
    assert told.endswith(f"{task} is a task of walk it. Give the run before 'load': 'walk it'\n")
    assert "walk it: expected a task, got a run. Write `ramify why 'walk it' NODE`" in desk.err(
        "why", "walk it", code=2
    )


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


def test_resolve_settles_a_task_that_was_never_tried(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(2), name="walk")
    first, second = desk.ids(run)
    assert desk.out("resolve", str(first), "--result", "7", "--by", "ann") == f"task {first} counts as done\n"
    assert desk.out("resolve", str(second), "--skip", "--reason", "no need", "--by", "ann").endswith("as skipped\n")
    assert desk.house.store.reads.run(run).state is RunState.DONE
    told = desk.out("events", str(first))
    assert "decided by ann" in told
    assert "counts as done: 7" in told
    assert "attempt" not in told
    assert "skipped by ann: no need" in desk.out("events", str(second))
    assert "skipped by ann: no need" in desk.out("events", "walk")
    assert "it ended as skipped by ann: no need" in desk.out("why", str(second))
    assert "it ended as done by ann" in desk.out("why", str(first))
    nobody_is_left(desk)


def test_events_say_who_gave_a_failed_task_its_result(desk: Desk) -> None:
    task = desk.ids(failed_run(desk))[0]
    desk.out("resolve", str(task), "--result", "7", "--by", "ann", "--reason", "known")
    told = desk.out("events", str(task)).split("opened again by ann: known")[1]
    assert "decided by ann: known" in told
    assert "counts as done: 7" in told
    assert "attempt" not in told
    assert "counts as done: 7" in desk.out("events", "walk")


def test_resolve_tells_whoever_holds_it(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(), name="walk")
    (task,) = desk.ids(run)
    worker = desk.house.worker()
    claim = worker.take()
    assert "unless whoever holds it ends it first" in desk.out("resolve", str(task), "--result", "7")
    worker.release(claim)
    mark = worker.take().marks[task]
    assert (mark.status, mark.value) == (Status.DONE, b"7")
    assert mark.by == person()


def test_resolve_needs_nobody_who_works(desk: Desk) -> None:
    run = failed_run(desk)
    task = desk.ids(run)[0]
    desk.house.worker()
    assert desk.out("resolve", str(task), "--result", "7") == f"task {task} counts as done\n"
    assert desk.house.ended(task) is Status.DONE


def test_resolve_lets_what_waited_go_on(desk: Desk) -> None:
    house = desk.house
    waiting = house.tasks(1, kind="sum", waits=True)
    members = house.tasks(2, join=waiting.first)
    run = house.run(members, waiting, joins=[NewJoins.one(waiting.first, 2)])
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
        ([], "expected either --result JSON or --skip"),
        (["--skip", "--result", "1"], "expected either --result"),
        (["--result", "not json"], "expected JSON"),
    ],
)
def test_resolve_wants_one_clear_answer(desk: Desk, args: list[str], says: str) -> None:
    task = desk.ids(failed_run(desk))[0]
    assert says in desk.err("resolve", str(task), *args, code=2)
    assert desk.house.ended(task) is Status.FAILED


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
    assert "no task 777" in desk.err("cancel", "walk", "777", code=2)
    assert "--below: expected a task" in desk.err("cancel", "walk", "--below", code=2)


def test_pause_and_resume_are_kept_in_the_store(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(), name="walk")
    assert desk.out("pause", "walk") == "walk is paused\n"
    assert desk.house.store.reads.run(run).state is RunState.PAUSED
    assert desk.house.offered() == []
    assert desk.out("resume", "walk").startswith("walk continues\n")
    assert len(desk.house.offered()) == 1
    assert desk.out("resume", "walk").startswith("walk was not paused; it is open")
    desk.house.store.cancel(run)
    assert desk.out("pause", "walk") == "walk stays cancelled\n"


def test_who_decided_and_why_is_shown(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(), name="walk")
    (task,) = desk.ids(run)
    desk.out("pause", "walk", "--reason", "holiday", "--by", "ann")
    assert "paused by ann: holiday; `ramify resume`" in desk.out("status", "walk")
    assert "is paused by ann: holiday" in desk.out("why", str(task))
    decision = desk.json("status", "walk")[0]["decision"]
    assert (decision["n"], decision["what"], decision["by"], decision["reason"]) == (1, "paused", "ann", "holiday")
    desk.out("resume", "walk")
    assert f"resumed by {person()}" in desk.out("status", "walk")
    desk.out("cancel", "walk", "--reason", "enough", "--by", "bob")
    told = desk.out("status", "walk")
    assert "because: enough" in told
    assert "cancelled by bob" in told
    desk.out("retry", "walk", "--cancelled", "--reason", "on with it", "--by", "eve")
    assert "opened again by eve: on with it" in desk.out("events", str(task))
    assert "reopened by eve" in desk.out("status", "walk")
    texts = [found["text"] for found in desk.json("events", "walk") if found["task"] is None]
    assert [text for text in texts if " by " in text] == [
        "paused by ann: holiday",
        f"resumed by {person()}",
        "cancelled by bob: enough",
        "reopened by eve: on with it",
    ]


def test_drain_asks_one_process_and_everybody_can_see_it(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks(), name="walk")
    (task,) = desk.ids(run)
    assert desk.out("drain") == "nobody works on this store\n"
    one, two = desk.house.worker(), desk.house.worker()
    assert [told["state"] for told in desk.json("drain")] == ["working", "working"]
    assert "expected one process of this store, got none. Name one: " in desk.err("drain", "zzz", code=2)
    assert "expected one process of this store, got 2. Name one: " in desk.err("drain", "0", code=2)
    told = desk.out("drain", f"{one.process:x}", "--reason", "deploy", "--by", "ann")
    assert "takes nothing more" in told
    assert one.beat().draining
    assert not two.beat().draining
    assert f"process {one.process:x} (pid 0 on house) draining by ann: deploy" in desk.out("drain")
    assert "is draining by ann: deploy" in desk.out("status", "walk")
    assert desk.json("status", "walk")[0]["draining"] == [f"{one.process:x}"]
    assert "draining by ann: deploy" in desk.out("doctor")
    assert "with 1 live process" in desk.out("why", str(task))
    desk.out("drain", f"{two.process:x}"[:12])
    assert "no process works on this store but 2 that drain" in desk.out("why", str(task))


def test_vacuum_removes_garbage_and_says_how_much(desk: Desk) -> None:
    desk.house.run(desk.house.tasks())
    worker = desk.house.worker()
    worker.stage(worker.take(), desk.house.tasks(5))
    worker.store.leave(worker.process)
    assert "5 unpublished task rows" in desk.out("doctor", code=1)
    removed = "removed 5 unpublished rows, 0 expired keys, 0 old sessions; gave 0.0 MB back to the disk\n"
    assert desk.out("vacuum") == removed
    assert desk.json("vacuum") == [{"tasks": 0, "keys": 0, "sessions": 0, "space": 0}]


def test_backup_is_a_store_of_its_own(desk: Desk) -> None:
    failed_run(desk)
    assert desk.out("backup", "copy.db").startswith("copied to ")
    assert "walk" in desk.out("runs", "-s", "copy.db")
    before = Path("copy.db").read_bytes()
    desk.err("backup", "copy.db", code=3)
    assert Path("copy.db").read_bytes() == before
    assert os.stat("copy.db").st_mode & 0o077 == 0


def test_a_backup_keeps_the_id_of_the_store_and_gets_its_own_on_request(desk: Desk) -> None:
    desk.out("backup", "restored.db")
    desk.out("backup", "staging.db", "--new-id", "-s", "walk.db")
    with closing(open_store("restored.db")) as restored, closing(open_store("staging.db")) as staging:
        assert restored.id == desk.house.store.id != staging.id
