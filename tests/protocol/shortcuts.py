"""Tempting shortcuts in the core protocol. Each class overrides one rule of `Core`, and each must break a promise.

A class says what the shortcut is; its case in `core_cases` says why it is wrong, and
`python -m tests.protocol core/NAME` shows the shortest history that proves it. Two classes begin with "Right": they are
variants that keep every promise.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.checker import NOBODY, Label, members
from tests.protocol.core import Core, Moves
from tests.protocol.rows import (
    CANCELLED,
    CLAIM,
    COMMIT,
    DEAD,
    UP,
    Claim,
    Request,
    Run,
    Segment,
    Session,
    State,
    without,
)


class TokenAlone(Core):
    """Right: commits of a reaped process are refused by their token only, not by its session row."""

    def admits(self, session: Session, request: Request) -> bool:
        return session.last < request.n and (request.verb != CLAIM or not session.reaped)


class NoTokenGuard(Core):
    """Commit writes to whatever row covers the tasks, without comparing tokens."""

    def admits(self, session: Session, request: Request) -> bool:
        return session.last < request.n

    def guarded_row(self, s: State, request: Request) -> int | None:
        return next((k for k, row in enumerate(s.segments) if row.left & request.tasks), None)

    def execute(self, s: State, i: int, request: Request) -> Iterator[tuple[int, State]]:
        if request.tasks & s.log.over:
            yield 0, s._replace(broken="S1 a second terminal event for one life")
        else:
            yield from super().execute(s, i, request)

    def commit(self, s: State, i: int, k: int, request: Request) -> State:
        row = s.segments[k]
        others = (other._replace(left=other.left & ~request.tasks) for other in without(s.segments, k))
        rows = (row, *(other for other in others if other.left))
        return super().commit(s._replace(segments=rows), i, 0, request)


# Outcome unknown: ways to guess it.


class LooksUpToken(Core):
    """No numbers: after a lost reply the process looks for its token and draws a conclusion."""

    absent_means_applied = True
    late_delivery = False

    def admits(self, session: Session, request: Request) -> bool:
        return not session.reaped and (request.verb != CLAIM or session.last < request.n)

    def resolve(self, s: State, i: int, request: Request) -> Moves:
        if request.verb == CLAIM:
            yield from super().resolve(s, i, request)
            return
        if not self.late_delivery:
            s = s.with_session(i, s.sessions[i]._replace(late=()))
        there = self.guarded_row(s, request) is not None
        applied = self.absent_means_applied and not there
        yield Label("reconnects and looks for its token", i), False, self.believe(s, i, request, applied, there)

    def believe(self, s: State, i: int, request: Request, applied: bool, there: bool) -> State:
        me = s.sessions[i]
        broken = ""
        if applied != me.receipt:
            broken = f"S7 a process believes its commit was {'applied' if applied else 'refused'}, and it is not so"
        left = me.claim.left & ~(request.tasks if applied else 0) if me.claim else 0
        claim = me.claim._replace(left=left) if me.claim and left and (applied or there) else None
        settled = me._replace(claim=claim, doubt=None, receipt=False)
        return s.with_session(i, settled)._replace(broken=s.broken or broken)


class LooksUpTokenTooEarly(LooksUpToken):
    """The same, where the lost request may still be carried out after the look."""

    late_delivery = True


class AbsentMeansRefused(LooksUpToken):
    """The token is gone, so the commit was refused; but a final commit deletes its row itself."""

    absent_means_applied = False


class ReadsNumber(LooksUpToken):
    """The number is looked up instead of used up, so the late copy is still accepted."""

    late_delivery = True

    def admits(self, session: Session, request: Request) -> bool:
        return Core.admits(self, session, request)

    def resolve(self, s: State, i: int, request: Request) -> Moves:
        if request.verb == CLAIM:
            yield from super().resolve(s, i, request)
            return
        there = self.guarded_row(s, request) is not None
        after = self.believe(s, i, request, s.sessions[i].receipt, there)
        yield Label("reconnects and reads its last number", i), False, after


class BlindResend(LooksUpToken):
    """The commit is sent again as a new verb."""

    def resolve(self, s: State, i: int, request: Request) -> Moves:
        if request.verb == CLAIM:
            yield from super().resolve(s, i, request)
            return
        again = request._replace(n=request.n + 1)
        s = s.with_session(i, s.sessions[i]._replace(late=(), sent=again.n, doubt=again, receipt=False))
        for _mask, after in self.execute(s, i, again):
            yield Label("reconnects and sends a new commit of", i, again.tasks), False, self.settle(after, i, again)


class AlreadyMeansApplied(LooksUpToken):
    """A used-up number is taken for proof that the commit wrote something; it may have been refused by its token."""

    def admits(self, session: Session, request: Request) -> bool:
        return Core.admits(self, session, request)

    def resolve(self, s: State, i: int, request: Request) -> Moves:
        if request.verb == COMMIT and s.sessions[i].last >= request.n:
            after = self.believe(s, i, request, applied=True, there=self.guarded_row(s, request) is not None)
            yield Label("sends its commit again and is told: already", i), False, after
        else:
            yield from Core.resolve(self, s, i, request)


class ForgetsClaim(Core):
    """A claim whose reply was lost is forgotten, and another one sent."""

    def resolve(self, s: State, i: int, request: Request) -> Moves:
        if request.verb != CLAIM:
            yield from super().resolve(s, i, request)
            return
        yield Label("reconnects and forgets its claim", i), False, s.with_session(i, s.sessions[i]._replace(doubt=None))


class ClaimsForTheReaped(Core):
    """A claim is granted without asking whether its process was reaped meanwhile."""

    def admits(self, session: Session, request: Request) -> bool:
        return session.last < request.n and (request.verb == CLAIM or not session.reaped)


# Reaping.


class ReapsWholeRange(Core):
    """The reaper re-offers the range of the row instead of what is left of it."""

    forget_ranges = False

    def reap(self, s: State, i: int) -> State:
        whole = tuple(row._replace(left=row.range) if row.owner == i else row for row in s.segments)
        return super().reap(s._replace(segments=whole), i)


class ReapsRowFirst(Core):
    """The reaper marks the process in one transaction and voids its claims in another."""

    def reaping(self, s: State, i: int) -> Moves:
        yield from super().reaping(s, i)
        x = s.sessions[i]
        if x.state != UP:
            yield Label("is marked reaped, then the reaper dies", i), True, s.with_session(i, x._replace(reaped=True))


class ReapsFromSnapshot(Core):
    """The reaper writes back what it read earlier, without locking and looking again."""

    def reaping(self, s: State, i: int) -> Moves:
        yield from ()

    def work(self, s: State, i: int) -> Moves:
        me = s.sessions[i]
        if me.todo:
            into_round, read = me.todo
            kept = tuple(row for row in s.segments if not row.left & read)
            after = s._replace(segments=(*kept, Segment(into_round, read, read)))
            yield Label("re-offers what it had read:", i, read), False, after.with_session(i, me._replace(todo=()))
            return
        yield from super().work(s, i)
        for row in s.segments:
            if row.owner not in (NOBODY, i) and s.sessions[row.owner].state != UP:
                seen = me._replace(todo=(row.round, row.left))
                yield Label(f"reads that the silent p{row.owner} holds", i, row.left), False, s.with_session(i, seen)


# Rounds and cancel.


class SealsWhenClaimIsEmpty(Core):
    """A round counts as done when a claim finds nothing; but others may hold its tasks."""

    def busy(self, s: State) -> bool:
        return any(row.owner == NOBODY and row.round <= s.run.round for row in s.segments)


class CancelDeletesQueued(Core):
    """Cancel ends what is queued at this moment; claims do not look at the run's state."""

    def open_for_claims(self, run: Run, row: Segment) -> bool:
        return not self.rounds or row.round <= run.round

    def cancel_run(self, s: State) -> State:
        held = tuple(row for row in s.segments if row.owner != NOBODY)
        return self.swept(s, held)

    def sweep(self, s: State) -> Moves:
        if not s.segments:
            yield Label("the cancelled run ends"), False, s._replace(run=s.run._replace(state=CANCELLED))


