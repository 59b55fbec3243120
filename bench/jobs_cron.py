"""A thousand schedules: what do they cost while nothing is due, and how late does a slot begin?

`jobs/cron-1000`   what is inside a turn is said in `jobs_cron_play.py`

Percentiles are over the samples of all turns; the share of a core is the worst of them. Celery beat plays the same turn
once, for comparison; see `celery_beat.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from bench import celery_beat
from bench.contest import say
from bench.figure import Bar, Figure, Setting, Suite, significant
from bench.frontier_latency import percentile
from bench.frontier_turn import Report, Schedules, take_all
from bench.rivals import Missing, Rival
from bench.scratch import KEEPS

NAME = "jobs/cron-1000"
SCHEDULES, SPREAD = 1_000, 60.0
IDLE = 5.0
REPEAT = 3
MOST_LATE, MOST_IDLE = 50, 0.01


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """Fewer schedules are spread over less time."""
    count = setting.sized(SCHEDULES, least=10)
    turn = Schedules(count, SPREAD * count / SCHEDULES, IDLE)
    reports = take_all(turn, setting.folder, setting.turns(REPEAT), "schedules")
    try:
        rival = _celery(setting, turn)
    except Missing as missing:
        say(f"without Celery beat: {missing}")
        rival = {}
    yield figure(setting, reports, rival)


def _celery(setting: Setting, turn: Schedules) -> Mapping[str, float]:
    """The same turn, played by Celery beat."""
    job = celery_beat.Job(turn.count, turn.seconds, turn.idle)
    beat = Rival("bench.celery_beat", job, "beat and a solo worker", "nothing: schedules in memory, Redis without disk")
    found = msgspec.json.decode(beat.answer(turn.count, setting.folder), type=celery_beat.Found)
    return {
        "celery_p50_ms": significant(percentile([second * 1e3 for second in found.spread], 0.5)),
        "celery_p50_ms_at_once": significant(percentile([second * 1e3 for second in found.moment], 0.5)),
        "celery_last_ms_at_once": significant(max(found.moment) * 1e3),
        "celery_idle_cpu": significant(found.idle_cpu),
    }


def figure(setting: Setting, reports: Sequence[Report], rival: Mapping[str, float]) -> Figure:
    """The figure that follows from what was sampled."""
    spread = [second * 1e3 for report in reports for second in report.samples["spread"]]
    moment = [second * 1e3 for report in reports for second in report.samples["moment"]]
    p50, idle = percentile(spread, 0.5), max(report.idle_cpu for report in reports)
    return Figure(
        name=NAME,
        value=p50,
        unit="ms from slot to start (p50)",
        better="less",
        ratios={},
        durability={"schedules": KEEPS["power"]},
        scale=setting.scale,
        repeat=len(reports),
        bar=Bar(
            f"p50 under {MOST_LATE} ms with slots spread over a minute, and idle_cpu under {MOST_IDLE}",
            p50 < MOST_LATE and idle < MOST_IDLE,
        ),
        more={
            "p99_ms": significant(percentile(spread, 0.99)),
            "p50_ms_at_once": significant(percentile(moment, 0.5)),
            "last_ms_at_once": significant(max(moment)),
            "idle_cpu": significant(idle),
            "declaring_s": significant(max(report.starting for report in reports)),
            "schedules": reports[0].tasks,
            **rival,
        },
    )


SUITE = Suite({NAME: "a thousand schedules: how late a slot begins, and what they cost while nothing is due"}, measure)
