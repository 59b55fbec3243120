"""What holds for any backend of Django's tasks framework, told of ours: the facts that the tests of `django-tasks`
(0.12) state about its own backends, with a real store and worker.

Left out, and why:

- `supports_*` being off, results that cannot be read or refreshed, no `run_after` (immediate): ours supports all of it.
- A task that has ended when `enqueue` returns, and a KeyboardInterrupt that reaches the caller (immediate): ours runs
  in a worker; there a task that raises one has failed.
- `results` and `clear()` (dummy): those are for tests only; `ramify jobs` and `ramify forget` are for people.
- Views of a site (immediate, dummy, database): they read a result in another request, which here is another thread, in
  `test_django_backend.py`.
- `using`, `call`, `acall`, names, module paths, `TaskError.exception_class` of wrong paths, custom task classes and
  custom backends, `utils`: they are about the framework, and no backend has a part in it.
- Transactions (database): in `test_django_backend.py`, with more than one database.
- Rows, locks, indexes, migrations and admin pages of the database backend, its worker ids and its interval: ours has
  none.
- Workers of one alias that leave tasks of another alone (database): aliases of one store share it and its workers.
- `--max-tasks`, `prune_db_task_results`: `--recycle-tasks` and retention, in `tests/engine/` and `tests/cli/`.
- Signals, kills and several workers: in `test_django_worker.py` and `tests/crash/`.
"""

from __future__ import annotations

import dataclasses
import io
from importlib import import_module
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from ramify.contrib.django import RamifyBackend
from ramify.contrib.django.framework import InvalidTask, TaskResultDoesNotExist, TaskResultStatus
from tests.contrib import django_goods as goods
from tests.contrib.conftest import Configure, work_off
from tests.contrib.django_here import framework

READY, FAILED, SUCCESSFUL = TaskResultStatus.READY, TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL
exceptions: Any = import_module(f"{framework.__name__}.exceptions")

ENQUEUES = pytest.mark.parametrize(
    "enqueue",
    [
        lambda task, *args, **kwargs: task.enqueue(*args, **kwargs),
        lambda task, *args, **kwargs: later(task)(*args, **kwargs),
    ],
    ids=["enqueue", "aenqueue"],
)


def later(task: Any) -> Any:
    """`aenqueue` of a task, for who does not await."""
    return async_to_sync(task.aenqueue)


def refreshed(backend: RamifyBackend, result: Any) -> Any:
    """A result after a worker was there."""
    work_off(backend)
    result.refresh()
    return result


def in_order(result: Any) -> bool:
    """Whether a result that has ended knows all its times, and they follow each other."""
    times = [result.enqueued_at, result.started_at, result.last_attempted_at, result.finished_at]
    return None not in times and sorted(times) == times


def test_the_backend_of_the_settings_is_the_one_that_is_given_out(backend: RamifyBackend) -> None:
    assert framework.default_task_backend == framework.task_backends["default"] == backend
    assert (backend.alias, list(backend.options)) == ("default", ["store"])
    assert list(backend.check()) == []


@ENQUEUES
@pytest.mark.parametrize("task", [goods.echo, goods.later], ids=["plain", "async"])
def test_a_task_that_was_enqueued_waits(backend: RamifyBackend, enqueue: Any, task: Any) -> None:
    result = enqueue(task, 1, two=3)
    assert (result.status, result.is_finished, result.attempts, result.errors) == (READY, False, 0, [])
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.task, result.args, result.kwargs) == (task, [1], {"two": 3})
    with pytest.raises(ValueError, match="Task has not finished yet"):
        _ = result.return_value


@ENQUEUES
def test_a_result_is_found_by_its_id_and_is_the_same(backend: RamifyBackend, enqueue: Any) -> None:
    result = enqueue(goods.add, 1, 2)
    before = dataclasses.asdict(result)
    assert backend.get_result(result.id) == goods.add.get_result(result.id) == result
    assert async_to_sync(backend.aget_result)(result.id) == async_to_sync(goods.add.aget_result)(result.id) == result
    result.refresh()
    assert dataclasses.asdict(result) == before
    async_to_sync(result.arefresh)()
    assert dataclasses.asdict(result) == before


@pytest.mark.parametrize("id", ["123", "", "no-uuid", 123, None])
def test_an_id_that_nobody_gave_out_has_no_result(backend: RamifyBackend, id: Any) -> None:
    goods.add.enqueue(1)
    for get in (backend.get_result, async_to_sync(backend.aget_result)):
        with pytest.raises(TaskResultDoesNotExist):
            get(id)


def test_a_result_of_another_task_does_not_match(backend: RamifyBackend) -> None:
    result = goods.later.enqueue(1)
    for get in (goods.add.get_result, async_to_sync(goods.add.aget_result)):
        with pytest.raises(exceptions.TaskResultMismatch):
            get(result.id)


@ENQUEUES
@pytest.mark.parametrize("given", [object(), {1, 2}, lambda: None], ids=["object", "set", "function"])
def test_arguments_that_are_no_json_are_refused(backend: RamifyBackend, enqueue: Any, given: object) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        enqueue(goods.echo, given)


