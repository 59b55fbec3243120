"""How long the rest takes after `kill -9`, for work of several kinds.

`rest` is measured on an undisturbed run: from the moment at which half of its tasks are seen to be done to the end of
its process. The same program is then killed at the moment at which half of its tasks are seen to be done, and started
again at once: the measured time is from that moment to the end of the second process, so starting Python, importing,
opening the store, burying the dead process and running again what was lost are inside. Starting the first one is
outside on both sides. Allowed are 1.2 x the rest, the longest task (it may have been about to end) and a second. A
ratio is measured over allowed: at most 1 is within the bar, and lower is better.

A second ratio is that of three kills, at a quarter, a half and three quarters: from the first kill to the end, over
1.2 x the rest of the undisturbed run from its first quarter on, with three times the longest task and three seconds.

Both sides are looked at in the same way and equally often until the kill. Each undisturbed run takes 5 s or more.

    no-op    two trees of 1,111,111 tasks that do nothing but have children
    cpu      7,000 tasks of 1 ms of processor time
    async    30 rounds of 1,000 coroutines that wait 50 ms; the engine runs as many at a time as it finds good
    waits    160 tasks that wait 3 s, in 40 threads
    lanes    20 lanes of 20 tasks, of which 2 may start in a second
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import levels
from bench.recovery_work import Compute, Grow, Lanes, Nap, Waves, Works, play
from bench.scratch import KEEPS, folder_in

REPEAT = 3
HALF = 0.5
THRICE = (0.25, HALF, 0.75)
SHARE, START = 1.2, 1.0

LINES = {
    "recovery/no-op": "the rest of two no-op trees after a kill -9 at half-way, against undisturbed",
    "recovery/cpu": "the same with 7,000 tasks of 1 ms of processor time",
    "recovery/async": "the same with 30 rounds of 1,000 coroutines that wait 50 ms",
    "recovery/waits": "the same with 160 tasks that wait 3 s, in 40 threads",
    "recovery/lanes": "the same with 20 lanes of 20 tasks, at 2/s each",
}


def works(setting: Setting) -> Mapping[str, Works]:
    """What is killed, at this size. Trees are cut by whole levels."""
    return {
        "recovery/no-op": Grow(trees=2, depth=levels(setting.scale)),
        "recovery/cpu": Compute(setting.sized(7_000, least=20)),
        "recovery/async": Waves(1_000, setting.sized(30), ms=50),
        "recovery/waits": Nap(setting.sized(160, least=8), ms=3_000, threads=setting.sized(40, least=2)),
        "recovery/lanes": Lanes(20, setting.sized(20, least=8)),
    }


def allowed(rest: float, longest: float, kills: int = 1) -> float:
    """Seconds that the rest may take."""
    return SHARE * rest + kills * (longest + START)


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Undisturbed, killed once, killed three times, in turns."""
    for name, work in works(setting).items():
        if name in wanted:
            yield _figure(setting, name, work)


def _figure(setting: Setting, name: str, work: Works) -> Figure:
    rests: list[list[float]] = []

    def undisturbed() -> float:
        with folder_in(setting.folder) as folder:
            rests.append(play(work, folder, THRICE[:2], killing=False))
        return allowed(rests[-1][2], work.longest)

    def killed(*stops: float) -> float:
        with folder_in(setting.folder) as folder:
            return play(work, folder, stops, killing=True)[1]

    contenders: dict[str, Contender] = {
        "allowed": undisturbed,
        "killed": lambda: killed(HALF),
        "allowed, three kills": lambda: allowed(rests[-1][1], work.longest, kills=3),
        "killed three times": lambda: killed(*THRICE),
    }
    times = hold(contenders, setting.turns(REPEAT))
    once = times.ratio("killed", "allowed")
    return Figure(
        name=name,
        value=times.middle("killed"),
        unit="s from the kill to the end",
        better="less",
        ratios={"allowed": once, "allowed, three kills": times.ratio("killed three times", "allowed, three kills")},
        durability={"undisturbed and killed": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rests),
        bar=Bar("at most 1.2 x the rest of an undisturbed run, its longest task and 1 s", once.median <= 1),
        more={
            "tasks": work.count,
            "longest_s": work.longest,
            "undisturbed_s": [significant(whole) for whole, _, _ in rests],
            "rest_s": [significant(rest) for _, _, rest in rests],
            "killed_s": [significant(seconds) for seconds in times.turns["killed"]],
            "killed_three_times_s": [significant(seconds) for seconds in times.turns["killed three times"]],
        },
    )


SUITE = Suite(LINES, measure)
