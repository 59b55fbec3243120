"""current(): what a handler may ask about itself, and the log lines it leaves."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ramify.errors import OutsideTask
from ramify.kernel.attempts.current import current
from ramify.kernel.attempts.notes import PROGRESS
from ramify.model.call import Call
from ramify.model.event import Status
from ramify.model.process import NewProcess, Stamp, new_process_id
from ramify.model.run import Follows
from tests.kernel.shop import LONG, Gate, Shop, opener, wait_until

COLOURS = pytest.mark.parametrize("colour", ["plain", "async"])


def coloured(fn: Any, colour: str) -> Any:
    """The same function as a coroutine, if asked for."""
    if colour == "plain":
        return fn

    async def coroutine(name: str) -> Any:
        await asyncio.sleep(0)
        return fn(name)

    return coroutine


@COLOURS
def test_it_knows_everything_about_its_task(shop: Shop, colour: str) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def look(name: str) -> None:
        here = current()
        seen[name] = {
            "run": (here.run.id, here.run.name, here.run.params),
            "run_id": here.run_id,
            "task": here.task,
            "kind": here.kind,
            "key": here.key,
            "round": here.round,
            "lane": here.lane,
            "parent": here.parent,
            "attempt": here.attempt,
            "idempotency_key": here.idempotency_key,
            "params": here.params,
            "headers": dict(here.headers),
            "cancelled": here.cancelled,
        }

    def root() -> Iterator[Call[Any]]:
        yield task.of("bare")
        yield task.of("full").key("ключ").lane("host").headers(trace="t1", span="s2").retries(7)

    task = shop.task(coloured(look, colour), kind="look")
    run = shop.start(shop.task(root).of(), name="named", params={"depth": 3})
    shop.finish(run)
    (parent,) = shop.tasks(run, "root")
    bare, full = seen["bare"], seen["full"]
    assert {bare["task"], full["task"]} == set(shop.tasks(run, "look"))
    for each in (bare, full):
        assert each["run"] == (run, "named", {"depth": 3})
        assert each["run_id"] == run
        assert (each["kind"], each["round"], each["parent"], each["attempt"]) == ("look", 1, parent, 1)
        assert each["idempotency_key"] == f"{shop.store.id}-{run}-{each['task']}"
        assert each["params"] == {"depth": 3}
        assert each["cancelled"] is False
    assert (bare["key"], bare["lane"], bare["headers"]) == (None, None, {})
    assert (full["key"], full["lane"], full["headers"]) == ("ключ", "host", {"trace": "t1", "span": "s2"})


@COLOURS
def test_tasks_beside_each_other_see_each_their_own(quick: Shop, colour: str) -> None:
    meeting = threading.Barrier(4)

    def look(name: str) -> bool:
        before = current().task
        if colour == "plain":
            meeting.wait(5)
        return before == current().task and current().key == name

    task = quick.task(coloured(look, colour), kind="look")
    run = quick.run(*(task.of(str(n)).key(str(n)) for n in range(8)), threads=4)
    assert quick.results(run) == [True] * 8


def test_it_is_the_same_after_an_await_and_in_what_the_task_awaits(quick: Shop) -> None:
    async def inner() -> int:
        await asyncio.sleep(0)
        return current().task

    async def outer() -> bool:
        mine = current().task
        both = await asyncio.gather(inner(), inner())
        return [mine, mine] == list(both) and await asyncio.to_thread(lambda: current().task) == mine

    task = quick.task(outer)
    run = quick.run(*(task.of() for _ in range(10)))
    assert quick.results(run) == [True] * 10


def test_outside_of_a_task_it_says_so(quick: Shop) -> None:
    def work() -> None: ...

    with pytest.raises(OutsideTask, match=r"current\(\): called outside a task\. Call it in a task function"):
        current()
    quick.kernel(quick.start(quick.task(work).of()), threads=0).run()
    with pytest.raises(OutsideTask):
        current()


def test_a_thread_that_a_handler_starts_has_none(quick: Shop) -> None:
    found: list[str] = []

    def work() -> None:
        def elsewhere() -> None:
            try:
                current()
            except OutsideTask:
                found.append("outside")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    quick.run(quick.task(work).of())
    assert found == ["outside"]


def test_the_idempotency_key_changes_only_when_a_task_runs_again_after_a_success(shop: Shop) -> None:
    keys: list[str] = []

    def work() -> None:
        keys.append(current().idempotency_key)
        if len(keys) == 1:
            raise ValueError

    run = shop.run(shop.task(work).of())
    process = new_process_id()
    shop.store.enter(NewProcess(process))
    shop.store.reopen(Stamp(process, 1), run, shop.tasks(run))
    shop.store.leave(process)
    shop.finish(run)
    (task,) = shop.tasks(run)
    key = f"{shop.store.id}-{run}-{task}"
    assert keys == [key, key, f"{key}-1"]


def test_a_follower_reads_what_its_leader_found(shop: Shop) -> None:
    def lead(name: str) -> int:
        return len(name)

    def follow(name: str) -> int:
        return int(current().leader.get(name))

    leader = shop.start(shop.task(lead).of("abc").key("abc"))
    follower = shop.start(shop.task(follow).of("abc"), follows=Follows(leader, 0))
    shop.finish(leader, follower)
    assert shop.results(follower) == [3]


def test_a_run_that_follows_nobody_has_no_leader(quick: Shop) -> None:
    def follow() -> None:
        current().leader  # noqa: B018

    run = quick.run(quick.task(follow, retries=0).of())
    assert quick.failure(quick.tasks(run)[0]).type == "ramify.errors.ConfigError"


# logs


def lines(shop: Shop, run: int, **which: Any) -> list[Any]:
    return [stored.line for stored in shop.store.reads.logs(run, **which).rows]


@COLOURS
def test_what_a_task_logs_is_stored_with_it(shop: Shop, colour: str) -> None:
    def speak(name: str) -> None:
        current().log.info("hello %s", name)
        current().log.debug("not this")
        logging.getLogger("mine").warning("from a library")
        if current().attempt == 1:
            raise ValueError

    run = shop.run(shop.task(coloured(speak, colour), kind="speak").of("you"))
    (task,) = shop.tasks(run)
    found = [(line.task, line.attempt, line.level, line.logger, line.text) for line in lines(shop, run)]
    assert found == [
        (task, attempt, *rest)
        for attempt in (1, 2)
        for rest in ((20, "ramify.task.speak", "hello you"), (30, "mine", "from a library"))
    ]
    assert [line.n for line in lines(shop, run)] == [1, 2, 3, 4]


@COLOURS
def test_plain_logging_below_the_level_of_the_root_is_stored_and_shown_to_nobody_else(
    quick: Shop, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    mine, silent, apart = (logging.getLogger(name) for name in ("mine", "silent", "apart"))
    silent.setLevel(logging.WARNING)
    apart.propagate = False
    root = logging.getLogger()
    before = root.level, dict(vars(logging.Logger))
    assert root.level == logging.WARNING
    seen: list[int] = []

    def speak(name: str) -> None:
        seen.append(root.level)
        assert mine.isEnabledFor(logging.INFO)
        mine.info("plain %s", name, extra={"more": 1})
        mine.debug("too fine for the engine")
        silent.info("told to be silent")
        silent.getChild("below").info("told to be silent")
        apart.info("not for the root")
        mine.warning("as ever")

    run = quick.run(quick.task(coloured(speak, colour), kind="speak").of("info"))
    mine.info("outside of tasks")
    silent.setLevel(logging.NOTSET)
    apart.propagate = True
    assert [(line.level, line.logger, line.text) for line in lines(quick, run)] == [
        (20, "mine", "plain info"),
        (30, "mine", "as ever"),
    ]
    assert [record.getMessage() for record in caplog.records if record.name == "mine"] == ["as ever"]
    assert seen == [logging.WARNING]
    assert (root.level, dict(vars(logging.Logger))) == before


def test_while_a_task_runs_the_logging_of_other_threads_is_as_ever(
    quick: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    gate, mine = Gate(), logging.getLogger("mine")

    def speak() -> None:
        gate.enter()
        mine.info("inside")

    run = quick.start(quick.task(speak).of())
    with quick.working(run):
        gate.wait_for(1)
        assert not mine.isEnabledFor(logging.INFO)
        mine.info("not worth a record")
        logging.disable(logging.INFO)
        gate.open()
        wait_until(lambda: quick.state(run).is_end)
        logging.disable(logging.NOTSET)
    assert not caplog.records
    assert lines(quick, run) == []


@COLOURS
def test_records_made_in_a_task_say_where_they_come_from(
    quick: Shop, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    def speak(name: str) -> None:
        logging.getLogger("mine").warning("here")

    run = quick.run(quick.task(coloured(speak, colour), kind="speak").of("x"))
    logging.getLogger("mine").warning("outside")
    inside, outside = (record for record in caplog.records if record.name == "mine")
    where = {name: getattr(inside, name) for name in ("run", "kind", "task", "attempt")}
    assert where == {"run": run, "kind": "speak", "task": quick.tasks(run)[0], "attempt": 1}
    assert not hasattr(outside, "kind")


def test_logging_is_as_before_when_the_kernel_is_over(quick: Shop) -> None:
    def work() -> None: ...

    before = logging.getLogRecordFactory(), list(logging.getLogger().handlers), logging.getLogger("ramify.task").level
    quick.run(quick.task(work).of())
    after = logging.getLogRecordFactory(), list(logging.getLogger().handlers), logging.getLogger("ramify.task").level
    assert before == after


def test_an_attempt_may_leave_so_many_lines_and_then_says_so_once(quick: Shop) -> None:
    def talk(name: str) -> None:
        for n in range(50):
            current().log.info("%s %s", name, n)

    task = quick.task(talk)
    run = quick.run(task.of("a"), task.of("b"), log_lines=5)
    for each, name in zip(quick.tasks(run), "ab", strict=True):
        texts = [line.text for line in lines(quick, run, task=each)]
        assert texts[:5] == [f"{name} {n}" for n in range(5)]
        assert len(texts) == 6
        assert "more than 5 lines" in texts[5]


def test_what_is_said_of_progress_is_kept_however_much_was_logged_and_takes_no_line_of_it(quick: Shop) -> None:
    def talk() -> None:
        current().progress(1, 2, "files")
        for n in range(3):
            current().log.info("%s", n)
        current().progress(2, 2, "files")

    run = quick.run(quick.task(talk).of(), log_lines=2)
    said = [(line.logger, line.text) for line in lines(quick, run)]
    assert said[-1] == (PROGRESS, "2 of 2 files")
    logged = [text for logger, text in said if logger != PROGRESS]
    assert logged[:2] == ["0", "1"]
    assert len(logged) == 3


def test_the_level_of_what_is_stored_can_be_chosen(quick: Shop) -> None:
    def talk() -> None:
        current().log.debug("fine")
        current().log.error("bad")

    task = quick.task(talk)
    quiet, loud = quick.run(task.of(), log_level=40), quick.run(task.of(), log_level=10)
    assert [line.text for line in lines(quick, quiet)] == ["bad"]
    assert [line.text for line in lines(quick, loud)] == ["fine", "bad"]


class Wordless:
    def __str__(self) -> str:
        raise ValueError


def test_a_record_that_cannot_be_put_into_words_fails_nobody(quick: Shop) -> None:
    def talk() -> int:
        current().log.info("%s", Wordless())
        current().log.info("%d", "no number")
        current().log.info("lone surrogate \udc80")
        return 1

    raising, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        run = quick.run(quick.task(talk).of())
    finally:
        logging.raiseExceptions = raising
    assert quick.results(run) == [1]
    assert len(lines(quick, run)) == 3


def test_an_error_with_its_traceback_is_stored(quick: Shop) -> None:
    def talk() -> None:
        try:
            raise ValueError("inside")
        except ValueError:
            current().log.exception("it broke")

    run = quick.run(quick.task(talk).of())
    (line,) = lines(quick, run)
    assert line.text.startswith("it broke")
    assert "ValueError: inside" in line.text


def test_lines_are_stored_while_the_task_still_runs(shop: Shop) -> None:
    stored = threading.Event()

    def talk() -> bool:
        current().log.info("first words")
        return stored.wait(5)

    run = shop.start(shop.task(talk).of())
    with shop.working(run):
        wait_until(lambda: lines(shop, run))
        stored.set()
        wait_until(lambda: shop.state(run).is_end)
    assert shop.results(run) == [True]


def test_the_last_word_on_progress_is_stored_and_not_each_one(quick: Shop) -> None:
    def walk(n: int) -> None:
        for step in range(100):
            current().progress(step, 100, note="files")

    task = quick.task(walk)
    run = quick.run(task.of(1), task.of(2), threads=0)
    for each in quick.tasks(run):
        found = [(line.logger, line.text) for line in lines(quick, run, task=each)]
        assert found[-1] == (PROGRESS, "99 of 100 files")
        # The loop may have been there in between, but not that often.
        assert len(found) <= 3
    assert quick.count(run, Status.DONE) == 2


def test_the_last_word_on_progress_is_stored_also_while_the_task_goes_on_and_says_nothing_more(quick: Shop) -> None:
    gate = Gate()

    def walk() -> None:
        current().progress(1, 3, "one")
        current().progress(2, 3, "two")
        gate.enter()

    run = quick.start(quick.task(walk).of())
    with quick.working(run):
        gate.wait_for(1)
        wait_until(lambda: [line.text for line in lines(quick, run)][-1:] == ["2 of 3 two"])
        gate.open()


def test_each_task_of_a_chunk_has_its_own_progress(quick: Shop) -> None:
    def walk(n: int) -> None:
        current().progress(n)

    task = quick.task(walk)
    run = quick.run(*(task.of(n) for n in range(200)))
    assert sorted(int(line.text) for line in lines(quick, run)) == list(range(200))


def test_a_program_that_never_set_up_logging_still_sees_its_warnings_in_tasks_and_outside_once(
    quick: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        logging.getLogger("inside").warning("stored with the run, and seen")
        logging.getLogger("inside").info("stored with the run")

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    run, other = quick.start(quick.task(work).of()), logging.getLogger("outside")
    with quick.working(run, until_ended=False), quick.working(run, until_ended=False):
        wait_until(lambda: quick.state(run).is_end)
        other.warning("seen once")
        other.info("not worth a line")
        handled = logging.NullHandler()
        other.addHandler(handled)
        other.warning("handled by somebody")
        other.removeHandler(handled)
    assert capsys.readouterr().err == "stored with the run, and seen\nseen once\n"


def test_each_of_two_kernels_keeps_the_lines_of_its_own_tasks(quick: Shop, tmp_path: Path) -> None:
    gate, before = Gate(), (logging.getLogRecordFactory(), logging.getLogger("ramify.task").level)

    def speak(name: str) -> None:
        gate.enter()
        current().log.info("I am %s", name)

    other = Shop(opener("memory", tmp_path))
    runs = [shop.start(shop.task(speak).of(name)) for shop, name in ((quick, "one"), (other, "two"))]
    kernels = [shop.kernel(run) for shop, run in zip((quick, other), runs, strict=True)]
    for kernel in kernels:
        kernel.start()
    gate.wait_for(2)
    gate.open()
    assert all(kernel.join(LONG) for kernel in kernels)
    found = [[line.text for line in lines(shop, run)] for shop, run in zip((quick, other), runs, strict=True)]
    assert found == [["I am one"], ["I am two"]]
    assert before == (logging.getLogRecordFactory(), logging.getLogger("ramify.task").level)
    other.close()
