"""Broken doubles of claim and commit, keys included. See `doubles.py` for what a double is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ramify.model.addition import Addition
from ramify.model.claim import Claim, Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.death import NO_DEATHS
from ramify.model.process import Stamp, new_token
from ramify.model.segment import SegmentState
from ramify.store.memory import commits
from tests.store.doubles import Damaged, caught_by

replace = msgspec.structs.replace


# claim


@caught_by("claim: sent again with the same stamp it returns the same claims")
class ForgetsTheStampOfAClaim(Damaged):
    """Takes a claim that is sent again for a new one."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        self._tables.sessions[stamp.process].last -= stamp.n == self._tables.sessions[stamp.process].last
        return super().claim(stamp, want)


@caught_by("claim: an older stamp is stale and takes nothing")
class TakesOldStamps(Damaged):
    """Does not mind numbers that were used long ago."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        session = self._tables.session(stamp.process)
        session.last = min(session.last, stamp.n - 1)
        return super().claim(stamp, want)


@caught_by("claim: a process that was reaped is given nothing")
class GivesToTheDead(Damaged):
    """Gives work to a process that was reaped."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        self._tables.sessions[stamp.process].gone_at = None
        return super().claim(stamp, want)


class Wanting(Damaged):
    """A claim that wants something else than it was told."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        return super().claim(stamp, self.bend(want))

    def bend(self, want: Want) -> Want:
        """What is claimed instead."""
        return want


@caught_by("claim: a kind that is not named is never claimed")
class ClaimsUnknownKinds(Wanting):
    """Gives a process tasks that it cannot run."""

    def bend(self, want: Want) -> Want:
        return replace(want, kinds=frozenset(row.span.kind for row in self.rows()))


@caught_by("claim: only the wanted queues are served")
class IgnoresQueues(Wanting):
    """Serves every queue."""

    def bend(self, want: Want) -> Want:
        return replace(want, queues=None)


@caught_by("claim: only the wanted runs are served")
class IgnoresRuns(Wanting):
    """Serves every run."""

    def bend(self, want: Want) -> Want:
        return replace(want, runs=None)


@caught_by("claim: busy lanes are left alone")
class IgnoresLanes(Wanting):
    """Does not leave busy lanes alone."""

    def bend(self, want: Want) -> Want:
        return replace(want, busy_lanes=frozenset())


@caught_by("claim: at most limit tasks are taken and the rest stays", "claim: a limit of nothing gives nothing")
class IgnoresTheLimit(Wanting):
    """Gives whole rows."""

    def bend(self, want: Want) -> Want:
        return replace(want, limit=1_000_000)


@caught_by("claim: a small new run is served beside a large old one", "claim: every run gets its turn")
class OldestRunFirst(Wanting):
    """Has no turns: one run is served until nothing is left of it."""

    def bend(self, want: Want) -> Want:
        ready = sorted(self.rows(SegmentState.READY), key=lambda row: (row.rank, row.id))
        return want if want.runs is not None or not ready else replace(want, runs=frozenset([ready[0].run]))


@caught_by("claim: a run that comes after one was served alone is next")
class ForgetsWhoHadTheTurn(Damaged):
    """Begins each time with the oldest run."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        self._turn = 0
        return super().claim(stamp, want)


@caught_by("claim: nothing is given before it is due", "claim: a parked task is never due")
class ClaimsTheFuture(Damaged):
    """Does not look at due times."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        with self.bent(self.rows(), "due", None):
            return super().claim(stamp, want)


@caught_by("claim: a lower priority number is served first", "claim: a level is a head start of a minute and no more")
class IgnoresPriority(Damaged):
    """Serves by age alone."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        with self.bent(self.rows(), "rank", 0):
            return super().claim(stamp, want)


@caught_by("claim: among equals the oldest is first")
class NewestFirst(Damaged):
    """Serves the newest first."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        for row in self.rows():
            row.rank *= -1
        answer = super().claim(stamp, want)
        for row in self.rows():
            row.rank *= -1
        return answer


@caught_by("claim: who holds something gets no suspect but hears of them", "claim: a suspect row is given alone")
class SuspectsInCompany(Damaged):
    """Gives suspects out like any other row."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        with self.bent(self.rows(SegmentState.READY), "deaths", NO_DEATHS):
            return super().claim(stamp, want)


@caught_by("claim: who holds a suspect gets nothing else")
class CompanyForSuspects(Damaged):
    """Gives more to a process that holds a suspect."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        with self.bent(self.rows(SegmentState.CLAIMED), "deaths", NO_DEATHS):
            return super().claim(stamp, want)


@caught_by("claim: tokens are fresh every time")
class ReusesTokens(Damaged):
    """Gives a row the token it had before."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        answer = super().claim(stamp, want)
        same = Claimed(tuple(map(self._with_old_token, answer.claims)), answer.suspects)
        self._tables.sessions[stamp.process].answer = same
        return same

    def _with_old_token(self, claim: Claim) -> Claim:
        row = self._tables.tokens.pop(claim.token)
        row.token = b"%d" % row.first
        row.owner = self._tables.tokens.get(row.token, row).owner
        self._tables.tokens[row.token] = row
        return replace(claim, token=row.token)


@caught_by(
    "claim: at most limit tasks are taken and the rest stays",
    "claim: a wide row is split before any of its tasks is claimed",
)
class LosesATaskInTheSplit(Damaged):
    """Begins the rest of a split row one task too far."""

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        firsts = {row.id: row.first for row in self.rows(SegmentState.READY)}
        answer = super().claim(stamp, want)
        for row in self.rows(SegmentState.READY):
            row.first += firsts.get(row.id, row.first) != row.first and row.first < row.last
        return answer


# commit


