"""The judge: compares what a store holds with the tree that was drawn and with what the witness heard.

`in_between` holds at any moment, also right after a kill; `at_the_end` when the run has ended. Both begin with the
general oracle and answer with complaints, so that a test can print all of them. A commit that nobody was told about may
be in the log or not; one that was acknowledged must be.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from ramify.model.event import Event, Status, fold
from ramify.model.run import RunState
from ramify.model.task import Row
from ramify.store.contract import Store
from ramify.store.reads import PAGE_LIMIT, CommitRow
from ramify.testing import oracle
from ramify.testing.paging import every
from tests.crash.tree import Tree, is_keyed, parent_of
from tests.crash.witness import Line, Said
from tests.crash.worker import RUN_NAME, TOPIC


def in_between(store: Store, tree: Tree, lines: Sequence[Line] = ()) -> list[str]:
    """What is wrong at a moment when work may be left."""
    complaints = oracle.check(store)
    run = store.reads.find_run(RUN_NAME)
    if run is None:
        told = any(line.said is Said.COMMIT_ACK for line in lines)
        return [*complaints, *(["the run is gone, and ends in it were acknowledged"] if told else ())]
    account = _Account(store, tree, run.id)
    complaints += [*account.growth(), *account.context(), *account.publications()]
    return [*complaints, *account.commits(lines), *_told_in_order(lines)]


def at_the_end(store: Store, tree: Tree, lines: Sequence[Line] = (), kills: int = 0) -> list[str]:
    """What is wrong when the run should be complete; `kills` is how often a process died on the way."""
    run = store.reads.find_run(RUN_NAME)
    if run is None:
        return ["there is no run"]
    expected = RunState.FAILED if tree.fails else RunState.DONE
    complaints = in_between(store, tree, lines)
    if run.state is not expected:
        complaints.append(f"the run is {run.state.value} instead of {expected.value}: {run.reason}")
    account = _Account(store, tree, run.id)
    return [*complaints, *account.completeness(), *account.gathers(lines), *account.attempts(lines, kills)]


def _name(body: bytes) -> str:
    """The name of a node: the body of its task, or the first argument in it where an engine made it."""
    found = json.loads(body)
    return str(found[0] if isinstance(found, list) else found)


class _Account:
    """The tasks of the run by name, with their events."""

    def __init__(self, store: Store, tree: Tree, run: int) -> None:
        self._tree = tree
        rows = every(lambda after: store.reads.tasks(run, after=after, limit=PAGE_LIMIT))
        self._events: dict[int, list[Event]] = defaultdict(list)
        self._commits: list[CommitRow] = []
        after = 0
        while (page := store.reads.tail(after)).commits:
            self._commits += page.commits
            for event in page.events:
                self._events[event.task].append(event)
            after = page.after
        self._rows = {row.id: row for row in rows if not self._is_duplicate(row)}
        self._names = {row.id: _name(row.body) for row in self._rows.values()}
        self._times = Counter(self._names.values())
        self._all = {row.id: row for row in rows}
        self._values = store.reads.context(run, limit=PAGE_LIMIT)
        self._published = store.reads.publications(TOPIC, limit=PAGE_LIMIT)

    def _is_duplicate(self, row: Row) -> bool:
        """Whether a staged task lost its key when it was published, and another one stands for it."""
        return [event.status for event in self._events[row.id]] == [Status.SKIPPED]

    def growth(self) -> Iterator[str]:
        """Nothing is there that should not be, nothing twice, and children exactly when their parent has ended."""
        for name, times in self._times.items():
            if name not in self._tree.nodes:
                yield f"{name} is in the log and not in the tree"
            elif times != 1:
                yield f"{name} is in the log {times} times"
        for task, row in self._rows.items():
            name = self._names[task]
            if name not in self._tree.nodes:
                continue
            yield from self._parentage(row, name)
            node = self._tree.nodes[name]
            statuses = tuple(event.status for event in self._events[task])
            if statuses != node.events[: len(statuses)]:
                yield f"{name} has events {[s.name for s in statuses]}, not {[s.name for s in node.events]}"
            has_ended = fold(self._events[task]).ended is not None
            for child in node.offered:
                if has_ended and not self._times[child]:
                    yield f"{name} has ended, and its child {child} is missing"
                if not has_ended and not is_keyed(child) and self._times[child]:
                    yield f"{name} has not ended, and its child {child} is there"

    def context(self) -> Iterator[str]:
        """Each node has set its name in the context with its end, if that was a good one, and at no other time."""
        told = {each.name: (each.task, int(each.value)) for each in self._values}
        done = {self._names[task]: (task, task) for task in self._rows if fold(self._events[task]).ended is Status.DONE}
        for name in sorted({*told, *done}):
            if told.get(name) != done.get(name):
                yield f"the context has {told.get(name)} for {name}, whose task has ended well as {done.get(name)}"

    def publications(self) -> Iterator[str]:
        """Each node is announced with its end, if that was a good one, once, and under numbers without a gap."""
        if [each.number for each in self._published] != list(range(1, len(self._published) + 1)):
            yield f"publications have the numbers {[each.number for each in self._published]}"
        told = Counter((json.loads(each.value), each.task) for each in self._published)
        done = {(self._names[task], task) for task in self._rows if fold(self._events[task]).ended is Status.DONE}
        for name, task in sorted({*told, *done}):
            # Programs with an engine announce nothing.
            if told and told[name, task] != ((name, task) in done):
                yield f"{name} was announced {told[name, task]} times by task {task}, which is not its end"

    def _parentage(self, row: Row, name: str) -> Iterator[str]:
        parent = None if row.parent is None else self._names.get(row.parent, f"task {row.parent}")
        if is_keyed(name):
            if parent not in self._tree.offerers(name):
                yield f"{name} came from {parent}, which does not offer it"
        elif parent != parent_of(name):
            yield f"{name} came from {parent}, not from {parent_of(name)}"

    def completeness(self) -> Iterator[str]:
        """Every node is there, with exactly its events."""
        for name in self._tree.nodes.keys() - self._times.keys():
            yield f"{name} is lost"
        for task, name in self._names.items():
            statuses = tuple(event.status for event in self._events[task])
            if name in self._tree.nodes and statuses != self._tree.nodes[name].events:
                yield f"{name} ended with events {[s.name for s in statuses]}"
        kept = {name: task for task, name in self._names.items()}
        for row in self._all.values():
            if row.id not in self._rows:
                holder = msgspec.json.decode(self._events[row.id][0].value or b"null")
                if holder != {"duplicate_of": kept[_name(row.body)]}:
                    yield f"task {row.id} was skipped for {holder}"

    def commits(self, lines: Sequence[Line]) -> Iterator[str]:
        """The log of commits has no gap, and what was acknowledged is in it."""
        if [commit.seq for commit in self._commits] != list(range(1, len(self._commits) + 1)):
            yield f"the commits are numbered {[commit.seq for commit in self._commits]}"
        stamps = Counter((commit.process, commit.n) for commit in self._commits if commit.process and commit.n)
        yield from (
            f"verb {n} of process {process:x} is in the log {k} times" for (process, n), k in stamps.items() if k > 1
        )
        begun = {task for line in lines if line.said is Said.COMMIT_BEGIN for task in line.tasks}
        by_seq = {commit.seq: commit for commit in self._commits}
        for line in lines:
            if line.said is Said.COMMIT_ACK:
                commit = by_seq.get(line.seq)
                if commit is None or commit.process != line.process:
                    yield f"commit {line.seq} was acknowledged to process {line.process:x}; the log has {commit}"
                for task in line.tasks:
                    if not any(event.status.is_end and event.seq == line.seq for event in self._events[task]):
                        yield f"the end of task {task} was acknowledged in commit {line.seq} and is lost"
        if lines:
            for task in self._rows:
                if fold(self._events[task]).ended is not None and task not in begun:
                    yield f"task {task} has ended, and nobody ever committed it"

    def gathers(self, lines: Sequence[Line]) -> Iterator[str]:
        """No gather starts before everything it waits for was handed in."""
        tasks = {name: task for task, name in self._names.items()}
        handed_in: set[int] = set()
        for line in lines:
            if line.said is Said.COMMIT_BEGIN:
                handed_in.update(line.tasks)
            elif line.said is Said.START and (name := self._names.get(line.tasks[0], "")).endswith("+"):
                for member in self._tree.nodes[name[:-1]].children:
                    if member in tasks and tasks[member] not in handed_in:
                        yield f"{name} started before {member} had ended"

    def attempts(self, lines: Sequence[Line], kills: int) -> Iterator[str]:
        """Nothing is tried more often than its events and the deaths on the way explain."""
        starts = Counter(line.tasks[0] for line in lines if line.said is Said.START)
        for task, times in starts.items():
            name = self._names.get(task)
            if name in self._tree.nodes and times > len(self._tree.nodes[name].events) + kills:
                yield f"{name} was started {times} times"


def _told_in_order(lines: Sequence[Line]) -> Iterator[str]:
    """An acknowledged end is the last that is heard of a task, and comes under the token that was issued last."""
    ended: set[int] = set()
    token: dict[int, str] = {}
    for line in lines:
        match line.said:
            case Said.CLAIM:
                token.update(dict.fromkeys(line.tasks, line.token))
                yield from (
                    f"task {task} was claimed after its end was acknowledged" for task in line.tasks if task in ended
                )
            case Said.START:
                yield from (
                    f"task {task} was started after its end was acknowledged" for task in line.tasks if task in ended
                )
            case Said.COMMIT_ACK:
                for task in line.tasks:
                    if task in ended:
                        yield f"the end of task {task} was acknowledged twice"
                    if token.get(task) != line.token:
                        yield f"task {task} ended under a token that was not its last"
                ended.update(line.tasks)
            case _:
                pass
