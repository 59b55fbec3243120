"""Bad input: calls that every store must refuse as such, before anything is written.

Each function makes one such call from what is there; None when the scene has not what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from ramify.model.commit import Later, Part
from ramify.model.event import Status
from ramify.model.join import NewJoin, NewWaiter
from ramify.model.process import NewProcess, Stamp
from ramify.model.run import Follows, NewRun, RunState
from ramify.model.task import MAX_KEY, MAX_NAME, MAX_PAYLOAD, NewTasks
from tests.store.machine.pair import Client, Worker
from tests.store.machine.scene import EVERYTHING, Scene

FAR = 2**40
Call = tuple[Client, str, tuple[Any, ...]]
Columns = dict[str, Any]

#: Columns of a group of two tasks that do not fit.
COLUMNS: dict[str, Columns] = {
    "no tasks": {"bodies": []},
    "ids that nobody reserved": {"first": FAR},
    "an id below 1": {"first": 0},
    "an unknown priority": {"priority": 1001},
    "an empty kind": {"kind": ""},
    "a kind with a NUL": {"kind": "a\0b"},
    "a queue with a lone surrogate": {"queue": "a\udc80"},
    "a long lane": {"lane": "x" * (MAX_NAME + 1)},
    "a short column of keys": {"keys": [b"a"]},
    "a long column of mores": {"mores": [None] * 3},
    "a short column of parents": {"parents": [1]},
    "a body that is too large": {"bodies": [b"", bytes(MAX_PAYLOAD + 1)]},
    "a key that is too large": {"keys": [None, bytes(MAX_KEY + 1)]},
    "a wait with a due time": {"waits": True, "due": 1},
    "a wait for nothing": {"waits": True},
    "a join that is not there": {"join": FAR},
}

#: Joins that cannot be, by their needs, task and outer join, relative to the id.
JOINS: dict[str, tuple[int, int | None, tuple[int, int] | None]] = {
    "fewer than no arrivals": (-1, 0, None),
    "a join that leads nowhere": (1, None, None),
    "a join under another id than its task": (1, 1, None),
}


def _group(scene: Scene, count: int = 2, **columns: Any) -> NewTasks:
    first = scene.front.ask("reserve", count)
    return structs.replace(NewTasks(first, "walk", [b"1"] * count), **columns)


def append_calls(scene: Scene) -> dict[str, Callable[[int], Call]]:
    """Ways to append badly to a run."""
    front = scene.front

    def append(make: Callable[[], tuple[Any, ...]]) -> Callable[[int], Call]:
        return lambda run: (front, "append", (run, *make()))

    calls = {
        name: append(lambda columns=columns: ([_group(scene, **columns)],)) for name, columns in COLUMNS.items()  # type: ignore[misc]
    }

    def joined(needs: int, task: int | None, outer: tuple[int, int] | None) -> tuple[Any, ...]:
        tasks = _group(scene)
        return [tasks], [NewJoin(tasks.first, needs, None if task is None else tasks.first + task, outer)]

    calls |= {name: append(lambda shape=shape: joined(*shape)) for name, shape in JOINS.items()}  # type: ignore[misc]

    def overlapping() -> tuple[Any, ...]:
        tasks = _group(scene, 3)
        return ([structs.replace(tasks, bodies=[b""]), structs.replace(tasks, first=tasks.first, bodies=[b"", b""])],)

    def twice() -> tuple[Any, ...]:
        tasks = _group(scene, 1, waits=True)
        return [tasks], [NewJoin(tasks.first, 1, tasks.first), NewJoin(tasks.first, 2, tasks.first)]

    def too_many() -> tuple[Any, ...]:
        task = _group(scene, 1, waits=True)
        return [task, _group(scene, join=task.first)], [NewJoin(task.first, 1, task.first)]

    def late_slots() -> tuple[Any, ...]:
        task = _group(scene, 1, waits=True)
        return [task, _group(scene, join=task.first, slot=None)], [NewJoin(task.first, 2, task.first)]

    def waiter(task: int | None, slot: int) -> tuple[Any, ...]:
        tasks = _group(scene, 1, waits=True)
        join = tasks.first
        return [tasks], [NewJoin(join, 1, join)], [NewWaiter(join if task is None else task, join, slot)]

    return calls | {
        "groups that overlap": append(overlapping),
        "a join that is created twice": append(twice),
        "more members than slots": append(too_many),
        "slots added from outside": append(late_slots),
        "a wait for a task that is not there": append(lambda: waiter(FAR, 0)),
        "a waiter beyond the last slot": append(lambda: waiter(None, 1)),
    }


def front_calls(scene: Scene) -> dict[str, Callable[[], Call]]:
    """Bad calls that name no run and no claim."""
    front = scene.front

    def start(number: int | None = None, **columns: Any) -> Call:
        return front, "start", (NewRun(front.ask("reserve", 1) if number is None else number, **columns),)

    def circle() -> Call:
        number = front.ask("reserve", 1)
        return start(number, follows=Follows(number))

    return {
        "no ids": lambda: (front, "reserve", (0,)),
        "a run under an id that nobody reserved": lambda: start(FAR),
        "a run without a name in its name": lambda: start(name=""),
        "a run that follows itself": circle,
    }


def worker_calls(scene: Scene, worker: Worker) -> dict[str, Callable[[], Call]]:
    """Bad calls of a process, whatever it holds."""
    client, stamp = worker.client, Stamp(worker.process, worker.n + 1)
    last = Stamp(worker.process, worker.n)
    calls: dict[str, Callable[[], Call]] = {
        "a process that enters twice": lambda: (client, "enter", (NewProcess(worker.process),)),
        "a stamp of number 0": lambda: (client, "claim", (Stamp(worker.process, 0), EVERYTHING)) if not worker.n else (client, "reserve", (-1,)),
        "two parts under one token": lambda: (client, "commit", (stamp, [Part(b"x", []), Part(b"x", [])])),
        "a task twice": lambda: (client, "commit", (stamp, [Part(b"x", [1, 1])])),
        "an end that only reopen writes": lambda: (client, "commit", (stamp, [Part(b"x", [1], Status.REOPENED)])),
        "a short column of values": lambda: (client, "commit", (stamp, [Part(b"x", [1, 2], values=[None])])),
        "an end that comes back": lambda: (client, "commit", (stamp, [Part(b"x", [1], later=[Later([1], 0)])])),
        "withheld, but not in the part": lambda: (
            client,
            "commit",
            (stamp, [Part(b"x", [1], withheld=frozenset({2}))]),
        ),
        "a staged task that waits": lambda: (client, "stage", (stamp, b"x", _group(scene, waits=True))),
        "a staged task that adds slots": lambda: (client, "stage", (stamp, b"x", _group(scene, join=1, slot=None))),
    }
    if worker.sent and worker.sent[-1].verb != "release":
        calls["a stamp that was used for another verb"] = lambda: (client, "release", (last, b"x"))
    return calls


def claim_calls(scene: Scene, worker: Worker, token: bytes) -> dict[str, Callable[[], Call]]:
    """Bad parts of a claim that the worker holds."""
    client, stamp = worker.client, Stamp(worker.process, worker.n + 1)
    claim, left = worker.claims[token], worker.left[token]

    def commit(*tasks: int, **rest: Any) -> Call:
        return client, "commit", (stamp, [Part(token, tasks, **rest)])

    def overlapping() -> Call:
        tasks = _group(scene, 3)
        return commit(children=[structs.replace(tasks, bodies=[b"", b""]), tasks])

    return {
        "a task of another claim": lambda: commit(max(claim.tasks) + 1),
        "a task before the first of the claim": lambda: commit(left[0], min(claim.tasks) - 1),
        "a range that nobody staged": lambda: commit(publish=[FAR]),
        "a range that is published and discarded": lambda: commit(
            publish=scene.staged(worker, token)[:1] or [FAR], discard=scene.staged(worker, token)[:1]
        ),
        "children that are in the log": lambda: commit(left[0], children=[NewTasks(claim.tasks[0], "walk", [b""])]),
        "children that overlap": overlapping,
        "children of a join that is not there": lambda: commit(left[0], children=[_group(scene, join=FAR)]),
        "staged tasks that are in the log": lambda: (
            client,
            "stage",
            (stamp, token, NewTasks(claim.tasks[0], "walk", [b""])),
        ),
    }


def run_calls(scene: Scene, worker: Worker, run: int) -> dict[str, Callable[[], Call]]:
    """Bad calls about a run."""
    stamp = Stamp(worker.process, worker.n + 1)
    strangers = [task for other in scene.runs() if other.id != run for task in scene.tasks(other.id)]
    front = scene.front
    return {
        "tasks of another run to reopen": lambda: (worker.client, "reopen", (stamp, run, (strangers or [FAR])[:1])),
        "a task to reopen that is not there": lambda: (worker.client, "reopen", (stamp, run, [FAR])),
    } | {
        f"a cancel into {state}": lambda state=state: (front, "cancel_into", (run, state))  # type: ignore[misc]
        for state in (RunState.DONE, RunState.OPEN)
    }