@caught_by("commit: a void token changes nothing", "commit: the token of another process is void")
class NoTokenGuard(Damaged):
    """Applies whatever comes, to the row in which the task is now."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        return super().commit(stamp, [self._force(stamp, part) for part in parts], then_claim)

    def _force(self, stamp: Stamp, part: Part) -> Part:
        row = self._tables.covering(part.tasks[0]) if part.tasks else None
        if row is None:
            return part
        row.state, row.owner, row.token = SegmentState.CLAIMED, stamp.process, row.token or new_token()
        self._tables.tokens[row.token] = row
        return replace(part, token=row.token)


class Committing(Damaged):
    """A commit that is changed before, or after, or both."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        answer = super().commit(stamp, [self.bend(part) for part in parts], then_claim)
        self.after(stamp, parts, answer)
        return answer

    def bend(self, part: Part) -> Part:
        """What is committed instead."""
        return part

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        """What is done afterwards."""


@caught_by("commit: a refused part is recorded", "commit: the late commit of a reaped process is refused and recorded")
class ForgetsRefusals(Damaged):
    """Keeps no record of what came too late."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        try:
            return super().commit(stamp, parts, then_claim)
        finally:
            self._tables.refusals.clear()


@caught_by("commit: a refused part does not harm the others")
class OneForAll(Damaged):
    """Refuses the whole batch when one part is void."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        if not all(part.token in self._tables.tokens for part in parts):
            parts = [replace(part, token=new_token()) for part in parts]
        return super().commit(stamp, parts, then_claim)


@caught_by("commit: how long an attempt took is in its event")
class ForgetsHowLongItTook(Committing):
    """Keeps an outcome without its time."""

    def bend(self, part: Part) -> Part:
        return replace(part, took={})


@caught_by("commit: a refused part does not harm the others", "commit: a token nobody gave out changes nothing")
class WritesChildrenOfRefusedParts(Committing):
    """Publishes children although their parent's end was refused."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for part in parts:
            if part.token in answer.refused and part.children:
                self.append([Addition(max(self._tables.runs), part.children)])


@caught_by(
    "commit: sent again with the same stamp it answers as the first time",
    "commit: sent again after its row was finished it still answers as the first time",
)
class ForgetsTheStampOfACommit(Damaged):
    """Takes a commit that is sent again for a new one."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        self._tables.sessions[stamp.process].last -= stamp.n == self._tables.sessions[stamp.process].last
        known = [part for part in parts if part.token in self._tables.tokens]
        return super().commit(stamp, known, then_claim)


@caught_by("commit: what a partial commit does not name stays claimed")
class PutsTheRestBack(Committing):
    """Takes a partial commit for the last one."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for part in parts:
            row = self._tables.tokens.get(part.token)
            if row is not None:
                commits.put_back(self._tables, row)


@caught_by("commit: children land in the round after their parents and wait for it")
class ChildrenInTheSameRound(Committing):
    """Lets an open round grow."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for row in self.rows(SegmentState.GATED):
            row.round, row.state = row.round - 1, SegmentState.READY


@caught_by("commit: the next claim is taken in the same verb")
class ForgetsTheNextClaim(Damaged):
    """Does not claim."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        return super().commit(stamp, parts, None)


@caught_by(
    "commit: an end is one event and the task leaves its row", "commit: empty and missing values are different things"
)
class ForgetsValues(Committing):
    """Writes empty values as none."""

    def bend(self, part: Part) -> Part:
        return replace(part, values=None)


@caught_by("commit: every way to end is kept and counted", "reads: counters say what happened")
class ForgetsToCount(Committing):
    """Writes ends and no counters."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for counter in [key for key in self._tables.counters if key[3]]:
            del self._tables.counters[counter]


@caught_by(
    "commit: the next claim knows the attempts that were used", "commit: a crash forgets no attempt and uses none"
)
class ForgetsAttempts(Committing):
    """Treats a task that was tried as one that was not."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for row in self.rows():
            row.attempt = 0


@caught_by("commit: a later task leaves the claim and comes back when it is due")
class NothingIsLater(Committing):
    """Offers what should come back later at once."""

    def after(self, stamp: Stamp, parts: Sequence[Part], answer: Committed) -> None:
        for row in self.rows(SegmentState.READY):
            row.due = None


@caught_by("commit: what awaits a run that has ended by now is due at once")
class WaitsForWhatIsOver(Committing):
    """Does not look whether a run that is awaited has ended."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        for run in self._tables.runs.values():
            run.ended = None
        return super().commit(stamp, parts, then_claim)


@caught_by("commit: a task that the claim does not hold is refused")
class OverlooksStrangers(Committing):
    """Drops outcomes of tasks that are not in the claim, without a word."""

    def bend(self, part: Part) -> Part:
        row = self._tables.tokens.get(part.token)
        return part if row is None else replace(part, tasks=[task for task in part.tasks if row.covers(task)])


@caught_by(
    "keys: unique holds across runs until the end",
    "keys: a failed or cancelled job frees its key",
    "keys: an end frees the key of the task that ended only",
)
class NeverFreesKeys(Damaged):
    """Forgets to free the keys of what ended."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        held = dict(self._tables.keys)
        answer = super().commit(stamp, parts, then_claim)
        self._tables.keys.update(held)
        return answer


@caught_by("keys: the key of a refused part does not win")
class KeysBeforeGuards(Damaged):
    """Drops equal keys in a batch before it knows which parts are valid."""

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        seen: set[bytes | None] = set()
        kept = []
        for part in parts:
            fresh = [group for group in part.children if not seen & set(group.keys or ())]
            seen.update(key for group in part.children for key in group.keys or ())
            kept.append(replace(part, children=fresh))
        return super().commit(stamp, kept, then_claim)
