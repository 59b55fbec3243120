"""Hooks with what they are for: an error reporter and a framework's database connections, the real ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from ramify import Backoff, Current, Engine

NOW = Backoff(first=0)


class Collecting(Transport):
    """Keeps what would be sent."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.events: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        event: Any = envelope.get_event()
        if event is not None:
            self.events.append(event)


@pytest.fixture
def sentry() -> Iterator[list[dict[str, Any]]]:
    """What Sentry's SDK was told."""
    transport = Collecting()
    sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=transport, default_integrations=False)
    yield transport.events
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


@pytest.mark.parametrize("threads", [0, 2])
def test_sentry_hears_of_each_failed_attempt_with_the_tags_of_that_attempt(
    threads: int, sentry: list[dict[str, Any]]
) -> None:
    engine = Engine("memory:")

    @engine.around
    def reported(me: Current) -> Iterator[None]:
        with sentry_sdk.isolation_scope() as scope:
            scope.set_tags({"kind": me.kind, "task": me.task, "attempt": me.attempt})
            try:
                yield
            except Exception as error:
                sentry_sdk.capture_exception(error)
                raise

    pay, ship = engine.task(retries=1, backoff=NOW)(pay_bill), engine.task(retries=0)(ship_box)
    run = engine.run([pay.of("b-17"), ship.of("o-1"), pay.of("b-18")], threads=threads)
    assert (run.counts.failed, run.counts.done) == (2, 1)
    told = sorted((each["tags"]["kind"], each["tags"]["attempt"], error_of(each)) for each in sentry)
    assert told == [
        ("pay_bill", 1, "OSError: the bank does not answer b-17"),
        ("pay_bill", 2, "OSError: the bank does not answer b-17"),
        ("ship_box", 1, "LookupError: o-1"),
    ]
    # What happened on the way is told with the attempt it belongs to.
    crumbs = {each["tags"]["kind"]: [crumb["message"] for crumb in each["breadcrumbs"]["values"]] for each in sentry}
    assert crumbs == {"pay_bill": ["asked for b-17"], "ship_box": ["asked for o-1"]}
    assert {frame["function"] for each in sentry for frame in frames_of(each)} >= {"pay_bill", "ship_box"}
    engine.close()


def pay_bill(bill: str) -> str:
    sentry_sdk.add_breadcrumb(message=f"asked for {bill}")
    if bill == "b-17":
        raise OSError(f"the bank does not answer {bill}")
    return bill


async def ship_box(order: str) -> None:
    sentry_sdk.add_breadcrumb(message=f"asked for {order}")
    raise LookupError(order)


def error_of(event: dict[str, Any]) -> str:
    (error,) = event["exception"]["values"]
    return f"{error['type']}: {error['value']}"


def frames_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    (error,) = event["exception"]["values"]
    frames: list[dict[str, Any]] = error["stacktrace"]["frames"]
    return frames


@pytest.fixture
def django(tmp_path: Path) -> Iterator[Any]:
    """Django's connections, to a database in a file."""
    from tests.contrib.django_here import databases_in

    connections = databases_in(tmp_path)
    yield connections
    connections.close_all()


def test_django_opens_a_connection_for_each_attempt_and_none_is_left_open(django: Any) -> None:
    from django.db import close_old_connections  # type: ignore[import-untyped]

    engine = Engine("memory:")
    opened.clear()
    kept: list[Any] = []

    @engine.around
    def connected() -> Iterator[None]:
        close_old_connections()
        try:
            yield
        finally:
            close_old_connections()
            kept.append(django["default"].connection)

    insert = engine.task(retries=1, backoff=NOW)(insert_row)
    run = engine.run([insert.of(n) for n in range(3)], threads=1)
    assert (run.counts.done, run.counts.retries) == (3, 1)
    # Four attempts, one of which failed, in one thread: each found no connection, and left none.
    assert (len(opened), len(set(map(id, opened)))) == (4, 4)
    assert kept == [None] * 4
    with django["default"].cursor() as cursor:
        assert cursor.execute("SELECT n FROM seen ORDER BY n").fetchall() == [(0,), (1,), (2,)]
    engine.close()


#: Connections in the order in which tasks found them.
opened: list[Any] = []


def insert_row(n: int) -> None:
    from django.db import connection, transaction

    assert connection.connection is None
    with transaction.atomic(), connection.cursor() as cursor:
        opened.append(connection.connection)
        cursor.execute("CREATE TABLE IF NOT EXISTS seen (n)")
        cursor.execute("INSERT INTO seen VALUES (%s)", [n])
        if len(opened) == 2:
            raise OSError("once")
