"""The rules of the machine: the verbs of the contract, each with all it may be given, on both stores at once.

After every step both stores must show the same, and at the end all work must come to an end on both.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs

from ramify.errors import RunEnded
from ramify.model.claim import Want
from ramify.model.event import Status
from ramify.model.mark import Mark, Scope
from ramify.model.process import NewProcess
from ramify.model.run import Follows, NewRun, Order, RunState
from ramify.testing.oracle import check
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Opener, Pair, Refused, Worker, open_sqlite, same_token
from tests.store.machine.parts import draw_part, forget, settle
from tests.store.machine.picture import KINDS, Picture, close_up, difference, picture
from tests.store.machine.scene import EVERYTHING, Scene, as_told

REASONS = ("", "enough", "odd \udc80 \0")
M = TypeVar("M", bound="WorkMachine")
#: How often something is done, what, and whether there is what it needs.
Act = tuple[int, Callable[[Choices], None], Any]


def step(body: Callable[[M, Choices], Iterable[Act]]) -> Callable[[M], None]:
    """A rule that does one of several things, each as often as its weight says."""

    def stepping(machine: M, source: st.DataObject) -> None:
        machine.at_peace = False
        choose = Choices(source)
        acts = [act for weight, act, possible in body(machine, choose) if possible for _ in range(weight)]
        if acts:
            choose.one(acts)(choose)
        machine.at_peace = True

    stepping.__name__ = body.__name__
    return rule(source=st.data())(stepping)


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

    # what happens how often

    @step
    def adding(self, choose: Choices) -> Iterable[Act]:
        growing = self.scene.growing_runs()
        yield 3, self.append_some, growing
        yield 3, self.append_singles, growing
        yield 1, self.start_run, True
        yield 1, self.append_again, self.scene.appends
        yield 1, self.append_to_any_run, True
        yield 1, self.start_a_run_again, True

    @step
    def claiming(self, choose: Choices) -> Iterable[Act]:
        yield 1, self.claim, True

    @step
    def committing(self, choose: Choices) -> Iterable[Act]:
        if not self._holds():
            self.claim(choose)
        yield 3, self.commit, self._holds()
        yield 1, self.finish_all_it_holds, self._holds()

    @step
    def holding(self, choose: Choices) -> Iterable[Act]:
        if not self._holds():
            self.claim(choose)
        yield 3, self.stage, self._holds()
        yield 2, self.commit, self._holds()
        yield 1, self.release, self._holds()

    @step
    def judging(self, choose: Choices) -> Iterable[Act]:
        open_runs = self.scene.open_runs()
        yield 5, self.advance, open_runs
        yield 3, self.cancel_a_task, True
        yield 2, self.resume, any(run.state is RunState.PAUSED for run in open_runs)
        yield 1, self.pause, open_runs
        yield 1, self.cancel_a_run, len(open_runs) > 1
        yield 1, self.touch_any_run, True

    @step
    def living(self, choose: Choices) -> Iterable[Act]:
        yield 4, self.reopen, True
        yield 2, self.time_passes, True
        yield 2, self.enter, len(self.scene.workers) < 4
        yield 1, self.announce, self.scene.workers
        yield 1, self.vacuum, True
        yield 1, self.enter_again, self.scene.workers

    def _holds(self) -> bool:
        return any(worker.left for worker in self.scene.workers)

    def _worker(self, choose: Choices) -> Worker:
        """Somebody who works, a new one if nobody is left."""
        return choose.one(self.scene.workers or [self.scene.enter()])

    # runs

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

    def start_a_run_again(self, choose: Choices) -> None:
        sent = choose.one(self.scene.starts)
        again = self.scene.front.ask(sent.verb, *sent.args)
        assert not again.created
        self.before = self.now

    def advance(self, choose: Choices) -> None:
        run = choose.one(self.scene.open_runs())
        self.scene.front.ask("advance", run.id, choose.one((run.round, run.round, run.round - 1, run.round + 1)))

    def cancel_a_run(self, choose: Choices) -> None:
        into = choose.one((RunState.CANCELLED, RunState.HALTED))
        self.scene.front.ask("cancel", choose.one(self.scene.open_runs()).id, reason=choose.one(REASONS), into=into)

    def cancel_a_task(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        task = choose.one([*self.scene.tasks(run.id), *self.scene.all_tasks()[:1], 2**40])
        self.scene.front.ask("cancel", run.id, task, below=choose.chance(), reason=choose.one(REASONS))

    def pause(self, choose: Choices) -> None:
        self.scene.front.ask("pause", choose.one(self.scene.open_runs()).id)

    def touch_any_run(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        args = (
            (run.id, run.round)
            if (verb := choose.one(("advance", "pause", "resume", "cancel"))) == "advance"
            else (run.id,)
        )
        if run.state.is_end:
            self.scene.front.ask(verb, *args)
            self.before = self.now

    def resume(self, choose: Choices) -> None:
        paused = [run for run in self.scene.runs() if run.state is RunState.PAUSED]
        self.scene.front.ask("resume", choose.one(paused).id)

    # adding

    def append_some(self, choose: Choices) -> None:
        self._append_work(choose, choose.one(self.scene.growing_runs()).id)

    def append_to_any_run(self, choose: Choices) -> None:
        self._append_work(choose, choose.one(self.scene.runs()).id)

    def _append_work(self, choose: Choices, run: int) -> None:
        work = self.scene.some_work(choose)
        self._append(run, work.groups, work.joins, work.waiters)

    def append_singles(self, choose: Choices) -> None:
        run = choose.one(self.scene.growing_runs())
        tasks = self.scene.group(choose, self.scene.next_single(choose), 1)
        self._append(run.id, [tasks])
        for _ in range(choose.number(0, 3)):
            self._append(run.id, [structs.replace(tasks, first=self.scene.next_single(choose))])

    def _append(self, *args: Any) -> None:
        sent = self.scene.front.send("append", *args)
        if sent.reference != Refused(RunEnded):
            assert not isinstance(sent.reference, Refused)
            self.scene.appends.append(sent)

    def append_again(self, choose: Choices) -> None:
        sent = choose.one(self.scene.appends)
        again = self.scene.front.ask(sent.verb, *sent.args)
        if not isinstance(again, Refused) and again.already:
            self.before = self.now

    # processes

    def enter(self, _: Choices) -> None:
        self.scene.enter()

    def enter_again(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        assert worker.client.ask("enter", NewProcess(worker.process)) is None
        self.before = self.now

    def announce(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        held = [task for left in worker.left.values() for task in left]
        worker.client.ask("announce", worker.process, choose.one([None, *held]))

    def time_passes(self, choose: Choices) -> None:
        self.scene.pair.clock.advance(choose.one((1, 5, 20, 45, 5000, 100_000)))

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

    def claim(self, choose: Choices) -> None:
        self._worker(choose).send("claim", self._want(choose), lost=choose.chance(4))

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

    def finish_all_it_holds(self, choose: Choices) -> None:
        worker = self._holder(choose)
        parts = [
            structs.replace(as_told(worker.claims[token]), tasks=left, statuses=Status.DONE)
            for token, left in worker.left.items()
        ]
        settle(worker, parts, worker.send("commit", parts, EVERYTHING, lost=choose.chance(4)).refused)

    def _holder(self, choose: Choices) -> Worker:
        return choose.one([worker for worker in self.scene.workers if worker.left])

    def stage(self, choose: Choices) -> None:
        worker = self._holder(choose)
        self.scene.stage(choose, worker, choose.one(list(worker.left)))

    def release(self, choose: Choices) -> None:
        worker = self._holder(choose)
        token = choose.one(list(worker.left))
        worker.send("release", token, lost=choose.chance(4))
        forget(worker, token)

    def reopen(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        tasks = self.scene.tasks(run.id)
        chosen = choose.some(self.scene.ended(tasks) or tasks, most=6)
        if choose.chance(3):
            chosen += choose.some(tasks, most=3)
        how = choose.one((Status.CANCELLED, Status.DONE, Status.SKIPPED))
        settled = Mark(run.id, Scope.TASK, None, how, choose.one(REASONS), choose.one((None, b"v")))
        self._worker(choose).send(
            "reopen",
            run.id,
            chosen,
            lost=choose.chance(4),
            settle=choose.one((None, settled)),
            reason=choose.one(REASONS),
        )
