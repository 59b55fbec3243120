"""Broken doubles of editions: of `reopen` where a task has an heir. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ramify.model.key import Hold, digest
from ramify.model.process import Stamp
from ramify.model.reopening import Reopened
from ramify.model.segment import SegmentState
from ramify.store.memory.reads import MemoryReads
from tests.store.doubles import Damaged, caught_by
from tests.store.doubles_reads import Misreading


@caught_by("reopen: a reopened task has its place back from its heir")
class HeirsStay(Damaged):
    """Leaves the place of a task to its heir, although it names another one in its new life."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        linked = {join: dict(slots) for join, slots in self._tables.linked.items()}
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.linked.update(linked)
        return answer


@caught_by(
    "reopen: what a task with an heir made is replaced",
    "reopen: the counters of an edition move to replaced",
    "reopen: nothing is reopened while a process holds a task of the edition",
    "reopen: an heir does not follow beside the task that names another",
)
class KeepsEditions(Damaged):
    """Does not see that somebody continues in the place of a task."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        hidden, self._tables.linked = self._tables.linked, defaultdict(dict)
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.linked = hidden
        return answer


@caught_by("reopen: nothing is reopened while a process holds a task of the edition")
class ReplacesWhatIsHeld(Damaged):
    """Overlooks that a process is at work."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        with self.bent(self.rows(SegmentState.CLAIMED), "state", SegmentState.READY):
            return super().reopen(stamp, run, tasks, **rest)


@caught_by("reopen: descendants are replaced however deep")
class ReplacesChildrenOnly(Damaged):
    """Does not look for what children have made."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        spans = list(self._tables.spans.values())
        parents = [span.parents for span in spans]
        for span in spans:
            span.parents = [parent if parent in tasks else None for parent in span.parents]
        answer = super().reopen(stamp, run, tasks, **rest)
        for span, before in zip(spans, parents, strict=True):
            span.parents = before
        return answer


@caught_by("reopen: of tasks that two makers made together only its own are replaced")
class ReplacesWholeSpans(Damaged):
    """Takes all tasks of a span for those of one parent."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        for span in self._tables.spans.values():
            mine = [parent for parent in span.parents if parent in tasks]
            span.parents = mine[:1] * len(span.parents) or span.parents
        return super().reopen(stamp, run, tasks, **rest)


@caught_by("reopen: what nobody holds is replaced at once")
class OffersTheReplaced(Damaged):
    """Leaves unfinished tasks in their rows when it replaces them."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        before = dict(self._tables.segments)
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.segments = before | self._tables.segments
        return answer


@caught_by("reopen: keys of an edition are free")
class KeysStayTaken(Damaged):
    """Leaves keys with tasks that were replaced."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        before = dict(self._tables.keys)
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.keys = before | self._tables.keys
        return answer


@caught_by("reopen: names that an edition had set in the context are free")
class NamesStayTaken(Damaged):
    """Keeps values in the context that replaced tasks had set."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        before = dict(self._tables.context.get(run, {}))
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.context[run] = before
        return answer


@caught_by("reopen: marks on an edition are gone")
class MarksStay(Damaged):
    """Keeps marks on tasks that were replaced."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        before = list(self._tables.marks[run])
        answer = super().reopen(stamp, run, tasks, **rest)
        self._tables.marks[run] = before
        return answer


@caught_by("reopen: a join elsewhere waits no longer for a replaced member")
class WaitsForTheReplaced(Damaged):
    """Does not tell joins elsewhere that a member will never end."""

    def reopen(self, stamp: Stamp, run: int, tasks: Sequence[int], **rest: Any) -> Reopened:
        waiting = [join for join in self._tables.joins.values() if not join.fired]
        for join in waiting:
            join.fired = True
        answer = super().reopen(stamp, run, tasks, **rest)
        for join in waiting:
            join.fired = False
        return answer


@caught_by("reopen: nobody finds what was replaced by its key")
class FindsTheReplaced(Misreading):
    """Gives tasks by their keys that were replaced."""

    class misreads(MemoryReads):
        def find_tasks(self, run: int, kind: str, key: bytes, *, limit: int = 100) -> Sequence[int]:
            return sorted(self._tables.labels.get(digest(Hold.LABEL, run, kind, key), ()))[:limit]