class CancelSweepsOnce(CancelDeletesQueued):
    """Claims look at the state, but only the cancel itself sweeps: later rows stay for ever."""

    def open_for_claims(self, run: Run, row: Segment) -> bool:
        return Core.open_for_claims(self, run, row)


class CancelVoidsClaims(CancelSweepsOnce):
    """Right, but wasteful: cancel voids every claim at once, and finished work is thrown away."""

    def cancel_run(self, s: State) -> State:
        return self.swept(s, ())


class SubtreeBySnapshot(Core):
    """A subtree is cancelled by ending the descendants that are queued now; no mark is left for later ones."""

    def cancel_tree(self, s: State, task: int) -> State:
        under, gone, kept = self.tree.subtree[task], 0, []
        for row in s.segments:
            if row.owner == NOBODY:
                gone |= row.left & under
                row = row._replace(left=row.left & ~under)
            if row.left:
                kept.append(row)
        marked = super().cancel_tree(s, task)  # for the ghost in `claim` only: `marked` below hides it from the rules
        return marked._replace(segments=tuple(kept), log=s.log._replace(cancelled=s.log.cancelled | gone))

    def marked(self, run: Run) -> int:
        return run.asked


# One transaction made two. The first writes half, and the process means to send the other half.


class TwoTransactions(Core):
    """What a living process still means to write is excused: states are judged as if it had been written."""

    def finish(self, s: State, i: int) -> State:
        raise NotImplementedError

    def wrong(self, s: State) -> str:
        for i, x in enumerate(s.sessions):
            if x.todo and x.state != DEAD:
                s = self.finish(s, i)
        return super().wrong(s)

    def work(self, s: State, i: int) -> Moves:
        if s.sessions[i].todo:
            yield Label("sends its second transaction", i), False, self.finish(s, i)
        else:
            yield from super().work(s, i)


