"""Broken doubles of waiting: claims that find nothing, rows left or due later, beats and waits. See `doubles.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.process import Stamp
from ramify.model.run import Advanced, RunState, Started
from ramify.store.contract import Beat
from ramify.store.memory.tables import MemorySegment
from ramify.testing.clock import SECOND
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace


class Answering(Damaged):
    """A claim whose answer is not to be trusted."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        return self.bend(super().claim(stamp, want), want)

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        """What is answered instead."""
        return answer


@caught_by("claim: a claim says that somebody waits for its tasks")
class ForgetsWhoWaits(Answering):
    """Does not say that tasks are waited for."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, claims=tuple(replace(claim, awaited=False) for claim in answer.claims))


@caught_by("claim: a claim of tasks that nobody waits for says so")
class EverybodyIsWaitedFor(Answering):
    """Says that all tasks are waited for."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, claims=tuple(replace(claim, awaited=True) for claim in answer.claims))


@caught_by("claim: a claim says how many tasks it left", "claim: tasks are never said to be left that are not")
class SaysNothingIsLeft(Answering):
    """Does not look for what is left."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, ready=0)


@caught_by("claim: tasks are never said to be left that are not", "claim: a claim says how many tasks it left")
class CountsBeforeTaking(Answering):
    """Counts what it takes as left."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, ready=answer.ready + sum(len(claim.tasks) for claim in answer.claims))


@caught_by("claim: only what the same want could take now counts as left", "claim: suspects do not count as left")
class CountsEverythingAsLeft(Answering):
    """Counts every row that nobody holds, whoever could take it."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, ready=sum(row.count for row in self.rows() if row.owner is None))


@caught_by("claim: what ended is not counted as left")
class CountsRangesAsLeft(Answering):
    """Counts ids, and not the unfinished tasks among them."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, ready=sum(row.last - row.first + 1 for row in self.rows() if row.owner is None))


@caught_by(
    "claim: one that finds nothing says when the next row is due",
    "claim: a row that was put off is the next one due",
    "claim: a suspect that was put off is the next one due",
    "claim: rows of a round that is not open are not the next ones due",
    "claim: who rests until the next row is due is never late",
)
class SaysNothingOfLaterRows(Answering):
    """Does not say when the next row is due."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, next_due=None)


class Telling(Answering):
    """Says when the next row is due by a look of its own."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        now = self.now()
        dues = [row.due - now for row in self.rows() if row.due and row.due > now and self.counts(row, want)]
        return replace(answer, next_due=self.chosen(dues) / SECOND if dues else None)

    def counts(self, row: MemorySegment, want: Want) -> bool:
        """Whether a row with a due time is looked at."""
        return row.span.kind in want.kinds

    def chosen(self, dues: list[int]) -> int:
        """Which of them is told."""
        return min(dues)


@caught_by(
    "claim: one that finds nothing says when the next row is due",
    "claim: rows of a paused run are not the next ones due",
)
class TellsOfTheLastRow(Telling):
    """Says when the last row is due, which is too late for the others."""

    def chosen(self, dues: list[int]) -> int:
        return max(dues)


@caught_by(
    "claim: rows of a paused run are not the next ones due",
    "claim: rows of a round that is not open are not the next ones due",
    "claim: only rows that the same want could take are the next ones due",
)
class TellsOfGatedRows(Telling):
    """Looks at the kinds of rows alone."""


@caught_by(
    "claim: due rows that are not wanted do not hide the next one",
    "claim: who rests until the next row is due is never late",
)
class LooksAtAFewRows(Telling):
    """Looks at the first rows, those that are due already among them, and takes them for all there are."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        timed = sorted((row for row in self.rows() if row.due), key=lambda row: row.due or 0)
        with self.bent(timed[64:], "due", None):
            return super().bend(answer, want)


@caught_by("commit: sent again it says how long it is until the next row is due from then on")
class TellsTheSameTimeAgain(Damaged):
    """Answers a commit that is sent again with the seconds of the first time."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        again = self._tables.sessions[stamp.process]
        if again.last == stamp.n and isinstance(again.answer, Committed):
            return again.answer
        return super().commit(stamp, parts, then_claim)


@caught_by("commit: a claim with a commit says when the next row is due")
class TellsOfLaterRowsWithClaimsOnly(Damaged):
    """Says nothing of later rows with a commit."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        answer = super().commit(stamp, parts, then_claim)
        return replace(answer, claimed=replace(answer.claimed, next_due=None))


@caught_by(
    "claim: a claim that finds nothing writes nothing",
    "claim: one that found nothing tries again when it is sent again",
)
class UsesStampsUpForNothing(Damaged):
    """Remembers that there was nothing."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        answer = super().claim(stamp, want)
        self._tables.consume(stamp, answer)
        return answer


