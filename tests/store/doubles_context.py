"""Broken doubles of the context: who decides, what is told, and what stays. See `doubles.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ramify.model.claim import Want
from ramify.model.commit import Committed, Part
from ramify.model.context import ContextValue
from ramify.model.forgetting import Forgot
from ramify.model.process import Stamp
from ramify.model.run import RunState
from ramify.store.memory import commits, context
from ramify.store.memory.reads import MemoryReads
from tests.store.doubles import Damaged, caught_by
from tests.store.doubles_reads import Misreading

replace = msgspec.structs.replace


class Bending(Damaged):
    """A commit that is given other parts than it was sent."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        return super().commit(stamp, [self.bend(part) for part in parts], then_claim)

    def bend(self, part: Part) -> Part:
        """What is committed instead."""
        return part


@caught_by(
    "context: of two that set a name the first committed decides and the other is told",
    "context: within one commit they come in order",
    "context: it stays when tasks are opened again and each may set its own again",
)
class TheLastDecides(Bending):
    """Takes every value, whoever was first."""

    def bend(self, part: Part) -> Part:
        return replace(part, sets=[replace(new, overwrite=True) for new in part.sets])


@caught_by("context: what overwrites replaces the value and not the time of the first")
class NeverReplaces(Bending):
    """Does not hear that somebody means it."""

    def bend(self, part: Part) -> Part:
        return replace(part, sets=[replace(new, overwrite=False) for new in part.sets])


@caught_by("context: what a task sets stands once it is done")
class SetsNothing(Bending):
    """Loses what tasks set."""

    def bend(self, part: Part) -> Part:
        return replace(part, sets=())


@caught_by("context: within one commit they come in order")
class SetsBackwards(Bending):
    """Begins with the last value of a part."""

    def bend(self, part: Part) -> Part:
        return replace(part, sets=part.sets[::-1])


@caught_by("context: a void token sets nothing")
class SetsUnderAVoidToken(Damaged):
    """Sets values first, and looks at the token later."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        for part in parts:
            span = self._tables.span_of(part.tasks[0]) if part.tasks else None
            if span is not None and commits.holding(self._tables, stamp.process, part.token) is None:
                context.write(self._tables, span, part.sets, stamp.process, self.now())
        return super().commit(stamp, parts, then_claim)


@caught_by("context: sent again it is set once")
class SetsAgain(Damaged):
    """Sets values each time a commit arrives."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        answer = super().commit(stamp, parts, then_claim)
        for new in (new for part in parts for new in part.sets):
            span = self._tables.span_of(new.task)
            assert span is not None
            values = self._tables.context[span.run]
            values[new.name] = replace(values[new.name], last_set=self.now())
        return answer


@caught_by(
    "context: of two that set a name the first committed decides and the other is told",
    "context: who is told leaves the others of its row as they are",
)
class TellsNobody(Damaged):
    """Keeps to itself who came too late."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        known = {name for values in self._tables.context.values() for name in values}
        fresh = [replace(part, sets=[new for new in part.sets if new.name not in known]) for part in parts]
        return super().commit(stamp, fresh, then_claim)


@caught_by("context: it belongs to one run")
class ShowsThatOfOthers(Misreading):
    """Looks for a name in all runs."""

    class misreads(MemoryReads):
        def context_value(self, run: int, name: str) -> ContextValue | None:
            super().context_value(run, name)
            return next((values[name] for values in self._tables.context.values() if name in values), None)


@caught_by("context: names come in order page by page")
class IgnoresTheLimitOfAPage(Misreading):
    """Shows all values at once."""

    class misreads(MemoryReads):
        def context(self, run: int, *, after: str = "", limit: int = 100) -> Sequence[ContextValue]:
            return super().context(run, after=after, limit=10_000)


@caught_by("context: it goes when the run is forgotten", "context: nobody sees that of a run which is not there")
class SaysThatThereWasNothing(Misreading):
    """Shows an empty context where there is none."""

    class misreads(MemoryReads):
        def context(self, run: int, *, after: str = "", limit: int = 100) -> Sequence[ContextValue]:
            known = self._tables.runs.get(run)
            if known is None or known.state is RunState.FORGOTTEN:
                return []
            return super().context(run, after=after, limit=limit)


@caught_by("context: it goes when the run is forgotten")
class KeepsTheContext(Damaged):
    """Forgets a run and not what its tasks set."""

    def forget(self, run: int, tasks: range | None = None, **rest: Any) -> Forgot:
        hidden = self._tables.context.pop(run, {})
        answer = super().forget(run, tasks, **rest)
        self._tables.context[run] = hidden
        return answer
