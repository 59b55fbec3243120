"""The contract: the verbs every store keeps, what each promises, and what a crash inside it leaves.

Every verb is one atomic transaction: it happens whole or not at all, also when the process dies inside it, the disk is
full or the connection is lost. Tasks and events cross this seam as columns. A verb that fails raises

    StoreUnavailable   the outcome is unknown or the store is away: send the same verb again, with the same stamp
    StoreBroken        a person is needed; nothing may be assumed
    BadPayload         the arguments do not fit; nothing was written
    Reaped             this process was declared dead; its claims are void and it must enter again as a new one

*Numbered verbs* carry a `Stamp(process, n)` with n rising and one verb in flight per process. A stamp is consumed in
the verb's own transaction: delivered again, the last one answers as it did the first time (but for the time, marks and
what is left to take, which are those of the moment), and an older one raises `StaleStamp`. So an unknown outcome is
never decided from a read; it is sent again.

*A claim that finds nothing writes nothing* but rows that it puts in line (below), and not even its stamp, so that idle
processes cost no disk and wake nobody. Sent again it simply tries again. That is safe: nothing was granted, so there is
nothing a lost answer could strand; whatever a later try grants is remembered under the stamp as ever; and the next
stamp that is consumed makes this one stale. It rests on a verb being over when its call returns or raises. A store
whose verbs may still be carried out after the caller gave them up must use the stamp up all the same, and says that it
`delivers_late` when it describes itself.

*A verb that arrives late changes nothing.* Each one is numbered; or idempotent by an id (`start` and `append` by those
of what they add, `enter`, `leave`, `bury` and `drain` by the process, `note` by process and number); or it compares
before it sets: `advance` the rounds, `pause`, `resume` and the cancel of a run the number of the last decision about it
(`said.after`), `settle` and the cancel of a task its life (`said.life`). A late `reserve` wastes a block.

*One path writes ends.* Only `commit` under a valid token ends a task, and with the end it always writes the arrivals
at joins, the release of keys and the counters, in the same transaction. Reaper and canceller leave marks. (To settle a
task that nobody holds is a claim and a commit in one; the sweep of a cancelled run writes one range for many ends.)

*Limits hold for all processes together.* They are values in a space of their own (`ramify.model.limit`), so `swap`
changes them. A claim takes nothing beyond one, and puts what must wait in line, out of the way of later claims. Each
verb that makes room, or takes the head of a line away, readies the next in the same transaction, so that no place stays
free while somebody waits for it.

*Numbers of a topic are dense and follow the order of commits* (`ramify.model.topic`), so a reader misses nothing. Verbs
that end runs or failed tasks publish that themselves while somebody listens (`ramify.model.own_topics`).

*The live row is the truth.* Every published unfinished task is set in exactly one live segment, and no finished one in
any. Nothing enters the log except under a segment.

What a store does not know: handlers, policies, shapes. It never retries a task, and it keeps the rule by which a full
join's task runs or is skipped without applying it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from ramify.model.addition import Addition
from ramify.model.claim import Claimed, Want
from ramify.model.commit import Committed, Part
from ramify.model.death import Death
from ramify.model.decision import UNSAID, Said
from ramify.model.event import Status
from ramify.model.forgetting import FORGET_LIMIT, Cutoffs, Forgot
from ramify.model.join import NewJoins, NewWaiters
from ramify.model.log import LogLine
from ramify.model.mark import Mark, Settled
from ramify.model.process import NewProcess, Reap, Stamp
from ramify.model.reopening import Reopened
from ramify.model.run import Advanced, NewRun, RunState, Started
from ramify.model.task import Appended, NewTasks
from ramify.model.topic import Publication
from ramify.model.value import Swap
from ramify.store.description import Description
from ramify.store.reads import Reads

#: A process that has not beaten for this share of `dead_after` has a gap and must not reap on the strength of it.
GAP_SHARE = 2
#: Seconds in which a parent buries its child itself, because it knows more about its death than others.
LEFT_TO_PARENT = 2.0
#: How long a session outlives its process, so that late deliveries still meet it.
SESSION_SECONDS = 86_400


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat: whether this process was declared dead, and the marks on what it holds.

    `paused` are the paused runs that it holds claims of, and `time_left` the seconds until the deadlines of those that
    have one. `peers` is how many sessions have not ended, its own included: a process that died and was not reaped yet
    is still one of them. `draining`: it was asked to take nothing more, to finish what it runs, and to leave. `now` is
    the store's time.
    """

    reaped: bool = False
    marks: tuple[Mark, ...] = ()
    paused: tuple[int, ...] = ()
    peers: int = 1
    time_left: tuple[tuple[int, float], ...] = ()
    draining: bool = False
    now: int = 0


