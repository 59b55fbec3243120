"""The backend for Django's tasks framework: what Django documents of backends, each with a real store and worker."""

from __future__ import annotations

import io
import logging
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asgiref.sync import async_to_sync

from ramify import Engine
from ramify.contrib.django import RamifyBackend
from ramify.contrib.django.depot import KIND
from ramify.contrib.django.framework import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist, TaskResultStatus
from ramify.contrib.django.ticket import Ticket
from ramify.errors import BadPayload
from ramify.inspect.limits import statuses_of
from ramify.model.limit import Numbers
from tests.contrib import django_goods as goods
from tests.contrib.conftest import Configure, work_off
from tests.contrib.django_here import framework

READY, FAILED, SUCCESSFUL = TaskResultStatus.READY, TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
signals: Any = import_module(f"{framework.__name__}.signals")
exceptions: Any = import_module(f"{framework.__name__}.exceptions")


def send(n: int) -> None:
    """A function of another engine."""


def stored(backend: RamifyBackend) -> int:
    """How many tasks are in the store."""
    return sum(1 for _ in backend.depot.engine.jobs())


# enqueuing


def test_the_backend_can_do_all_that_a_backend_may(backend: RamifyBackend) -> None:
    can = (backend.supports_defer, backend.supports_async_task, backend.supports_get_result, backend.supports_priority)
    assert can == (True, True, True, True)


def test_what_is_enqueued_is_ready_and_in_the_store(backend: RamifyBackend) -> None:
    before = datetime.now(UTC)
    result = goods.add.enqueue(1, b=2)
    assert (result.status, result.args, result.kwargs, result.backend) == (READY, [1], {"b": 2}, "default")
    assert 0 < len(result.id) < 64
    assert before <= result.enqueued_at <= datetime.now(UTC)
    assert (result.started_at, result.finished_at, result.last_attempted_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts, result.is_finished) == ([], [], 0, False)
    assert backend.get_result(result.id) == result
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    assert goods.ran == []


def test_a_result_is_found_from_any_thread(backend: RamifyBackend) -> None:
    result = goods.add.enqueue(1)
    found: list[Any] = []
    # Each thread has backends of its own.
    thread = threading.Thread(target=lambda: found.append(framework.task_backends["default"].get_result(result.id)))
    thread.start()
    thread.join()
    assert found == [result]


def test_arguments_go_the_way_of_json(backend: RamifyBackend) -> None:
    result = goods.echo.enqueue((1, 2), 2**70, {1: None}, b"ab", word="ä")
    work_off(backend)
    ((args, kwargs),) = goods.ran
    assert (args, kwargs) == (([1, 2], 2**70, {"1": None}, "ab"), {"word": "ä"})
    result.refresh()
    assert result.return_value == [[[1, 2], 2**70, {"1": None}, "ab"], {"word": "ä"}]


@pytest.mark.parametrize("given", [datetime(2026, 1, 1, tzinfo=UTC), {1, 2}, object()])
def test_what_is_not_json_is_refused(backend: RamifyBackend, given: object) -> None:
    with pytest.raises(TypeError):
        goods.add.enqueue(given)
    assert stored(backend) == 0


def test_what_is_too_large_is_refused_where_it_is_enqueued_and_not_at_the_commit(backend: RamifyBackend) -> None:
    from django.db import transaction  # type: ignore[import-untyped]

    with transaction.atomic(), pytest.raises(BadPayload):
        goods.add.enqueue("x" * 2_000_000)


def test_a_coroutine_enqueues_and_reads_results(backend: RamifyBackend) -> None:
    async def visit() -> tuple[Any, Any, Any]:
        result = await goods.later.aenqueue(4)
        found = await goods.later.aget_result(result.id)
        work_off(backend)
        await result.arefresh()
        return result, found.status, await backend.aget_result(result.id)

    result, before, after = async_to_sync(visit)()
    assert (before, result.status, result.return_value, after.return_value) == (READY, SUCCESSFUL, {"n": 4}, {"n": 4})


