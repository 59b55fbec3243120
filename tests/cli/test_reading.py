"""Commands that look: what they say, in words and as JSON."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from datetime import datetime
from io import StringIO
from subprocess import PIPE

import apsw
import pytest

from ramify import Engine
from ramify.cli.commands.errors import show_briefly
from ramify.cli.out import Out
from ramify.inspect import held_up
from ramify.inspect.show import event_text
from ramify.model.commit import Later, Part
from ramify.model.decision import Said
from ramify.model.event import Event, Status
from ramify.model.log import LogLine
from ramify.model.outcome import Failure
from ramify.model.policy import PARKED, SECOND
from ramify.model.process import NewProcess, new_process_id
from ramify.store.error_groups import GROUP_SCAN, MOST_GROUPS
from ramify.store.reads import Tail
from ramify.store.sqlite.reads import SqliteReads
from tests.cli.conftest import HOSTILE, RAW, Desk
from tests.engine.sample_jobs import fragile, jobs

TRACEBACK = """\
KeyError: k

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "walk.py", line 7, in walk
    os.scandir(path)
OSError: gone
"""


def walked(desk: Desk) -> int:
    """A run with one done, two failed alike and two ready tasks in its first round, and a child in the next."""
    house = desk.house
    run = house.run(house.tasks([b'["/a"]', b'["/b"]', b'["/c"]', b'["/d"]', b'["/e"]']), name="walk")
    worker = house.worker()
    claim = worker.take(3)
    gone = Failure(
        "OSError", "gone", ("walk.py:7 in walk",), 0, ("os.scandir(path)",), Failure("KeyError", "k")
    ).encode()
    statuses = [Status.DONE, Status.FAILED, Status.FAILED]
    worker.commit(Part(claim.token, claim.tasks, statuses, [b"12", gone, gone], [house.tasks([b'["/a/x"]'])]))
    return run


def test_the_chosen_store_is_said_on_standard_error(desk: Desk) -> None:
    assert desk.err("runs") == "store: walk.db (the only Ramify file in this folder)\n"
    assert desk.err("runs", "-s", "walk.db") == ""
    assert desk.err("-s", "walk.db", "runs") == ""


def test_status_tells_counts_and_what_the_round_waits_for(desk: Desk) -> None:
    walked(desk)
    told = desk.out("status", "walk")
    assert told.startswith("walk · open, pulling · round 0")
    assert "1 done · 3 pending · 2 failed" in told
    assert "round 0 waits for 2 ready" in told
    assert "ramify errors walk" in told


def test_status_without_a_name_is_about_the_open_run_or_else_the_newest(desk: Desk) -> None:
    assert desk.out("status") == "no runs yet\n"
    desk.house.finish(desk.house.run(desk.house.tasks(), name="old"))
    assert desk.out("status").startswith("old · done")
    walked(desk)
    assert desk.out("status").startswith("walk · open")
    desk.house.run(desk.house.tasks(), name="third")
    assert [line.split(" · ")[0] for line in desk.out("status").splitlines()] == ["walk", "third"]


def test_status_as_json_has_the_numbers(desk: Desk) -> None:
    run = walked(desk)
    (found,) = desk.json("status", "walk")
    assert (found["run"], found["state"], found["phase"], found["round"]) == (run, "open", "pulling", 0)
    assert found["counts"]["pending"] == 3
    assert found["kinds"]["walk"]["failed"] == 2
    assert found["round_waits_for"]["ready"] == 2
    assert found["eta_seconds"] is None


def test_status_is_zero_for_a_failed_run_unless_the_code_is_asked_for(desk: Desk) -> None:
    desk.house.finish(walked(desk))
    assert desk.out("status", "walk").startswith("walk · failed")
    desk.out("status", "walk", "--exit-code", code=1)


def test_status_watch_stays_until_the_end_and_says_if_tasks_failed(desk: Desk) -> None:
    desk.house.finish(walked(desk))
    (line,) = desk.out("status", "walk", "--watch", code=1).splitlines()
    assert line.startswith("walk · failed · round 1")
    assert desk.json("status", "walk", "--watch", code=1)[-1]["state"] == "failed"


def test_watching_needs_a_name_when_several_runs_are_open(desk: Desk) -> None:
    walked(desk)
    desk.house.run(desk.house.tasks(), name="other")
    assert "2 runs are open: walk, other. Name one to watch" in desk.err("status", "-w", code=2)


def test_runs_lists_the_newest_last(desk: Desk) -> None:
    assert desk.out("runs") == "no runs yet\n"
    walked(desk)
    desk.house.run(desk.house.tasks(), name="walk", generation=2)
    lines = desk.out("runs").splitlines()
    assert [line.split()[0] for line in lines] == ["run", "walk", "walk#2"]
    assert [found["generation"] for found in desk.json("runs")] == [1, 2]
    assert desk.json("runs", "--limit", "1")[0]["generation"] == 2
    assert desk.out("runs", "--limit", "1").endswith("… and older ones; --limit shows more\n")
    assert "older" not in desk.out("runs", "--limit", "2")
    assert desk.json("runs", "--state", "paused") == []


def test_tasks_are_shown_page_by_page(desk: Desk) -> None:
    run = walked(desk)
    ids = desk.ids(run)
    told = desk.out("tasks", "walk", "-n", "2").splitlines()
    assert told[1].split() == [str(ids[0]), "done", "0", 'walk("/a")']
    assert told[-1] == f"… more: --after {ids[1]}"
    rest = desk.json("tasks", "walk", "--after", str(ids[1]))
    assert [found["task"] for found in rest] == list(ids[2:])
    assert "more" not in desk.out("tasks", "walk", "-n", "6")


def test_tasks_can_be_chosen_by_what_they_are(desk: Desk) -> None:
    run = walked(desk)
    ids = desk.ids(run)
    assert [found["task"] for found in desk.json("tasks", "walk", "--status", "failed")] == list(ids[1:3])
    assert [found["task"] for found in desk.json("tasks", "walk", "--status", "pending")] == list(ids[3:])
    assert desk.json("tasks", "walk", "--kind", "copy") == []
    assert desk.out("tasks", "walk", "--kind", "copy") == "no such tasks\n"
    assert desk.json("tasks", "walk", "--status", "done")[0]["arguments"] == ["/a"]


def test_errors_are_grouped(desk: Desk) -> None:
    run = walked(desk)
    told = desk.out("errors", "walk", "-v").splitlines()
    assert told[0] == "2 x walk  OSError: gone"
    assert [line.removeprefix(" " * 6) for line in told[2:-1]] == TRACEBACK.splitlines()
    assert told[-1] == "2 tasks in 1 group"
    assert "Traceback" not in desk.out("errors", "walk")
    (group,) = desk.json("errors", "walk")
    assert group["traceback"] == TRACEBACK
    assert (group["run"], group["count"], group["type"]) == (run, 2, "OSError")
    assert (group["complete"], group["failures"]) == (True, 2)
    desk.house.run(desk.house.tasks(), name="fine")
    assert desk.out("errors", "fine") == "nothing failed in fine\n"


def test_errors_without_a_run_are_those_of_all_runs_and_tell_where(desk: Desk) -> None:
    assert desk.out("errors") == "nothing failed\n"
    house = desk.house
    house.run(house.tasks([b'["/z"]']), name="jobs/default", endless=True)
    worker = house.worker()
    worker.end(worker.take(), status=Status.FAILED, values=[Failure("OSError", "gone").encode()])
    walked(desk)
    (group,) = desk.json("errors")
    assert (group["run"], group["complete"], group["count"], group["call_run"]) == (None, True, 3, "jobs/default")
    told = desk.out("errors")
    assert "3 x walk  OSError: gone" in told
    assert 'first walk("/z") in jobs/default' in told
    assert " in walk" not in desk.out("errors", "walk")


def test_events_show_the_whole_traceback_of_a_failed_attempt(desk: Desk) -> None:
    run = walked(desk)
    failed = str(desk.ids(run)[1])
    shown = TRACEBACK.replace("\n", f"\n{' ' * 6}").strip()
    blanks_dropped = "\n".join(line.rstrip() for line in shown.splitlines())
    assert blanks_dropped in desk.out("events", failed)
    assert blanks_dropped in desk.out("events", "walk", "-v")
    assert "Traceback" not in desk.out("events", "walk")
    told = desk.json("events", failed) + [
        event for event in desk.json("events", "walk") if event["task"] == int(failed)
    ]
    assert [event["traceback"] for event in told] == [TRACEBACK] * 2


def test_errors_that_differ_in_numbers_are_one_group_with_an_example_and_times(desk: Desk) -> None:
    run = desk.house.run(desk.house.tasks([b'["a"]', b'["b"]']), name="walk")
    worker = desk.house.worker()
    claim = worker.take()
    for number, task in enumerate(claim.tasks):
        worker.end(claim, [task], Status.FAILED, values=[Failure("OSError", f"row {number}").encode()])
    head, example, where, total = desk.out("errors", "walk").splitlines()
    assert (head, example, total) == ("2 x walk  OSError: row #", "    such as row 0", "2 tasks in 1 group")
    assert re.fullmatch(r"    20\d\d-\S+ [\d:]+( to .*)?   tasks \d+, \d+   first walk\(\"a\"\)", where)
    (group,) = desk.json("errors", "walk")
    assert (group["run"], group["text"], group["example"]) == (run, "row #", "row 0")
    assert datetime.fromisoformat(group["first"]) < datetime.fromisoformat(group["last"])


def test_errors_too_many_to_tell_apart_are_counted(desk: Desk) -> None:
    desk.house.run(desk.house.tasks([b"[]"] * (MOST_GROUPS + 7)), name="walk")
    worker = desk.house.worker()
    claim = worker.take(MOST_GROUPS + 7)
    values = [Failure("E", "xy"[n % 2] * (n // 2 + 1)).encode() for n in range(MOST_GROUPS + 7)]
    worker.end(claim, status=Status.FAILED, values=values)
    told = desk.out("errors", "walk").splitlines()
    assert told[-2:] == [
        "7 x others, in more groups than are told apart",
        f"{MOST_GROUPS + 7} tasks in {MOST_GROUPS} groups",
    ]
    last = desk.json("errors", "walk")[-1]
    assert (last["kind"], last["text"], last["count"]) == (None, None, 7)


def test_errors_say_when_they_are_the_newest_of_very_many(desk: Desk) -> None:
    desk.house.run(desk.house.tasks([b"[]"] * (GROUP_SCAN + 2)), name="walk")
    worker = desk.house.worker()
    for claim in worker.claim(GROUP_SCAN + 2):
        worker.end(claim, status=Status.FAILED)
    first, *_, last = desk.out("errors", "walk").splitlines()
    assert (first, last) == ("the newest 100,000 of 100,002 failures", "100,000 tasks in 1 group")
    (group,) = desk.json("errors", "walk")
    assert (group["count"], group["complete"], group["failures"]) == (GROUP_SCAN, False, GROUP_SCAN + 2)
    told = StringIO()
    show_briefly(Out(file=told), desk.house.store.reads.errors(group["run"]), group["failures"], 3)
    assert told.getvalue().splitlines()[0] == first


def test_events_of_a_task_and_of_a_run(desk: Desk) -> None:
    run = walked(desk)
    failed = desk.ids(run)[1]
    told = desk.out("events", str(failed))
    assert f'task {failed}  walk("/b")' in told
    assert "attempt 1 failed, and it was the last: OSError: gone" in told
    assert [found["status"] for found in desk.json("events", str(failed))] == ["failed"]
    assert [found["status"] for found in desk.json("events", "walk")] == ["started", "done", "failed", "failed"]
    assert len(desk.json("events", "walk", "-n", "2")) == 2
    assert desk.out("events", "walk", "--after", "99") == "no newer events\n"
    pending = desk.ids(run)[3]
    assert f"ramify why {pending}" in desk.out("events", str(pending))


def test_how_long_an_attempt_took_is_shown_with_its_event() -> None:
    assert event_text(Event(7, 1, Status.DONE, b"3", 1, 12_400), 1) == "attempt 1 was done after 12 ms: 3"
    failed = event_text(Event(7, 1, Status.FAILED, Failure("ValueError").encode(), 1, 200_000_000), 2)
    assert failed == "attempt 2 failed after 3 min 20 s, and it was the last: ValueError"
    assert event_text(Event(7, 1, Status.DEFERRED, None, 1, 250_000), 1) == "attempt 1 put itself off after 0.2 s"
    assert event_text(Event(7, 1, Status.DONE), 1) == "attempt 1 was done"


def test_events_of_a_run_are_not_looked_for_before_it_began(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Engine("walk.db", include=[jobs])) as engine:
        for name in ("old", "new"):
            engine.run(fragile.of(name), name=name)
    asked: list[int] = []
    tail = SqliteReads.tail

    def noting(reads: SqliteReads, after: int, *, limit: int = 100) -> Tail:
        asked.append(after)
        return tail(reads, after, limit=limit)

    monkeypatch.setattr(SqliteReads, "tail", noting)
    assert [found["call"] for found in desk.json("events", "new")] == ["", 'fragile("new")']
    assert min(asked) >= 1


def test_following_a_run_that_has_ended_tells_the_rest_and_returns(desk: Desk) -> None:
    desk.house.finish(walked(desk))
    assert desk.json("events", "walk", "-f") == []
    assert len(desk.json("events", "walk", "-f", "--after", "2")) == 3


def test_why_says_why_and_what_to_do(desk: Desk) -> None:
    run = walked(desk)
    desk.house.store.pause(run)
    task = str(desk.ids(run)[3])
    told = desk.out("why", task).splitlines()
    assert told == [f'task {task}  walk("/d")', "  its run walk is paused", "  ramify resume walk"]
    assert desk.json("why", task)[0]["cause"] == "paused"


def test_logs_are_shown_by_level_and_task(desk: Desk) -> None:
    run = walked(desk)
    first, second = desk.ids(run)[:2]
    worker = desk.house.workers[0]
    at = 1_704_067_200_000_000
    worker.store.note(
        worker.process,
        [
            LogLine(1, at, run, first, 1, 20, "walk", "looking"),
            LogLine(2, at, run, second, 2, 40, "walk", "gone\nfor good"),
        ],
    )
    told = desk.out("logs", "walk").splitlines()
    assert [line.split("  ", 1)[1] for line in told] == [
        f"info     {first}  looking",
        f"error    {second}.2  gone\\nfor good",
    ]
    assert [found["text"] for found in desk.json("logs", "walk", "--level", "error")] == ["gone\nfor good"]
    desk.house.run(desk.house.tasks(), name="other")
    (found,) = desk.json("logs", "walk", "--task", str(first))
    # The id of a task needs no run, whichever runs are open.
    assert desk.json("logs", str(first)) == desk.json("logs", "--task", str(first)) == [found]
    assert (found["at"], found["level"], found["attempt"]) == ("2024-01-01T00:00:00Z", "info", 1)
    assert desk.json("logs", "walk", "--after", str(found["seq"]))[0]["task"] == second


def test_following_a_task_ends_with_it_and_not_with_its_run(desk: Desk) -> None:
    run = walked(desk)
    assert not desk.house.store.reads.run(run).state.is_end
    assert desk.json("logs", str(desk.ids(run)[0]), "-f") == []


def test_a_run_that_logged_nothing_says_so(desk: Desk) -> None:
    desk.house.finish(walked(desk))
    assert desk.out("logs", "walk") == "nothing was logged\n"
    assert desk.json("logs", "walk", "-f") == []


def test_the_doctor_looks_a_store_over(desk: Desk) -> None:
    walked(desk)
    told = desk.out("doctor", "--full")
    assert "healthy" in told
    assert "6 tasks, 0 lost, 0 recorded twice" in told
    assert desk.json("doctor")[0]["store"] == "sqlite"


@pytest.mark.parametrize(
    "command",
    [
        ["status", "nope"],
        ["tasks", "nope"],
        ["errors", "nope"],
        ["events", "nope"],
        ["logs", "nope"],
        ["pause", "nope"],
    ],
)
def test_a_run_that_is_not_there_is_answered_with_those_that_are(desk: Desk, command: list[str]) -> None:
    walked(desk)
    assert "ramify: no run 'nope'. There is 'walk'." in desk.err(*command, code=2)


@pytest.mark.parametrize("command", [["why", "777"], ["events", "777"], ["resolve", "777", "--skip"]])
def test_a_task_that_is_not_there_is_said(desk: Desk, command: list[str]) -> None:
    assert "no task 777" in desk.err(*command, code=2)


def test_a_kind_that_nobody_knows_is_told_by_status_and_doctor(desk: Desk) -> None:
    desk.house.run(desk.house.tasks(3), name="walk")
    desk.house.store.enter(NewProcess(new_process_id(), kinds=("measure",)))
    words = "3 tasks of kind 'walk' wait: no task of that name here"
    assert f"{words}; rename it back or give aliases=('walk',)" in desk.out("status")
    assert desk.json("status")[0]["unknown_kinds"] == {"walk": 3}
    assert words in desk.out("doctor", code=1)


def test_a_run_that_was_killed_while_it_waited_says_what_is_due_and_that_nobody_works(desk: Desk) -> None:
    house = desk.house
    run = house.run(house.tasks(2), name="walk")
    worker = house.worker()
    claim = worker.take()
    due = house.store.now() + 3600 * SECOND
    worker.end(claim, status=Status.DEFERRED, later=[Later(claim.tasks, due)])
    assert "walk · open, waiting · round 0" in desk.out("status")
    worker.store.close()
    told = desk.out("status", str(run))
    assert "walk · open, unattended · round 0" in told
    assert "2 deferrals" in told
    assert "2 due later (next in 59 min" in told
    assert "nobody is working on it; start it again with the same line" in told
    (found,) = desk.json("status")
    assert (found["phase"], found["workers"], found["left"]["later"]) == ("unattended", 0, 2)
    assert found["next_due"].endswith("Z")
    house.run(house.tasks(1), name="copy")
    assert "nobody is working on them; start them again with the same lines" in desk.out("status")


@pytest.mark.parametrize("table", ["label", "run"])
def test_a_damaged_file_is_found_by_the_full_doctor(desk: Desk, table: str) -> None:
    """`label` is read by nothing else of the doctor, `run` by all of it."""
    # Nothing is wrong with it: nobody works, and nothing is ready.
    keys = [b"%d" % n for n in range(2_000)]
    desk.house.run(desk.house.tasks([b"[]"] * 2_000, keys=keys, due=PARKED), name="walk")
    desk.house.close()
    assert "every page, row and index of it is whole" in desk.out("doctor", "--full")
    db = apsw.Connection("walk.db")
    where = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
    page = next(number for (number,) in db.execute(where, (table,)))
    db.close()
    with open("walk.db", "r+b") as file:
        file.seek((page - 1) * 4096 + (0 if table == "run" else 3))
        file.write(b"\xff" * 60)
    told = desk.out("doctor", "--full", code=1)
    assert "damaged" in told
    assert "restore a backup" in told
    assert "Traceback" not in told


def test_a_huge_text_is_cut_for_people_and_whole_in_json(desk: Desk) -> None:
    house, huge = desk.house, "x" * 500_000
    run = house.run(house.tasks([json.dumps([huge]).encode()] * 2), name="walk")
    worker = house.worker()
    claim = worker.take()
    statuses = [Status.DONE, Status.FAILED]
    values = [json.dumps(huge).encode(), Failure("ValueError", huge, (huge,)).encode()]
    worker.commit(Part(claim.token, claim.tasks, statuses, values))
    done, failed = desk.ids(run)
    for line in ("tasks", "errors -v", f"events {done}", f"events {failed}", "events walk", f"why {failed}"):
        told = desk.out(*line.split())
        assert len(told) < 10_000, line
        assert "characters; --json has all of them)" in told, line
    assert desk.json("tasks")[0]["arguments"] == [huge]


FROZEN = """
import os, sys
from ramify.model.process import NewProcess, new_process_id
from ramify.store.sqlite import SqliteStore
store = SqliteStore("walk.db")
store.enter(NewProcess(new_process_id(), pid=os.getpid(), kinds=("walk",)))
with store._link.write():
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_process_frozen_inside_a_write_is_named_by_status_and_doctor(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_up, "LONG_WRITE", 0.0)
    desk.house.run(desk.house.tasks(3), name="walk")
    with subprocess.Popen([sys.executable, "-c", FROZEN], stdin=PIPE, stdout=PIPE, text=True) as frozen:
        assert frozen.stdout is not None
        assert frozen.stdout.readline() == "writing\n"
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            words = f"pid {frozen.pid} has held the lock for writing for "
            assert words in desk.out("status")
            assert desk.json("status")[0]["held_up"][0]["pid"] == frozen.pid
            assert words in desk.out("doctor", code=1)
        finally:
            frozen.kill()


