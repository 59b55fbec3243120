"""Tasks of Django's framework, for its tests: workers find them here by their names."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from datetime import UTC, datetime
from functools import wraps
from typing import Any

from ramify import Defer
from tests.contrib.django_here import framework

task = framework.task

#: What ran, in order.
ran: list[Any] = []


@task
def add(a: int, b: int = 0) -> int:
    ran.append((a, b))
    return a + b


@task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    ran.append((args, kwargs))
    return [args, kwargs]


@task
def fail(text: str) -> None:
    ran.append(text)
    raise LookupError(text)


@task
def leave() -> None:
    raise SystemExit(3)


@task
def now() -> datetime:
    return datetime.now(UTC)


@task
def huge() -> str:
    return "x" * 2_000_000


@task
async def later(n: int) -> dict[str, int]:
    return {"n": n}


@task(takes_context=True)
def told(context: Any, word: str) -> list[Any]:
    result = context.task_result
    return [word, context.attempt, result.id, result.status, result.args, result.worker_ids]


@task
def put_off() -> str:
    ran.append("put off")
    if len(ran) == 1:
        raise Defer(0)
    return "done"


@task
def count_rows() -> int:
    from django.db import connection  # type: ignore[import-untyped]

    assert connection.connection is None
    with connection.cursor() as cursor:
        count: int = cursor.execute("SELECT count(*) FROM goods").fetchone()[0]
    return count


def plain() -> None:
    """No task."""
    ran.append("plain")


def _renamed() -> None:
    ran.append("renamed")


#: A task that is not found under the name of its function.
renamed = task(_renamed)


@wraps(add.func)
def _double(a: int, b: int = 0) -> int:
    return 2 * (a + b)


#: A task whose function says it is another one.
double = task(_double)


@task
def nested() -> None:
    raise ValueError(ValueError("inner"))


@task
def wrapped() -> None:
    try:
        int("seven")
    except ValueError as error:
        raise LookupError("no number") from error


@task
def interrupt() -> None:
    raise KeyboardInterrupt("enough")


@task
def function() -> Any:
    return lambda: True


@task
async def fail_later() -> None:
    raise LookupError("later")


@task
def pass_on() -> None:
    echo.enqueue()