@ENQUEUES
def test_queues_are_checked_where_a_task_is_enqueued(configure: Configure, enqueue: Any) -> None:
    configure(queues=[])
    elsewhere = goods.add.using(queue_name="unknown")
    configure(queues=["one"])
    with pytest.raises(InvalidTask, match="unknown"):
        enqueue(elsewhere, 1)


@ENQUEUES
@pytest.mark.parametrize(("task", "value"), [(goods.add, 42), (goods.later, {"n": 42})], ids=["plain", "async"])
def test_a_task_that_was_run_has_its_value_and_its_times(
    backend: RamifyBackend, enqueue: Any, task: Any, value: object
) -> None:
    result = refreshed(backend, enqueue(task, 42))
    assert (result.status, result.is_finished, result.attempts, result.errors) == (SUCCESSFUL, True, 1, [])
    assert in_order(result)
    assert result.return_value == value


@pytest.mark.parametrize(
    ("task", "error", "end"),
    [
        (goods.fail, LookupError, "LookupError: no\n"),
        (goods.leave, SystemExit, "SystemExit: 3\n"),
        (goods.interrupt, KeyboardInterrupt, "KeyboardInterrupt: enough\n"),
        (goods.fail_later, LookupError, "LookupError: later\n"),
        (goods.function, TypeError, "\n"),
    ],
    ids=["error", "exit", "interrupt", "async", "no json"],
)
def test_a_task_that_raised_has_failed_with_a_log_line_and_a_traceback(
    backend: RamifyBackend, caplog: pytest.LogCaptureFixture, task: Any, error: type, end: str
) -> None:
    other = goods.add.enqueue(1)
    result = refreshed(backend, task.enqueue(*(["no"] if task is goods.fail else [])))
    assert (result.status, result.is_finished, result.attempts) == (FAILED, True, 1)
    assert in_order(result)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    (raised,) = result.errors
    assert raised.exception_class is error
    assert raised.traceback.endswith(end)
    logged = [each for each in caplog.records if each.levelname == "ERROR" and result.id in each.getMessage()]
    assert ["state=FAILED" in each.getMessage() for each in logged] == [True]
    other.refresh()
    assert other.status == SUCCESSFUL, "the worker goes on"


def test_a_complex_exception_is_told_with_the_line_that_raised_it(backend: RamifyBackend) -> None:
    result = refreshed(backend, goods.nested.enqueue())
    (raised,) = result.errors
    assert raised.exception_class is ValueError
    assert 'ValueError(ValueError("inner"))' in raised.traceback


def test_the_cause_of_an_exception_is_told_with_it(backend: RamifyBackend) -> None:
    result = refreshed(backend, goods.wrapped.enqueue())
    (raised,) = result.errors
    assert 'int("seven")' in raised.traceback
    assert "direct cause" in raised.traceback
    assert raised.traceback.endswith("LookupError: no number\n")


def test_what_returns_no_json_says_so(backend: RamifyBackend) -> None:
    (raised,) = refreshed(backend, goods.function.enqueue()).errors
    assert "Unsupported type" in raised.traceback


@pytest.mark.parametrize(("task", "end"), [(goods.add, "SUCCESSFUL"), (goods.fail, "FAILED")])
def test_each_step_of_a_task_is_logged_once(
    backend: RamifyBackend, caplog: pytest.LogCaptureFixture, task: Any, end: str
) -> None:
    caplog.set_level("DEBUG", logger=framework.__name__)
    result = refreshed(backend, task.enqueue(1))
    steps = [each.getMessage() for each in caplog.records if each.name.startswith(framework.__name__)]
    assert [step for step in steps if result.id not in step] == []
    assert ["enqueued" in steps[0], "state=RUNNING" in steps[1], f"state={end}" in steps[2]] == [True] * 3
    assert len(steps) == 3


def test_only_the_queues_that_a_worker_serves_are_worked_on(configure: Configure) -> None:
    from django.core.management import call_command  # type: ignore[import-untyped]

    configure(queues=[])
    here, there = (goods.add.using(queue_name=name).enqueue(1) for name in ("here", "there"))
    call_command("ramify_worker", burst=True, queues=["here"], stdout=io.StringIO())
    here.refresh()
    there.refresh()
    assert (here.status, there.status) == (SUCCESSFUL, READY)
    call_command("ramify_worker", burst=True, stdout=io.StringIO())
    there.refresh()
    assert there.status == SUCCESSFUL, "without a name, all are"


@pytest.mark.parametrize("alias", ["unknown", "dummy"])
def test_a_worker_of_a_backend_that_is_not_ours_is_refused(backend: RamifyBackend, alias: str) -> None:
    from django.core.management import CommandError, call_command

    with pytest.raises(CommandError, match=f"--backend {alias}: no RamifyBackend"):
        call_command("ramify_worker", backend=alias, burst=True)
