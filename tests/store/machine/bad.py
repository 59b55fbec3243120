"""Bad input: calls that every store must refuse as such, before anything is written.

All of them may use the same reserved ids, because none of them must ever be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import structs

from ramify.model.addition import Addition
from ramify.model.commit import Later, Part
from ramify.model.context import SetValue
from ramify.model.event import Status
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.process import Stamp
from ramify.model.reopening import REOPEN_LIMIT
from ramify.model.run import Follows, NewRun, Order, RunState
from ramify.model.task import MAX_KEY, MAX_NAME, MAX_PAYLOAD, NewTasks
from ramify.model.topic import Publication
from ramify.model.value import Swap
from tests.store.machine.pair import Client, Worker
from tests.store.machine.scene import EVERYTHING, Scene

FAR = 2**40
OPENS = NewRun(FAR, "mail", shape="queue", order=Order.ANY, endless=True)
Call = tuple[Client, str, tuple[Any, ...], dict[str, Any]]

#: Columns of a group of two tasks that do not fit.
COLUMNS: tuple[dict[str, Any], ...] = (
    {"bodies": []},
    {"first": FAR},
    {"first": 0, "bodies": [b""]},
    {"first": -5},
    {"priority": 1001},
    {"kind": ""},
    {"kind": "a\0b"},
    {"queue": "a\udc80"},
    {"lane": "x" * (MAX_NAME + 1)},
    {"keys": [b"a"]},
    {"details": [None] * 3},
    {"parents": [1]},
    {"bodies": [b"", bytes(MAX_PAYLOAD + 1)]},
    {"keys": [None, bytes(MAX_KEY + 1)]},
    {"waits": True, "due": 1},
    {"waits": True},
    {"join": FAR},
)


def bad_calls(scene: Scene, worker: Worker, run: int) -> Iterator[Call]:
    """Everything that can be said wrongly to a run and by a process, and about a claim if it holds one."""
    free = scene.front.ask("reserve", 3)
    strangers = [task for other in scene.runs() if other.id != run for task in scene.tasks(other.id)]
    for args in _appends(free):
        yield scene.front, "append", ([Addition(run, *args)],), {}
        yield scene.front, "append", ([Addition(run, [NewTasks(free, "walk", [b"1"])]), Addition(run, *args)],), {}
    for new in _runs(free):
        yield scene.front, "start", (new,), {}
    for into in (RunState.DONE, RunState.PAUSED):
        yield scene.front, "cancel", (run,), {"into": into}
    yield scene.front, "reserve", (0,), {}
    stamp = Stamp(worker.process, worker.n + 1)
    for tasks in ([FAR], strangers[:1] or [0], [free] * (REOPEN_LIMIT + 1)):
        yield worker.client, "reopen", (stamp, run, tasks), {}
    for verb, *rest in _of_process(worker, free):
        yield worker.client, verb, tuple(rest), {}
    held = scene.held(worker)
    for verb, *rest in _of_claim(scene, worker, held, free) if held else ():
        yield worker.client, verb, (stamp, *rest), {}


def lost_calls(scene: Scene, worker: Worker) -> Iterator[Call]:
    """Verbs about a run that is not there."""
    for verb, *args in (("cancel",), ("cancel", 1), ("pause",), ("resume",)):
        yield scene.front, verb, (FAR, *args), {}
    yield scene.front, "append", ([*(Addition(run.id, []) for run in scene.open_runs()), Addition(FAR, [])],), {}
    yield scene.front, "advance", ([*((run.id, run.round) for run in scene.open_runs()), (FAR, 0)],), {}
    yield scene.front, "start", (NewRun(scene.front.ask("reserve", 1), follows=Follows(FAR)),), {}
    yield worker.client, "reopen", (Stamp(worker.process, worker.n + 1), FAR, []), {}


def _runs(free: int) -> Iterator[NewRun]:
    yield NewRun(FAR)
    yield NewRun(0)
    yield NewRun(free, name="")
    yield NewRun(free, name="\udc80")
    yield NewRun(free, follows=Follows(free))
    yield NewRun(free, max_running=0)
    yield NewRun(free, max_tasks=-1)
    yield NewRun(free, fails_as=RunState.DONE)
    yield NewRun(free, definition="a\0b")


def _appends(free: int) -> Iterator[tuple[Any, ...]]:
    two, one = NewTasks(free, "walk", [b"1", b"2"]), NewTasks(free + 2, "walk", [b"3"])
    task = structs.replace(one, waits=True)
    join = NewJoins.one(task.first, 1)
    for columns in COLUMNS:
        yield ([structs.replace(two, **columns)],)
        yield ([one, structs.replace(two, **columns)],)
    yield ([two, structs.replace(one, first=free + 1)],)
    yield ([structs.replace(one, first=free + 1), two],)
    yield [task], [NewJoins.one(task.first, -1)]
    yield [task], [NewJoins((task.first,), (1, 1))]
    yield [task], [join], [NewWaiters((task.first,), (task.first,), ())]
    yield [task], [join, join]
    yield [task, structs.replace(two, join=task.first)], [join]
    yield [task], [join], [NewWaiters.one(FAR, task.first, 0)]
    yield [task], [join], [NewWaiters.one(task.first, task.first, 1)]
    yield [task], [join], [NewWaiters.one(task.first, FAR, 0)]


def _of_process(worker: Worker, free: int) -> Iterator[tuple[Any, ...]]:
    """Verbs that are wrong whatever the process holds."""
    stamp = Stamp(worker.process, worker.n + 1)
    two = NewTasks(free, "walk", [b"1", b"2"])
    if not worker.sent:
        yield "claim", Stamp(worker.process, 0), EVERYTHING
    elif worker.sent[-1].verb != "release":
        yield "release", worker.sent[-1].args[0], [b"x"]
    for parts in (
        [Part(b"x", []), Part(b"x", [])],
        [Part(b"x", [1, 1])],
        [Part(b"x", [1], Status.REOPENED)],
        [Part(b"x", [1], Status.DECIDED)],
        [Part(b"x", [1], Status.OUTRUN)],
        [Part(b"x", [1], Status.REPLACED)],
        [Part(b"x", [1], Status.FAILED, sets=[SetValue(1, "a", b"")])],
        [Part(b"x", [1], sets=[SetValue(2, "a", b"")])],
        [Part(b"x", [1], sets=[SetValue(1, "a\0", b"")])],
        [Part(b"x", [1], sets=[SetValue(1, "a", b""), SetValue(1, "a", b"")])],
        [Part(b"x", [1, 2], swaps=[Swap("a", "b", None, free, b"")])],
        [Part(b"x", [1], Status.FAILED, swaps=[Swap("a", "b", None, free, b"")])],
        [Part(b"x", [1], swaps=[Swap("a", "", None, free, b"")])],
        [Part(b"x", [1], publications=[Publication("", b"")])],
        [Part(b"x", [1], publications=[Publication("a", b"", "")])],
        [Part(b"x", [1], publications=[Publication("ramify.failures", b"")])],
        [Part(b"x", [1], publications=[Publication("a", b"", task=2)])],
        [Part(b"x", [1], Status.FAILED, publications=[Publication("a", b"", task=1)])],
        [Part(b"x", [1, 2], values=[None])],
        [Part(b"x", [1, 2], [Status.DONE])],
        [Part(b"x", [1], later=[Later([1], 0)])],
        [Part(b"x", [1], Status.RETRYING, later=[Later([1], 0), Later([1], 1)])],
        [Part(b"x", [1], took={2: 5})],
        [Part(b"x", [1], values=[bytes(MAX_PAYLOAD + 1)])],
        [Part(b"x", [1], children=[structs.replace(two, kind="")])],
    ):
        yield "commit", stamp, parts
    for swaps, additions, publications in (
        ([], [Addition(FAR, [two])], []),
        ([], [Addition.opening(OPENS, [structs.replace(two, waits=True)])], []),
        ([], [Addition.opening(OPENS, [structs.replace(two, first=FAR)])], []),
        ([], [Addition.opening(structs.replace(OPENS, endless=False), [two])], []),
        ([], [], [Publication("a", b"", keep=-1)]),
        ([], [], [Publication("a", b"", task=1)]),
    ):
        yield "swap", stamp, swaps, additions, publications
    yield "stage", stamp, b"x", [structs.replace(two, waits=True)]


def _of_claim(scene: Scene, worker: Worker, held: Sequence[bytes], free: int) -> Iterator[tuple[Any, ...]]:
    """Verbs that do not fit the first claim; the second part of each commit would have been right."""
    token = held[0]
    claim, left = worker.claims[token], worker.left[token]
    two, one = NewTasks(free, "walk", [b"1", b"2"]), NewTasks(free + 1, "walk", [b"3"])
    known = NewTasks(claim.tasks[0], "walk", [b""])
    staged = [row.first for row in scene.staged(worker, token)[:1]]
    wrong: list[dict[str, Any]] = [
        {"tasks": [max(claim.tasks) + 1]},
        {"tasks": [left[0], min(claim.tasks) - 1]},
        {"publish": [FAR]},
        {"discard": [free]},
        {"publish": staged or [FAR], "discard": staged},
        {"publish": (staged or [FAR]) * 2},
        {"children": [known]},
        {"children": [two, one]},
        {"children": [structs.replace(two, join=FAR)]},
        {"joins": [NewJoins.one(free, 1), NewJoins.one(free, 1)]},
    ]
    others = [Part(other, worker.left[other]) for other in held[1:2]]
    for columns in wrong:
        yield "commit", [structs.replace(Part(token, left[:1]), **columns), *others]
    if others:
        yield "commit", [Part(token, left, children=[two]), structs.replace(others[0], children=[one])]
    yield "stage", token, [known]
