"""10. Testing your tasks.

A task is a function, so call it in a test. `attempt` tries one call with everything that a worker does around it:
codec, `current()`, children. `using` puts an engine on a store in memory and its time into your hands, to test what
becomes of calls over days.
"""

from __future__ import annotations

import pytest

from ramify import Backoff, Engine, RunState, Stream, current
from ramify.testing import attempt, using

engine = Engine("shop.db")
sent: list[str] = []


class PostOfficeClosed(Exception):
    """Not today."""


@engine.task
def sign_up(name: str) -> str:
    current().log.info("hello %s", name)
    current().spawn(welcome.of(name), remind.of(name).delay(7 * 24 * 3600))
    return name.title()


@engine.task(retries=2, backoff=Backoff(first=60))
def welcome(name: str) -> None:
    if not name.isascii():
        raise PostOfficeClosed(name)
    sent.append(f"welcome, {name}")


@engine.task
def remind(name: str) -> None:
    sent.append(f"we miss you, {name}")


@engine.task
def report(letters: Stream[int]) -> str:
    return f"{sum(letters)} letters, {letters.broken} lost"


def test_one_attempt() -> None:
    """`attempt` runs the call itself, not its children: those are returned."""
    done = attempt(sign_up.of("ann"))
    assert done.result == "Ann"
    assert done.children == [welcome.of("ann"), remind.of("ann").delay(7 * 24 * 3600)]
    assert done.texts == ["hello ann"]
    assert not sent, "children are not run"


def test_a_task_that_collects_results() -> None:
    """`Stream.of` makes a stream of given results and failures."""
    assert report(Stream.of([1, 2])) == "3 letters, 0 lost"  # the plain function
    lost = Stream.of([1, 2], failures=[PostOfficeClosed("zoë")])
    assert attempt(report.of(lost)).result == "3 letters, 1 lost"


def test_exceptions_are_raised() -> None:
    """An exception of the task reaches your test as it is."""
    with pytest.raises(PostOfficeClosed):
        attempt(welcome.of("zoë"))


def test_a_week_passes_at_once() -> None:
    """`bench.drain()` runs everything that is ready, in this thread. `bench.advance(seconds)` moves the clock."""
    sent.clear()
    with using(engine) as bench:  # a store in memory; time stands still
        engine.start(sign_up.of("ann"))
        bench.assert_enqueued(sign_up.of("ann"))

        bench.drain()  # everything that is ready, in this thread
        assert sent == ["welcome, ann"]
        bench.assert_enqueued(remind.of("ann").delay(7 * 24 * 3600))

        bench.advance(7 * 24 * 3600)
        bench.drain()
        assert sent[-1] == "we miss you, ann"
        bench.refute_enqueued(remind)


def test_drain_raises_failures() -> None:
    """With `raising=False` failures are recorded instead, as a worker would."""
    with using(engine) as bench:
        run = engine.start(welcome.of("zoë"))
        with pytest.raises(PostOfficeClosed, match="zoë"):
            bench.drain()
        # Or let them be recorded.
        bench.advance(3600)
        bench.drain(raising=False)
        bench.advance(3600)
        bench.drain(raising=False)
        assert run.state is RunState.FAILED


def test_engine_run_does_not_wait() -> None:
    """Inside of `using`, `engine.run` moves the clock where a program would wait."""
    sent.clear()
    with using(engine) as bench:
        before = bench.now
        engine.run(sign_up.of("bob"))  # as in the program
        assert sent == ["welcome, bob", "we miss you, bob"]
        assert (bench.now - before).days == 7


# With pytest, one line in `conftest.py` makes a fixture of it, which tests ask for as `bench`:
#
#     from ramify.testing.fixture import workbench
#     bench = workbench(engine)
#
# Or name the engine in the configuration of pytest, and every test can ask for `workbench`:
#
#     ramify_engine = "shop.tasks:engine"
