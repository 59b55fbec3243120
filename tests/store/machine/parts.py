"""Parts of a commit: every outcome a worker may report, and all that may follow from it."""

from __future__ import annotations

from collections.abc import Sequence

from ramify.model.commit import Committed, Later, Part
from ramify.model.context import SetValue
from ramify.model.event import UNREPORTED, Status
from ramify.model.limit import Closes
from ramify.model.outcome import Failure
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Worker
from tests.store.machine.scene import Scene
from tests.store.machine.workshop import Work, Workshop

OUTCOMES = tuple(status for status in Status if status not in UNREPORTED)
NAMES = ("a", "ü \U0001f600")
NO_RUN = 2**40
CLOSES: tuple[Closes, ...] = ("lane", "limit")
VALUES = (None, b"1", b"", Failure("Trouble", "no luck").encode(), b"\0\xff")


def draw_part(choose: Choices, scene: Scene, shop: Workshop, worker: Worker, token: bytes) -> Part:
    """A part for one claim of the worker; whether its token is still valid is none of its business."""
    claim = worker.claims[token]
    tasks = _tasks(choose, worker.left[token])
    statuses: Status | list[Status] = choose.one(OUTCOMES)
    if choose.chance():
        statuses = [choose.one(OUTCOMES) for _ in tasks]
    column = [statuses] * len(tasks) if isinstance(statuses, Status) else statuses
    ended = [task for task, status in zip(tasks, column, strict=True) if status.is_end]
    done = [task for task, status in zip(tasks, column, strict=True) if status is Status.DONE]
    work, heirs = _following(choose, scene, shop, claim.run, tasks, ended)
    staged = choose.some(scene.staged(worker, token))
    kept = choose.number(0, len(staged))
    for row in staged[:kept]:
        if (join := worker.gathering.get(row.first)) is not None:
            shop.gather(choose, work, join, row.last - row.first + 1)
    return Part(
        token,
        tasks,
        statuses,
        [choose.one(VALUES) for _ in tasks] if choose.chance() else None,
        work.groups,
        work.joins,
        work.waiters,
        _later(choose, scene, shop, [task for task in tasks if task not in ended]),
        [row.first for row in staged[:kept]],
        [row.first for row in staged[kept:]],
        heirs,
        sets=_sets(choose, done),
        additions=[shop.addition(choose) for _ in range(choose.number(1, 2))] if choose.chance(4) else (),
        swaps=shop.swaps(choose) if column == [Status.DONE] and choose.chance() else (),
        publications=shop.publications(choose, done) if choose.chance(3) else (),
    )


def _sets(choose: Choices, done: list[int]) -> list[SetValue]:
    """Some of the tasks that are done set a name or two. There are so few names that they meet."""
    return [
        SetValue(task, name, choose.one((b"1", b"", b"\0\xff")), choose.chance(3))
        for task in choose.some(done, least=1, most=3)
        for name in choose.some(NAMES, least=1)
    ]


def _tasks(choose: Choices, left: list[int]) -> Sequence[int]:
    """Some of the tasks that are left, in one of the forms a sequence may have."""
    dense = bool(left) and left == list(range(left[0], left[-1] + 1))
    match choose.number(0, 3):
        case 0:
            return range(left[0], left[-1] + 1) if dense else list(left)
        case 1:
            return choose.some(left)
        case 2 if dense:
            return range(left[-1], left[0] - 1, -1)
        case _:
            return range(left[0], left[-1] + 1, 2) if dense else left[::2]


def _later(choose: Choices, scene: Scene, shop: Workshop, waiting: list[int]) -> list[Later]:
    """Some of the tasks that have not ended leave memory, for one or two times, or until a run has ended."""
    moved = choose.some(waiting)
    cut = choose.number(0, len(moved))
    awaited = (None, *(run.id for run in scene.runs()), NO_RUN)
    return [
        Later(tasks, shop.later(choose), choose.one(awaited), choose.one(CLOSES) if choose.chance(4) else None)
        for tasks in (moved[:cut], moved[cut:])
        if tasks
    ]


def _following(
    choose: Choices, scene: Scene, shop: Workshop, run: int, tasks: Sequence[int], ended: list[int]
) -> tuple[Work, dict[int, int]]:
    """Children, joins, waiters and heirs. Any task may have an heir; those that somebody waits for mostly have one."""
    work = shop.some_work(choose, list(tasks)[:2]) if choose.chance() else Work()
    heirs: dict[int, int] = {}
    awaited = scene.awaited(run) if ended else set()
    for task in ended:
        if (choose.chance(4) or (task in awaited and choose.chance())) and (heir := shop.ids(choose, 1)) > task:
            heirs[task] = heir
            work.groups.append(shop.edition(choose, work, heir, task, ended))
    return work, heirs


def swapping(choose: Choices, shop: Workshop, worker: Worker, token: bytes) -> list[Part]:
    """A part for each of some tasks of one claim, and perhaps one for others of them, in any order."""
    chosen = choose.some(worker.left[token], least=1, most=4)
    parts = [
        Part(
            token,
            [task],
            swaps=shop.swaps(choose),
            publications=shop.publications(choose, [task]) if choose.chance(3) else (),
        )
        for task in chosen
    ]
    rest = [task for task in worker.left[token] if task not in chosen]
    if rest and choose.chance():
        parts.insert(choose.number(0, len(parts)), Part(token, rest))
    return parts


def settle(worker: Worker, parts: Sequence[Part], answer: Committed) -> None:
    """What the worker knows after a commit: what ended or left is no longer its own."""
    for part in parts:
        if part.token in answer.refused or part.token not in worker.left:
            continue
        if part.swaps and part.tasks[0] in answer.lost:
            continue
        moved = {task for later in part.later for task in later.tasks}
        moved |= set(part.ended())
        worker.left[part.token] = [task for task in worker.left[part.token] if task not in moved]
        if not worker.left[part.token]:
            forget(worker, part.token)


def forget(worker: Worker, token: bytes) -> None:
    """The worker no longer has this claim."""
    worker.left.pop(token, None)
    worker.claims.pop(token, None)
    worker.staged.pop(token, None)
