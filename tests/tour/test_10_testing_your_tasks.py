"""10. Testing your tasks.

A task is a function: call it, and test that. Where it uses `current()`, spawns, or must survive its own codec, there is
`attempt`. And for what becomes of it over time there is `using`: another store, and a clock in your hands.
"""

from __future__ import annotations

import pytest

from ramify import Backoff, Engine, RunState, Stream, current
from ramify.testing import attempt, using

# ---- the program ----

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


# ---- its tests ----


def test_one_attempt_by_itself() -> None:
    done = attempt(sign_up.of("ann"))
    assert done.result == "Ann"
    assert done.children == [welcome.of("ann"), remind.of("ann").delay(7 * 24 * 3600)]
    assert done.texts == ["hello ann"]
    assert not sent, "children are not run"


def test_a_task_that_collects_results() -> None:
    assert report(Stream.of([1, 2])) == "3 letters, 0 lost"  # a stream as the test wants it, and the function itself
    lost = Stream.of([1, 2], failures=[PostOfficeClosed("zoë")])
    assert attempt(report.of(lost)).result == "3 letters, 1 lost"


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(PostOfficeClosed):
        attempt(welcome.of("zoë"))


def test_a_week_in_no_time() -> None:
    sent.clear()
    with using(engine) as bench:  # the engine is on a store in memory now, and time stands still
        engine.start(sign_up.of("ann"))
        bench.assert_enqueued(sign_up.of("ann"))

        bench.drain()  # everything that is ready, in this thread, to the end
        assert sent == ["welcome, ann"]
        bench.assert_enqueued(remind.of("ann").delay(7 * 24 * 3600))

        bench.advance(7 * 24 * 3600)
        bench.drain()
        assert sent[-1] == "we miss you, ann"
        bench.refute_enqueued(remind)


def test_failures_come_out_as_they_were_raised() -> None:
    with using(engine) as bench:
        run = engine.start(welcome.of("zoë"))
        with pytest.raises(PostOfficeClosed, match="zoë"):
            bench.drain()
        # Or let them be recorded, and see how it ends.
        bench.advance(3600)
        bench.drain(raising=False)
        bench.advance(3600)
        bench.drain(raising=False)
        assert run.state is RunState.FAILED


def test_engine_run_does_not_wait_either() -> None:
    sent.clear()
    with using(engine) as bench:
        before = bench.now
        engine.run(sign_up.of("bob"))  # as in the program; where it would wait, the clock is moved
        assert sent == ["welcome, bob", "we miss you, bob"]
        assert (bench.now - before).days == 7


# With pytest, one line in conftest.py makes a fixture of it, which every test can ask for as `bench`:
#
#     from ramify.testing.fixture import workbench
#     bench = workbench(engine)
#
# Or name the engine in the configuration of pytest, and every test can ask for `workbench`:
#
#     ramify_engine = "shop.tasks:engine"
