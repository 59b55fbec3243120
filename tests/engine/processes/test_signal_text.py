"""What is told of signals: words for people, facts for programs, and how loud each is."""

import json
import logging
from datetime import datetime

import pytest

from ramify.engine.processes.signal_text import Log, Teller, told
from ramify.kernel.signals import (
    Adapted,
    Buried,
    Drained,
    Ended,
    Entered,
    Moved,
    NobodyKnows,
    Replaced,
    Saved,
    Signal,
    Stopping,
    StoreAway,
    StoreBack,
    Took,
)
from ramify.model.event import Status
from ramify.model.outcome import Failure
from ramify.model.run import RunState

FIELDS = [
    *("time", "level", "event", "text", "run", "name", "kind", "queue", "task", "attempt", "process", "seconds"),
    *("error", "traceback", "logger"),
]
NO = Failure("OSError", "no", ("load.py:3 in load",), source=("open(path)",)).encode()
TRACEBACK = 'Traceback (most recent call last):\n  File "load.py", line 3, in load\n    open(path)\nOSError: no\n'


def saved(*ends: Ended) -> Saved:
    """A commit of attempts that came to this."""
    return Saved(len(ends), 0, 0, 0.1, lambda done: [each for each in ends if done or each.status is not Status.DONE])


ATTEMPTS = saved(
    Ended(3, "load", 7, 1, Status.DONE, took=250_000, queue="mail", name="tree"),
    Ended(3, "load", 8, 2, Status.RETRYING, NO, 1_500, "mail", "tree"),
    Ended(3, "load", 9, 4, Status.FAILED, NO),
    Ended(3, "sum", 10, 0, Status.SKIPPED, b'"one failed"'),
)


@pytest.mark.parametrize(
    ("signal", "level", "event", "facts"),
    [
        (StoreAway("disk full"), "warning", "store-away", {"error": "disk full"}),
        (StoreBack(2.5), "info", "store-back", {"seconds": 2.5}),
        (NobodyKnows((("load", 3),)), "warning", "unknown-kind", {"kind": "load"}),
        (Buried((255,), 3), "warning", "buried", {"process": "ff"}),
        (Replaced("thread", "late"), "warning", "replaced", {"error": "late"}),
        (Replaced("process", "old", planned=True), "info", "replaced", {"error": "old"}),
        (Drained(255), "info", "drained", {"process": "ff"}),
        (Adapted("threads", 1, 2, "faster"), "info", "adapted", {}),
        (Entered(16), "info", "entered", {"process": "10"}),
        (Entered(16, again=True), "warning", "entered", {"process": "10"}),
        (Moved(3, RunState.OPEN, 2), "info", "run-moved", {"run": 3}),
        (Moved(3, RunState.DRAINING, 2), "info", "run-moved", {"run": 3}),
        (Moved(3, RunState.DONE, 2, "tree"), "info", "run-ended", {"run": 3, "name": "tree"}),
    ],
    ids=lambda given: type(given).__name__ if not isinstance(given, str | dict) else "",
)
def test_a_line_for_programs_has_every_field_and_those_that_are_known_filled(
    signal: Signal, level: str, event: str, facts: dict[str, object]
) -> None:
    lines: list[str] = []
    Log(lines.append, "json")(signal)
    (line,) = map(json.loads, lines)
    assert list(line) == FIELDS
    assert (line["level"], line["event"]) == (level, event)
    known = {name: value for name, value in line.items() if value is not None and name not in FIELDS[:4]}
    assert known == facts
    assert datetime.fromisoformat(line["time"]).tzinfo is not None


def test_the_end_of_each_attempt_is_told_with_how_long_it_took_and_why_it_failed() -> None:
    lines: list[str] = []
    log = Log(lines.append, "json", logging.DEBUG)
    log(Entered(16))
    log(ATTEMPTS)
    _, *found = (list(json.loads(line).values())[1:] for line in lines)
    assert [[level, event, *facts] for level, event, _, *facts in found] == [
        ["debug", "task-done", 3, "tree", "load", "mail", 7, 1, "10", 0.25, None, None, None],
        ["warning", "task-retrying", 3, "tree", "load", "mail", 8, 2, "10", 0.0015, "OSError: no", TRACEBACK, None],
        ["error", "task-failed", 3, None, "load", "", 9, 4, "10", 0.0, "OSError: no", TRACEBACK, None],
        ["debug", "task-skipped", 3, None, "sum", "", 10, None, "10", None, None, None, None],
    ]


def test_a_log_is_as_loud_as_it_was_asked_to_be() -> None:
    lines: list[str] = []
    for level in (logging.DEBUG, logging.INFO, logging.ERROR):
        Log(lines.append, "json", level)(ATTEMPTS)
    assert [json.loads(line)["task"] for line in lines] == [7, 8, 9, 10, 8, 9, 9]


def test_a_line_for_people_has_the_same_in_words() -> None:
    lines: list[str] = []
    log = Log(lines.append, "text")
    log.say("working on walk.db")
    log(Entered(0x25BF2B9E33BA64DC))
    log(ATTEMPTS)
    assert [line.partition("Z ")[2] for line in lines] == [
        "info    -                said: working on walk.db",
        "info    25bf2b9e33ba64dc entered: working as process 25bf2b9e33ba64dc",
        "warning 25bf2b9e33ba64dc task-retrying: load 8 of run 3 (tree): attempt 2 failed after 2 ms, to be tried "
        "again: OSError: no",
        "error   25bf2b9e33ba64dc task-failed: load 9 of run 3: attempt 4 failed, and it was the last: OSError: no",
    ]


def test_a_line_for_programs_stays_one_line_of_ascii_whatever_is_in_it() -> None:
    lines: list[str] = []
    log = Log(lines.append, "json")
    log.say("a\nb\x1b[31m\u202e\udcff\x9b")
    assert lines[0].isascii()
    assert lines[0].isprintable()
    assert json.loads(lines[0])["text"] == "a\nb\x1b[31m\u202e\udcff\x9b"


def test_nobody_who_waits_is_told_of_attempts_runs_and_claims() -> None:
    said: list[str] = []
    teller = Teller(said.append, said.append)
    for signal in (ATTEMPTS, Took(3), Entered(1), Moved(3, RunState.DONE, 1), Stopping("done")):
        teller(signal)
    assert said == []
    assert list(told(Took(3))) == []
