"""Which task killed the process? Evidence, what ran, what was held, and quarantine (P7 as amended).

One of four tasks kills its process whenever it runs: while it runs, or just after it returned. A process holds up to
two rows and runs two tasks at a time. When it dies, what it ran is told from what it merely held; with evidence both
count, without it only what ran, and that little. From enough deaths on a row runs apart, in two parts each time.
Checked: B no innocent task is quarantined, D no more deaths than the rule allows, L the run ends.

Limits: one killer, two parts instead of 16, one process at a time, a limit of three deaths, two silent deaths that
weigh as much as one with evidence. How evidence is found, and that a process that is watched commits nothing, is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.checker import Case, Label, members

TASKS, THREADS, ROWS_HELD, LIMIT, WEIGHT = 4, 2, 2, 3, 2


class Row(NamedTuple):
    left: int
    ran: int = 0  #: deaths with evidence while these tasks ran
    held: int = 0  #: deaths with evidence while they were held
    silent: int = 0  #: deaths without evidence while they ran
    apart: bool = False

    @property
    def single(self) -> bool:
        return self.left.bit_count() == 1

    @property
    def proven(self) -> int:
        return self.ran + self.held


class Ward(NamedTuple):
    killer: int = 0  #: a set of one task, chosen by the first step
    queued: tuple[Row, ...] = (Row(0b0111), Row(0b1000))
    held: tuple[Row, ...] = ()
    running: int = 0
    returned: int = 0  #: the killer, once it has returned and before it kills
    quarantined: int = 0
    deaths: int = 0
    stops: int = 0  #: announced stops still to come
    kills: int = 0  #: kills from outside, unannounced, still to come


@dataclass(frozen=True)
class Blame:
    kills_later: bool = False  #: the killer kills just after it returned
    needs_evidence: bool = True  #: somebody's kill is told from a task's
    counts_held: bool = True
    blames_held: bool = False  #: what was held counts like what ran
    needs_alone: bool = True
    mixes_deaths: bool = False  #: any death alone proves all others
    splits: bool = True
    suspects_apart: bool = True
    forgives_stops: bool = True
    most_deaths: int = LIMIT + 1
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
        if (w.returned if self.kills_later else w.running & w.killer) and not w.quarantined & w.killer:
            yield Label("the process is killed by", tasks=w.killer), False, self.die(w, evidence=True)
        if w.held and w.kills:
            dead = self.die(w._replace(kills=w.kills - 1), evidence=not self.needs_evidence)
            yield Label("the process is killed from outside"), True, dead
        if w.held and w.stops:
            yield Label("the process is stopped, announced"), True, self.stop(w._replace(stops=w.stops - 1))

    def claims(self, w: Ward) -> Iterator[tuple[Label, bool, Ward]]:
        if len(w.held) == ROWS_HELD or (self.suspects_apart and any(row.apart for row in w.held)):
            return
        for k, row in enumerate(w.queued):
            if w.held and row.apart and self.suspects_apart:
                continue
            queued = w.queued[:k] + w.queued[k + 1 :]
            yield Label("claims", 0, row.left), False, w._replace(queued=queued, held=(*w.held, row))

    def runs(self, w: Ward) -> Iterator[tuple[Label, bool, Ward]]:
        for task in members(sum(row.left for row in w.held)):
            one = 1 << task
            if not w.running & one:
                if w.running.bit_count() < THREADS and not w.returned & one:
                    yield Label("starts", 0, one), False, w._replace(running=w.running | one)
            elif one != w.killer:
                kept = tuple(row._replace(left=row.left & ~one) for row in w.held if row.left != one)
                yield Label("ends", 0, one), False, w._replace(running=w.running & ~one, held=kept)
            elif self.kills_later:
                yield Label("returns", 0, one), False, w._replace(running=w.running & ~one, returned=one)

    def die(self, w: Ward, evidence: bool) -> Ward:
        """What is left is offered again, marked, and a task that the rule finds guilty is put away."""
        alone = len(w.held) == 1 and w.held[0].single and w.held[0].apart
        queued, blamed = list(w.queued), 0
        for row in w.held:
            ran = row.left & (w.running if not self.blames_held else row.left)
            for left, marked in ((ran, self.ran(row, evidence)), (row.left & ~ran, self.kept(row, evidence))):
                after = marked._replace(left=left)
                # That suspects run apart is what makes a row of one task run alone; without it one still believes so.
                if left and self.guilty(after, alone or not self.suspects_apart, evidence):
                    blamed |= left
                elif left:
                    parts = halves(left) if after.apart and self.splits else [left]
                    queued += [after._replace(left=part) for part in parts if part]
        return w._replace(
            queued=tuple(queued),
            held=(),
            running=0,
            returned=0,
            quarantined=w.quarantined | blamed,
            deaths=w.deaths + evidence,
        )

    def ran(self, row: Row, evidence: bool) -> Row:
        row = row._replace(ran=row.ran + 1) if evidence else row._replace(silent=row.silent + 1)
        return row._replace(apart=row.apart or row.ran >= 2 or row.proven >= 3 or 2 * row.silent >= WEIGHT * LIMIT)

    def kept(self, row: Row, evidence: bool) -> Row:
        if not evidence or not self.counts_held:
            return row
        row = row._replace(held=row.held + 1)
        return row._replace(apart=row.apart or row.proven >= 3)

    def guilty(self, row: Row, alone: bool, evidence: bool) -> bool:
        """Enough deaths of one sort, the last of them alone: a kill from outside proves nothing about earlier ones."""
        enough = row.proven >= LIMIT if evidence else row.silent >= WEIGHT * LIMIT
        if self.mixes_deaths:
            enough = row.proven >= LIMIT or row.silent >= WEIGHT * LIMIT
        return enough and ((alone and row.single) or not self.needs_alone)

    def stop(self, w: Ward) -> Ward:
        if not self.forgives_stops:
            return self.die(w, evidence=True)._replace(deaths=w.deaths)
        return w._replace(queued=w.queued + w.held, held=(), running=0, returned=0)

    def canonical(self, w: Ward) -> Ward:
        return w._replace(queued=tuple(sorted(w.queued)), held=tuple(sorted(w.held)))

    def wrong(self, w: Ward) -> str:
        if innocents := w.quarantined & ~w.killer:
            return f"B the innocent {members(innocents)} are quarantined"
        return f"D more than {self.most_deaths} deaths" if w.deaths > self.most_deaths else ""

    def ended(self, w: Ward) -> bool:
        return bool(w.killer) and not w.queued and not w.held


def halves(mask: int) -> list[int]:
    tasks = members(mask)
    middle = (len(tasks) + 1) // 2
    return [sum(1 << task for task in part) for part in (tasks[:middle], tasks[middle:])]


CASES = (
    Case("blame/runs", lambda: Blame(stops=2), "A task that dies while it runs is found, and nobody else is blamed."),
    Case(
        "blame/returned",
        lambda: Blame(kills_later=True, most_deaths=LIMIT + 3),
        "A task that kills just after it returned is found too, because what was held counts.",
    ),
    Case(
        "blame/killed-from-outside",
        lambda: Blame(kills=1),
        "Somebody's kills leave no evidence: a task that runs through many of them is not blamed.",
    ),
    Case(
        "blame/killed-from-outside-often",
        lambda: Blame(kills=LIMIT),
        "The same, as often as would be enough with evidence.",
        full=True,
    ),
    Case(
        "blame/whole-row",
        lambda: Blame(splits=False, needs_alone=False),
        "Count crashes per row and quarantine the row, undivided: neighbours of the killer go with it.",
        "B",
    ),
    Case(
        "blame/everything-running",
        lambda: Blame(needs_alone=False, suspects_apart=False, splits=False),
        "Blame whatever ran often enough: the other threads' tasks are blamed too.",
        "B",
    ),
    Case(
        "blame/suspects-in-company",
        lambda: Blame(suspects_apart=False),
        "Claim a suspect beside other work: it is blamed for its neighbour's crash.",
        "B",
    ),
    Case(
        "blame/announced-stops",
        lambda: Blame(forgives_stops=False, stops=LIMIT + 1),
        "Count announced stops as crashes: a long task is blamed for deployments.",
        "B",
    ),
    Case(
        "blame/kills-are-evidence",
        lambda: Blame(needs_evidence=False, kills=LIMIT, most_deaths=2 * LIMIT + 1),
        "Take somebody's kills for evidence: a long task is blamed for them.",
        "B",
    ),
    Case(
        "blame/any-death-alone",
        lambda: Blame(kills_later=True, mixes_deaths=True, kills=1, most_deaths=LIMIT + 3),
        "Let a kill from outside, while it runs alone, prove the deaths it shared with the killer.",
        "B",
    ),
    Case(
        "blame/held-does-not-count",
        lambda: Blame(kills_later=True, counts_held=False, most_deaths=LIMIT + 3),
        "Count only what ran: a task that kills just after it returned is never found.",
        "D",
    ),
)