def test_no_store_ends_with_three(desk: Desk) -> None:
    assert "no such file" in desk.err("runs", "-s", "gone.db", code=3)
    assert "not built yet" in desk.err("runs", "-s", "postgresql://host/x", code=3)
    assert {path.name for path in desk.folder.glob("gone*")} == set()


def test_a_command_that_is_not_there_is_a_wrong_command_line(desk: Desk) -> None:
    assert "No such command 'stauts'" in desk.err("stauts", code=2)


def hostile(desk: Desk) -> list[int]:
    """A run in which every text that a task may bring is hostile."""
    house = desk.house
    text = HOSTILE.replace("\0", "").replace("\udcff", "")
    body = json.dumps([HOSTILE]).encode()
    key = HOSTILE.encode("utf-8", "surrogatepass")
    tasks = house.tasks([body, body], kind=text, lane=text, queue=text, keys=[key, key])
    run = house.run(tasks, name=text)
    worker = house.worker()
    claim = worker.take(1, [text])
    failure = Failure(text, text, (text,))
    worker.end(claim, status=Status.FAILED, values=[failure.encode()])
    worker.store.note(worker.process, [LogLine(1, 0, run, tasks.first, 1, 30, text, text)])
    house.store.cancel(run, said=Said(text))
    return [tasks.first, tasks.first + 1]