# what is refused


def test_a_priority_or_a_time_that_is_none_is_refused(backend: RamifyBackend) -> None:
    for priority in (101, -101, 1.5):
        with pytest.raises(InvalidTask, match="whole number between -100 and 100"):
            goods.add.using(priority=priority)
    with pytest.raises(InvalidTask, match="aware"):
        goods.add.using(run_after=datetime(2026, 1, 1))


def test_only_functions_at_the_top_of_a_module_can_be_tasks(backend: RamifyBackend) -> None:
    def inner() -> None: ...

    for function in (inner, lambda: None, len):
        with pytest.raises(InvalidTask, match="module level"):
            framework.task(function)
    with pytest.raises(InvalidTask, match="context"):
        framework.task(takes_context=True)(goods.plain)


def test_only_queues_of_the_settings_are_taken(configure: Configure) -> None:
    backend = configure(["default", "mail"])
    result = goods.add.using(queue_name="mail").enqueue(1)
    assert [job.queue for job in backend.depot.engine.jobs()] == ["mail"]
    assert backend.get_result(result.id).task.queue_name == "mail"
    with pytest.raises(InvalidTask, match="Queue 'post' is not valid"):
        goods.add.using(queue_name="post")


def test_without_a_list_of_queues_any_name_is_taken_that_a_store_can_keep(configure: Configure) -> None:
    configure([])
    assert goods.add.using(queue_name="post").enqueue(1).status == READY
    with pytest.raises(InvalidTask, match="NUL"):
        goods.add.using(queue_name="a\0b")


@pytest.mark.parametrize(("name", "why"), [("renamed", "function and not a task"), ("double", "another task")])
def test_a_task_that_workers_would_not_find_is_refused(backend: RamifyBackend, name: str, why: str) -> None:
    with pytest.raises(InvalidTask, match=why):
        getattr(goods, name).enqueue()
    assert stored(backend) == 0


@pytest.mark.parametrize("path", ["tests.contrib.django_goods.plain", "os.getcwd", "nowhere.task", "__main__.task"])
def test_a_worker_calls_nothing_that_is_no_task(backend: RamifyBackend, path: str) -> None:
    from ramify.contrib.django.ticket import Ticket

    ticket = Ticket(path, "[[], {}]", "default", "default", 0, None, datetime.now(UTC))
    job = backend.depot.engine.enqueue(backend.depot.call("x", ticket))
    work_off(backend)
    assert job.error is not None
    assert job.error.failure.type.rpartition(".")[2] in ("InvalidTask", "InvalidTaskError")
    assert path in job.error.failure.text
    assert goods.ran == []


# running


def test_a_task_that_was_done_tells_what_it_returned_when_and_where(backend: RamifyBackend) -> None:
    result = goods.add.enqueue(1, 2)
    work_off(backend)
    assert result.status == READY
    result.refresh()
    assert (result.status, result.return_value, result.errors, result.is_finished) == (SUCCESSFUL, 3, [], True)
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    (process,) = backend.depot.engine._runtime.store.reads.processes()
    assert (result.worker_ids, result.attempts) == ([f"{process.id:x}"], 1)
    assert goods.add.get_result(result.id) == result
    assert goods.ran == [(1, 2)]


def test_a_task_that_raised_has_failed_and_is_not_tried_again(
    backend: RamifyBackend, caplog: pytest.LogCaptureFixture
) -> None:
    result = goods.fail.enqueue("no such thing")
    work_off(backend)
    result.refresh()
    assert (result.status, result.attempts, result.is_finished, goods.ran) == (FAILED, 1, True, ["no such thing"])
    (error,) = result.errors
    assert error.exception_class is LookupError
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert f'{goods.__file__}", line ' in error.traceback
    assert error.traceback.endswith("in fail\n    raise LookupError(text)\nLookupError: no such thing\n")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value
    # Django's own receiver has the exception at hand.
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


