"""Forgetting: which ended work may be removed for good, and why other work may not. Pure, and the only place that says.

A run is forgotten whole, once it has ended and no other run works with its results. From its first page on it is
FORGOTTEN, so nobody takes half a run for a whole one. Its row stays: it still tells its name, how it ended and its
counts, so the same start does not run everything once more by mistake.

Of a run that goes on, such as a queue, single tasks are forgotten by their ids. Some stay until the whole run goes:
what failed or was cancelled, by which a run with an end will be judged; a task whose key is still its own; one inside a
row that is still worked on. And nothing goes before what may still ask for it: a parent with its children or after
them, because marks are looked for along parents; a continuation and its members only together, because it may be tried
again with their results. A task behind another one takes nothing from it, so each of the two goes by itself.

Does not remove anything: stores do.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ramify.errors import BadPayload, RunForgotten, RunNeeded
from ramify.model.deciding import AfterDecision, decide
from ramify.model.decision import UNSAID, Said, What, in_words
from ramify.model.event import Status
from ramify.model.join import Rule
from ramify.model.policy import SECOND
from ramify.model.run import RunState, StoredRun

#: The most rows one `forget` removes unless told otherwise.
FORGET_LIMIT = 65_536
#: The ends of tasks that say nothing against their run.
_HARMLESS = frozenset({Status.DONE, Status.SKIPPED, Status.REPLACED})
#: A task that never goes: what must not go before it stays.
NEVER = 0


class Forgot(msgspec.Struct, frozen=True):
    """The effect of `forget`: so many tasks removed. `more` says to call again; by ids, from the one `after` this."""

    tasks: int = 0
    more: bool = False
    after: int = 0


class Cutoffs(msgspec.Struct, frozen=True):
    """Before when tasks must have ended to go: those that were `done`, by kind, and all others of these kinds.

    A kind that is not named stays.
    """

    done: Mapping[str, int]
    failed: int
    cancelled: int

    def of(self, kind: str, status: Status) -> int:
        """The time for tasks of a kind that ended like this."""
        if kind not in self.done:
            return 0
        match status:
            case Status.DONE:
                return self.done[kind]
            case Status.FAILED | Status.QUARANTINED:
                return self.failed
            case _:
                return self.cancelled


class Removal(msgspec.Struct, frozen=True):
    """A request to forget: a whole run, or those of its `tasks` that ended before a time; and who wants it.

    A `dry` one of tasks only tells how many those are.
    """

    tasks: range | None = None
    before: int | Cutoffs | None = None
    said: Said = UNSAID
    limit: int = FORGET_LIMIT
    dry: bool = False


class Reader(NamedTuple):
    """A task of another run that works with the result of a task."""

    task: int
    reader: int
    run: int


class Piece(NamedTuple):
    """Neighbouring tasks of one span, named by its first task."""

    span: int
    first: int
    last: int


def check_removal(removal: Removal) -> Removal:
    """Refuse what can mean nothing."""
    if removal.limit < 1:
        raise BadPayload(f"forget(limit={removal.limit}): give 1 or more")
    if removal.tasks is None and removal.before is not None:
        raise BadPayload("forget(before=...): a time is for single tasks; a run is forgotten whole")
    if removal.tasks is None and removal.dry:
        raise BadPayload("forget(dry=True): it tells how many tasks of a range would go; a run goes whole")
    if removal.tasks is not None and removal.tasks.step != 1:
        raise BadPayload(f"forget({removal.tasks}): give a range of ids without gaps")
    return removal


def begin(run: StoredRun, said: Said, reader: Callable[[], Reader | None], now: int) -> AfterDecision | None:
    """Return the first page's change to a run, None when an earlier call has begun; RunNeeded says why it must stay."""
    if run.state is RunState.FORGOTTEN:
        return None
    if not run.state.is_end:
        raise RunNeeded(f"run {run.id} is {run.state.value}; it can be forgotten once it has ended; `cancel` ends it")
    moved = decide(What.FORGOTTEN, run.state, run.decision, said, now)
    if moved is None:
        raise RunNeeded(f"run {run.id} was not forgotten: somebody decided about it meanwhile. Look at it again")
    if (found := reader()) is not None:
        raise RunNeeded(
            f"task {found.reader} of run {found.run} has the result of task {found.task} of run {run.id} and may ask "
            f"for it again; forget run {found.run} first"
        )
    return moved


def ended_as(run: StoredRun) -> str:
    """The reason that stays with a forgotten run: how it had ended, and why so."""
    return f"it had ended as {run.state.value}" + (f": {run.reason}" if run.reason else "")


def check_remembered(run: StoredRun) -> StoredRun:
    """Refuse to read what is gone, or is just going."""
    if run.state is RunState.FORGOTTEN:
        said = run.decision
        who = "" if said is None else in_words(said.by, said.reason)
        when = "" if said is None else f" on {datetime.fromtimestamp(said.at / SECOND, UTC):%Y-%m-%d %H:%M} UTC"
        raise RunForgotten(
            f"run {run.name or run.id} was forgotten{when}{who}; its tasks, results and logs are gone. "
            "The same start with again=True does the work anew"
        )
    return run


def pieces(spans: Iterable[tuple[int, int]], tasks: range, limit: int) -> tuple[list[Piece], bool]:
    """The first `limit` tasks of these spans, given in order, that lie in a range; and whether there are more."""
    found: list[Piece] = []
    for first, last in spans:
        low, high = max(first, tasks.start), min(last, tasks.stop - 1)
        if low > high:
            continue
        if limit == 0:
            return found, True
        cut = min(high, low + limit - 1)
        found.append(Piece(first, low, cut))
        limit -= cut - low + 1
        if cut < high:
            return found, True
    return found, False


def settled(removal: Removal, kind: str, ended: Iterable[tuple[int, Status, int]], latest: int) -> dict[int, Status]:
    """Return those of some ended tasks of a kind, with when they did, that ended before the time that was asked for.

    And before the `latest`: by then nothing that was sent when they were added can still arrive, and add them again.
    """
    asked = removal.before
    return {
        task: status
        for task, status, at in ended
        if at < latest and (asked is None or at < (asked.of(kind, status) if isinstance(asked, Cutoffs) else asked))
    }


def tied(run: int, pairs: Iterable[tuple[int, int]], joins: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield which tasks of a run must not go before which others, by who waits for whom: members and their joins.

    `joins` are the run and the rule of each that there is.
    """
    for task, join in pairs:
        its, rule = joins.get(join, (NEVER, Rule.ALL_DONE))
        if rule != Rule.BEHIND:
            reader = join if its == run else NEVER
            yield task, reader
            yield reader, task


def chosen(
    ended: Mapping[int, Status],
    *,
    endless: bool,
    named: Collection[int],
    rows: Iterable[tuple[int, int]],
    not_before: Iterable[tuple[int, int]],
) -> list[int]:
    """Which of these ended tasks may go by themselves, in order.

    `named` have a key that is still theirs; `rows` are the bounds of live rows; `(task, other)` of `not_before` says
    that the task must not go before the other one, which is then still in the log.
    """
    order = sorted(task for task, status in ended.items() if endless or status in _HARMLESS)
    going = set(order).difference(named)
    for first, last in rows:
        going.difference_update(order[bisect_left(order, first) : bisect_right(order, last)])
    blocks: dict[int, list[int]] = {}
    for task, other in not_before:
        blocks.setdefault(other, []).append(task)
    staying = deque(other for other in blocks if other not in going)
    while staying:
        for task in blocks.get(staying.popleft(), ()):
            if task in going:
                going.discard(task)
                staying.append(task)
    return sorted(going)
