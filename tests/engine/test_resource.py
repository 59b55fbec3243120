"""Resources: opened once on first use, closed backwards, overridden in tests."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from ramify import ConfigError, Engine, Tasks
from ramify.engine.resource import AsyncResource, Resource, close_all, close_all_async


class Trace:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def opener(self, name: str) -> Callable[[], Iterator[str]]:
        def open() -> Iterator[str]:
            self.lines.append(f"open {name}")
            yield name
            self.lines.append(f"close {name}")

        return open

    def async_opener(self, name: str) -> Callable[[], AsyncIterator[str]]:
        async def open() -> AsyncIterator[str]:
            self.lines.append(f"open {name}")
            await asyncio.sleep(0)
            yield name
            self.lines.append(f"close {name}")

        return open


def test_a_resource_is_opened_on_first_use_and_closed_backwards() -> None:
    trace, jobs = Trace(), Tasks()
    engine = Engine("memory:", include=[jobs])
    first, second = engine.resource(trace.opener("first")), jobs.resource(trace.opener("second"))
    engine.resource(trace.opener("never"))
    assert trace.lines == []
    assert (second(), first(), second()) == ("second", "first", "second")
    close_all(engine._runtime.resources())
    assert trace.lines == ["open second", "open first", "close first", "close second"]
    assert first() == "first"
    assert trace.lines[-1] == "open first"


def test_closing_an_engine_closes_its_resources() -> None:
    trace, engine = Trace(), Engine("memory:")
    engine.resource(trace.opener("db"))()
    engine.close()
    assert trace.lines == ["open db", "close db"]


def test_a_resource_is_opened_once_also_when_many_threads_ask_at_once() -> None:
    opened: list[int] = []
    start, second = threading.Barrier(8), threading.Event()

    def slow() -> Iterator[object]:
        opened.append(1)
        if len(opened) > 1:
            second.set()
        # Long enough for the others to get here, if nothing holds them up.
        second.wait(0.3)
        yield object()

    resource = Resource(slow)
    got: list[object] = []

    def ask() -> None:
        start.wait(10)
        got.append(resource())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(opened) == 1
    assert len(got) == 8
    assert len(set(map(id, got))) == 1


def test_a_failing_open_raises_where_it_was_asked_for_and_is_tried_again() -> None:
    tries: list[int] = []

    def open() -> Iterator[int]:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no")
        yield 7

    resource = Resource(open)
    for _ in range(2):
        with pytest.raises(OSError, match="no"):
            resource()
    assert resource() == 7
    assert len(tries) == 3


def test_one_that_fails_to_close_does_not_keep_the_others_open(caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace()

    def bad() -> Iterator[int]:
        yield 1
        raise OSError("stuck")

    resources: list[Resource[Any]] = [Resource(trace.opener("good")), Resource(bad)]
    for each in resources:
        each()
    with caplog.at_level(logging.ERROR, "ramify"):
        close_all(resources)
    assert trace.lines == ["open good", "close good"]
    assert "bad() failed to close" in caplog.text


def test_an_override_opens_nothing_and_ends_with_its_block() -> None:
    trace = Trace()
    resource = Resource(trace.opener("db"))
    with resource.override("fake"):
        assert resource() == "fake"
        with resource.override("inner"):
            assert resource() == "inner"
        assert resource() == "fake"
    assert trace.lines == []
    assert resource() == "db"


def test_what_is_no_resource_is_refused() -> None:
    def plain() -> int:
        return 3

    def wants(url: str) -> Iterator[int]:
        yield 3

    def empty() -> Iterator[int]:
        yield from ()

    def twice() -> Iterator[int]:
        yield 1
        yield 2

    with pytest.raises(ConfigError, match="Yield the value once"):
        Tasks().resource(plain)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected no parameters, got url"):
        Tasks().resource(wants)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="ended without a value"):
        Resource(empty)()
    resource = Resource(twice)
    resource()
    with pytest.raises(ConfigError, match="yielded twice"):
        resource.close()


def test_an_async_resource_is_opened_once_and_closed_on_its_loop() -> None:
    trace = Trace()
    first, second = AsyncResource(trace.async_opener("first")), Tasks().resource(trace.async_opener("second"))

    async def work() -> None:
        got = await asyncio.gather(*(first() for _ in range(5)), second())
        assert got == ["first"] * 5 + ["second"]
        await close_all_async([first, second])

    asyncio.run(work())
    assert trace.lines == ["open first", "open second", "close second", "close first"]


def test_an_async_resource_is_opened_anew_on_another_loop() -> None:
    trace = Trace()
    resource = AsyncResource(trace.async_opener("client"))

    async def use() -> str:
        return await resource()

    assert [asyncio.run(use()), asyncio.run(use())] == ["client", "client"]
    assert trace.lines.count("open client") == 2


def test_a_failing_async_open_is_tried_again_and_an_override_holds() -> None:
    tries: list[int] = []

    async def open() -> AsyncIterator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no")
        yield 7

    resource = AsyncResource(open)

    async def work() -> None:
        with resource.override(1):
            assert await resource() == 1
        with pytest.raises(OSError, match="no"):
            await resource()
        assert await resource() == 7
        await resource.close()

    asyncio.run(work())