@pytest.mark.parametrize(("name", "error"), [("now", TypeError), ("leave", SystemExit), ("huge", BadPayload)])
def test_what_returns_no_json_or_too_much_or_leaves_has_failed(
    backend: RamifyBackend, heard: list[tuple[str, Any, str]], name: str, error: type
) -> None:
    result = getattr(goods, name).enqueue()
    work_off(backend)
    result.refresh()
    assert (result.status, [each.exception_class for each in result.errors]) == (FAILED, [error])
    assert heard[-1] == ("task_finished", RamifyBackend, "FAILED")


def test_a_task_can_take_its_context(backend: RamifyBackend) -> None:
    result = goods.told.enqueue("word")
    work_off(backend)
    result.refresh()
    assert result.return_value == ["word", 1, result.id, "RUNNING", ["word"], result.worker_ids]
    assert result.attempts == 1


def test_higher_priorities_come_first_whatever_came_before(backend: RamifyBackend) -> None:
    from django.core.management import call_command  # type: ignore[import-untyped]

    for priority in (0, -100, 7, 100, 6, -1):
        goods.add.using(priority=priority).enqueue(priority)
    # The way programs type it: numbers may stay numbers.
    call_command("ramify_worker", burst=True, threads=1, queues=["default"])
    assert [a for a, _ in goods.ran] == [100, 7, 6, 0, -1, -100]


def test_a_task_is_not_run_before_its_time(backend: RamifyBackend) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    waits = goods.add.using(run_after=soon, priority=5).enqueue(1)
    goods.add.using(run_after=soon - timedelta(hours=2)).enqueue(2)
    work_off(backend)
    waits.refresh()
    assert (waits.status, goods.ran) == (READY, [(2, 0)])
    assert backend.get_result(waits.id).task == goods.add.using(run_after=soon, priority=5)


def test_without_time_zones_a_time_is_one_of_the_settings(configure: Configure) -> None:
    from django.test import override_settings  # type: ignore[import-untyped]

    backend = configure()
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        result = goods.add.using(run_after=datetime(2100, 1, 1)).enqueue(1)
        (job,) = backend.depot.engine.jobs()
        segment = backend.depot.engine._runtime.store.reads.segment(job.id)
        assert segment is not None
        assert segment.due == int(datetime(2099, 12, 31, 15, tzinfo=UTC).timestamp()) * 1_000_000
        assert backend.get_result(result.id).task.run_after == result.task.run_after == datetime(2100, 1, 1)
        before = datetime.now()
        done = goods.add.enqueue(2)
        work_off(backend)
        done.refresh()
        assert before <= done.enqueued_at <= done.started_at <= done.finished_at <= datetime.now()


def test_each_attempt_opens_a_connection_and_leaves_none(backend: RamifyBackend) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE goods (n)")
    results = [goods.count_rows.enqueue() for _ in range(3)]
    work_off(backend)
    assert [backend.get_result(each.id).return_value for each in results] == [0, 0, 0]


# results


def test_a_result_that_is_not_there_does_not_exist(backend: RamifyBackend) -> None:
    goods.add.enqueue(1)
    for id in ("nothing", "", "\udcff", 17):
        with pytest.raises(TaskResultDoesNotExist):
            backend.get_result(id)  # type: ignore[arg-type]
    with pytest.raises(TaskResultDoesNotExist):
        goods.add.get_result("nothing")


def test_a_result_is_of_its_task_and_its_backend(backend: RamifyBackend) -> None:
    result = goods.add.enqueue(1)
    with pytest.raises(exceptions.TaskResultMismatch, match=r"django_goods\.add"):
        goods.echo.get_result(result.id)
    with pytest.raises(TaskResultDoesNotExist):
        framework.task_backends["other"].get_result(result.id)


def test_a_result_that_was_forgotten_does_not_exist(configure: Configure) -> None:
    backend = configure(keep=timedelta(hours=1))
    assert backend.depot.engine._runtime.keeps()[KIND] == 3600
    result = goods.add.enqueue(1)
    work_off(backend)
    assert backend.get_result(result.id).status == SUCCESSFUL
    (run,) = backend.depot.engine.runs()
    run.cancel()
    run.forget()
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result.id)