@caught_by(
    "claim: a claim that finds nothing writes nothing", "wait: those who find nothing to do let one another sleep"
)
class AskingIsNews(Damaged):
    """Wakes everybody up when somebody asks for work."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        with self._tables.lock:
            self._tables.wake()
        return super().claim(stamp, want)


@caught_by(
    "claim: one that found nothing is stale after a later number",
    "claim: one that finds nothing is refused to the reaped and the stale",
)
class LooksBeforeItChecksTheStamp(Damaged):
    """Does not mind who asks, as long as nothing of what is asked for was remembered."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        session = self._tables.sessions[stamp.process]
        session.gone_at, session.last = None, min(session.last, stamp.n - 1)
        return super().claim(stamp, want)


@caught_by(
    "advance: an advance that changes nothing writes nothing",
    "wait: those who find nothing to do let one another sleep",
)
class JudgingIsNews(Damaged):
    """Wakes everybody up when somebody asks whether a round is over."""

    def _advance(self, run: int, round: int) -> Advanced:
        with self._tables.lock:
            self._tables.wake()
        return super()._advance(run, round)


@caught_by("beat: the paused ones of the runs it holds are told")
class TellsOfEveryPause(Damaged):
    """Names paused runs that the process has nothing of."""

    def beat(self, process: int) -> Beat:
        paused = [number for number, run in sorted(self._tables.runs.items()) if run.state is RunState.PAUSED]
        return replace(super().beat(process), paused=tuple(paused))


@caught_by("beat: every session that has not ended is a peer")
class CountsTheDeadAsPeers(Damaged):
    """Counts every session there ever was."""

    def beat(self, process: int) -> Beat:
        return replace(super().beat(process), peers=len(self._tables.sessions))


@caught_by("wait: wait says whether something may have changed")
class AlwaysTimesOut(Damaged):
    """Does not say that something changed."""

    def wait(self, seconds: float, seen: int) -> int:
        return seen or super().wait(seconds, seen)


@caught_by(
    "wait: wait says whether something may have changed",
    "wait: what a client wrote itself does not end its waits for ever",
)
class NeverSleeps(Damaged):
    """Says that something changed, whatever happened."""

    def wait(self, seconds: float, seen: int) -> int:
        return seen + 1


@caught_by("wait: all who wait at once hear of a change", "wake: wake ends the waits in progress")
class TellsOne(Damaged):
    """Lets one of the threads that wait have the news."""

    def wait(self, seconds: float, seen: int) -> int:
        found = super().wait(seconds, seen)
        with self._tables.lock:
            told = getattr(self, "_told", 0)
            self._told = max(told, found)
        return found if found > told or not seen else seen


@caught_by("wait: wait ends when another thread writes")
class DeafToItself(Damaged):
    """Takes what it writes itself for nothing new."""

    def start(self, *args: Any, **kwargs: Any) -> Started:
        with self._tables.lock:
            before = self._tables.version
            answer = super().start(*args, **kwargs)
            self._calls -= self._tables.version - before
            return answer

    def wait(self, seconds: float, seen: int) -> int:
        return super().wait(min(seconds, 0.01), seen)


@caught_by("wait: a change between two waits is not missed")
class RemembersForAll(Damaged):
    """Takes what one thread has seen for seen by all."""

    def wait(self, seconds: float, seen: int) -> int:
        last = getattr(self, "_last", 0) if seen else 0
        self._last = super().wait(min(seconds, 0.01), last)
        return seen if self._last == last else self._last


@caught_by("wake: a wake just before the wait is not lost")
class ForgetsWakes(Damaged):
    """Only wakes those who sleep already."""

    def wait(self, seconds: float, seen: int) -> int:
        self._calls = 1
        return super().wait(min(seconds, 0.01), seen)


@caught_by("wake: wake concerns one client and changes nothing")
class WakesEverybody(Damaged):
    """Wakes all clients of the place."""

    def wake(self) -> None:
        with self._tables.lock:
            self._tables.wake()


@caught_by("claim: the task of a join that brings results has those of its members")
class BringsNothing(Answering):
    """Leaves all results to be read."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(
            answer,
            claims=tuple(
                replace(claim, details={task: replace(more, results=None) for task, more in claim.details.items()})
                for claim in answer.claims
            ),
        )


@caught_by("claim: the time of the store comes with a claim")
class SaysNoTimeWithClaims(Answering):
    """Leaves the time out."""

    def bend(self, answer: Claimed, want: Want) -> Claimed:
        return replace(answer, now=0)


@caught_by("commit: the time of the store comes with a commit")
class SaysNoTimeWithCommits(Damaged):
    """Leaves the time out."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        return replace(super().commit(stamp, parts, then_claim), now=0)


@caught_by("beat: the time of the store comes with a beat")
class SaysNoTimeWithBeats(Damaged):
    """Leaves the time out."""

    def beat(self, process: int) -> Beat:
        return replace(super().beat(process), now=0)
