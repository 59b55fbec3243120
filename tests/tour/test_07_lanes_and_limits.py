"""7. Lanes and limits.

`concurrency` and `rate` limit a kind of task within one process. With a lane, each lane has the limit for itself: four
pages of every host at a time, and a slow host delays no other.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from ramify import Engine, Rate, current

engine = Engine("lanes.db")

turn = threading.Condition()
inside: Counter[str] = Counter()
most: Counter[str] = Counter()


def stay(lane: str, until: int) -> None:
    """Stay until `until` tasks of the lane are here at the same time, for at most five seconds."""
    with turn:
        inside[lane] += 1
        most[lane] = max(most[lane], inside[lane])
        turn.notify_all()
        turn.wait_for(lambda: most[lane] >= until, timeout=5)
        inside[lane] -= 1


@engine.task(concurrency=2)
def paint(n: int) -> None:
    stay("paint", until=2)


def test_concurrency_limits_tasks_at_a_time() -> None:
    """Eight threads, twenty tasks, but never more than two of them at once."""
    engine.run([paint.of(n) for n in range(20)], threads=8)
    assert most["paint"] == 2


@engine.task(lane="host", concurrency=3)
def fetch(host: str, page: int) -> str | None:
    stay(host, until=3)
    return current().lane


def test_each_lane_has_its_own_limit() -> None:
    """`lane="host"` takes the lane from the argument `host`."""
    run = engine.run([fetch.of(host, page) for host in ("north", "south") for page in range(9)], threads=8)
    assert Counter(run.results()) == {"north": 9, "south": 9}
    assert (most["north"], most["south"]) == (3, 3)


order: list[str] = []


@engine.task
def note(text: str) -> None:
    order.append(text)


def test_lower_priority_runs_first() -> None:
    """As in "priority one": lower runs first, and 0 is the default."""
    engine.run([note.of("last").priority(5), note.of("second"), note.of("first").priority(-5)], threads=1)
    assert order == ["first", "second", "last"]


@engine.task(rate="2/s")
def knock(n: int) -> int:
    return n


def test_rate_limits_starts() -> None:
    """At most two a second, spread evenly."""
    begun = time.monotonic()
    engine.run([knock.of(n) for n in range(2)])
    assert time.monotonic() - begun >= 0.4, "the second one had to wait for about half a second"


@engine.task(rate=Rate("2/m", burst=2))
def greet(n: int) -> int:
    return n


def test_a_rate_can_allow_a_burst() -> None:
    """Two a minute, and two more at once after a pause: at most four in any minute."""
    run = engine.run([greet.of(n) for n in range(3)])
    assert list(run.results()) == [0, 1, 2]