def test_a_task_that_was_cancelled_has_failed_for_that_reason(backend: RamifyBackend) -> None:
    result = goods.add.enqueue(1)
    (job,) = backend.depot.engine.jobs(key=result.id)
    job.cancel("not needed")
    result.refresh()
    (error,) = result.errors
    assert (result.status, error.exception_class.__name__, result.attempts) == (FAILED, "JobCancelled", 0)
    assert "not needed" in error.traceback


def test_a_task_whose_queue_was_cancelled_has_failed_for_that_reason(backend: RamifyBackend) -> None:
    result = goods.add.enqueue(1)
    (run,) = backend.depot.engine.runs()
    run.cancel()
    result.refresh()
    assert (result.status, [each.exception_class.__name__ for each in result.errors]) == (FAILED, ["JobCancelled"])
    # The next one begins the queue anew, and both are found.
    again = goods.add.enqueue(2)
    assert (backend.get_result(again.id).status, backend.get_result(result.id).status) == (READY, FAILED)


def test_a_task_that_is_retried_by_hand_tells_of_all_its_attempts(backend: RamifyBackend) -> None:
    result = goods.fail.enqueue("again")
    work_off(backend)
    (job,) = backend.depot.engine.jobs(key=result.id)
    assert job.retry()
    assert backend.get_result(result.id).status == READY
    work_off(backend)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 2, 2)
    assert result.started_at < result.last_attempted_at <= result.finished_at


@pytest.mark.parametrize(("given", "value"), [("7", 7), ("fine", "fine")])
def test_what_a_person_resolved_a_task_with_is_what_it_returned(
    backend: RamifyBackend, given: str, value: object
) -> None:
    result = goods.fail.enqueue("by hand")
    work_off(backend)
    (job,) = backend.depot.engine.jobs(key=result.id)
    (run,) = backend.depot.engine.runs()
    run.resolve(job.id, result=given)
    assert backend.get_result(result.id).return_value == value


# kinds


def test_people_see_a_task_under_its_path(backend: RamifyBackend) -> None:
    from ramify.signals import Worked

    heard: list[Worked] = []
    engine = backend.depot.engine
    engine.listen(lambda signal: heard.append(signal) if isinstance(signal, Worked) else None)
    goods.add.enqueue(1)
    goods.fail.enqueue("no")
    work_off(backend)
    add, fail = (f"{goods.__name__}.{name}" for name in ("add", "fail"))
    assert [job.kind for job in engine.jobs()] == [fail, add]
    (run,) = engine.runs()
    assert [group.kind for group in engine._runtime.store.reads.errors(run.id).groups] == [fail]
    counted = {(each.kind, outcome) for signal in heard for each in signal.attempts for outcome, _ in each.outcomes}
    assert counted == {(add, "done"), (fail, "failed")}


def test_a_task_whose_path_is_too_long_for_a_kind_is_run_all_the_same(backend: RamifyBackend) -> None:
    long = "x" * 2_000
    ticket = msgspec.structs.replace(Ticket.of(goods.add, [1], {}, "default"), task=long)
    backend.depot.engine.enqueue(backend.depot.call("id", ticket))
    work_off(backend)
    (job,) = backend.depot.engine.jobs()
    assert (job.kind, job.state) == (KIND, "failed")
    assert job.error is not None
    assert "there is no task" in job.error.failure.text


def test_a_task_that_was_stored_under_the_one_kind_of_before_is_run(backend: RamifyBackend) -> None:
    depot = backend.depot
    depot.engine.enqueue(depot._run.of(Ticket.of(goods.add, [1, 2], {}, "default")).key("old"))
    work_off(backend)
    assert (backend.get_result("old").status, backend.get_result("old").return_value) == (SUCCESSFUL, 3)


