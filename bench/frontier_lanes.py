"""What lanes cost when every task has one of its own.

50,000 tasks that do nothing, made by one root: without lanes, each in a lane of its own, and each in a lane of its own
of a kind that runs one at a time in each lane. Lanes with few tasks share rows of the store; with a limit each task of
such a row is counted in its own lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Lanes, rate
from bench.scratch import KEEPS

NAME = "frontier/lanes"
COUNT = 50_000
REPEAT = 3
SHARE = 0.5

NONE, OWN, LIMITED = "no lanes", "own lanes", "own lanes, one at a time"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The three in turns."""
    count = setting.sized(COUNT, least=500)
    contenders: dict[str, Contender] = {
        NONE: partial(rate, Lanes(count, own=False), setting.folder),
        OWN: partial(rate, Lanes(count, own=True), setting.folder),
        LIMITED: partial(rate, Lanes(count, own=True, limited=True), setting.folder),
    }
    rates = hold(contenders, setting.turns(REPEAT))
    own = rates.ratio(OWN, NONE)
    yield Figure(
        name=NAME,
        value=rates.middle(OWN),
        unit="tasks/s in lanes of their own",
        ratios={NONE: own, f"{NONE}: one at a time": rates.ratio(LIMITED, NONE)},
        durability={"lanes": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(rates.turns[OWN]),
        bar=Bar(f"at least {SHARE} of the same without lanes", own.median >= SHARE),
        more={"tasks": count, "rates": {name: significant(rates.middle(name)) for name in rates.turns}},
    )


SUITE = Suite({NAME: "tasks in a lane of their own each, against the same without lanes"}, measure)
