"""One task that kills every process that runs it, among 16,384 that do not, on 8 threads: how many must die of it?

    killer-crash   it ends its program by SIGSEGV, and the program is started again, as a person would
    killer-exit    it ends its worker process by `os._exit`; the program replaces it
    killer-after   SIGSEGV 5 ms after it returned, when others run and it is only held
    killer-kill    SIGKILL by its own hand, which looks as if somebody else had done it

A figure is the number of deaths until the run has ended: the starts of the killer, as it wrote them into a file before
each. At the end exactly it is quarantined, everything else is done, and every task has ended once; anything else is an
error. There is one exception: a killer that returns, and whose end is recorded before it kills, is done, and kills no
more. Turns in which that happened are told as `recorded_first`, and say nothing about how it is found.

The killer is one of the second quarter, another in every turn. The bar is held against the worst turn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

from bench.contest import say
from bench.figure import Bar, Figure, Setting, Suite
from bench.recovery_tasks import STARTS
from bench.recovery_work import NAME, STORE, Beside, Program
from bench.scratch import KEEPS, folder_in
from ramify.inspect.audit import audit
from ramify.model.event import Status
from ramify.store.open import open_store

TASKS = 16_384
REPEAT = 3
#: Beyond so many starts the killer is not found at all.
ENOUGH = 100

#: How it kills, in how many worker processes (0: the program itself), and the most deaths until it is found.
KILLERS: Mapping[str, tuple[str, int, int]] = {
    "recovery/killer-crash": ("crash", 0, 5),
    "recovery/killer-exit": ("exit", 1, 5),
    "recovery/killer-after": ("after", 0, 7),
    "recovery/killer-kill": ("kill", 0, 25),
}
LINES = {
    "recovery/killer-crash": "one task in 16,384 ends its program by SIGSEGV: deaths until it is quarantined",
    "recovery/killer-exit": "the same, by os._exit in a worker process",
    "recovery/killer-after": "the same, by SIGSEGV 5 ms after it returned",
    "recovery/killer-kill": "the same, by SIGKILL",
}


def hunt(work: Beside, folder: Path) -> tuple[int, bool]:
    """Start the program until it ends by itself: the deaths, and whether the killer was quarantined."""
    starts = 1
    while _play(work, folder):
        starts += 1
        if starts > ENOUGH:
            raise AssertionError(f"{work}: the killer is not found")
    return (folder / STARTS).stat().st_size, _is_quarantined(work, folder)


def _play(work: Beside, folder: Path) -> int:
    program = Program(work, folder)
    try:
        return program.wait()
    finally:
        program.kill()


def _is_quarantined(work: Beside, folder: Path) -> bool:
    store = open_store(folder / STORE, reading=True)
    try:
        run = store.reads.find_run(NAME)
        if run is None:
            raise AssertionError(f"{work}: there is no run")
        (counts,) = store.reads.counts(run.id).values()
        found = audit(store.reads, run.id)
        put_away, done = counts.get(Status.QUARANTINED, 0), counts.get(Status.DONE, 0)
        fine = put_away == 1 or (put_away == 0 and work.end == "after")
        if not fine or not found.clean or put_away + done != found.ended or found.ended != work.count:
            raise AssertionError(f"{work}: {put_away} quarantined, {done} done, {found}")
        return put_away == 1
    finally:
        store.close()


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Hunt each of them in turns."""
    for name, (end, processes, most) in KILLERS.items():
        if name in wanted:
            yield _figure(setting, name, end, processes, most)


def _figure(setting: Setting, name: str, end: str, processes: int, most: int) -> Figure:
    tasks, repeat = setting.sized(TASKS, least=64), setting.turns(REPEAT)
    found: list[tuple[int, bool]] = []
    for turn in range(repeat):
        say(f"{name} ({turn + 1} of {repeat})")
        killer = random.Random(turn).randrange(tasks // 4, tasks // 2)
        with folder_in(setting.folder) as folder:
            found.append(hunt(Beside(tasks, killer, end, processes=processes), folder))
    deaths = [died for died, _ in found]
    return Figure(
        name=name,
        value=median(deaths),
        unit="deaths until it is quarantined",
        better="less",
        ratios={},
        durability={"killer": KEEPS["power"]},
        scale=setting.scale,
        repeat=repeat,
        bar=Bar(f"at most {most} deaths, and nobody else is blamed", max(deaths) <= most),
        more={"tasks": tasks, "deaths": deaths, "recorded_first": sum(not quarantined for _, quarantined in found)},
    )


SUITE = Suite(LINES, measure)