def test_tasks_of_other_engines_in_the_store_are_left_to_them(backend: RamifyBackend) -> None:
    other = Engine(backend.options["store"])

    job = other.enqueue(other.task(name=f"{goods.__name__}.plain")(send).of(1))
    goods.add.enqueue(1)
    work_off(backend)
    assert (job.state, goods.ran) == ("queued", [(1, 0)])
    other.close()


def test_a_task_that_a_task_enqueues_is_run_by_the_same_worker(backend: RamifyBackend) -> None:
    goods.pass_on.enqueue()
    work_off(backend)
    assert goods.ran == [((), {})]


# settings that change


def test_a_worker_of_a_program_works_on_the_store_of_the_settings_as_they_are(tmp_path: Path) -> None:
    from django.core.management import call_command
    from django.test import override_settings

    for number in range(3):
        options = {"store": tmp_path / f"{number}.db"}
        with override_settings(
            TASKS={"default": {"BACKEND": "ramify.contrib.django.RamifyBackend", "OPTIONS": options}}
        ):
            result = goods.add.enqueue(number)
            said = io.StringIO()
            call_command("ramify_worker", "--burst", stdout=said)
            result.refresh()
            assert (result.status, result.return_value) == (SUCCESSFUL, number)
            assert f"{number}.db" in said.getvalue()


