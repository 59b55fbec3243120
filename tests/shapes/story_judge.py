"""Judges stories: what is wrong with a run about which people have decided, and with those that it started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from ramify import Engine, RamifyError, Run, RunState
from ramify.errors import UnknownTask
from ramify.inspect.audit import audit
from ramify.inspect.branches import with_branches
from ramify.inspect.graph import NodeState
from ramify.inspect.run_graph import graph_of
from ramify.inspect.status import status_of
from ramify.model.codec.wire import tree_in
from ramify.model.event import Event, Status
from ramify.model.gate import GATE
from ramify.model.key import key_text
from ramify.model.task import Row, is_own
from ramify.shapes.pipeline.own import CHILD
from ramify.store.contract import Store
from ramify.testing import oracle
from ramify.testing.paging import every
from tests.shapes.drawn_pipeline import ANSWER
from tests.shapes.plot import Plot, told

NAME = "story"
#: Who decides.
BY = "somebody@story"


class Cast:
    """A run, those that it started, and what is wrong with them."""

    def __init__(self, engine: Engine, plot: Plot, run: Run[Any]) -> None:
        self.engine = engine
        self.plot = plot
        self.run = run

    @property
    def store(self) -> Store:
        return self.engine._runtime.store

    def runs(self) -> list[Run[Any]]:
        """The run and all that were started by it, the newest last."""
        others = [each for each in self.engine.runs() if (each.name or "").startswith(f"{NAME}/")]
        return [self.run, *sorted(others, key=lambda each: each.id)]

    def rows(self, run: int) -> list[Row]:
        """Its tasks; none of a run that was forgotten."""
        if self.store.reads.run(run).state is RunState.FORGOTTEN:
            return []
        return every(lambda after: self.store.reads.tasks(run, after=after))

    def standing(self, run: int) -> dict[int, tuple[Row, Status | None]]:
        """The tasks of a run that were not replaced, and how they ended."""
        rows = {row.id: row for row in self.rows(run)}
        ends = {task: self.store.reads.history(task).ended for task in rows}
        return {task: (row, ends[task]) for task, row in rows.items() if ends[task] is not Status.REPLACED}

    def wrong(self) -> dict[int, str]:
        """The tasks of the run that are not as they must be, and how they are instead."""
        return {
            task: why for task, (row, ended) in self.standing(self.run.id).items() if (why := self._why(row, ended))
        }

    def _why(self, row: Row, ended: Status | None) -> str:
        events = self.store.reads.events(row.id, row.id)
        if ended is None:
            return "has not ended"
        value = tree_in(events[-1].value) if ended is Status.DONE and events[-1].value else None
        if ended not in (Status.DONE, Status.SKIPPED):
            return f"ended as {ended.name}"
        if row.kind == GATE and ended is Status.DONE:
            return "" if value == ANSWER else f"was answered with {value}"
        if is_decided(events):
            return "was decided by somebody"
        key = key_text(row.key) or ""
        if row.kind == CHILD and key in self.plot.handed_on and value != self.plot.handed_on[key]:
            return f"handed on {value}, not {self.plot.handed_on[key]}"
        if is_own(row.kind):
            return ""
        if (row.parent is not None and not key) or row.kind == "child":
            return "" if ended is Status.DONE else f"ended as {ended.name}"
        due = None if key not in self.plot.ends else self.plot.stored(row.kind, self.plot.ends[key])
        if (ended is Status.DONE) != (key in self.plot.ends):
            return f"ended as {ended.name}"
        return "" if value == due else f"gave {value}, not {due}"

    def complaints(self) -> Iterator[str]:
        """What is wrong with a run that has come to its end."""
        yield from oracle.check(self.store)
        if self.run.state is not RunState.DONE:
            yield f"the run is {self.run.state.value}"
        yield from (f"task {task} {why}" for task, why in self.wrong().items())
        for each in self.runs():
            if each.state is not RunState.FORGOTTEN and not (found := audit(self.store.reads, each.id)).clean:
                yield f"run {each.id}: {found}"
        yield from self._results()
        if (context := self._context()) != self.plot.context:
            yield f"the context is {context}, not {self.plot.context}"
        if errors := list(self.run.errors()):
            yield f"there are errors: {errors}"
        yield from self._shown()
        yield from self._launched()

    def _context(self) -> dict[str, Any]:
        """What is set, but for what tasks set in an earlier life that were skipped in their last."""
        values = self.store.reads.context(self.run.id, limit=1_000)
        skipped = {each.name for each in values if self.store.reads.history(each.task).ended is Status.SKIPPED}
        return {name: value for name, value in self.run.context.items() if name not in skipped}

    def _results(self) -> Iterator[str]:
        due: dict[str, Counter[str]] = {"child": Counter(self.plot.children)} if self.plot.children else {}
        for key, value in self.plot.ends.items():
            try:
                found = self.run[key]
            except RamifyError as error:
                yield str(error)
                continue
            result = list(found.result) if is_own(found.kind) else found.result
            if told(result) != told(self.plot.stored(found.kind, value)):
                yield f"{key} is {found.state} with {result}, not {value}"
            if not is_own(found.kind):
                due.setdefault(found.kind, Counter())[told(self.plot.stored(found.kind, value))] += 1
        kinds = {row.kind for row in self.rows(self.run.id) if not is_own(row.kind)}
        for kind in sorted({*kinds, *due}):
            got = Counter(map(told, self.run.results(kind)))
            if got != due.get(kind, Counter()):
                yield f"{kind} gave {got}, not {due.get(kind)}"
            # A task has a row for each success, the newest last.
            rows = {row.task: told(row.result) for row in self.run.results(kind, rows=True)}
            ends = {task: self.store.reads.history(task).ended for task in rows}
            if Counter(result for task, result in rows.items() if ends[task] is Status.DONE) != got:
                yield f"rows of {kind} are not its results"
            if Status.REPLACED in ends.values():
                yield f"rows of {kind} tell what was replaced"
        counts = self.run.counts
        done = sum(ended is Status.DONE for _, ended in self.standing(self.run.id).values())
        if (counts.done, counts.failures) != (done, 0):
            yield f"{counts} are counted, and {done} are done"

    def _shown(self) -> Iterator[str]:
        graph = graph_of(self.store, self.store.reads.run(self.run.id))
        assert graph is not None
        for node in with_branches(self.store, graph, None).nodes:
            if node.state not in (NodeState.DONE, NodeState.SKIPPED):
                yield f"{node.id} is shown as {node.state}"

    def _launched(self) -> Iterator[str]:
        for suffix, due in self.plot.launched.items():
            other = self.engine.find(f"{NAME}/{suffix}")
            if other is not None and self._is_changed(other):
                continue
            if other is None or other.state is not RunState.DONE:
                yield f"{suffix} was not launched, or is {other and other.state}"
            elif sorted(map(told, other.results())) != due:
                yield f"{suffix} gave {sorted(map(told, other.results()))}, not {due}"
        yield from (f"{each} goes on" for each in self.runs() if not each.ended)

    def _is_changed(self, run: Run[Any]) -> bool:
        """Whether somebody has decided in a run, perhaps after its result was taken, or has forgotten it."""
        if run.state is RunState.FORGOTTEN:
            return True
        rows = (row for row, _ in self.standing(run.id).values() if row.kind != GATE)
        return any(is_decided(self.store.reads.events(row.id, row.id)) for row in rows) or bool(run.counts.cancelled)

    def look(self) -> None:
        """Look at everything people may look at."""
        for each in self.runs():
            if each.state is RunState.FORGOTTEN:
                continue
            stored = self.store.reads.run(each.id)
            graph = graph_of(self.store, stored)
            if graph is not None:
                with_branches(self.store, graph, 5)
            status_of(self.store, each.id)
            assert each.counts is not None
            list(each.errors())
            list(each.timeline())
            for row in self.rows(each.id):
                if row.key is not None and not is_own(row.kind) and row.kind != "child":
                    # It may have been replaced, and nothing may be there in its stead yet.
                    with suppress(UnknownTask):
                        assert each[key_text(row.key) or ""] is not None

    def everything(self) -> tuple[Any, ...]:
        """All that a decision may change."""
        reads = self.store.reads
        return tuple(
            (
                reads.run(each.id),
                [reads.events(row.id, row.id) for row in self.rows(each.id)],
                every(lambda after, run=each.id: reads.joins(run, after=after)),  # type: ignore[misc]
                reads.context(each.id),
                reads.counts(each.id),
            )
            for each in self.engine.runs()
            if each.state is not RunState.FORGOTTEN
        ), sorted(
            (row.first, row.last, row.left, row.state, row.round, row.due)
            for row in every(lambda after: reads.segments(after=after))
        )


def is_decided(events: Sequence[Event]) -> bool:
    """Whether the present life of a task ended as people said."""
    for event in reversed(events):
        if event.status is Status.REOPENED:
            return False
        if event.status is Status.DECIDED or (event.status is Status.SKIPPED and BY.encode() in (event.value or b"")):
            return True
    return False
