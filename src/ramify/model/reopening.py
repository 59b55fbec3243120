"""Reopening: which ended tasks begin a new life, and what joins forget because of it.

Pure but for the questions to the store, which are arguments. A join that has not fired forgets a reopened member. One
that has fired becomes a new instance, and waits again, when its task is reopened with the member; otherwise it is left
alone, and the late arrival of its member changes nothing. A join without a task is judged by the one its fullness was
passed on to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ramify.errors import BadPayload
from ramify.model.arrivals import Standing
from ramify.model.event import Status
from ramify.model.forgetting import check_remembered
from ramify.model.join import PART_SLOTS
from ramify.model.run import StoredRun

#: The most tasks one `reopen` takes; callers go on with the next page.
REOPEN_LIMIT = 8192

#: The join slots that the end of a task fills.
Memberships = Callable[[int], Sequence[tuple[int, int]]]


def check(run: StoredRun, tasks: Sequence[int], run_of: Callable[[int], int | None]) -> None:
    """Refuse too many tasks, those that are not published tasks of the run, and all of a run that was forgotten."""
    check_remembered(run)
    if len(tasks) > REOPEN_LIMIT:
        raise BadPayload(f"{len(tasks)} tasks to reopen; take at most {REOPEN_LIMIT} at a time")
    for task in tasks:
        if run_of(task) != run.id:
            raise BadPayload(f"task {task} is not a task of run {run.id}")


@dataclass(slots=True)
class Reopening:
    """Tasks that begin a new life, with how they had ended; those whose key another task has; unfinished join tasks
    that wait once more; and the joins that changed.
    """

    ended: dict[int, Status] = field(default_factory=dict)
    superseded: list[tuple[int, int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    changed: dict[int, Standing] = field(default_factory=dict)


class ReopeningQuestions:
    """What has to be asked of the store: `ending` is how a task ended, `retake` gives it its key again or says who has
    it now, `join` is a join with the part in which a slot lies.
    """

    def __init__(
        self,
        ending: Callable[[int], Status | None],
        retake: Callable[[int], int | None],
        memberships: Memberships,
        join: Callable[[int, int], Standing],
    ) -> None:
        self.ending = ending
        self.retake = retake
        self.memberships = memberships
        self._load = join
        self._known: dict[int, Standing] = {}

    def join(self, number: int, slot: int) -> Standing:
        """A join, always the same value, with the part in which a slot lies."""
        known = self._known.get(number)
        if known is None or slot // PART_SLOTS not in known.parts:
            found = self._load(number, slot)
            if known is None:
                known = self._known[number] = found
            else:
                new = {part: bits for part, bits in found.parts.items() if part not in known.parts}
                known.parts.update(new)
                for bits in new.values():
                    known.elsewhere = known.elsewhere - bits.ends
        return known

    def last_of_chain(self, number: int, slot: int) -> Standing:
        """The join with a task to which the fullness of a join is passed on."""
        join = self.join(number, slot)
        while join.task is None and join.outer is not None:
            join = self.join(*join.outer)
        return join


def reopen(run: int, tasks: Iterable[int], following: bool, ask: ReopeningQuestions) -> Reopening:
    """What becomes of these tasks of a run and, if asked for, of all in it that follows them."""
    found = Reopening()
    chosen = set(tasks)
    queue = deque(sorted(chosen))
    while queue:
        task = queue.popleft()
        status = ask.ending(task)
        if status is None:
            continue
        other = ask.retake(task)
        if other is not None:
            found.superseded.append((task, other))
            continue
        found.ended[task] = status
        for join, slot in ask.memberships(task) if following else ():
            after = ask.last_of_chain(join, slot)
            if after.run == run and after.task is not None and after.task not in chosen:
                chosen.add(after.task)
                queue.append(after.task)
    _set_back(found, chosen, ask)
    return found


def _set_back(found: Reopening, chosen: set[int], ask: ReopeningQuestions) -> None:
    queue = deque(pair for task in found.ended for pair in ask.memberships(task))
    while queue:
        number, slot = queue.popleft()
        last = ask.last_of_chain(number, slot)
        if last.fired and last.task not in chosen:
            continue
        join = ask.join(number, slot)
        was_fired = join.fired
        join.set_back(slot)
        found.changed[number] = join
        if was_fired and join.outer is not None:
            queue.append(join.outer)
        if was_fired and join.task is not None and ask.ending(join.task) is None:
            found.waiting.append(join.task)