def test_nothing_hostile_reaches_the_terminal(desk: Desk) -> None:
    """Names, kinds, keys, arguments, errors, frames and reasons come out escaped, and no markup is interpreted."""
    failed, swept = map(str, hostile(desk))
    name = HOSTILE.replace("\0", "").replace("\udcff", "")
    commands = [
        ["runs"], ["status"], ["status", name], ["status", name, "--watch"], ["tasks", name],
        ["errors", name, "-v"], ["events", name], ["events", name, "-v"],
        ["events", failed], ["events", swept], ["why", failed], ["why", swept], ["doctor"],
        ["retry", name, failed, "--reason", name], ["pause", name], ["resume", name], ["why", failed],
        ["cancel", name, failed, "--reason", name], ["resolve", failed, "--skip", "--reason", name], ["logs", name],
    ]  # fmt: skip
    seen = ""
    for command in commands:
        for extra in ([], ["--json"]):
            result = desk.type(*command, *extra, code=None)
            assert result.exit_code in (0, 1, 2), command
            shown = result.stdout + result.stderr
            assert not [raw for raw in RAW if raw in shown], command
            seen += result.stdout
    assert "\\x1b[31m" in seen
    assert "[bold red]x[/] :smile:" in seen


def test_an_unknown_name_is_escaped_in_the_refusal(desk: Desk) -> None:
    shown = desk.err("status", HOSTILE, code=2)
    assert not [raw for raw in RAW if raw in shown]


