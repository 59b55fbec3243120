"""Reopening: which ended tasks begin a new life, and what joins forget because of it.

Pure but for the questions to the store, which are arguments. A join that has not fired forgets a reopened member. One
that has fired becomes a new instance, and waits again, when its task is reopened with the member; otherwise it is left
alone, and the late arrival of its member changes nothing. A join without a task is judged by the one its fullness was
passed on to.

A task that has an heir has its place back in its new life, and will name another heir: the old one no longer arrives.
While that one is unfinished nothing is reopened: what it stands for would be at work twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

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
    that wait once more; and the joins that changed. `disowned` are heirs with a slot in which they arrive no more,
    `unfinished` those that keep their task, which comes first, and all others closed.
    """

    ended: dict[int, Status] = field(default_factory=dict)
    superseded: list[tuple[int, int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    changed: dict[int, Standing] = field(default_factory=dict)
    disowned: list[tuple[int, int, int]] = field(default_factory=list)
    unfinished: list[tuple[int, int]] = field(default_factory=list)


class ReopeningQuestions:
    """What has to be asked of the store: `run_of` is the run of a published task, `ending` is how one ended, `retake`
    gives it its key again or says who has it now, `heirs` are those that arrive in a slot in its stead, `join` is a
    join with the part in which a slot lies.
    """

    def __init__(
        self,
        run_of: Callable[[int], int | None],
        ending: Callable[[int], Status | None],
        retake: Callable[[int], int | None],
        memberships: Memberships,
        heirs: Callable[[int, int, int], Sequence[int]],
        join: Callable[[int, int], Standing],
    ) -> None:
        self.run_of = run_of
        self.ending = cache(ending)
        self.retake = retake
        self.memberships = cache(memberships)
        self.heirs = heirs
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
    heirs: dict[int, list[tuple[int, int, int]]] = {}

    def look(task: int) -> bool:
        if ask.ending(task) is None:
            return False
        slots = ask.memberships(task)
        heirs[task] = [(heir, join, slot) for join, slot in slots for heir in ask.heirs(task, join, slot)]
        return True

    def begin(task: int) -> bool:
        status = ask.ending(task)
        # What follows a reopened task is done anew, and what went on in its place is made anew by that one.
        if status is None or (following and task in disowned):
            return False
        other = ask.retake(task)
        if other is not None:
            found.superseded.append((task, other))
            return False
        found.ended[task] = status
        found.disowned += heirs[task]
        return True

    named = set(tasks)
    _spread(run, named, following, ask, look)
    unfinished = {(task, heir) for task in heirs for heir, _, _ in heirs[task] if ask.ending(heir) is None}
    if unfinished:
        return Reopening(unfinished=sorted(unfinished))
    disowned = {heir for each in heirs.values() for heir, _, _ in each}
    chosen = _spread(run, named, following, ask, begin)
    _set_back(found, chosen - disowned if following else chosen, ask)
    return found


def _spread(
    run: int, tasks: Iterable[int], following: bool, ask: ReopeningQuestions, takes: Callable[[int], bool]
) -> set[int]:
    """Go through tasks and, if asked for, through all in their run that waited for those that it `takes`."""
    chosen = set(tasks)
    queue = deque(sorted(chosen))
    while queue:
        task = queue.popleft()
        if not takes(task) or not following:
            continue
        for join, slot in ask.memberships(task):
            after = ask.last_of_chain(join, slot)
            # The task of a join is not there if another one had its key.
            if after.task is not None and after.task not in chosen and ask.run_of(after.task) == run:
                chosen.add(after.task)
                queue.append(after.task)
    return chosen


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
