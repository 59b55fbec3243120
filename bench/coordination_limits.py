"""What limits of the whole store cost, where they hold and where they do not.

`coordination/limit-lanes`  200,000 tasks that do nothing, in 10,000 lanes in turn, two of each lane at a time in all
                            processes together, against the same without a limit. Who waits is out of the ready index
                            and has a row of its own, or shares it with others of its lane.
`coordination/limit-none`   200,000 tasks without lanes and limits in a program that has a limit on another kind,
                            against the same in a program without limits.

Inside the clock: `engine.run` of one root that makes all of them, in one process, until the run has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import LaneCrowd, rate
from bench.scratch import KEEPS

LANES, NONE = "coordination/limit-lanes", "coordination/limit-none"
COUNT, IN_LANE, MOST = 200_000, 20, 2
REPEAT = 3
SHARE, AIM = 0.15, 0.3
UNTOUCHED = 0.97

LIMITED, FREE = "two at a time in each lane", "no limit"
BESIDE, WITHOUT = "a limit on another kind", "no limits"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Each with its other side, in turns."""
    count = setting.sized(COUNT, least=1_000)
    if LANES in wanted:
        lanes = count // IN_LANE
        sides: dict[str, Contender] = {
            LIMITED: partial(rate, LaneCrowd(count, lanes, MOST), setting.folder),
            FREE: partial(rate, LaneCrowd(count, lanes), setting.folder),
        }
        yield _figure(setting, LANES, sides, SHARE, {"tasks": count, "lanes": lanes, "aim": AIM})
    if NONE in wanted:
        sides = {
            BESIDE: partial(rate, LaneCrowd(count, 0, beside=True), setting.folder),
            WITHOUT: partial(rate, LaneCrowd(count, 0), setting.folder),
        }
        yield _figure(setting, NONE, sides, UNTOUCHED, {"tasks": count})


def _figure(setting: Setting, name: str, sides: dict[str, Contender], share: float, more: dict[str, object]) -> Figure:
    this, other = sides
    rates = hold(sides, setting.turns(REPEAT))
    ratio = rates.ratio(this, other)
    return Figure(
        name=name,
        value=rates.middle(this),
        unit="tasks/s",
        ratios={other: ratio},
        durability={"tasks": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns[this]),
        bar=Bar(f"at least {share} of the same with {other}", ratio.median >= share),
        more={**more, "rates": {each: significant(rates.middle(each)) for each in rates.turns}},
    )


SUITE = Suite(
    {
        LANES: "tasks of 10,000 lanes, two of each at a time in all processes, against the same without a limit",
        NONE: "tasks without limits in a program that has one, against the same without any",
    },
    measure,
)