@pytest.mark.parametrize("command", ["tasks", "logs"])
def test_without_a_run_it_is_the_open_one_or_else_the_newest_and_it_is_said_which(desk: Desk, command: str) -> None:
    assert desk.err(command, code=2).endswith("ramify: this store has no runs yet\n")
    desk.house.finish(walked(desk))
    assert desk.err(command).endswith("run: walk (the newest)\n")
    assert desk.out(command) == desk.out(command, "walk")
    desk.house.run(desk.house.tasks(), name="second")
    assert desk.err(command).endswith("run: second (the only open one)\n")
    desk.house.run(desk.house.tasks(), name="third")
    assert "2 runs are open: second, third. Name one" in desk.err(command, code=2)


@pytest.mark.parametrize("command", ["status", "tasks", "logs"])
def test_a_log_that_we_keep_ourselves_is_never_the_run_that_is_meant(desk: Desk, command: str) -> None:
    desk.house.run(name="joint/datasets", endless=True)
    assert "no runs yet" in desk.type(command, code=None).output
    desk.house.finish(walked(desk))
    assert desk.out(command) == desk.out(command, "walk")
    desk.house.run(name="jobs/default", endless=True)
    assert desk.out(command) == desk.out(command, "jobs/default")


def test_a_dag_that_starts_on_datasets_leaves_its_run_the_newest(desk: Desk) -> None:
    with closing(Engine("walk.db", include=[jobs])) as engine:
        joint = engine.dag("joint")
        joint.add(fragile.of("c"))
        joint.start_on("a", "b")
        made = engine.dag("made")
        made.add(fragile.of("a")).produces("a")
        engine.run(made.of(), name="made")
        log = engine.find("joint/datasets")
        assert log is not None
        assert not log.ended
    assert desk.out("show") == desk.out("show", "made")
