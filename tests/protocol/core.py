"""The protocol: claim, split, commit, release, reap, advance, cancel, reopen, under every fault we could think of.

Read it from the top: `moves` says who may act, `execute` is the store carrying out one numbered verb (P1), `claim`,
`commit` and `release` are the three verbs of a process, the rest is done by whoever comes by. One run is modelled.

Checked in every reachable state:
  S1  one terminal event per task and life            S2  children exactly once, together with their parent's end
  S3  every published unfinished task is set in exactly one live row, no finished task in any
  S4  a sealed round never grows, and nothing of an unopened round is claimed
  S5  a run that says it ended has no live row        S6  no claim made after a cancel starts what was cancelled
  S7  no process is ever wrong about its own commit   L   with no further faults the run can end

Limits: verbs are atomic (statements interleave in the small models only); a process holds one claim; 2 to 4 tasks and
the budgets of `Faults`; which row a claim takes is free, which covers every priority; reaping waits for nothing, time
is in `beat` and `outage`; keys, joins, waiters and staged rows have models of their own.
A reply that nobody loses is read at once, which nobody else can tell from later. A lost re-send adds nothing: it is a
second copy of the same number.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.checker import NOBODY, Label
from tests.protocol.rows import (
    CANCELLED,
    CANCELLING,
    CLAIM,
    COMMIT,
    DEAD,
    DONE,
    FROZEN,
    RELEASE,
    RUNNING,
    TREES,
    UP,
    Claim,
    Faults,
    Log,
    Request,
    Run,
    Segment,
    Session,
    State,
    Tree,
    canonical,
    singles,
    without,
)

Moves = Iterator[tuple[Label, bool, State]]


class Core:
    """The right protocol. A shortcut is a subclass that overrides one of its rules."""

    #: only a shortcut that looks at a row's whole range needs to remember it
    forget_ranges = True

    def __init__(self, tree: str, processes: int = 2, rounds: bool = True, **faults: int) -> None:
        self.tree = Tree(TREES[tree])
        self.processes = processes
        self.rounds = rounds
        self.faults = Faults(**faults)

    def start(self) -> State:
        roots = self.tree.roots
        return State(Run(), (Segment(0, roots, roots),), Log(roots), (Session(),) * self.processes, self.faults)

    def ended(self, s: State) -> bool:
        return s.run.state in (DONE, CANCELLED)

    def canonical(self, s: State) -> State:
        return canonical(s, self.matters, self.forget_ranges)

    def moves(self, s: State) -> Moves:
        anyone_up = any(x.state == UP for x in s.sessions)
        for i, session in enumerate(s.sessions):
            if session.state == UP:
                yield from self.work(s, i)
            yield from self.mishaps(s, i)
            if anyone_up and not session.reaped:
                yield from self.reaping(s, i)
        if sum(x.state != DEAD for x in s.sessions) < self.processes or not anyone_up:
            yield Label("a new process starts"), False, s._replace(sessions=(*s.sessions, Session()))
        if anyone_up:
            yield from self.advance(s)
        yield from self.people(s)

    # What a process does.

    def work(self, s: State, i: int) -> Moves:
        """One verb at a time: while an outcome is in doubt, settling it comes first."""
        me = s.sessions[i]
        if me.doubt is not None:
            yield from self.resolve(s, i, me.doubt)
            return
        if me.reaped:
            left = me._replace(state=DEAD, claim=None, todo=())
            yield (
                Label("learns from its beat that it was reaped and drops everything", i),
                False,
                s.with_session(i, left),
            )
        if me.claim and (news := self.marked(s.run) & me.claim.left & ~me.claim.told):
            told = me._replace(claim=me.claim._replace(told=me.claim.told | news))
            yield Label("learns from its beat of a cancel of", i, news), False, s.with_session(i, told)
        for request, faults in self.wishes(s, i):
            fault = faults is not s.faults
            sent = s._replace(faults=faults).with_session(i, me._replace(sent=request.n, doubt=request))
            for mask, after in self.execute(sent, i, request):
                yield Label(outcome(request), i, mask or request.tasks), fault, self.settle(after, i, request)
            if faults.lost:
                me_lost = me._replace(sent=request.n, doubt=request, late=(*me.late, request))
                lost = s._replace(faults=faults.less("lost")).with_session(i, me_lost)
                yield Label(f"loses the connection over its {request.verb}", i, request.tasks), True, lost

    def wishes(self, s: State, i: int) -> Iterator[tuple[Request, Faults]]:
        """The verbs this process may send now: a claim, or a commit of any part of what it holds."""
        me, n = s.sessions[i], s.sessions[i].sent + 1
        if me.claim is None:
            if self.choices(s):
                yield Request(n, CLAIM), s.faults
            return
        token, left, told = me.claim
        part = left
        while part:
            cancelled, ran = part & told, part & ~told
            yield Request(n, COMMIT, token, done=ran, cancelled=cancelled), s.faults
            for name in ("fail", "defer"):
                if getattr(s.faults, name):
                    for one in singles(ran):
                        odd = {"failed" if name == "fail" else "deferred": one}
                        yield Request(n, COMMIT, token, ran & ~one, cancelled=cancelled, **odd), s.faults.less(name)
            part = (part - 1) & left
        if s.faults.release:
            yield Request(n, RELEASE, token), s.faults.less("release")

    def resolve(self, s: State, i: int, request: Request) -> Moves:
        """Outcome unknown: send the same verb with the same number again (P1). Nothing is decided from a read."""
        for mask, after in self.execute(s, i, request):
            label = Label(f"reconnects and sends its {request.verb} again", i, mask or request.tasks)
            yield label, False, self.settle(after, i, request)

    def settle(self, s: State, i: int, request: Request) -> State:
        """The process reads the answer. A repeated claim returns the row stamped the first time; whether a repeated
        commit wrote anything is answered from its commit row, since a used number may also stand for a refusal."""
        me = s.sessions[i]
        claim = None
        if request.verb == CLAIM:
            for row in s.segments:
                if row.owner == i:
                    claim = Claim(row.token, row.left, row.left & self.marked(s.run))
        elif request.verb == COMMIT and me.claim and me.receipt and (left := me.claim.left & ~request.tasks):
            claim = Claim(me.claim.token, left, me.claim.told & left)
        return s.with_session(i, me._replace(claim=claim, doubt=None, receipt=False))

    # What the store does: each verb is one transaction.

    def execute(self, s: State, i: int, request: Request) -> Iterator[tuple[int, State]]:
        """Carry out one numbered verb; yields (tasks claimed, next state), once per row a claim could take."""
        if not self.admits(s.sessions[i], request):
            yield 0, s
            return
        s = s.with_session(i, s.sessions[i]._replace(last=request.n))
        if request.verb == CLAIM:
            choices = self.choices(s)
            for at, mask in choices:
                yield mask, self.claim(s, i, at, mask)
            if not choices:
                yield 0, s
            return
        k = self.guarded_row(s, request)
        if k is None:
            yield 0, s
        elif request.verb == COMMIT:
            yield 0, self.commit(s, i, k, request)
        else:
            yield 0, s._replace(segments=(*without(s.segments, k), s.segments[k].offered()))

    def admits(self, session: Session, request: Request) -> bool:
        """P1: the number must be new and the process not reaped; one UPDATE of the session row decides both."""
        return session.last < request.n and not session.reaped

    def matters(self, s: State, session: Session, request: Request) -> bool:
        """Could this late request still change anything?"""
        if not self.admits(session, request):
            return False
        return request == session.doubt or request.verb == CLAIM or self.guarded_row(s, request) is not None

    def choices(self, s: State) -> list[tuple[int, int]]:
        """(row, tasks to take): a whole row, or its head split off."""
        found = []
        for k, row in enumerate(s.segments):
            if row.owner == NOBODY and self.open_for_claims(s.run, row):
                found.append((k, row.left))
                if (head := row.left & -row.left) != row.left:
                    found.append((k, head))
        return found

    def open_for_claims(self, run: Run, row: Segment) -> bool:
        """P6: claims need a running run. P4: and an open round."""
        return run.state == RUNNING and (not self.rounds or row.round <= run.round)

    def claim(self, s: State, i: int, k: int, mask: int) -> State:
        """Shrink and insert are one transaction; the token is new, so nothing issued earlier can match it."""
        row = s.segments[k]
        doomed = mask & (self.tree.subtree[s.run.trees] | s.run.asked)
        whole = row.range if mask == row.left else mask
        segments = (*without(s.segments, k), Segment(row.round, mask, whole, i, s.fresh_token(), doomed))
        if rest := row.left & ~mask:
            segments = (*segments, Segment(row.round, rest, row.range & ~mask))
        broken = "" if s.run.state == RUNNING else "S6 a task starts after the run was cancelled"
        return s._replace(segments=segments, broken=s.broken or broken)

    def marked(self, run: Run) -> int:
        """P6: marks are found by walking parents, so they hold for descendants that do not exist yet."""
        return self.tree.subtree[run.trees] | run.asked

    def guarded_row(self, s: State, request: Request) -> int | None:
        """The fence: the row that carries this very token, if there is one."""
        for k, row in enumerate(s.segments):
            if row.token == request.token and row.owner != NOBODY:
                return k
        return None

    def commit(self, s: State, i: int, k: int, request: Request) -> State:
        """Events, mask and children in one transaction (P2, P3)."""
        row = s.segments[k]
        s = self.write_ends(s, i, row, request)
        segments = without(s.segments, k)
        if left := row.left & ~request.tasks:
            segments = (*segments, row._replace(left=left))
        if request.deferred:
            segments = (*segments, Segment(row.round, request.deferred, request.deferred))
        return self.publish(s._replace(segments=segments), self.tree.children[request.done], row.round + self.rounds)

    def write_ends(self, s: State, i: int, row: Segment, request: Request) -> State:
        log, sender, broken = s.log, s.sessions[i], s.broken
        if request.tasks & log.over:
            broken = broken or "S1 a second terminal event for one life"
        if (request.done | request.failed) & row.doomed:
            broken = broken or "S6 a task ran although its cancel came before the claim"
        if sender.doubt and sender.doubt.n == request.n:
            sender = sender._replace(receipt=True)
        elif sender.state != DEAD and not sender.reaped:
            broken = broken or "S7 a commit is applied that its process had settled as not applied"
        log = log._replace(
            done=log.done | request.done,
            failed=log.failed | request.failed,
            cancelled=log.cancelled | request.cancelled,
        )
        return s.with_session(i, sender)._replace(log=log, broken=broken)

    def publish(self, s: State, children: int, into_round: int) -> State:
        if not children:
            return s
        broken = "S2 children are published a second time" if children & s.log.published else ""
        return s._replace(
            log=s.log._replace(published=s.log.published | children),
            segments=(*s.segments, Segment(into_round, children, children)),
            broken=s.broken or broken,
        )

    # What goes wrong.

    def mishaps(self, s: State, i: int) -> Moves:
        x, faults = s.sessions[i], s.faults
        if x.state == UP and faults.freeze:
            frozen = s._replace(faults=faults.less("freeze")).with_session(i, x._replace(state=FROZEN))
            yield Label("is frozen", i), True, frozen
        if x.state == FROZEN:
            yield Label("thaws", i), True, s.with_session(i, x._replace(state=UP))
        if x.state != DEAD and faults.crash:
            dead = x._replace(state=DEAD, claim=None, doubt=None, receipt=False, todo=())
            yield Label("is killed", i), True, s._replace(faults=faults.less("crash")).with_session(i, dead)
        for place, request in enumerate(x.late):
            arrived = s.with_session(i, x._replace(late=without(x.late, place)))
            for mask, after in self.execute(arrived, i, request):
                yield Label(f"has its lost {request.verb} carried out after all", i, mask or request.tasks), True, after

    # What others do for the run.

    def reaping(self, s: State, i: int) -> Moves:
        if s.sessions[i].state != UP:
            yield Label("is reaped", i), False, self.reap(s, i)
        elif s.faults.false_reap:
            yield Label("is reaped though alive", i), True, self.reap(s._replace(faults=s.faults.less("false_reap")), i)

    def reap(self, s: State, i: int) -> State:
        """P10: mark the process and void its claims in one transaction, by what is locked now. No end is written."""
        segments = tuple(row.offered() if row.owner == i else row for row in s.segments)
        return s._replace(segments=segments).with_session(i, s.sessions[i]._replace(reaped=True))

    def advance(self, s: State) -> Moves:
        """P4: under the run's lock, one look at all live work. `run.round` never decreases."""
        run = s.run
        if run.state == CANCELLING:
            yield from self.sweep(s)
        elif run.state == RUNNING and not self.busy(s):
            if later := [row.round for row in s.segments if self.rounds and row.round > run.round]:
                yield Label(f"advance opens round {min(later)}"), False, s._replace(run=run._replace(round=min(later)))
            else:
                yield Label("advance ends the run"), False, s._replace(run=run._replace(state=DONE))

    def busy(self, s: State) -> bool:
        """Is there live work of this round or an earlier one, claimed or not?"""
        return any(not self.rounds or row.round <= s.run.round for row in s.segments)

    def sweep(self, s: State) -> Moves:
        """P6: what nobody holds ends here; what is held ends with its commit, or comes back and is swept later."""
        held = tuple(row for row in s.segments if row.owner != NOBODY)
        if held and len(held) == len(s.segments):
            return
        yield Label("advance sweeps the cancelled run"), False, self.swept(s, held)

    def swept(self, s: State, held: tuple[Segment, ...]) -> State:
        gone = sum(row.left for row in s.segments if row not in held)
        state = CANCELLING if held else CANCELLED
        log = s.log._replace(cancelled=s.log.cancelled | gone)
        return s._replace(run=s.run._replace(state=state), segments=held, log=log)

    def people(self, s: State) -> Moves:
        run, faults = s.run, s.faults
        if faults.cancel_run and run.state == RUNNING:
            yield Label("the run is cancelled"), True, self.cancel_run(s._replace(faults=faults.less("cancel_run")))
        if run.state in (RUNNING, CANCELLING):
            for one in singles(s.log.published):
                if faults.cancel_tree and not run.trees & one:
                    after = self.cancel_tree(s._replace(faults=faults.less("cancel_tree")), one)
                    yield Label("somebody cancels the subtree of", tasks=one), True, after
                if faults.cancel_task and not (s.log.over | run.asked) & one:
                    after = self.cancel_task(s._replace(faults=faults.less("cancel_task")), one)
                    yield Label("somebody cancels task", tasks=one), True, after
        if faults.reopen and s.log.failed and run.state in (RUNNING, DONE):
            after = self.reopen(s._replace(faults=faults.less("reopen")))
            yield Label("the failed tasks are reopened", tasks=s.log.failed), True, after
        if faults.take_back:
            for k, row in enumerate(s.segments):
                if row.owner != NOBODY:
                    after = s._replace(segments=(*without(s.segments, k), row.offered()))
                    label = Label("loses its row, and only its row: somebody retries", row.owner, row.left)
                    yield label, True, after._replace(faults=faults.less("take_back"))

    def cancel_run(self, s: State) -> State:
        """P6: a state, not a deletion."""
        return s._replace(run=s.run._replace(state=CANCELLING))

    def cancel_tree(self, s: State, task: int) -> State:
        """P6: a durable mark, honoured by every later claim."""
        return s._replace(run=s.run._replace(trees=s.run.trees | task))

    def cancel_task(self, s: State, task: int) -> State:
        """P6: holding the covering row; unclaimed, it is cancelled for certain; claimed, it is asked for."""
        for k, row in enumerate(s.segments):
            if row.left & task and row.owner == NOBODY:
                kept = (row._replace(left=row.left & ~task),) if row.left != task else ()
                log = s.log._replace(cancelled=s.log.cancelled | task)
                return s._replace(segments=(*without(s.segments, k), *kept), log=log)
        return s._replace(run=s.run._replace(asked=s.run.asked | task))

    def reopen(self, s: State) -> State:
        """P5: a new life, always in a later round, because the round they failed in may be sealed."""
        again = s.log.failed
        log = s.log._replace(failed=0, earlier=s.log.earlier | again)
        row = Segment(s.run.round + self.rounds, again, again)
        return s._replace(run=s.run._replace(state=RUNNING), segments=(*s.segments, row), log=log)

    # What must hold.

    def wrong(self, s: State) -> str:
        if s.broken:
            return s.broken
        run, log, offered = s.run, s.log, 0
        for row in s.segments:
            if offered & row.left:
                return "S3 a task is set in two live rows"
            offered |= row.left
            if self.rounds and row.round < run.round:
                return "S4 a sealed round has live tasks"
            if self.rounds and row.round > run.round and row.owner != NOBODY:
                return "S4 tasks of a round that is not open are claimed"
        unfinished = log.published & ~log.over
        if unfinished & ~offered:
            return "S3 a published unfinished task is in no live row: lost"
        if offered & ~unfinished:
            return "S3 a finished task is offered again"
        if log.published != self.tree.roots | self.tree.children[log.done]:
            return "S2 the published children are not those of the done tasks"
        if self.ended(s) and s.segments:
            return "S5 the run says it ended and has live rows"
        return ""


def outcome(request: Request) -> str:
    extra = [word for word in ("failed", "cancelled", "deferred") if getattr(request, word)]
    return f"{request.verb}s" + (f" (some {', '.join(extra)})" if extra else "")
