"""New lives in the reference store: `reopen`, the deliberate second chance of ended tasks."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from ramify.errors import BadPayload
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope, reason_value
from ramify.model.outcome import storable
from ramify.model.run import Order, RunState
from ramify.model.segment import MASK_WIDTH, SegmentState, mask_of, trim
from ramify.store.contract import REOPEN_LIMIT, Reopened
from ramify.store.memory import claims, commits, joins, keys, runs
from ramify.store.memory.adding import rank
from ramify.store.memory.place import JoinRow, Place, RunRow


def check(place: Place, run: RunRow, tasks: Sequence[int]) -> None:
    """Refuse tasks that are not published tasks of the run."""
    if len(tasks) > REOPEN_LIMIT:
        raise BadPayload(f"{len(tasks)} tasks to reopen; take at most {REOPEN_LIMIT} at a time")
    for task in tasks:
        span = place.published(task)
        if span is None or span.run != run.new.id:
            raise BadPayload(f"task {task} is not a task of run {run.new.id}")


def reopen(
    place: Place, run: RunRow, tasks: Sequence[int], settle: Mark | None, reason: str, process: int, now: int
) -> Reopened:
    """Begin new lives; see the contract."""
    if run.state is RunState.DRAINING:
        return Reopened(round=run.round)
    ended: dict[int, Status] = {}
    superseded: list[tuple[int, int]] = []
    for task in sorted(set(tasks)):
        status = joins.ending(place, task)
        if status is None:
            continue
        span = place.published(task)
        assert span is not None
        other = keys.retake(place, span, task, now)
        if other is not None:
            superseded.append((task, other))
        else:
            ended[task] = status
    again = _set_back(place, ended, set(tasks))
    if not ended:
        return Reopened((), tuple(superseded), run.round)
    place.new_commit(process, 0, now)
    for task, status in ended.items():
        _write_reopened(place, task, status, reason, process)
    at = run.round + 1
    if run.state.is_end:
        # What it was cancelled for is kept: it may end as cancelled again.
        run.reason = None if run.into is RunState.DONE else run.reason
        run.state, run.ended = RunState.OPEN, None
    _offer(place, run, [*ended, *again], at, now)
    if settle is not None:
        place.marks[run.new.id] += (
            Mark(run.new.id, Scope.TASK, task, settle.status, storable(settle.reason), settle.value) for task in ended
        )
    runs.advance(place, run, run.round, now)
    return Reopened(tuple(ended), tuple(superseded), at)


def _write_reopened(place: Place, task: int, status: Status, reason: str, process: int) -> None:
    span = place.published(task)
    assert span is not None
    place.write_event(task, Status.REOPENED, reason_value(reason))
    place.count(span.run, span.kind, status, process, -1)
    place.count(span.run, span.kind, Status.REOPENED, process)


def _set_back(place: Place, ended: Iterable[int], chosen: set[int]) -> list[int]:
    """Let joins forget the reopened members; the unfinished join tasks of `chosen` that must wait once more.

    A fired join whose task is not chosen stays fired: the late arrival of its member then changes nothing. A fired join
    without a task is judged by the join its fullness was passed on to, and forgotten there.
    """
    queue = deque(pair for task in ended for pair in joins.memberships(place, task))
    waiting: list[int] = []
    while queue:
        name, slot = queue.popleft()
        row = place.joins[name]
        last = row
        while last.task is None and last.outer is not None:
            last = place.joins[last.outer[0]]
        if last.fired and last.task not in chosen:
            continue
        was_fired = row.fired
        joins.set_back(place, row, [slot], anew=was_fired)
        if was_fired and row.outer is not None:
            queue.append(row.outer)
        if was_fired and row.task is not None and joins.ending(place, row.task) is None:
            _take_back(place, row.task)
            waiting.append(row.task)
    return waiting


def _take_back(place: Place, task: int) -> None:
    """Remove an unfinished task from its row; whoever holds that row loses it."""
    row = place.covering(task)
    if row is None:
        return
    if row.state is SegmentState.CLAIMED:
        commits.put_back(place, row)
    joins.take_out(place, claims.around(place, row, task), [task])


def _offer(place: Place, run: RunRow, tasks: Sequence[int], at: int, now: int) -> None:
    """Masked rows for the tasks: waiting where their join is not full, else in the later round."""
    groups: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    for task in sorted(tasks):
        span = place.published(task)
        assert span is not None
        join = place.joins.get(task)
        waits = join is not None and join.task == task and not _full(join)
        if join is not None and not waits:
            join.fired = True
        groups[span.first, (task - span.first) // MASK_WIDTH, waits].append(task)
    for (first, _, waits), members in groups.items():
        span = place.spans[first]
        low, last, left = trim(members[0], mask_of(members, members[0]))
        round = at if run.new.order is Order.ROUNDS else span.round
        state = SegmentState.WAITING if waits else run.state_for(round)
        highest = max(len(place.events.get(task, ())) for task in members)
        place.add_segment(
            span, round=round, first=low, last=last, left=left, rank=rank(run, span, now), due=None, state=state,
            attempt=highest,
        )  # fmt: skip


def _full(join: JoinRow) -> bool:
    return join.full == len(join.parts)