class Vacuumed(msgspec.Struct, frozen=True):
    """The effect of `vacuum`: unpublished task rows, old sessions, bytes of space, and what has expired of the rest."""

    tasks: int = 0
    keys: int = 0
    sessions: int = 0
    space: int = 0
    values: int = 0
    publications: int = 0

    @property
    def is_more(self) -> bool:
        """True if there may be more to remove."""
        return any((self.tasks, self.keys, self.sessions, self.space, self.values, self.publications))


class Store(Protocol):
    """One client of a store, used by one process. Threads may share it; its verbs take turns."""

    @property
    def reads(self) -> Reads:
        """Pages and counts for people, handlers and checks."""

    @property
    def id(self) -> str:
        """The store's own id: chosen at random when the store is created, and the same to every client for ever.

        No other store has it, except a copy that `backup` made without `new_id`. At most one read per client.
        """

    def describe(self) -> Description:
        """Say what this store is and what it survives."""

    def close(self) -> None:
        """Let go of everything. Claims stay with their process: `release` or `leave` first for a clean stop."""

    # time

    def now(self) -> int:
        """The store's clock in microseconds, the only one that due times are compared with. It never goes back.

        It comes with the answers to `claim`, `commit` and `beat` as well, so that who works need not ask for it.
        It goes on at the pace of monotonic time when the wall clock is set back, and with it when that is ahead; a
        client begins no earlier than the latest commit that the store has written down.
        """

    def wait(self, seconds: float, seen: int) -> int:
        """Sleep until something may have changed since `seen`, at most so many seconds; what there is to see by then.

        `seen` is what an earlier wait of this client came to, or 0 for a first one, which returns at once. The answer
        equals it when `seconds` passed without a change. So any number of threads may wait, each with what it has
        seen, and what changes between two waits of a thread ends the second.
        A hint: it may be late, and what a process itself wrote may end a wait of each of its threads, once.
        """

    def wake(self) -> None:
        """End the waits of this client that are in progress, and of each thread that is not in one the next."""

    # processes

    def enter(self, process: NewProcess) -> Beat:
        """Open a session for this incarnation; from now on it beats, may be reaped, and its stamps are accepted.

        It is the first beat: the answer tells how many `peers` there are, and the time.
        A crash inside leaves nothing, or a process that never beats and holds nothing.
        """

    def leave(self, process: int) -> None:
        """End the session: whatever it still holds is offered again without blame, and its stamps are refused."""

    def beat(self, process: int) -> Beat:
        """Say "alive" by the store's clock; hear whether it was reaped and of marks on the runs it holds.

        Its parent may say it in its place, through another client of the store, if it sees that the process runs.
        """

    def drain(self, process: int, said: Said = UNSAID) -> bool:
        """Ask a process to take nothing more, finish what it runs and leave; its beats tell it. False: it has ended.

        Nothing that it holds is touched. Asked again, the first time counts; there is no way back.
        """

    @property
    def records(self) -> Path | None:
        """The folder in which a process keeps a record of what it runs, for whoever buries it; None without one."""

    def bury(self, process: int, death: Death) -> int:
        """Mark a process as dead and void its claims in one transaction; how many tasks are offered again.

        For its parent, who knows that it is dead, and how it died. Its claimed rows are offered again as
        `ramify.model.blame` says; its staged rows become garbage. It writes no ends. Buried again, it stays as it is.
        """

    def reap(self, process: int, dead_after: float) -> Reap:
        """Bury dead processes: mark each and void its claims in one transaction, deciding on what it locks.

        A process is dead when the store knows it for certain (its lock is free, its machine was restarted), or when
        it has not beaten for `dead_after` seconds and the caller has itself beaten without a gap for that long.
        Each is buried as by `bury`, with what its record tells; a restart of the machine is nobody's fault. One whose
        parent lives is left to it for `LEFT_TO_PARENT` seconds.
        """

    # adding

    def reserve(self, count: int) -> int:
        """The first of `count` ids that nobody else will ever get. Gaps are normal: a crash wastes the block.

        Blocks rise: one that was asked for after another was answered, by whichever client, lies above it.
        """

    def start(
        self,
        run: NewRun,
        tasks: Sequence[NewTasks] = (),
        joins: Sequence[NewJoins] = (),
        waiters: Sequence[NewWaiters] = (),
    ) -> Started:
        """Create a run with its first tasks in one transaction, and open its first round unless it follows another.

        Starting never ends it, also when nothing of it is ready: that is for `advance` to judge.
        A key that is taken drops its task and answers with the one that holds it. If the id, or the name in that
        generation, exists, answer with that run and change nothing. The start has a place in the log, and `since` of
        the run is the place before it.
        """

    def append(self, additions: Sequence[Addition]) -> Sequence[Appended]:
        """Publish tasks from outside: all of the additions, or none.

        Idempotent by their first ids: appended again, they answer `already`. In an open run with rounds the tasks
        go to the round after the present one. An ended run refuses them. A key that is taken drops its task and answers
        with the one that holds it. A single task whose id follows the last of an unclaimed row with the same run, kind,
        queue, lane and priority extends that row instead of adding one, while the row is a few seconds young and of
        maskable width. A run that grows beyond its `max_tasks` is drained into HALTED. Joins and waiters may name
        tasks of any of the additions; where one lost its key, its holder is waited for. Who waits `behind` a task waits
        for the last that came behind it, in the order of commits, and is the last from then on. An addition that
        `opens` a run goes into the newest run of that name; if that one has ended or drains, or there is none, `opens`
        begins in the same transaction, as the next generation, and has its start in the log. The answer says which run
        it was.
        """

    # working

    def claim(self, stamp: Stamp, want: Want) -> Claimed:
        """Take segments, or the head of a large one, at most `want.limit` tasks, under fresh tokens.

        Order: a quarter (at least one row) by turns over the runs that have work, the rest by rank, then by age.
        A row that must run apart is given only to a process that holds nothing, and that process gets nothing else
        while it holds it. Of a run with `max_running`, no more than that many tasks are claimed at a time by all
        processes together; of kinds and queues under a limit, no more than have room, and `want.few` at most; a row of
        several lanes whose limit is per lane comes apart. Sent again with the same stamp it returns the same claims, or
        tries again if there were none. A crash right after it leaves claims that the reaper offers again.

        A claim that finds nothing and leaves nothing answers `next_due`: the seconds until the next row becomes due
        that the same want could take, so that a resting process wakes up for rows that others added. The answer may
        be too early, never too late: it comes from a look at a few rows, and when none of them is wanted, the last one
        counts. Gated rows and parked ones do not count, and neither do kinds, queues, runs and lanes that the want
        leaves out. In the answer to a verb that is sent again, the seconds count from that moment.
        """

    def stage(self, stamp: Stamp, token: bytes, tasks: Sequence[NewTasks]) -> bool:
        """Write rows of a streamed fan-out under staged segments, guarded by the claim's token. False: token void.

        Nothing of it is visible until a part of that claim publishes it; without that it becomes garbage. Pieces whose
        ids follow on are one range, named by its first id. Keys are resolved when it is published: a task that loses
        its key then ends as SKIPPED.
        """

    def commit(self, stamp: Stamp, parts: Sequence[Part], then_claim: Want | None = None) -> Committed:
        """Write events, children, arrivals, key releases, counters and masks, and take the next claim.

        All or nothing per part, one part per token; a part with a void token is refused, recorded and changes nothing.
        What a part sets in the context of its run is set in order; what comes too late under a name, as `after_set` of
        the model says, changes nothing there and is an OUTRUN event of its task, before the task's end.
        Keys are resolved after the guards, in order; a task's own key is free before its children ask for it. What goes
        to `later` keeps its deaths; if it awaits a run that has ended, it is due at once. A run that grows
        beyond its `max_tasks` is drained into HALTED, in the same transaction. `additions` are in other runs exactly if
        the part is applied, and open them as in `append`; so are `publications` in their topics, in the order of the
        parts. `seq` in the log follows the order of commits.
        A part with `swaps` changes values with the end of its task, or, if one of them loses, changes nothing and is
        `lost`: its task is held as before. Parts swap in order, each after those before it, and may share a token.
        """

    def release(self, stamp: Stamp, tokens: Sequence[bytes]) -> tuple[bytes, ...]:
        """Put claims back as far as they are not finished: neither failure nor crash. Return the tokens that were void.

        A row with a lane for each task comes apart: its tasks are offered again in a row for each lane.
        """

    def swap(
        self,
        stamp: Stamp,
        swaps: Sequence[Swap],
        additions: Sequence[Addition] = (),
        publications: Sequence[Publication] = (),
    ) -> bool:
        """Change values: all of them, or none if one of them is not at the version that was seen. False: it was lost.

        A value that has expired counts as absent. Versions are reserved ids, so none is ever used twice.
        `additions`, of runs that they open, and `publications` are there exactly if it is not lost: of two that move a
        reader, one adds its tasks. These may wait for each other, and for tasks that are there.
        """

    # runs

    def movable(self, limit: int) -> tuple[tuple[int, int], ...]:
        """Up to `limit` runs, by id, each with its round, that `advance` would change if it were asked now; a read.

        What a process asks that has nothing to do: whoever should have moved a run on may be gone. Its price grows with
        the runs that have not ended, hardly; with those that have, and with tasks, not at all.
        """

    def advance(self, asked: Sequence[tuple[int, int]]) -> tuple[Advanced, ...]:
        """The only judge of rounds and ends, under the run's lock, looking at all live work in one statement.

        Each run is asked for with the round at which it is believed to be, and judged in turn, all in one transaction;
        `next_move` of the model says how each goes on.

        Unless the run is open (or draining) and at that round, say where it is. Open past its deadline: drain it into
        FAILED, once. With live work of that round or an earlier one: not yet. Else open the lowest later round, if the
        run it follows allows it. With none left: end the run as `ends_as` of the model says: as what it `fails_as` when
        tasks failed that it does not tolerate, failed when joins can never fill (stalled), and as cancelled or halted
        once more when it was that before and tasks of it still are. Draining: sweep what nobody holds, and end when
        nothing is held. When nothing changes, nothing is written.

        The end of a run, by whichever verb, makes those tasks due that await it (`Later.awaits`), in its transaction.
        """

    # what people decide; `ramify.model.deciding` says what follows from it

    def cancel(
        self,
        run: int,
        task: int | None = None,
        *,
        below: bool = False,
        said: Said = UNSAID,
        into: RunState = RunState.CANCELLED,
    ) -> Settled:
        """No claim that begins after this returns starts a covered task: the run, one task, or it and all `below`.

        A run drains `into` CANCELLED or HALTED. One task: `settle` as CANCELLED. `below` is a durable mark that also
        covers descendants not yet created.
        """

    def settle(self, run: int, task: int, status: Status, value: bytes | None = None, said: Said = UNSAID) -> Settled:
        """End a task that nobody runs as DONE with a result, SKIPPED or CANCELLED; one that waits for a join as well.

        It ends in this transaction; one that is held gets a mark, which its holder hears of and the next claim honours.
        Who and why is the value of its event; of a result, that of a DECIDED event before it. A task that has ended, or
        is in another life than `said.life`, stays as it is.
        """

    def pause(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant no further claims of this run until `resume`. Ended or draining runs stay as they are.

        So do all when another decision was made since `said.after`, here and in `resume` and `cancel`. A decision that
        is allowed has a number and a place in the log, also when the run stays in its state, and is kept for good.
        """

    def resume(self, run: int, said: Said = UNSAID) -> RunState:
        """Grant claims again."""

    def reopen(
        self,
        stamp: Stamp,
        run: int,
        tasks: Sequence[int],
        *,
        settle: Mark | None = None,
        said: Said = UNSAID,
    ) -> Reopened:
        """Begin a new life for ended tasks, in a later round, under the run's lock; an ended run opens again.

        A run that had been cancelled or halted is that again when it ends with cancelled tasks in it. Keys are taken
        again; one taken by another task since keeps its task closed (superseded). A join that has not fired forgets a
        reopened member; a fired one becomes a new instance when its task is reopened with it, and is otherwise left
        alone. A reopened join task that somebody holds loses its row. Everything in this run that waited for
        them, directly or not, is reopened too. With `settle`, each named one is marked to end as that says;
        a DECIDED event says who gives a result, and why.
        A reopened task with an heir takes its place back: the heir arrives no more, and all that the task made, down to
        the last descendant, is REPLACED in the same transaction. Replaced tasks are out of every row, their keys and
        the names that they had set in the context are free, no verb changes them, and nobody finds them by their keys.
        Joins elsewhere keep what a replaced member came to; one that had not ended arrives there as cancelled. While a
        process holds one of them, nothing is reopened (`held`). It is a decision about the run, and an ended run stays
        open until `advance` judges it again.
        """

    # logs

    def note(self, process: int, lines: Sequence[LogLine]) -> None:
        """Keep log lines, all or none; a line that is here already, by process and number, is kept once.

        Not a numbered verb: it waits for no other and no other waits for it, and a process that was reaped may still
        say what it saw. Texts are cut to a sane length and made writable. Nothing of the work depends on them.
        """

    # care

    def backup(self, path: str | os.PathLike[str], *, new_id: bool = False) -> None:
        """Copy the store as it is at one moment to a new file, which is then a store of its own; others go on working.

        The copy has the id of this store, so that it can take its place; with `new_id`, an id of its own.
        An existing file is never written over: StoreRefused. A store that cannot be a file says so in the same way. A
        crash inside leaves no file of that name.
        """

    def forget(
        self,
        run: int,
        tasks: range | None = None,
        *,
        before: int | Cutoffs | None = None,
        said: Said = UNSAID,
        limit: int = FORGET_LIMIT,
        dry: bool = False,
    ) -> Forgot:
        """Remove ended work for good, at most `limit` rows; `more` says that there is more. Nothing goes by itself.

        Without `tasks`: a whole run that has ended. RunNeeded while it goes on, or while a task of another run, itself
        not forgotten, has results of it; and when another decision was made since `said.after`. The first call makes it
        FORGOTTEN, a decision about it: from then on reads of its tasks, results, errors and logs raise RunForgotten, it
        cannot be reopened, nobody can wait for its tasks, its keys are free, and every further call goes on with the
        rest, whatever it says. Its row stays, with its name, how it ended and its counts.

        With `tasks`, a range of ids: those of them that ended before `before`, which may differ by kind and by how they
        ended, and at least `SESSION_SECONDS` ago, in a run in any state, as far as `ramify.model.forgetting` lets them
        go; the others stay. Counters go down with them, `after` is the last id that was looked at. A `dry` call says
        how many would go, and changes nothing.

        With tasks go their events, keys, joins, waiters and log lines, in the same transaction; with a run its context;
        and of the log those commits of which nothing is left, but for the newest. The start of a run and the decisions
        about it stay. Cursors stay good. A crash between two calls leaves a run that is FORGOTTEN and not gone yet, or
        fewer tasks.
        """

    def vacuum(self, limit: int = 65_536, *, spare: float = 0.0) -> Vacuumed:
        """Remove up to `limit` garbage rows, expired keys, values and publications, and old sessions. Logs stay.

        Up to `limit` pages of free space go back to the file system, but for this share of all, which new work fills.
        """
