"""The rules of the machine: the verbs of the contract, each with all it may be given, on both stores at once.

After every step both stores must show the same, and at the end all work must come to an end on both.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs

from ramify.errors import RunEnded
from ramify.model.addition import Addition
from ramify.model.claim import NO_BOUNDS, Want
from ramify.model.commit import Part
from ramify.model.decision import Said
from ramify.model.event import Status
from ramify.model.log import LogLine
from ramify.model.mark import Mark, Scope
from ramify.model.policy import SECOND
from ramify.model.process import NewProcess
from ramify.model.reopening import Reopened
from ramify.model.run import Follows, NewRun, Order, RunState, StoredRun, Tolerance
from ramify.store.contract import Beat
from ramify.testing.oracle import check
from tests.store.machine.choices import Choices
from tests.store.machine.pair import Opener, Pair, Refused, Sent, Worker, open_sqlite, same_token
from tests.store.machine.parts import draw_part, forget, settle, swapping
from tests.store.machine.picture import KINDS, Picture, all_of, close_up, difference, picture
from tests.store.machine.scene import EVERYTHING, Scene, as_told
from tests.store.machine.workshop import Work, Workshop

NUMBERS = st.integers(0, 2**32 - 1)
REASONS = ("", "enough", "odd \udc80 \0")
#: How often something is done, what, and whether there is what it needs.
Act = tuple[int, Callable[[Choices], None], Any]


class WorkMachine(RuleBasedStateMachine):
    """Everything that happens when nothing goes wrong."""

    opener: ClassVar[Opener] = staticmethod(open_sqlite)
    #: how often something has happened that matters only if it does happen
    seen: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="machine-"))
        self.scene = Scene(Pair(self.folder, type(self).opener))
        self.shop = Workshop(self.scene)
        #: pauses and resumes that were sent
        self.decided: list[Sent] = []
        #: what must still be seen after a step that may change nothing
        self.before: Picture | None = None
        #: False inside a step, and so for good after one that failed
        self.at_peace = False
        self.now: Picture = {}

    @initialize(number=NUMBERS)
    def begin(self, number: int) -> None:
        self.scene.enter()
        self.scene.enter()
        self.start_run(Choices(number))

    @rule(which=NUMBERS, number=NUMBERS)
    def step(self, which: int, number: int) -> None:
        """One act of those that are possible now, the simplest first."""
        self.at_peace = False
        acts = [act for weight, act, possible in self.acts() if possible for _ in range(weight)]
        act = acts[which % len(acts)]
        note(f"# {act.__name__}")
        act(Choices(number))
        self.at_peace = True

    @invariant()
    def both_stores_show_the_same(self) -> None:
        self.at_peace = False
        front = self.scene.front
        ours = picture(front.reference, same_token)
        theirs = picture(front.sqlite, self.scene.pair.tokens.known)
        assert not (found := difference(ours, theirs)), f"reference, then sqlite; {found}"
        assert check(front.reference) == []
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
        assert check(front.sqlite) == []

    def acts(self) -> Iterable[Act]:
        """What can happen now."""
        open_runs, growing, workers, holds = (
            self.scene.open_runs(),
            self.scene.growing_runs(),
            self.scene.workers,
            any(worker.left for worker in self.scene.workers),
        )
        yield 8 if holds else 24, self.claim, True
        yield 32, self.commit, holds
        yield 2, self.finish_all_it_holds, holds
        yield 4, self.commit_with_swaps, holds
        yield 3, self.swap, workers
        yield 1, self.listen, workers
        yield 2, self.limit, workers
        yield 2, self.finish_a_run, open_runs
        yield 12, self.stage, holds
        yield 2, self.release, holds
        yield 1, self.meddle, holds
        yield 5, self.append_some, growing
        yield 4, self.append_singles, growing
        yield 2, self.append_to_queues, True
        yield 1, self.append_across_runs, growing
        yield 2, self.append_again, self.scene.appends
        yield 1, self.append_to_any_run, True
        yield 3 if growing else 12, self.start_run, len(open_runs) < 4
        yield 1, self.start_a_run_again, True
        yield 4, self.advance, open_runs
        yield 2, self.move_on, open_runs
        yield 4, self.cancel_a_task, open_runs
        yield 4, self.settle, open_runs
        yield 3, self.cancel_a_run, len(open_runs) > 1
        yield 1, self.pause, open_runs
        yield 4, self.resume, any(run.state is RunState.PAUSED for run in open_runs)
        yield 2, self.touch_an_ended_run, len(open_runs) < len(self.scene.runs())
        yield 8, self.reopen, True
        yield 4, self.expand, growing
        yield 12, self.make_anew, self.scene.makers
        yield 3, self.time_passes, True
        yield 2, self.vacuum, True
        yield 2, self.forget_a_run, True
        yield 3, self.forget_tasks, True
        yield 2, self.enter, len(workers) < 4
        yield 1, self.enter_again, workers
        yield 1, self.drain, True
        yield 1, self.note, workers

    def _worker(self, choose: Choices) -> Worker:
        """Somebody who works, a new one if nobody is left."""
        return choose.one(self.scene.workers or [self.scene.enter()])

    # runs

    def start_run(self, choose: Choices) -> None:
        scene = self.scene
        leaders = [None, *(Follows(run.id, choose.number(0, 1)) for run in scene.runs())]
        new = NewRun(
            self.shop.ids(choose, 1),
            name=choose.one((None, "tree", "jobs")),
            generation=choose.number(1, 2),
            order=choose.one(tuple(Order)),
            follows=choose.one(leaders),
            endless=choose.chance(3),
            max_running=choose.one((None, None, 1, 3)),
            max_tasks=choose.one((None, None, None, 20)),
            deadline=choose.one((None, None, None, scene.pair.clock.now() + choose.number(1, 30) * SECOND)),
            fails_as=choose.one((RunState.FAILED, RunState.HALTED)),
            tolerates=choose.one(tuple(Tolerance)),
            definition=choose.one((None, "etl")),
        )
        work = self.shop.some_work(choose, waiters=False)
        sent = scene.front.send("start", new, work.groups, work.joins)
        scene.starts.append(sent)

    def start_a_run_again(self, choose: Choices) -> None:
        sent = choose.one(self.scene.starts)
        again = self.scene.front.ask(sent.verb, *sent.args)
        assert not again.created
        self.before = self.now

    def advance(self, choose: Choices) -> None:
        runs = choose.some(self.scene.open_runs(), least=1)
        asked = [(run.id, run.round + choose.one((0, 0, -1, 1))) for run in runs]
        self.scene.front.ask("advance", asked)

    def move_on(self, choose: Choices) -> None:
        """Move what can be moved, as idle processes do."""
        found = self.scene.front.ask("movable", choose.one((1, 2, 100)))
        moved = [answer.moved for answer in self.scene.front.ask("advance", found)]
        # What the first one changes may hold up the others.
        assert moved[:1] in ([], [True]), f"of {found} nothing moved"

    def _said(self, choose: Choices, run: StoredRun) -> Said:
        """Something about the run or a task of it, that may have been overtaken."""
        seen = choose.one((None, run.decisions, run.decisions, max(0, run.decisions - 1)))
        return Said(choose.one(REASONS), choose.one(("", "ann")), seen, choose.one((None, 1, 2)))

    def cancel_a_run(self, choose: Choices) -> None:
        into, run = choose.one((RunState.CANCELLED, RunState.HALTED)), choose.one(self.scene.open_runs())
        self.scene.front.ask("cancel", run.id, said=self._said(choose, run), into=into)

    def cancel_a_task(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        task = choose.one([*self.scene.tasks(run.id), *self.scene.all_tasks()[:1], 2**40])
        self.scene.front.ask("cancel", run.id, task, below=choose.chance(), said=self._said(choose, run))

    def settle(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        task = choose.one([*self.scene.tasks(run.id), *self.scene.all_tasks()[:1], 2**40])
        how = choose.one(((Status.DONE, b"7"), (Status.DONE, None), (Status.SKIPPED, None), (Status.FAILED, None)))
        self.scene.front.ask("settle", run.id, task, *how, self._said(choose, run))

    def pause(self, choose: Choices) -> None:
        run = choose.one(self.scene.open_runs())
        self.decided.append(self.scene.front.send("pause", run.id, self._said(choose, run)))

    def touch_an_ended_run(self, choose: Choices) -> None:
        run = choose.one([run for run in self.scene.runs() if run.state.is_end])
        args = (
            ([(run.id, run.round)],)
            if (verb := choose.one(("advance", "pause", "resume", "cancel"))) == "advance"
            else (run.id,)
        )
        self.scene.front.ask(verb, *args)
        self.before = self.now

    def resume(self, choose: Choices) -> None:
        paused = [run for run in self.scene.runs() if run.state is RunState.PAUSED]
        run = choose.one(paused)
        self.decided.append(self.scene.front.send("resume", run.id, self._said(choose, run)))

    # adding

    def append_some(self, choose: Choices) -> None:
        self._append_work(choose, choose.one(self.scene.growing_runs()).id)

    def append_to_any_run(self, choose: Choices) -> None:
        self._append_work(choose, choose.one(self.scene.runs()).id)

    def append_to_several_runs(self, choose: Choices) -> None:
        """All together, also when one of the runs has ended and takes nothing."""
        runs = [choose.one(self.scene.runs()).id for _ in range(choose.number(2, 3))]
        self._append(*(self._work(choose, run) for run in runs))

    def _append_work(self, choose: Choices, run: int) -> None:
        self._append(self._work(choose, run))

    def _work(self, choose: Choices, run: int) -> Addition:
        work = self.shop.some_work(choose)
        return Addition(run, work.groups, work.joins, work.waiters)

    def append_singles(self, choose: Choices) -> None:
        run = choose.one(self.scene.growing_runs())
        tasks = self.shop.group(choose, self.shop.next_single(choose), 1)
        self._append(Addition(run.id, [tasks]))
        for _ in range(choose.number(0, 3)):
            self._append(Addition(run.id, [self.shop.next_to(choose, tasks)]))

    def append_across_runs(self, choose: Choices) -> None:
        """A join in one run, of members in another that come later or with it."""
        one, other = choose.one(self.scene.growing_runs()), choose.one(self.scene.growing_runs())
        work, count = Work(), choose.number(1, 4)
        self.shop.gather(choose, work, self.shop.ids(choose, 1), count)
        members = self.shop.group(choose, self.shop.ids(choose, count), count, join=work.joins[0].ids[0])
        join, joined = Addition(one.id, work.groups, work.joins), Addition(other.id, [members])
        if choose.one((True, False)):
            self._append(*choose.one(((join, joined), (joined, join))))
        elif self._append(join):
            self._append(joined)

    def append_to_queues(self, choose: Choices) -> None:
        self._append(*(self.shop.addition(choose) for _ in range(choose.number(1, 2))))

    def _append(self, *additions: Addition) -> bool:
        sent = self.scene.front.send("append", additions)
        if sent.reference == Refused(RunEnded):
            return False
        assert not isinstance(sent.reference, Refused)
        self.scene.appends.append(sent)
        return True

    def append_again(self, choose: Choices) -> None:
        sent = choose.one(self.scene.appends)
        again = self.scene.front.ask(sent.verb, *sent.args)
        if not isinstance(again, Refused) and all(each.already for each in again):
            self.before = self.now

    # processes

    def enter(self, _: Choices) -> None:
        self.scene.enter()

    def enter_again(self, choose: Choices) -> None:
        worker = choose.one(self.scene.workers)
        assert isinstance(worker.client.ask("enter", NewProcess(worker.process)), Beat)
        self.before = self.now

    def drain(self, choose: Choices) -> None:
        asked = choose.one([*self.scene.everybody(), *self.scene.gone])
        self.scene.front.ask("drain", asked.process, Said(choose.one(REASONS), choose.one(("", "ann"))))
        for worker in self.scene.workers:
            worker.client.ask("beat", worker.process)

    def note(self, choose: Choices) -> None:
        """Lines of any run and task, some of them for the second time."""
        worker, run = choose.one(self.scene.everybody()), choose.one(self.scene.runs())
        lines = [
            LogLine(choose.number(1, 6), 0, run.id, choose.one((None, 1, 2)), 1, choose.one((10, 30)), "log", text)
            for text in choose.some(REASONS, least=1)
        ]
        worker.client.ask("note", worker.process, lines)

    def time_passes(self, choose: Choices) -> None:
        self.scene.pair.clock.advance(choose.one((1, 5, 20, 45, 150, 5000)))

    def vacuum(self, choose: Choices) -> None:
        if choose.chance(4):
            self.scene.pair.clock.advance(100_000)
        self.scene.front.ask("vacuum", choose.one((65_536, 1, 3)))

    def forget_a_run(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        self.scene.front.ask("forget", run.id, said=self._said(choose, run), limit=choose.one((1, 3, 65_536)))

    def forget_tasks(self, choose: Choices) -> None:
        """Some of a run, some of it old enough."""
        if choose.chance():
            self.scene.pair.clock.advance(100_000)
        run, tasks = choose.one(self.scene.runs()), self.scene.all_tasks()
        low, high = sorted((choose.one([0, *tasks]), choose.one([2**40, *tasks])))
        before = choose.one((None, None, self.scene.pair.clock.now() - choose.number(0, 300_000) * SECOND))
        limit = choose.one((65_536, 2, 5))
        answer = self.scene.front.ask("forget", run.id, range(low, high), before=before, limit=limit)
        if not isinstance(answer, Refused) and answer.tasks:
            # Nobody sends an append again after a day.
            self.scene.appends.clear()

    # working

    def _want(self, choose: Choices) -> Want:
        if not choose.chance(3):
            few = {kind: choose.number(0, 2) for kind in choose.some(KINDS)} if choose.chance(3) else NO_BOUNDS
            return structs.replace(EVERYTHING, limit=choose.one((100, 1, 2, 5)), few=few)
        runs = choose.some([run.id for run in self.scene.runs()], least=1)
        return Want(
            frozenset(choose.some(KINDS, least=1)),
            choose.number(0, 9),
            choose.one((None, frozenset({"default"}), frozenset({"slow", "none"}))),
            choose.one((None, frozenset(runs))),
            frozenset(choose.some(("left", "right"))),
        )

    def claim(self, choose: Choices) -> None:
        """Claim, as workers do: who gets nothing asks whether a round or a run is over, and tries once more."""
        worker = self._worker(choose)
        claimed = worker.send("claim", self._want(choose), lost=choose.chance(4))
        if not claimed.claims and choose.chance():
            worker.client.ask("advance", [(run.id, run.round) for run in self.scene.open_runs()])
            worker.send("claim", EVERYTHING)

    def commit(self, choose: Choices) -> None:
        worker = self._holder(choose)
        chosen = choose.some(list(worker.left), least=1, most=3)
        parts = [draw_part(choose, self.scene, self.shop, worker, token) for token in chosen]
        if choose.chance(4):
            token = self._not_its_own(choose, worker)
            parts.append(structs.replace(parts[0], token=token, publish=(), discard=()))
        then = (self._want(choose),) if choose.chance(3) else ()
        runs = {part.token: worker.claims[part.token].run for part in parts if part.token in worker.claims}
        awaited = {task for run in runs.values() for task in self.scene.awaited(run)}
        answer = worker.send("commit", parts, *then, lost=choose.chance(4))
        assert not isinstance(answer, Refused)
        self.scene.makers += (
            (runs[part.token], maker)
            for part in parts
            if part.token not in answer.refused
            for maker in part.heirs.keys() & awaited
        )
        settle(worker, parts, answer)

    def commit_with_swaps(self, choose: Choices) -> None:
        """Several tasks of a claim, each in a part of its own with the values that it swaps."""
        worker = self._holder(choose)
        parts = swapping(choose, self.shop, worker, choose.one(list(worker.left)))
        then = (self._want(choose),) if choose.chance(3) else ()
        answer = worker.send("commit", parts, *then, lost=choose.chance(4))
        assert not isinstance(answer, Refused)
        self.seen["lost"] += len(answer.lost)
        settle(worker, parts, answer)

    def swap(self, choose: Choices) -> None:
        worker = self._worker(choose)
        swaps = self.shop.swaps(choose) if choose.chance() else []
        additions = [self.shop.addition(choose) for _ in range(choose.number(1, 2))] if choose.chance(3) else []
        publications = self.shop.publications(choose) if choose.chance() else []
        self.seen["published"] += bool(publications)
        worker.send("swap", swaps, additions, publications, lost=choose.chance(4))

    def listen(self, choose: Choices) -> None:
        """Somebody listens to what stores tell, or no more."""
        worker = self._worker(choose)
        self.seen["listens"] += 1
        worker.send("swap", [self.shop.listens(choose)], lost=choose.chance(4))

    def limit(self, choose: Choices) -> None:
        """A limit begins, changes or ends."""
        worker = self._worker(choose)
        self.seen["limits"] += 1
        worker.send("swap", [self.shop.limit(choose)], lost=choose.chance(4))

    def expand(self, choose: Choices) -> None:
        """A task that another one waits for is done at once, if it can be had, and hands on to an edition."""
        run, work = choose.one(self.scene.growing_runs()), Work()
        self.shop.gather(choose, work, self.shop.ids(choose, 1), 1)
        maker, heir = self.shop.ids(choose, 1), self.shop.ids(choose, 1)
        member = self.shop.group(choose, maker, 1, join=work.joins[0].ids[0])
        if heir < maker or not self._append(Addition(run.id, [*work.groups, member], work.joins)):
            return
        worker = self._worker(choose)
        worker.send("claim", structs.replace(EVERYTHING, runs=frozenset({run.id})))
        for token in [token for token, left in worker.left.items() if maker in left]:
            made = Work()
            made.groups.append(self.shop.edition(choose, made, heir, maker, ()))
            part = Part(token, [maker], children=made.groups, joins=made.joins, heirs={maker: heir})
            settle(worker, [part], worker.send("commit", [part], lost=choose.chance(4)))
            self.scene.makers.append((run.id, maker))

    def meddle(self, choose: Choices) -> None:
        """A claim is its owner's: under another process's stamp its token is void."""
        worker = self._worker(choose)
        token = self._not_its_own(choose, worker)
        if choose.chance():
            assert worker.send("release", [token]) == (token,)
        else:
            tasks = self.shop.group(choose, self.shop.ids(choose, 1), 1)
            assert worker.send("stage", token, [tasks]) is False

    def _not_its_own(self, choose: Choices, worker: Worker) -> bytes:
        """A token that is void in the hands of this worker."""
        others = [token for other in self.scene.everybody() if other is not worker for token in other.claims]
        return choose.one([b"void", *others, *others])

    def finish_all_it_holds(self, choose: Choices) -> None:
        worker = self._holder(choose)
        parts = [
            structs.replace(as_told(worker.claims[token]), tasks=left, statuses=Status.DONE)
            for token, left in worker.left.items()
        ]
        settle(worker, parts, worker.send("commit", parts, EVERYTHING, lost=choose.chance(4)))

    def finish_a_run(self, choose: Choices) -> None:
        """One worker does all that can be done now."""
        worker, run = self._worker(choose), choose.one(self.scene.open_runs())
        want = structs.replace(EVERYTHING, runs=frozenset({run.id}))
        for _ in range(20):
            claims = worker.send("claim", want).claims
            for claim in claims:
                settle(worker, [part := as_told(claim)], worker.send("commit", [part]))
            now = worker.client.ask("advance", [(run.id, self.scene.front.reference.reads.run(run.id).round)])[0]
            if not claims and not now.moved:
                return

    def _holder(self, choose: Choices) -> Worker:
        return choose.one([worker for worker in self.scene.workers if worker.left])

    def stage(self, choose: Choices) -> None:
        worker = self._holder(choose)
        token = choose.one(list(worker.left))
        tasks = self.shop.stream(choose, worker, token)
        if worker.send("stage", token, [tasks], lost=choose.chance(4)) is True:
            worker.staged.setdefault(token, []).append(tasks.first)
            if tasks.join is not None:
                worker.gathering[tasks.first] = tasks.join

    def release(self, choose: Choices) -> None:
        worker = self._holder(choose)
        first = choose.one(list(worker.left))
        tokens = list(dict.fromkeys([first, *worker.left])) if choose.chance() else [first]
        worker.send("release", tokens, lost=choose.chance(4))
        for token in tokens:
            forget(worker, token)

    def _of_a_join(self, choose: Choices, run: int) -> list[int]:
        """The task of a join, of one that has fired if there is any, and some of its members."""
        reads = self.scene.front.reference.reads
        joins = all_of(reads.joins, run, limit=1000)
        fired = [join for join in joins if join.fired and join.needs]
        if not joins:
            return []
        join = choose.one(fired or joins).id
        members = [task for _, task in all_of(reads.members, join, start=-1)]
        known = set(self.scene.tasks(run))
        return [task for task in (join, *choose.some(members, least=1)) if task in known]

    def reopen(self, choose: Choices) -> None:
        run = choose.one(self.scene.runs())
        tasks = self.scene.tasks(run.id)
        chosen = choose.some(self.scene.ended(tasks) or tasks, most=6)
        if choose.chance(3):
            chosen += choose.some(tasks, most=3)
        if choose.chance():
            chosen += self._of_a_join(choose, run.id)
        self._reopen(choose, run, chosen)

    def make_anew(self, choose: Choices) -> None:
        """Reopen a task that had an heir, and perhaps others of its run."""
        makers = [(run, maker) for run, maker in self.scene.makers if self.scene.ended([maker])]
        number, maker = choose.one(makers or self.scene.makers)
        run = next(run for run in self.scene.runs() if run.id == number)
        if maker in (tasks := self.scene.tasks(run.id)):
            self._reopen(choose, run, [maker, *choose.some(tasks, most=choose.one((0, 3)))])

    def _reopen(self, choose: Choices, run: StoredRun, chosen: list[int]) -> None:
        how = choose.one((Status.CANCELLED, Status.DONE, Status.SKIPPED))
        settled = Mark(run.id, Scope.TASK, None, how, choose.one(REASONS), choose.one((None, b"v")))
        answer = self._worker(choose).send(
            "reopen",
            run.id,
            chosen,
            lost=choose.chance(4),
            settle=choose.one((None, settled)),
            said=self._said(choose, run),
        )
        if isinstance(answer, Reopened):
            self.seen["replaced"] += answer.replaced
            self.seen["editions"] += bool(answer.replaced)
            self.seen["held"] += answer.held is not None