def test_what_a_worker_says_goes_where_the_program_wants_it(
    backend: RamifyBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    from django.core.management import call_command

    out, err = io.StringIO(), io.StringIO()
    call_command("ramify_worker", "--burst", stdout=out, stderr=err)
    assert (out.getvalue(), "nothing is ready" in err.getvalue()) == ("", True)
    assert capsys.readouterr() == ("", "")
    call_command("ramify_worker", "--burst")
    assert "nothing is ready" in capsys.readouterr().err


# signals


def test_signals_tell_of_each_step_with_the_result(backend: RamifyBackend, heard: list[tuple[str, Any, str]]) -> None:
    goods.add.enqueue(1)
    assert heard == [("task_enqueued", RamifyBackend, "READY")]
    goods.fail.enqueue("x")
    work_off(backend)
    assert heard[2:] == [
        ("task_started", RamifyBackend, "RUNNING"),
        ("task_finished", RamifyBackend, "SUCCESSFUL"),
        ("task_started", RamifyBackend, "RUNNING"),
        ("task_finished", RamifyBackend, "FAILED"),
    ]


def test_a_task_that_puts_itself_off_has_not_finished(
    backend: RamifyBackend, heard: list[tuple[str, Any, str]]
) -> None:
    result = goods.put_off.enqueue()
    work_off(backend)
    result.refresh()
    assert (result.return_value, result.errors, goods.ran) == ("done", [], ["put off"] * 2)
    assert [name for name, _, _ in heard] == ["task_enqueued", "task_started", "task_started", "task_finished"]


def test_whoever_hears_of_an_end_cannot_change_it(backend: RamifyBackend) -> None:
    def broken(**told: Any) -> None:
        raise OSError("a receiver is broken")

    signals.task_finished.connect(broken)
    try:
        results = [goods.add.enqueue(1), goods.fail.enqueue("x")]
        work_off(backend)
    finally:
        signals.task_finished.disconnect(broken)
    found = [backend.get_result(each.id) for each in results]
    assert [each.status for each in found] == [SUCCESSFUL, FAILED]
    assert found[1].errors[0].exception_class is LookupError


# transactions


def test_what_is_enqueued_in_a_transaction_is_added_by_its_commit(backend: RamifyBackend) -> None:
    from django.db import transaction

    with transaction.atomic():
        result = goods.add.enqueue(1)
        with transaction.atomic():
            goods.add.enqueue(2)
        assert (stored(backend), result.status, result.enqueued_at) == (0, READY, None)
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
    assert stored(backend) == 2
    assert result.enqueued_at is not None
    assert backend.get_result(result.id) == result


def test_a_rollback_enqueues_nothing(backend: RamifyBackend) -> None:
    from django.db import transaction

    with pytest.raises(ZeroDivisionError), transaction.atomic():
        goods.add.enqueue(1)
        raise ZeroDivisionError
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            goods.add.enqueue(2)
            raise ZeroDivisionError
        goods.add.enqueue(3)
    work_off(backend)
    assert goods.ran == [(3, 0)]


def test_transactions_of_several_databases_must_all_be_committed(backend: RamifyBackend) -> None:
    from django.db import transaction

    with transaction.atomic(using="other"):
        with transaction.atomic():
            goods.add.enqueue(1)
        assert stored(backend) == 0
    assert stored(backend) == 1
    with pytest.raises(ZeroDivisionError), transaction.atomic(using="other"):
        with transaction.atomic():
            goods.add.enqueue(2)
        raise ZeroDivisionError
    assert stored(backend) == 1


def test_a_coroutine_enqueues_by_the_transaction_of_its_thread(backend: RamifyBackend) -> None:
    from django.db import transaction

    with transaction.atomic():
        # Django runs what touches its connections in the thread that called `async_to_sync`.
        async_to_sync(goods.add.aenqueue)(1)
        assert stored(backend) == 0
    assert stored(backend) == 1


def test_who_waits_for_the_commit_by_hand_waits_once(backend: RamifyBackend) -> None:
    from django.db import transaction

    with transaction.atomic():
        transaction.on_commit(partial(goods.add.enqueue, 1))
        assert stored(backend) == 0
    assert stored(backend) == 1


def test_tests_of_users_run_what_a_commit_would(backend: RamifyBackend) -> None:
    from django.db import transaction
    from django.test import TestCase

    # Such a test is inside a transaction that is never committed.
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        with TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
            goods.add.enqueue(1)
            transaction.on_commit(partial(goods.add.enqueue, 2))
        assert (len(callbacks), stored(backend)) == (3, 2)
        raise ZeroDivisionError


def test_with_on_commit_off_nothing_is_waited_for(configure: Configure) -> None:
    from django.db import transaction

    backend = configure(on_commit=False)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert goods.add.enqueue(1).enqueued_at is not None
        assert stored(backend) == 1
        raise ZeroDivisionError
    assert stored(backend) == 1


# settings


def test_a_limit_of_a_queue_holds_for_all_workers(configure: Configure) -> None:
    backend = configure(queues=["default", "mail"], max_running={"mail": 2})
    result = goods.add.using(queue_name="mail").enqueue(1)
    work_off(backend)
    result.refresh()
    assert result.status == SUCCESSFUL
    (limit,) = statuses_of(backend.depot.engine._runtime.store)
    assert (limit.name, limit.stored.numbers, limit.stored.limit.queues) == ("queue/mail", Numbers(2), ("mail",))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"store": None}, 'OPTIONS needs the store, a file such as BASE_DIR / "tasks.db"'),
        (
            {"stroe": "tasks.db"},
            "OPTIONS has 'stroe', which is not known; there are store, on_commit, keep, max_running",
        ),
        (
            {"max_running": {"mail": 0}},
            "OPTIONS: queue(max_running=0): expected a whole number, 1 or more. To stop all of them, pause their run "
            "or queue.",
        ),
        ({"max_running": 5}, "OPTIONS needs max_running by queue: {'mail': 10}"),
        ({"keep": -1}, "OPTIONS: @task(keep=-1) on run(): expected seconds or a timedelta, more than 0."),
    ],
)
def test_settings_that_cannot_work_are_found_by_check_and_refused(
    configure: Configure, options: dict[str, Any], text: str
) -> None:
    from django.core.checks import run_checks  # type: ignore[import-untyped]

    configure()
    assert [each for each in run_checks() if each.id == "ramify.E001"] == []
    configure(**options)
    assert [each.msg for each in run_checks() if each.id == "ramify.E001"] == [f"TASKS['default']: {text}"]
    with pytest.raises(InvalidTaskBackend) as refused:
        goods.add.enqueue(1)
    assert str(refused.value) == f"TASKS['default']: {text}"
