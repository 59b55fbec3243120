"""Plays the turns of `jobs/cron-1000`, for `frontier_player.py`: many schedules of jobs on one worker.

**Idle.** All schedules are declared, and the first slot of each is far away. After a while the share of a core that the
worker takes is measured.

**Spread.** Each schedule has one slot, and the slots are spread evenly over a time that is still to come when all have
been declared. A sample is the time from the slot until the handler of its job begins. So it holds the claim of the
clock, its commit, the claim of the slot's task, the transaction that adds the job, and the claim of the job.

**Moment.** The same, with the slots of all schedules at one moment.

Every part has a store of its own, with an fsync per commit. A turn in which not every slot has begun once is an error
and not a figure.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue

from bench.frontier_turn import Report, Schedules
from ramify import Engine, Tasks, current

tasks = Tasks()
#: Seconds from the slot to the begin, as jobs begin.
late: SimpleQueue[float] = SimpleQueue()

SETTLE = 3.0
PATIENCE = 300.0
#: Seconds until the first slot: for declaring, and then for rest. Declaring one takes some fsyncs.
DECLARING, REST = 0.02, 5.0


@tasks.task
def begin() -> None:
    """Say how late it is."""
    slot = current().slot
    assert slot is not None
    late.put(time.time() - slot.at.timestamp())


def play_schedules(turn: Schedules) -> Report:
    """All three, one after the other."""
    began = time.monotonic()
    engine = Engine("idle.db", include=[tasks])
    far = datetime.now(UTC) + timedelta(days=100)
    declaring = _declare(engine, [far] * turn.count)
    with engine.working():
        time.sleep(SETTLE)
        busy, began_idle = time.process_time(), time.monotonic()
        time.sleep(turn.idle)
        idle_cpu = (time.process_time() - busy) / (time.monotonic() - began_idle)
    engine.close()
    samples = {
        "spread": _samples("spread.db", turn.count, turn.seconds),
        "moment": _samples("moment.db", turn.count, 0.0),
    }
    seconds = time.monotonic() - began
    return Report(turn.count, seconds, 0.0, starting=declaring, idle_cpu=idle_cpu, samples=samples)


def _samples(file: str, count: int, seconds: float) -> list[float]:
    engine = Engine(file, include=[tasks])
    first = datetime.now(UTC) + timedelta(seconds=REST + count * DECLARING)
    _declare(engine, [first + timedelta(seconds=seconds * each / count) for each in range(count)])
    if datetime.now(UTC) > first - timedelta(seconds=REST / 2):
        raise AssertionError("the schedules were not declared in time")
    with engine.working():
        found = [late.get(timeout=PATIENCE) for _ in range(count)]
    added = sum(1 for _ in engine.jobs())
    engine.close()
    if added != count or not late.empty():
        raise AssertionError(f"{count} slots had {added} jobs")
    return found


def _declare(engine: Engine, slots: list[datetime]) -> float:
    """Schedules with a slot each; seconds that declaring them takes."""
    for number, at in enumerate(slots):
        engine.schedule(begin.of(), name=f"schedule-{number}", every=timedelta(days=1), start=at, end=at)
    began = time.monotonic()
    engine._runtime.declare_schedules()
    return time.monotonic() - began
