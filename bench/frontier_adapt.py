"""Is the number of threads that the engine finds by itself a good one, and does it stay so?

Two kinds of work pull in opposite directions: no-op tasks, which more threads only slow down, and tasks that wait 5 ms,
which are as fast as there are threads. Each is run with no setting given, and with 1, 4, 16 and 64 threads. The time
that the engine takes to find out is inside.

No-ops are a tree of 111,111 tasks. Of the waiting tasks, the default and 64 threads get 40,000; fewer threads get fewer
in proportion, so that all need about as long.

And 1,000 tasks that wait 50 ms, of which a tenth defer themselves once for a second, against the same with a failure
and a retry after a second in place of it: being put off takes no worker, and says nothing about the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench.contest import Contender, Rates, Ratio, hold
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_turn import Grow, Nap, Turned, levels, rate
from bench.scratch import KEEPS

NAME = "frontier/adapt"
SIZES = (1, 4, 16, 64)
NO_OP_SHARE = 0.1
WAITS, WAIT_MS = 40_000, 5
CALLS = 1_000
REPEAT = 5
SHARE = 0.8

DEFAULT = "default"
DEFERS, RETRIES = "defers", "retries"


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """A contest for each kind of work."""
    repeat = setting.turns(REPEAT)
    no_op, wait = hold(_no_ops(setting), repeat), hold(_waits(setting), repeat)
    best = {"no-op": against_best(no_op), "wait": against_best(wait)}
    turned = hold(_turned(setting), repeat)
    deferred = turned.ratio(DEFERS, RETRIES)
    least = min(deferred.median, *(ratio.median for _, ratio in best.values()))
    yield Figure(
        name=NAME,
        value=no_op.middle(DEFAULT),
        unit="no-op tasks/s",
        ratios={**{f"{kind}: best": ratio for kind, (_, ratio) in best.items()}, "defer: retry": deferred},
        durability={"adapt": KEEPS["power"]},
        scale=setting.scale,
        repeat=repeat,
        bar=Bar(
            f"each at least {SHARE} of the best of {', '.join(map(str, SIZES))} threads; deferring {SHARE} of retrying",
            least >= SHARE,
        ),
        more={
            "best": {kind: name for kind, (name, _) in best.items()},
            "no_op": {name: significant(no_op.middle(name)) for name in no_op.turns},
            "wait": {name: significant(wait.middle(name)) for name in wait.turns},
            "turned_away": {name: significant(turned.middle(name)) for name in turned.turns},
        },
    )


def against_best(rates: Rates) -> tuple[str, Ratio]:
    """The setting with the highest median, and how the default compares with it."""
    best = max((name for name in rates.turns if name != DEFAULT), key=rates.middle)
    return best, rates.ratio(DEFAULT, best)


def _no_ops(setting: Setting) -> dict[str, Contender]:
    depth = levels(setting.scale * NO_OP_SHARE)
    return {_name(threads): partial(rate, Grow(depth, threads=threads), setting.folder) for threads in (None, *SIZES)}


def _waits(setting: Setting) -> dict[str, Contender]:
    count = setting.sized(WAITS, least=640)
    most = max(SIZES)
    return {
        _name(threads): partial(rate, Nap(count * (threads or most) // most, WAIT_MS, threads=threads), setting.folder)
        for threads in (None, *SIZES)
    }


def _turned(setting: Setting) -> dict[str, Contender]:
    count = setting.sized(CALLS, least=200)
    return {name: partial(rate, Turned(count, defers=name == DEFERS), setting.folder) for name in (DEFERS, RETRIES)}


def _name(threads: int | None) -> str:
    match threads:
        case None:
            return DEFAULT
        case 1:
            return "1 thread"
        case _:
            return f"{threads} threads"


SUITE = Suite(
    {NAME: "no-op and waiting tasks: no setting given, against the best of 1, 4, 16 and 64 threads; deferring"}, measure
)