class ChildrenAfter(TwoTransactions):
    """Events first, children in a second transaction."""

    def commit(self, s: State, i: int, k: int, request: Request) -> State:
        children, into_round = self.tree.children[request.done], s.segments[k].round + self.rounds
        childless = super().commit(s, i, k, request)
        if not children:
            return childless
        me = childless.sessions[i]
        return childless.with_session(i, me._replace(todo=(children, into_round)))

    def publish(self, s: State, children: int, into_round: int) -> State:
        return s

    def finish(self, s: State, i: int) -> State:
        me = s.sessions[i]
        children, into_round = me.todo
        return super().publish(s.with_session(i, me._replace(todo=())), children, into_round)


class ChildrenBefore(TwoTransactions):
    """Children first, events in a second transaction, guarded like the first."""

    def commit(self, s: State, i: int, k: int, request: Request) -> State:
        children = self.tree.children[request.done]
        if not children:
            return super().commit(s, i, k, request)
        me = s.sessions[i]._replace(todo=(request.done, request.failed, request.cancelled))
        return super().publish(s.with_session(i, me), children, s.segments[k].round + self.rounds)

    def settle(self, s: State, i: int, request: Request) -> State:
        me = s.sessions[i]
        if me.todo:
            return s.with_session(i, me._replace(doubt=None))
        return super().settle(s, i, request)

    def publish(self, s: State, children: int, into_round: int) -> State:
        return s

    def finish(self, s: State, i: int) -> State:
        me = s.sessions[i]
        assert me.claim is not None
        request = Request(me.sent + 1, COMMIT, me.claim.token, *me.todo)
        s = s.with_session(i, me._replace(sent=request.n, doubt=request, todo=()))
        k = self.guarded_row(s, request)
        return self.settle(s if k is None else super().commit(s, i, k, request), i, request)


class SplitsInTwo(TwoTransactions):
    """A split shrinks the row in one transaction and inserts the claimed part in another."""

    def claim(self, s: State, i: int, k: int, mask: int) -> State:
        row = s.segments[k]
        if mask == row.left:
            return super().claim(s, i, k, mask)
        shrunk = row._replace(left=row.left & ~mask, range=row.range & ~mask)
        me = s.sessions[i]._replace(todo=(row.round, mask))
        return s._replace(segments=(*without(s.segments, k), shrunk)).with_session(i, me)

    def finish(self, s: State, i: int) -> State:
        me = s.sessions[i]
        into_round, mask = me.todo
        token = s.fresh_token()
        mine = me._replace(todo=(), claim=Claim(token, mask, 0))
        return s._replace(segments=(*s.segments, Segment(into_round, mask, mask, i, token))).with_session(i, mine)


# Lives.


class RetriesIntoOwnRound(Core):
    """Failed tasks go back to the round they were in, which may be sealed by now."""

    def reopen(self, s: State) -> State:
        again = s.log.failed
        into_round = min(self.tree.depth[task] for task in members(again))
        rows = (*s.segments, Segment(into_round, again, again))
        return super().reopen(s)._replace(segments=rows)


class SkipsWhatEverEnded(Core):
    """A claim skips tasks that have a terminal event, of any life."""

    def work(self, s: State, i: int) -> Moves:
        me = s.sessions[i]
        stale = me.claim.left & s.log.earlier if me.claim else 0
        if not me.claim or not stale:
            yield from super().work(s, i)
            return
        kept = me.claim.left & ~stale
        rows = tuple(row._replace(left=row.left & ~stale) for row in s.segments if row.left & ~stale)
        after = s._replace(segments=rows)
        mine = me._replace(claim=me.claim._replace(left=kept) if kept else None)
        yield Label("skips what has a terminal event:", i, stale), False, after.with_session(i, mine)
