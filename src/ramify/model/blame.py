"""Blame: what a death says about the tasks of the process that died, and which of them run apart from then on.

A process may die of its own doing, because of a task it ran, or of somebody else's: `kill -9`, a power cut. Only
*evidence* tells the two apart: an exit status or a fatal signal. Of the tasks a dead process had, those it *ran* when
it died are told from those it merely *held*.

    with evidence      what ran gets one death more as `ran`, what was held as `held`: a task can kill just after it
                       returned. From `ran` 2, or both together 3, it comes back in up to 16 parts that run apart
    without evidence   only what ran counts, as `silent`. It runs apart from half of 5 x `max_crashes`

Everything else comes back among the others, as it was. A task is to blame when it was the only one of a row that ran
apart, and its deaths reach `max_crashes` (5 x as many without evidence): then its process died over it alone.

Pure functions; stores call them when they bury, kernels when they claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ramify.model.death import SILENT_WEIGHT, Death, Deaths
from ramify.model.segment import mask_of, tasks_in, trim

#: From so many deaths with evidence on, what ran runs apart; and what was held, counted together with what ran.
RAN_APART = 2
HELD_APART = 3
#: Suspects come back in at most so many parts.
PARTS = 16

#: `(first, last, left)` of a live row.
Range = tuple[int, int, int | None]


def after_death(row: Range, before: Deaths, death: Death) -> list[tuple[Range, Deaths]]:
    """The rows in which a dead process's row is offered again."""
    tasks = tasks_in(*row)
    ran = [task for task in tasks if task in death.ran] if death.ran else []
    if not ran and not death.evidence:
        return [(row, before)]
    alone = before.apart and len(tasks) == 1
    offered: list[tuple[Range, Deaths]] = []
    if ran:
        offered += _offer(ran, _of_running(before, death, death.ran[ran[0]], alone))
    if len(ran) < len(tasks):
        held = [task for task in tasks if task not in death.ran] if ran else tasks
        offered += _offer(held, _of_held(before, alone)) if death.evidence else [(_narrow(held), before)]
    return offered


def _of_running(before: Deaths, death: Death, most: int | None, alone: bool) -> Deaths:
    if death.evidence:
        return _marked(before, alone, ran=before.ran + 1)
    silent = before.silent + 1
    lingers = most is not None and 2 * silent >= SILENT_WEIGHT * most
    # A kill while it runs alone proves nothing about the deaths it shared with others.
    return _marked(before, alone and lingers, silent=silent, apart=before.apart or lingers)


def _of_held(before: Deaths, alone: bool) -> Deaths:
    return _marked(before, alone, held=before.held + 1)


def _marked(before: Deaths, alone: bool, **changes: int) -> Deaths:
    after: Deaths = msgspec.structs.replace(before, alone=alone, **changes)
    if after.ran >= RAN_APART or after.proven >= HELD_APART:
        return msgspec.structs.replace(after, apart=True)
    return after


def _offer(tasks: Sequence[int], deaths: Deaths) -> Iterator[tuple[Range, Deaths]]:
    size = -(-len(tasks) // PARTS) if deaths.apart else len(tasks)
    return ((_narrow(tasks[at : at + size]), deaths) for at in range(0, len(tasks), size))


def _narrow(tasks: Sequence[int]) -> Range:
    return trim(tasks[0], mask_of(tasks, tasks[0]))
