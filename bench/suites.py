"""The table of suites: which figures there are, and who measures them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench import (
    coordination_limits,
    coordination_locks,
    coordination_topics,
    dag_chain,
    dag_diamond,
    dag_fan_in,
    dag_random,
    frontier_adapt,
    frontier_forks,
    frontier_growth,
    frontier_lanes,
    frontier_latency,
    frontier_race,
    frontier_skew,
    frontier_small_runs,
    growth,
    jobs,
    jobs_cron,
    jobs_drain,
    jobs_enqueue,
    jobs_latency,
    jobs_retention,
    jobs_waiting,
    joins,
    mutable_rows,
    once,
    pipeline_expand,
    pipeline_gates,
    pipeline_small,
    race,
    recovery_kill,
    recovery_killer,
)
from bench.figure import Figure, Setting, Suite

SUITES: tuple[Suite, ...] = (
    race.SUITE,
    growth.SUITE,
    once.SUITE,
    jobs.SUITE,
    joins.SUITE,
    mutable_rows.SUITE,
    frontier_race.SUITE,
    frontier_growth.SUITE,
    frontier_latency.SUITE,
    frontier_skew.SUITE,
    frontier_adapt.SUITE,
    frontier_lanes.SUITE,
    frontier_forks.SUITE,
    frontier_small_runs.SUITE,
    dag_random.SUITE,
    dag_chain.SUITE,
    dag_diamond.SUITE,
    dag_fan_in.SUITE,
    pipeline_expand.SUITE,
    pipeline_small.SUITE,
    pipeline_gates.SUITE,
    jobs_enqueue.SUITE,
    jobs_drain.SUITE,
    jobs_latency.SUITE,
    jobs_waiting.SUITE,
    jobs_retention.SUITE,
    jobs_cron.SUITE,
    coordination_limits.SUITE,
    recovery_kill.SUITE,
    recovery_killer.SUITE,
    coordination_locks.SUITE,
    coordination_topics.SUITE,
)


def names() -> dict[str, str]:
    """Every figure with its line, in the order in which they are measured."""
    return {name: line for suite in SUITES for name, line in suite.figures.items()}


def choose(group: str | None, only: Sequence[str]) -> frozenset[str]:
    """The figures of a group, or those named (with or without their group); ValueError says what there is."""
    known = names()
    chosen = frozenset(name for name in known if group is None or name.startswith(f"{group}/"))
    if not chosen:
        groups = sorted({name.partition("/")[0] for name in known})
        raise ValueError(f"no group {group!r}; there is {', '.join(groups)}")
    if not only:
        return chosen
    picked = {name: frozenset(full for full in chosen if name in (full, full.partition("/")[2])) for name in only}
    if unknown := [name for name, found in picked.items() if not found]:
        raise ValueError(f"no figure {', '.join(unknown)}; there is {', '.join(sorted(chosen))}")
    return frozenset().union(*picked.values())


def measure(setting: Setting, wanted: frozenset[str]) -> Iterator[Figure]:
    """The wanted figures, each as soon as it is known."""
    for suite in SUITES:
        if ours := wanted.intersection(suite.figures):
            yield from suite.measure(setting, ours)
