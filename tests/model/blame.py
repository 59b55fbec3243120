"""Which task killed the process? Crash accounting and quarantine (P7).

One of four tasks kills its process whenever it runs. A process holds up to two rows and runs two tasks at a time; when
it dies, its rows are re-offered in two parts each, with one death more on record.
Checked: B no innocent task is quarantined, D no more deaths than the rule allows, L the run ends.

Limits: one killer, two parts instead of 16, one process at a time, a limit of three deaths. That a stop was
announced is given; how a process announces it is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tests.model.checker import Case, Label, members

TASKS, THREADS, ROWS_HELD, LIMIT = 4, 2, 2, 3
Rule = Literal["alone", "own deaths", "whole row", "everything running"]


class Row(NamedTuple):
    left: int
    deaths: int = 0  #: of the processes that held these tasks
    own: int = 0  #: of those, the ones in which a single task ran alone

    @property
    def single(self) -> bool:
        return self.left.bit_count() == 1


class Ward(NamedTuple):
    killer: int = 0  #: a set of one task, chosen by the first step
    queued: tuple[Row, ...] = (Row(0b0111), Row(0b1000))
    held: tuple[Row, ...] = ()
    running: int = 0
    quarantined: int = 0
    deaths: int = 0
    seen_running: tuple[int, ...] = (0,) * TASKS  #: deaths during which each task was running
    stops: int = 0  #: announced stops still to come
    kills: int = 0  #: kills from outside, unannounced, still to come


@dataclass(frozen=True)
class Blame:
    rule: Rule = "alone"
    splits: bool = True
    suspects_alone: bool = True
    forgives_stops: bool = True
    most_deaths: int = LIMIT
    stops: int = 0
    kills: int = 0

    def start(self) -> Ward:
        return Ward(stops=self.stops, kills=self.kills)

    def moves(self, w: Ward) -> Iterator[tuple[Label, bool, Ward]]:
        if not w.killer:
            for task in range(TASKS):
                yield Label("the killer is", tasks=1 << task), False, w._replace(killer=1 << task)
            return
        yield from self.claims(w)
        yield from self.runs(w)
        if w.running & w.killer:
            yield Label("the process is killed by one of", tasks=w.running), False, self.die(w)
        if w.held and w.kills:
            yield Label("the process is killed from outside"), True, self.die(w._replace(kills=w.kills - 1))
        if w.held and w.stops:
            yield Label("the process is stopped, announced"), True, self.stop(w._replace(stops=w.stops - 1))

    def claims(self, w: Ward) -> Iterator[tuple[Label, bool, Ward]]:
        if len(w.held) == ROWS_HELD or (self.suspects_alone and any(row.deaths for row in w.held)):
            return
        for k, row in enumerate(w.queued):
            if w.held and row.deaths and self.suspects_alone:
                continue
            queued = w.queued[:k] + w.queued[k + 1 :]
            yield Label("claims", 0, row.left), False, w._replace(queued=queued, held=(*w.held, row))

    def runs(self, w: Ward) -> Iterator[tuple[Label, bool, Ward]]:
        for task in members(sum(row.left for row in w.held)):
            one = 1 << task
            if not w.running & one:
                if w.running.bit_count() < THREADS:
                    yield Label("starts", 0, one), False, w._replace(running=w.running | one)
            elif one != w.killer:
                kept = tuple(row._replace(left=row.left & ~one) for row in w.held if row.left != one)
                yield Label("ends", 0, one), False, w._replace(running=w.running & ~one, held=kept)

    def die(self, w: Ward) -> Ward:
        """The reaper re-offers what is left, in parts, and leaves a quarantine mark where the rule says so."""
        alone = len(w.held) == 1 and w.held[0].single
        seen = tuple(count + (w.running >> task & 1) for task, count in enumerate(w.seen_running))
        queued, blamed = list(w.queued), 0
        for row in w.held:
            # Rule (2) is what makes a one-task row run alone; a protocol without it still believes so.
            counts = alone or (row.single and not self.suspects_alone)
            row = row._replace(deaths=row.deaths + 1, own=row.own + counts)
            guilty = self.guilty(row, counts, w.running, seen)
            blamed |= guilty
            parts = halves(row.left & ~guilty) if self.splits else [row.left & ~guilty]
            queued += [row._replace(left=part) for part in parts if part]
        return w._replace(
            queued=tuple(queued),
            held=(),
            running=0,
            quarantined=w.quarantined | blamed,
            deaths=w.deaths + 1,
            seen_running=seen if self.rule == "everything running" else w.seen_running,
        )

    def guilty(self, row: Row, alone: bool, running: int, seen: tuple[int, ...]) -> int:
        match self.rule:
            case "alone":
                return row.left if alone and row.deaths >= LIMIT else 0
            case "own deaths":
                return row.left if row.own >= LIMIT else 0
            case "whole row":
                return row.left if row.deaths >= LIMIT else 0
            case "everything running":
                return sum(1 << task for task in members(row.left & running) if seen[task] >= LIMIT)

    def stop(self, w: Ward) -> Ward:
        if not self.forgives_stops:
            return self.die(w)._replace(deaths=w.deaths)
        return w._replace(queued=w.queued + w.held, held=(), running=0)

    def canonical(self, w: Ward) -> Ward:
        return w._replace(queued=tuple(sorted(w.queued)), held=tuple(sorted(w.held)))

    def wrong(self, w: Ward) -> str:
        if innocents := w.quarantined & ~w.killer:
            return f"B the innocent {members(innocents)} are quarantined"
        allowed = self.most_deaths + self.kills
        return f"D more than {allowed} deaths" if w.deaths > allowed else ""

    def ended(self, w: Ward) -> bool:
        return bool(w.killer) and not w.queued and not w.held


def halves(mask: int) -> list[int]:
    tasks = members(mask)
    middle = (len(tasks) + 1) // 2
    return [sum(1 << task for task in part) for part in (tasks[:middle], tasks[middle:])]


CASES = (
    Case("blame/alone", lambda: Blame(stops=2), "Suspects run alone, and only a death while alone blames a task."),
    Case(
        "blame/own-deaths",
        lambda: Blame("own deaths", most_deaths=LIMIT + 2, stops=1, kills=LIMIT - 1),
        "Counting only deaths of its own spares a task that is killed from outside less often than the limit.",
    ),
    Case(
        "blame/whole-row",
        lambda: Blame("whole row", splits=False),
        "Count crashes per row and quarantine the row, undivided: neighbours of the killer go with it.",
        "B",
    ),
    Case(
        "blame/everything-running",
        lambda: Blame("everything running", splits=False),
        "Blame whatever was started and not finished: the other threads' tasks are blamed too.",
        "B",
    ),
    Case(
        "blame/suspects-in-company",
        lambda: Blame(suspects_alone=False),
        "Claim a suspect beside other work: it is blamed for its neighbour's crash.",
        "B",
    ),
    Case(
        "blame/announced-stops",
        lambda: Blame(forgives_stops=False, stops=LIMIT),
        "Count announced stops as crashes: a long task is blamed for deployments.",
        "B",
    ),
    Case(
        "blame/inherited-deaths",
        lambda: Blame(kills=1),
        "Count deaths shared with others toward a task's own limit: one kill from outside is then enough to blame it.",
        "B",
    ),
)
