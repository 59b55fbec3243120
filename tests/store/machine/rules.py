"""The rules of the machine: the verbs of the contract, each with all it may be given, on both stores at once.

After every step both stores must show the same, and at the end all work must come to an end on both.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from ramify.errors import RunEnded
from ramify.model.claim import Want
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.run import Follows, NewRun, Order, RunState
from ramify.testing.oracle import check
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Opener, Pair, Refused, Worker, open_sqlite, same_token
from tests.store.machine.parts import draw_part, forget, settle
from tests.store.machine.picture import KINDS, Picture, close_up, difference, picture
from tests.store.machine.scene import EVERYTHING, Scene, as_told

REASONS = ("", "enough", "odd \udc80 \0")
M = TypeVar("M", bound="WorkMachine")


def step(body: Callable[[M, Choices], None]) -> Callable[[M], None]:
    """A rule that makes choices."""

    def stepping(machine: M, source: st.DataObject) -> None:
        machine.at_peace = False
        body(machine, Choices(source))
        machine.at_peace = True

    stepping.__name__ = body.__name__
    return rule(source=st.data())(stepping)


def has(what: str) -> Callable[[Any], bool]:
    """The scene has somebody or something of that name."""
    return lambda machine: bool(getattr(machine.scene, what))


def _holds(machine: WorkMachine) -> bool:
    return any(worker.left for worker in machine.scene.workers)


class WorkMachine(RuleBasedStateMachine):
    """Everything that happens when nothing goes wrong."""

    opener: ClassVar[Opener] = staticmethod(open_sqlite)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.scene = Scene(Pair(self.folder, type(self).opener))
        #: what must still be seen after a step that may change nothing
        self.before: Picture | None = None
        #: False inside a step, and so for good after one that failed
        self.at_peace = True
        self.now: Picture = {}

    @initialize(source=st.data())
    def begin(self, source: st.DataObject) -> None:
        self.scene.enter()
        self.scene.enter()
        self._start(Choices(source))

    @invariant()
    def both_stores_show_the_same(self) -> None:
        self.at_peace = False
        front = self.scene.front
        ours = picture(front.reference, same_token)
        theirs = picture(front.sqlite, self.scene.pair.tokens.known)
        assert not (found := difference(ours, theirs)), f"reference, then sqlite; {found}"
        if self.before is not None:
            assert not (found := difference(self.before, ours)), f"this should have changed nothing; {found}"
        self.before, self.now, self.at_peace = None, ours, True

    def teardown(self) -> None:
        try:
            if self.at_peace:
                self._finish()
        finally:
            self.scene.close()
            shutil.rmtree(self.folder)

    def _finish(self) -> None:
        self.scene.finish()
        self.both_stores_show_the_same()
        front = self.scene.front
        found = difference(close_up(front.reference), close_up(front.sqlite))
        assert not found, f"reference, then sqlite; {found}"
        assert check(front.reference) == []
        assert check(front.sqlite) == []

    # runs

    @step
    def start_run(self, choose: Choices) -> None:
        self._start(choose)

    def _start(self, choose: Choices) -> None:
        scene = self.scene
        leaders = [None, *(Follows(run.id, choose.number(0, 1)) for run in scene.runs())]
        new = NewRun(
            scene.ids(choose, 1),
            name=choose.one((None, "tree", "jobs")),
            generation=choose.number(1, 2),
            order=choose.one(tuple(Order)),
            follows=choose.one(leaders),
            endless=choose.chance(3),
        )
        work = scene.some_work(choose, waiters=False)
        sent = scene.front.send("start", new, work.groups, work.joins)
        scene.starts.append(sent)

    @precondition(has("starts"))
    @step
    def start_a_run_again(self, choose: Choices) -> None:
        sent = choose.one(self.scene.starts)
        again = self.scene.front.ask(sent.verb, *sent.args)
        assert not again.created
        self.before = self.now

    @step
    def advance(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        self.scene.front.ask("advance", run.id, choose.one((run.round, run.round, run.round - 1, run.round + 1)))

    @precondition(lambda machine: len(machine.scene.open_runs()) > 1)
    @step
    def cancel_a_run(self, choose: Choices) -> None:
        into = choose.one((RunState.CANCELLED, RunState.HALTED))
        self.scene.front.ask("cancel", choose.one(self.scene.runs()).id, reason=choose.one(REASONS), into=into)

    @step
    def cancel_a_task(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        task = choose.one([*self.scene.tasks(run.id), *self.scene.all_tasks()[:1], 2**40])
        self.scene.front.ask("cancel", run.id, task, below=choose.chance(), reason=choose.one(REASONS))

    @step
    def pause(self, choose: Choices) -> None:
        self.scene.front.ask("pause", choose.one(self.scene.runs()).id)

    @step
    def resume(self, choose: Choices) -> None:
        runs = self.scene.runs()
        paused = [run for run in runs if run.state is RunState.PAUSED]
        self.scene.front.ask("resume", choose.one(paused or runs).id)

    # adding

    @step
    def append_some(self, choose: Choices) -> None:
        run = choose.one(self.scene.open_runs() or self.scene.runs())
        work = self.scene.some_work(choose)
        self._append(run.id, work.groups, work.joins, work.waiters)

    @step
    def append_singles(self, choose: Choices) -> None:
        run = choose.one(self.scene.open_runs() or self.scene.runs())
        tasks = self.scene.group(choose, self.scene.next_single(choose), 1)
        self._append(run.id, [tasks])
        for _ in range(choose.number(0, 3)):
            self._append(run.id, [structs.replace(tasks, first=self.scene.next_single(choose))])

    def _append(self, *args: Any) -> None:
        sent = self.scene.front.send("append", *args)
        if sent.reference != Refused(RunEnded):
            assert not isinstance(sent.reference, Refused)
            self.scene.appends.append(sent)

    @precondition(has("appends"))
    @step
    def append_again(self, choose: Choices) -> None:
        sent = choose.one(self.scene.appends)
        again = self.scene.front.ask(sent.verb, *sent.args)
        if not isinstance(again, Refused) and again.already:
            self.before = self.now

    # processes

    @precondition(lambda machine: len(machine.scene.workers) < 4)
    @rule()
    def enter(self) -> None:
        self.scene.enter()

    @precondition(has("workers"))
    @step
    def beat(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        worker.client.ask("beat", worker.process)

    @precondition(has("workers"))
    @step
    def announce(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        held = [task for left in worker.left.values() for task in left]
        worker.client.ask("announce", worker.process, choose.one([None, *held]))

    @precondition(has("workers"))
    @step
    def leave(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        worker.client.ask("leave", worker.process)
        self.scene.bury(worker)

    @step
    def time_passes(self, choose: Choices) -> None:
        self.scene.pair.clock.advance(choose.one((1, 5, 20, 45, 5000, 100_000)))

    @step
    def vacuum(self, choose: Choices) -> None:
        self.scene.front.ask("vacuum", choose.one((65_536, 1, 3)))

    # working

    def _want(self, choose: Choices) -> Want:
        if not choose.chance(3):
            return structs.replace(EVERYTHING, limit=choose.one((100, 1, 2, 5)))
        runs = choose.some([run.id for run in self.scene.runs()], least=1)
        return Want(
            frozenset(choose.some(KINDS, least=1)),
            choose.number(0, 9),
            choose.one((None, frozenset({"default"}), frozenset({"slow", "none"}))),
            choose.one((None, frozenset(runs))),
            frozenset(choose.some(("left", "right"))),
        )

    @precondition(has("workers"))
    @step
    def claim(self, choose: Choices) -> None:
        choose.one(self.scene.workers).send("claim", self._want(choose), lost=choose.chance(4))

    @precondition(_holds)
    @step
    def commit(self, choose: Choices) -> None:
        worker = self._holder(choose)
        chosen = choose.some(list(worker.left), least=1, most=3)
        parts = [draw_part(choose, self.scene, worker, token) for token in chosen]
        if choose.chance(6):
            parts.append(structs.replace(parts[0], token=b"void", publish=(), discard=()))
        then = (self._want(choose),) if choose.chance(3) else ()
        answer = worker.send("commit", parts, *then, lost=choose.chance(4))
        assert not isinstance(answer, Refused)
        settle(worker, parts, answer.refused)

    @precondition(_holds)
    @step
    def finish_all_it_holds(self, choose: Choices) -> None:
        worker = self._holder(choose)
        parts = [
            structs.replace(as_told(worker.claims[token]), tasks=left, statuses=Status.DONE)
            for token, left in worker.left.items()
        ]
        settle(worker, parts, worker.send("commit", parts, EVERYTHING, lost=choose.chance(4)).refused)

    def _holder(self, choose: Choices) -> Worker:
        return choose.one([worker for worker in self.scene.workers if worker.left])

    @precondition(_holds)
    @step
    def stage(self, choose: Choices) -> None:
        worker = self._holder(choose)
        self.scene.stage(choose, worker, choose.one(list(worker.left)))

    @precondition(_holds)
    @step
    def release(self, choose: Choices) -> None:
        worker = self._holder(choose)
        token = choose.one(list(worker.left))
        worker.send("release", token, lost=choose.chance(4))
        forget(worker, token)

    @precondition(has("workers"))
    @step
    def reopen(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        tasks = self.scene.tasks(run.id)
        chosen = choose.some(self.scene.ended(tasks) or tasks, most=6)
        if choose.chance(3):
            chosen += choose.some(tasks, most=3)
        how = choose.one((Status.CANCELLED, Status.DONE, Status.SKIPPED))
        settled = Mark(run.id, Scope.TASK, None, how, choose.one(REASONS), choose.one((None, b"v")))
        worker = choose.one(self.scene.workers)
        worker.send(
            "reopen",
            run.id,
            chosen,
            lost=choose.chance(4),
            settle=choose.one((None, settled)),
            reason=choose.one(REASONS),
        )
